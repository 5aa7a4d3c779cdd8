"""List and count: the schedules of a client by due time, read from as many partitions as the window has.

The index of occupied minutes says which pollers have rows in which minute, so a window may have any length: minutes
without rows cost nothing, hours without rows a read each. Within a minute the pollers' pages are merged by (due, id);
retry rows and pointers without a definition are hidden. One call does a bounded amount of work, so it may answer fewer
rows than asked for, even none, and still return a position to continue at:

                  hours of the index    pages of rows      rows     bytes of content
    a listing     HOURS_PER_CALL         MAX_PAGES          MAX_LISTED_ROWS, and MAX_BYTES
    a count       HOURS_PER_CALL         MAX_COUNTED_PAGES  MAX_COUNTED_ROWS, and MAX_BYTES if it filters by content

Rows are filtered by lean reads, without content, which may be long. The content of the rows that are returned, or that
are filtered by it (`domain.schedule_filters`), is read afterwards, a few rows at a time because their length is
unknown. `has_read` hears of every read as it is made, so that the caller can charge for it.

A row that is looked through costs an API 4.3 to 4.6 ms of CPU for 1,000, whatever columns it is filtered by: building
it, merging and judging. To judge the content of 1,000 rows costs 0.7 ms. What the driver takes to read them, and
storage, comes on top.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ReadConsistency
from scheduler_service.domain.ids import (
    MINUTES_PER_HOUR,
    ClientId,
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
from scheduler_service.domain.schedule_filters import EVERY, ScheduleFilter
from scheduler_service.domain.schedules import Content, Row
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, MAX_BYTES, HasRead, next_step, uncounted

MAX_PAGES = 20
"""Pages of rows that one call reads, beyond the first page of every poller of its current minute."""
MAX_LISTED_ROWS = 5_000
MAX_COUNTED_PAGES = 100
MAX_COUNTED_ROWS = 10_000
MAX_SEARCHED_ROWS = 1_000
"""Rows whose content one call reads to filter by it."""
HOURS_PER_CALL = 168
"""Hours of the index that one call reads: a week."""
MAX_STEP_HOURS = 24
"""Hours of the index that are read side by side, where those before them had no rows."""
FREE_HOURS = 25
"""Hours of the index that are not told: a window of one day, cut anywhere."""
ROWS_PER_HOUR = 25
"""As how many rows the read of a further hour is told."""
LISTED_AT_ONCE = 250
CONCURRENT_READS = 16

_LAST_ID = ScheduleId(UUID(int=(1 << 128) - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The rows to list: dues in [start, end), Unix milliseconds, that the filter admits."""

    client_id: ClientId
    start: UnixMillis
    end: UnixMillis
    filter: ScheduleFilter = EVERY


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


@dataclass(frozen=True, slots=True)
class Counted:
    """How many rows there are up to `next`. None: in the whole window."""

    count: int
    next: Position | None


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What a scan may do: the rows that it finds, the pages and rows that it reads."""

    found: int
    pages: int
    rows: int


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
        has_read: HasRead = uncounted,
    ) -> Listing:
        """Up to `limit` rows from `position` on (None: from the window's start). Raises StoreUnavailable.

        `consistency` is for clients that only look; callers that act on the listing leave the default.
        """
        return await self._list(window, limit, position, consistency, has_read, whole=True)

    async def lean(
        self,
        window: Window,
        *,
        limit: int,
        position: Position | None = None,
        has_read: HasRead = uncounted,
    ) -> Listing:
        """The same with lean rows (see `Row`), so the length of their content does not matter, unless it is filtered by
        that."""
        return await self._list(window, limit, position, "LOCAL_QUORUM", has_read, whole=False)

    async def count(
        self,
        window: Window,
        *,
        position: Position | None = None,
        consistency: ReadConsistency = "LOCAL_QUORUM",
        has_read: HasRead = uncounted,
    ) -> Counted:
        """How many rows there are from `position` on, counted as far as one call goes. Raises StoreUnavailable."""
        most = MAX_SEARCHED_ROWS if window.filter.reads_content else MAX_COUNTED_ROWS
        bounds = _Bounds(most, MAX_COUNTED_PAGES, MAX_COUNTED_ROWS)
        scan = _Scan(self._schedules, window, bounds, consistency, has_read)
        following = await scan.run(position)
        if not window.filter.reads_content:
            return Counted(len(scan.items), following)
        items, last = await self._whole(scan.items, window.filter, most, consistency, has_read)
        return Counted(len(items), following if last is None else last)

    async def _list(
        self,
        window: Window,
        limit: int,
        position: Position | None,
        consistency: ReadConsistency,
        has_read: HasRead,
        *,
        whole: bool,
    ) -> Listing:
        most = MAX_SEARCHED_ROWS if window.filter.reads_content else limit
        scan = _Scan(self._schedules, window, _Bounds(most, MAX_PAGES, MAX_LISTED_ROWS), consistency, has_read)
        following = await scan.run(position)
        if not (whole or window.filter.reads_content):
            return Listing(scan.items, following)
        items, last = await self._whole(scan.items, window.filter, limit, consistency, has_read)
        return Listing(items, following if last is None else last)

    async def _whole(
        self,
        lean: Sequence[Listed],
        filter_: ScheduleFilter,
        limit: int,
        consistency: ReadConsistency,
        has_read: HasRead,
    ) -> tuple[list[Listed], Position | None]:
        """The rows with their content that the filter admits, and where to continue if they are as many as one answer
        may have, or what was read is too long. Rows deleted meanwhile are left out."""
        whole: list[Listed] = []
        read = done = 0
        step = FIRST_STEP_ROWS
        while done < len(lean):
            several = lean[done : done + step]
            content = await self._content(several, consistency, has_read)
            for listed in several:
                found = content.get((listed.partition, listed.row.key))
                done += 1
                if found is not None:
                    read += found.size
                    if filter_.admits_content(found):
                        whole.append(Listed(listed.partition, listed.row.filled(found), listed.in_flight))
                if done < len(lean) and (read >= MAX_BYTES or len(whole) >= limit):
                    return whole, Position(listed.row.due, listed.row.schedule_id)
            step = next_step(step, done=done, read=read)
        return whole, None

    async def _content(
        self, several: Sequence[Listed], consistency: ReadConsistency, has_read: HasRead
    ) -> dict[tuple[Partition, RowKey], Content]:
        keys: dict[Partition, list[RowKey]] = {}
        for listed in several:
            keys.setdefault(listed.partition, []).append(listed.row.key)

        async def read(partition: Partition) -> dict[tuple[Partition, RowKey], Content]:
            found = await self._schedules.read_content(partition, keys[partition], consistency=consistency)
            has_read(0, sum(content.size for content in found.values()))
            return {(partition, key): content for key, content in found.items()}

        together: dict[tuple[Partition, RowKey], Content] = {}
        for found in await concurrently(read, keys):
            together |= found
        return together


class _Scan:
    """One call: what it has found so far, and what it may still read."""

    def __init__(
        self, schedules: ScheduleStore, window: Window, bounds: _Bounds, consistency: ReadConsistency, has_read: HasRead
    ) -> None:
        self._schedules = schedules
        self._consistency = consistency
        self._window = window
        self._limit = bounds.found
        self._has_read = has_read
        self._pages = bounds.pages
        self._rows = bounds.rows
        self._hours = HOURS_PER_CALL
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

    async def run(self, position: Position | None) -> Position | None:
        """Where to continue; None when the window is exhausted."""
        if position is None or position.due < self._window.start:
            position = Position(self._window.start)
        minute, last, step = minute_of(position.due), minute_of(self._window.end - 1), 1
        while minute <= last:
            if self._done or self._hours <= 0:
                return Position(minute_start(minute))
            end = min(last, Minute((hour_of(minute) + min(step, self._hours)) * MINUTES_PER_HOUR - 1))
            occupied = await self._occupied(minute, end)
            for each in sorted(occupied):
                start = position if each == minute_of(position.due) else Position(minute_start(each))
                if self._done:
                    return start
                stopped = await self._minute(each, occupied[each], start)
                if stopped is not None:
                    return stopped
            minute, step = Minute(end + 1), 1 if occupied else min(2 * step, MAX_STEP_HOURS)
        return None

    async def _occupied(self, first: Minute, last: Minute) -> Mapping[Minute, Sequence[PollerId]]:
        free = HOURS_PER_CALL - FREE_HOURS
        left = self._hours - (hour_of(last) - hour_of(first) + 1)
        if left < free:
            self._has_read(ROWS_PER_HOUR * (min(self._hours, free) - left), 0)
        self._hours = left
        return await self._schedules.occupied(
            self._window.client_id, first=first, last=last, consistency=self._consistency
        )

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
        row = listed.row
        if row.defined and not row.is_retry_row and self._window.filter.admits(row):
            self.items.append(listed)
        return Position(listed.row.due, listed.row.schedule_id)

    async def _fill(self, poller: _Poller, limit: int) -> None:
        try:
            page = await self._schedules.read_page(
                poller.partition, after=poller.after, limit=limit, lean=True, consistency=self._consistency
            )
        except StoreUnavailable:
            # A read without an answer may have cost as much as a full page.
            self._has_read(limit, 0)
            raise
        self._has_read(len(page.rows), 0)
        self._pages -= 1
        self._rows -= len(page.rows)
        in_flight = page.header.in_flight
        poller.more = page.more and bool(page.rows)
        if page.rows:
            poller.after = page.rows[-1].key
        poller.rows.extend(
            Listed(poller.partition, row, row.state is None and row.schedule_id in in_flight) for row in page.rows
        )


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
