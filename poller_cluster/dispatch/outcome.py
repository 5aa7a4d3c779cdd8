"""From what an attempt came to, to the outcome of its row. Pure."""

from collections.abc import Callable

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Claim
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.ids import UnixMillis, due_of
from scheduler_service.domain.options import ScheduleOptions
from scheduler_service.domain.retry import Decision, GiveUp, RetryAt, decide
from scheduler_service.domain.retry_rows import IN_DOUBT
from scheduler_service.domain.schedules import Outcome, State

DESTINATION_OPEN = "destination-open"
"""The receiver's host keeps failing: its breaker is open."""
HEADERS_LOCKED = "headers-locked"
"""The key ring of this node has no key that opens its headers."""
BEHIND_ITS_KEY = "ordering"
"""An earlier row of the same ordering key has not ended."""


def conclude(
    claim: Claim,
    result: AttemptResult,
    *,
    options: ScheduleOptions,
    settings: ClientSettings,
    epoch: int,
    incarnation: str,
    now: int,
    jitter: Callable[[], float],
) -> Outcome:
    """The outcome after an attempt that ended at `now` (Unix ms): delivered, failed, or retrying with its instant.

    An attempt of which nothing was sent says nothing of one that an earlier owner may have made: the doubt stays.
    """
    attempts = (claim.row.attempt_base or 0) + 1
    first = claim.first_attempt_at or UnixMillis(result.started_at_ms)
    if result.succeeded:
        return Outcome(
            state=State.DELIVERED,
            attempts=attempts,
            first_attempt_at=first,
            finished_at=UnixMillis(now),
            last_status=result.status,
            fired_by=incarnation,
            fired_epoch=epoch,
        )
    decision = decide(
        options.retry_settings(settings.retry),
        attempt=options.attempts_counted(attempts),
        status=result.status,
        nothing_sent=result.nothing_sent,
        final=result.final,
        retry_after_seconds=result.retry_after_seconds,
        due_ms=options.deadline_from(due_of(claim.row.schedule_id), first),
        now_ms=now,
        jitter=jitter(),
        at_most_once=settings.in_doubt == "drop",
    )
    state, reason, next_at = _read(decision)
    if next_at is not None and result.nothing_sent and (claim.redelivery or options.in_doubt):
        reason = IN_DOUBT
    return Outcome(
        state=state,
        attempts=attempts,
        first_attempt_at=first,
        next_attempt_at=next_at,
        finished_at=None if next_at is not None else UnixMillis(now),
        last_status=result.status,
        last_error=result.error,
        reason=reason,
        fired_by=incarnation,
        fired_epoch=epoch,
    )


def _read(decision: Decision) -> tuple[State, str | None, UnixMillis | None]:
    match decision:
        case RetryAt(at_ms=at):
            return State.RETRYING, None, UnixMillis(at)
        case GiveUp(reason=reason):
            return State.FAILED, reason, None


def until_open_again(
    claim: Claim, *, options: ScheduleOptions, settings: ClientSettings, at: UnixMillis, now: int
) -> Outcome | None:
    """The outcome of a row whose host is left alone until about `at`; None: call it all the same.

    The deadline of its retries holds: a row that would come back after it has failed. But none fails untried: a row
    without any attempt is called at its deadline, whatever the host is said to be; so is one that has not been deferred
    yet, since its due may lie far back only because we were away. No end comes before the instant that it is the end
    of: whoever asks for the schedule once more names a later one than all before.
    """
    row = claim.row
    in_doubt = claim.redelivery or options.in_doubt
    if in_doubt and settings.in_doubt == "drop":
        return None
    deadline_ms = round(options.retry_settings(settings.retry).deadline_seconds * 1000)
    first = claim.first_attempt_at
    if at > options.deadline_from(due_of(row.schedule_id), first) + deadline_ms:
        if not options.attempts_counted(row.attempt_base or 0):
            return None if row.is_retry_row else defer(claim, at=at, in_doubt=in_doubt, reason=DESTINATION_OPEN)
        return Outcome(
            state=State.FAILED,
            # The number of an attempt that may have been made is not used again.
            attempts=(row.attempt_base or 0) + in_doubt,
            first_attempt_at=first,
            finished_at=UnixMillis(max(now, row.due)),
            reason="deadline",
            last_status=claim.last_status,
            last_error=claim.last_error,
        )
    return defer(claim, at=at, in_doubt=in_doubt, reason=DESTINATION_OPEN)


def defer(claim: Claim, *, at: UnixMillis, in_doubt: bool, reason: str) -> Outcome:
    """Retrying at `at` or right after its own instant, whichever is later: a row that named itself would wait for ever.
    No attempt is counted; what the last one came to stays as it is.

    Rows that may not be called now, requeued without counting an attempt so that their minute can settle. Pure.

    The row becomes a pointer like a failed attempt's, `retrying` with the same number of attempts; its retry row comes
    back at the instant named. Nothing was sent for it, so nothing may be forgotten either: a row in doubt stays in
    doubt."""
    return Outcome(
        state=State.RETRYING,
        attempts=claim.row.attempt_base or 0,
        first_attempt_at=claim.first_attempt_at,
        next_attempt_at=UnixMillis(max(at, claim.row.due + 1)),
        last_status=claim.last_status,
        last_error=claim.last_error,
        reason=IN_DOUBT if in_doubt else reason,
    )
