"""Count a lane's minute from its rows, and store what was counted where that may be believed later.

Anybody may do so at any time, twice, late or never: why, is argued in `domain.books`. Storing spares others the count.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from scheduler_service.domain.books import Tally, may_be_stored
from scheduler_service.domain.ids import Minute, Partition, RowKey
from scheduler_service.domain.ports import BalanceStore, ScheduleStore
from scheduler_service.runtime.clock import Clock

PAGE_ROWS = 2_000


@dataclass(slots=True)
class Count:
    """How far the count of one partition has come: up to `after`. `rows` were read for it. `store_under`: the epoch to
    store it under once it is whole, None where it must not be stored."""

    partition: Partition
    after: RowKey | None = None
    tally: Tally = field(default_factory=Tally)
    rows: int = 0
    more: bool = True
    store_under: int | None = None


class CountMinute:
    """Counts whole partitions. Pages are read one after the other: a million rows are 500 small reads."""

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
        """Count it, and store the balance under `epoch` unless a higher one has stored one. A minute that has not come
        to its sweep is left to that. Each page is read within a `turn`. Raises StoreUnavailable when a read is not
        answered.
        """
        if not self.may_store(partition.minute):
            return
        count = Count(partition, store_under=epoch)
        while count.more:
            async with turn():
                await self.go_on(count)

    def may_store(self, minute: Minute) -> bool:
        """Whether a count that begins now may be stored. Nobody whose clock is in doubt can say so."""
        return self._clock.wall_trusted() and may_be_stored(minute, counted_from=self._clock.wall_ms())

    async def go_on(self, count: Count) -> None:
        """One more page. The stamp is that of the first. A count that becomes whole is stored if it may be; whatever
        comes of that, it was an attempt to spare somebody a count."""
        page = await self._schedules.count_page(count.partition, after=count.after, limit=PAGE_ROWS)
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
