"""Clients as a node knows them: settings, quota, state, active signing secrets. Refreshed when the catalog moved.

One cheap read a second compares the catalog's revision; a change is known within a few seconds. While storage is away
the last picture stays in use.

A client with an active signing secret that the key ring does not open is *locked*: its calls wait, as a suspended
client's do, because they would go out unsigned or without the one signature that a receiver knows. Locked clients are
looked at again when the ring changed, and every `UNLOCK_SECONDS`: somebody may have encrypted their secrets anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from membership.errors import StoreUnavailable
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.errors import SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore, SecretBox
from scheduler_service.runtime.clock import Clock

REFRESH_SECONDS = 1.0
UNLOCK_SECONDS = 10.0
_log = structlog.get_logger("minutehand.poller")


@dataclass(frozen=True, slots=True)
class Tenant:
    """`settings` are those in force; `secrets` are the raw bytes of the secrets that are active now, oldest first.
    `locked`: why not all of them could be read."""

    client: Client
    settings: ClientSettings
    secrets: tuple[bytes, ...]
    locked: str | None = None

    @property
    def client_id(self) -> ClientId:
        return self.client.client_id

    @property
    def quota(self) -> int:
        return self.client.poller_quota

    @property
    def active(self) -> bool:
        """Whether its calls may be made."""
        return self.client.state is ClientState.ACTIVE and self.locked is None


class Tenants:
    """`on_change` is called after every refresh that brought a new picture."""

    def __init__(
        self,
        *,
        store: ClientStore,
        box: SecretBox,
        clock: Clock,
        on_change: Callable[[], None],
        bounds: ClientBounds = UNBOUND,
    ) -> None:
        self._store = store
        self._box = box
        self._clock = clock
        self._on_change = on_change
        self._bounds = bounds
        self._revision: tuple[int, int] | None = None
        self._looked = 0.0
        self._tenants: dict[ClientId, Tenant] = {}

    def get(self, client_id: ClientId) -> Tenant | None:
        return self._tenants.get(client_id)

    def all(self) -> Sequence[Tenant]:
        return list(self._tenants.values())

    @property
    def locked(self) -> int:
        """How many clients' calls wait for a key."""
        return sum(tenant.locked is not None for tenant in self._tenants.values())

    async def run(self) -> None:
        """Keep the picture fresh until cancelled."""
        while True:
            await self.refresh()
            await self._clock.sleep(REFRESH_SECONDS)

    async def refresh(self) -> bool:
        """Look once; True when the picture is known to be fresh."""
        try:
            revision = (await self._store.catalog_revision(), self._box.generation)
            now = self._clock.monotonic()
            if revision == self._revision and not (self.locked and now >= self._looked + UNLOCK_SECONDS):
                return True
            picture = {}
            for client in await self._store.list_clients():
                if client.state is not ClientState.DELETED:
                    picture[client.client_id] = await self._tenant(client)
        except StoreUnavailable:
            return False
        self._tell_of_locks(picture)
        self._tenants, self._revision, self._looked = picture, revision, now
        self._on_change()
        return True

    async def _tenant(self, client: Client) -> Tenant:
        known = self._tenants.get(client.client_id)
        secrets, locked = ((), None) if client.built_in else await self._secrets(client.client_id)
        if known is not None and (known.client, known.secrets, known.locked) == (client, secrets, locked):
            return known
        return Tenant(client, self._bounds.effective(client), secrets, locked)

    async def _secrets(self, client_id: ClientId) -> tuple[tuple[bytes, ...], str | None]:
        now = self._clock.wall_ms()
        stored = await self._store.list_secrets(client_id)
        active = [secret for secret in stored if secret.expires_at is None or secret.expires_at > now]
        try:
            return tuple(self._box.open(secret).secret for secret in active), None
        except SecretLocked as error:
            return (), str(error)

    def _tell_of_locks(self, picture: Mapping[ClientId, Tenant]) -> None:
        for client_id, tenant in picture.items():
            known = self._tenants.get(client_id)
            before = None if known is None else known.locked
            if tenant.locked is not None and tenant.locked != before:
                _log.error("client-locked", client_id=client_id, reason=tenant.locked)
            elif tenant.locked is None and before is not None:
                _log.info("client-unlocked", client_id=client_id)
