"""Show the books of a client's minutes: how many schedules were accepted, how they ended, and how late first attempts
were.

    index of occupied minutes -> stored balances -> stamps of those partitions -> rows of the others

A stored balance counts while its stamp equals its partition's (`domain.books`). The stamp is read after the balance, so
the balance holds at that instant. A balance of a minute that is not over does not count: its writer's clock was ahead.
All other partitions are counted from their rows: those not settled yet, and those changed since their balance. A
complete count is stored, so that it is not repeated.

One call does a bounded amount of work, so it may answer few minutes, even none, and still return a position to continue
at. A minute of a million rows takes several calls, and the position carries its count so far. Such a count is not
stored, because it has been in the caller's hands. Storage that does not answer is an error, never a smaller sum.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler_service.domain.books import MinuteBalance, Tally, may_be_stored
from scheduler_service.domain.ids import MINUTES_PER_HOUR, ClientId, Minute, Partition, PollerId, RowKey, hour_of
from scheduler_service.domain.ports import BalanceStore, ScheduleStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import WIDTH, concurrently

MAX_PARTITIONS = 1_000
"""Partitions that one call reads."""
MAX_ROWS = 50_000
"""Rows after which one call begins no more pages; it may exceed this by a page of each of 16 partitions."""

_FIRST_POLLER = PollerId(0)

COUNTED_AT_ONCE = 2_000


@dataclass(slots=True)
class Count:
    """The state of the count of one partition, up to `after`. `rows`: read so far. `store_under`: the epoch to store
    the balance under once it is complete; None where it must not be stored."""

    partition: Partition
    after: RowKey | None = None
    tally: Tally = field(default_factory=Tally)
    rows: int = 0
    more: bool = True
    store_under: int | None = None


class CountMinute:
    """Count a poller's minute from its rows, and store the balance where it can be relied on later.

    Any process may do so at any time, twice, late or never; `domain.books` argues why. Storing saves others the count.

    Counts whole partitions. Pages are read one after the other: a million rows are 500 small reads.
    """

    def __init__(self, *, schedules: ScheduleStore, balances: BalanceStore, clock: Clock) -> None:
        self._schedules = schedules
        self._balances = balances
        self._clock = clock

    async def __call__(
        self,
        partition: Partition,
        *,
        epoch: int,
        turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> None:
        """Count it, and store the balance under `epoch` unless a higher one has stored one. Does nothing before the
        minute may be stored: its sweep does it. Each page is read within a `turn`. Raises StoreUnavailable when a read
        is not answered.
        """
        if not self.may_store(partition.minute):
            return
        count = Count(partition, store_under=epoch)
        while count.more:
            async with turn():
                await self.go_on(count)

    def may_store(self, minute: Minute) -> bool:
        """Whether a count that begins now may be stored; never while this process's clock is in doubt."""
        return self._clock.wall_trusted() and may_be_stored(minute, counted_from=self._clock.wall_ms())

    async def go_on(self, count: Count) -> None:
        """Count one more page. The stamp is that of the first page. A complete count is stored if it may be; the result
        of that write is ignored, because storing only saves others the count."""
        page = await self._schedules.count_page(count.partition, after=count.after, limit=COUNTED_AT_ONCE)
        if count.after is None:
            count.tally.begin(page.stamp)
        for row in page.rows:
            count.tally.add_read(row)
        count.rows += len(page.rows)
        count.more = page.more
        if page.rows:
            count.after = page.rows[-1].key
        if not count.more and count.store_under is not None and count.tally.accepted:
            await self._balances.write(count.tally.balance(count.partition, epoch=count.store_under))


@dataclass(frozen=True, slots=True)
class Position:
    """Where to continue: in this minute, at this poller, after this row. `tally`: the count of the minute before that
    point."""

    minute: Minute
    poller_id: PollerId = _FIRST_POLLER
    after: RowKey | None = None
    tally: Tally = field(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class MinuteBooks:
    """One minute over all pollers."""

    minute: Minute
    tally: Tally


class Looked(NamedTuple):
    """What one call has read: hours of the index, partitions, rows that had to be counted."""

    hours: int
    partitions: int
    rows: int


@dataclass(frozen=True, slots=True)
class Books:
    """Minutes without calls are absent. `next`: where to continue; None: the window is exhausted."""

    minutes: list[MinuteBooks]
    next: Position | None
    looked: Looked


class ShowBalance:
    """Answers for one client at a time."""

    def __init__(self, *, schedules: ScheduleStore, balances: BalanceStore, clock: Clock) -> None:
        self._schedules = schedules
        self._balances = balances
        self._clock = clock
        self.count = CountMinute(schedules=schedules, balances=balances, clock=clock)

    async def __call__(self, client_id: ClientId, *, position: Position, last: Minute, limit: int) -> Books:
        """Up to `limit` minutes from `position` to `last`, which is included. Raises StoreUnavailable."""
        scan = _Scan(self, position, limit)
        for begin, end in _hours(position.minute, last):
            if scan.spent:
                return scan.books(Position(begin))
            scan.hours += 1
            occupied = await self._schedules.occupied(client_id, first=begin, last=end)
            stored = {
                balance.partition: balance for balance in await self._balances.read(client_id, first=begin, last=end)
            }
            partitions = [
                Partition(client_id, poller_id, minute)
                for minute in sorted(occupied)
                for poller_id in sorted(occupied[minute])
                if (minute, poller_id) >= (position.minute, position.poller_id)
            ]
            stopped = await scan.run(partitions, stored)
            if stopped is not None:
                return scan.books(stopped)
            scan.finish()
        return scan.books(None)

    async def look(self, partition: Partition, stored: MinuteBalance | None, after: RowKey | None) -> Count:
        """One partition, by its stored balance or by one page of its rows. `after`: where an earlier call stopped in
        it."""
        count = Count(partition, after)
        # A count that continues an earlier call's has been in the caller's hands, so it must not be stored.
        if after is None and self.count.may_store(partition.minute):
            count.store_under = 0 if stored is None else stored.epoch
        over = may_be_stored(partition.minute, counted_from=self._clock.wall_ms())
        if after is None and stored and over and stored.holds(await self._schedules.read_stamp(partition)):
            count.tally.add_balance(stored)
            count.more = False
            return count
        await self.count.go_on(count)
        return count


class _Scan:
    """One call: what it has found so far, and what it may still read."""

    def __init__(self, show: ShowBalance, position: Position, limit: int) -> None:
        self._show = show
        self._limit = limit
        self._partitions = MAX_PARTITIONS
        self._rows = MAX_ROWS
        self._begun = position
        self._minute = position.minute
        self._tally = position.tally
        self.minutes: list[MinuteBooks] = []
        self.hours = 0

    def books(self, next_: Position | None) -> Books:
        looked = Looked(self.hours, MAX_PARTITIONS - self._partitions, MAX_ROWS - self._rows)
        return Books(self.minutes, next_, looked)

    @property
    def spent(self) -> bool:
        return self._partitions <= 0 or self._rows <= 0 or len(self.minutes) >= self._limit

    async def run(self, partitions: Sequence[Partition], stored: Mapping[Partition, MinuteBalance]) -> Position | None:
        """Add up these, in order. Answers where to continue; None when they are done."""
        for start in range(0, len(partitions), WIDTH):
            several = partitions[start : start + WIDTH]
            counts = await concurrently(
                lambda partition: self._show.look(partition, stored.get(partition), self._left_off(partition)), several
            )
            for count in counts:
                if count.partition.minute != self._minute:
                    self.finish()
                    self._minute = count.partition.minute
                if self.spent:
                    return Position(
                        self._minute, count.partition.poller_id, self._left_off(count.partition), self._tally
                    )
                stopped = await self._add(count)
                if stopped is not None:
                    return stopped
        return None

    async def _add(self, count: Count) -> Position | None:
        """Count a partition to its end, or as far as this call's bounds allow."""
        minute, poller_id = count.partition.minute, count.partition.poller_id
        self._partitions -= 1
        self._rows -= count.rows
        while count.more and not self.spent:
            before = count.rows
            await self._show.count.go_on(count)
            self._rows -= count.rows - before
        self._tally.merge(count.tally)
        return Position(minute, poller_id, count.after, self._tally) if count.more else None

    def _left_off(self, partition: Partition) -> RowKey | None:
        begun = self._begun
        return begun.after if (partition.minute, partition.poller_id) == (begun.minute, begun.poller_id) else None

    def finish(self) -> None:
        """Close the present minute's books."""
        if self._tally.accepted:
            self.minutes.append(MinuteBooks(self._minute, self._tally))
        self._tally = Tally()


def _hours(first: Minute, last: Minute) -> Iterator[tuple[Minute, Minute]]:
    """The window cut at whole hours, the partitions of its index."""
    while first <= last:
        end = min(last, Minute((hour_of(first) + 1) * MINUTES_PER_HOUR - 1))
        yield first, end
        first = Minute(end + 1)
