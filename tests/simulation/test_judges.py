"""Judges of simulated worlds claim what is promised, and no more."""

from collections.abc import Awaitable, Callable

from poller_cluster.settings import NodeSettings
from tests.simulation.drawn.setting import draw_setting
from tests.simulation.drawn.world import DrawnWorld
from tests.simulation.world import CLOCK_TOLERANCE_MS
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
