"""A call that an earlier owner may have made stays in doubt until an attempt's outcome is recorded, wherever its row
moves.
"""

import pytest

from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import PollerId
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.cancel_schedules import Cancelled, InDoubt
from scheduler_service.usecases.reschedule_schedule import RescheduleRequest
from tests.simulation.cluster import owner_of, three_nodes, until
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call
from tests.simulation.reschedules import reschedule_once
from tests.simulation.world import World, simulate

TOUCHY = ReceiverSettings(breaker_failures=2, breaker_open_seconds=120, breaker_longest_seconds=120)
PATIENT = RetrySettings(base_seconds=200, cap_seconds=600, max_attempts=20)


async def found(world: World, asked: CreateRecord) -> Row:
    row = await world.row_of(asked)
    assert row is not None
    return row


async def created_in(world: World, poller_id: int, due_ms: float) -> CreateRecord:
    """A schedule of this poller."""
    while True:
        asked, definition = world.define("shop", due_ms)
        if definition.poller_id == PollerId(poller_id):
            await world.writer(definition)
            asked.acknowledged = True
            return asked
        del world.asked[str(asked.schedule_id)]


async def deferred_in_doubt(world: World) -> CreateRecord:
    """The receiver has got the call, its owner dies before the answer arrives, and the next owner's breaker is open."""
    await three_nodes(world, quota=2, names="ab", settings=ClientSettings(retry=PATIENT))
    mine = 0
    first = owner_of(world, mine)
    second = "b" if first == "a" else "a"
    base = world.now_ms()
    failing = [await created_in(world, 1 - mine, base + 3_000 + 100 * number) for number in range(2)]
    asked = await created_in(world, mine, base + 5_000)
    down = {str(one.schedule_id) for one in failing}

    def script(call: Call) -> int:
        if call.node == first and call.schedule_id == str(asked.schedule_id):
            world.receiver.latency_seconds = 30.0
            return 200
        world.receiver.latency_seconds = 0.01
        return 500 if call.schedule_id in down else 200

    world.receiver.script = script
    await until(world, lambda: bool(asked.calls), within=20, step=0.01)
    await world.kill(first)
    await until(world, lambda: bool(world.nodes[second].node.balancer.leases()), within=20)
    await world.advance(20)
    row = await found(world, asked)
    assert (row.state, row.reason, row.attempts, len(asked.calls)) == (State.RETRYING, "in-doubt", 0, 1)
    return asked


async def all_is_well(world: World) -> None:
    world.receiver.script = lambda call: 200
    await world.settle_down(within=3_000)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "many"])
def test_a_cancel_of_what_may_have_been_called_says_so(together: bool) -> None:
    async def scenario(world: World) -> None:
        asked = await deferred_in_doubt(world)
        if together:
            results = await world.cancel_schedules.many(asked.client_id, [asked.schedule_id])
            result = results[asked.schedule_id]
            asked.cancelled = True
        else:
            found_out = await world.cancel(asked)
            assert found_out is not None
            result = found_out
        assert isinstance(result, Cancelled)
        assert (result.row.state, result.row.reason) == (State.CANCELLED, "in-doubt")
        again = await world.cancel(asked)
        assert isinstance(again, Cancelled)
        assert again.row.reason == "in-doubt"
        await all_is_well(world)
        assert len(asked.calls) == 1

    simulate(scenario, receivers=TOUCHY)


def test_what_may_have_been_called_is_not_rescheduled() -> None:
    async def scenario(world: World) -> None:
        asked = await deferred_in_doubt(world)
        assert isinstance(await reschedule_once(world, asked, RescheduleRequest(delay_seconds=60)), InDoubt)
        await all_is_well(world)
        assert [(call.attempt, call.redelivery) for call in asked.calls] == [(1, False), (1, True)]
        assert (await found(world, asked)).state == State.DELIVERED

    simulate(scenario, receivers=TOUCHY)


def test_a_cancel_for_a_replacement_leaves_a_row_in_doubt() -> None:
    """For example a cron's change, which withdraws the fires of the old rule and places those of the new one."""

    async def scenario(world: World) -> None:
        asked = await deferred_in_doubt(world)
        result = await world.cancel_schedules.one(asked.client_id, asked.schedule_id, reason="cron-changed")
        assert isinstance(result, InDoubt)
        await all_is_well(world)
        assert len(asked.calls) == 2

    simulate(scenario, receivers=TOUCHY)


def test_an_attempt_of_which_nothing_was_sent_does_not_end_the_doubt() -> None:
    async def scenario(world: World) -> None:
        asked = await deferred_in_doubt(world)
        world.receiver.script = lambda call: "connect-refused"
        while not (row := await found(world, asked)).attempts:
            await world.advance(10)
        assert (row.state, row.reason, len(asked.calls)) == (State.RETRYING, "in-doubt", 1)
        assert isinstance(await reschedule_once(world, asked, RescheduleRequest(delay_seconds=60)), InDoubt)
        await all_is_well(world)
        assert asked.calls[1].redelivery

    simulate(scenario, receivers=TOUCHY)


def test_what_is_in_doubt_is_not_called_again_once_its_client_wants_one_call_at_most() -> None:
    async def scenario(world: World) -> None:
        asked = await deferred_in_doubt(world)
        await world.change_client("shop", settings=ClientSettings(retry=PATIENT, in_doubt="drop"))
        await all_is_well(world)
        row = await found(world, asked)
        assert (row.state, row.reason, len(asked.calls)) == (State.FAILED, "in-doubt", 1)

    simulate(scenario, receivers=TOUCHY)
