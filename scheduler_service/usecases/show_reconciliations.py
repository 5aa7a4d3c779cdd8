"""Show: a client's reconciliations, and how far they have come."""

from dataclasses import dataclass

from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ReconciliationStore
from scheduler_service.domain.reconciliations import Reconciliation, ReconciliationId


@dataclass(frozen=True, slots=True)
class ReconciliationPage:
    """`next` None: there are no more; else the id to go on before."""

    items: list[Reconciliation]
    next: ReconciliationId | None


class ShowReconciliations:
    """Answers for one client at a time."""

    def __init__(self, *, store: ReconciliationStore) -> None:
        self._store = store

    async def one(self, client_id: ClientId, reconciliation_id: ReconciliationId) -> Reconciliation:
        """Raises NotFound, StoreUnavailable."""
        found = await self._store.read(client_id, reconciliation_id)
        if found is None:
            raise NotFound(f"there is no reconciliation {reconciliation_id}")
        return found

    async def page(self, client_id: ClientId, *, before: ReconciliationId | None, limit: int) -> ReconciliationPage:
        """Up to `limit`, the newest first. Raises StoreUnavailable."""
        found = list(await self._store.read_newest(client_id, before=before, limit=limit))
        return ReconciliationPage(found, found[-1].reconciliation_id if len(found) == limit else None)
