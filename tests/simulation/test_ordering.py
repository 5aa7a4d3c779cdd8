"""Rows of one ordering key are called one at a time, in due order, through retries, minutes, crashes and takeovers."""

from itertools import pairwise

import pytest

from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.clients import ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.schedules import State
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate

START_SECONDS = 5.0
KEY, OTHER = "order-17", "order-18"
RETRY = RetrySettings(base_seconds=20, max_attempts=4)


async def begin(world: World, *, nodes: int = 1, quota: int = 1, retry: RetrySettings = RETRY) -> int:
    await world.add_client("shop", quota=quota, settings=ClientSettings(retry=retry))
    for number in range(nodes):
        world.add_node("abc"[number])
    await world.advance(START_SECONDS)
    return world.now_ms()


def fail(*asked: CreateRecord, times: int = 99) -> "dict[str, int]":
    return {str(each.schedule_id): times for each in asked}


def script(world: World, failing: "dict[str, int]") -> None:
    world.receiver.script = lambda call: 500 if call.attempt <= failing.get(call.schedule_id, 0) else 200


async def create(world: World, base: int, seconds: "list[float]", key: str = KEY) -> list[CreateRecord]:
    return [await world.create("shop", base + 1_000 * each, ordering_key=key) for each in seconds]


def sequence(world: World, rows: list[CreateRecord]) -> list[int]:
    """The numbers of the rows in the order of their calls."""
    numbers = {str(asked.schedule_id): number for number, asked in enumerate(rows)}
    return [numbers[call.schedule_id] for call in world.receiver.calls if call.schedule_id in numbers]


def test_rows_that_are_due_together_go_one_at_a_time() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        world.receiver.latency_seconds = 1.0
        rows = await create(world, base, [6 + 0.001 * number for number in range(8)])
        await create(world, base, [6.0], OTHER)
        await world.settle_down()
        assert sequence(world, rows) == list(range(8))
        starts = [call.at_ms for call in rows_calls(world, rows)]
        assert all(later - earlier >= 500 for earlier, later in pairwise(starts))

    simulate(scenario)


def rows_calls(world: World, rows: list[CreateRecord]) -> list[Call]:
    ids = {str(asked.schedule_id) for asked in rows}
    return [call for call in world.receiver.calls if call.schedule_id in ids]


def test_a_head_that_is_retried_keeps_later_minutes_waiting_and_no_other_key() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        rows = await create(world, base, [10, 11, 70, 130])
        free = await create(world, base, [11, 70, 130], OTHER)
        script(world, fail(rows[0], times=3))
        await world.settle_down(within=600)
        assert sequence(world, rows) == [0, 0, 0, 0, 1, 2, 3]
        assert max(call.at_ms - call.due_ms for call in rows_calls(world, free)) < 100
        assert [row.attempts for asked in rows if (row := await world.row_of(asked)) is not None] == [4, 1, 1, 1]

    simulate(scenario)


def test_a_head_that_fails_for_good_lets_the_next_one_go() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        rows = await create(world, base, [10, 11])
        script(world, fail(rows[0]))
        await world.settle_down(within=600)
        assert sequence(world, rows) == [0, 0, 0, 0, 1]
        first = await world.row_of(rows[0])
        assert first is not None
        assert first.state == State.FAILED

    simulate(scenario)


def test_a_cancelled_head_lets_the_next_one_go() -> None:
    """Whether it waits for its first attempt or for a retry."""

    async def scenario(world: World) -> None:
        base = await begin(world, retry=RetrySettings(base_seconds=120))
        rows = await create(world, base, [10, 40, 41, 90])
        script(world, fail(rows[0]))
        await world.advance(20)
        await world.cancel(rows[0])
        await world.cancel(rows[1])
        await world.settle_down(within=600)
        assert sequence(world, rows) == [0, 2, 3]

    simulate(scenario)


@pytest.mark.parametrize("seconds", [8.0, 12.0, 16.0, 30.0, 75.0, 100.0])
@pytest.mark.parametrize("how", ["kill", "leave"])
def test_a_new_owner_keeps_the_order(how: str, seconds: float) -> None:
    """The head's minute is settled, and its retry row is in a later minute."""

    async def scenario(world: World) -> None:
        base = await begin(world, nodes=2, retry=RetrySettings(base_seconds=400, max_attempts=3))
        rows = await create(world, base, [7, 10, 14, 80, 95, 125, 190])
        script(world, fail(rows[1], times=1))
        await world.advance(seconds)
        (owner,) = [name for name, node in world.nodes.items() if node.node.balancer.leases()]
        if how == "kill":
            await world.kill(owner)
        else:
            world.leave(owner)
        await world.settle_down(within=900)
        calls = [
            number
            for number, previous in zip(sequence(world, rows), [None, *sequence(world, rows)], strict=False)
            if number != previous
        ]
        assert calls == list(range(7))

    simulate(scenario)


def test_a_stuck_key_holds_few_rows_and_delays_no_other() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, retry=RetrySettings(base_seconds=30, cap_seconds=30, max_attempts=3))
        stuck = await create(world, base, [10 + 0.02 * number for number in range(600)])
        free = [await world.create("shop", base + 10_000 + 100 * number) for number in range(200)]
        script(world, fail(stuck[0]))
        await world.advance(35)
        assert max(call.at_ms - call.due_ms for call in rows_calls(world, free)) < 100
        node = world.nodes["a"].node
        held = [
            run for pollers in node.pollers.all() for poller in pollers.pollers.values() for run in poller.runs.values()
        ]
        assert sum(len(run.machine.rows) for run in held) < 250
        await world.settle_down(within=1_500)
        assert [number for number in sequence(world, stuck) if number][:599] == list(range(1, 600))

    simulate(scenario)


def test_a_resumed_client_keeps_the_order() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        rows = await create(world, base, [10, 30, 31, 90])
        script(world, fail(rows[0], times=2))
        await world.advance(12)
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await world.advance(120)
        await world.change_client("shop", state=ClientState.ACTIVE)
        await world.settle_down(within=600)
        assert sequence(world, rows) == [0, 0, 0, 1, 2, 3]

    simulate(scenario)


STUCK_ROWS, WAITING_KEYS = 1_000, 7


@pytest.mark.parametrize("takeover", [False, True])
def test_a_stuck_key_delays_no_other_key_where_the_order_is_not_known_yet(takeover: bool) -> None:
    """On a new poller, and after a takeover: the first rows of a key wait in memory, however many rows of another key
    precede them.
    """

    async def scenario(world: World) -> None:
        base = await begin(world, nodes=2, retry=RetrySettings(base_seconds=30, cap_seconds=30, max_attempts=20))
        start = 70 if takeover else 10
        stuck = await create(world, base, [start + 0.002 * number for number in range(STUCK_ROWS)])
        free = [
            await create(world, base, [start + 2.5 + 0.5 * number for number in range(9)], f"other-{other}")
            for other in range(WAITING_KEYS)
        ]
        script(world, fail(stuck[0]))
        if takeover:
            early = await create(world, base, [10.0])
            script(world, fail(stuck[0], early[0]))
            await world.advance(start - 8)
            (owner,) = [name for name, node in world.nodes.items() if node.node.balancer.leases()]
            world.leave(owner)
            await world.advance(20)
        else:
            await world.advance(start + 12)
        calls = rows_calls(world, [each for rows in free for each in rows])
        assert len(calls) == 9 * WAITING_KEYS
        assert max(call.at_ms - call.due_ms for call in calls) < 1_000

    simulate(scenario)


def test_more_keys_than_a_minute_holds_rows_are_called_on_time() -> None:
    """The order is read from the whole minute, although most of it does not fit into memory."""

    async def scenario(world: World) -> None:
        base = await begin(world)
        rows = [
            asked for number in range(300) for asked in await create(world, base, [10 + 0.02 * number], f"key-{number}")
        ]
        await world.advance(30)
        calls = rows_calls(world, rows)
        assert len(calls) == 300
        assert max(call.at_ms - call.due_ms for call in calls) < 1_000

    simulate(scenario, settings=MinuteSettings(window_rows=100))
