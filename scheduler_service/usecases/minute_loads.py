"""Writes what this process has counted of minutes' loads, and reads what others have where it matters.

Every `LOADS_EVERY_SECONDS` at most `LOADS_PER_WRITE` rows are written, so a process that fills many hours of many
clients costs storage no more, and is only behind with its counts. A process that stops writes the rest; one that is
killed loses what it counted since.

Creates read nothing: what others have placed is read here, of at most `HOT_HOURS_PER_READ` hours at a time, and only of
hours of which this process has filled a minute by an eighth of a poller's guarantee.
"""

from typing import Final

from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import MINUTES_PER_HOUR, ClientId, Hour, Minute, hour_of, minute_of
from scheduler_service.domain.ports import MinuteLoadStore
from scheduler_service.runtime.clock import Clock

LOADS_EVERY_SECONDS: Final = 5.0
LOADS_PER_WRITE: Final = 500
HOT_HOURS_PER_READ: Final = 10


class KeepMinuteLoads:
    """The counts of one process. `reads`: whether it also wants to know what others have placed."""

    def __init__(self, *, store: MinuteLoadStore, clock: Clock, reads: bool = False) -> None:
        self.counts = store.counts
        self._store = store
        self._clock = clock
        self._reads = reads
        self._read: dict[tuple[ClientId, Hour], None] = {}
        """Hours in the order in which they were last read."""

    async def run(self) -> None:
        """Write and read, periodically until cancelled. What storage does not take waits for the next round."""
        while True:
            await self._clock.sleep(LOADS_EVERY_SECONDS)
            await self.write()
            if self._reads:
                await self.read()

    async def write(self) -> bool:
        """Write what has waited longest. True: something was written, and more may wait."""
        now, counts = self._clock.wall_ms(), self.counts
        rows = counts.unwritten(limit=LOADS_PER_WRITE)
        try:
            if rows:
                await self._store.write(rows, now=now)
        except StoreUnavailable:
            return False
        counts.written(rows)
        counts.forget(hour_of(minute_of(now)))
        return bool(rows)

    async def finish(self) -> None:
        """Write all that is left, when nothing more is placed. Gives up if storage does not answer."""
        while await self.write():
            pass

    async def read(self) -> None:
        """Read what others have placed in the hot hours whose last reading is oldest."""
        hot = dict.fromkeys(self.counts.hot())
        self._read = {key: None for key in self._read if key in hot}
        waiting = [*(key for key in hot if key not in self._read), *self._read]
        for client_id, hour in waiting[:HOT_HOURS_PER_READ]:
            first = Minute(hour * MINUTES_PER_HOUR)
            try:
                loads = await self._store.read(client_id, first=first, last=first)
            except StoreUnavailable:
                return
            self.counts.heard(client_id, hour, loads)
            self._read.pop((client_id, hour), None)
            self._read[client_id, hour] = None
