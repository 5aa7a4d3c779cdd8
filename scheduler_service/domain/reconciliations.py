"""A reconciliation: one action on all schedules due in a window that are in certain states. Pure.

    running --the window is exhausted--> finished
       `------somebody stops it--------> stopped --its last slice is counted--> stopped, closed

What was asked for is inserted once; what came of it is `state`, `version` and `progress`, changed by conditional writes
only, each of which adds one to `version` (null: nobody has written any yet). So a slice of the window has exactly one
writer whose counts stay, however many nodes work on it. The place to go on is in the same write as the counts of
everything before it, so they always fit each other.

    counts: sum of `seen` = sum of `outcomes` = rows of the window, up to the place to go on, that the action is about

A row is counted where it was found, once: as the slice that was written found it, and that is also right where an
earlier try at the same slice was cut short. What such a try has redelivered or cancelled is known by its instant,
which is not before the reconciliation's own.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, NewType, TypeVar
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import ClientId, Minute, PollerId, RowKey, ScheduleId, UnixMillis, minute_of
from scheduler_service.domain.schedules import Kind, State
from scheduler_service.runtime.randomness import Randomness

K = TypeVar("K")

ReconciliationId = NewType("ReconciliationId", UUID)
"""A UUID of version 7 (RFC 9562): the millisecond of its request, then 74 random bits. Newer ones sort later."""
MAX_RUNNING = 10
"""Reconciliations of one client that run at the same time."""
SLOT_BUCKETS = 8
"""Partitions that the slots of all clients are in. Frozen: stored slots are found by it."""

_RANDOM_B = 62


class Action(StrEnum):
    REPORT = "report"
    """Count, and nothing else."""
    REDELIVER = "redeliver"
    CANCEL = "cancel"


class ReconciliationState(StrEnum):
    """`running` is never stored: it is the absence of an end."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"


HANDLED: Mapping[Action, tuple[State, ...]] = {
    Action.REPORT: tuple(State),
    Action.REDELIVER: (State.DELIVERED, State.FAILED, State.SKIPPED),
    Action.CANCEL: (State.SCHEDULED, State.RETRYING),
}
"""The states that an action can be about."""


class Seen(StrEnum):
    """What became of a row that a reconciliation was about."""

    COUNTED = "counted"
    """There was nothing to be done."""
    REDELIVERED = "redelivered"
    """By this reconciliation, or by others since it was asked for."""
    CANCELLED = "cancelled"
    """Likewise; or, where it was to be redelivered, before."""
    OPEN = "open"
    """It was not redelivered: somebody else had it called again, and it has not ended yet."""
    IN_FLIGHT = "in-flight"
    """It was not cancelled: a node had claimed it."""
    CHANGED = "changed"
    """It was in another state by the time it was looked at."""
    GONE = "gone"
    """It is not kept any more."""
    REFUSED = "refused"
    """It can't be handled; the log of the node says why."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far it has come: the place to go on is behind the row `after` of `minute` (None: at its start). `lead`: the
    instant up to which redeliveries were given theirs. `closed`, of one that was stopped: what was done behind the
    place by then is counted, too."""

    minute: Minute
    after_due: UnixMillis | None = None
    after_id: UUID | None = None
    seen: dict[State, int] = {}
    outcomes: dict[Seen, int] = {}
    lead: UnixMillis = UnixMillis(0)
    closed: bool = False

    @property
    def after(self) -> RowKey | None:
        if self.after_due is None or self.after_id is None:
            return None
        return RowKey(self.after_due, ScheduleId(self.after_id))


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules of `client_id` with start <= due < end that are in one of `states`. `created_by`: who asked for it.
    `version` None: nothing of what follows was written yet."""

    client_id: ClientId
    reconciliation_id: ReconciliationId
    action: Action
    start: UnixMillis
    end: UnixMillis
    states: tuple[State, ...]
    created_at: UnixMillis
    created_by: str
    state: ReconciliationState = ReconciliationState.RUNNING
    version: int | None = None
    progress: Progress
    updated_at: UnixMillis

    @property
    def running(self) -> bool:
        return self.state is ReconciliationState.RUNNING

    @property
    def settled(self) -> bool:
        """It has ended, and what it did is counted."""
        return self.state is ReconciliationState.FINISHED or self.progress.closed

    @property
    def minutes_total(self) -> int:
        """Minutes that the window has a part of."""
        return minute_of(self.end - 1) - minute_of(self.start) + 1

    @property
    def minutes_done(self) -> int:
        if self.state is ReconciliationState.FINISHED:
            return self.minutes_total
        return min(max(self.progress.minute - minute_of(self.start), 0), self.minutes_total)


class ReviewedRow(NamedTuple):
    """What a reconciliation takes of a row."""

    due: UnixMillis
    schedule_id: ScheduleId
    kind: str | None
    created_at: UnixMillis | None
    state: str | None
    finished_at: UnixMillis | None
    redelivered_at: UnixMillis | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)

    @property
    def original(self) -> bool:
        """Copies stand for originals; a pointer whose definition is to come is nobody's create yet."""
        return self.created_at is not None and self.kind != Kind.RETRY_ROW

    @property
    def shown_state(self) -> State:
        return State(self.state or State.SCHEDULED)


class ReviewPage(NamedTuple):
    """Rows of one partition in key order. `more`: rows may follow."""

    rows: list[ReviewedRow]
    more: bool


class Slot(NamedTuple):
    """One of the `MAX_RUNNING` places that a client has for what runs, and who had it last."""

    client_id: ClientId
    number: int
    holder: ReconciliationId


def new_reconciliation_id(*, at: int, randomness: Randomness) -> ReconciliationId:
    """An id for what is asked for at `at` (Unix milliseconds)."""
    value = at << 80 | 0x7 << 76 | randomness.bits(12) << 64 | 0b10 << _RANDOM_B | randomness.bits(_RANDOM_B)
    return ReconciliationId(UUID(int=value))


def asked_at(reconciliation_id: UUID) -> UnixMillis:
    return UnixMillis(reconciliation_id.int >> 80)


def concerned(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
    """Whether it is about a row as it was found: one in a state that was asked for, or that has left it by such a
    reconciliation's doing."""
    return row.original and (row.shown_state in reconciliation.states or handled(reconciliation, row))


def handled(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
    """Whether what was asked for was done to it since."""
    since = reconciliation.created_at
    match reconciliation.action:
        case Action.REDELIVER:
            return row.redelivered_at is not None and row.redelivered_at >= since
        case Action.CANCEL:
            return row.state == State.CANCELLED and row.finished_at is not None and row.finished_at >= since
        case Action.REPORT:
            return False


def advanced(
    reconciliation: Reconciliation,
    *,
    following: tuple[Minute, RowKey | None] | None,
    seen: Mapping[State, int],
    outcomes: Mapping[Seen, int],
    lead: int,
    at: int,
) -> Reconciliation:
    """The reconciliation once a slice was done. `following`: the place to go on; None: the window is exhausted."""
    known = reconciliation.progress
    minute, after = following or (Minute(minute_of(reconciliation.end - 1) + 1), None)
    return msgspec.structs.replace(
        reconciliation,
        state=ReconciliationState.FINISHED if following is None else reconciliation.state,
        version=next_version(reconciliation),
        updated_at=UnixMillis(at),
        progress=Progress(
            minute=minute,
            after_due=None if after is None else after.due,
            after_id=None if after is None else after.schedule_id,
            seen=_sum(known.seen, seen),
            outcomes=_sum(known.outcomes, outcomes),
            lead=UnixMillis(max(known.lead, lead)),
        ),
    )


def closed(
    reconciliation: Reconciliation, *, seen: Mapping[State, int], outcomes: Mapping[Seen, int], at: int
) -> Reconciliation:
    """One that was stopped, with what its last slice did and could not write."""
    known = reconciliation.progress
    progress = msgspec.structs.replace(
        known, seen=_sum(known.seen, seen), outcomes=_sum(known.outcomes, outcomes), closed=True
    )
    return msgspec.structs.replace(
        reconciliation, version=next_version(reconciliation), updated_at=UnixMillis(at), progress=progress
    )


def stopped(reconciliation: Reconciliation, *, at: int) -> Reconciliation:
    """The same, and no more slice of its window is begun."""
    return msgspec.structs.replace(
        reconciliation,
        state=ReconciliationState.STOPPED,
        version=next_version(reconciliation),
        updated_at=UnixMillis(at),
    )


def next_version(reconciliation: Reconciliation) -> int:
    return (reconciliation.version or 0) + 1


class Pace:
    """Gives out instants: in every poller one each `step_ms`, from `start` (Unix milliseconds) on."""

    def __init__(self, *, start: int, step_ms: float) -> None:
        self._start = start
        self._step_ms = step_ms
        self._given: dict[PollerId, int] = {}

    def next(self, poller_id: PollerId) -> UnixMillis:
        given = self._given.get(poller_id, 0)
        self._given[poller_id] = given + 1
        return UnixMillis(self._start + round(given * self._step_ms))

    @property
    def end(self) -> UnixMillis:
        """The instant from which every poller is free again."""
        return UnixMillis(self._start + round(max(self._given.values(), default=0) * self._step_ms))


def _sum(known: Mapping[K, int], added: Mapping[K, int]) -> dict[K, int]:
    return {name: count for name in (*known, *added) if (count := known.get(name, 0) + added.get(name, 0))}
