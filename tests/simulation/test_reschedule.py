"""A schedule is called at the old instant or at the new one, and never at neither or both."""

import asyncio
from collections.abc import Sequence

import pytest

from cql.connection import Item
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.reschedule_schedule import RescheduleRequest
from scheduler_service.usecases.schedule_request import CallbackRequest
from tests.simulation.faults import FaultPlan
from tests.simulation.reschedules import DyingApi, register, reschedule, reschedule_once
from tests.simulation.world import World, simulate
from tests.support.virtual_loop import virtual_loop


@pytest.mark.parametrize("seed", range(1, 7))
def test_one_of_the_two_is_called(seed: int) -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=2)
        for name in "ab":
            world.add_node(name)
        await world.advance(8)
        base = world.now_ms() + 15_000
        asked = [await world.create("shop", base + 5 * number) for number in range(80)]
        await world.advance_to(base - 2_500)
        world.api_connection.plan = FaultPlan(refuse=0.05, lose_answer=0.1)

        async def later(number: int) -> bool:
            await virtual_loop().advance(number * 0.03)
            return await reschedule(world, asked[number], 100 + number)

        moved = await asyncio.gather(*(later(number) for number in range(80)))
        assert 0 < sum(moved) < len(moved)
        world.heal()
        await world.settle_down()
        for one, was_rescheduled_by in zip(asked, moved, strict=True):
            row = await world.row_of(one)
            assert row is not None
            assert len(one.calls) == (not was_rescheduled_by)
            if was_rescheduled_by:
                assert len(world.asked[str(row.rescheduled_to)].calls) == 1

    simulate(scenario, seed=seed)


OTHER = "https://other.test/"
MOST_WRITES = 6
"""The most writes of one reschedule."""


def somewhere_else(delay: float, *, other: bool) -> RescheduleRequest:
    callback = CallbackRequest(url=OTHER, body="other") if other else None
    return RescheduleRequest(delay_seconds=delay, callback=callback)


@pytest.mark.parametrize("other", [False, True], ids=["same-call", "other-call"])
@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYING])
def test_a_reschedule_calls_exactly_one_instant_after_any_crash(state: State, fault: str, other: bool) -> None:
    """After each write, for an earlier instant and for a later one; no caller repeats or reads."""

    async def scenario(world: World) -> None:
        patient = RetrySettings(base_seconds=200, cap_seconds=200)
        await world.add_client("shop", quota=2, settings=ClientSettings(retry=patient))
        for name in "ab":
            world.add_node(name)
        await world.advance(8)
        retrying = state is State.RETRYING
        world.receiver.script = lambda call: 500
        due = world.now_ms() + (2_000 if retrying else 120_000)
        scenes = [(write, delay) for write in range(1, MOST_WRITES + 1) for delay in (40, 400)]
        asked = [await world.create("shop", due + number) for number in range(len(scenes))]
        await world.advance(5)
        before = [len(one.calls) for one in asked]
        assert before == [int(retrying)] * len(asked)
        world.receiver.script = lambda call: 200
        for one, (write, delay) in zip(asked, scenes, strict=True):
            await DyingApi(world, write=write, fault=fault).ask(one, somewhere_else(delay, other=other))
        await world.advance(500)
        await world.settle_down(within=600)
        stayed = 0
        for one, calls in zip(asked, before, strict=True):
            new = await register(world, one)
            if new is one:
                stayed += 1
                assert len(one.calls) == calls + 1
                continue
            assert (len(one.calls), len(new.calls)) == (calls, 1)
            assert new.calls[0].url == (OTHER if other else "http://receiver.test/")
            assert new.calls[0].at_ms - new.due < 1_000
        assert 2 <= stayed < len(asked) - 2

    simulate(scenario)


def test_a_cancel_that_arrives_after_the_new_minute_was_settled_is_made_good_by_the_old_owner() -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        world.add_node("a")
        await world.advance(8)
        asked = await world.create("shop", world.now_ms() + 300_000)

        def late(kind: str, items: Sequence[Item]) -> str | None:
            return "late" if kind == "conditional" else None

        world.api_connection.plan = FaultPlan(hook=late, late_seconds=200.0)
        request = somewhere_else(5, other=True)
        caller = asyncio.get_running_loop().create_task(reschedule_once(world, asked, request))
        await world.advance(1)
        caller.cancel()
        await world.advance(210)
        new = await register(world, asked)
        assert new is not asked
        new.acknowledged, asked.acknowledged = True, False
        await world.advance(200)
        await world.settle_down()
        assert (len(asked.calls), [call.url for call in new.calls]) == (0, [OTHER])

    simulate(scenario)
