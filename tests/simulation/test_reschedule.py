"""A schedule is called at the old instant or at the new one, whoever wins, and never at neither or both."""

import asyncio
from uuid import UUID

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ScheduleId, due_of
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.quotas import LaneChooser
from scheduler_service.usecases.reschedule_schedule import Rescheduled, RescheduleRequest, RescheduleSchedule
from tests.simulation.asked import Asked
from tests.simulation.faults import FaultPlan
from tests.simulation.world import World, simulate
from tests.support.virtual_loop import virtual_loop


async def reschedule(world: World, asked: Asked, delay_seconds: float) -> bool:
    """Ask until there is an answer; whether the new one is called instead."""
    verb = RescheduleSchedule(
        schedules=world.api_storage.schedules,
        edit=world.edit,
        place=world.place,
        lanes=LaneChooser(world.api_randomness),
        policy=NetworkPolicy(),
        clock=world.api_clock,
    )
    while True:
        try:
            result = await verb(
                world.clients[asked.client_id], asked.schedule_id, RescheduleRequest(delay_seconds=delay_seconds)
            )
        except StoreUnavailable:
            # The new row may be there already, and be called before anybody has said so.
            await register(world, asked)
            continue
        if isinstance(result, Rescheduled):
            (await register(world, asked)).acknowledged = True
            asked.cancelled = True
            return True
        return False


async def register(world: World, asked: Asked) -> Asked:
    row = await world.row_of(asked)
    if row is None or row.rescheduled_to is None:
        return asked
    new = ScheduleId(UUID(str(row.rescheduled_to)))
    return world.asked.setdefault(str(new), Asked(asked.client_id, new, due_of(new)))


@pytest.mark.parametrize("seed", range(1, 7))
def test_one_of_the_two_is_called(seed: int) -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=2)
        for name in "ab":
            world.add_node(name)
        await world.advance(8)
        base = world.now_ms() + 15_000
        asked = [await world.create("shop", base + 5 * number) for number in range(80)]
        await world.advance_to(base - 1_030)
        world.api_connection.plan = FaultPlan(refuse=0.05, lose_answer=0.1)

        async def later(number: int) -> bool:
            await virtual_loop().advance(number * 0.001)
            return await reschedule(world, asked[number], 100 + number)

        moved = await asyncio.gather(*(later(number) for number in range(80)))
        assert 0 < sum(moved) < len(moved)
        world.heal()
        await world.settle_down()
        for one, was_moved in zip(asked, moved, strict=True):
            row = await world.row_of(one)
            assert row is not None
            assert len(one.calls) == (not was_moved)
            if was_moved:
                assert len(world.asked[str(row.rescheduled_to)].calls) == 1

    simulate(scenario, seed=seed)
