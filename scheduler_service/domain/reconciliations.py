"""A reconciliation: one action on all schedules due in a window that are in certain states and match a filter. Pure.

    running --the window is exhausted--> finished
       `------a client stops it--------> stopped --its last slice is counted--> stopped, closed

The request is inserted once. `state`, `version` and `progress` are changed by conditional writes only, each of which
adds one to `version` (null: none has been written yet). So the counts of a slice of the window come from exactly one
writer, however many nodes work on it. The position is in the same write as the counts of everything before it, so they
are always consistent.

    counts: sum of `seen` = sum of `outcomes` = rows of the window, up to the position, that the action applies to

A row is counted once, in the state in which the slice that was written found it. That is also right if an earlier try
at the same slice was cut short: what that try has redelivered or cancelled is recognised by its instant, which is not
before the reconciliation's own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, NewType, TypeVar
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import (
    HOUR_MS,
    ClientId,
    CronId,
    Minute,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    hour_of,
    minute_of,
)
from scheduler_service.domain.schedule_filters import EVERY, ScheduleFilter
from scheduler_service.domain.schedules import Kind, State
from scheduler_service.runtime.randomness import Randomness

K = TypeVar("K")

ReconciliationId = NewType("ReconciliationId", UUID)
"""A UUID of version 7 (RFC 9562): the millisecond of its request, then 74 random bits. Later ones sort later."""
MAX_RUNNING = 10
"""Reconciliations of one client that run at the same time."""
SLOT_BUCKETS = 8
"""How many partitions hold the slots of all clients. Frozen: stored slots are found by it."""
FORGOTTEN_MS = HOUR_MS
"""If a slot's holder is missing this long after its request, its insert failed, or it is past its retention."""

SAMPLES: Final = 10
OVERDUE: Final = "overdue"
"""The reason of what a reconciliation skips."""

_RANDOM_B = 62


class Action(StrEnum):
    REPORT = "report"
    """Count, and nothing else."""
    REDELIVER = "redeliver"
    CANCEL = "cancel"
    SKIP = "skip"
    """End what is overdue and was never attempted. Programs from before it leave it alone."""


class ReconciliationState(StrEnum):
    """`running` is never stored: it is the absence of an end."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"


HANDLED: Mapping[Action, tuple[State, ...]] = {
    Action.REPORT: tuple(state for state in State if state is not State.AWAITING),
    Action.REDELIVER: (State.DELIVERED, State.FAILED, State.SKIPPED),
    Action.CANCEL: (State.SCHEDULED, State.RETRYING),
    Action.SKIP: (State.SCHEDULED,),
}
"""The states that each action applies to; `retrying` includes those that await a word."""


class Seen(StrEnum):
    """What happened to a row that the action applies to."""

    COUNTED = "counted"
    """Nothing had to be done."""
    REDELIVERED = "redelivered"
    """By this reconciliation, or by another request since it was created."""
    CANCELLED = "cancelled"
    """Likewise; or, if it was to be redelivered, before."""
    OPEN = "open"
    """Not redelivered: another request had redelivered it, and it has not ended yet."""
    SKIPPED = "skipped"
    """By this reconciliation, or by another one that skips since it was created."""
    IN_FLIGHT = "in-flight"
    """Not cancelled or skipped: a node had claimed it."""
    CHANGED = "changed"
    """Its state had changed by the time of the action."""
    GONE = "gone"
    """It had been deleted."""
    REFUSED = "refused"
    """It can't be handled; the node's log says why."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far it has come: the position is behind the row `after` of `minute` (None: at its start). `lead`: the instant
    up to which redeliveries have been spread. `closed`: it was stopped, and what was done behind the position by then
    is counted, too. `hours`: the rows by the hour of their due, `samples`: some of the first, of reports and of those
    that skip, so that a report shows what would be skipped."""

    minute: Minute
    after_due: UnixMillis | None = None
    after_id: UUID | None = None
    seen: dict[State, int] = {}
    outcomes: dict[Seen, int] = {}
    lead: UnixMillis = UnixMillis(0)
    closed: bool = False
    hours: dict[int, int] = {}
    samples: tuple[UUID, ...] = ()

    @property
    def after(self) -> RowKey | None:
        if self.after_due is None or self.after_id is None:
            return None
        return RowKey(self.after_due, ScheduleId(self.after_id))


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """Applies to schedules of `client_id` with start <= due < end that are in one of `states` and that `filter`, which
    names no states, admits. `created_by`: the name of the principal. `version` None: no progress has been written
    yet."""

    client_id: ClientId
    reconciliation_id: ReconciliationId
    action: Action
    start: UnixMillis
    end: UnixMillis
    states: tuple[State, ...]
    created_at: UnixMillis
    created_by: str
    filter: ScheduleFilter = EVERY
    state: ReconciliationState = ReconciliationState.RUNNING
    version: int | None = None
    progress: Progress
    updated_at: UnixMillis

    @property
    def running(self) -> bool:
        return self.state is ReconciliationState.RUNNING

    @property
    def settled(self) -> bool:
        """It has ended, and all that it did is counted."""
        return self.state is ReconciliationState.FINISHED or self.progress.closed

    @property
    def minutes_total(self) -> int:
        """How many minutes the window overlaps."""
        return minute_of(self.end - 1) - minute_of(self.start) + 1

    @property
    def minutes_done(self) -> int:
        if self.state is ReconciliationState.FINISHED:
            return self.minutes_total
        return min(max(self.progress.minute - minute_of(self.start), 0), self.minutes_total)


class ReviewedRow(NamedTuple):
    """The columns of a row that a reconciliation needs."""

    due: UnixMillis
    schedule_id: ScheduleId
    kind: str | None
    created_at: UnixMillis | None
    state: str | None
    finished_at: UnixMillis | None
    redelivered_at: UnixMillis | None
    cron_id: CronId | None
    reason: str | None
    label: str | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)

    @property
    def original(self) -> bool:
        """Whether it is a schedule's own row, neither a retry row nor a pointer whose definition is still to come."""
        return self.created_at is not None and self.kind != Kind.RETRY_ROW

    @property
    def shown_state(self) -> State:
        return State(self.state or State.SCHEDULED)


class ReconciledSchedule(NamedTuple):
    """What a reconciliation did to a schedule; where it left it alone, `reason` says why: a state, or some words."""

    due: UnixMillis
    schedule_id: ScheduleId
    outcome: Seen
    reason: str | None = None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)


class ReviewPage(NamedTuple):
    """Rows of one partition in key order. `more`: rows may follow."""

    rows: list[ReviewedRow]
    more: bool


class Slot(NamedTuple):
    """One of a client's `MAX_RUNNING` slots for running reconciliations, and the one that holds or last held it."""

    client_id: ClientId
    number: int
    holder: ReconciliationId


def new_reconciliation_id(*, at: int, randomness: Randomness) -> ReconciliationId:
    """An id for a request at `at` (Unix milliseconds)."""
    value = at << 80 | 0x7 << 76 | randomness.bits(12) << 64 | 0b10 << _RANDOM_B | randomness.bits(_RANDOM_B)
    return ReconciliationId(UUID(int=value))


def asked_at(reconciliation_id: UUID) -> UnixMillis:
    return UnixMillis(reconciliation_id.int >> 80)


def done_as(action: Action) -> Seen:
    """The outcome of a schedule to which the action has been done."""
    match action:
        case Action.REPORT:
            return Seen.COUNTED
        case Action.REDELIVER:
            return Seen.REDELIVERED
        case Action.CANCEL:
            return Seen.CANCELLED
        case Action.SKIP:
            return Seen.SKIPPED


def concerned(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
    """Whether the action applies to a row as it was found, as far as its content does not matter: it is in one of the
    states, or the action has been done to it since."""
    meant = row.original and reconciliation.filter.admits(row)
    return meant and (row.shown_state in reconciliation.states or handled(reconciliation, row))


def handled(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
    """Whether the action has been done to the row since the reconciliation was created."""
    since = reconciliation.created_at
    match reconciliation.action:
        case Action.REDELIVER:
            return row.redelivered_at is not None and row.redelivered_at >= since
        case Action.CANCEL:
            return row.state == State.CANCELLED and row.finished_at is not None and row.finished_at >= since
        case Action.SKIP:
            skipped = row.state == State.SKIPPED and row.reason == OVERDUE
            return skipped and row.finished_at is not None and row.finished_at >= since
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
    rows: Sequence[ReviewedRow] = (),
) -> Reconciliation:
    """The reconciliation after a slice. `following`: the new position; None: the window is exhausted. `rows`: those
    counted."""
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
            **_shown(reconciliation, rows),
        ),
    )


def _shown(reconciliation: Reconciliation, rows: Sequence[ReviewedRow]) -> dict[str, Any]:
    known = reconciliation.progress
    if reconciliation.action not in (Action.REPORT, Action.SKIP):
        return {}
    samples = known.samples + tuple(row.schedule_id for row in rows[: max(SAMPLES - len(known.samples), 0)])
    return {"hours": _sum(known.hours, Counter(int(hour_of(minute_of(row.due))) for row in rows)), "samples": samples}


def closed(
    reconciliation: Reconciliation, *, seen: Mapping[State, int], outcomes: Mapping[Seen, int], at: int
) -> Reconciliation:
    """A stopped reconciliation, with the counts that its last slice could not write."""
    known = reconciliation.progress
    progress = msgspec.structs.replace(
        known, seen=_sum(known.seen, seen), outcomes=_sum(known.outcomes, outcomes), closed=True
    )
    return msgspec.structs.replace(
        reconciliation, version=next_version(reconciliation), updated_at=UnixMillis(at), progress=progress
    )


def stopped(reconciliation: Reconciliation, *, at: int) -> Reconciliation:
    """The reconciliation in state `stopped`: no further slice is begun."""
    return msgspec.structs.replace(
        reconciliation,
        state=ReconciliationState.STOPPED,
        version=next_version(reconciliation),
        updated_at=UnixMillis(at),
    )


def next_version(reconciliation: Reconciliation) -> int:
    return (reconciliation.version or 0) + 1


class Spacing:
    """Spreads instants: in each poller one every `step_ms`, from `start` (Unix milliseconds) on."""

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
