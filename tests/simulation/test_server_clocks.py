"""Nodes whose clocks only the store's servers contradict: a lone node, and all nodes of one host."""

import pytest

from tests.simulation.cluster import (
    SHOP,
    all_delivered_once,
    begin_load,
    calls_since,
    everything,
    lateness_ms,
    owned,
    until,
)
from tests.simulation.creates import CreateRecord
from tests.simulation.sim_clock import SimClock
from tests.simulation.world import World, simulate

AHEAD_MS = 600_000


def servers(world: World, *skews_ms: int) -> None:
    """Give the store one server for each of these clock errors."""
    world.server_clocks = [SimClock(skew_ms=skew_ms) for skew_ms in skews_ms]
    world.memory.server_clocks = [clock.system_ms for clock in world.server_clocks]


async def nodes(world: World, names: str, *, skew_ms: int = 0, seconds: float = 20.0) -> None:
    """Start nodes; they own everything if they believe their clocks."""
    await world.add_client(SHOP, quota=6)
    for name in names:
        world.add_node(name, skew_ms=skew_ms)
    await world.advance(seconds)


async def rows(world: World, count: int, *, every_ms: int, first_ms: int = 5_000) -> list[CreateRecord]:
    """Schedules from `first_ms` on, without hints."""
    world.hints_lost = 1.0
    asked = [await world.create(SHOP, world.now_ms() + first_ms + every_ms * number) for number in range(count)]
    world.hints_lost = 0.0
    return asked


async def load_is_called_in_time(world: World) -> None:
    await begin_load(world, seconds=60)
    await all_delivered_once(world)
    assert lateness_ms(world) < 500


@pytest.mark.parametrize("ends", ["is stopped", "is killed"])
@pytest.mark.parametrize("lived", [1.0, 3.0, 60.0])
def test_what_a_lone_node_passed_while_it_was_ahead_is_called_after_longer_than_it_was(ends: str, lived: float) -> None:
    """The watermark says that these minutes are over, and they are."""

    async def scenario(world: World) -> None:
        await nodes(world, "a", skew_ms=AHEAD_MS, seconds=lived)
        await (world.stop("a") if ends == "is stopped" else world.kill("a"))
        await rows(world, 60, every_ms=8_000)
        await world.advance(AHEAD_MS / 1000 + 120)
        world.add_node("a")
        await until(world, lambda: owned(world) >= everything(), within=30.0)
        await all_delivered_once(world)

    simulate(scenario)


@pytest.mark.parametrize("later", [0.0, 720.0])
def test_another_node_that_takes_over_calls_it_too(later: float) -> None:
    async def scenario(world: World) -> None:
        await nodes(world, "a", skew_ms=AHEAD_MS, seconds=60.0)
        if later:
            await world.kill("a")
        await rows(world, 60, every_ms=8_000)
        await world.advance(later)
        world.add_node("b")
        await world.advance(10.0)
        await (world.advance(0.0) if later else world.kill("a"))
        await until(world, lambda: owned(world) >= everything(), within=30.0)
        await world.advance(480.0)
        await all_delivered_once(world)

    simulate(scenario)


def test_nodes_of_one_host_that_outvote_one_server_pass_no_minute_for_good() -> None:
    """They act by a wrong time, and nobody can know; but no process with the right time believes what they record."""

    async def scenario(world: World) -> None:
        await nodes(world, "ab", skew_ms=AHEAD_MS, seconds=90.0)
        assert owned(world) >= everything()
        await world.stop("a")
        await world.kill("b")
        await rows(world, 60, every_ms=8_000)
        await world.advance(AHEAD_MS / 1000 + 120)
        world.add_node("c")
        await until(world, lambda: owned(world) >= everything(), within=30.0)
        await all_delivered_once(world)

    simulate(scenario)


@pytest.mark.parametrize("skews_ms", [(0,), (0, 0, 0), (0, AHEAD_MS, 0)])
def test_a_lone_node_that_is_ahead_of_the_servers_calls_nothing_until_it_is_set_right(skews_ms: tuple[int]) -> None:
    async def scenario(world: World) -> None:
        servers(world, *skews_ms)
        await nodes(world, "a", skew_ms=AHEAD_MS, seconds=0.0)
        asked = await rows(world, 60, every_ms=1_000, first_ms=AHEAD_MS - 30_000)
        await world.advance(90.0)
        assert not owned(world)
        assert not any(one.calls for one in asked)
        world.nodes["a"].clock.step(-AHEAD_MS)
        await until(world, lambda: owned(world) >= everything(), within=20.0)
        await world.advance(AHEAD_MS / 1000)
        await all_delivered_once(world)
        assert lateness_ms(world) < 100

    simulate(scenario)


@pytest.mark.parametrize("number", [3, 5, 9])
def test_nodes_of_one_host_that_are_ahead_of_as_many_servers_call_nothing(number: int) -> None:
    """Half of the clocks are right, and none is early. Each node hears all servers before it compares clocks."""

    async def scenario(world: World) -> None:
        servers(world, *[0] * number)
        names = "abcdefghi"[:number]
        await nodes(world, names, skew_ms=AHEAD_MS, seconds=0.0)
        asked = await rows(world, 20, every_ms=1_000, first_ms=AHEAD_MS)
        for _ in range(25):
            await world.advance(1.0)
            assert not owned(world)
        assert not any(one.calls for one in asked)

    simulate(scenario)


@pytest.mark.parametrize("skews_ms", [(0, -AHEAD_MS, 0), (0, AHEAD_MS, 0), (4_000,), (-4_000,), (AHEAD_MS,)])
def test_a_lone_node_that_is_not_ahead_of_most_servers_is_not_stopped(skews_ms: tuple[int]) -> None:
    """Not even for seconds: servers' clocks need not agree as members' do."""

    async def scenario(world: World) -> None:
        servers(world, *skews_ms)
        await nodes(world, "a")
        await load_is_called_in_time(world)

    simulate(scenario)


@pytest.mark.parametrize("skew_ms", [AHEAD_MS, -AHEAD_MS])
def test_nodes_that_agree_are_not_stopped_by_one_server(skew_ms: int) -> None:
    async def scenario(world: World) -> None:
        servers(world, skew_ms)
        await nodes(world, "abc")
        await load_is_called_in_time(world)

    simulate(scenario)


@pytest.mark.parametrize("step_ms", [AHEAD_MS, -AHEAD_MS])
@pytest.mark.parametrize("names", ["a", "abc"])
def test_a_lasting_step_of_all_nodes_is_not_believed_against_the_servers(names: str, step_ms: int) -> None:
    async def scenario(world: World) -> None:
        await nodes(world, names, seconds=45.0)
        load = begin_load(world, seconds=120)
        later = [await world.create(SHOP, world.now_ms() + AHEAD_MS + 1_000 * number) for number in range(60)]
        await world.advance(10)
        stepped_ms = world.now_ms()
        for name in names:
            world.nodes[name].clock.step(step_ms)
        await world.advance(15.0)
        judged_ms = world.now_ms()
        await load
        assert not any(asked.calls for asked in later)
        assert calls_since(world, judged_ms)
        await world.advance(AHEAD_MS / 1000)
        await all_delivered_once(world)
        assert lateness_ms(world, since_ms=judged_ms) < 500
        assert lateness_ms(world, since_ms=stepped_ms) < 15_500

    simulate(scenario)


@pytest.mark.parametrize("names", ["a", "abc"])
def test_a_step_towards_the_servers_is_believed(names: str) -> None:
    """They had been behind, which is one explanation when servers are ahead of all nodes."""

    async def scenario(world: World) -> None:
        await nodes(world, names, skew_ms=-AHEAD_MS, seconds=45.0)
        for name in names:
            world.nodes[name].clock.step(AHEAD_MS)
        await world.advance(15.0)
        await load_is_called_in_time(world)

    simulate(scenario)


@pytest.mark.parametrize("step_ms", [AHEAD_MS, -AHEAD_MS])
@pytest.mark.parametrize("names", ["a", "abc"])
def test_a_lasting_step_of_all_clocks_is_believed(names: str, step_ms: int) -> None:
    """All run on one host: there is no other time."""

    async def scenario(world: World) -> None:
        world.called = lambda node, call: None  # type: ignore[method-assign]
        await nodes(world, names, seconds=45.0)
        for clock in (*world.server_clocks, *(node.clock for node in world.nodes.values())):
            clock.step(step_ms)
        await world.advance(15.0)
        assert {round(node.clock.wall_ms() - world.now_ms(), -1) for node in world.nodes.values()} == {step_ms}
        assert owned(world) >= everything()

    simulate(scenario)


def no_server_tells(world: World, name: str) -> None:
    world.nodes[name].connection.plan.hook = lambda kind, items: (
        "refuse" if items[0][0] == "servers.read_clock" else None
    )


def test_a_node_does_nothing_before_a_server_has_answered() -> None:
    async def scenario(world: World) -> None:
        await nodes(world, "a", skew_ms=AHEAD_MS, seconds=0.0)
        no_server_tells(world, "a")
        asked = await rows(world, 60, every_ms=1_000, first_ms=AHEAD_MS - 30_000)
        await world.advance(30.0)
        assert not owned(world)
        world.nodes["a"].connection.plan.hook = None
        await world.advance(30.0)
        assert not owned(world)
        assert not any(one.calls for one in asked)

    simulate(scenario)


def test_while_no_server_answers_a_step_stays_in_doubt() -> None:
    async def scenario(world: World) -> None:
        await nodes(world, "a", seconds=45.0)
        later = [await world.create(SHOP, world.now_ms() + AHEAD_MS + 1_000 * number) for number in range(60)]
        no_server_tells(world, "a")
        world.nodes["a"].clock.step(AHEAD_MS)
        await world.advance(90.0)
        assert not world.nodes["a"].clock.wall_trusted()
        assert not any(asked.calls for asked in later)
        world.nodes["a"].connection.plan.hook = None
        await world.advance(10.0)
        assert world.nodes["a"].clock.wall_trusted()
        await world.advance(AHEAD_MS / 1000)
        await all_delivered_once(world)

    simulate(scenario)
