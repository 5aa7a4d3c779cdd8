"""Show: clients as they are registered, read from storage. A deleted one is shown to nobody."""

from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore


class ShowClients:
    """For administrators; clients and keys of every request come from `catalog`."""

    def __init__(self, *, store: ClientStore) -> None:
        self._store = store

    async def one(self, client_id: ClientId) -> Client:
        """Raises NotFound, StoreUnavailable."""
        client = await self._store.read_client(client_id)
        if client is None or client.state is ClientState.DELETED:
            raise NotFound(f"there is no client {client_id[:128]!r}")
        return client

    async def all(self) -> list[Client]:
        """Raises StoreUnavailable."""
        return [client for client in await self._store.list_clients() if client.state is not ClientState.DELETED]
