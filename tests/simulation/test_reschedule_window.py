"""Schedules of a window move together: each is called at its old or its new instant, once, and moves once, whatever
happens to answers and processes.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import pytest

from cql.storage import Storage
from membership.errors import StoreUnavailable
from scheduler_service.domain.idempotency import Keyed
from scheduler_service.domain.ids import ScheduleId, UnixMillis, due_of
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases import reschedule_window
from scheduler_service.usecases.idempotency import RememberRequest
from scheduler_service.usecases.list_schedules import ListSchedules, Position, Window
from scheduler_service.usecases.reschedule_schedule import Rescheduled, RescheduleSchedule, WindowReschedule
from scheduler_service.usecases.reschedule_window import RescheduleWindow, name_of
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.reschedules import DyingApi, verb_of
from tests.simulation.world import World, simulate

KEYED = "the caller's key"


@pytest.fixture(autouse=True)
def pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reschedule_window, "MAX_RESCHEDULED", 7)


def over(storage: Storage, verb: RescheduleSchedule) -> RescheduleWindow:
    return RescheduleWindow(
        schedules=storage.schedules,
        listing=ListSchedules(schedules=storage.schedules),
        reschedule=verb,
        remember=RememberRequest(keys=storage.idempotency),
    )


@contextmanager
def announced(world: World) -> Iterator[None]:
    """The world knows successors before they are announced: they may be called before an answer arrives."""
    announce = ScheduleWriter.announce

    async def first(self: ScheduleWriter, definition: Definition) -> None:
        new = definition.schedule_id
        world.asked.setdefault(str(new), CreateRecord(definition.client_id, new, definition.due))
        await announce(self, definition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScheduleWriter, "announce", first)
        yield


def learn(world: World) -> None:
    """Register the successors that exist, by the rows that name them."""
    for row in world.memory.rows("schedules"):
        old = world.asked.get(str(row["schedule_id"]))
        if row["rescheduled_to"] is not None and old is not None and row["due"] == old.due:
            new = ScheduleId(UUID(str(row["rescheduled_to"])))
            successor = world.asked.setdefault(str(new), CreateRecord(old.client_id, new, due_of(new)))
            old.cancelled = successor.acknowledged = True


async def page(
    world: World,
    moving: RescheduleWindow,
    window: Window,
    move: WindowReschedule,
    keyed: Keyed | None,
    position: Position | None,
) -> tuple[int, Position | None]:
    """One request: how many moved, now or before, and where the next one continues."""
    client = world.clients["shop"]
    began = await moving.known(keyed) or await moving.begin(keyed, at=world.api_clock.wall_ms())
    found = await moving.find(window, move, began_at=began, position=position)
    outcomes = await moving.reschedule(client, found.schedules, move)
    if any(isinstance(one, StoreUnavailable) for one in outcomes.values()):
        raise StoreUnavailable("some are unknown")
    return sum(isinstance(one, Rescheduled) for one in outcomes.values()), found.next


async def moved(world: World, window: Window, move: WindowReschedule, keyed: Keyed | None, dice: random.Random) -> int:
    """Repeat every page until it is answered, and some that were answered, from the first one on, too."""
    moving = over(world.api_storage, verb_of(world))
    position, count = None, 0
    while True:
        try:
            some, following = await page(world, moving, window, move, keyed, position)
        except StoreUnavailable:
            await world.api_clock.sleep(0.2)
            continue
        finally:
            learn(world)
        if dice.random() < 0.2:
            position, count = None, 0
            continue
        count += some
        if following is None:
            return count
        position = following


def asked_move(window: Window, *, shift: float, key: str | None) -> WindowReschedule:
    return WindowReschedule(name=name_of(window, {"shift_seconds": shift}, key=key), shift_ms=round(shift * 1000))


@pytest.mark.parametrize("shift", [20.0, -10.0, 500.0])
@pytest.mark.parametrize("seed", range(1, 5))
def test_each_is_called_once_and_moves_once(seed: int, shift: float) -> None:
    """Against owners that claim, while answers get lost and a node dies."""

    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=2)
        for name in "ab":
            world.add_node(name)
        await world.advance(8)
        base = world.now_ms() + 4_000
        asked = [await world.create("shop", UnixMillis(base + 700 * number)) for number in range(60)]
        for node in world.nodes.values():
            node.connection.plan = FaultPlan(refuse=0.01, lose_answer=0.04)
        world.api_connection.plan = FaultPlan(refuse=0.005, lose_answer=0.03)
        client_id = world.clients["shop"].client_id
        window = Window(client_id=client_id, start=UnixMillis(base), end=UnixMillis(base + 60_000))
        keyed = Keyed(client_id, KEYED, b"f") if seed % 2 else None
        move = asked_move(window, shift=shift, key=None if keyed is None else keyed.key)
        with announced(world):
            caller = asyncio.get_running_loop().create_task(moved(world, window, move, keyed, random.Random(seed)))
            await world.advance(3)
            await world.kill("a")
            world.add_node("c")
            while not caller.done():
                await world.advance(1)
        count = caller.result()
        world.heal()
        await world.settle_down(within=700)
        learn(world)
        chains = Counter(str(row["rescheduled_from"]) for row in world.memory.rows("schedules") if row["created_at"])
        del chains["None"]
        stayed = [one for one in asked if not one.cancelled]
        assert (len(chains), count) == (len(asked) - len(stayed), len(asked) - len(stayed))
        assert 0 < len(chains) < len(asked)
        assert set(chains) == {str(one.schedule_id) for one in asked if one.cancelled}, "a successor moved again"
        for one in asked:
            row = await world.row_of(one)
            assert row is not None
            assert len(one.calls) == (not one.cancelled)
            if one.cancelled:
                new = world.asked[str(row.rescheduled_to)]
                assert len(new.calls) == 1
                there = one.due + round(shift * 1000)
                # Where that has passed, it is due when it moves.
                assert new.due == there if shift > 0 else there <= new.due <= one.due

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", [2, 5])
def test_each_moves_once_by_each_of_several_requests_over_one_window(seed: int) -> None:
    """Some of them are made twice at the same time, some without a key."""

    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=2)
        world.add_node("a")
        world.add_node("b")
        await world.advance(8)
        base = world.now_ms() + 4_000
        asked = [await world.create("shop", UnixMillis(base + 700 * number)) for number in range(60)]
        for node in world.nodes.values():
            node.connection.plan = FaultPlan(refuse=0.01, lose_answer=0.04)
        world.api_connection.plan = FaultPlan(refuse=0.005, lose_answer=0.03)
        client_id = world.clients["shop"].client_id
        window = Window(client_id=client_id, start=UnixMillis(base), end=UnixMillis(base + 60_000))
        dice, callers, shifts = random.Random(seed), list[asyncio.Task[int]](), (20.0, 7.0, -5.0)
        with announced(world):
            for number, shift in enumerate(shifts):
                keyed = Keyed(client_id, f"{KEYED} {number}", b"f") if dice.random() < 0.6 else None
                move = asked_move(window, shift=shift, key=None if keyed is None else keyed.key)
                for twin in range(1 + (dice.random() < 0.5)):
                    one = moved(world, window, move, keyed, random.Random(seed + number + 100 * twin))
                    callers.append(asyncio.get_running_loop().create_task(one))
                await world.advance(0.3)
            await world.advance(2)
            await world.kill("a")
            world.add_node("c")
            while not all(caller.done() for caller in callers):
                await world.advance(1)
        for caller in callers:
            caller.result()
        world.heal()
        await world.settle_down(within=700)
        learn(world)
        moves = Counter[int]()
        for present in asked:
            calls, turns = len(present.calls), 0
            while (row := await world.row_of(present)) is not None and row.rescheduled_to is not None:
                present = world.asked[str(row.rescheduled_to)]
                calls, turns = calls + len(present.calls), turns + 1
            assert row is not None
            assert calls == 1
            moves[turns] += 1
        assert 1 < max(moves) <= len(shifts), "a request moved what it had moved before"

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
def test_a_process_that_dies_leaves_each_at_one_instant_and_a_repeat_completes_it(fault: str) -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        world.add_node("a")
        await world.advance(8)
        client = world.clients["shop"]
        base = world.now_ms() + 120_000
        scenes: list[tuple[list[CreateRecord], Window, WindowReschedule]] = []
        for write in range(1, 14):
            start = base + 120_000 * write
            asked = [await world.create("shop", UnixMillis(start + 100 * number)) for number in range(3)]
            window = Window(client_id=client.client_id, start=UnixMillis(start), end=UnixMillis(start + 60_000))
            move = asked_move(window, shift=30.0, key=None)
            dying = DyingApi(world, write=write, fault=fault)
            moving = over(dying.storage, dying.reschedule)
            caller = asyncio.get_running_loop().create_task(page(world, moving, window, move, None, None))
            await world.advance(2)
            caller.cancel()
            await dying.storage.close()
            scenes.append((asked, window, move))
        learn(world)
        for write, (asked, window, move) in enumerate(scenes):
            if write % 2:
                assert await moved(world, window, move, None, random.Random(write)) == len(asked)
        await world.advance(2_000)
        await world.settle_down(within=600)
        learn(world)
        stayed = Counter(not one.cancelled for asked, _, _ in scenes for one in asked)
        assert stayed[True] > 3
        assert stayed[False] > 20
        for number, (asked, _, _) in enumerate(scenes):
            for one in asked:
                row = await world.row_of(one)
                assert row is not None
                new = None if row.rescheduled_to is None else world.asked[str(row.rescheduled_to)]
                assert (new is not None) >= (number % 2 == 1)
                assert [len(one.calls), *([] if new is None else [len(new.calls)])] == ([1] if new is None else [0, 1])
                assert new is None or new.due == one.due + 30_000

    simulate(scenario)
