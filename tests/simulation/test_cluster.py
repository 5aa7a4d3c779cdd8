"""A cluster of three under load: nodes join, leave, crash and sleep, and the store stops answering."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from cql.connection import Item
from membership.membership_agent import DEAD
from scheduler_service.domain.ids import MINUTE_MS, minute_start
from tests.simulation.cluster import (
    GRACEFUL_MS,
    SHOP,
    all_delivered,
    all_delivered_once,
    begin_load,
    calls_since,
    dead_incarnations,
    everything,
    in_doubt,
    lateness_ms,
    owned,
    pollers_of,
    repeated,
    three_nodes,
    until,
)
from tests.simulation.creates import CreateRecord
from tests.simulation.world import World, simulate

FIRES_AGAIN_MS = 12_000
ON_TIME_MS = 100


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_node_that_joins_under_load_loses_repeats_and_delays_nothing(seed: int) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world, names="ab")
        load = begin_load(world, seconds=40)
        await world.advance(12 + world.rng.random())
        world.add_node("c")
        await load
        assert pollers_of(world, "c")
        await all_delivered_once(world)
        assert lateness_ms(world) <= GRACEFUL_MS

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_node_stopped_under_load_loses_repeats_and_delays_nothing(seed: int) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=40)
        await world.advance(12 + world.rng.random())
        world.leave("ab"[seed % 2])
        await load
        assert owned(world) == everything()
        await all_delivered_once(world)
        assert lateness_ms(world) <= GRACEFUL_MS

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_node_that_is_drained_under_load_loses_repeats_and_delays_nothing(seed: int) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=40)
        await world.advance(12 + world.rng.random())
        world.nodes["a"].node.hand_over.begin()
        await load
        assert not pollers_of(world, "a")
        await all_delivered_once(world)
        assert lateness_ms(world) <= GRACEFUL_MS

    simulate(scenario, seed=seed)


def test_a_rolling_restart_under_load_loses_repeats_and_delays_nothing() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=75, per_second=3)
        for name in "abc":
            await world.advance(10.0)
            await world.stop(name)
            world.add_node(name)
            await world.advance(10.0)
            assert owned(world) == everything()
        await load
        await all_delivered_once(world)
        assert lateness_ms(world) <= GRACEFUL_MS

    simulate(scenario)


def claims(items: Sequence[Item]) -> bool:
    return items[0][0].startswith("schedules.commit") and not records(items)


def records(items: Sequence[Item]) -> bool:
    return any(name.startswith("schedules.write_outcome") for name, _ in items)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("meets", "fault", "leaves_doubt"),
    [
        (claims, "crash-before", False),
        (claims, "crash-after", True),
        (records, "crash-before", True),
        (records, "crash-after", False),
    ],
    ids=["before the claim", "after the claim", "before the record", "after the record"],
)
def test_a_crash_of_one_of_three_repeats_only_what_is_in_doubt(
    meets: Callable[[Sequence[Item]], bool], fault: str, leaves_doubt: bool, seed: int
) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=40)
        await world.advance(10 + 3 * world.rng.random())
        crashed = asyncio.Event()
        plan = world.nodes["a"].connection.plan
        plan.hook = lambda kind, items: fault if meets(items) and not crashed.is_set() else None
        plan.crash = crashed.set
        orphaned = pollers_of(world, "a")
        await asyncio.wait_for(crashed.wait(), 60.0)
        await world.kill("a")
        killed_ms, back_ms = world.now_ms(), world.now_ms() + FIRES_AGAIN_MS
        doubted = await in_doubt(world, orphaned)
        assert doubted or not leaves_doubt
        called = {str(one.schedule_id) for one in world.asked.values() if one.calls}
        await until(world, lambda: owned(world) == everything(), within=FIRES_AGAIN_MS / 1_000, step=0.5)
        await load
        await all_delivered(world)
        assert all(one.calls[0].at_ms < max(back_ms, one.due + ON_TIME_MS) for one in world.asked.values())
        assert repeated(world) == doubted & called
        assert all(call.redelivery is (call.schedule_id in doubted) for call in calls_since(world, killed_ms))

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seconds", [4.6, 5.5, 15.0, 90.0])
def test_a_node_that_slept_past_its_trust_calls_nothing_under_what_others_took(seconds: float) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=40)
        await world.advance(10 + 3 * world.rng.random())
        slept = world.nodes["a"]
        world.pause("a")
        await world.advance(seconds)
        woken_ms = world.now_ms()
        assert not slept.node.membership_agent.trusted()
        world.resume("a")
        await world.advance(0.002)
        assert not slept.node.membership_agent.trusted()
        await world.advance(8.0)
        declared = "a" in dead_incarnations(world)
        assert declared == (seconds > 8.0)
        assert slept.over == (DEAD if declared else None)
        if declared:
            assert not calls_since(world, woken_ms, node="a")
        await load
        await all_delivered(world)

    simulate(scenario, seed=int(seconds))


@pytest.mark.parametrize("seconds", [2, 12, 120])
def test_an_outage_of_the_store_for_all_three_kills_no_node_and_loses_nothing(seconds: int) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=45 + seconds)
        await world.advance(15)
        world.cut_off()
        world.api_connection.plan.cut_off = True
        await world.advance(seconds)
        called = len(world.receiver.calls)
        await world.advance(1)
        assert len(world.receiver.calls) == called or seconds == 2
        world.heal()
        healed_ms = world.now_ms()
        await world.advance(20)
        assert dead_incarnations(world) == set()
        assert owned(world) == everything()
        await load
        await all_delivered_once(world)
        assert lateness_ms(world, since_ms=healed_ms + 5_000) < ON_TIME_MS

    simulate(scenario, seed=seconds)


def test_everything_due_while_all_nodes_were_down_for_hours_arrives_and_delays_nothing_fresh() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        world.receiver.latency_seconds = 0.5
        base = world.now_ms()
        missed = [await world.create(SHOP, base + 20_000 + 45_000 * number) for number in range(240)]
        for name in "abc":
            await world.kill(name)
        await world.advance_to(missed[-1].due + 30_000)
        world.add_node("d")
        back_ms = world.now_ms() + FIRES_AGAIN_MS
        fresh = [await world.create(SHOP, back_ms + 250 * number) for number in range(80)]
        await world.advance_to(fresh[-1].due + 1_000)
        assert max(asked.calls[0].at_ms - asked.due for asked in fresh) < ON_TIME_MS
        await all_delivered_once(world)
        last = max(asked.calls[0].at_ms for asked in missed)
        assert last - back_ms < 3 * MINUTE_MS
        # Pollers are granted one after another: the first ones have begun by then.
        minutes = [one.due // MINUTE_MS for one in sorted(missed, key=lambda one: one.calls[0].at_ms)]
        assert all(after >= before - 2 for before, after in pairwise(minutes[24:]))

    simulate(scenario)


def test_quotas_that_grow_and_shrink_under_load_lose_and_repeat_nothing() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world, quota=2)
        load = begin_load(world, seconds=60, per_second=5)
        for quota in (14, 3, 9, 1):
            await world.advance(12)
            await world.change_client(SHOP, poller_quota=quota)
        await load
        assert owned(world) == everything(14)
        await all_delivered_once(world)
        assert lateness_ms(world) <= GRACEFUL_MS

    simulate(scenario)


def test_cancels_while_pollers_move_have_one_winner() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        base = minute_start(world.now_ms() // MINUTE_MS + 1)
        asked = [await world.create(SHOP, base + 8_000 + 60 * number) for number in range(500)]

        async def cancel_in_time(one: CreateRecord) -> None:
            lead = world.rng.choice((8_000, 5_010, 5_000, 4_000, 1_020, 1_000, 900, 0))
            await world.api_clock.sleep(max(one.due - lead - world.now_ms(), 0) / 1_000.0)
            await world.cancel(one)

        cancels = asyncio.gather(*map(cancel_in_time, asked[::2]))
        await world.advance_to(base + 10_000)
        world.leave("a")
        await world.advance(4)
        world.add_node("d")
        await world.advance(5)
        await world.kill("b")
        await cancels
        await world.advance(20)
        await all_delivered(world)
        cancelled = [one for one in asked if one.cancelled]
        assert 100 < len(cancelled) < 250
        assert len({str(one.schedule_id) for one in cancelled} & repeated(world)) == 0

    simulate(scenario)
