"""Watch the audits: whether what audits of all clients found still stands, for who shows it to Prometheus.

    every minute: the newest reports of runs over all clients -> findings that stand (`domain.audits`)

One small read a minute, whatever the number of clients. While storage is away the last answer stays.
"""

from collections.abc import Callable
from contextlib import suppress

from membership.errors import StoreUnavailable
from scheduler_service.domain.audits import EVERY_CLIENT, standing_findings
from scheduler_service.domain.ports import AuditStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks

LOOK_SECONDS = 60.0
REPORTS = 100
"""So many runs are looked back on: four days of one an hour."""


class WatchAudits:
    """A `Service`. `findings`: None until a run over all clients was seen."""

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
            # Requests tell of storage trouble; here it would be told once a minute.
            with suppress(StoreUnavailable):
                await self.look()
            await self._clock.sleep(LOOK_SECONDS)
