"""From what an attempt came to, to the outcome of its row. Pure."""

from collections.abc import Callable

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.minute.steps import Claim
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.copies import IN_DOUBT
from scheduler_service.domain.ids import UnixMillis, due_of
from scheduler_service.domain.options import ScheduleOptions
from scheduler_service.domain.retry import Decision, GiveUp, RetryAt, decide
from scheduler_service.domain.schedules import Outcome, State


def conclude(
    claim: Claim,
    result: AttemptResult,
    *,
    options: ScheduleOptions,
    settings: ClientSettings,
    epoch: int,
    life: str,
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
            fired_by=life,
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
        fired_by=life,
        fired_epoch=epoch,
    )


def _read(decision: Decision) -> tuple[State, str | None, UnixMillis | None]:
    match decision:
        case RetryAt(at_ms=at):
            return State.RETRYING, None, UnixMillis(at)
        case GiveUp(reason=reason):
            return State.FAILED, reason, None
