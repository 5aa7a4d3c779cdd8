"""A schedule that has ended is called again on demand, once for each request."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from cql.connection import Item
from scheduler_service.domain.clients import ClientSettings, LatePolicy, RetrySettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.redeliver import Redelivering, StillOpen, WasCancelled
from tests.simulation.creates import CreateRecord
from tests.simulation.crons import with_crons
from tests.simulation.faults import INSERTS
from tests.simulation.redeliveries import Redeliveries
from tests.simulation.world import World, simulate

POINTERS = "schedules.write_outcome_if_ended_at"


async def shop(world: World, *, names: str = "a", **settings: object) -> Redeliveries:
    retry = RetrySettings(base_seconds=3, max_attempts=2)
    await world.add_client("shop", quota=2, settings=ClientSettings(retry=retry, **settings))  # type: ignore[arg-type]
    for name in names:
        world.add_node(name)
    await world.advance(8)
    return Redeliveries(world)


async def found(world: World, asked: CreateRecord) -> Row:
    row = await world.row_of(asked)
    assert row is not None
    return row


async def ended(world: World, *, after: float = 30.0) -> CreateRecord:
    asked = await world.create("shop", world.now_ms() + 3_000)
    await world.advance(after)
    assert asked.end is not None
    return asked


@pytest.mark.parametrize("after", [5.0, 30.0, 400.0], ids=["open", "next", "settled"])
def test_what_was_delivered_is_called_again_at_once_whether_its_minute_is_settled_or_not(after: float) -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        asked = await ended(world, after=after)
        for attempt in (2, 3):
            asked_at = world.now_ms()
            assert isinstance(await redeliveries.answered(asked), Redelivering)
            assert isinstance(await redeliveries.answered(asked), StillOpen)
            await world.settle_down()
            assert [call.attempt for call in asked.calls] == list(range(1, attempt + 1))
            assert asked.calls[-1].at_ms - asked_at < 1_500
        row = await found(world, asked)
        assert (row.state, row.attempts, row.redelivered_after) == ("delivered", 3, 2)
        made = await world.truth.attempts.read(asked.client_id, asked.schedule_id)
        assert [(each.attempt, each.delivered) for each in made] == [(1, True), (2, True), (3, True)]

    simulate(scenario)


def test_the_retry_policy_counts_again_and_the_attempts_go_on() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        world.receiver.script = lambda call: 500
        asked = await ended(world)
        assert (await found(world, asked)).reason == "exhausted"
        await world.advance(300)
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.settle_down()
        row = await found(world, asked)
        assert (row.state, row.reason, row.attempts) == ("failed", "exhausted", 4)
        world.receiver.script = lambda call: 200 if call.attempt == 6 else 500
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.settle_down()
        assert [call.attempt for call in asked.calls] == [1, 2, 3, 4, 5, 6]
        assert (await found(world, asked)).state == "delivered"
        made = await world.truth.attempts.read(asked.client_id, asked.schedule_id)
        assert [each.attempt for each in made] == [1, 2, 3, 4, 5, 6]
        await world.advance(120)
        letters = [(row["attempts"], row["host"]) for row in world.memory.rows("dead_letters")]
        assert letters == [(2, "receiver.test"), (4, "receiver.test")]

    simulate(scenario)


def test_the_deadline_counts_from_the_redelivery() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        await world.change_client(
            "shop", settings=ClientSettings(retry=RetrySettings(base_seconds=3, max_attempts=9, deadline_seconds=20))
        )
        world.receiver.script = lambda call: 500
        await world.advance(6)
        asked = await ended(world, after=60)
        assert (await found(world, asked)).reason == "deadline"
        before = len(asked.calls)
        await world.advance(600)
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.settle_down()
        assert (await found(world, asked)).reason == "deadline"
        assert len(asked.calls) >= before + 2

    simulate(scenario)


def test_the_late_policy_does_not_skip_what_is_asked_for_by_name() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world, late_policy=LatePolicy(kind="skip", after_seconds=5))
        await world.kill("a")
        asked = await world.create("shop", world.now_ms() + 3_000)
        await world.advance(60)
        world.add_node("b")
        await world.advance(60)
        assert (asked.end, asked.calls) == (State.SKIPPED, [])
        world.receiver.script = lambda call: 500 if call.attempt == 1 else 200
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.settle_down()
        assert [call.attempt for call in asked.calls] == [1, 2]

    simulate(scenario)


def test_a_cancelled_schedule_stays_cancelled_and_an_open_one_is_left_alone() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        cancelled = await world.create("shop", world.now_ms() + 30_000)
        await world.cancel(cancelled)
        waiting = await world.create("shop", world.now_ms() + 30_000)
        assert isinstance(await redeliveries.answered(cancelled), WasCancelled)
        assert isinstance(await redeliveries.answered(waiting), StillOpen)
        await world.settle_down()
        assert (len(cancelled.calls), len(waiting.calls)) == (0, 1)

    simulate(scenario)


def test_a_redelivery_can_be_cancelled_before_it_is_claimed() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        asked = await ended(world)
        await world.kill("a")
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.cancel(asked)
        assert asked.cancelled
        world.add_node("b")
        await world.settle_down()
        assert len(asked.calls) == 1
        assert isinstance(await redeliveries.answered(asked), WasCancelled)

    simulate(scenario)


def test_many_at_once_make_one_retry_row() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        asked = await ended(world)
        for count in (2, 3):
            results = await asyncio.gather(*(redeliveries.answered(asked) for _ in range(5)))
            assert sum(isinstance(result, Redelivering) for result in results) >= 1
            await world.settle_down()
            assert len(asked.calls) == count

    simulate(scenario)


def crashes(kind: str, when: Callable[[str, Sequence[Item]], bool]) -> Callable[[str, Sequence[Item]], str | None]:
    """A hook that crashes the process at the first request for which `when` holds."""
    done: list[bool] = []

    def hook(request: str, items: Sequence[Item]) -> str | None:
        if not done and when(request, items):
            done.append(True)
            return kind
        return None

    return hook


def points(request: str, items: Sequence[Item]) -> bool:
    return any(name == POINTERS for name, _ in items)


def inserts(request: str, items: Sequence[Item]) -> bool:
    return any(name in INSERTS for name, _ in items)


@pytest.mark.parametrize("asks", ["again", "looks"])
@pytest.mark.parametrize("fault", ["crash-after", "crash-before"])
def test_a_crash_between_pointer_and_retry_row_is_made_good_by_the_next_request(fault: str, asks: str) -> None:
    when = points if fault == "crash-after" else inserts

    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        asked = await ended(world, after=400)
        world.api_connection.plan.hook = crashes(fault, when)
        caller = asyncio.get_running_loop().create_task(redeliveries.ask(asked))
        await world.advance(120)
        caller.cancel()
        await world.restart_api()
        redeliveries = Redeliveries(world)
        assert ((await found(world, asked)).state, len(asked.calls)) == ("retrying", 1)
        if asks == "again":
            assert isinstance(await redeliveries.answered(asked), StillOpen)
        else:
            await world.resolve_schedule(asked.client_id, asked.schedule_id)
        await world.settle_down()
        assert len(asked.calls) == 2

    simulate(scenario)


@pytest.mark.parametrize("fault", ["lose", "late", "refuse"])
def test_a_pointer_whose_answer_is_lost_or_that_arrives_late_is_one_redelivery(fault: str) -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        asked = await ended(world)
        world.api_connection.plan.hook = crashes(fault, points)
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.advance(30)
        await world.settle_down()
        assert len(asked.calls) == 2

    simulate(scenario)


def test_a_retry_row_whose_insert_is_lost_is_placed_by_a_repeated_request() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        asked = await ended(world)
        world.api_connection.plan.hook = crashes("refuse", inserts)
        assert await redeliveries.ask(asked) is None
        assert isinstance(await redeliveries.answered(asked), StillOpen)
        await world.settle_down()
        assert len(asked.calls) == 2

    simulate(scenario)


def test_an_owner_that_dies_over_a_redelivery_leaves_it_to_the_next() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        asked = await ended(world)
        world.receiver.latency_seconds = 3.0
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.advance(1.5)
        assert len(asked.calls) == 2
        await world.kill("a")
        world.add_node("b")
        await world.settle_down()
        assert [(call.attempt, call.redelivery) for call in asked.calls] == [(1, False), (2, False), (2, True)]

    simulate(scenario)


def test_retries_of_a_redelivery_survive_the_owner_and_go_on_counting() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        world.receiver.script = lambda call: 500
        asked = await ended(world)
        assert isinstance(await redeliveries.answered(asked), Redelivering)
        await world.advance(1.0)
        assert [call.attempt for call in asked.calls] == [1, 2, 3]
        await world.kill("a")
        world.add_node("b")
        await world.settle_down()
        assert [call.attempt for call in asked.calls] == [1, 2, 3, 4]
        assert (await found(world, asked)).reason == "exhausted"

    simulate(scenario)


def test_rows_behind_a_redelivered_one_do_not_wait_for_it() -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world)
        first = await world.create("shop", world.now_ms() + 3_000, ordering_key="order")
        await world.advance(30)
        world.receiver.script = lambda call: 500 if call.schedule_id == str(first.schedule_id) else 200
        assert isinstance(await redeliveries.answered(first), Redelivering)
        await world.advance(1.0)
        second = await world.create("shop", world.now_ms() + 500, ordering_key="order")
        await world.advance(1.5)
        assert len(second.calls) == 1
        await world.settle_down()

    simulate(scenario)


def test_a_skipped_fire_of_a_cron_that_has_changed_since_is_called() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world, names="a")
        world.receiver.script = lambda call: 500
        await crons.put("ticks", "* * * * *", overlap="skip")
        await world.advance(150)
        await crons.delete("ticks")
        await world.advance(60)
        world.receiver.script = lambda call: 200
        skipped = next(row for row in (await crons.rows("ticks")).values() if row.state == State.SKIPPED)
        asked = CreateRecord(ClientId("shop"), skipped.schedule_id, skipped.due)
        world.asked[str(asked.schedule_id)] = asked
        assert isinstance(await Redeliveries(world).answered(asked), Redelivering)
        await world.advance(20)
        assert asked.calls == [], "the run before it is still retried"
        await world.advance(400)
        assert [each.attempt for each in asked.calls] == [1]
        assert (await found(world, asked)).state == "delivered"

    simulate(scenario)


@pytest.mark.parametrize("seed", range(1, 9))
def test_callers_in_doubt_are_given_one_call_for_each_answer(seed: int) -> None:
    async def scenario(world: World) -> None:
        redeliveries = await shop(world, names="ab")
        asked = [await world.create("shop", world.now_ms() + 3_000) for _ in range(6)]
        await world.advance(40)
        for _ in range(3):
            redeliveries.asks.clear()
            before = [len(one.calls) for one in asked]
            told = [await redeliveries.in_doubt(one, callers=3) for one in asked]
            assert sum(told) > 0
            await world.settle_down()
            for one, calls in zip(asked, before, strict=True):
                # A caller without an answer asks again, and may find that its redelivery has ended already.
                assert 1 <= len(one.calls) - calls <= redeliveries.asks[one.schedule_id]
                assert len({call.attempt for call in one.calls}) == len(one.calls)

    simulate(scenario, seed=seed)
