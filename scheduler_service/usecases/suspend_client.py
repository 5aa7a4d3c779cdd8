"""Suspend, resume and delete: the life of a client after its registration.

    active --suspend--> suspended --delete--> deleted
    active <--resume--- suspended

Suspended: creates are refused, reads and cancels work, due calls are held; resuming is recovery under the client's
late policy. Deleted: keys are revoked, what is pending is never called, and the id stays reserved. Each verb may be
repeated.
"""

import msgspec

from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore
from scheduler_service.usecases.change_client import ChangeClient, refuse_built_in
from scheduler_service.usecases.keys import Keys


class SuspendClient:
    """Holds a client's calls, or lets them go on."""

    def __init__(self, *, change: ChangeClient) -> None:
        self._change = change

    async def suspend(self, client_id: ClientId) -> Client:
        """Raises Conflict for built-in clients, NotFound, StoreUnavailable."""
        return await self._move(client_id, ClientState.SUSPENDED)

    async def resume(self, client_id: ClientId) -> Client:
        """Raises Conflict for built-in clients, NotFound, StoreUnavailable."""
        return await self._move(client_id, ClientState.ACTIVE)

    async def _move(self, client_id: ClientId, state: ClientState) -> Client:
        async def step(current: Client) -> Client:
            refuse_built_in(current)
            return msgspec.structs.replace(current, state=state)

        return await self._change(client_id, step)


class DeleteClient:
    """Ends a suspended client."""

    def __init__(self, *, store: ClientStore, change: ChangeClient, keys: Keys) -> None:
        self._store = store
        self._change = change
        self._keys = keys

    async def __call__(self, client_id: ClientId) -> None:
        """The state first, which alone makes every key of the client worthless; then its keys. A deletion that was
        interrupted in between, or before everybody was told, is completed by asking again.

        Raises Conflict, NotFound, StoreUnavailable.
        """
        known = await self._store.read_client(client_id)
        if known is None:
            raise NotFound(f"there is no client {client_id!r}")

        async def step(current: Client) -> Client:
            refuse_built_in(current)
            if current.state is not ClientState.SUSPENDED:
                raise Conflict("not-suspended", "only a suspended client can be deleted", state=current.state)
            return msgspec.structs.replace(current, state=ClientState.DELETED)

        if known.state is ClientState.DELETED:
            await self._store.announce()
        else:
            await self._change(client_id, step)
        await self._keys.revoke_all(client_id)
