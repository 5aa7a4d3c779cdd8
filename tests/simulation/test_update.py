"""An update or a run is decided against the claim: the old content is called, or the new one, never neither or both."""

import asyncio
from typing import Final

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.reschedule_schedule import Change, Rescheduled, RescheduleRequest, Updated
from scheduler_service.usecases.schedule_update import CallbackUpdate, UpdateRequest
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.reschedules import DyingApi, change_once, register, verb_of
from tests.simulation.world import World, simulate
from tests.support.virtual_loop import virtual_loop

OLD: Final = "http://receiver.test/"
OTHER: Final = "https://other.test/"
_UPDATE: Final = UpdateRequest(callback=CallbackUpdate(url=OTHER))
CHANGES: Final[dict[str, tuple[Change, str]]] = {
    "update": (_UPDATE, OTHER),
    "update-by-successor": (_UPDATE, OTHER),
    "run": (RescheduleRequest(delay_seconds=0), OLD),
}
"""What is asked, and the URL that is called then. An update keeps its instant, so it competes with the one claim, as
its successor does where an older node runs."""
MOST_WRITES = 6
"""The most writes of one change."""


def in_place(change: str) -> bool:
    return change == "update"


async def changed(world: World, asked: CreateRecord, change: str) -> bool:
    """Repeat the request until there is an answer: whether it was accepted."""
    request, _ = CHANGES[change]
    verb = verb_of(world, in_place=in_place(change))
    while True:
        try:
            result = await change_once(world, verb, asked, request)
        except StoreUnavailable:
            continue
        if isinstance(result, Updated):
            return True
        if isinstance(result, Rescheduled):
            (await register(world, asked)).acknowledged = True
            asked.cancelled = True
        return isinstance(result, Rescheduled)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("owner_dies", [False, True], ids=["", "owner-dies"])
@pytest.mark.parametrize("change", CHANGES)
def test_old_or_new_is_called_at_the_claim(change: str, owner_dies: bool, seed: int) -> None:
    """Changes begin from before the first claim until after the last. A call that a dead owner made may be repeated."""
    _, url = CHANGES[change]

    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=2)
        for name in "ab":
            world.add_node(name)
        await world.advance(8)
        base = world.now_ms() + 15_000
        asked = [await world.create("shop", base + 5 * number) for number in range(80)]
        await world.advance_to(base - 6_500)
        world.api_connection.plan = FaultPlan(refuse=0.05, lose_answer=0.1)

        async def later(number: int) -> bool:
            await virtual_loop().advance(number * 0.09)
            return await changed(world, asked[number], change)

        changes = asyncio.gather(*(later(number) for number in range(80)))
        await world.advance(5.7)
        if owner_dies:
            await world.kill("a")
        await world.advance(10)
        world.heal()
        await world.advance(30)
        moved = await changes
        assert 0 < sum(moved) < len(moved)
        await world.settle_down()
        for one, was_rescheduled_by in zip(asked, moved, strict=True):
            called = await register(world, one)
            assert (called is not one) == (was_rescheduled_by and not in_place(change))
            assert called is one or not one.calls
            assert {call.url for call in called.calls} == {url if was_rescheduled_by else OLD}
            assert owner_dies or len(called.calls) == 1
        assert sum(bool(one.calls) for one in world.asked.values()) == len(asked)

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("owner_dies", [False, True], ids=["", "owner-dies"])
@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
@pytest.mark.parametrize("state", [State.SCHEDULED, State.RETRYING])
@pytest.mark.parametrize("change", CHANGES)
def test_old_or_new_is_called_after_any_crash(change: str, state: State, fault: str, owner_dies: bool) -> None:
    """The API process dies around each write, then perhaps a node; no caller repeats or reads."""
    request, url = CHANGES[change]

    async def scenario(world: World) -> None:
        patient = RetrySettings(base_seconds=200, cap_seconds=200)
        await world.add_client("shop", quota=2, settings=ClientSettings(retry=patient))
        for name in "ab":
            world.add_node(name)
        await world.advance(8)
        retrying = state is State.RETRYING
        world.receiver.script = lambda call: 500
        due = world.now_ms() + (2_000 if retrying else 120_000)
        asked = [await world.create("shop", due + number) for number in range(MOST_WRITES)]
        await world.advance(5)
        before = [len(one.calls) for one in asked]
        assert before == [int(retrying)] * len(asked)
        world.receiver.script = lambda call: 200
        for write, one in enumerate(asked, 1):
            dying = DyingApi(world, write=write, fault=fault, in_place=in_place(change))
            caller = asyncio.get_running_loop().create_task(change_once(world, dying.reschedule, one, request))
            await world.advance(2)
            caller.cancel()
            await dying.storage.close()
        if owner_dies:
            await world.kill("a")
        await world.advance(500)
        await world.settle_down(within=600)
        stayed = 0
        revised = in_place(change) and not retrying
        for write, (one, calls) in enumerate(zip(asked, before, strict=True), 1):
            called = await register(world, one)
            changes = called is not one or (revised and (write, fault) != (1, "crash-before"))
            stayed += not changes
            further = one.calls[calls:] if called is one else called.calls
            assert [call.url for call in further] == [url if changes else OLD]
            assert called is one or len(one.calls) == calls
        assert (stayed == (fault == "crash-before")) if revised else (1 <= stayed < len(asked) - 1)
        assert sum(len(one.calls) for one in world.asked.values()) == sum(before) + len(asked)

    simulate(scenario)
