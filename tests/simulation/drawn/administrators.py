"""What administrators change in a random world: they register, suspend and resume clients, and change their
settings.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from membership.identity import NodeId
from scheduler_service.api.services import ApiServices
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, LatePolicy, RetrySettings
from scheduler_service.domain.errors import Conflict, NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.members import Member
from tests.simulation.drawn.api import Unanswered
from tests.simulation.drawn.crons import OWNER
from tests.simulation.drawn.setting import Setting
from tests.simulation.drawn.world import DrawnWorld

RETRY = RetrySettings(base_seconds=3, max_attempts=5)


def clients_of(setting: Setting) -> dict[str, tuple[int, ClientSettings]]:
    """Quotas and settings of the clients that exist from the beginning."""
    hasty = LatePolicy(kind="skip", after_seconds=setting.skip_after_seconds)
    return {
        "shop": (3, ClientSettings(retry=RETRY, retention_days=1, overdue_per_second=setting.overdue_per_second)),
        "once": (2, ClientSettings(retry=RETRY, retention_days=1, in_doubt="drop")),
        OWNER: (2, ClientSettings(retry=RETRY, retention_days=1)),
        "hasty": (1, ClientSettings(retry=RETRY, retention_days=1, late_policy=hasty)),
    }


class Administrators:
    """Makes one change of a client at a time, so that the order of changes is known."""

    def __init__(self, world: DrawnWorld) -> None:
        self.world = world
        self.suspended: dict[str, int] = {}
        """Clients whose suspension was answered and for which no resumption was requested, with the time."""
        self._locks: dict[str, asyncio.Lock] = {}

    async def register(self, client: str, *, quota: int, settings: ClientSettings, patience: int | None = None) -> None:
        async def verb(services: ApiServices) -> Client:
            return (await services.clients.register(ClientId(client), poller_quota=quota, settings=settings)).client

        async with self._locks.setdefault(client, asyncio.Lock()):
            try:
                known = await self.world.asked_until_answered(verb, tries=patience)
            except Unanswered:
                self.world.note("administrator", f"change of {client} is not answered")
            else:
                self.world.note("administrator", f"{client} has {known.poller_quota} pollers")
                self.world.clients[client] = known

    async def change_quota(self, client: str, quota: int, *, patience: int | None) -> None:
        settings = self.world.clients[client].settings
        await self.register(client, quota=quota, settings=settings, patience=patience)

    async def change_settings(self, client: str, *, patience: int | None, **changes: object) -> None:
        known = self.world.clients[client]
        settings = msgspec.structs.replace(known.settings, **changes)
        await self.register(client, quota=known.poller_quota, settings=settings, patience=patience)

    async def suspend(self, client: str, *, patience: int | None) -> None:
        async with self._locks[client]:
            if await self._moved(client, ClientState.SUSPENDED, patience):
                self.suspended.setdefault(client, self.world.now_ms())

    async def resume(self, client: str, *, patience: int | None = None) -> None:
        async with self._locks[client]:
            self.suspended.pop(client, None)
            await self._moved(client, ClientState.ACTIVE, patience)

    async def _moved(self, client: str, state: ClientState, patience: int | None) -> bool:
        async def verb(services: ApiServices) -> Client:
            clients = services.clients
            return await (clients.suspend if state is ClientState.SUSPENDED else clients.resume)(ClientId(client))

        try:
            self.world.clients[client] = await self.world.asked_until_answered(verb, tries=patience)
        except Unanswered:
            self.world.note("administrator", f"{client} to be {state}: no answer")
            return False
        self.world.note("administrator", f"{client} is {state}")
        return True

    async def drain(self, node: str, *, patience: int | None) -> None:
        """Ask a node to drain, never by force: the last node that takes pollers refuses."""

        async def verb(services: ApiServices) -> Member:
            return await services.cluster.drain(NodeId(node), force=False)

        await self._told(node, verb, patience)

    async def undrain(self, node: str, *, patience: int | None) -> None:
        async def verb(services: ApiServices) -> Member:
            return await services.cluster.undrain(NodeId(node))

        await self._told(node, verb, patience)

    async def _told(
        self, node: str, verb: Callable[[ApiServices], Coroutine[Any, Any, Member]], patience: int | None
    ) -> None:
        try:
            member = await self.world.asked_until_answered(verb, tries=patience)
        except (Unanswered, NotFound, Conflict) as error:
            self.world.note("administrator", f"{node}: {error}")
        else:
            self.world.note("administrator", f"{node} is {member.state}")
