"""The table `subscriptions`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from cql.connection import Connection, Parameters, announced
from membership.conditional import Answer
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.subscriptions import StoredSubscription


class CqlSubscriptionStore:
    """`domain.ports.SubscriptionStore` over a connection. `announce` changes the catalog revision."""

    def __init__(self, connection: Connection, *, announce: Callable[[], Awaitable[None]]) -> None:
        self._connection = connection
        self._announce = announce

    async def read_subscription(self, client_id: ClientId, name: str) -> StoredSubscription | None:
        return await self._read(client_id, name, serial=False)

    async def list_subscriptions(self, client_id: ClientId) -> Sequence[StoredSubscription]:
        rows = await self._connection.select("subscriptions.list", (client_id,))
        return [stored_subscription_of(row) for row in rows]

    async def put_subscription(
        self, subscription: StoredSubscription, *, expected_revision: int | None
    ) -> Answer[StoredSubscription | None]:
        one = subscription
        parameters = (
            one.document,
            one.revision,
            one.created_at,
            one.changed_at,
            one.client_id,
            one.name,
            expected_revision,
        )
        return await self._change("subscriptions.write", parameters, one.client_id, one.name)

    async def delete_subscription(
        self, client_id: ClientId, name: str, *, expected_revision: int
    ) -> Answer[StoredSubscription | None]:
        return await self._change("subscriptions.delete", (client_id, name, expected_revision), client_id, name)

    async def _read(self, client_id: ClientId, name: str, *, serial: bool) -> StoredSubscription | None:
        for row in await self._connection.select("subscriptions.read", (client_id, name), serial=serial):
            return stored_subscription_of(row)
        return None

    async def _change(
        self, statement: str, parameters: Parameters, client_id: ClientId, name: str
    ) -> Answer[StoredSubscription | None]:
        return await announced(
            await self._connection.conditional(((statement, parameters),)),
            announce=self._announce,
            current=lambda: self._read(client_id, name, serial=True),
        )


def stored_subscription_of(row: tuple[Any, ...]) -> StoredSubscription:
    client_id, name, document, revision, created_at, changed_at = row
    return StoredSubscription(
        client_id=client_id,
        name=name,
        document=document,
        revision=revision,
        created_at=created_at,
        changed_at=changed_at,
    )
