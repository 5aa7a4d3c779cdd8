"""The next state after an attempt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_service.domain.retry import Decision, GiveUp, RetryAt, RetryPolicy, backoff_seconds, decide

DUE = 1_700_000_000_000
DEFAULT = RetryPolicy()


def after(policy: RetryPolicy = DEFAULT, **differing: Any) -> Decision:
    values: dict[str, Any] = {
        "attempt": 1,
        "status": 500,
        "nothing_sent": False,
        "final": False,
        "retry_after_seconds": None,
        "due_ms": DUE,
        "now_ms": DUE,
        "jitter": 0.0,
        "at_most_once": False,
    }
    return decide(policy, **(values | differing))


@pytest.mark.parametrize("status", [None, 301, 400, 404, 429, 500, 503, 999])
def test_everything_else_is_retried(status: int | None) -> None:
    assert after(status=status) == RetryAt(DUE + 2500)


@pytest.mark.parametrize(
    ("attempt", "jitter", "seconds"),
    [(1, 0.0, 2.5), (1, 0.999999999, 5), (2, 0.0, 5), (2, 0.5, 7.5), (7, 0.0, 160), (8, 0.0, 300), (9, 0.5, 450)],
)
def test_exponential_delay_with_half_jitter_up_to_the_cap(attempt: int, jitter: float, seconds: float) -> None:
    assert after(attempt=attempt, jitter=jitter) == RetryAt(DUE + round(seconds * 1000))


def test_statuses_the_client_calls_final() -> None:
    assert after(status=410) == GiveUp("final-status")
    assert after(RetryPolicy(final_statuses=(404,)), status=404) == GiveUp("final-status")
    assert isinstance(after(RetryPolicy(final_statuses=(404,)), status=410), RetryAt)


def test_our_own_refusals_are_final() -> None:
    assert after(status=None, nothing_sent=True, final=True) == GiveUp("refused")


def test_the_last_attempt() -> None:
    assert isinstance(after(attempt=9), RetryAt)
    assert after(attempt=10) == GiveUp("exhausted")
    assert after(RetryPolicy(max_attempts=1)) == GiveUp("exhausted")


def test_the_deadline_counts_from_due() -> None:
    policy = RetryPolicy(deadline_seconds=60)
    assert after(policy, now_ms=DUE + 57_500) == RetryAt(DUE + 60_000)
    assert after(policy, now_ms=DUE + 57_501) == GiveUp("deadline")


def test_retry_after_raises_the_delay_up_to_cap_and_deadline() -> None:
    assert after(retry_after_seconds=120) == RetryAt(DUE + 120_000)
    assert after(retry_after_seconds=1) == RetryAt(DUE + 2500)
    assert after(retry_after_seconds=10**9) == RetryAt(DUE + 600_000)
    assert after(RetryPolicy(deadline_seconds=60), retry_after_seconds=120) == RetryAt(DUE + 60_000)


def test_at_most_once_retries_only_what_was_surely_not_sent() -> None:
    assert after(status=None, nothing_sent=True, at_most_once=True) == RetryAt(DUE + 2500)
    assert after(status=None, at_most_once=True) == GiveUp("in-doubt")
    assert after(status=503, at_most_once=True) == GiveUp("at-most-once")


@given(
    attempt=st.integers(1, 100),
    jitter=st.floats(0, 1, exclude_max=True),
    base=st.floats(0.1, 3600),
    cap=st.floats(0.1, 86_400),
    retry_after=st.none() | st.floats(0, 1e9),
    waited=st.integers(0, 10**9),
)
def test_never_now_never_past_cap_or_deadline(
    attempt: int, jitter: float, base: float, cap: float, retry_after: float | None, waited: int
) -> None:
    policy = RetryPolicy(max_attempts=100, base_seconds=base, cap_seconds=cap)
    decision = after(policy, attempt=attempt, jitter=jitter, retry_after_seconds=retry_after, now_ms=DUE + waited)
    if isinstance(decision, RetryAt):
        assert DUE + waited < decision.at_ms <= DUE + waited + cap * 1000 + 1
        assert decision.at_ms <= DUE + policy.deadline_seconds * 1000
    whole = backoff_seconds(policy, attempt=attempt, jitter=1.0)
    assert whole / 2 <= backoff_seconds(policy, attempt=attempt, jitter=jitter) <= whole <= cap
