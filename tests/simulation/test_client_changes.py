"""When the announcement of a client's change is lost, all nodes learn of it within a minute, and a repeated request is
answered for good.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

import pytest

from cql.connection import Item
from membership.errors import StoreUnavailable
from membership.identity import PollerKey
from scheduler_service.domain.clients import ClientSettings, ClientState
from scheduler_service.domain.ids import ClientId
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.clients import ChangeClient, DeleteClient, RegisterClient, SuspendClient
from scheduler_service.usecases.keys import Keys
from scheduler_service.usecases.secret_encryption import NoEncryption
from scheduler_service.usecases.signing_secrets import SigningSecrets
from tests.simulation.cluster import SHOP, three_nodes
from tests.simulation.faults import FaultPlan
from tests.simulation.world import World, simulate

HEARD_SECONDS = 60.0
TOLD_SECONDS = 5.0
BANK = ClientId("bank")


class Administration:
    """The API's verbs for clients, over the API's own connection."""

    def __init__(self, world: World) -> None:
        storage, clock, randomness = world.api_storage, world.api_clock, world.api_randomness
        self.world = world
        self.store = storage.clients
        catalog = Catalog(store=self.store, clock=clock)
        change = ChangeClient(
            store=self.store,
            catalog=catalog,
            subscriptions=storage.subscriptions,
            admit_feed=lambda: None,
            admit_rate=lambda: None,
        )
        self.keys = Keys(store=self.store, catalog=catalog, clock=clock, randomness=randomness)
        self.secrets = SigningSecrets(store=self.store, encryption=NoEncryption(), clock=clock, randomness=randomness)
        self.register = RegisterClient(
            store=self.store,
            leases=storage.leases,
            catalog=catalog,
            change=change,
            secrets=self.secrets,
            clock=clock,
        )
        self.suspension = SuspendClient(change=change)
        self.delete = DeleteClient(store=self.store, change=change, keys=self.keys)

    async def dies_before_the_announcement(self, verb: Coroutine[Any, Any, object], *, after: int = 0) -> None:
        """The process dies between its change and the announcement, after `after` others went through."""
        self.world.api_connection.plan = FaultPlan(hook=on("catalog.bump", "crash-before", after=after))
        dying = asyncio.get_running_loop().create_task(verb)
        await self.world.advance(1.0)
        dying.cancel()
        self.world.api_connection.plan = FaultPlan()

    async def unanswered(self, verb: Coroutine[Any, Any, object], plan: FaultPlan) -> None:
        self.world.api_connection.plan = plan
        with pytest.raises(StoreUnavailable):
            await verb
        self.world.api_connection.plan = FaultPlan()


def on(statement: str, fault: str, *, after: int = 0) -> Callable[[str, Sequence[Item]], str | None]:
    """A fault for each use of a statement after the first few."""
    uses = count()
    return lambda kind, items: fault if items[0][0] == statement and next(uses) >= after else None


async def begin(world: World) -> Administration:
    """Three nodes that serve an active client, and a call of it in every second of the next minutes."""
    await three_nodes(world)
    base = world.now_ms()
    for number in range(240):
        await world.create(SHOP, base + 1_000 * number)
    return Administration(world)


def called_after(world: World, seconds: float, *, since_ms: float) -> int:
    """Calls due, and made, more than that many seconds after an instant."""
    return sum(call.due_ms > since_ms + 1_000 * seconds for call in world.receiver.calls)


async def state_of(world: World, name: ClientId = SHOP) -> ClientState | None:
    client = await world.truth.clients.read_client(name)
    return None if client is None else client.state


def test_a_suspension_whose_api_died_before_its_announcement_is_known_within_a_minute() -> None:
    async def scenario(world: World) -> None:
        api = await begin(world)
        suspended = world.now_ms()
        await api.dies_before_the_announcement(api.suspension.suspend(SHOP))
        assert await state_of(world) is ClientState.SUSPENDED
        await world.advance(150.0)
        assert called_after(world, HEARD_SECONDS, since_ms=suspended) == 0

    simulate(scenario)


def test_a_client_whose_api_died_before_telling_anybody_is_served_within_a_minute() -> None:
    async def scenario(world: World) -> None:
        api = await begin(world)
        # The first announcement is that of the client's secret.
        await api.dies_before_the_announcement(api.register(BANK, poller_quota=3, settings=None), after=1)
        await world.advance(HEARD_SECONDS)
        owned = {poller for node in world.nodes.values() for poller in node.node.balancer.leases()}
        assert owned >= {PollerKey(BANK, number) for number in range(3)}

    simulate(scenario)


def test_settings_that_took_effect_after_their_announcement_are_heard_within_a_minute() -> None:
    async def scenario(world: World) -> None:
        api = await begin(world)
        late = FaultPlan(hook=on("clients.update", "late"), late_seconds=20.0)
        await api.unanswered(api.register(SHOP, poller_quota=6, settings=ClientSettings(timeout_seconds=2.5)), late)
        await world.advance(19.0)
        assert {timeout(world, name) for name in world.nodes} == {ClientSettings().timeout_seconds}
        await world.advance(2.0 + HEARD_SECONDS)
        assert {timeout(world, name) for name in world.nodes} == {2.5}

    simulate(scenario)


def timeout(world: World, name: str) -> float:
    client = world.nodes[name].node.clients.get(SHOP)
    assert client is not None
    return client.settings.timeout_seconds


def test_a_repeated_suspension_is_known_at_once() -> None:
    async def scenario(world: World) -> None:
        api = await begin(world)
        await api.unanswered(api.suspension.suspend(SHOP), FaultPlan(hook=on("catalog.bump", "refuse")))
        assert await state_of(world) is ClientState.SUSPENDED
        assert (await api.suspension.suspend(SHOP)).state is ClientState.SUSPENDED
        answered = world.now_ms()
        await world.advance(60.0)
        assert called_after(world, TOLD_SECONDS, since_ms=answered) == 0

    simulate(scenario)


def test_an_earlier_resumption_that_arrives_late_does_not_undo_an_answered_suspension() -> None:
    async def scenario(world: World) -> None:
        api = await begin(world)
        await api.suspension.suspend(SHOP)
        late = FaultPlan(hook=on("clients.update", "late"), late_seconds=20.0)
        await api.unanswered(api.suspension.resume(SHOP), late)
        await api.suspension.suspend(SHOP)
        answered = world.now_ms()
        await world.advance(120.0)
        assert await state_of(world) is ClientState.SUSPENDED
        assert called_after(world, TOLD_SECONDS, since_ms=answered) == 0

    simulate(scenario)


@pytest.mark.parametrize("verb", ["register", "suspend", "resume", "delete", "revoke", "delete-secret"])
def test_a_verb_that_finds_nothing_to_change_tells_everybody_all_the_same(verb: str) -> None:
    async def scenario(world: World) -> None:
        api = Administration(world)
        await api.register(SHOP, poller_quota=1, settings=None)
        key = (await api.keys.create(SHOP)).key.key_id
        secret = (await api.secrets.create(SHOP)).secret.secret_id
        if verb in ("suspend", "delete"):
            await api.suspension.suspend(SHOP)

        async def act() -> None:
            match verb:
                case "register":
                    await api.register(SHOP, poller_quota=1, settings=None)
                case "suspend":
                    await api.suspension.suspend(SHOP)
                case "resume":
                    await api.suspension.resume(SHOP)
                case "delete":
                    await api.delete(SHOP)
                case "revoke":
                    await api.keys.revoke(key, client_id=SHOP)
                case _:
                    await api.secrets.delete(SHOP, secret)

        await act()
        before = await world.truth.clients.catalog_revision()
        if verb == "delete-secret":
            with pytest.raises(Exception, match="there is no signing secret"):
                await act()
        else:
            await act()
        assert await world.truth.clients.catalog_revision() > before

    simulate(scenario)
