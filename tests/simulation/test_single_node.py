"""One node and one API, with every fault that can happen between them and the store."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from cql.connection import Item
from scheduler_service.domain.clients import ClientSettings, LatePolicy, RetrySettings
from scheduler_service.domain.ids import MINUTE_MS, ClientId, minute_of, minute_start
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.clock import STEP_MS
from scheduler_service.usecases.cancel_schedules import Cancelled, InFlight
from tests.simulation.world import World, simulate

START_SECONDS = 5.0


async def begin(world: World, *, quota: int = 1, settings: ClientSettings | None = None, nodes: int = 1) -> None:
    await world.add_client("shop", quota=quota, settings=settings)
    for number in range(nodes):
        world.add_node("abcdef"[number])
    await world.advance(START_SECONDS)


async def restart_when_crashed(world: World, crashed: asyncio.Event, name: str = "a") -> None:
    await crashed.wait()
    await world.kill(name)
    world.add_node(name)


def nth_write(
    number: int, fault: str, *, kinds: tuple[str, ...] = ("write", "conditional"), only: str = "schedules."
) -> Callable[[str, Sequence[Item]], str | None]:
    """A hook that makes the `number`th write to a table fail, once."""
    seen = 0

    def hook(kind: str, items: Sequence[Item]) -> str | None:
        nonlocal seen
        if kind not in kinds or not any(name.startswith(only) for name, _ in items):
            return None
        seen += 1
        return fault if seen == number else None

    return hook


def test_every_call_arrives_once_in_its_second() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=3)
        base = world.now_ms()
        for number in range(100):
            await world.create("shop", base + 500 + 1_300 * number)
        await world.settle_down()
        assert len(world.receiver.calls) == 100
        assert max(call.at_ms - call.due_ms for call in world.receiver.calls) < 100

    simulate(scenario)


def test_a_burst_of_more_rows_than_hints_name_is_called_within_seconds() -> None:
    """The call does not wait for its minute's sweep, up to 70 seconds later."""

    async def scenario(world: World) -> None:
        await begin(world)
        minute = minute_of(world.now_ms()) + 1
        await world.create("shop", minute_start(minute) + 50_000)
        await world.advance_to(minute_start(minute) + 2_000)
        world.hints_named = 50
        burst = [await world.create("shop", world.now_ms() + 500 + number) for number in range(600)]
        await world.advance(6)
        late = [asked.calls[0].at_ms - asked.due for asked in burst if asked.calls]
        assert len(late) == len(burst)
        assert max(late) < 3_000
        await world.settle_down()

    simulate(scenario)


@pytest.mark.parametrize("when", ["idle", "open", "settled"])
def test_a_create_acknowledged_after_the_sweep_is_requeued(when: str) -> None:
    """Its insert takes effect only when the minute was passed as empty, is still open, or was settled."""

    async def scenario(world: World) -> None:
        await begin(world)
        minute = minute_of(world.now_ms()) + 1
        if when != "idle":
            world.receiver.latency_seconds = 25.0 if when == "open" else 0.01
            await world.create("shop", minute_start(minute) + 59_000)
        asked, definition = world.define("shop", minute_start(minute) + 30_000)
        await world.advance_to(minute_start(minute + 1) + (14_000 if when == "open" else 40_000))
        world.hints_lost = 1.0
        await world.writer(definition)
        asked.acknowledged = True
        world.receiver.latency_seconds = 0.01
        await world.settle_down()
        row = await world.row_of(asked)
        assert row is not None
        assert row.state == State.DELIVERED
        assert len(asked.calls) == 1

    simulate(scenario)


@pytest.mark.parametrize("fault", ["crash-before", "crash-after"])
@pytest.mark.parametrize("number", range(1, 9))
def test_a_crash_between_any_two_writes_of_a_minute_loses_nothing(number: int, fault: str) -> None:
    async def scenario(world: World) -> None:
        await begin(world, settings=ClientSettings(retry=RetrySettings(base_seconds=20)))
        world.receiver.script = lambda call: 500 if call.attempt == 1 and int(call.schedule_id[-1], 16) % 2 else 200
        crashed = asyncio.Event()
        plan = world.nodes["a"].connection.plan
        plan.hook, plan.crash = nth_write(number, fault), crashed.set
        base = world.now_ms()
        for offset in (12_000, 12_500, 14_000, 21_000, 55_000, 56_000):
            await world.create("shop", base + offset)
        again = asyncio.ensure_future(restart_when_crashed(world, crashed))
        await world.advance(100)
        assert crashed.is_set(), "the run made fewer writes than this case needs"
        await again
        await world.settle_down()

    simulate(scenario, seed=number)


@pytest.mark.parametrize("number", range(1, 9))
def test_the_lost_answer_of_any_conditional_write_changes_nothing(number: int) -> None:
    async def scenario(world: World) -> None:
        await begin(world, settings=ClientSettings(retry=RetrySettings(base_seconds=20)))
        world.receiver.script = lambda call: 500 if call.attempt == 1 and int(call.schedule_id[-1], 16) % 2 else 200
        world.nodes["a"].connection.plan.hook = nth_write(number, "lose", kinds=("conditional",))
        base = world.now_ms()
        for offset in (12_000, 12_500, 14_000, 21_000, 55_000, 56_000):
            await world.create("shop", base + offset)
        await world.settle_down()
        assert all(len(asked.calls) <= 2 for asked in world.asked.values())

    simulate(scenario, seed=number)


def test_a_pointer_without_its_retry_row_is_completed_by_the_next_owner() -> None:
    async def scenario(world: World) -> None:
        await begin(world, settings=ClientSettings(retry=RetrySettings(base_seconds=90)))
        world.receiver.script = lambda call: 500 if call.attempt == 1 else 200
        crashed = asyncio.Event()
        plan = world.nodes["a"].connection.plan

        def before_the_retry_row(kind: str, items: Sequence[Item]) -> str | None:
            return "crash-before" if kind == "write" and items[0][0].startswith(("schedules.", "occupied")) else None

        plan.hook, plan.crash = before_the_retry_row, crashed.set
        asked = await world.create("shop", world.now_ms() + 10_000)
        await restart_when_crashed(world, crashed)
        row = await world.row_of(asked)
        assert row is not None
        assert row.state == State.RETRYING
        await world.settle_down()
        assert [call.attempt for call in asked.calls] == [1, 2]

    simulate(scenario)


def test_a_crash_between_pointer_and_retry_row_then_a_cancel() -> None:
    async def scenario(world: World) -> None:
        await begin(world, settings=ClientSettings(retry=RetrySettings(base_seconds=90)))
        world.receiver.script = lambda call: 500
        crashed = asyncio.Event()
        plan = world.nodes["a"].connection.plan
        plan.hook = lambda kind, items: (
            "crash-before" if kind == "write" and items[0][0].startswith(("schedules.", "occupied")) else None
        )
        plan.crash = crashed.set
        asked = await world.create("shop", world.now_ms() + 10_000)
        await crashed.wait()
        await world.kill("a")
        assert isinstance(await world.cancel(asked), Cancelled)
        world.add_node("a")
        await world.advance(200)
        await world.settle_down()
        assert len(asked.calls) == 1

    simulate(scenario)


@pytest.mark.parametrize("lead_ms", [8_000, 5_200, 1_020, 1_000, 995, 990, 500, 20, 0])
def test_a_cancel_against_the_claim_has_one_winner(lead_ms: int) -> None:
    async def scenario(world: World) -> None:
        await begin(world)
        asked = [await world.create("shop", world.now_ms() + 20_000 + 3 * n) for n in range(20)]
        await world.advance_to(asked[0].due - lead_ms)
        results = [await world.cancel(one) for one in asked]
        assert all(isinstance(result, (Cancelled, InFlight)) or lead_ms < 100 for result in results)
        await world.settle_down()

    simulate(scenario, seed=lead_ms + 1)


def test_hundreds_of_cancels_in_one_partition_while_it_fires() -> None:
    async def scenario(world: World) -> None:
        await begin(world)
        base = world.now_ms()
        asked = [await world.create("shop", base + 15_000 + 25 * n) for n in range(400)]
        await world.advance_to(asked[0].due - 6_000)
        doomed = [one for number, one in enumerate(asked) if number % 2]
        for one in doomed:
            await asyncio.gather(world.cancel(one))
        await world.settle_down()
        cancelled = sum(one.cancelled for one in asked)
        assert cancelled > 100
        assert len(world.receiver.calls) == 400 - cancelled

    simulate(scenario)


def test_a_row_created_behind_the_claim_and_a_crash_before_it_was_sent() -> None:
    async def scenario(world: World) -> None:
        await begin(world)
        base = world.now_ms()
        await world.create("shop", base + 12_000)
        await world.advance(11.0)
        await world.create("shop", world.now_ms() + 300)
        await world.advance(0.1)
        await world.kill("a")
        world.add_node("a")
        await world.settle_down()

    simulate(scenario)


def test_short_retries_survive_a_crash() -> None:
    async def scenario(world: World) -> None:
        await begin(world, settings=ClientSettings(retry=RetrySettings(base_seconds=0.2, max_attempts=6)))
        world.receiver.script = lambda call: 500 if call.attempt < 6 else 200
        asked = await world.create("shop", world.now_ms() + 10_000)
        while len(asked.calls) < 3:
            await world.advance(0.05)
        await world.kill("a")
        world.add_node("a")
        await world.settle_down()
        row = await world.row_of(asked)
        assert row is not None
        assert (row.state, row.attempts) == (State.DELIVERED, 6)

    simulate(scenario)


def test_at_most_once_clients_are_not_called_again_after_a_crash() -> None:
    async def scenario(world: World) -> None:
        await begin(world, settings=ClientSettings(in_doubt="drop"))
        world.receiver.latency_seconds = 3.0
        asked = [await world.create("shop", world.now_ms() + 10_000 + n) for n in range(5)]
        while not asked[-1].calls:
            await world.advance(0.05)
        await world.kill("a")
        world.add_node("a")
        await world.settle_down()
        for one in asked:
            row = await world.row_of(one)
            assert row is not None
            assert (row.state, row.reason) == (State.FAILED, "in-doubt")

    simulate(scenario)


@pytest.mark.parametrize("step_ms", [3_600_000, 90_000, -90_000, -3_600_000, 200])
def test_a_step_of_the_clock_fires_nothing_early(step_ms: int) -> None:
    async def scenario(world: World) -> None:
        await begin(world, nodes=3)
        base = world.now_ms()
        for number in range(30):
            await world.create("shop", base + 12_000 + 2_000 * number)
        await world.advance(20)
        world.skewed = abs(step_ms) <= STEP_MS
        world.nodes["a"].clock.step(step_ms)
        await world.advance(20)
        world.nodes["a"].clock.step(-step_ms)
        await world.settle_down()

    simulate(scenario, seed=7)


@pytest.mark.parametrize("seconds", [3, 15, 400])
def test_a_store_that_is_away_delays_and_loses_nothing(seconds: int) -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=2)
        base = world.now_ms()
        for number in range(40):
            await world.create("shop", base + 8_000 + 1_000 * number)
        await world.advance(12)
        world.cut_off()
        world.api_connection.plan.cut_off = True
        refused = await world.create("shop", world.now_ms() + 5_000)
        assert not refused.acknowledged
        await world.advance(seconds)
        world.heal()
        await world.settle_down()

    simulate(scenario)


def test_late_calls_are_skipped_by_the_clients_own_policy() -> None:
    async def scenario(world: World) -> None:
        await begin(world, settings=ClientSettings(late_policy=LatePolicy(kind="skip", after_seconds=30)))
        asked = [await world.create("shop", world.now_ms() + 10_000 + 20_000 * n) for n in range(8)]
        await world.kill("a")
        await world.advance(100)
        world.add_node("a")
        await world.settle_down()
        states = [row.state for one in asked if (row := await world.row_of(one))]
        assert State.SKIPPED in states
        assert states[-1] == State.DELIVERED

    simulate(scenario)


def test_suspended_clients_wait_and_go_on() -> None:
    from scheduler_service.domain.clients import ClientState

    async def scenario(world: World) -> None:
        await begin(world)
        asked = [await world.create("shop", world.now_ms() + 8_000 + 1_000 * n) for n in range(30)]
        await world.advance(15)
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await world.advance(6)
        calls = len(world.receiver.calls)
        await world.advance(180)
        assert len(world.receiver.calls) == calls < len(asked)
        await world.change_client("shop", state=ClientState.ACTIVE)
        await world.settle_down()
        assert len(world.receiver.calls) == len(asked)

    simulate(scenario)


def test_the_same_seed_gives_the_same_trace() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=2)
        world.nodes["a"].connection.plan.lose_answer = 0.05
        base = world.now_ms()
        for number in range(20):
            await world.create("shop", base + 8_000 + 700 * number)
        await world.settle_down()

    assert simulate(scenario, seed=42).trace == simulate(scenario, seed=42).trace
    assert simulate(scenario, seed=43).trace != simulate(scenario, seed=42).trace


def test_the_watermark_passes_idle_and_settled_minutes() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=2)
        await world.create("shop", world.now_ms() + 8_000)
        await world.advance(200)
        positions = world.nodes["a"].node.pollers.positions(ClientId("shop"))
        assert len(positions) == 2
        for position in positions.values():
            assert minute_of(world.now_ms() - 10_000 - MINUTE_MS) <= position <= minute_of(world.now_ms())

    simulate(scenario)
