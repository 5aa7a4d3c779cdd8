"""Counting minutes anew whose rows have changed since they were settled.

The end of a copy is carried to its original, whose minute may have been settled hours ago: its stored balance is out of
date from then on. Whoever carried it asks for a recount. It waits a while for others of the same minute, then the
minute is counted from its rows, never added to. What is asked for is kept in memory only, and may be lost with this
process, or be too much for it: a balance that is out of date is known by its stamp (`domain.books`), so it misleads
nobody, and the next who wants it counts for himself.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from membership.errors import StoreUnavailable
from poller_cluster.background_budget import BackgroundBudget
from scheduler_service.domain.ids import Partition
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.count_minute import CountMinute

WAIT_SECONDS = 2.0
"""From the first change to the count, for others to share it."""
REST = 9.0
"""A count is followed by a rest of so many times its own length: a minute of a million rows whose retries end one after
the other costs a tenth of one reader."""
MINUTES_WAITING = 10_000


class Recounts:
    """Minutes to be counted anew, one at a time."""

    def __init__(
        self,
        *,
        count: CountMinute,
        budget: BackgroundBudget,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._on_fault = on_fault
        self._count = count
        self._budget = budget
        self._clock = clock
        self._spawn = spawn
        self._wanted: dict[Partition, int] = {}
        self._busy = False

    def ask(self, partition: Partition, epoch: int) -> None:
        """Rows of this minute have changed; `epoch` is that of the lane's lease."""
        if partition not in self._wanted and len(self._wanted) >= MINUTES_WAITING:
            return
        self._wanted[partition] = max(epoch, self._wanted.get(partition, epoch))
        if not self._busy:
            self._busy = True
            self._spawn(self._run(), "recounts")

    async def _run(self) -> None:
        try:
            while self._wanted:
                await self._clock.sleep(WAIT_SECONDS)
                wanted, self._wanted = self._wanted, {}
                for partition, epoch in wanted.items():
                    begun = self._clock.monotonic()
                    turn = partial(self._budget.slot, partition.client_id)
                    try:
                        await self._count(partition, epoch=epoch, turn=turn)
                    except StoreUnavailable:
                        continue
                    except Exception as error:
                        # One minute that can't be counted must not end the node.
                        self._on_fault(f"recount {partition}", error)
                    await self._clock.sleep(REST * (self._clock.monotonic() - begun))
        finally:
            self._busy = False
