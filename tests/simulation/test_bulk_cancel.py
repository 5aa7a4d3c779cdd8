"""Bulk cancels race with claims; each schedule is decided by itself."""

import asyncio
from collections.abc import Sequence

import pytest

from cql.connection import Item
from membership.errors import StoreUnavailable
from scheduler_service.usecases.cancel_schedules import Cancelled
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.world import World, simulate
from tests.support.virtual_loop import virtual_loop


async def cancel_many(world: World, asked: Sequence[CreateRecord]) -> int:
    """Cancel several schedules of one client, repeated until there is an answer; returns how many were cancelled."""
    left = {one.schedule_id: one for one in asked}
    cancelled = 0
    while left:
        try:
            results = await world.cancel_schedules.many(asked[0].client_id, list(left))
        except StoreUnavailable:
            continue
        for schedule_id, result in results.items():
            if isinstance(result, StoreUnavailable):
                continue
            one = left.pop(schedule_id)
            one.cancelled |= isinstance(result, Cancelled)
            cancelled += isinstance(result, Cancelled)
    return cancelled


@pytest.mark.parametrize("seed", range(1, 7))
def test_hundreds_at_the_instant_of_the_claim(seed: int) -> None:
    """Half of the callers read before the claim and write after it; answers get lost."""

    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=2)
        world.add_node("a")
        await world.advance(8)
        base = world.now_ms() + 15_000
        asked = [await world.create("shop", base + 5 * number) for number in range(240)]
        await world.advance_to(base - 1_030)
        world.api_connection.plan = FaultPlan(refuse=0.05, lose_answer=0.2)

        async def cancel_later(number: int) -> int:
            await virtual_loop().advance(number * 0.004)
            return await cancel_many(world, asked[number * 20 : number * 20 + 20])

        cancelled = sum(await asyncio.gather(*(cancel_later(number) for number in range(12))))
        world.heal()
        await world.settle_down()
        assert sum(not one.calls for one in asked) == cancelled

    simulate(scenario, seed=seed)


def test_a_whole_minute_costs_a_few_edits() -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        world.add_node("a")
        await world.advance(8)
        base = world.now_ms() // 60_000 * 60_000 + 120_000
        asked = [await world.create("shop", base + 100 * number) for number in range(250)]
        edits: list[int] = []

        def count(kind: str, items: Sequence[Item]) -> None:
            if kind == "conditional":
                edits.append(len(items) - 1)

        world.api_connection.plan.hook = count
        assert await cancel_many(world, asked) == 250
        assert sum(edits) == 250
        assert len(edits) <= 3, "neighbours share a conditional write"
        await world.settle_down()
        assert not any(one.calls for one in asked)

    simulate(scenario)
