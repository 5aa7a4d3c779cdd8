"""Clients as a node knows them: settings, quota, state, active signing secrets. Refreshed when the catalog moved.

One cheap read a second compares the catalog's revision; a change is known within a few seconds. While storage is away
the last picture stays in use.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from membership.errors import StoreUnavailable
from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock

REFRESH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Tenant:
    """`settings` are those in force; `secrets` are the raw bytes of the secrets that are active now, oldest first."""

    client: Client
    settings: ClientSettings
    secrets: tuple[bytes, ...]

    @property
    def client_id(self) -> ClientId:
        return self.client.client_id

    @property
    def quota(self) -> int:
        return self.client.poller_quota

    @property
    def active(self) -> bool:
        return self.client.state is ClientState.ACTIVE


class Tenants:
    """`on_change` is called after every refresh that brought a new picture."""

    def __init__(
        self, *, store: ClientStore, clock: Clock, on_change: Callable[[], None], bounds: ClientBounds = UNBOUND
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._bounds = bounds
        self._revision: int | None = None
        self._tenants: dict[ClientId, Tenant] = {}

    def get(self, client_id: ClientId) -> Tenant | None:
        return self._tenants.get(client_id)

    def all(self) -> Sequence[Tenant]:
        return list(self._tenants.values())

    async def run(self) -> None:
        """Keep the picture fresh until cancelled."""
        while True:
            await self.refresh()
            await self._clock.sleep(REFRESH_SECONDS)

    async def refresh(self) -> bool:
        """Look once; True when the picture is known to be fresh."""
        try:
            revision = await self._store.catalog_revision()
            if revision == self._revision:
                return True
            picture = {}
            for client in await self._store.list_clients():
                if client.state is not ClientState.DELETED:
                    picture[client.client_id] = await self._tenant(client)
        except StoreUnavailable:
            return False
        self._tenants, self._revision = picture, revision
        self._on_change()
        return True

    async def _tenant(self, client: Client) -> Tenant:
        known = self._tenants.get(client.client_id)
        secrets = () if client.built_in else await self._secrets(client.client_id)
        if known is not None and known.client == client and known.secrets == secrets:
            return known
        return Tenant(client, self._bounds.effective(client), secrets)

    async def _secrets(self, client_id: ClientId) -> tuple[bytes, ...]:
        now = self._clock.wall_ms()
        stored = await self._store.list_secrets(client_id)
        active = [secret for secret in stored if secret.expires_at is None or secret.expires_at > now]
        return tuple(secret.secret for secret in active)
