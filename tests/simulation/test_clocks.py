"""Wall clocks that are wrong, drift, or jump: nothing is called early, and other nodes are not affected."""

import random

import pytest

from membership.identity import NodeIncarnation
from scheduler_service.api.services import ApiServices
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases.cancel_schedules import Cancelled
from scheduler_service.usecases.schedule_request import CallbackRequest, ScheduleRequest
from tests.simulation.cluster import (
    SHOP,
    all_delivered,
    all_delivered_once,
    begin_load,
    calls_since,
    dead_incarnations,
    everything,
    lateness_ms,
    owned,
    pollers_of,
    three_nodes,
    until,
)
from tests.simulation.drawn.api import ApiProcess, Unanswered
from tests.simulation.sim_clock import SimClock
from tests.simulation.world import World, simulate

OFFSETS_KNOWN_SECONDS = 45.0
"""Thirty beats of every node, over which clocks are compared, and the start."""


@pytest.mark.parametrize("seed", [1, 2])
def test_clocks_that_differ_and_drift_fire_nothing_early(seed: int) -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=6)
        world.add_node("a", skew_ms=200, rate=0.998)
        world.add_node("b", skew_ms=-200, rate=1.002)
        world.add_node("c", rate=1.001)
        await world.advance(10)
        load = begin_load(world, seconds=80, per_second=3)
        await world.advance(50)
        await world.kill("cb"[seed % 2])
        await load
        await all_delivered(world)
        assert lateness_ms(world) < 12_000

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("skew_ms", [250, 700, 950])
def test_a_node_whose_clock_is_ahead_fires_that_much_later(skew_ms: int) -> None:
    async def scenario(world: World) -> None:
        await ahead_and_known(world, skew_ms)
        assert pollers_of(world, "a")
        known_ms = world.now_ms()
        await begin_load(world, seconds=30)
        await all_delivered_once(world)
        assert calls_since(world, known_ms, node="a")
        early = [call.due_ms - call.at_ms for call in calls_since(world, known_ms)]
        assert max(early) < 20
        assert min(early) > -100

    simulate(scenario)


@pytest.mark.parametrize("skew_ms", [250, 700, 950, 1_800, 2_500])
@pytest.mark.parametrize("joins", [False, True], ids=["from the start", "joins"])
def test_a_node_whose_clock_is_ahead_is_never_early_not_even_at_first(skew_ms: int, joins: bool) -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=6)
        for name in "bc":
            world.add_node(name)
        load = None
        if joins:
            await world.advance(30)
            load = begin_load(world, seconds=50, per_second=5)
            await world.advance(5)
        world.add_node("a", skew_ms=skew_ms)
        if load is None:
            load = begin_load(world, seconds=45, per_second=5)
        await load
        await all_delivered(world)
        calls = calls_since(world, 0)
        assert max(call.due_ms - call.at_ms for call in calls) < 20
        if skew_ms < 1_000:
            assert calls_since(world, 0, node="a")
            assert lateness_ms(world) < 3_000 + skew_ms

    simulate(scenario)


@pytest.mark.parametrize("skew_ms", [1_050, 1_800, 30_000, -1_050])
def test_a_node_whose_clock_is_off_by_a_second_gives_up_its_pollers(skew_ms: int) -> None:
    async def scenario(world: World) -> None:
        await ahead_and_known(world, skew_ms)
        off = world.nodes["a"]
        assert not pollers_of(world, "a")
        assert owned(world) == everything()
        known_ms = world.now_ms()
        await begin_load(world, seconds=20)
        assert not calls_since(world, known_ms, node="a")
        off.clock.step(-skew_ms)
        await until(world, lambda: bool(pollers_of(world, "a")), within=60.0)
        await begin_load(world, seconds=20)
        await all_delivered_once(world)
        assert max(call.due_ms - call.at_ms for call in calls_since(world, known_ms)) < 20
        assert not dead_incarnations(world)

    simulate(scenario)


async def ahead_and_known(world: World, skew_ms: int) -> None:
    """A node with a wrong clock that has run for the thirty beats over which clocks are compared."""
    await world.add_client(SHOP, quota=6)
    for name in "abc":
        world.add_node(name, skew_ms=skew_ms if name == "a" else 0)
    await world.advance(OFFSETS_KNOWN_SECONDS)


def test_a_virtual_machine_resumed_an_hour_ahead_fires_nothing_early_and_the_others_go_on() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        await world.advance(OFFSETS_KNOWN_SECONDS)
        load = begin_load(world, seconds=60)
        later = [await world.create(SHOP, world.now_ms() + 3_600_000 + 500 * number) for number in range(60)]
        await world.advance(10)
        world.pause("a")
        await world.advance(3)
        world.nodes["a"].clock.step(3_600_000)
        world.resume("a")
        healed_ms = world.now_ms() + 10_000
        await load
        assert not any(asked.calls for asked in later)
        assert all([isinstance(await world.cancel(asked), Cancelled) for asked in later])
        await all_delivered_once(world)
        assert lateness_ms(world, since_ms=healed_ms) < 100

    simulate(scenario)


class NoDrains:
    """`Told` for tests in which no node is asked to drain."""

    async def drain(self, incarnation: NodeIncarnation, *, force: bool) -> bool:
        return False

    async def undrain(self, incarnation: NodeIncarnation) -> bool:
        return False


@pytest.mark.parametrize("wrong_ms", [-3_600_000, 3_600_000])
def test_an_api_that_has_not_compared_its_clock_creates_nothing(wrong_ms: int) -> None:
    """By its clock the call would be an hour early, or late. Once its clock is set right, it creates."""

    async def scenario(world: World) -> None:
        await world.add_client(SHOP)
        for name in "ab":
            world.add_node(name)
        await world.advance(OFFSETS_KNOWN_SECONDS)
        clock = SimClock(skew_ms=wrong_ms)
        api = ApiProcess(
            name="api-1",
            clock=clock,
            rng=random.Random(1),
            store=world.store,
            hints=world,
            told=NoDrains(),
            on_crash=world.crashed,
        )

        async def create(services: ApiServices) -> Definition:
            client = await services.catalog.client(ClientId(SHOP))
            request = ScheduleRequest(callback=CallbackRequest(url="http://receiver.test/"), delay_seconds=5.0)
            return await services.schedules.create.one(client, request)

        api.start()
        try:
            while not api.up:
                await world.advance(0.01)
            with pytest.raises(Unanswered, match=r"no clock to compare|not compared"):
                await api.ask(create)
            clock.step(-wrong_ms)
            await world.advance(OFFSETS_KNOWN_SECONDS)
            assert abs((await api.ask(create)).due - world.now_ms() - 5_000) < 100
        finally:
            await api.kill()

    simulate(scenario)
