"""Restarts, deaths and lost answers in a cluster of three lose no call and repeat none."""

import asyncio
from collections.abc import Callable, Sequence

import pytest

from cql.connection import Item
from membership.membership_agent import DEAD, SUPERSEDED
from scheduler_service.domain.clients import ClientSettings, ClientState, RetrySettings
from tests.simulation.cluster import (
    SHOP,
    all_delivered,
    all_delivered_once,
    begin_load,
    calls_since,
    dead_incarnations,
    everything,
    lateness_ms,
    owned,
    pollers_of,
    repeated,
    three_nodes,
    until,
)
from tests.simulation.world import World, simulate

TRUST_SECONDS = 4.0
DEAD_AFTER_SECONDS = 6.0


def test_trust_is_not_regained_after_a_death_was_decided() -> None:
    """The others decide while it sleeps. Once awake, its beats are confirmed, and its first renewal gets no answer."""

    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=30)
        await world.advance(5)
        slept = world.nodes["a"]
        renewals = 0

        def keep_back_renewals(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal renewals
            renewals += items[0][0] == "lives.renew"
            return "late" if items[0][0] == "lives.renew" and renewals <= 2 else None

        world.pause("a")
        await until(world, lambda: "a" in dead_incarnations(world), within=10.0, step=0.01)
        slept.connection.plan.hook = keep_back_renewals
        woken_ms = world.now_ms()
        world.resume("a")
        for _ in range(150):
            assert not slept.node.membership_agent.trusted()
            await world.advance(0.1)
        assert renewals
        assert slept.over == DEAD
        assert not slept.node.membership_agent.trusted()
        assert not calls_since(world, woken_ms, node="a")
        await load
        await all_delivered(world)

    simulate(scenario)


def test_beats_confirmed_while_lapsed_give_no_trust() -> None:
    """Its beats succeed again, so it is not declared dead; its renewals do not, so it may not act."""

    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=30)
        await world.advance(5)
        lapsed = world.nodes["a"]
        world.pause("a")
        await world.advance(TRUST_SECONDS + 0.5)
        lapsed.connection.plan.hook = lambda kind, items: "refuse" if items[0][0] == "lives.renew" else None
        woken_ms = world.now_ms()
        world.resume("a")
        for _ in range(50):
            await world.advance(0.2)
            assert not lapsed.node.membership_agent.trusted()
        assert not calls_since(world, woken_ms, node="a")
        assert not dead_incarnations(world)
        lapsed.connection.plan.hook = None
        await until(world, lambda: lapsed.node.membership_agent.trusted(), within=3.0)
        await load
        await all_delivered_once(world)

    simulate(scenario)


@pytest.mark.parametrize("seconds", [7.0, 30.0, 3_600.0])
def test_a_process_that_slept_and_finds_all_silent_declares_none_dead(seconds: float) -> None:
    """All of them sleep; the one that wakes first sees no beat that has advanced since."""

    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=20)
        await world.advance(5)
        for name in "abc":
            world.pause(name)
        await world.advance(seconds)
        world.resume("a")
        await world.advance(DEAD_AFTER_SECONDS - 1.0)
        assert not dead_incarnations(world)
        world.resume("b")
        world.resume("c")
        await world.advance(10)
        assert not dead_incarnations(world)
        assert owned(world) == everything()
        await load
        await all_delivered_once(world)

    simulate(scenario)


MEMBERSHIP_WRITES = ("lives.begin", "lives.renew", "lives.declare_dead")
MINUTE_WRITES = (
    "schedules.open",
    "schedules.commit",
    "schedules.commit_past_updates",
    "schedules.update",
    "schedules.update_any_version",
)
LEASE_WRITES = ("take", "clear lagging", "release")


def lease_write(items: Sequence[Item]) -> str | None:
    """Which of the four writes to a lease this is."""
    name, parameters = items[0]
    if name != "pollers.write":
        return None
    owner, _, epoch, _, lagging = parameters[:5]
    if owner is None:
        return "release"
    if epoch != parameters[9]:
        return "take"
    return "set lagging" if lagging else "clear lagging"


@pytest.mark.parametrize("fault", ["lose", "late", "refuse"])
@pytest.mark.parametrize("write", [*MEMBERSHIP_WRITES, *LEASE_WRITES, *MINUTE_WRITES])
def test_no_answer_to_a_conditional_write_loses_or_repeats_a_call(write: str, fault: str) -> None:
    """The first two writes of each process meet the fault, while one node joins, one leaves, one sleeps and one is
    killed.
    """

    async def scenario(world: World) -> None:
        met = 0

        def meet() -> Callable[[str, Sequence[Item]], str | None]:
            left = 2

            def hook(kind: str, items: Sequence[Item]) -> str | None:
                nonlocal left, met
                if kind == "conditional" and left and write in (items[0][0], lease_write(items)):
                    left, met = left - 1, met + 1
                    return fault
                return None

            return hook

        async def cancel_some() -> None:
            for asked in list(world.asked.values())[::3]:
                await world.api_clock.sleep(max(asked.due - 1_003 - world.now_ms(), 0) / 1_000)
                await world.cancel(asked)

        await world.add_client(SHOP, quota=6, settings=ClientSettings(retry=RetrySettings(base_seconds=4)))
        world.receiver.script = lambda call: 500 if call.attempt == 1 and int(call.schedule_id[-1], 16) < 4 else 200
        world.api_connection.plan.hook = meet()
        for name in "abc":
            world.add_node(name).connection.plan.hook = meet()
        await until(world, lambda: owned(world) == everything(), within=20.0)
        load = begin_load(world, seconds=100, per_second=2)
        await world.advance(15)
        cancels = asyncio.get_running_loop().create_task(cancel_some(), name="cancels")
        world.add_node("d").connection.plan.hook = meet()
        await world.advance(15)
        world.leave("a")
        await world.advance(15)
        world.pause("d")
        await world.advance(TRUST_SECONDS + 1.0)
        world.resume("d")
        await world.advance(15)
        await world.kill("b")
        await load
        await cancels
        await world.advance(40)
        assert met
        assert owned(world) == everything()
        await world.settle_down()

    simulate(scenario)


def test_a_death_that_was_not_recorded_frees_nothing() -> None:
    """Both others declare the death, and no store applies it: the node that slept wakes up alive, and owns what it
    owned.
    """

    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=40)
        await world.advance(5)
        declared = 0

        def refuse(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal declared
            declared += items[0][0] == "lives.declare_dead"
            return "refuse" if items[0][0] == "lives.declare_dead" else None

        for name in "bc":
            world.nodes[name].connection.plan.hook = refuse
        mine = pollers_of(world, "a")
        world.pause("a")
        await world.advance(15)
        world.resume("a")
        await until(world, lambda: world.nodes["a"].node.membership_agent.trusted(), within=2.0)
        assert declared
        assert pollers_of(world, "a") == mine
        await load
        assert pollers_of(world, "a") == mine
        await all_delivered_once(world)

    simulate(scenario)


@pytest.mark.parametrize("fault", ["lose", "late", "refuse"])
def test_no_answer_about_a_lagging_flag_loses_a_call(fault: str) -> None:
    """A suspended client's pollers stand still while the low watermark advances. The answers about their flags are
    lost, and then their owners die.
    """

    async def scenario(world: World) -> None:
        await world.add_client("still", quota=3)
        await three_nodes(world)
        met = 0

        def hook(kind: str, items: Sequence[Item]) -> str | None:
            nonlocal met
            if lease_write(items) != "set lagging" or met == 4:
                return None
            met += 1
            return fault

        await world.advance(60)
        asked = [await world.create("still", world.now_ms() + 20_000 + 100 * number) for number in range(12)]
        await world.change_client("still", state=ClientState.SUSPENDED)
        for node in world.nodes.values():
            node.connection.plan.hook = hook
        await world.advance(330)
        assert met
        for name in "abc":
            await world.kill(name)
        world.add_node("d")
        await world.advance(15)
        await world.change_client("still", state=ClientState.ACTIVE)
        await all_delivered_once(world)
        assert all(one.calls for one in asked)

    simulate(scenario)


def test_a_node_alone_cut_off_from_the_store_is_replaced_and_calls_nothing_more() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=60)
        await world.advance(10)
        cut = world.nodes["a"]
        world.cut_off("a")
        cut_ms = world.now_ms()
        await until(world, lambda: owned(world) == everything(), within=12.0, step=0.5)
        await world.advance(10)
        assert dead_incarnations(world) == {"a"}
        assert not calls_since(world, cut_ms + TRUST_SECONDS * 1_000, node="a")
        world.heal()
        await until(world, lambda: cut.over is not None, within=5.0)
        assert cut.over == DEAD
        await world.revive()
        await load
        assert pollers_of(world, "a")
        await all_delivered(world)

    simulate(scenario)


@pytest.mark.parametrize("stale", ["nodes.read", "pollers.list"])
def test_nodes_that_see_different_members_never_act_for_one_poller(stale: str) -> None:
    """While other nodes join, leave and die, one node's plain reads show the cluster as it was some seconds ago."""

    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=70)
        for joins, moving in ((True, "d"), (False, "c"), (True, "e"), (False, "d")):
            await world.advance(8)
            for name in "ab":
                world.nodes[name].connection.plan.stale = {stale}
            if joins:
                world.add_node(moving)
            else:
                world.leave(moving)
            await world.advance(3.5)
            for name in "ab":
                world.nodes[name].connection.plan.stale = ()
        await load
        assert not dead_incarnations(world)
        assert owned(world) == everything()
        await all_delivered_once(world)

    simulate(scenario)


def test_a_second_process_of_a_node_waits_until_the_first_has_ended() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world)
        load = begin_load(world, seconds=50)
        await world.advance(5)
        first = world.nodes.pop("a")
        world.leaving.append(first)
        second = world.add_node("a")
        await world.advance(15)
        assert first.node.membership_agent.trusted()
        assert not second.node.membership_agent.trusted()
        stopping = asyncio.get_running_loop().create_task(first.stop(), name="stop")
        await stopping
        await until(world, lambda: bool(pollers_of(world, "a")), within=5.0)
        await load
        assert owned(world) == everything()
        await all_delivered_once(world)
        assert lateness_ms(world) < 2_000

    simulate(scenario)


def test_of_two_processes_of_a_node_that_start_together_the_newer_stays() -> None:
    async def scenario(world: World) -> None:
        await three_nodes(world, names="bc")
        load = begin_load(world, seconds=40)
        await world.advance(5)
        first = world.add_node("a")
        world.leaving.append(world.nodes.pop("a"))
        second = world.add_node("a")
        await world.advance(15)
        assert first.over == SUPERSEDED
        assert second.over is None
        assert second.node.membership_agent.trusted()
        assert not first.node.balancer.leases()
        await load
        await all_delivered_once(world)
        assert not repeated(world)

    simulate(scenario)
