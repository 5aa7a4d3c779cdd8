"""Three nodes under a steady load, and the checks that the cluster's scenarios share."""

import asyncio
from collections.abc import Callable, Container

from membership.identity import PollerKey
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.ids import ClientId, key_of, partition_of
from scheduler_service.domain.schedules import State
from tests.simulation.receivers import Call
from tests.simulation.world import World

SHOP = ClientId("shop")
POLLERS = 6
GRACEFUL_MS = 2_000
"""How late a planned move may make a call."""


async def three_nodes(
    world: World, *, quota: int = POLLERS, settings: ClientSettings | None = None, names: str = "abc"
) -> None:
    """Nodes that together own every poller."""
    await world.add_client(SHOP, quota=quota, settings=settings)
    for name in names:
        world.add_node(name)
    await until(world, lambda: owned(world) >= everything(quota), within=20.0)
    # By now the wall clocks' offsets are known, and every poller has its final owner.
    await world.advance(5.0)


def everything(quota: int = POLLERS) -> set[PollerKey]:
    return {PollerKey(SHOP, poller_id) for poller_id in range(quota)}


def owned(world: World) -> set[PollerKey]:
    """The pollers that each node believes to own. Two nodes may name the same only while one of them is not trusted."""
    held = [set(node.node.balancer.leases()) for node in world.nodes.values() if node.node.membership_agent.trusted()]
    assert sum(map(len, held)) == len(set().union(*held)), "a poller has two trusted owners"
    return set().union(*held)


def pollers_of(world: World, name: str) -> set[int]:
    return {poller.poller_id for poller in world.nodes[name].node.balancer.leases()}


def owner_of(world: World, poller_id: int) -> str:
    return next(name for name in world.nodes if poller_id in pollers_of(world, name))


def dead_incarnations(world: World) -> set[str]:
    """Nodes with an incarnation that was declared dead."""
    return {row["node_id"] for row in world.memory.rows("lives") if row["state"] == "dead"}


async def until(world: World, reached: Callable[[], bool], *, within: float, step: float = 0.1) -> float:
    """Let time pass until the condition is true; returns the seconds that took."""
    begun = asyncio.get_running_loop().time()
    while not reached():
        passed = asyncio.get_running_loop().time() - begun
        assert passed < within, f"not within {within} s"
        await world.advance(step)
    return asyncio.get_running_loop().time() - begun


def begin_load(world: World, *, seconds: float, per_second: float = 4.0) -> "asyncio.Task[None]":
    """Creates at a steady rate, due between one and thirty seconds later, by callers who do not see the cluster's
    state.
    """

    async def load() -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await world.create(SHOP, world.now_ms() + 1_200 + 28_000 * world.rng.random() ** 2)
            await world.api_clock.sleep(1.0 / per_second)

    return asyncio.get_running_loop().create_task(load(), name="load")


def lateness_ms(world: World, *, since_ms: float = 0.0) -> float:
    """The greatest lateness of a first call among those due since then."""
    late = [asked.calls[0].at_ms - asked.due for asked in world.asked.values() if asked.calls and asked.due >= since_ms]
    assert late, "nothing was called"
    return max(late)


def repeated(world: World) -> set[str]:
    return {str(asked.schedule_id) for asked in world.asked.values() if len(asked.calls) > 1}


def calls_since(world: World, at_ms: float, *, node: str | None = None) -> list[Call]:
    return [call for call in world.receiver.calls if call.at_ms >= at_ms and node in (None, call.node)]


async def in_doubt(world: World, pollers: Container[int]) -> set[str]:
    """Ids of these pollers' schedules that the store shows as possibly sent."""
    found = set()
    for asked in world.asked.values():
        partition = partition_of(asked.client_id, asked.schedule_id)
        header, _ = await world.truth.schedules.read_rows(partition, [key_of(asked.schedule_id)], serial=True)
        if asked.schedule_id in header.in_flight and partition.poller_id in pollers:
            found.add(str(asked.schedule_id))
    return found


async def all_delivered(world: World) -> None:
    """Nothing was lost: every acknowledged create that was not cancelled was called and has an outcome."""
    await world.settle_down()
    for asked in world.asked.values():
        if asked.acknowledged and not asked.cancelled:
            row = await world.row_of(asked)
            assert row is not None
            assert row.state == State.DELIVERED
            assert asked.calls


async def all_delivered_once(world: World) -> None:
    """Nothing was lost and nothing repeated."""
    await all_delivered(world)
    assert not repeated(world)
