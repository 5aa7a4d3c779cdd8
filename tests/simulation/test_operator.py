"""What an operator changes while a cluster runs: quotas, suspensions, and nodes that drain."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from membership.identity import PollerKey
from membership.ports import NodeState
from poller_cluster.ops.metrics import EndedElsewhere, show_node
from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.ids import MINUTE_MS, ClientId, minute_start
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.metrics import Metrics
from tests.simulation.world import World, simulate

SHOP = ClientId("shop")
TAKES_EFFECT_SECONDS = 5.0


async def begin(world: World, *, quota: int) -> None:
    """Two nodes that together own every poller, early in a minute."""
    await world.add_client(SHOP, quota=quota)
    for name in "ab":
        world.add_node(name)
    await world.advance(20.0)
    assert owned(world) == everything(quota)


def owned(world: World) -> set[PollerKey]:
    held = [set(node.node.balancer.leases()) for node in world.nodes.values()]
    assert sum(map(len, held)) == len(set().union(*held)), "a poller has two owners"
    return set().union(*held)


def everything(quota: int) -> set[PollerKey]:
    return {PollerKey(SHOP, poller_id) for poller_id in range(quota)}


def limits(world: World) -> list[int]:
    """The number of calls that each node permits under way for the client: its share of 100 for each poller of the
    quota.
    """
    return [node.node.dispatcher.headroom(SHOP) for node in world.nodes.values()]


async def within(world: World, seconds: float, reached: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not reached():
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds} s"
        await world.advance(0.1)


def test_a_grown_quota_is_served_by_all_nodes_within_five_seconds() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=2)
        await world.change_client(SHOP, poller_quota=12)
        await within(world, TAKES_EFFECT_SECONDS, lambda: sum(limits(world)) == 1200 and owned(world) == everything(12))
        assert all(node.node.balancer.leases() for node in world.nodes.values())
        base = world.now_ms()
        for number in range(120):
            await world.create(SHOP, base + 1_000 + 100 * number)
        await world.settle_down()
        assert {call.node for call in world.receiver.calls} == {"a", "b"}
        assert max(call.at_ms - call.due_ms for call in world.receiver.calls) < 100

    simulate(scenario)


def test_a_shrunk_quota_holds_everywhere_within_five_seconds_and_loses_nothing() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=12)
        base = world.now_ms()
        for number in range(60):
            await world.create(SHOP, base + 10_000 + 1_000 * number)
        await world.change_client(SHOP, poller_quota=1)
        await within(world, TAKES_EFFECT_SECONDS, lambda: limits(world) == [100, 100])
        await world.settle_down()
        assert len(world.receiver.calls) == 60
        assert max(call.at_ms - call.due_ms for call in world.receiver.calls) < 100
        assert owned(world) == everything(12), "pollers that may still hold rows stay polled"

    simulate(scenario)


def test_a_suspended_client_is_held_by_all_nodes_within_five_seconds_and_goes_on_when_resumed() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=8)
        await world.change_client(SHOP, state=ClientState.SUSPENDED)
        suspended = world.now_ms()
        for number in range(40):
            await world.create(SHOP, suspended + TAKES_EFFECT_SECONDS * 1_000 + 500 * number)
        await world.advance(60.0)
        assert world.receiver.calls == []
        await world.change_client(SHOP, state=ClientState.ACTIVE)
        await within(world, TAKES_EFFECT_SECONDS, lambda: sum(limits(world)) == 800)
        await world.settle_down()
        assert len(world.receiver.calls) == 40

    simulate(scenario)


def test_a_paused_client_is_held_while_it_creates_and_stays_so_until_a_suspension_is_lifted_too() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=4)
        asked = [await world.create(SHOP, world.now_ms() + 30_000 + 500 * number) for number in range(20)]
        await world.change_client(SHOP, paused=True)
        await world.advance(TAKES_EFFECT_SECONDS)
        for number in range(40):
            # Some are due at once, and hinted to their node; the pause spans several minutes.
            asked.append(await world.create(SHOP, world.now_ms() + 1_000 * (number % 4)))
            await world.advance(4.0)
        await world.change_client(SHOP, state=ClientState.SUSPENDED)
        await world.kill("a")
        await world.advance(60.0)
        await world.change_client(SHOP, paused=False)
        await world.advance(60.0)
        assert world.receiver.calls == []
        await world.change_client(SHOP, state=ClientState.ACTIVE)
        await world.settle_down()
        rows = [await world.row_of(one) for one in asked]
        assert {(row.state, row.attempts) for row in rows if row is not None} == {(State.DELIVERED, 1)}
        assert len(world.receiver.calls) == len(rows) == 60, "nothing was attempted, and no attempt was counted"

    simulate(scenario)


def test_a_drained_node_hands_everything_over_and_stays_a_member() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=12)
        base = minute_start(world.now_ms() // MINUTE_MS + 1)
        for number in range(120):
            await world.create(SHOP, base + 250 * number)
        await world.advance_to(base + 10_000)
        drained = world.nodes["a"].node
        for _ in range(2):
            drained.hand_over.begin()
        await within(world, 10.0, lambda: not drained.balancer.leases() and owned(world) == everything(12))
        await world.settle_down()
        assert len(world.receiver.calls) == 120, "a planned move repeats nothing"
        assert max(call.at_ms - call.due_ms for call in world.receiver.calls) < 2_000
        await world.advance(30.0)
        other = world.nodes["b"].node.membership_agent
        states = {heartbeat.incarnation.node_id: heartbeat.state for heartbeat in other.view.members}
        assert states == {"a": NodeState.DRAINING, "b": NodeState.LIVE}
        assert not drained.balancer.leases()
        await world.stop("a")
        await world.advance(5.0)
        assert {heartbeat.incarnation.node_id for heartbeat in other.view.members} == {"b"}

    simulate(scenario)


def test_a_node_shows_its_pollers_and_the_members_it_sees() -> None:
    async def scenario(world: World) -> None:
        await begin(world, quota=12)
        metrics = metrics_of(world, "b")
        at_rest = shown(metrics)
        assert at_rest["minutehand_leases_held"] == len(world.nodes["b"].node.balancer.leases()) > 0
        assert at_rest["minutehand_trusted"] == at_rest["minutehand_clock_trusted"] == 1
        assert at_rest['minutehand_members{state="live"}'] == 2
        at_one = {"minutehand_leases_held", "minutehand_pollers", "minutehand_trusted", "minutehand_clock_trusted"}
        at_one |= {"minutehand_background_slots", "minutehand_background_pause_seconds"}
        assert abs(at_rest.pop("minutehand_storage_clock_offset_seconds")) < 0.01
        zero = {name: value for name, value in at_rest.items() if name not in at_one and 'state="live"' not in name}
        assert {name: value for name, value in zero.items() if value} == {}
        await world.kill("a")
        world.add_node("c")
        await world.advance(20.0)
        await world.stop("c")
        await world.advance(3.0)
        after = shown(metrics)
        assert after["minutehand_leases_held"] == 12
        assert 0 < after["minutehand_lease_takeovers_total"] < 12, "what c left it had handed over"
        assert [after[f'minutehand_members{{state="{state}"}}'] for state in ("live", "left", "dead")] == [1, 1, 1]
        world.cut_off("b")
        await world.advance(6.0)
        assert shown(metrics)["minutehand_trusted"] == 0
        world.heal()

    simulate(scenario)


@pytest.mark.parametrize(("named", "label"), [(0, "other"), (1, "shop")])
def test_what_became_of_calls_is_counted_where_they_are_made(named: int, label: str) -> None:
    """The metrics need no key, so they name clients only where the operator wants it."""

    async def scenario(world: World) -> None:
        world.node_settings = replace(world.node_settings, named_clients=named)
        await world.add_client(SHOP, quota=2)
        world.add_node("a")
        await world.advance(20.0)
        metrics = metrics_of(world, "a")
        base = world.now_ms()
        for number in range(40):
            await world.create(SHOP, base + 10_000 + 100 * number)
        await world.advance(12.0)
        during = shown(metrics)
        assert during["minutehand_backlog_rows"] == during[f'minutehand_client_backlog_rows{{client="{label}"}}'] < 40
        await world.settle_down()
        after = shown(metrics)
        assert after['minutehand_schedules_total{outcome="delivered"}'] == 40
        assert after['minutehand_attempts_total{code_class="2xx",kind="http"}'] == 40
        assert after['minutehand_attempt_duration_seconds_count{kind="http"}'] == 40
        assert after['minutehand_fire_lateness_seconds_bucket{le="1.0",share="guaranteed"}'] == 40
        assert after[f'minutehand_client_fires_total{{client="{label}"}}'] == 40
        assert after["minutehand_backlog_rows"] == after["minutehand_oldest_due_age_seconds"] == 0
        assert after["minutehand_in_doubt_total"] == after["minutehand_fenced_writes_total"] == 0

    simulate(scenario)


def test_a_backlog_grows_old_while_nothing_may_be_sent_and_is_gone_after() -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=1)
        world.add_node("a")
        await world.advance(20.0)
        metrics = metrics_of(world, "a")
        base = minute_start(world.now_ms() // MINUTE_MS + 1)
        for number in range(30):
            await world.create(SHOP, base + 5_000 + 10 * number)
        await world.advance_to(base + 1_000)
        world.cut_off("a")
        await world.advance_to(base + 25_000)
        held_up = shown(metrics)
        assert held_up["minutehand_backlog_rows"] == 30
        assert 19 <= held_up["minutehand_oldest_due_age_seconds"] <= 20
        world.heal()
        await world.settle_down()
        after = shown(metrics)
        assert after["minutehand_backlog_rows"] == after["minutehand_oldest_due_age_seconds"] == 0
        assert len(world.receiver.calls) == 30

    simulate(scenario)


def test_rows_in_doubt_are_counted_by_the_owner_that_finds_them() -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=4)
        for name in "ab":
            world.add_node(name)
        await world.advance(20.0)
        base = world.now_ms()
        for number in range(100):
            await world.create(SHOP, base + 10_000 + 20 * number)
        await world.advance_to(base + 11_000)
        await world.kill("a")
        metrics = metrics_of(world, "b")
        await world.settle_down()
        after = shown(metrics)
        assert after["minutehand_in_doubt_total"] > 0
        assert after["minutehand_lease_takeovers_total"] > 0

    simulate(scenario)


def metrics_of(world: World, name: str) -> Metrics:
    """What that node's process shows from now on."""
    one, metrics = world.nodes[name], Metrics(program="node", version="0")
    show_node(
        one.node,
        clock=one.clock,
        metrics=metrics,
        attempts_in_flight=lambda: 0,
        hints_dropped=lambda: 0,
        ended=EndedElsewhere(ended={}, skipped={}),
    )
    return metrics


def shown(metrics: Metrics) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in metrics.exposition().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines if name.startswith("minutehand_") and "build" not in name}
