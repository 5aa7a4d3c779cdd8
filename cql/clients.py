"""Clients, API keys and signing secrets, and the count of their changes."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from cql.connection import Connection, Parameters, announced, without_rows
from cql.decoding import UndecodableRow, decode_enum, decode_enum_or_none, decode_json
from cql.destinations import stored_destination_of
from cql.subscriptions import stored_subscription_of
from membership.conditional import Answer, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ApiKey, Client, ClientSettings, ClientState, Scope, SigningSecret
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.overdue_rates import OVERDUE_RATE
from scheduler_service.domain.ports import CatalogPart
from scheduler_service.domain.subscriptions import StoredSubscription
from scheduler_service.runtime.concurrently import concurrently

_CATALOG = "clients"
_ADMINISTRATORS = "*"
_DEFAULTS = ClientSettings()
_LATER_SETTINGS = ("flows", "receiver_verbs", "event_feed", "overdue_per_second")
"""Stored only where they are used, because a program that does not know one can't read a client that has it."""
_TRIES = 3


class CqlClientStore:
    """`domain.ports.ClientStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_client(self, client_id: ClientId) -> Client | None:
        return await self._read_client(client_id, serial=False)

    async def list_clients(self) -> Sequence[Client]:
        """A client that can't be decoded is left out and logged, so that it does not hide the others."""
        rows = await self._connection.select("clients.list", ())
        return sorted(_decodable(rows), key=lambda client: client.client_id)

    async def read_part(self, after: ClientId | None, *, limit: int) -> CatalogPart:
        begin = after or ""
        rows = await self._connection.select("clients.part", (begin, limit))
        if not rows:
            return CatalogPart((), {}, {}, {}, None)
        last = ClientId(rows[-1][0])
        secrets: dict[ClientId, list[SigningSecret]] = {}
        for secret in _secrets(await self._connection.select("signing_secrets.part", (begin, last))):
            secrets.setdefault(secret.client_id, []).append(secret)
        destinations: dict[ClientId, list[StoredDestination]] = {}
        for values in await self._connection.select("destinations.part", (begin, last)):
            destinations.setdefault(ClientId(values[0]), []).append(stored_destination_of(values))
        subscriptions: dict[ClientId, list[StoredSubscription]] = {}
        for values in await self._connection.select("subscriptions.part", (begin, last)):
            subscriptions.setdefault(ClientId(values[0]), []).append(stored_subscription_of(values))
        after_all = last if len(rows) == limit else None
        return CatalogPart(_decodable(rows), secrets, destinations, subscriptions, after_all)

    async def create_client(self, client: Client) -> Answer[Client | None]:
        parameters = (client.client_id, *_mutable(client))
        answer = await self._connection.conditional((("clients.create", parameters),))
        return await self._after_change(client.client_id, answer)

    async def update_client(self, *, expected_revision: int, client: Client) -> Answer[Client | None]:
        parameters = (*_mutable(client), client.client_id, expected_revision)
        answer = await self._connection.conditional((("clients.update", parameters),))
        return await self._after_change(client.client_id, answer)

    async def catalog_revision(self) -> int:
        for (changes,) in await self._connection.select("catalog.read", (_CATALOG,)):
            return int(changes)
        return 0

    async def read_overdue_rate(self) -> float | None:
        return await self._read_overdue_rate(serial=False)

    async def _read_overdue_rate(self, *, serial: bool) -> float | None:
        for (per_second,) in await self._connection.select("cluster_rates.read", (OVERDUE_RATE,), serial=serial):
            return None if per_second is None else float(per_second)
        return None

    async def set_overdue_rate(self, per_second: float | None) -> None:
        expected = await self._read_overdue_rate(serial=True)
        while isinstance(
            answer := await self._connection.conditional(
                (("cluster_rates.set", (per_second, OVERDUE_RATE, expected)),)
            ),
            Rejected,
        ):
            expected = answer.current[0]["per_second"] if answer.current else None
        await self.announce()
        if isinstance(answer, Unknown):
            raise StoreUnavailable(answer.reason)

    async def announce(self) -> None:
        """Signal a change, again if no answer came: a change that no cache learns of is worse than two signals."""
        for remaining in reversed(range(_TRIES)):
            try:
                await self._connection.write("catalog.bump", (_CATALOG,))
            except StoreUnavailable:
                if not remaining:
                    raise
            else:
                return

    async def insert_key(self, key: ApiKey) -> None:
        # Index first: a key without its index row could be used, but would not be listed.
        await self._connection.write("api_keys.index", (_ADMINISTRATORS if key.admin else key.owner, key.key_id))
        scope = None if key.admin else key.scope.value
        values = (key.owner, key.admin, key.secret_hash, key.created_at, scope, key.name, key.expires_at)
        await self._connection.write("api_keys.insert", (key.key_id, *values))
        if key.revoked_at is not None:
            await self._connection.write("api_keys.revoke", (key.revoked_at, key.key_id))
        await self.announce()

    async def read_key(self, key_id: str) -> ApiKey | None:
        for values in await self._connection.select("api_keys.read", (key_id,)):
            key_id, owner, admin, secret_hash, created_at, revoked_at, scope, name, expires_at, last_used_at = values
            if created_at is None:
                return None
            known: Scope | None = Scope.WRITE
            if scope is not None:
                known = decode_enum_or_none(scope, Scope, table="api_keys", key=key_id)
            return ApiKey(
                key_id=key_id,
                owner=owner,
                admin=admin,
                secret_hash=secret_hash,
                created_at=created_at,
                revoked_at=revoked_at,
                scope=known or Scope.READ,
                rightless=known is None,
                name=name,
                expires_at=expires_at,
                last_used_at=last_used_at,
            )
        return None

    async def list_keys(self, client_id: ClientId) -> Sequence[ApiKey]:
        return sorted(await self._keys_of(client_id), key=_by_age)

    async def list_admin_keys(self) -> Sequence[ApiKey]:
        return sorted(await self._keys_of(_ADMINISTRATORS), key=_by_age)

    async def revoke_key(self, key_id: str, *, revoked_at: int) -> None:
        await self._connection.write("api_keys.revoke", (revoked_at, key_id))
        await self.announce()

    async def delete_key(self, key: ApiKey) -> None:
        # The index last: an entry without a key is skipped, and is found again by a repeat.
        await self._connection.write("api_keys.delete", (key.key_id,))
        await self._connection.write("api_keys.unindex", (_ADMINISTRATORS if key.admin else key.owner, key.key_id))

    async def note_key_use(self, key_id: str, *, used_at: int) -> None:
        await self._connection.write("api_keys.use", (used_at, key_id))

    async def insert_secret(self, secret: SigningSecret) -> None:
        parameters = (
            secret.client_id,
            secret.secret_id,
            secret.secret,
            secret.encryption_key_id,
            secret.created_at,
            secret.expires_at,
            secret.public_key,
        )
        await self._connection.write("signing_secrets.insert", parameters)
        await self.announce()

    async def list_secrets(self, client_id: ClientId) -> Sequence[SigningSecret]:
        return _secrets(await self._connection.select("signing_secrets.list", (client_id,)))

    async def delete_secret(self, client_id: ClientId, secret_id: str) -> None:
        await self._connection.write("signing_secrets.delete", (client_id, secret_id))
        await self.announce()

    async def reseal_secret(self, secret: SigningSecret, *, stored: bytes) -> Answer[None]:
        parameters = (secret.secret, secret.encryption_key_id, secret.client_id, secret.secret_id, stored)
        return without_rows(await self._connection.conditional((("signing_secrets.reseal", parameters),)))

    async def _read_client(self, client_id: ClientId, *, serial: bool) -> Client | None:
        for values in await self._connection.select("clients.read", (client_id,), serial=serial):
            return _client(values)
        return None

    async def _keys_of(self, bucket: str) -> list[ApiKey]:
        rows = await self._connection.select("api_keys.list", (bucket,))
        keys = await concurrently(self.read_key, (key_id for (key_id,) in rows))
        return [key for key in keys if key is not None]

    async def _after_change(self, client_id: ClientId, answer: Answer[Any]) -> Answer[Client | None]:
        return await announced(
            answer, announce=self.announce, current=lambda: self._read_client(client_id, serial=True)
        )


def _mutable(client: Client) -> Parameters:
    settings = msgspec.to_builtins(client.settings)
    for name in _LATER_SETTINGS:
        if getattr(client.settings, name) == getattr(_DEFAULTS, name):
            del settings[name]
    return (
        client.poller_quota,
        client.poller_ceiling,
        client.state.value,
        msgspec.json.encode(settings).decode(),
        client.revision,
        client.created_at,
        client.paused,
    )


def _client(values: tuple[Any, ...]) -> Client:
    client_id, poller_quota, poller_ceiling, state, settings, revision, created_at, paused = values
    return Client(
        client_id=client_id,
        poller_quota=poller_quota,
        poller_ceiling=poller_ceiling,
        state=decode_enum(state, ClientState, table="clients", key=client_id),
        settings=decode_json(settings, ClientSettings, table="clients", key=client_id),
        revision=revision,
        created_at=created_at,
        paused=bool(paused),
    )


def _decodable(rows: Iterable[tuple[Any, ...]]) -> list[Client]:
    """The clients in `rows`. One that can't be decoded is left out and logged."""
    clients = []
    for values in rows:
        with suppress(UndecodableRow):
            clients.append(_client(values))
    return clients


def _secrets(rows: Iterable[tuple[Any, ...]]) -> list[SigningSecret]:
    """The secrets in `rows` without deleted ones, oldest first."""
    secrets = [_secret(values) for values in rows if not values[-1] and values[4] is not None]
    return sorted(secrets, key=lambda secret: (secret.created_at, secret.secret_id))


def _secret(values: tuple[Any, ...]) -> SigningSecret:
    client_id, secret_id, secret, encryption_key_id, created_at, expires_at, public_key, _ = values
    return SigningSecret(
        client_id=client_id,
        secret_id=secret_id,
        secret=secret,
        encryption_key_id=encryption_key_id,
        created_at=created_at,
        expires_at=expires_at,
        public_key=public_key,
    )


def _by_age(key: ApiKey) -> tuple[int, str]:
    return key.created_at, key.key_id
