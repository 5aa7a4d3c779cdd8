"""From the result of an attempt to the outcome of its row. Pure."""

from collections.abc import Callable

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Claim
from scheduler_service.domain.acknowledgements import ACCEPTED, AWAITING, deadline_at
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.ids import MAX_DUE, UnixMillis, due_of
from scheduler_service.domain.notices import NOTICE_MS
from scheduler_service.domain.options import ScheduleOptions, Undecodable, decode_options
from scheduler_service.domain.retry import Decision, GiveUp, RetryAt, decide
from scheduler_service.domain.retry_rows import IN_DOUBT, next_instant, says_in_doubt
from scheduler_service.domain.schedules import Outcome, Row, State
from scheduler_service.domain.verbs import CRON_STOPPED, NOT_AGAIN, SNOOZED, Heeded, heed
from scheduler_service.domain.waits import Waits

RECEIVER_OPEN = "receiver-open"
"""The receiver's host keeps failing: its breaker is open."""
HEADERS_LOCKED = "headers-locked"
"""The key ring of this node has no key that decrypts the row's headers."""
DESTINATION_DELETED = "destination-deleted"
"""The destination that the row's callback names does not exist any more."""
DESTINATION_LOCKED = "destination-locked"
"""The key ring of this node has no key that decrypts the destination."""
TOKEN_UNAVAILABLE = "token-unavailable"
"""The token endpoint of the row's destination gives no token now."""
BEHIND_ITS_KEY = "ordering"
"""An earlier row of the same ordering key has not ended."""
OVERLAP = "overlap"
"""Another run of the same cron had not ended: this one was skipped, or cancelled in favour of a later one."""
FLOW_FULL = "flow"
"""The row's flow key has its calls under way, or its rate is used up."""
LONG_CALLS_FULL = "long-calls"
"""The row's client, or this node, has as many long calls under way as it may have."""


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
    """The outcome after an attempt that ended at `now` (Unix ms): delivered, failed, or retrying with its instant; also
    retrying while the receiver's word is awaited (`domain.acknowledgements`).

    If nothing was sent and an earlier owner may have called, the row stays in doubt. A verb that the result heeds
    decides before its status.
    """
    attempts = (claim.row.attempt_base or 0) + 1
    first = claim.first_attempt_at or UnixMillis(result.started_at_ms)
    if result.heeded is not None and result.heeded.obeyed is not None:
        at = None if result.heeded.at is None else next_instant(claim.row.options, result.heeded.at)
        stopped = result.heeded.verb == "stop-cron"
        ended = State.DELIVERED if result.succeeded else State.FAILED
        return Outcome(
            state=ended if at is None else State.RETRYING,
            attempts=attempts,
            first_attempt_at=first,
            next_attempt_at=at,
            finished_at=UnixMillis(now) if at is None else None,
            last_status=result.status,
            reason=SNOOZED if at is not None else CRON_STOPPED if stopped else NOT_AGAIN,
            fired_by=incarnation,
            fired_epoch=epoch,
            redelivered_at=at,
            redelivered_after=None if at is None else attempts,
        )
    if options.ack is not None and result.status == ACCEPTED:
        return Outcome(
            state=State.RETRYING,
            attempts=attempts,
            first_attempt_at=first,
            next_attempt_at=deadline_at(now + round(options.ack.within_seconds * 1000), attempts=attempts),
            last_status=result.status,
            reason=AWAITING,
            fired_by=incarnation,
            fired_epoch=epoch,
        )
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
        due_ms=options.deadline_from(
            due_of(claim.row.schedule_id), first, row_due=max(claim.row.due, result.started_at_ms)
        ),
        now_ms=now,
        jitter=jitter(),
        at_most_once=options.at_most_once(settings),
    )
    state, reason, next_at = read_decision(decision, claim.row.options)
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


def heeded(
    claim: Claim, result: AttemptResult, *, options: ScheduleOptions, settings: ClientSettings, now: int
) -> Heeded | None:
    """What becomes of the verb in an answer that came by `now` (Unix ms); None: there is none."""
    if result.asked is None:
        return None
    before = 0 if options.redelivery is None else options.redelivery.at
    # The events of a notice are kept for little longer than it is tried.
    latest = due_of(claim.row.schedule_id) + NOTICE_MS if options.notice else MAX_DUE
    return heed(
        result.asked,
        allowed=settings.receiver_verbs,
        attempts=(claim.row.attempt_base or 0) + 1,
        horizon_days=settings.horizon_days,
        at_most_once=options.at_most_once(settings),
        of_fire=options.cron is not None,
        earliest=max(claim.row.due, before) + 1,
        now=now,
        latest=latest,
    )


def read_decision(decision: Decision, options: str | None) -> tuple[State, str | None, UnixMillis | None]:
    """State, reason and next attempt of a row with these options."""
    match decision:
        case RetryAt(at_ms=at):
            return State.RETRYING, None, next_instant(options, at)
        case GiveUp(reason=reason):
            return State.FAILED, reason, None


def held_back_until(claim: Claim, *, settings: ClientSettings, seconds: float, now: int) -> Outcome | None:
    """`until_open_again` of a row as stored, whose breaker is open for about `seconds`."""
    try:
        options = decode_options(claim.row.options)
    except Undecodable:
        return None
    at = UnixMillis(now + max(round(seconds * 1000), 1))
    return until_open_again(claim, options=options, settings=settings, at=at, now=now)


def until_open_again(
    claim: Claim, *, options: ScheduleOptions, settings: ClientSettings, at: UnixMillis, now: int
) -> Outcome | None:
    """The outcome of a row whose breaker is open until about `at`; None: call it all the same.

    A row that would come back after the deadline of its retries fails. But no row fails without an attempt: past the
    deadline, a row without attempts is deferred once, since its due may be long past only because of an outage of ours;
    as a retry row it is then called although the breaker is open. `finished_at` is never before the row's own instant,
    so that a later redelivery gets a later instant than all before.
    """
    row = claim.row
    in_doubt = claim.redelivery or options.in_doubt
    if in_doubt and options.at_most_once(settings):
        return None
    deadline_ms = round(options.retry_settings(settings.retry).deadline_seconds * 1000)
    first = claim.first_attempt_at
    # A row that is deferred gets another instant: what it was held back for before counts, too.
    held_ms = 0 if claim.waits is None else claim.waits.ms_of(RECEIVER_OPEN)
    if at > options.deadline_from(due_of(row.schedule_id), first, row_due=row.due - held_ms) + deadline_ms:
        if not options.attempts_counted(row.attempt_base or 0):
            return None if row.is_retry_row else defer(claim, at=at, in_doubt=in_doubt, reason=RECEIVER_OPEN)
        return Outcome(
            state=State.FAILED,
            # In doubt: an attempt may have been made under the next number, which must not be used again.
            attempts=(row.attempt_base or 0) + in_doubt,
            first_attempt_at=first,
            finished_at=UnixMillis(max(now, row.due)),
            reason="deadline",
            last_status=claim.last_status,
            last_error=claim.last_error,
        )
    return defer(claim, at=at, in_doubt=in_doubt, reason=RECEIVER_OPEN)


def overlapping(row: Row, now: int) -> Outcome:
    """The outcome of a cron's run that is skipped because another one has not ended."""
    return Outcome(
        state=State.SKIPPED, attempts=row.attempt_base or 0, finished_at=UnixMillis(max(now, row.due)), reason=OVERLAP
    )


def defer(claim: Claim, *, at: UnixMillis, in_doubt: bool, reason: str, behind: str | None = None) -> Outcome:
    """The outcome that requeues a row that may not be called now, so that its minute can settle.

    The row becomes a pointer as after a failed attempt, `retrying` with the same number of attempts and the same last
    status and error; its retry row is due at `at`, or right after the row's own instant if that is later: a row that
    pointed to itself would wait for ever. Nothing was sent, so a row in doubt stays in doubt. The time until then is
    counted as waited for `reason` (`domain.waits`), `behind` this schedule if that is known."""
    at = next_instant(claim.row.options, max(at, claim.row.due + 1))
    waits = Waits() if claim.waits is None else claim.waits
    return Outcome(
        state=State.RETRYING,
        attempts=claim.row.attempt_base or 0,
        first_attempt_at=claim.first_attempt_at,
        next_attempt_at=at,
        last_status=claim.last_status,
        last_error=claim.last_error,
        reason=IN_DOUBT if in_doubt else reason,
        fired_by=waits.deferred(reason, at - claim.row.due, behind=behind),
    )


def defer_for(claim: Claim, seconds: float, *, now: int, reason: str) -> Outcome:
    """`defer` of a row as stored until so many seconds after `now` (Unix ms)."""
    at = UnixMillis(now + max(round(seconds * 1000), 1))
    return defer(claim, at=at, in_doubt=claim.redelivery or says_in_doubt(claim.row.options), reason=reason)
