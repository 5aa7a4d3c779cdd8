"""The scan of all crons for those whose wake-up was lost, and for deleted ones past their retention.

Every `OVERDUE_SCAN_SECONDS` a node reads the crons of the clients that it is responsible for (the owner of a `$cron`
poller has the clients whose hash is that poller), and expands those whose wake-up is overdue by `OVERDUE_MS`. It reads
four columns of each: 100,000 crons are 100 pages.

So no lost wake-up ends a cron. Rows of crons that were deleted longer ago than their client keeps schedules are
removed; they hold no callback any more.

A wake-up that is only late, for instance after an outage, is not waited for: it and the scan have the same effect.
"""

import hashlib
from functools import partial
from typing import Protocol

from membership.errors import StoreUnavailable
from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.held_pollers import HeldPollers
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId
from scheduler_service.domain.ports import CronStore
from scheduler_service.runtime.concurrently import Turn
from scheduler_service.runtime.logging import get_logger
from scheduler_service.usecases.expand_crons import EXPANDED_AT_ONCE

OVERDUE_SCAN_SECONDS = 60.0
OVERDUE_MS = 60_000
PAGE = 1_000
_log = get_logger("minutehand.node")


class Expands(Protocol):
    """`usecases.expand_crons.ExpandCrons`."""

    async def __call__(self, client_id: ClientId, cron_ids: list[CronId], *, turn: Turn) -> None: ...


class OverdueScan:
    """The scan of one node, on behalf of the `$cron` pollers that it holds."""

    def __init__(
        self,
        *,
        crons: CronStore,
        expand: Expands,
        clients: ServedClients,
        pollers: HeldPollers,
        runtime: NodeRuntime,
    ) -> None:
        self.found = 0
        """Forgotten crons found so far."""
        self._crons = crons
        self._expand = expand
        self._clients = clients
        self._pollers = pollers
        self._trusted = runtime.trusted
        self._budget = runtime.budget
        self._clock = runtime.clock
        self._on_fault = runtime.on_fault

    async def run(self) -> None:
        """Scan until cancelled."""
        while True:
            await self._clock.sleep(OVERDUE_SCAN_SECONDS)
            if not self._trusted():
                continue
            pollers, cron_client = self._pollers.positions(CRON_CLIENT), self._clients.get(CRON_CLIENT)
            quota = 1 if cron_client is None else max(cron_client.quota, 1)
            for client in self._clients.all():
                if client.active and not client.record.built_in and _poller_of(client.client_id, quota) in pollers:
                    await self._scan_safely(client)

    async def _scan_safely(self, client: ServedClient) -> None:
        try:
            await self.scan(client)
        except StoreUnavailable:
            return
        except Exception as error:
            self._on_fault(f"overdue scan of crons of {client.client_id}", error)

    async def scan(self, client: ServedClient) -> int:
        """Expand the forgotten crons of one client; returns how many there were. Raises StoreUnavailable."""
        client_id = client.client_id
        gone_before = self._clock.wall_ms() - client.settings.retention_days * DAY_MS
        after: CronId | None = None
        found = 0
        while True:
            async with self._budget.slot(client_id):
                marks = await self._crons.read_marks(client_id, after=after, limit=PAGE)
            before = self._clock.wall_ms() - OVERDUE_MS
            forgotten = [mark.cron_id for mark in marks if mark.wake_at is not None and mark.wake_at < before]
            for start in range(0, len(forgotten), EXPANDED_AT_ONCE):
                turn = partial(self._budget.slot, client_id)
                await self._expand(client_id, forgotten[start : start + EXPANDED_AT_ONCE], turn=turn)
            found += len(forgotten)
            for mark in marks:
                if mark.over(gone_before):
                    async with self._budget.slot(client_id):
                        await self._crons.remove(client_id, mark)
            if len(marks) < PAGE:
                break
            after = marks[-1].cron_id
        if found:
            self.found += found
            _log.warning("crons-forgotten", client=client_id, crons=found)
        return found


def _poller_of(client_id: ClientId, quota: int) -> int:
    return int.from_bytes(hashlib.blake2b(client_id.encode(), digest_size=4).digest(), "big") % quota
