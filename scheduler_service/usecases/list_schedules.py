"""List: the schedules of a client by due time, read from as many partitions as the window has.

The index of occupied minutes says which pollers have rows in which minute. Within a minute the pollers' pages are
merged by (due, id); retry rows and pointers without a definition are hidden. One call does a bounded amount of work, so
it may answer fewer rows than asked for, even none, and still return a position to continue at.

Rows are filtered by lean reads, without content, which may be long. The content of the rows that are returned is read
afterwards, a few rows at a time because their length is unknown. `told` hears of every read as it is made, so that the
caller can charge for it.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ReadConsistency
from scheduler_service.domain.ids import (
    MINUTES_PER_HOUR,
    ClientId,
    CronId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    hour_of,
    minute_of,
    minute_start,
)
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.schedules import Content, Row, State
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, MAX_BYTES, Told, next_step

MAX_PAGES = 20
"""Pages of rows that one call reads, beyond the first page of every poller of its current minute. Reads of the index,
one for each hour of the window, come on top."""
MAX_LISTED_ROWS = 5_000
LISTED_AT_ONCE = 250
CONCURRENT_READS = 16

_LAST_ID = ScheduleId(UUID(int=(1 << 128) - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The rows to list: dues in [start, end), Unix milliseconds, that match every filter given."""

    client_id: ClientId
    start: UnixMillis
    end: UnixMillis
    state: State | None = None
    label: str | None = None
    cron_id: CronId | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a listing continues: after the row of this key, or at the instant `due` where there is no id."""

    due: UnixMillis
    schedule_id: ScheduleId | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A row, its partition, and whether an owner may be sending it right now."""

    partition: Partition
    row: Row
    in_flight: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """`next` None: the window is exhausted."""

    items: list[Listed]
    next: Position | None


@dataclass(slots=True)
class _Poller:
    """The rows of one poller's minute that are read and not yet merged."""

    partition: Partition
    after: RowKey | None
    more: bool = True
    rows: deque[Listed] = field(default_factory=deque)

    @property
    def head(self) -> RowKey:
        return self.rows[0].row.key


class ListSchedules:
    """Reads windows of one client's schedules."""

    def __init__(self, *, schedules: ScheduleStore) -> None:
        self._schedules = schedules

    async def __call__(
        self,
        window: Window,
        *,
        limit: int,
        position: Position | None = None,
        consistency: ReadConsistency = "LOCAL_QUORUM",
        told: Told = lambda rows, size: None,
    ) -> Listing:
        """Up to `limit` rows from `position` on (None: from the window's start). Raises StoreUnavailable.

        `consistency` is for clients that only look; callers that act on the listing leave the default.
        """
        found = await self.lean(window, limit=limit, position=position, consistency=consistency, told=told)
        items, last = await self._whole(found.items, consistency, told)
        return Listing(items, found.next if last is None else last)

    async def lean(
        self,
        window: Window,
        *,
        limit: int,
        position: Position | None = None,
        consistency: ReadConsistency = "LOCAL_QUORUM",
        told: Told = lambda rows, size: None,
    ) -> Listing:
        """The same with lean rows (see `Row`), so the length of their content does not matter."""
        scan = _Scan(self._schedules, window, limit, consistency, told)
        if position is None or position.due < window.start:
            position = Position(window.start)
        following = await scan.run(position)
        return Listing(scan.items, following)

    async def _whole(
        self, lean: Sequence[Listed], consistency: ReadConsistency, told: Told
    ) -> tuple[list[Listed], Position | None]:
        """The rows with their content, and where to continue if that is too long for one answer. Rows deleted meanwhile
        are left out."""
        whole: list[Listed] = []
        read = done = size = 0
        step = FIRST_STEP_ROWS
        while done < len(lean):
            several = lean[done : done + step]
            content = await self._content(several, consistency, told)
            for listed in several:
                found = content.get((listed.partition, listed.row.key))
                done += 1
                if found is not None:
                    size += found.size
                    whole.append(Listed(listed.partition, listed.row.filled(found), listed.in_flight))
                if size >= MAX_BYTES and done < len(lean):
                    return whole, Position(listed.row.due, listed.row.schedule_id)
            read += sum(one.size for one in content.values())
            step = next_step(step, done=done, read=read)
        return whole, None

    async def _content(
        self, several: Sequence[Listed], consistency: ReadConsistency, told: Told
    ) -> dict[tuple[Partition, RowKey], Content]:
        keys: dict[Partition, list[RowKey]] = {}
        for listed in several:
            keys.setdefault(listed.partition, []).append(listed.row.key)

        async def read(partition: Partition) -> dict[tuple[Partition, RowKey], Content]:
            found = await self._schedules.read_content(partition, keys[partition], consistency=consistency)
            told(0, sum(content.size for content in found.values()))
            return {(partition, key): content for key, content in found.items()}

        together: dict[tuple[Partition, RowKey], Content] = {}
        for found in await concurrently(read, keys):
            together |= found
        return together


class _Scan:
    """One call: what it has found so far, and what it may still read."""

    def __init__(
        self, schedules: ScheduleStore, window: Window, limit: int, consistency: ReadConsistency, told: Told
    ) -> None:
        self._schedules = schedules
        self._consistency = consistency
        self._window = window
        self._limit = limit
        self._told = told
        self._pages = MAX_PAGES
        self._rows = MAX_LISTED_ROWS
        self.items: list[Listed] = []

    @property
    def _spent(self) -> bool:
        return self._pages <= 0 or self._rows <= 0

    @property
    def _full(self) -> bool:
        return len(self.items) >= self._limit

    @property
    def _done(self) -> bool:
        return self._spent or self._full

    async def run(self, position: Position) -> Position | None:
        """Where to continue; None when the window is exhausted."""
        window = self._window
        for first, last in _hours(minute_of(position.due), minute_of(window.end - 1)):
            if self._done:
                return Position(minute_start(first))
            occupied = await self._schedules.occupied(
                window.client_id, first=first, last=last, consistency=self._consistency
            )
            for minute in sorted(occupied):
                start = position if minute == minute_of(position.due) else Position(minute_start(minute))
                if self._done:
                    return start
                stopped = await self._minute(minute, occupied[minute], start)
                if stopped is not None:
                    return stopped
        return None

    async def _minute(self, minute: Minute, poller_ids: Sequence[PollerId], start: Position) -> Position | None:
        """Merge the pollers of one minute. Answers where to continue; None when the minute is exhausted."""
        after = _before(start)
        pollers = [_Poller(Partition(self._window.client_id, poller_id, minute), after) for poller_id in poller_ids]
        page = max(10, min(LISTED_AT_ONCE, 2 * self._limit // len(pollers)))
        for several in _groups(pollers, CONCURRENT_READS):
            await asyncio.gather(*(self._fill(poller, page) for poller in several))
        heap = [(poller.head, poller.partition.poller_id, poller) for poller in pollers if poller.rows]
        heapq.heapify(heap)
        last = start
        while heap:
            poller = heap[0][2]
            if poller.head.due >= self._window.end:
                return None
            if self._full:
                return last
            last = self._take(poller)
            if not poller.rows and poller.more:
                if self._spent:
                    return last
                await self._fill(poller, LISTED_AT_ONCE)
            if poller.rows:
                heapq.heapreplace(heap, (poller.head, poller.partition.poller_id, poller))
            else:
                heapq.heappop(heap)
        return None

    def _take(self, poller: _Poller) -> Position:
        listed = poller.rows.popleft()
        if _wanted(self._window, listed):
            self.items.append(listed)
        return Position(listed.row.due, listed.row.schedule_id)

    async def _fill(self, poller: _Poller, limit: int) -> None:
        try:
            page = await self._schedules.read_page(
                poller.partition, after=poller.after, limit=limit, lean=True, consistency=self._consistency
            )
        except StoreUnavailable:
            # A read without an answer may have cost as much as a full page.
            self._told(limit, 0)
            raise
        self._told(len(page.rows), 0)
        self._pages -= 1
        self._rows -= len(page.rows)
        in_flight = page.header.in_flight
        poller.more = page.more and bool(page.rows)
        if page.rows:
            poller.after = page.rows[-1].key
        poller.rows.extend(
            Listed(poller.partition, row, row.state is None and row.schedule_id in in_flight) for row in page.rows
        )


def _hours(first: Minute, last: Minute) -> Iterator[tuple[Minute, Minute]]:
    """The window cut at whole hours, the partitions of its index."""
    while first <= last:
        end = min(last, Minute((hour_of(first) + 1) * MINUTES_PER_HOUR - 1))
        yield first, end
        first = Minute(end + 1)


def _groups(pollers: Sequence[_Poller], size: int) -> Iterator[Sequence[_Poller]]:
    for begin in range(0, len(pollers), size):
        yield pollers[begin : begin + size]


def _before(position: Position) -> RowKey | None:
    """The key to read after, so that the first row read is the first one wanted."""
    if position.schedule_id is not None:
        return RowKey(position.due, position.schedule_id)
    if position.due == minute_start(minute_of(position.due)):
        return None
    return RowKey(UnixMillis(position.due - 1), _LAST_ID)


def _wanted(window: Window, listed: Listed) -> bool:
    row = listed.row
    if not row.defined or row.is_retry_row:
        return False
    if window.state is not None and (row.state or State.SCHEDULED) != window.state:
        return False
    if window.label is not None and row.label != window.label:
        return False
    return window.cron_id is None or row.cron_id == window.cron_id
