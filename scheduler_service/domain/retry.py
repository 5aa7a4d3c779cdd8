"""When a failed attempt is repeated. Pure: the same values give the same decision.

    delay before attempt n + 1 = min(cap, base x 2^(n-1)) x (1/2 .. 1)

Exponential backoff with equal jitter: half of the delay is kept, half is random ("Exponential Backoff And Jitter",
AWS Architecture Blog, 2015). A receiver's Retry-After raises the delay, up to the cap and up to the deadline.
"""

from dataclasses import dataclass
from typing import Literal

from scheduler_service.domain.clients import RetrySettings as RetryPolicy

__all__ = ["Decision", "GiveUp", "GiveUpReason", "RetryAt", "RetryPolicy", "decide"]

GiveUpReason = Literal["refused", "final-status", "in-doubt", "at-most-once", "exhausted", "deadline"]
"""Why no further attempt is made.

refused       refused by the engine (network policy, a URL that can't be called), and would be again
final-status  the receiver answered a status that the client calls final
in-doubt      at most once, and no answer came: the receiver may have been called
at-most-once  at most once, and the receiver was called: it answered
exhausted     that was the last attempt
deadline      the next attempt would come too late
"""

_LARGEST_EXPONENT = 32
"""Keeps 2^n small; every cap that can be configured is reached well before."""


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Try again at `at_ms` (Unix milliseconds)."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No further attempt is made."""

    reason: GiveUpReason


Decision = RetryAt | GiveUp


def decide(
    policy: RetryPolicy,
    *,
    attempt: int,
    status: int | None,
    nothing_sent: bool,
    final: bool,
    retry_after_seconds: float | None,
    due_ms: int,
    now_ms: int,
    jitter: float,
    at_most_once: bool,
) -> Decision:
    """The decision after failed attempt number `attempt`, which ended at `now_ms`. Attempts count from 1, and from 1
    again after a redelivery.

    `status`, `nothing_sent`, `final` and `retry_after_seconds` are the attempt's. The deadline counts from `due_ms`:
    the schedule's due, or the first attempt if that was later (an outage must not use up the retries). `jitter` is
    uniform in [0, 1).
    """
    if final:
        return GiveUp("refused")
    if status is not None and status in policy.final_statuses:
        return GiveUp("final-status")
    if at_most_once and not nothing_sent:
        return GiveUp("in-doubt" if status is None else "at-most-once")
    if attempt >= policy.max_attempts:
        return GiveUp("exhausted")
    deadline_ms = due_ms + round(policy.deadline_seconds * 1000)
    at_ms = now_ms + max(round(backoff_seconds(policy, attempt=attempt, jitter=jitter) * 1000), 1)
    if at_ms > deadline_ms:
        return GiveUp("deadline")
    if retry_after_seconds is not None:
        asked_ms = now_ms + round(min(retry_after_seconds, policy.cap_seconds) * 1000)
        at_ms = max(at_ms, min(asked_ms, deadline_ms))
    return RetryAt(at_ms)


def backoff_seconds(policy: RetryPolicy, *, attempt: int, jitter: float) -> float:
    """The delay after attempt number `attempt` (from 1), between half and the whole of the exponential one."""
    whole = min(policy.cap_seconds, policy.base_seconds * 2.0 ** min(attempt - 1, _LARGEST_EXPONENT))
    return whole * (0.5 + 0.5 * jitter)
