"""Flow keys in whole nodes: a stuck one delays nobody, and its limits hold over crashes, take-overs and quotas."""

import pytest

from poller_cluster.delivery.result import AttemptError
from poller_cluster.minute.rows import FLOW
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.flows import Flow, FlowLimits, FlowRules
from scheduler_service.domain.ids import ClientId, minute_of, minute_start
from scheduler_service.domain.schedules import State
from tests.simulation.creates import CreateRecord
from tests.simulation.receivers import Call
from tests.simulation.world import World, simulate
from tests.support.virtual_loop import virtual_loop

START_SECONDS = 5.0
STUCK, FREE = "http://stuck.test/", "http://receiver.test/"
PATIENT = RetrySettings(base_seconds=5, cap_seconds=60, max_attempts=100)
ONE = ClientSettings(retry=PATIENT, flows=FlowRules(default=FlowLimits(parallelism=1)), max_in_flight=1_000)


async def begin(world: World, *, nodes: int = 1, quota: int = 1, settings: ClientSettings = ONE) -> int:
    await world.add_client("shop", quota=quota, settings=settings)
    for number in range(nodes):
        world.add_node("abc"[number])
    await world.advance(START_SECONDS)
    return world.now_ms()


async def create(world: World, base: int, seconds: list[float], flow: Flow, url: str = FREE) -> list[CreateRecord]:
    return [await world.create("shop", base + 1_000 * each, flow=flow, url=url) for each in seconds]


def calls_of(rows: list[CreateRecord]) -> list[Call]:
    return sorted((call for asked in rows for call in asked.calls), key=lambda call: call.at_ms)


def latest(rows: list[CreateRecord]) -> float:
    return max(asked.calls[0].at_ms - asked.due for asked in rows)


def test_calls_of_a_key_are_made_one_at_a_time_without_a_gap() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        world.receiver.latency_seconds = 0.5
        rows = await create(world, base, [6.0] * 10, Flow("one"))
        await world.settle_down()
        assert world.flows.most == {"one": 1}
        # Each takes 0.75 s at the most.
        assert calls_of(rows)[-1].at_ms - base < 6_000 + 9 * 850

    simulate(scenario)


def test_calls_of_a_key_start_at_its_rate_in_order_of_due() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        rows = await create(world, base, [6 + 0.01 * number for number in range(60)], Flow("paced", rate=2.0))
        await world.settle_down(within=100)
        starts = calls_of(rows)
        assert 29_000 <= starts[-1].at_ms - starts[0].at_ms < 31_500
        early = [call.schedule_id for call in starts[:15]]
        assert early == [str(asked.schedule_id) for asked in rows[:15]]

    simulate(scenario)


@pytest.mark.parametrize("answer", ["timeout", 503])
def test_a_stuck_key_holds_few_rows_lets_minutes_settle_and_delays_no_other(answer: AttemptError | int) -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        stuck = await create(world, base, [10 + 0.2 * number for number in range(300)], Flow("stuck"), STUCK)
        free = [await create(world, base, [10 + 1.1 * n], Flow(f"free-{n % 40}")) for n in range(120)]
        plain = [await world.create("shop", base + 10_000 + 1_000 * number) for number in range(100)]
        hangs = True
        world.receiver.script = lambda call: answer if call.url == STUCK and hangs else 200
        await virtual_loop().advance(150)
        assert latest([*(row for rows in free for row in rows), *plain]) < 150
        node = world.nodes["a"].node
        runs = [
            run for pollers in node.pollers.all() for poller in pollers.pollers.values() for run in poller.runs.values()
        ]
        assert sum(len(run.machine.rows) for run in runs) < 200
        assert min(node.pollers.positions(ClientId("shop")).values()) >= minute_of(world.now_ms()) - 3
        assert node.dispatcher.flows.count() < 45
        hangs = False
        # Without the look at every row that an advance of the world takes.
        await virtual_loop().advance(700)
        await world.settle_down(within=800)
        ends = [row for asked in stuck if (row := await world.row_of(asked)) is not None]
        assert {row.state for row in ends} == {State.DELIVERED}
        assert world.flows.most["stuck"] == 1

    simulate(scenario)


@pytest.mark.parametrize("seconds", [8.0, 12.0, 30.0, 75.0])
@pytest.mark.parametrize("how", ["kill", "leave"])
def test_a_new_owner_keeps_the_limits(how: str, seconds: float) -> None:
    """The world tells of calls that are too many or too early."""

    async def scenario(world: World) -> None:
        base = await begin(world, nodes=2, quota=2)
        world.receiver.latency_seconds = 0.4
        paced = await create(world, base, [7 + number for number in range(0, 90, 3)], Flow("paced", rate=0.2))
        one = await create(world, base, [7 + number for number in range(90)], Flow("one"))
        await world.advance(seconds)
        (owner,) = {node for node in world.nodes if world.lease_of(paced[0])[0] == node}  # type: ignore[index]
        if how == "kill":
            await world.kill(owner)
        else:
            world.leave(owner)
        await world.settle_down(within=900)
        assert len(calls_of(paced)) >= len(paced)
        assert len(calls_of(one)) >= len(one)

    simulate(scenario)


def test_a_new_owner_starts_no_call_before_an_interval_is_over() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, nodes=2)
        rows = await create(world, base, [10, 40, 41], Flow("slow", rate=0.02))
        await world.advance(13)
        assert len(calls_of(rows)) == 1
        (owner,) = [name for name, node in world.nodes.items() if node.node.balancer.leases()]
        await world.kill(owner)
        await world.settle_down(within=600)
        first, second, third = calls_of(rows)
        assert second.at_ms - first.at_ms >= 50_000
        assert third.at_ms - second.at_ms >= 50_000

    simulate(scenario)


@pytest.mark.parametrize("quota", [1, 8])
def test_a_key_that_moves_with_the_quota_is_limited_in_each_of_its_pollers(quota: int) -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, nodes=2, quota=4)
        world.receiver.latency_seconds = 0.4
        flows = [Flow(f"key-{number}", parallelism=2, rate=1.0) for number in range(8)]
        rows = [row for flow in flows for row in await create(world, base, [10.0 + n for n in range(0, 40, 2)], flow)]
        await world.advance(20)
        await world.change_client("shop", poller_quota=quota)
        late = [row for flow in flows for row in await create(world, base, [30.0 + n for n in range(0, 40, 2)], flow)]
        await world.settle_down(within=600)
        assert all(asked.calls for asked in (*rows, *late))

    simulate(scenario)


def test_a_changed_rule_holds_for_what_is_not_claimed_yet() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        world.receiver.latency_seconds = 0.5
        rows = await create(world, base, [10.0] * 40, Flow("one"))
        await world.advance(14)
        wider = FlowRules(default=FlowLimits(parallelism=4))
        await world.change_client("shop", settings=ClientSettings(retry=PATIENT, flows=wider))
        await world.settle_down(within=100)
        assert world.flows.most["one"] == 4
        assert calls_of(rows)[-1].at_ms - base < 24_000

    simulate(scenario)


def test_retries_and_redeliveries_count_for_their_key() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world)
        rows = await create(world, base, [10.0 + number for number in range(6)], Flow("paced", rate=0.5, parallelism=1))
        failing = {str(asked.schedule_id) for asked in rows[:3]}
        world.receiver.script = lambda call: 500 if call.schedule_id in failing and call.attempt < 3 else 200
        await world.settle_down(within=600)
        assert len(calls_of(rows)) == 12

    simulate(scenario)


def test_ordering_keys_within_a_flow_key_keep_their_order() -> None:
    async def scenario(world: World) -> None:
        base = await begin(world, quota=4)
        flow = Flow("shop-1", rate=4.0)
        rows = []
        for number in range(30):
            due = base + 10_000 + 20 * number
            rows.append(await world.create("shop", due, flow=flow, ordering_key=f"order-{number % 3}"))
        await world.settle_down(within=300)
        assert all(len(asked.calls) == 1 for asked in rows)

    simulate(scenario)


@pytest.mark.parametrize("why", ["hangs", "rate"])
def test_one_of_ten_thousand_keys_is_stuck_and_the_others_are_called_on_time(why: str) -> None:
    """Its calls hang, or its rate is used up by far."""

    async def scenario(world: World) -> None:
        await begin(world, quota=16)
        base = minute_start(minute_of(world.now_ms()) + 1)
        flow = Flow("stuck", parallelism=1) if why == "hangs" else Flow("stuck", rate=0.1)
        await create(world, base, [0.05 * number for number in range(1_000)], flow, STUCK)
        free = []
        for number in range(10_000):
            free += await create(world, base, [50 * number / 10_000], Flow(f"customer-{number}", rate=1, parallelism=1))
        world.receiver.script = lambda call: "timeout" if call.url == STUCK and why == "hangs" else 200
        most_rows = most_keys = 0
        node = world.nodes["a"].node
        for _ in range(80):
            # Without the look at every row that an advance of the world takes.
            await virtual_loop().advance(1.0)
            runs = [
                run for pollers in node.pollers.all() for one in pollers.pollers.values() for run in one.runs.values()
            ]
            held = sum(len(run.machine.rows.held.get((FLOW, "stuck"), ())) for run in runs)
            most_rows, most_keys = max(most_rows, held), max(most_keys, node.dispatcher.flows.count())
        world.check_crashes()
        assert len(calls_of(free)) == 10_000
        assert latest(free) < 300
        assert most_rows <= MinuteSettings().window_rows // 6
        # A second's worth of keys, twice.
        assert most_keys < 1_000

    simulate(scenario)
