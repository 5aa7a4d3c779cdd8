"""What a process reads from storage for its monitoring: whether storage answers, and what audits found."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from membership.errors import StoreUnavailable
from scheduler_service.domain.audits import EVERY_CLIENT, standing_findings
from scheduler_service.domain.ports import AuditStore, ClientStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks

PROBE_SECONDS = 2.0
REMEMBERED_SECONDS = 1.0

AUDITS_LOOK_SECONDS = 60.0
REPORTS = 100
"""Reports that are read: four days of hourly runs."""


class Probed(NamedTuple):
    """The result. `asked`: whether storage was asked for it; otherwise it is cached."""

    asked: bool
    answered: bool


class ProbeStorage:
    """Probe: can storage be reached right now? For readiness checks, which anyone may send at any rate.

    Asks at most once a second, one request at a time.
    """

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


class WatchAudits:
    """Watch the audits: whether findings over all clients still stand, for the Prometheus metric.

        every minute: the newest reports of runs over all clients -> findings that stand (`domain.audits`)

    One small read a minute, whatever the number of clients. While storage is away the last answer stays.

    A `Service`. `findings`: None until a run over all clients was seen.
    """

    def __init__(self, *, store: AuditStore, clock: Clock, on_crash: Callable[[str, BaseException], None]) -> None:
        self._store = store
        self._clock = clock
        self._tasks = Tasks(on_crash)
        self.findings: int | None = None

    async def start(self) -> None:
        self._tasks.spawn(self._run(), name="audits")

    async def stop(self) -> None:
        await self._tasks.close()

    async def look(self) -> None:
        """Raises StoreUnavailable."""
        audits = await self._store.read_page(EVERY_CLIENT, limit=REPORTS)
        self.findings = standing_findings(audits) if audits else None

    async def _run(self) -> None:
        while True:
            # Requests report storage trouble; here it would be logged once a minute.
            with suppress(StoreUnavailable):
                await self.look()
            await self._clock.sleep(AUDITS_LOOK_SECONDS)
