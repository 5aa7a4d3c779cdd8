"""Change: the one way to change a client's row, for every verb that does.

A change is a function from the client as it is to the client as it should be. It is written on condition that nobody
else changed the row meanwhile, else decided again from what is there now:

    applied  -> the changed client
    rejected -> decide again
    unknown  -> StoreUnavailable: it may have taken effect; every change here may be asked for again

It is written, under the next revision, also where the client is already as it should be. An earlier write of somebody
who got no answer may still take effect: it can't after that, for it expects the revision before. And an earlier change
may lack its announcement: this one has its own. So what is answered holds, and everybody hears of it.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore
from scheduler_service.usecases.catalog import Catalog

MAX_TURNS = 20
"""Rejections in a row after which a change is given up: somebody keeps changing this client."""

Step: TypeAlias = Callable[[Client], Awaitable[Client]]
"""Answers the client as it should be. Raises to refuse."""


class ChangeClient:
    """Applies steps to clients that are not deleted."""

    def __init__(self, *, store: ClientStore, catalog: Catalog) -> None:
        self._store = store
        self._catalog = catalog

    async def __call__(self, client_id: ClientId, step: Step) -> Client:
        """Raises NotFound, StoreUnavailable, and what the step raises."""
        current = await self._store.read_client(client_id)
        for _ in range(MAX_TURNS):
            if current is None or current.state is ClientState.DELETED:
                raise NotFound(f"there is no client {client_id!r}")
            wanted = msgspec.structs.replace(await step(current), revision=current.revision + 1)
            answer = await self._store.update_client(expected_revision=current.revision, client=wanted)
            self._catalog.forget()
            match answer:
                case Applied():
                    return wanted
                case Rejected(current=found):
                    current = found
                case Unknown():
                    raise StoreUnavailable("the store did not say whether the client was changed; ask again")
        raise StoreUnavailable("others keep changing this client; ask again")


def refuse_built_in(client: Client) -> None:
    """Raises Conflict for clients that are Minutehand's own."""
    if client.built_in:
        raise Conflict("built-in-client", f"{client.client_id!r} is Minutehand's own: only its quota may be changed")
