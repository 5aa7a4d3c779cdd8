"""Probe: can storage be reached right now? Asked by readiness checks, which anybody may send as often as he likes."""

import asyncio
from typing import NamedTuple

from membership.errors import StoreUnavailable
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock

PROBE_SECONDS = 2.0
REMEMBERED_SECONDS = 1.0


class Probed(NamedTuple):
    """What came of it. `asked`: whether storage was asked for this answer, and it is not one remembered."""

    asked: bool
    answered: bool


class ProbeStorage:
    """Asks at most once a second, one question at a time."""

    def __init__(self, *, store: ClientStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asking = asyncio.Lock()
        self._asked: float | None = None
        self._answered = False

    async def __call__(self) -> Probed:
        """Whether storage answered a small read within two seconds."""
        async with self._asking:
            now = self._clock.monotonic()
            if self._asked is not None and now - self._asked < REMEMBERED_SECONDS:
                return Probed(False, self._answered)
            self._answered = await self._ask()
            self._asked = self._clock.monotonic()
            return Probed(True, self._answered)

    async def _ask(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await self._store.catalog_revision()
        except (StoreUnavailable, TimeoutError):
            return False
        return True
