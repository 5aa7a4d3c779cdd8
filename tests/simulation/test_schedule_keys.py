"""Of the schedules put under one key, exactly one of old and new is called."""

import asyncio
import random
from collections.abc import Sequence
from itertools import cycle

import pytest

from cql.connection import Item
from cql.storage import Storage
from poller_cluster import retention
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.cancel_schedules import InFlight
from scheduler_service.usecases.schedule_keys import Put, PutResult, ScheduleKeys
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan, FaultyConnection
from tests.simulation.schedule_keys import judge, keys_of, put, stored
from tests.simulation.world import World, simulate
from tests.support.virtual_loop import virtual_loop

MOST_WRITES = 6
"""The most writes of one put."""


class _Dying:
    """An API process that dies before or after its `write`th write; its pending requests are never answered."""

    def __init__(self, world: World, *, write: int, fault: str, drawn: list[CreateRecord]) -> None:
        self._world, self._write, self._fault, self._writes = world, write, fault, 0
        connection = FaultyConnection(world.memory, clock=world.api_clock, rng=random.Random(write))
        connection.plan = FaultPlan(hook=self._hook)
        self._storage = Storage.over(connection)
        self._storage.schedules.packs = cycle((True, False)).__next__
        writer = ScheduleWriter(
            schedules=self._storage.schedules,
            keys=self._storage.schedule_keys,
            leases=self._storage.leases,
            clock=world.api_clock,
            randomness=world.api_randomness,
            hints=world,
        )
        self._keys = keys_of(world, self._storage.schedules, writer, drawn=drawn)

    def _hook(self, kind: str, items: Sequence[Item]) -> str | None:
        self._writes += kind != "select"
        return self._fault if kind != "select" and self._writes == self._write else None

    async def put(self, key: str, delay_seconds: float) -> None:
        caller = asyncio.get_running_loop().create_task(put(self._world, self._keys, key, delay_seconds))
        await self._world.advance(2)
        caller.cancel()
        await self._storage.close()


async def _ready(world: World) -> tuple[ScheduleKeys, list[CreateRecord]]:
    await world.add_client("shop", quota=2)
    for name in "ab":
        world.add_node(name)
    await world.advance(8)
    drawn: list[CreateRecord] = []
    return keys_of(world, world.api_storage.schedules, world.writer, drawn=drawn), drawn


@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
@pytest.mark.parametrize("before", [None, State.SCHEDULED, State.DELIVERED])
@pytest.mark.parametrize("again", [False, True], ids=["left", "put-again"])
def test_a_put_calls_exactly_one_schedule_after_any_crash(before: State | None, fault: str, again: bool) -> None:
    """After each write of a put, for an earlier and a later instant. The key is left alone, or put again."""

    async def scenario(world: World) -> None:
        keys, drawn = await _ready(world)
        scenes = [(write, delay) for write in range(1, MOST_WRITES + 1) for delay in (100, 700)]
        for number in range(len(scenes)):
            if before is not None:
                made = await put(world, keys, f"key-{number}", 2 if before is State.DELIVERED else 400)
                assert isinstance(made, Put)
        await world.advance(6)
        for number, (write, delay) in enumerate(scenes):
            await _Dying(world, write=write, fault=fault, drawn=drawn).put(f"key-{number}", delay)
        if again:
            for number in range(len(scenes)):
                made = await put(world, keys, f"key-{number}", 300)
                assert isinstance(made, Put)
        await world.advance(800)
        await world.settle_down(within=600)
        calls = await judge(world, keys)
        called_before = len(scenes) if before is State.DELIVERED else 0
        if again or before is State.SCHEDULED:
            assert calls == called_before + len(scenes)
        else:
            # Puts that were not decided by then had no effect.
            assert 2 <= calls - called_before <= len(scenes) - 2

    simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 7))
def test_puts_against_claims_and_each_other(seed: int) -> None:
    """Four callers move each of a dozen keys around its due, while answers are lost and a node is killed."""

    async def scenario(world: World) -> None:
        keys, _ = await _ready(world)
        dice = random.Random(seed)
        world.api_connection.plan = FaultPlan(refuse=0.03, lose_answer=0.08)
        refused = 0

        async def push(key: str) -> None:
            nonlocal refused
            for _ in range(12):
                await virtual_loop().advance(dice.uniform(0.05, 3.0))
                result = await put(world, keys, key, dice.choice((0.5, 1.5, 3.0, 20.0)))
                refused += isinstance(result, InFlight)

        pushing = asyncio.gather(*(push(f"key-{number % 12}") for number in range(48)))
        await world.advance(10)
        await world.kill("a")
        await pushing
        world.heal()
        world.add_node("a")
        for number in range(12):
            while await put(world, keys, f"key-{number}", 30) is None:
                pass
        await world.settle_down()
        assert await judge(world, keys) >= 12

    simulate(scenario, seed=seed)


def test_a_key_that_is_pushed_a_hundred_times_is_called_once() -> None:
    async def scenario(world: World) -> None:
        keys, drawn = await _ready(world)
        for _ in range(100):
            assert isinstance(await put(world, keys, "quiet", 60), Put)
            await world.advance(1)
        await world.settle_down()
        assert await judge(world, keys) == 1
        assert [len(asked.calls) for asked in drawn] == [0] * 99 + [1]

    simulate(scenario)


def test_a_key_that_is_pushed_beyond_retention_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What took the key is deleted long before the last push, and so are most of its replacements."""
    monkeypatch.setattr(retention, "DAY_MS", 60_000)
    monkeypatch.setattr(retention, "SWEEP_EVERY_SECONDS", 20.0)

    async def scenario(world: World) -> None:
        keys, drawn = await _ready(world)
        made: PutResult | None = None
        for _ in range(40):
            made = await put(world, keys, "quiet", 90)
            assert isinstance(made, Put)
            for asked in drawn:
                # Once they may be deleted, the world does not look after them.
                if asked.due < world.now_ms() - 6 * 60_000:
                    world.asked.pop(str(asked.schedule_id), None)
            await world.advance(30)
        assert await stored(world, drawn[0]) is None
        assert isinstance(made, Put)
        assert made.replaced
        await world.settle_down()
        assert [len(asked.calls) for asked in drawn] == [0] * 39 + [1]

    simulate(scenario)
