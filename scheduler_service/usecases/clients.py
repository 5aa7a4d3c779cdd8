"""Register: a client comes to be, or gets another quota or other settings.

Lanes are there before anything can need them:

    new      lanes 0..quota-1 -> the client's row
    grown    lanes ceiling..quota-1 -> quota and ceiling
    shrunk   quota; the ceiling stays, so that the old lanes stay polled and nothing is moved or lost

A crash in between leaves lanes that nobody uses yet; asking again carries on.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.identity import Lane
from membership.ports import LeaseStore
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.errors import Conflict, FieldError, Invalid, NotFound
from scheduler_service.domain.ids import ClientId, UnixMillis, minute_of
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.catalog import Catalog
from scheduler_service.usecases.change_client import ChangeClient

WATERMARK_MARGIN_MINUTES = 1
"""A new lane is watched from a little before now, so that no writer whose clock is behind ours creates a row in a
minute that already counts as settled."""


class Registered(NamedTuple):
    """`created`: the client is new."""

    client: Client
    created: bool


class RegisterClient:
    """Creates a client or replaces its quota and settings. Asking again with the same values changes its revision."""

    def __init__(
        self, *, store: ClientStore, leases: LeaseStore, catalog: Catalog, change: ChangeClient, clock: Clock
    ) -> None:
        self._store = store
        self._leases = leases
        self._catalog = catalog
        self._change = change
        self._clock = clock

    async def __call__(self, client_id: ClientId, *, poller_quota: int, settings: ClientSettings | None) -> Registered:
        """`settings` None: the defaults. Raises Conflict, Invalid, NotFound, StoreUnavailable."""
        wanted = settings if settings is not None else ClientSettings()
        known = await self._store.read_client(client_id)
        if known is None:
            if client_id.startswith("$"):
                raise NotFound(f"there is no built-in client {client_id!r}")
            client = await self._create(client_id, poller_quota, wanted)
            if client is not None:
                return Registered(client, created=True)
        elif known.state is ClientState.DELETED:
            raise Conflict(
                "client-deleted",
                f"a client {client_id!r} was deleted and its id stays reserved; choose another id",
                state=known.state,
            )

        async def step(current: Client) -> Client:
            if current.built_in and settings is not None:
                detail = "the settings of Minutehand's own clients can't be changed; leave them out"
                raise Invalid([FieldError("/settings", detail)])
            if poller_quota > current.poller_ceiling:
                await self._create_lanes(client_id, range(current.poller_ceiling, poller_quota))
            return msgspec.structs.replace(
                current,
                poller_quota=poller_quota,
                poller_ceiling=max(current.poller_ceiling, poller_quota),
                settings=current.settings if current.built_in else wanted,
            )

        return Registered(await self._change(client_id, step), created=False)

    async def built_in(self, client_id: ClientId, *, poller_quota: int, settings: ClientSettings) -> Client:
        """One of Minutehand's own, created unless it is there. Every program sees to those it needs when it starts.

        Raises StoreUnavailable.
        """
        known = await self._store.read_client(client_id)
        return known or await self._create(client_id, poller_quota, settings) or await self._catalog.client(client_id)

    async def _create(self, client_id: ClientId, poller_quota: int, settings: ClientSettings) -> Client | None:
        """None: somebody else registered it meanwhile."""
        await self._create_lanes(client_id, range(poller_quota))
        client = Client(
            client_id=client_id,
            poller_quota=poller_quota,
            poller_ceiling=poller_quota,
            state=ClientState.ACTIVE,
            settings=settings,
            revision=1,
            created_at=UnixMillis(self._clock.wall_ms()),
        )
        answer = await self._store.create_client(client)
        self._catalog.forget()
        match answer:
            case Applied():
                return client
            case Rejected():
                return None
            case Unknown():
                raise StoreUnavailable("the store did not say whether the client was registered; ask again")

    async def _create_lanes(self, client_id: ClientId, poller_ids: Sequence[int]) -> None:
        watermark = minute_of(self._clock.wall_ms()) - WATERMARK_MARGIN_MINUTES
        await self._leases.create_lanes([Lane(client_id, poller_id) for poller_id in poller_ids], watermark=watermark)
