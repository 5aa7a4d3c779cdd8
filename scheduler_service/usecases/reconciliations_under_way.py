"""List: the reconciliations of all clients that run.

    slots of all clients -> their holders, without those seen to have ended -> the ones that run, oldest first

An end is final, so a holder that was seen to have ended is not read again while it has its slot. One look reads a
bounded number of holders, the newest first; the others are left out, and read by the next looks. What was found is kept
for ten times as long as that took, at least five seconds, so pages of it agree.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore, ReconciliationStore
from scheduler_service.domain.reconciliations import (
    FORGOTTEN_MS,
    SLOT_BUCKETS,
    Reconciliation,
    ReconciliationId,
    asked_at,
)
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.shared_looks import KeptLook

MAX_HOLDERS_READ = 2_000
"""Holders of slots that one look reads."""
UNDER_WAY_KEPT_SECONDS: Final = 5.0


class _Holder(NamedTuple):
    client_id: ClientId
    reconciliation_id: ReconciliationId


class UnderWayPage(NamedTuple):
    """The oldest first. `left_out`: how many may run, and were not read or can't be decoded. `more`: others follow."""

    items: Sequence[Reconciliation]
    left_out: int
    more: bool


class ListUnderWay:
    """Concurrent callers share one look."""

    def __init__(self, *, store: ReconciliationStore, clients: ClientStore, clock: Clock) -> None:
        self._store = store
        self._clients = clients
        self._clock = clock
        self._ended: set[ReconciliationId] = set()
        self._all = KeptLook(self._look, least_seconds=UNDER_WAY_KEPT_SECONDS, clock=clock)

    async def __call__(self, *, after: ReconciliationId | None, limit: int) -> UnderWayPage:
        """Up to `limit` that were requested after `after`; None: from the oldest on. Raises StoreUnavailable."""
        found, left_out = await self._all()
        left = [one for one in found if after is None or one.reconciliation_id > after]
        return UnderWayPage(left[:limit], left_out, len(left) > limit)

    async def _look(self) -> tuple[Sequence[Reconciliation], int]:
        """Those that run, the oldest first, and how many are left out."""
        # Nodes do not work for deleted clients, so what such a client had begun is not under way.
        clients = await self._clients.list_clients()
        deleted = {one.client_id for one in clients if one.state is ClientState.DELETED}
        buckets = await concurrently(self._store.list_slots, range(SLOT_BUCKETS))
        holders = {slot.holder: slot.client_id for slots in buckets for slot in slots if slot.client_id not in deleted}
        self._ended &= holders.keys()
        unread = sorted(holders.keys() - self._ended, reverse=True)
        read = unread[:MAX_HOLDERS_READ]
        undecodable: list[ReconciliationId] = []
        found = await concurrently(
            partial(self._read, undecodable=undecodable), (_Holder(holders[one], one) for one in reversed(read))
        )
        running = [one for one in found if one is not None]
        return running, len(unread) - len(read) + len(undecodable)

    async def _read(self, holder: _Holder, *, undecodable: list[ReconciliationId]) -> Reconciliation | None:
        """None: it does not run, or it can't be decoded and is added to `undecodable`. Raises StoreUnavailable."""
        try:
            found = await self._store.read(holder.client_id, holder.reconciliation_id)
        except StoreUnavailable:
            raise
        except MinutehandError:
            undecodable.append(holder.reconciliation_id)
            return None
        if found is not None and found.running:
            return found
        # One that is missing may still be inserted.
        if found is not None or asked_at(holder.reconciliation_id) < self._clock.wall_ms() - FORGOTTEN_MS:
            self._ended.add(holder.reconciliation_id)
        return None
