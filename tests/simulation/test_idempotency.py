"""A create under an idempotency key is repeated until it is acknowledged: one schedule, called once."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from cql.connection import Item
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.domain.ids import CronId
from tests.simulation.crons import Crons
from tests.simulation.faults import FaultPlan
from tests.simulation.keyed import Callers
from tests.simulation.world import World, simulate

FAULTS = ["refuse", "lose", "late", "crash-before", "crash-after"]
YEARLY = CronId("yearly")
STEPS = 4
"""Requests to the store of a create under a key: the key, the index row, the row, and the read of a late create.
Requests with higher numbers are the repeat's."""


async def shop(world: World) -> Callers:
    await world.add_client("shop", quota=2)
    world.add_node("a")
    await world.advance(8)
    return Callers(world)


async def another_process(world: World) -> Callers:
    """Start another process instead of a dead one; the dead one's pending work is lost."""
    await world.restart_api()
    return Callers(world)


def made(world: World) -> list[str]:
    rows = [row for row in world.memory.rows("schedules") if row["kind"] != "copy"]
    return [str(row["schedule_id"]) for row in rows if row["client_id"] == "shop"]


def fault_at(step: int, fault: str, met: list[str]) -> Callable[[str, Sequence[Item]], str | None]:
    """A hook that makes the request of that number fail."""

    def hook(kind: str, items: Sequence[Item]) -> str | None:
        met.append(items[0][0])
        return fault if len(met) == step else None

    return hook


@pytest.mark.parametrize("pause", [0.5, 20.0, 400.0], ids=["at-once", "after-its-due", "after-its-minute"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_key_was_kept_and_the_insert_failed(step: int, fault: str, pause: float) -> None:
    """Any request of the first try fails or is its last."""
    met: list[str] = []

    async def scenario(world: World) -> None:
        callers = await shop(world)
        world.api_connection.plan.hook = fault_at(step, fault, met)
        first = asyncio.get_running_loop().create_task(callers.create("k", 3.0))
        await asyncio.wait([first], timeout=pause)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        world.api_connection.plan.hook = None
        if fault.startswith("crash"):
            callers = await another_process(world)
        await world.advance(pause)
        async with asyncio.timeout(600):
            (asked,) = await callers.acknowledged("k", 3.0)
        await world.settle_down()
        assert made(world) == [str(asked.schedule_id)]
        assert [call.attempt for call in asked.calls] == [1]
        assert await callers.acknowledged("k", 3.0) == [asked]
        await world.advance(120)
        assert (len(made(world)), len(asked.calls)) == (1, 1)

    simulate(scenario)
    assert met[0] == "idempotency_keys.keep"


@pytest.mark.parametrize("seed", range(1, 7))
def test_callers_in_doubt_have_one_schedule_of_each_key(seed: int) -> None:
    """Two callers share every key; some keys are of several items."""

    async def scenario(world: World) -> None:
        callers = await shop(world)
        world.add_node("b")
        world.api_connection.plan = FaultPlan(refuse=0.15, lose_answer=0.25, slow=0.1, slow_seconds=20.0)
        asks = []
        for number in range(30):
            delays = (2.0 + number, 20.0, 90.0)[: 1 + number % 3]
            asks += [callers.acknowledged(f"k{number}", *delays) for _ in range(2)]
        answers = await asyncio.gather(*asks)
        for one, other in zip(answers[::2], answers[1::2], strict=True):
            assert one == other
        world.heal()
        await world.settle_down()
        known = {str(asked.schedule_id) for answer in answers for asked in answer}
        assert sorted(made(world)) == sorted(known)
        for asked in world.asked.values():
            assert len(asked.calls) == 1

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("pause", [0.5, 400.0], ids=["at-once", "after-its-minute"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", range(1, 6))
def test_a_trigger_failed_and_is_repeated(step: int, fault: str, pause: float) -> None:
    """Any request of the first try fails or is its last: the cron, the key, the run, the index row, the row."""
    met: list[str] = []

    async def scenario(world: World) -> None:
        await world.add_client(CRON_CLIENT, quota=1)
        callers = await shop(world)
        crons = Crons(world)
        await crons.put("yearly", "30 2 1 1 *")
        await world.advance(70)
        world.api_connection.plan.hook = fault_at(step, fault, met)
        first = asyncio.get_running_loop().create_task(callers.triggered("k", YEARLY))
        await asyncio.wait([first], timeout=pause)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        world.api_connection.plan.hook = None
        if fault.startswith("crash"):
            callers = await another_process(world)
        await world.advance(pause)
        async with asyncio.timeout(600):
            made_id = await callers.triggered("k", YEARLY)
        await world.settle_down()
        assert made(world) == [str(made_id)]
        assert [call.attempt for call in world.asked[str(made_id)].calls] == [1]
        present = Crons(world)
        present.stories = crons.stories
        await present.put("yearly", "30 3 1 1 *")
        assert await callers.triggered("k", YEARLY) == made_id
        await world.advance(120)
        assert (made(world), len(world.asked[str(made_id)].calls)) == ([str(made_id)], 1)

    simulate(scenario)
    assert met[0] == "crons.read"


@pytest.mark.parametrize("seed", range(1, 7))
def test_callers_in_doubt_redeliver_once_under_one_key(seed: int) -> None:
    async def scenario(world: World) -> None:
        callers = await shop(world)
        asked = [await world.create("shop", world.now_ms() + 3_000) for _ in range(6)]
        await world.advance(40)
        for turn in range(1, 4):
            world.api_connection.plan = FaultPlan(refuse=0.1, lose_answer=0.3)
            await asyncio.gather(
                *(callers.redelivered(f"{turn} {one.schedule_id}", one) for one in asked for _ in range(2))
            )
            world.heal()
            await world.settle_down()
            await asyncio.gather(*(callers.redelivered(f"{turn} {one.schedule_id}", one) for one in asked))
            await world.settle_down()
            assert {len(one.calls) for one in asked} == {1 + turn}

    simulate(scenario, seed=seed)
