"""Updates in place compete with each other, with reschedules, with requeues and with owners: what is called has every
update that was accepted, and none that was refused."""

import asyncio
from typing import Final

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import MINUTE_MS, partition_of
from scheduler_service.domain.retry_rows import definition_of
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.reschedule_schedule import Change, Rescheduled, RescheduleRequest, Updated
from scheduler_service.usecases.schedule_update import CallbackUpdate, UpdateRequest
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.reschedules import change_once, register, verb_of
from tests.simulation.world import World, simulate
from tests.support.virtual_loop import virtual_loop

OLD, NEW = "http://receiver.test/", "http://receiver.test/new"
LABEL: Final = "new label"
TO_NEW, TO_LABEL = UpdateRequest(callback=CallbackUpdate(url=NEW)), UpdateRequest(label=LABEL)
LATER = RescheduleRequest(delay_seconds=40)


async def accepted(world: World, asked: CreateRecord, request: Change) -> bool:
    """Repeat the request until there is an answer."""
    while True:
        try:
            result = await change_once(world, verb_of(world), asked, request)
        except StoreUnavailable:
            continue
        if isinstance(result, Rescheduled):
            (await register(world, asked)).acknowledged = True
            asked.cancelled = True
        return isinstance(result, Rescheduled | Updated)


async def check(world: World, asked: CreateRecord, *, url: bool, label: bool, once: bool) -> None:
    called = await register(world, asked)
    row = await world.row_of(called)
    assert row is not None
    assert row.label == (LABEL if label else None)
    assert {call.url for call in called.calls} == {NEW if url else OLD}
    assert not once or len(called.calls) == 1
    assert called is asked or not asked.calls


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("owner_dies", [False, True], ids=["", "owner-dies"])
def test_all_that_was_accepted_is_called_and_nothing_else(owner_dies: bool, seed: int) -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=2)
        for name in "ab":
            world.add_node(name)
        await world.advance(8)
        base = world.now_ms() + 15_000
        asked = [await world.create("shop", base + 5 * number) for number in range(60)]
        await world.advance_to(base - 6_500)
        world.api_connection.plan = FaultPlan(refuse=0.05, lose_answer=0.1)

        async def later(number: int) -> list[bool]:
            await virtual_loop().advance(number * 0.12)
            requests = (TO_NEW, TO_LABEL, LATER) if number % 3 == 0 else (TO_NEW, TO_LABEL)
            return await asyncio.gather(*(accepted(world, asked[number], request) for request in requests))

        changes = asyncio.gather(*map(later, range(60)))
        await world.advance(5.7)
        if owner_dies:
            await world.kill("a")
        await world.advance(10)
        world.heal()
        await world.advance(60)
        answers = await changes
        await world.settle_down()
        assert {answer[0] for answer in answers} == {answer[1] for answer in answers} == {True, False}
        for one, (url, label, *_) in zip(asked, answers, strict=True):
            await check(world, one, url=url, label=label, once=not owner_dies)

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_requeued_schedule_is_called_as_it_was_revised(seed: int) -> None:
    """Rows without an owner, whose requeue competes with updates."""

    async def scenario(world: World) -> None:
        await world.add_client("shop", quota=1)
        await world.advance(8)
        asked = [await world.create("shop", world.now_ms() + 1_000 + number) for number in range(30)]
        await world.advance(5)
        world.api_connection.plan = FaultPlan(refuse=0.1, lose_answer=0.2)

        async def requeued(one: CreateRecord) -> None:
            row = await world.row_of(one)
            assert row is not None
            partition = partition_of(one.client_id, one.schedule_id)
            while True:
                try:
                    return await world.writer.requeue(definition_of(partition, row), in_doubt=False)
                except StoreUnavailable:
                    continue

        async def at_once(number: int) -> list[bool]:
            one = asked[number]
            changes = [accepted(world, one, request) for request in (TO_NEW, TO_LABEL)]
            *answers, _ = await asyncio.gather(*changes, requeued(one))
            return [bool(answer) for answer in answers]

        answered = asyncio.gather(*map(at_once, range(30)))
        await world.advance(30)
        world.heal()
        await world.advance(30)
        answers = await answered
        world.add_node("a")
        await world.advance(30)
        await world.settle_down()
        for one, (url, label) in zip(asked, answers, strict=True):
            assert url or label
            await check(world, one, url=url, label=label, once=True)

    simulate(scenario, seed=seed)


def test_a_deferred_schedule_is_called_as_it_was_revised_before() -> None:
    """A receiver fails, so rows are deferred unclaimed, by commits that do not know of the latest update."""

    async def scenario(world: World) -> None:
        patient = RetrySettings(base_seconds=60, cap_seconds=600)
        await world.add_client("shop", quota=1, settings=ClientSettings(retry=patient))
        world.add_node("a")
        await world.advance(8)
        world.receiver.script = lambda call: 500
        base = world.now_ms() + 12_000
        first = [await world.create("shop", base + 20 * number) for number in range(40)]
        asked = [await world.create("shop", base + 4_000 + 50 * number) for number in range(100)]
        await world.advance_to(base - 1_000)

        async def later(number: int) -> bool:
            await virtual_loop().advance(number * 0.09)
            return await accepted(world, asked[number], TO_NEW)

        changes = asyncio.gather(*map(later, range(len(asked))))
        await world.advance(20)
        answers = await changes
        rows = [await world.row_of(one) for one in asked]
        deferred = [row is not None and row.state == State.RETRYING and not row.attempts for row in rows]
        in_place = [row is not None and row.revision is not None for row in rows]
        assert sum(was and revised for was, revised in zip(deferred, in_place, strict=True)) > 5
        world.receiver.script = lambda call: 200
        await world.advance(10 * MINUTE_MS / 1000)
        await world.settle_down(within=1_800)
        for one, answer in zip(asked, answers, strict=True):
            called = await register(world, one)
            assert {call.url for call in called.calls} == {NEW if answer else OLD}
        assert all(one.calls for one in first)

    simulate(scenario)
