"""Retry rows that are no calls: a receiver's word about acknowledged work, or its deadline. Pure.

    acknowledged       delivered
    receiver-failed    a failed attempt: retried by policy, or failed for good
    awaiting           the deadline came before a word: the same

Nothing is sent, so such a row is not claimed, and ends when it is due, whatever room its client has. One that an
earlier owner may have handled is not in doubt: it ends as it would have there.
"""

from collections.abc import Callable

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.outcome import read_decision
from scheduler_service.domain.acknowledgements import ACCEPTED, ACKNOWLEDGED, NOT_ACKNOWLEDGED, RECEIVER_FAILED
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.options import NO_OPTIONS, ScheduleOptions, Undecodable, decode_options
from scheduler_service.domain.retry import decide
from scheduler_service.domain.schedules import Outcome, State


def end_of_wait(claim: Claim, client: ServedClient, *, now: int, jitter: Callable[[], float]) -> Outcome:
    """The outcome of a row with a `word`, at `now` (Unix ms). The incarnation and the fence of the attempt stay."""
    row, settings = claim.row, client.settings_for(claim.row.url)
    options, attempts = _options(claim), row.attempt_base or 0
    end = UnixMillis(max(now, row.due))
    if claim.word == ACKNOWLEDGED:
        return Outcome(
            state=State.DELIVERED,
            attempts=attempts,
            first_attempt_at=claim.first_attempt_at,
            finished_at=end,
            last_status=ACCEPTED,
            reason=ACKNOWLEDGED,
        )
    decision = decide(
        options.retry_settings(settings.retry),
        attempt=options.attempts_counted(attempts),
        status=ACCEPTED,
        nothing_sent=False,
        final=False,
        retry_after_seconds=None,
        # Neither the wait uses up the retries, nor that nobody was there, or the client held, when it was over.
        due_ms=end,
        now_ms=end,
        jitter=jitter(),
        at_most_once=settings.in_doubt == "drop",
    )
    state, reason, next_at = read_decision(decision, row.options)
    return Outcome(
        state=state,
        attempts=attempts,
        first_attempt_at=claim.first_attempt_at,
        next_attempt_at=next_at,
        finished_at=None if next_at is not None else end,
        last_status=ACCEPTED,
        last_error=RECEIVER_FAILED if claim.word == RECEIVER_FAILED else NOT_ACKNOWLEDGED,
        reason=reason,
    )


def _options(claim: Claim) -> ScheduleOptions:
    try:
        return decode_options(claim.row.options)
    except Undecodable:
        return NO_OPTIONS
