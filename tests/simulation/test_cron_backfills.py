"""Backfills make what is missing once each, whatever is repeated, lost or killed meanwhile."""

import asyncio

import pytest

from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.ids import MINUTE_MS
from scheduler_service.domain.schedules import State
from tests.simulation.books import check_books
from tests.simulation.crons import Crons, with_crons
from tests.simulation.world import World, simulate


async def paused_for_half_an_hour(world: World) -> tuple[Crons, int, int]:
    """A cron that fires every minute, with a pause of 30 minutes; when the pause began and ended."""
    crons = await with_crons(world)
    await crons.put("tick", "* * * * *")
    await world.advance(300.0)
    await crons.pause("tick")
    began = world.now_ms()
    await world.advance(1_800.0)
    await crons.resume("tick")
    return crons, began, world.now_ms()


async def assert_each_fire_was_made_once(crons: Crons, first: int, last: int, *, repeated: bool = False) -> None:
    calls, rows = crons.calls("tick"), await crons.rows("tick")
    for nominal in range(first, last + 1, MINUTE_MS):
        assert rows[nominal].state == State.DELIVERED, (nominal, rows[nominal])
        assert len({call.schedule_id for call in calls[nominal]}) == 1
        assert repeated or len(calls[nominal]) == 1, f"{nominal} was made {len(calls[nominal])} times"


def test_the_fires_of_a_pause_are_made_once_however_often_and_by_how_many_they_are_asked_for() -> None:
    async def scenario(world: World) -> None:
        crons, began, ended = await paused_for_half_an_hour(world)
        await world.advance(200.0)
        start, end = began - 200_000, ended + 60_000
        both = await asyncio.gather(crons.backfill("tick", start, end), crons.backfill("tick", start, end))
        promised = {*both[0], *both[1]}
        assert len(promised) in (29, 30, 31)
        assert min(promised) > began - 60_000, "what was made is left"
        for _ in range(3):
            await world.advance(15.0)
            assert await crons.backfill("tick", start, end) == []
        await world.advance(120.0)
        await crons.check()
        await assert_each_fire_was_made_once(crons, min(promised), max(promised))
        assert (await crons.read("tick")).state is CronState.ACTIVE
        await check_books(world)

    simulate(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_a_backfill_under_lost_answers_and_dying_owners(seed: int) -> None:
    async def scenario(world: World) -> None:
        crons, began, ended = await paused_for_half_an_hour(world)
        await world.advance(90.0)
        plans = [world.api_connection.plan, *(node.connection.plan for node in world.nodes.values())]
        for plan in plans:
            plan.lose_answer = plan.refuse = 0.1
        asked = asyncio.ensure_future(crons.backfill("tick", began - 200_000, ended))
        for name in "ab":
            await world.advance(world.rng.uniform(0.5, 20.0))
            await world.kill(name)
            world.add_node(name)
        await world.advance(90.0)
        for plan in plans:
            plan.lose_answer = plan.refuse = 0.0
        first = await asked
        assert await crons.backfill("tick", began - 200_000, ended) == []
        await world.advance(300.0)
        await world.revive()
        await world.advance(300.0)
        await crons.check()
        await assert_each_fire_was_made_once(crons, min(first), max(first), repeated=True)

    simulate(scenario, seed=seed)


def test_what_an_outage_skipped_is_made_and_the_cron_s_change_in_between_matters_not() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *", catch_up_seconds=120)
        await world.advance(300.0)
        down = world.now_ms()
        await world.kill("a")
        await world.advance(1_800.0)
        world.add_node("b")
        await world.advance(300.0)
        rows = await crons.rows("tick")
        skipped = sorted(nominal for nominal, row in rows.items() if row.state == State.SKIPPED)
        assert len(skipped) > 20
        await crons.put("tick", "* * * * *", catch_up_seconds=120, label="edited")
        await crons.backfill("tick", down - 600_000, world.now_ms())
        await world.advance(200.0)
        await crons.check()
        await assert_each_fire_was_made_once(crons, skipped[0], skipped[-1])

    simulate(scenario)
