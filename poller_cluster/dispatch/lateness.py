"""Why a call starts late: what its row was held for, and for the rest of the time what hindered its node or client.

Rows that are held, parked or deferred carry their own `Waits`. Everything else that delays calls does so to all rows of
a node or of a client, so it is remembered once, as `Stretches` of time, and laid over the time of a call that turns out
late. So a call on time costs a comparison.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.request import Prepared, Sender
from scheduler_service.domain.schedules import Outcome
from scheduler_service.domain.waits import LATE_MS, OVERDUE_RATE_HELD, Waits

STRETCHES_KEPT = 16
"""Of each kind; older ones are forgotten, and with them the cause of calls that are later than those."""
LEAST_REST_MS = 100
"""A rest below that is no cause of its own where there are others."""


class Stretches:
    """The last stretches of time in which something held. All instants are Unix milliseconds."""

    __slots__ = ("_past", "_since")

    def __init__(self) -> None:
        self._past: deque[tuple[int, int]] = deque(maxlen=STRETCHES_KEPT)
        self._since: int | None = None

    def begin(self, at: int) -> None:
        """It holds from `at` on, unless it does already."""
        if self._since is None:
            self._since = at

    def end(self, at: int) -> None:
        if self._since is not None:
            self._past.append((self._since, at))
            self._since = None

    def within(self, start: int, end: int) -> int:
        """For how many milliseconds from `start` to `end` it held."""
        if not self._past and self._since is None:
            return 0
        known = sum(max(min(end, until) - max(start, since), 0) for since, until in self._past)
        return known + (0 if self._since is None else max(end - max(start, self._since), 0))


class Hindered(Protocol):
    """A client, as its rows are: `inactive`, when it was suspended or paused, `full`, when it had no room for further
    claims, and `overdue`, when overdue rows were held back by a rate."""

    @property
    def inactive(self) -> Stretches: ...

    @property
    def full(self) -> Stretches: ...

    @property
    def overdue(self) -> Stretches: ...


class Doubts:
    """When this node could not be sure to be alone, or of its clock, and therefore started nothing."""

    def __init__(self, *, wall_ms: Callable[[], int], trusted: Callable[[], bool]) -> None:
        self.trust, self.clock = Stretches(), Stretches()
        self._wall_ms = wall_ms
        self._trusted = trusted
        self.last = False
        """Whether one lasts."""

    def begin(self) -> None:
        now, self.last = self._wall_ms(), True
        if self._trusted():
            self.trust.end(now)
            self.clock.begin(now)
        else:
            self.trust.begin(now)

    def end(self) -> None:
        now, self.last = self._wall_ms(), False
        self.trust.end(now)
        self.clock.end(now)


def explained(
    prepared: Prepared | Outcome | None,
    job: Job,
    sender: Sender,
    client: Hindered,
    doubts: Doubts,
    *,
    now: int,
) -> Prepared | Outcome | None:
    """What became of a row that is late or retried, at `now` (Unix ms). What it has waited for is recorded with its
    attempt (`Job.fired_by`), or in the outcome that it gets without one; deferrals record it themselves."""
    if prepared is None or (isinstance(prepared, Outcome) and not prepared.state.ended):
        return prepared
    job.count_parked(now)
    claim = job.claim
    row, waits = claim.row, Waits() if claim.waits is None else claim.waits
    due = row.due
    late = now - due
    if late > LATE_MS and late - waits.leg_ms > LEAST_REST_MS:
        # Its minute may have waited for a place in recovery meanwhile; as a row it was held for a part of that.
        overdue_ms = client.overdue.within(due, now) - waits.ms_of(OVERDUE_RATE_HELD)
        created = 0 if row.is_retry_row else max(row.created_at or 0, claim.found_at) - due
        for cause, ms in (
            ("trust", doubts.trust.within(due, now)),
            ("clock", doubts.clock.within(due, now)),
            ("client-inactive", client.inactive.within(due, now)),
            (OVERDUE_RATE_HELD, overdue_ms if claim.overdue else 0),
            ("late-create", created),
            ("takeover", job.owner.began_ms - due),
            ("quota", late if job.over_quota else 0),
            ("in-flight", client.full.within(due, now)),
        ):
            if ms > 0:
                waits.add(cause, min(ms, late - waits.leg_ms))
        rest = late - waits.leg_ms
        if rest > LEAST_REST_MS:
            waits.add("node", rest)
    job.fired_by = waits.text(sender.incarnation)
    return msgspec.structs.replace(prepared, fired_by=job.fired_by) if isinstance(prepared, Outcome) else prepared
