"""Judges of simulated worlds claim what is promised, and no more."""

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from poller_cluster.settings import NodeSettings
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis, minute_end, minute_of, new_schedule_id
from tests.simulation.crons import with_crons
from tests.simulation.drawn.administrators import Administrators
from tests.simulation.drawn.promises import Promises
from tests.simulation.drawn.schedules import Schedule
from tests.simulation.drawn.setting import draw_setting
from tests.simulation.drawn.troubles import Troubles
from tests.simulation.drawn.world import DrawnWorld
from tests.simulation.world import CLOCK_TOLERANCE_MS, Violation, World, simulate
from tests.support.virtual_loop import run_virtual


def drawn(scenario: Callable[[DrawnWorld], Awaitable[None]]) -> None:
    async def run() -> None:
        world = DrawnWorld(1, draw_setting(1), node_settings=NodeSettings())
        try:
            await scenario(world)
        finally:
            await world.close()

    run_virtual(run, seed=1)


def test_a_call_may_be_as_early_as_the_clocks_that_can_have_been_compared() -> None:
    async def scenario(world: DrawnWorld) -> None:
        world.skews = {"a": -20.0, "b": 320.0, "c": -250.0}
        world.start_node("b")
        world.start_node("c")
        await world.advance(20)
        b = world.nodes["b"]
        world.start_node("a")
        await world.advance(1)
        assert world.tolerance_ms(b) == 320 + CLOCK_TOLERANCE_MS
        await world.advance(20)
        assert world.tolerance_ms(b) == CLOCK_TOLERANCE_MS
        world.cut_off("c")
        await world.advance(20)
        assert world.tolerance_ms(b) == 320 + CLOCK_TOLERANCE_MS

    drawn(scenario)


@pytest.mark.parametrize("ahead_ms", [0, 900])
def test_a_cron_owes_its_fires_from_the_instant_that_its_answerer_showed(ahead_ms: int) -> None:
    async def scenario(world: World) -> None:
        world.api_clock.step(ahead_ms)
        world.api_clock.discipline().accept()
        crons = await with_crons(world)
        fire = minute_end(minute_of(world.now_ms()))
        await world.advance_to(fire - 200)
        await crons.put("minutely", "* * * * *")
        await world.advance(150)
        await crons.check()
        first = fire if ahead_ms == 0 else fire + 60_000
        assert min(crons.calls("minutely")) == first
        made = world.receiver.calls
        world.receiver.calls = [call for call in made if call.nominal_due != made[0].nominal_due]
        with pytest.raises(Violation, match="was missed"):
            await crons.check()
        world.crashes.clear()

    simulate(scenario)


def test_a_successor_has_come_to_something_though_its_redelivery_was_given_up() -> None:
    async def scenario(world: DrawnWorld) -> None:
        promises = Promises(world, Administrators(world), Troubles(world))
        due = UnixMillis(world.now_ms())
        known = new_schedule_id(due=due, poller_id=PollerId(0), randomness=world.api_randomness)
        following = world.schedules[str(known)] = Schedule(ClientId("shop"), known, due, None)
        with pytest.raises(Violation, match="came to nothing"):
            promises._check_successor(UUID(int=1), known)
        following.redelivery_given_up = True
        promises._check_successor(UUID(int=1), known)
        world.crashes.clear()

    drawn(scenario)
