"""Reconcile: one slice of a reconciliation, which may be interrupted anywhere and repeated by any node.

    read a slice from the stored position -> handle the rows concerned, and keep what was done to each
        -> write position and counts IF version as read

A filter by content, which may be long, reads that of those rows only that the action applies to otherwise, a few at a
time, and forgets it at once.

A slice is some minutes over all pollers, or a part of one busy minute: the pollers' pages are merged by (due, id), so
that one key says where every poller continues, and all pollers of a client share the work evenly.

Rows are handled by the same verbs that clients use, each on condition of what it reads serially. A row is redelivered
only if it was not redelivered since the reconciliation was requested; a cancel is final. So a slice that runs twice, on
two nodes at once or because the first one died before its write, does nothing twice. Only the write adds to the counts,
and of two writes from one version one is applied; the other node reads the stored state and continues there. Rows that
an unwritten slice redelivered or cancelled are recognised and counted by the slice that is written. Such a slice may
also have left a pointer without its retry row; the next slice that reads the row places it. When a reconciliation is
stopped, its last slice is read once more, to count what was done and not counted (`close`).

What was done to a schedule is kept before the position passes it, so nothing that was counted is missing there, nor
what an unwritten slice did. Where that one left a schedule alone, this may be kept without being counted: the schedule
may have ended before the slice that was written read it.

Requests are compared by wall clock: a redelivery must bear an instant later than the request's, so a process whose
clock is behind it does nothing (`may_begin`).
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any
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
    partition_of,
    poller_of,
)
from scheduler_service.domain.ports import ReconciliationStore, ScheduleStore
from scheduler_service.domain.reconciliations import (
    OVERDUE,
    Action,
    ReconciledSchedule,
    Reconciliation,
    ReviewedRow,
    ReviewPage,
    Seen,
    Spacing,
    advanced,
    closed,
    concerned,
    done_as,
    handled,
)
from scheduler_service.domain.retry_rows import IN_DOUBT, RESCHEDULED
from scheduler_service.domain.schedules import Content, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import Turn, concurrently
from scheduler_service.usecases.cancel_schedules import (
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
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, next_step
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
from scheduler_service.usecases.schedule_writer import MAX_PARTITION_TURNS

SLICE_ROWS = 500
"""Rows after which a slice begins no further minute; also about how many of one minute are read at a time."""
POLLER_ROWS = 25
"""The smallest page that is read of a poller, however many pollers there are."""
MOST_ROWS = 2_000
SLICE_PARTITIONS = 100
"""Partitions after which a slice begins no further minute."""
SLICE_HOURS = 24
"""Hours of the index of occupied minutes that one slice reads."""
BYTES_AS_ROW = 4_096
"""Content that counts as one row that was read."""
ROWS_BETWEEN_CHECKS = 200
"""Rows handled between two checks whether the work is still this node's."""
KEPT_AT_ONCE = 50
"""Schedules whose results are written in one turn: a request for each minute of theirs, and one for all minutes."""

MAX_REASON = 200
"""Characters of why a schedule could not be handled."""

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
_SKIPPED: Mapping[type[CancelOutcome], Seen] = {**_CANCELLED, Cancelled: Seen.SKIPPED}


class NotOurs(MinutehandError):
    """The work was given to another node while a slice was under way."""


@dataclass(frozen=True, slots=True)
class SliceDone:
    """`reconciliation`: the stored state, written by this node or another. `looked_at`: rows and partitions that this
    slice read, content counted as rows; `acted`: rows that it handled."""

    reconciliation: Reconciliation
    looked_at: int
    acted: int


@dataclass(slots=True)
class _Slice:
    rows: list[ReviewedRow] = field(default_factory=list)
    partitions: int = 0
    read: int = 0
    content: int = 0
    """Bytes of content that were read to filter by it."""


class Reconcile:
    """Does slices. `on_fault` is told of rows that could not be handled. Each request of a slice, or short run of
    consecutive requests, is made within a `turn`."""

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
        """Whether this process's clock is past the request; redeliveries with an earlier instant would not count."""
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
        """Do the next slice of a running reconciliation. `share`: the part of each poller's guaranteed rate over which
        redeliveries are spread. `ours`: whether to go on; asked between groups of rows. Raises StoreUnavailable and
        NotOurs: repeat with the reconciliation as it is then stored.
        """
        work, following = await self._review(reconciliation, turn)
        rows = await self._admitted(
            reconciliation, [row for row in work.rows if concerned(reconciliation, row)], work, turn
        )
        now = self._clock.wall_ms()
        spacing = Spacing(
            start=max(now, reconciliation.progress.lead), step_ms=MINUTE_MS / (GUARANTEED_CALLS_PER_MINUTE * share)
        )
        outcomes: Counter[Seen] = Counter()
        acted = 0
        for begin in range(0, len(rows), ROWS_BETWEEN_CHECKS):
            if not ours():
                raise NotOurs("another node works on this reconciliation now")
            some = rows[begin : begin + ROWS_BETWEEN_CHECKS]
            acted += sum(not _is_done(reconciliation, row) for row in some)
            outcomes.update(await self._act_on(client, reconciliation, some, spacing, turn))
        following_state = advanced(
            reconciliation,
            following=following,
            seen=Counter(row.shown_state for row in rows),
            outcomes=outcomes,
            lead=spacing.end if reconciliation.action is Action.REDELIVER else 0,
            at=self._clock.wall_ms(),
            rows=rows,
        )
        async with turn():
            stands = await self._write(reconciliation, following_state)
        looked_at = work.read + work.partitions + work.content // BYTES_AS_ROW
        return SliceDone(stands, looked_at=looked_at, acted=acted)

    async def close(
        self, client: Client, reconciliation: Reconciliation, *, turn: Turn = nullcontext
    ) -> Reconciliation:
        """For a stopped reconciliation: count what an unwritten slice did after the stored position, and complete what
        it left half done. Answers the stored state. Raises StoreUnavailable."""
        work, _ = await self._review(reconciliation, turn)
        rows = await self._admitted(
            reconciliation,
            [row for row in work.rows if concerned(reconciliation, row) and handled(reconciliation, row)],
            work,
            turn,
        )
        spacing = Spacing(start=self._clock.wall_ms(), step_ms=0.0)
        outcomes = await self._act_on(client, reconciliation, rows, spacing, turn)
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
        """The next slice, and the position after it; None: the window is exhausted."""
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
        """Add the rows of one minute in order. Answers the key to continue after; None: there are no more."""
        position = reconciliation.progress
        after = position.after if position.minute == minute else None
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
        # Beyond the smallest last key of the pages that have more, rows may be missing: they wait for the next slice.
        known = min((page.rows[-1].key for page in pages if page.more), default=None)
        rows = sorted(
            (row for page in pages for row in page.rows if known is None or row.key <= known), key=lambda row: row.key
        )
        if len(rows) > MOST_ROWS:
            known = rows[MOST_ROWS - 1].key
            del rows[MOST_ROWS:]
        work.rows += [row for row in rows if row.due < reconciliation.end]
        return known if known is not None and known.due < reconciliation.end else None

    async def _admitted(
        self, reconciliation: Reconciliation, rows: Sequence[ReviewedRow], work: _Slice, turn: Turn
    ) -> Sequence[ReviewedRow]:
        """Those of the rows whose content the filter admits; rows deleted meanwhile are left out."""
        if not reconciliation.filter.reads_content:
            return rows
        admitted: list[ReviewedRow] = []
        done, step = 0, FIRST_STEP_ROWS
        while done < len(rows):
            several = rows[done : done + step]
            keys: dict[Partition, list[RowKey]] = {}
            for row in several:
                keys.setdefault(partition_of(reconciliation.client_id, row.schedule_id), []).append(row.key)

            async def content_of(item: tuple[Partition, list[RowKey]]) -> Mapping[RowKey, Content]:
                async with turn():
                    return await self._schedules.read_content(*item)

            found = {key: one for each in await concurrently(content_of, keys.items()) for key, one in each.items()}
            admitted += (
                row
                for row in several
                if (content := found.get(row.key)) is not None and reconciliation.filter.admits_content(content)
            )
            done += len(several)
            size = sum(content.size for content in found.values())
            work.content += size
            # Each step by itself is bounded, as nothing is kept of the content.
            step = next_step(step, done=len(several), read=size)
        return admitted

    # Handling.

    async def _act_on(
        self, client: Client, reconciliation: Reconciliation, rows: Sequence[ReviewedRow], spacing: Spacing, turn: Turn
    ) -> Counter[Seen]:
        """The results, counted, and kept by schedule; those of a report are not kept, as it does nothing. Raises
        StoreUnavailable when the result of any row is unknown."""
        action = reconciliation.action
        left = [row for row in rows if not _is_done(reconciliation, row)]
        before = [ReconciledSchedule(*row.key, done_as(action)) for row in rows if _is_done(reconciliation, row)]
        results = [*before, *await self._handle(client, reconciliation, left, spacing, turn)]
        if action is Action.REPORT:
            return Counter(one.outcome for one in results)

        async def keep(several: Sequence[ReconciledSchedule]) -> None:
            async with turn():
                await self._store.write_reconciled(reconciliation, several)

        results.sort(key=lambda one: one.key)
        await concurrently(keep, [results[at : at + KEPT_AT_ONCE] for at in range(0, len(results), KEPT_AT_ONCE)])
        return Counter(one.outcome for one in results)

    async def _handle(
        self, client: Client, reconciliation: Reconciliation, rows: Sequence[ReviewedRow], spacing: Spacing, turn: Turn
    ) -> Sequence[ReconciledSchedule]:
        """The results. Raises as above."""
        match reconciliation.action:
            case Action.CANCEL:
                ids, retrying = [row.schedule_id for row in rows], State.RETRYING in reconciliation.states
                results = await self._cancel.many(client.client_id, ids, retrying=retrying, turn=turn) if rows else {}
                return [_result(row, _CANCELLED, _known(results[row.schedule_id])) for row in rows]
            case Action.SKIP:
                ids = [row.schedule_id for row in rows]
                results = await self._cancel.skip(client.client_id, ids, reason=OVERDUE, turn=turn) if rows else {}
                return [_result(row, _SKIPPED, _known(results[row.schedule_id])) for row in rows]
            case Action.REDELIVER:
                asked = [(row, spacing.next(poller_of(row.schedule_id))) for row in rows]
                return await concurrently(lambda each: self._redelivered(client, reconciliation, *each, turn), asked)
            case Action.REPORT:
                return [ReconciledSchedule(*row.key, Seen.COUNTED) for row in rows]

    async def _redelivered(
        self, client: Client, reconciliation: Reconciliation, row: ReviewedRow, at: UnixMillis, turn: Turn
    ) -> ReconciledSchedule:
        terms = Terms(states=reconciliation.states, since=reconciliation.created_at, at=at)
        try:
            async with turn():
                return _result(row, _REDELIVERED, await self._redeliver(client, row.schedule_id, terms=terms))
        except StoreUnavailable:
            raise
        except MinutehandError as error:
            self._on_fault(f"redelivery of {client.client_id}/{row.schedule_id}", error)
            return ReconciledSchedule(*row.key, Seen.REFUSED, str(error)[:MAX_REASON])

    # Writing.

    async def _write(self, reconciliation: Reconciliation, following: Reconciliation) -> Reconciliation:
        """The reconciliation as stored afterwards. Raises StoreUnavailable."""
        for _ in range(MAX_PARTITION_TURNS):
            current = await self._written(reconciliation, following)
            if current is following:
                return following
            if current is None:
                raise StoreUnavailable("the reconciliation has been deleted")
            if current.version != reconciliation.version:
                return current
        raise StoreUnavailable("no answer about the progress of a reconciliation")

    async def _written(self, reconciliation: Reconciliation, following: Reconciliation) -> Reconciliation | None:
        """`following` itself where the write was applied, else the stored reconciliation."""
        match await self._store.write(following, expected_version=reconciliation.version):
            case Applied():
                return following
            case Rejected(current=current):
                return current
            case Unknown():
                return await self._store.read(reconciliation.client_id, reconciliation.reconciliation_id, serial=True)


def _is_done(reconciliation: Reconciliation, row: ReviewedRow) -> bool:
    """Handled, with nothing left to complete; a retrying row may lack its retry row, so it is never done."""
    return handled(reconciliation, row) and row.shown_state is not State.RETRYING


def _known(result: CancelOutcome) -> CancelOutcome:
    if isinstance(result, StoreUnavailable):
        raise result
    return result


def _result(
    row: ReviewedRow, outcomes: Mapping[Any, Seen], result: RedeliverResult | CancelOutcome
) -> ReconciledSchedule:
    match result:
        case WasRescheduled():
            reason: str | None = RESCHEDULED
        case InDoubt():
            reason = IN_DOUBT
        case StillOpen(row=found) | EndedOtherwise(row=found) | AlreadyFinished(row=found) | BeingRetried(row=found):
            reason = found.shown_state.value
        case _:
            reason = None
    return ReconciledSchedule(*row.key, outcomes[type(result)], reason)
