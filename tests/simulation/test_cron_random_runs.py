"""Crons in random runs."""

import pytest

from tests.simulation.crons import with_crons
from tests.simulation.world import World, simulate


@pytest.mark.parametrize("seed", range(4))
def test_random_runs(seed: int) -> None:
    """Crons of several kinds under crashes, pauses of processes, lost answers and cut-offs."""

    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="abc", quota=3)
        kinds = ("* * * * *", "*/2 * * * *", "*/7 * * * *", "5,35 * * * *")
        for number in range(6):
            await crons.put(f"cron-{number}", kinds[number % len(kinds)], spread_seconds=5 * number)
        for _ in range(20):
            name = world.rng.choice("abc")
            match world.rng.randrange(6):
                case 0:
                    await world.kill(name)
                    await world.advance(world.rng.uniform(0, 60))
                    world.add_node(name)
                case 1:
                    await world.stop(name)
                    world.add_node(name)
                case 2:
                    world.pause(name)
                    await world.advance(world.rng.uniform(1, 30))
                    world.resume(name)
                case 3:
                    world.cut_off(name)
                    await world.advance(world.rng.uniform(1, 60))
                    world.heal()
                case 4:
                    for node in world.nodes.values():
                        node.connection.plan.lose_answer, node.connection.plan.refuse = 0.05, 0.05
                    await world.advance(world.rng.uniform(1, 120))
                    for node in world.nodes.values():
                        node.connection.plan.lose_answer = node.connection.plan.refuse = 0.0
                case _:
                    cron_id = f"cron-{world.rng.randrange(6)}"
                    if world.rng.random() < 0.5:
                        await crons.put(cron_id, world.rng.choice(kinds), label=str(world.now_ms()))
                    else:
                        await crons.pause(cron_id)
                        await world.advance(world.rng.uniform(0, 100))
                        await crons.resume(cron_id)
            await world.advance(world.rng.uniform(0, 90))
            await world.revive()
        await world.advance(300.0)
        await world.revive()
        await world.advance(400.0)
        await crons.check()

    simulate(scenario, seed=seed)
