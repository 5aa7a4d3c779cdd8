"""The store of reconciliations."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.ids import ClientId, Minute, RowKey
from scheduler_service.domain.reconciliations import ReconciledSchedule, Reconciliation, ReconciliationId, Slot


class ReconciliationStore(Protocol):
    """The tables `reconciliations`, `reconciliation_slots`, `reconciled_minutes` and `reconciled_schedules`. Kept 90
    days.

    A reconciliation holds a slot of its client while it runs. So there are never more than slots, and all that may be
    running are found without a scan over all clients.
    """

    async def insert(self, reconciliation: Reconciliation) -> None:
        """Insert the request, without its progress; repeating it is harmless. Then changes `changes`; if that fails,
        nodes find it a little later."""

    async def read(
        self, client_id: ClientId, reconciliation_id: ReconciliationId, *, serial: bool = False
    ) -> Reconciliation | None:
        """None: it was not inserted, or has expired. Raises an error for one that can't be decoded."""

    async def read_newest(
        self, client_id: ClientId, *, before: ReconciliationId | None = None, limit: int = 100
    ) -> Sequence[Reconciliation]:
        """Up to `limit` of them, the newest first, older than `before`. Fewer: there are no more. Ones that can't be
        decoded are left out, and don't count."""

    async def write(
        self, reconciliation: Reconciliation, *, expected_version: int | None
    ) -> Answer[Reconciliation | None]:
        """Replace state, version and progress if the stored version is `expected_version` (None: null)."""

    async def write_reconciled(self, reconciliation: Reconciliation, handled: Sequence[ReconciledSchedule]) -> None:
        """Keep what was done to these schedules; repeating it is harmless. Once it is kept that the action was done to
        a schedule, it stays so, however often and in whatever order others write the same schedule."""

    async def reconciled_minutes(
        self, client_id: ClientId, reconciliation_id: ReconciliationId, *, first: Minute, last: Minute, limit: int
    ) -> Sequence[Minute]:
        """Up to `limit` minutes from `first` to `last` (included) for which `write_reconciled` was begun, in order.
        Fewer: there are no more."""

    async def read_reconciled(
        self,
        client_id: ClientId,
        reconciliation_id: ReconciliationId,
        minute: Minute,
        *,
        after: RowKey | None = None,
        limit: int = 100,
    ) -> Sequence[ReconciledSchedule]:
        """Up to `limit` schedules due in `minute`, after `after`, by due and id. Fewer: there are no more."""

    async def read_slots(self, client_id: ClientId) -> Mapping[int, ReconciliationId]:
        """Serial: the last holder of each slot of a client. Slots that were never held are absent."""

    async def take_slot(self, slot: Slot, *, expected: ReconciliationId | None) -> Answer[None]:
        """Replace the holder of a slot if it is `expected` (None: none)."""

    async def list_slots(self, bucket: int) -> Sequence[Slot]:
        """The slots in one of `SLOT_BUCKETS`, over all clients: a few of each client that ever reconciled."""

    async def changes(self) -> int:
        """A number that changes after an `insert`: a cheap read that spares a search."""
