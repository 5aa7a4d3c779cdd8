"""Changes of crons amid outages, hand-overs and spread: each fire still exists once."""

import pytest

from scheduler_service.domain.ids import MINUTE_MS
from scheduler_service.domain.schedules import State
from tests.simulation.crons import SHOP, with_crons
from tests.simulation.test_crons import to_the_next_minute
from tests.simulation.world import World, simulate


def owner_of(world: World, poller_id: int) -> str:
    pollers = [
        row for row in world.memory.rows("pollers") if row["client_id"] == SHOP and row["poller_id"] == poller_id
    ]
    return str(pollers[0]["owner_node"])


@pytest.mark.parametrize("change", ["same-rule", "other-rule", "pause", "delete"])
def test_a_change_while_all_nodes_are_down_takes_back_nothing_that_was_due_before(change: str) -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        await crons.put("tick", "* * * * *", url="http://old.test/")
        await world.advance(200.0)
        await to_the_next_minute(world, second=20.0)
        await world.kill_all()
        await world.advance(150.0)
        match change:
            case "same-rule":
                await crons.put("tick", "* * * * *", url="http://new.test/")
            case "other-rule":
                await crons.put("tick", "*/5 * * * *", url="http://new.test/")
            case "pause":
                await crons.pause("tick")
            case _:
                await crons.delete("tick")
        changed = world.now_ms()
        await world.advance(60.0)
        world.add_node("c")
        await world.advance(600.0)
        await crons.check()
        for nominal, made in crons.calls("tick").items():
            assert {call.url for call in made} == {"http://old.test/" if nominal < changed else "http://new.test/"}

    simulate(scenario)


@pytest.mark.parametrize("second", [57.0, 59.0, 59.9])
def test_a_fire_that_was_claimed_when_its_cron_changed_survives_a_hand_over(second: float) -> None:
    """The change leaves the claimed fire; then its owner gives it back without having called."""

    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        await crons.put("tick", "* * * * *")
        await world.advance(200.0)
        for number in range(3):
            await to_the_next_minute(world, second=second)
            await crons.put("tick", "* * * * *", label=str(number))
            await world.advance(0.2)
            owner = owner_of(world, (await crons.read("tick")).poller_id)
            await world.stop(owner)
            world.add_node(owner)
            await world.advance(100.0)
        await world.advance(100.0)
        await crons.check()

    simulate(scenario)


def test_a_spread_that_is_added_repeats_no_fire_that_was_claimed_or_cancelled() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *")
        await world.advance(200.0)
        start = await to_the_next_minute(world, second=57.0)
        rows = await crons.rows("tick")
        cancelled = start + 4 * MINUTE_MS
        await world.cancel_schedules.one(SHOP, rows[cancelled].schedule_id)
        await crons.put("tick", "* * * * *", spread_seconds=1100)
        await world.advance(1000.0)
        calls = crons.calls("tick")
        assert [nominal for nominal, made in calls.items() if len(made) > 1] == []
        assert start + MINUTE_MS in calls
        assert cancelled not in calls
        assert cancelled + MINUTE_MS in calls

    simulate(scenario)


def test_a_spread_that_is_added_to_a_young_cron_invents_no_fires() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        await crons.put("tick", "* * * * *", max_fires=10)
        made = world.now_ms()
        await world.advance(200.0)
        await to_the_next_minute(world, second=20.0)
        await crons.put("tick", "* * * * *", max_fires=10, spread_seconds=1100)
        await world.advance(1300.0)
        assert min(crons.calls("tick")) > made
        assert len(crons.calls("tick")) == 10

    simulate(scenario)


def test_a_cron_that_catches_up_with_nothing_still_fires() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="abc")
        await crons.put("tick", "* * * * *", catch_up_seconds=0)
        await world.advance(200.0)
        for name in "abc":
            await world.kill(name)
            world.add_node(name)
            await world.advance(40.0)
        await world.advance(200.0)
        await crons.check()
        assert {row.state for nominal, row in (await crons.rows("tick")).items() if nominal < world.now_ms()} == {
            State.DELIVERED
        }

    simulate(scenario)
