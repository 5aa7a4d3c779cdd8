"""Nodes are asked to drain and to take pollers again: the last one refuses, and nothing is lost or repeated."""

import asyncio

import pytest

from membership.errors import StoreUnavailable
from membership.ports import NodeState
from poller_cluster.hand_over import HandOver, LastNode, NotSeen
from poller_cluster.settings import ReceiverSettings
from tests.simulation.cluster import (
    SHOP,
    all_delivered,
    all_delivered_once,
    begin_load,
    calls_since,
    everything,
    owned,
    pollers_of,
    three_nodes,
    until,
)
from tests.simulation.world import World, simulate


def hand_over(world: World, name: str) -> HandOver:
    return world.nodes[name].node.hand_over


async def drained(world: World, *names: str) -> list[bool]:
    """Ask all of these nodes at once to drain; returns which have begun."""
    asked = [asyncio.get_running_loop().create_task(hand_over(world, name).ask()) for name in names]
    await world.advance(5.0)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(answer is None or isinstance(answer, LastNode) for answer in answers), answers
    begun = [answer is None for answer in answers]
    assert begun == [hand_over(world, name).begun for name in names]
    return begun


def test_the_last_node_does_not_hand_over() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=60)
        assert [await drained(world, name) for name in "abc"] == [[True], [True], [False]]
        await until(world, lambda: len(pollers_of(world, "c")) == len(everything()), within=30.0)
        await load
        await all_delivered_once(world)
        state = world.nodes["c"].node.membership_agent.view.heartbeats[world.nodes["c"].node.incarnation].state
        assert state is NodeState.LIVE

    simulate(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_at_least_one_of_all_draining_nodes_stays(seed: int) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=60)
        await world.advance(world.rng.random())
        begun = await drained(world, "a", "b", "c")
        assert not all(begun)
        await until(world, lambda: owned(world) == everything(), within=40.0)
        await load
        await all_delivered(world)

    simulate(scenario, seed=seed)


def test_a_node_that_is_silent_is_not_counted_on() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world, names="ab")
        incarnation, members = world.nodes["b"].node.incarnation, world.nodes["a"].node.membership_agent
        world.pause("b")
        await until(world, lambda: members.view.silence.get(incarnation, 6.0) >= 6.0, within=9.0)
        assert await drained(world, "a") == [False]
        world.heal()
        await world.revive()

    simulate(scenario)


def test_a_node_that_storage_does_not_answer_begins_nothing() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world, names="ab")
        world.cut_off("a")
        asked = asyncio.get_running_loop().create_task(hand_over(world, "a").ask())
        await world.advance(3.0)
        with pytest.raises((StoreUnavailable, NotSeen)):
            await asked
        world.heal()
        await until(world, lambda: owned(world) == everything(), within=40.0)
        assert not hand_over(world, "a").begun

    simulate(scenario)


def test_all_nodes_drained_by_force_make_no_calls_until_one_is_undrained() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        for name in "abc":
            await hand_over(world, name).ask(force=True)
        await until(world, lambda: not owned(world), within=30.0)
        drained_at = world.now_ms()
        asked = [await world.create("shop", drained_at + 1_000 * number) for number in range(90)]
        await world.advance(30.0)
        assert not calls_since(world, drained_at)
        assert hand_over(world, "b").take_back()
        await until(world, lambda: pollers_of(world, "b") == set(range(6)), within=10.0)
        await all_delivered_once(world)
        assert {call.node for one in asked for call in one.calls} == {"b"}

    simulate(scenario)


def slow_storage(world: World, *names: str, seconds: float = 1.0) -> None:
    """Storage is slow, so that each of a drain's three reads of the members takes longer, but no longer than trust
    lasts. Each takes half of `seconds` at least, whatever else has drawn random numbers."""
    for name in names:
        plan = world.nodes[name].connection.plan
        plan.slow, plan.slow_seconds, plan.slow_least = 1.0, seconds, 0.5


def test_a_drain_asked_for_twice_is_judged_twice() -> None:
    """The second request arrives while the first still reads storage."""

    async def scenario(world: World) -> None:
        await three_nodes(world, names="a")
        slow_storage(world, "a")
        asked = []
        for _ in range(2):
            asked.append(asyncio.get_running_loop().create_task(hand_over(world, "a").ask()))
            await world.advance(0.02)
        await world.advance(8.0)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [LastNode] * 2
        assert not hand_over(world, "a").begun
        assert owned(world) == everything()

    simulate(scenario)


@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.5, 1.0, 2.0])
def test_a_drain_that_is_taken_back_while_it_is_judged_does_not_begin(seconds: float) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        slow_storage(world, "a", seconds=1.5)
        asked = [asyncio.get_running_loop().create_task(hand_over(world, "a").ask()) for _ in range(2)]
        await world.advance(seconds)
        assert hand_over(world, "a").take_back()
        await world.advance(10.0)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [NotSeen] * 2
        assert not hand_over(world, "a").begun
        assert (
            world.nodes["a"].node.membership_agent.view.heartbeats[world.nodes["a"].node.incarnation].state
            is NodeState.LIVE
        )

    simulate(scenario)


def test_a_drain_that_is_taken_back_as_it_begins_releases_nothing() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        held = pollers_of(world, "a")
        hand_over(world, "a").begin()
        assert hand_over(world, "a").take_back()
        await world.advance(5.0)
        assert pollers_of(world, "a") == held

    simulate(scenario)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_handed_over_before_a_drain_is_granted(seed: int) -> None:
    """Both of two nodes are asked, and at least one of them stays."""

    async def scenario(world: World) -> None:
        await three_nodes(world, names="ab")
        slow_storage(world, "a", "b")
        held = {name: pollers_of(world, name) for name in "ab"}
        asked = [asyncio.get_running_loop().create_task(hand_over(world, name).ask()) for name in "ab"]
        for _ in range(400):
            await world.advance(0.02)
            for name in "ab":
                assert hand_over(world, name).begun or pollers_of(world, name) >= held[name]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert any(isinstance(answer, LastNode) for answer in answers)

    simulate(scenario, seed=seed)


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3, 2.0])
def test_a_drain_that_is_taken_back_under_way_loses_and_repeats_nothing(seconds: float) -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=40, per_second=10)
        await world.advance(10.0)
        hand_over(world, "a").begin()
        await world.advance(seconds)
        assert hand_over(world, "a").take_back()
        await until(world, lambda: owned(world) == everything(), within=20.0)
        await load
        assert pollers_of(world, "a")
        hand_over(world, "a").begin()
        await until(world, lambda: not pollers_of(world, "a"), within=20.0)
        await all_delivered_once(world)

    simulate(scenario)


def test_a_node_that_is_being_stopped_takes_nothing_back() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        node = world.nodes["a"].node
        world.leave("a")
        await world.advance(0.1)
        assert not node.hand_over.take_back()
        assert node.draining
        await until(world, lambda: owned(world) == everything(), within=20.0)

    simulate(scenario)


def test_a_node_forgets_clients_of_which_it_holds_no_poller_any_more() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        await begin_load(world, seconds=30)
        assert await drained(world, "a") == [True]
        await until(world, lambda: not pollers_of(world, "a"), within=30.0)
        assert known_clients(world, "a") == {SHOP}, "its breakers outlast a poller that moves away and back"
        await world.advance(ReceiverSettings().breaker_longest_seconds + 1.0)
        assert [known_clients(world, name) for name in "abc"] == [set(), {SHOP}, {SHOP}]
        assert hand_over(world, "a").take_back()
        await until(world, lambda: bool(pollers_of(world, "a")), within=60.0)
        await begin_load(world, seconds=30)
        await all_delivered_once(world)
        assert known_clients(world, "a") == {SHOP}

    simulate(scenario)


def known_clients(world: World, name: str) -> set[str]:
    """The clients of which a node's dispatcher keeps state."""
    dispatcher = world.nodes[name].node.dispatcher
    return set(dispatcher._held) | {client_id for client_id, _ in dispatcher._receivers.all()}
