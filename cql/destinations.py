"""The table `destinations`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cql.connection import Connection, Parameters, announced, without_rows
from membership.conditional import Answer
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId


class CqlDestinationStore:
    """`domain.ports.DestinationStore` over a connection. `announce` changes the catalog revision."""

    def __init__(self, connection: Connection, *, announce: Callable[[], Awaitable[None]]) -> None:
        self._connection = connection
        self._announce = announce

    async def read_destination(self, client_id: ClientId, name: str) -> StoredDestination | None:
        return await self._read(client_id, name, serial=False)

    async def list_destinations(self, client_id: ClientId) -> Sequence[StoredDestination]:
        return [stored_destination_of(row) for row in await self._connection.select("destinations.list", (client_id,))]

    async def list_names(self, client_id: ClientId) -> Sequence[str]:
        return [name for (name,) in await self._connection.select("destinations.names", (client_id,))]

    async def put_destination(
        self, destination: StoredDestination, *, expected_revision: int | None
    ) -> Answer[StoredDestination | None]:
        parameters = (
            destination.document,
            destination.revision,
            destination.created_at,
            destination.changed_at,
            destination.paused_at,
            destination.client_id,
            destination.name,
            expected_revision,
        )
        return await self._change("destinations.write", parameters, destination.client_id, destination.name)

    async def delete_destination(
        self, client_id: ClientId, name: str, *, expected_revision: int
    ) -> Answer[StoredDestination | None]:
        return await self._change("destinations.delete", (client_id, name, expected_revision), client_id, name)

    async def reseal_destination(self, destination: StoredDestination) -> Answer[None]:
        parameters = (destination.document, destination.client_id, destination.name, destination.revision)
        return without_rows(await self._connection.conditional((("destinations.reseal", parameters),)))

    async def _read(self, client_id: ClientId, name: str, *, serial: bool) -> StoredDestination | None:
        for row in await self._connection.select("destinations.read", (client_id, name), serial=serial):
            return stored_destination_of(row)
        return None

    async def _change(
        self, statement: str, parameters: Parameters, client_id: ClientId, name: str
    ) -> Answer[StoredDestination | None]:
        return await announced(
            await self._connection.conditional(((statement, parameters),)),
            announce=self._announce,
            current=lambda: self._read(client_id, name, serial=True),
        )


def stored_destination_of(row: tuple[Any, ...]) -> StoredDestination:
    client_id, name, document, revision, created_at, changed_at, paused_at = row
    return StoredDestination(
        client_id=client_id,
        name=name,
        document=document,
        revision=revision,
        created_at=created_at,
        changed_at=changed_at,
        paused_at=paused_at,
    )
