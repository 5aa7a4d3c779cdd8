"""For clients that want late calls skipped: a call that is late by itself is skipped, one that was only found late is
made.
"""

import pytest

from scheduler_service.domain.clients import ClientSettings, LatePolicy
from scheduler_service.domain.ids import minute_of, minute_start
from scheduler_service.domain.schedules import State
from tests.simulation.cluster import SHOP, begin_load, calls_since, everything, owned, pollers_of, until
from tests.simulation.creates import CreateRecord
from tests.simulation.world import World, simulate


def skip_after(seconds: float) -> ClientSettings:
    return ClientSettings(late_policy=LatePolicy(kind="skip", after_seconds=seconds))


async def states(world: World, asked: list[CreateRecord]) -> set[str | None]:
    found = set()
    for each in asked:
        row = await world.row_of(each)
        assert row is not None
        found.add(row.state)
    return found


async def all_called(world: World) -> None:
    await world.settle_down()
    assert await states(world, list(world.asked.values())) == {State.DELIVERED}


@pytest.mark.parametrize("skew_ms", [600, 900, -900])
@pytest.mark.parametrize("waits", [0.0, 45.0], ids=["offset unknown", "offset known"])
def test_a_node_whose_clock_differs_within_the_permitted_second_skips_nothing_that_is_on_time(
    skew_ms: int, waits: float
) -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=6, settings=skip_after(0.5 if skew_ms > 0 else 1.5))
        for name in "abc":
            world.add_node(name, skew_ms=skew_ms if name == "a" else 0)
        await until(world, lambda: owned(world) >= everything(), within=20.0)
        await world.advance(waits)
        begun_ms = world.now_ms()
        await begin_load(world, seconds=60 - waits, per_second=5)
        await all_called(world)
        assert calls_since(world, begun_ms, node="a")

    simulate(scenario)


def test_what_is_overdue_after_an_outage_is_skipped_before_clocks_are_compared_too() -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=6, settings=skip_after(30))
        overdue = [await world.create(SHOP, world.now_ms() + 20_000 + 500 * number) for number in range(20)]
        await world.advance(600)
        for name in "abc":
            world.add_node(name, skew_ms={"a": 900, "b": -900}.get(name, 0))
        await until(world, lambda: owned(world) >= everything(), within=20.0)
        fresh = [await world.create(SHOP, world.now_ms() + 3_000 + 100 * number) for number in range(20)]
        await world.settle_down()
        assert await states(world, overdue) == {State.SKIPPED}
        assert await states(world, fresh) == {State.DELIVERED}

    simulate(scenario)


@pytest.mark.parametrize("pollers", [1, 6])
@pytest.mark.parametrize("busy", [False, True], ids=["idle pollers", "busy pollers"])
@pytest.mark.parametrize("crash", [False, True], ids=["one owner", "partition opened before"])
def test_a_punctual_create_whose_hint_is_lost_is_called_when_it_is_found(pollers: int, busy: bool, crash: bool) -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=pollers, settings=skip_after(2))
        world.add_node("a")
        await until(world, lambda: len(pollers_of(world, "a")) == pollers, within=20.0)
        here = minute_start(minute_of(world.now_ms())) + 120_000
        if busy:
            for number in range(5 * pollers):
                await world.create(SHOP, here + 3_000 + 100 * number)
        await world.advance_to(here + 8_000)
        if crash:
            await world.kill("a")
            world.add_node("b")
            await until(world, lambda: len(pollers_of(world, "b")) == pollers, within=20.0)
        world.hints_lost = 1.0
        for number in range(5 * pollers):
            await world.create(SHOP, world.now_ms() + 3_000 + 100 * number)
        await all_called(world)

    simulate(scenario)


def test_a_create_hinted_late_is_called_although_its_owner_rereads_the_minute_only_then() -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, settings=skip_after(0.2))
        world.add_node("a")
        await until(world, lambda: len(pollers_of(world, "a")) == 1, within=20.0)
        here = minute_start(minute_of(world.now_ms())) + 60_000
        await world.create(SHOP, here + 50_000)
        await world.advance_to(here + 3_000)
        world.hints_named = 0
        for number in range(40):
            await world.create(SHOP, world.now_ms() + 100 + 50 * number)
        await all_called(world)

    simulate(scenario)


def test_what_an_outage_made_late_is_skipped_though_rows_were_found_since() -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, settings=skip_after(5))
        world.add_node("a")
        await until(world, lambda: len(pollers_of(world, "a")) == 1, within=20.0)
        here = minute_start(minute_of(world.now_ms())) + 60_000
        overdue = [await world.create(SHOP, here + 10_000 + 100 * number) for number in range(20)]
        await world.advance_to(here + 2_000)
        await world.kill("a")
        await world.advance_to(here + 30_000)
        world.add_node("b")
        await until(world, lambda: len(pollers_of(world, "b")) == 1, within=20.0)
        world.hints_lost = 1.0
        fresh = [await world.create(SHOP, world.now_ms() + 1_000 + 50 * number) for number in range(20)]
        await world.settle_down()
        assert await states(world, overdue) == {State.SKIPPED}
        assert await states(world, fresh) == {State.DELIVERED}

    simulate(scenario)
