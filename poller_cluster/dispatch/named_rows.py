"""Rows whose destination can't be called: they fail or are deferred. Pure.

    gone      fails without an attempt (`DESTINATION_DELETED`)
    locked    deferred for half a minute to a minute, as rows with locked headers are (`DESTINATION_LOCKED`)
    paused    deferred to the next *look*, with no attempt counted (`DESTINATION_PAUSED`)

Looks
-----
The looks at a paused destination follow from the instant of its pause alone, so all its rows, on all nodes, wait for
the same one: half of the time that it has been paused then apart, at least `SHORTEST_MS` and at most `LONGEST_MS`.
Rows that are due at the same instant are called in the order of their ids, which begin with the schedule's due. So
after a resume all rows that waited are called at the next look, in the order of their dues, within the limits of the
destination. Each look at which it is still paused costs a write of each row.

At most `ROWS_A_MINUTE` rows of a poller wait for one destination in the same minute, fewer if its own rate is lower;
further ones wait for the next minutes, so that no partition is too large and no minute takes very long. If the resume
comes between such minutes, their rows are not in order. Each node counts by itself, so after a takeover there may be
twice as many.

A late policy counts on during a pause: a row is skipped once the destination is still paused so long after its due. The
time from the resume to the look is not counted (`PendingRow.learn`). No pause ends a row otherwise: after it each row
is attempted, whatever the deadline of its retries.
"""

from typing import Final, TypeAlias

from poller_cluster.clients import ServedClient
from poller_cluster.destinations import ServedDestination
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.outcome import DESTINATION_DELETED, DESTINATION_LOCKED, defer, defer_for
from scheduler_service.domain.ids import (
    MINUTE_MS,
    ClientId,
    Minute,
    PollerId,
    UnixMillis,
    due_of,
    minute_of,
    minute_start,
    poller_of,
)
from scheduler_service.domain.options import NO_OPTIONS, ScheduleOptions, Undecodable, decode_options
from scheduler_service.domain.retry_rows import DESTINATION_PAUSED, says_in_doubt
from scheduler_service.domain.schedules import Outcome, State

LOCKED_SECONDS: Final = 30.0
"""A row that no key decrypts comes back after this time to twice of it, until one does."""
SHORTEST_MS: Final = 30_000
LONGEST_MS: Final = 600_000
"""From one look at a paused destination to the next."""
LOOK_LEAD_MS: Final = 1_000
"""A row is not deferred to a look that comes sooner: its retry row would be late."""
ROWS_A_MINUTE: Final = 5_000
_FEWEST_ROWS: Final = 50
_COUNTED: Final = 4_096
"""Looks for which rows are counted; beyond, those that have passed are forgotten."""
_Look: TypeAlias = tuple[ClientId, PollerId, str, int]
"""A poller's rows for one look at a destination, by its name and Unix milliseconds."""


def next_look(paused_at: int, after: int) -> int:
    """The first look that is later than `after`. All are Unix milliseconds."""
    look = min(paused_at, after)
    began = look
    while look <= after:
        apart = min(max((look - began) // 2, SHORTEST_MS), LONGEST_MS)
        # From here on they are evenly apart: a pause may last for years.
        ahead = (after - look) // apart if apart == LONGEST_MS else 0
        look += apart * max(ahead, 1)
    return look


class NamedRows:
    """Judges the rows of one node."""

    def __init__(self) -> None:
        self._filling: dict[_Look, tuple[Minute, int]] = {}
        """The minute that rows are deferred to now, and how many were."""

    def judge(
        self, claim: Claim, client: ServedClient, name: str, *, now: int, judged_at: int, fraction: float
    ) -> Outcome | None:
        """The outcome that a row gets without being called now; None: its destination can be called. `now` is Unix
        milliseconds, `judged_at` the same by the clock that judges lateness; `fraction` is random, from 0 to 1."""
        destination = client.destinations.get(name)
        if destination is None:
            return gone(claim, now=now)
        if destination.callable:
            return None
        options = _options(claim)
        in_doubt = claim.redelivery or options.in_doubt
        if in_doubt and options.at_most_once(client.settings):
            # It will fail without a call (`dispatch.request`).
            return None
        if destination.paused_at is None:
            return locked(claim, now=now, fraction=fraction)
        if not in_doubt and _is_late(claim, options, destination, judged_at):
            end = UnixMillis(max(now, claim.row.due))
            return Outcome(state=State.SKIPPED, attempts=0, finished_at=end, reason="late")
        at = self._look(claim, client, destination, destination.paused_at, now=now)
        return defer(claim, at=at, in_doubt=in_doubt, reason=DESTINATION_PAUSED)

    def _look(
        self, claim: Claim, client: ServedClient, destination: ServedDestination, paused_at: int, *, now: int
    ) -> UnixMillis:
        at = next_look(paused_at, max(now + LOOK_LEAD_MS, claim.row.due))
        look = client.client_id, poller_of(claim.row.schedule_id), destination.name, at
        most, rate = ROWS_A_MINUTE, destination.limit.max_per_second
        if rate is not None:
            most = min(max(int(rate * MINUTE_MS / 1000 / max(client.quota, 1)), _FEWEST_ROWS), most)
        if look not in self._filling and len(self._filling) >= _COUNTED:
            self._filling = {known: filled for known, filled in self._filling.items() if known[-1] >= now}
        minute, rows = self._filling.get(look, (minute_of(at), 0))
        if rows >= most:
            minute, rows = Minute(minute + 1), 0
        self._filling[look] = minute, rows + 1
        return UnixMillis(max(at, minute_start(minute)))


def gone(claim: Claim, *, now: int) -> Outcome:
    """The end of a row whose destination was deleted. `finished_at` is never before the row's own instant, so that a
    later redelivery gets a later instant than all before."""
    in_doubt = claim.redelivery or says_in_doubt(claim.row.options)
    return Outcome(
        state=State.FAILED,
        # In doubt: an attempt may have been made under the next number, which must not be used again.
        attempts=(claim.row.attempt_base or 0) + in_doubt,
        first_attempt_at=claim.first_attempt_at,
        finished_at=UnixMillis(max(now, claim.row.due)),
        reason=DESTINATION_DELETED,
        last_status=claim.last_status,
        last_error=claim.last_error,
    )


def locked(claim: Claim, *, now: int, fraction: float, reason: str = DESTINATION_LOCKED) -> Outcome:
    """The outcome that defers a row of which this node's key ring can't decrypt something."""
    return defer_for(claim, LOCKED_SECONDS * (1 + fraction), now=now, reason=reason)


def _options(claim: Claim) -> ScheduleOptions:
    """Options that can't be decoded count as none: their row fails when its destination can be called."""
    try:
        return decode_options(claim.row.options)
    except Undecodable:
        return NO_OPTIONS


def _is_late(claim: Claim, options: ScheduleOptions, destination: ServedDestination, at: int) -> bool:
    row = claim.row
    skip_after = options.skip_after_ms(destination.settings.late_policy)
    if skip_after is None or row.attempt_base:
        return False
    found_at = 0 if row.is_retry_row else claim.found_at
    return at - max(due_of(row.schedule_id), found_at) > skip_after
