"""Reconcile: one slice of a reconciliation, which may be cut short anywhere and done again by anybody.

    read a slice behind the place to go on -> handle each row it is about -> write place and counts IF version as read

A slice is some minutes over all pollers, or a part of one busy minute: the pollers' pages are merged by (due, id), so
that one key says where every poller goes on, and all pollers of a client get their part of the work at the same time.

Rows are handled by the verbs that clients have, each on condition of what it reads serially. To redeliver, it must not
have been redelivered since the reconciliation was asked for; what is cancelled stays so. So a slice that is done twice,
by two nodes at once or because its first doer died before the write, does nothing twice. Only the write adds to the
counts, and of two writes from one version one is applied; the other's doer reads where it stands and goes on there.
Rows that were redelivered or cancelled by a slice that was never written are met as such and counted by the one that
is. A pointer that its writer could not complete is completed by whoever meets it. One that is stopped has its last
slice looked at once more, for what was done and not counted (`close`).

What is asked for is judged by the wall clock: its own doings must bear instants that are not before the request's, so
nothing is done by a clock that is still behind it (`may_begin`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from uuid import UUID

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client
from scheduler_service.domain.ids import (
    MINUTE_MS,
    MINUTES_PER_HOUR,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    hour_of,
    minute_of,
    minute_start,
    poller_of,
)
from scheduler_service.domain.ports import ReconciliationStore, ScheduleStore
from scheduler_service.domain.reconciliations import (
    Action,
    Pace,
    Reconciliation,
    ReviewedRow,
    ReviewPage,
    Seen,
    advanced,
    closed,
    concerned,
    handled,
)
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import Turn, concurrently
from scheduler_service.usecases.edit_schedule import (
    AlreadyFinished,
    BeingRetried,
    Cancelled,
    CancelOutcome,
    CancelSchedules,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.redeliver import (
    EndedOtherwise,
    RedeliveredBefore,
    Redelivering,
    RedeliverResult,
    RedeliverSchedule,
    StillOpen,
    Terms,
    WasCancelled,
)
from scheduler_service.usecases.schedule_writer import MAX_TURNS

SLICE_ROWS = 500
"""Rows after which a slice begins no further minute; and about what is read of one minute at a time."""
POLLER_ROWS = 25
"""The least that is read of a poller at a time, however many pollers there are."""
MOST_ROWS = 2_000
SLICE_PARTITIONS = 100
"""Partitions after which a slice begins no further minute."""
SLICE_HOURS = 24
"""Hours of the index of occupied minutes that one slice reads."""
TOGETHER = 200
"""Rows between two looks at whether the work is still this node's."""

_LAST_ID = ScheduleId(UUID(int=(1 << 128) - 1))
_REDELIVERED: Mapping[type[RedeliverResult], Seen] = {
    Redelivering: Seen.REDELIVERED,
    RedeliveredBefore: Seen.REDELIVERED,
    StillOpen: Seen.OPEN,
    WasCancelled: Seen.CANCELLED,
    EndedOtherwise: Seen.CHANGED,
    NoSuchSchedule: Seen.GONE,
}
_CANCELLED: Mapping[type[CancelOutcome], Seen] = {
    Cancelled: Seen.CANCELLED,
    InFlight: Seen.IN_FLIGHT,
    InDoubt: Seen.IN_FLIGHT,
    WasRescheduled: Seen.CHANGED,
    AlreadyFinished: Seen.CHANGED,
    BeingRetried: Seen.CHANGED,
    NoSuchSchedule: Seen.GONE,
}


class NotOurs(MinutehandError):
    """The work was given to another node while a slice was under way."""


@dataclass(frozen=True, slots=True)
class SliceDone:
    """`reconciliation` as it stands now, whoever wrote that last. `looked_at`: rows and partitions that were read, and
    `acted` rows that were handled, by this slice."""

    reconciliation: Reconciliation
    looked_at: int
    acted: int


@dataclass(slots=True)
class _Slice:
    rows: list[ReviewedRow] = field(default_factory=list)
    partitions: int = 0
    read: int = 0


class Reconcile:
    """Does slices. `on_fault` hears of rows that could not be handled. Each request of a slice, or short run of
    requests that follow each other, is made within a `turn`."""

    def __init__(
        self,
        *,
        store: ReconciliationStore,
        schedules: ScheduleStore,
        redeliver: RedeliverSchedule,
        cancel: CancelSchedules,
        clock: Clock,
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._store = store
        self._schedules = schedules
        self._redeliver = redeliver
        self._cancel = cancel
        self._clock = clock
        self._on_fault = on_fault

    def may_begin(self, reconciliation: Reconciliation) -> bool:
        """Whether this process's clock is past the request, so that what it does is known as done since."""
        return self._clock.wall_trusted() and self._clock.wall_ms() > reconciliation.created_at

    async def __call__(
        self,
        client: Client,
        reconciliation: Reconciliation,
        *,
        share: float,
        ours: Callable[[], bool],
        turn: Turn = nullcontext,
    ) -> SliceDone:
        """Do the next slice of one that runs. `share`: of each poller's guaranteed rate, at which redeliveries are
        spread. `ours`: whether to go on; asked between groups of rows. Raises StoreUnavailable and NotOurs: do it
        again, from the reconciliation as it is then stored.
        """
        work, following = await self._review(reconciliation, turn)
        rows = [row for row in work.rows if concerned(reconciliation, row)]
        now = self._clock.wall_ms()
        pace = Pace(
            start=max(now, reconciliation.progress.lead), step_ms=MINUTE_MS / (GUARANTEED_CALLS_PER_MINUTE * share)
        )
        outcomes: Counter[Seen] = Counter()
        acted = 0
        for begin in range(0, len(rows), TOGETHER):
            if not ours():
                raise NotOurs("this reconciliation is another node's now")
            some = rows[begin : begin + TOGETHER]
            left = [row for row in some if not _is_done(reconciliation, row)]
            acted += len(left)
            outcomes[_done_as(reconciliation.action)] += len(some) - len(left)
            outcomes.update(await self._handle(client, reconciliation, left, pace, turn))
        following_state = advanced(
            reconciliation,
            following=following,
            seen=Counter(row.shown_state for row in rows),
            outcomes=outcomes,
            lead=pace.end if reconciliation.action is Action.REDELIVER else 0,
            at=self._clock.wall_ms(),
        )
        async with turn():
            stands = await self._write(reconciliation, following_state)
        return SliceDone(stands, looked_at=work.read + work.partitions, acted=acted)

    async def close(
        self, client: Client, reconciliation: Reconciliation, *, turn: Turn = nullcontext
    ) -> Reconciliation:
        """Count what was done behind the place of one that was stopped, by a slice that was not written; complete what
        that left half done. Answers how it stands then. Raises StoreUnavailable."""
        work, _ = await self._review(reconciliation, turn)
        rows = [row for row in work.rows if row.original and handled(reconciliation, row)]
        left = [row for row in rows if not _is_done(reconciliation, row)]
        outcomes = Counter({_done_as(reconciliation.action): len(rows) - len(left)})
        pace = Pace(start=self._clock.wall_ms(), step_ms=0.0)
        outcomes.update(await self._handle(client, reconciliation, left, pace, turn))
        ended = closed(
            reconciliation,
            seen=Counter(row.shown_state for row in rows),
            outcomes=outcomes,
            at=self._clock.wall_ms(),
        )
        async with turn():
            return await self._write(reconciliation, ended)

    # Reading.

    async def _review(
        self, reconciliation: Reconciliation, turn: Turn
    ) -> tuple[_Slice, tuple[Minute, RowKey | None] | None]:
        """The next slice, and the place behind it; None: the window is exhausted."""
        work, client_id = _Slice(), reconciliation.client_id
        minute, last = reconciliation.progress.minute, minute_of(reconciliation.end - 1)
        for _ in range(SLICE_HOURS):
            if minute > last:
                return work, None
            hour_end = min(last, Minute((hour_of(minute) + 1) * MINUTES_PER_HOUR - 1))
            async with turn():
                occupied = await self._schedules.occupied(client_id, first=minute, last=hour_end)
            for each in sorted(occupied):
                if len(work.rows) >= SLICE_ROWS or work.partitions >= SLICE_PARTITIONS:
                    return work, (each, None)
                left_off = await self._minute(reconciliation, each, occupied[each], work, turn)
                if left_off is not None:
                    return work, (each, left_off)
            minute = Minute(hour_end + 1)
        return work, (minute, None) if minute <= last else None

    async def _minute(
        self, reconciliation: Reconciliation, minute: Minute, pollers: Sequence[PollerId], work: _Slice, turn: Turn
    ) -> RowKey | None:
        """Rows of one minute in their order. The key to go on behind; None: there are no more."""
        writer = reconciliation.progress
        after = writer.after if writer.minute == minute else None
        if after is None and reconciliation.start > minute_start(minute):
            after = RowKey(UnixMillis(reconciliation.start - 1), _LAST_ID)
        limit = max(POLLER_ROWS, SLICE_ROWS // len(pollers))

        async def page_of(poller_id: PollerId) -> ReviewPage:
            async with turn():
                return await self._schedules.review_page(
                    Partition(reconciliation.client_id, poller_id, minute), after=after, limit=limit
                )

        pages = await concurrently(page_of, pollers)
        work.partitions += len(pollers)
        work.read += sum(len(page.rows) for page in pages)
        # Beyond the end of the shortest page there may be rows that nobody has read yet.
        known = min((page.rows[-1].key for page in pages if page.more), default=None)
        rows = sorted(
            (row for page in pages for row in page.rows if known is None or row.key <= known), key=lambda row: row.key
        )
        if len(rows) > MOST_ROWS:
            known = rows[MOST_ROWS - 1].key
            del rows[MOST_ROWS:]
        work.rows += [row for row in rows if row.due < reconciliation.end]
        return known if known is not None and known.due < reconciliation.end else None

    # Handling.

    async def _handle(
        self, client: Client, reconciliation: Reconciliation, rows: Sequence[ReviewedRow], pace: Pace, turn: Turn
    ) -> Mapping[Seen, int]:
        """What became of these. Raises StoreUnavailable when that is not known of all of them."""
        match reconciliation.action:
            case Action.REPORT:
                return {Seen.COUNTED: len(rows)}
            case Action.CANCEL:
                ids, retrying = [row.schedule_id for row in rows], State.RETRYING in reconciliation.states
                results = await self._cancel(client.client_id, ids, retrying=retrying, turn=turn) if rows else {}
                for result in results.values():
                    if isinstance(result, StoreUnavailable):
                        raise result
                return Counter(_CANCELLED[type(result)] for result in results.values())
            case Action.REDELIVER:
                asked = [(row, pace.next(poller_of(row.schedule_id))) for row in rows]
                return Counter(
                    await concurrently(lambda each: self._redelivered(client, reconciliation, *each, turn), asked)
                )

    async def _redelivered(
        self, client: Client, reconciliation: Reconciliation, row: ReviewedRow, at: UnixMillis, turn: Turn
    ) -> Seen:
        terms = Terms(states=reconciliation.states, since=reconciliation.created_at, at=at)
        try:
            async with turn():
                return _REDELIVERED[type(await self._redeliver(client, row.schedule_id, terms=terms))]
        except StoreUnavailable:
            raise
        except MinutehandError as error:
            self._on_fault(f"redelivery of {client.client_id}/{row.schedule_id}", error)
            return Seen.REFUSED

    # Writing.

    async def _write(self, reconciliation: Reconciliation, following: Reconciliation) -> Reconciliation:
        """The reconciliation as it stands afterwards. Raises StoreUnavailable."""
        for _ in range(MAX_TURNS):
            current = await self._written(reconciliation, following)
            if current is following:
                return following
            if current is None:
                raise StoreUnavailable("the reconciliation is not kept any more")
            if current.version != reconciliation.version:
                return current
        raise StoreUnavailable("no answer about the progress of a reconciliation")

    async def _written(self, reconciliation: Reconciliation, following: Reconciliation) -> Reconciliation | None:
        """`following` itself where it was surely written, else what is stored."""
        match await self._store.write(following, expected_version=reconciliation.version):
            case Applied():
                return following
            case Rejected(current=current):
                return current
            case Unknown():
                return await self._store.read(reconciliation.client_id, reconciliation.reconciliation_id, serial=True)


def _is_done(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
    """Handled, with nothing left to complete: what is retrying may be a pointer without its retry row."""
    return handled(reconciliation, row) and row.shown_state is not State.RETRYING


def _done_as(action: Action) -> Seen:
    return Seen.CANCELLED if action is Action.CANCEL else Seen.REDELIVERED
