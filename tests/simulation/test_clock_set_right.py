"""Clocks that were ahead and are set right: the minutes passed by a wrong clock are read again.

The store runs on the host of the nodes that are ahead; otherwise its servers would contradict them
(`test_server_clocks`).
"""

import pytest

from scheduler_service.domain.clients import ClientState
from scheduler_service.domain.ids import minute_of, minute_start
from tests.simulation.cluster import (
    SHOP,
    all_delivered_once,
    begin_load,
    calls_since,
    everything,
    lateness_ms,
    owned,
    pollers_of,
    three_nodes,
    until,
)
from tests.simulation.world import World, simulate

AHEAD_MS = 600_000
JUDGED_SECONDS = 15.0
"""A lone node believes a step after ten seconds."""


async def fast(world: World, names: str = "a", *, seconds: float = 60.0) -> None:
    """Start nodes whose clocks are ahead, on one host with the storage."""
    step_servers(world, AHEAD_MS)
    await world.add_client(SHOP, quota=6)
    for name in names:
        world.add_node(name, skew_ms=AHEAD_MS)
    await until(world, lambda: owned(world) >= everything(), within=20.0)
    await world.advance(seconds)


def step_servers(world: World, milliseconds: int) -> None:
    for clock in world.server_clocks:
        clock.step(milliseconds)


def set_right(world: World) -> None:
    step_servers(world, -AHEAD_MS)
    for node in world.nodes.values():
        node.clock.step(-AHEAD_MS)


async def all_called_in_time(world: World, *, seconds: float = 660.0, late_ms: float = 1_000.0) -> None:
    """Creates from now on, in the minutes that were thought to be over, are called in time, with and without hints."""
    begun_ms = world.now_ms()
    for number in range(60):
        world.hints_lost = number % 2
        await world.create(SHOP, begun_ms + 3_000 + (seconds * 1000 - 3_000) * number / 60)
    await world.advance(seconds)
    await all_delivered_once(world)
    assert len(calls_since(world, begun_ms)) == 60
    assert lateness_ms(world) < late_ms


@pytest.mark.parametrize("seconds", [20, 60, 130])
def test_a_lone_node_that_is_set_right_looks_at_the_minutes_it_had_passed(seconds: int) -> None:
    async def scenario(world: World) -> None:
        await fast(world, seconds=seconds)
        set_right(world)
        await world.advance(JUDGED_SECONDS)
        await all_called_in_time(world, late_ms=75_000)

    simulate(scenario)


def test_a_call_on_the_wire_keeps_no_passed_minutes_while_a_lone_node_is_set_right() -> None:
    """The other pollers are released and taken again before the call has ended: the client always has a poller."""

    async def scenario(world: World) -> None:
        world.called = lambda node, call: None  # type: ignore[method-assign]
        await fast(world)
        world.receiver.latency_seconds = 40.0
        await world.create(SHOP, world.now_ms() + AHEAD_MS + 10_000)
        await until(world, lambda: len(world.receiver.calls) == 1, within=75.0)
        set_right(world)
        await until(world, lambda: len(owned(world)) == 1, within=5.0)
        await until(world, lambda: owned(world) >= everything(), within=15.0)
        world.receiver.latency_seconds = 0.01
        asked = [await world.create(SHOP, world.now_ms() + 3_000 + 9_950 * number) for number in range(60)]
        await world.advance(700)
        lateness = {call.schedule_id: call.at_ms - call.due_ms for call in world.receiver.calls}
        assert all(lateness.get(str(one.schedule_id), AHEAD_MS) < 1_000 for one in asked)

    simulate(scenario)


@pytest.mark.parametrize("ends", ["is stopped", "is killed", "is killed when set right", "is killed once judged"])
def test_the_next_incarnation_reads_the_passed_minutes_again(ends: str) -> None:
    async def scenario(world: World) -> None:
        await fast(world)
        if ends.startswith("is killed "):
            set_right(world)
            await world.advance(1.0 if ends.endswith("set right") else 11.0)
        await (world.stop("a") if ends == "is stopped" else world.kill("a"))
        if not ends.startswith("is killed "):
            set_right(world)
        world.add_node("a")
        await until(world, lambda: owned(world) >= everything(), within=30.0)
        await all_called_in_time(world, late_ms=75_000)

    simulate(scenario)


@pytest.mark.parametrize("ends", ["is stopped", "is killed"])
def test_what_fell_due_before_the_next_incarnation_is_found_below_the_watermark(ends: str) -> None:
    """No node ran when the clock was set right, and the watermark says that these minutes are over."""

    async def scenario(world: World) -> None:
        await fast(world)
        await (world.stop("a") if ends == "is stopped" else world.kill("a"))
        set_right(world)
        for number in range(30):
            await world.create(SHOP, world.now_ms() + 5_000 + 8_000 * number)
        await world.advance(300)
        world.add_node("a")
        await until(world, lambda: owned(world) >= everything(), within=30.0)
        await all_delivered_once(world)

    simulate(scenario)


def test_a_client_suspended_at_that_time_misses_nothing() -> None:
    async def scenario(world: World) -> None:
        await fast(world)
        await world.change_client(SHOP, state=ClientState.SUSPENDED)
        await world.advance(10)
        set_right(world)
        await world.advance(JUDGED_SECONDS)
        asked = [await world.create(SHOP, world.now_ms() + 10_000 * number) for number in range(60)]
        await world.advance(900)
        assert not any(each.calls for each in asked)
        await world.change_client(SHOP, state=ClientState.ACTIVE)
        await all_delivered_once(world)

    simulate(scenario)


def test_what_is_under_way_when_a_clock_is_set_right_is_called_once() -> None:
    """Some rows of a running minute were called by the wrong clock."""

    async def scenario(world: World) -> None:
        world.called = lambda node, call: None  # type: ignore[method-assign]
        await fast(world, seconds=5)
        here = minute_start(minute_of(world.now_ms())) + 120_000
        for number in range(100):
            await world.create(SHOP, here + AHEAD_MS + 500 * number)
        await world.advance_to(here + 20_000)
        set_right(world)
        await world.advance(2.0)
        early = len(world.receiver.calls)
        assert 30 < early < 50
        await world.advance(JUDGED_SECONDS)
        assert len(world.receiver.calls) == early
        await world.advance(AHEAD_MS / 1000 + 120)
        calls = world.receiver.calls
        assert len({call.schedule_id for call in calls}) == len(calls) == 100
        assert all(abs(call.at_ms - call.due_ms) < 1_000 for call in calls[early:])

    simulate(scenario)


@pytest.mark.parametrize("apart", [0.0, 3.0, 40.0])
def test_nodes_whose_clocks_are_set_right_together_do_not_outvote_the_right_time(apart: float) -> None:
    """They share a host: each finds its old time confirmed by the others'."""

    async def scenario(world: World) -> None:
        await fast(world, "abc")
        step_servers(world, -AHEAD_MS)
        for name in "abc":
            world.nodes[name].clock.step(-AHEAD_MS)
            await world.advance(apart)
        await world.advance(60 - 3 * apart if apart < 20 else 15)
        assert owned(world) >= everything()
        await all_called_in_time(world, late_ms=75_000)

    simulate(scenario)


def test_two_nodes_set_right_together_believe_the_one_that_was_right() -> None:
    async def scenario(world: World) -> None:
        await world.add_client(SHOP, quota=6)
        world.add_node("c")
        for name in "ab":
            world.add_node(name, skew_ms=AHEAD_MS)
        step_servers(world, AHEAD_MS)
        await world.advance(60)
        step_servers(world, -AHEAD_MS)
        for name in "ab":
            world.nodes[name].clock.step(-AHEAD_MS)
        await world.advance(60)
        assert owned(world) >= everything()
        assert all(pollers_of(world, name) for name in "abc")
        await all_called_in_time(world, late_ms=75_000)

    simulate(scenario)


def test_two_nodes_that_step_together_do_not_outvote_the_one_whose_clock_stayed() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        await world.advance(45)
        load = begin_load(world, seconds=60)
        later = [await world.create(SHOP, world.now_ms() + AHEAD_MS + 1_000 * number) for number in range(60)]
        await world.advance(10)
        for name in "ab":
            world.nodes[name].clock.step(AHEAD_MS)
        await load
        assert not any(asked.calls for asked in later)
        assert all(pollers_of(world, name) for name in "abc")
        await world.advance(AHEAD_MS / 1000)
        await all_delivered_once(world)

    simulate(scenario)
