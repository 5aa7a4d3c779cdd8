"""When clients' keys were last used: noted in memory by requests, written beside them.

Each process writes a key's last use once an hour at most, one key after the other, so that no request waits for it and
storage hardly notices. A process that ends forgets what it noted since.
"""

from typing import Final

from membership.errors import StoreUnavailable
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock

WRITE_EVERY_SECONDS: Final = 60.0
WRITE_AFTER_SECONDS: Final = 3600.0


class RecordKeyUses:
    """The uses of one process. Only valid keys are noted, so there are no more entries than keys."""

    def __init__(self, *, store: ClientStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._used: dict[str, int] = {}
        """The last use that is not written yet, by key id."""
        self._written: dict[str, float] = {}
        """When a key's use was last written, in monotonic seconds."""

    def note(self, key_id: str) -> None:
        self._used[key_id] = self._clock.wall_ms()

    async def run(self) -> None:
        """Write what was noted, periodically until cancelled."""
        while True:
            await self._clock.sleep(WRITE_EVERY_SECONDS)
            await self.write()

    async def write(self) -> None:
        """Write what is due. What storage does not take waits for the next round."""
        now = self._clock.monotonic()
        self._written = {key_id: at for key_id, at in self._written.items() if now < at + WRITE_AFTER_SECONDS}
        for key_id in [key_id for key_id in self._used if key_id not in self._written]:
            try:
                await self._store.note_key_use(key_id, used_at=self._used[key_id])
            except StoreUnavailable:
                return
            del self._used[key_id]
            self._written[key_id] = now
