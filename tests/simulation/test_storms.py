"""Restarts with much to recover, on a store that slows down under load and whose partitions contend.

No partition may see more than a few conditional writes at once or in all, nodes must regain their trust, and another
client's calls must be on time.
"""

import pytest

from scheduler_service.domain.clients import ClientSettings, RetrySettings
from tests.simulation.cluster import until
from tests.simulation.storms import add_quiet_client, create_quiet, create_rows, lateness_ms, load_store
from tests.simulation.world import World, simulate

NODES = "ab"
STUBBORN = ClientSettings(retry=RetrySettings(max_attempts=20))
WRITES_A_MINUTE = 120
"""The most conditional writes on one partition within any minute. Two nodes may each have one under way; without turns
there are thousands of external updates of one partition."""


async def restarted(world: World, *, killed: bool) -> None:
    for name in NODES:
        await (world.kill(name) if killed else world.stop(name))
    await world.advance(20)
    for name in NODES:
        world.add_node(name)


def trusted(world: World) -> bool:
    return all(node.node.membership_agent.trusted() for node in world.nodes.values())


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize(("rows", "key"), [(700, "order-1"), (900, None)], ids=["one key", "no key"])
def test_a_receiver_that_is_down_does_not_bring_the_store_down_at_a_restart(
    killed: bool, rows: int, key: str | None
) -> None:
    async def scenario(world: World) -> None:
        store = load_store(world)
        await world.add_client("shop", settings=STUBBORN)
        await add_quiet_client(world)
        for name in NODES:
            world.add_node(name)
        await world.advance(10)
        minute = world.now_ms() // 60_000 * 60_000 + 60_000
        created = await create_rows(world, "shop", rows, first_ms=minute, apart_ms=59_000 / rows, key=key)
        failing = {str(created[0].schedule_id)} if key else {str(asked.schedule_id) for asked in created}
        world.receiver.script = lambda call: 500 if call.schedule_id in failing else 200
        await world.advance_to(minute + 120_000)
        quiet = await create_quiet(world, first_ms=world.now_ms() + 45_000, seconds=60)
        store.forget()
        await restarted(world, killed=killed)
        await until(world, lambda: trusted(world), within=20.0, step=1.0)
        await world.advance(100)
        assert trusted(world)
        assert max(seen.most_under_way for seen in store.partitions.values()) <= len(NODES)
        assert max(seen.busiest(60.0) for seen in store.partitions.values()) <= WRITES_A_MINUTE
        assert store.backlog_seconds < 0.1
        late = lateness_ms(quiet, now_ms=world.now_ms())
        assert late[len(late) * 99 // 100] < 1_000

    simulate(scenario)
