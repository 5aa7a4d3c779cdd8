"""The checks of simulated worlds demand what is promised, and no more."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import pytest

from cql.memory.connection import InMemoryConnection
from poller_cluster.settings import NodeSettings
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis, minute_end, minute_of, new_schedule_id
from scheduler_service.domain.retry_rows import DESTINATION_PAUSED
from scheduler_service.domain.schedules import State
from tests.simulation.books import check_books
from tests.simulation.crons import CLOCK_LIMIT_MS, with_crons
from tests.simulation.drawn.administrators import Administrators
from tests.simulation.drawn.destinations import DrawnDestinations, Resumed
from tests.simulation.drawn.promises import Promises
from tests.simulation.drawn.schedules import Schedule
from tests.simulation.drawn.setting import draw_setting
from tests.simulation.drawn.troubles import Troubles
from tests.simulation.drawn.world import ASKED_SECONDS, DrawnWorld
from tests.simulation.receivers import Call
from tests.simulation.sim_clock import SimClock
from tests.simulation.world import CLOCK_TOLERANCE_MS, Violation, World, simulate
from tests.support.virtual_loop import run_virtual


def drawn(scenario: Callable[[DrawnWorld], Awaitable[None]]) -> None:
    async def run() -> None:
        setting = replace(draw_setting(1), servers_ms=(0.0,))
        world = DrawnWorld(1, setting, node_settings=NodeSettings())
        try:
            await scenario(world)
        finally:
            await world.close()

    run_virtual(run, seed=1)


def test_a_call_may_be_as_early_as_the_clocks_that_can_have_been_compared() -> None:
    async def scenario(world: DrawnWorld) -> None:
        world.skews = {"a": -20.0, "b": 320.0, "c": -250.0}
        world.start_node("b")
        world.start_node("c")
        await world.advance(20)
        b = world.nodes["b"]
        world.start_node("a")
        await world.advance(1)
        early_ms = pytest.approx(320 + CLOCK_TOLERANCE_MS, abs=5)
        assert world.tolerance_ms(b) == early_ms
        await world.advance(20)
        assert world.tolerance_ms(b) == CLOCK_TOLERANCE_MS
        world.cut_off("c")
        await world.advance(20)
        assert world.tolerance_ms(b) == early_ms

    drawn(scenario)


def test_a_call_may_be_no_earlier_than_most_clocks_are_ahead() -> None:
    async def scenario(world: DrawnWorld) -> None:
        believed_ms = pytest.approx(600_000 + CLOCK_TOLERANCE_MS, abs=5)
        world.skews.update(a=600_000.0, b=600_000.0)
        world.start_node("a")
        await world.advance(20)
        assert world.tolerance_ms(world.nodes["a"]) == CLOCK_TOLERANCE_MS
        world.look_at_clocks()
        assert world.furthest_ms == 0
        world.start_node("b")
        await world.advance(20)
        assert world.tolerance_ms(world.nodes["a"]) == believed_ms
        await world.kill("b")
        world.step("s", 600_000)
        assert world.tolerance_ms(world.nodes["a"]) == believed_ms
        world.look_at_clocks()
        assert world.furthest_ms == pytest.approx(world.now_ms() + 600_000, abs=5)
        world.step("s", -600_000)
        assert world.tolerance_ms(world.nodes["a"]) == believed_ms, "nobody has asked the server yet"
        await world.advance(ASKED_SECONDS + 1)
        assert world.tolerance_ms(world.nodes["a"]) == CLOCK_TOLERANCE_MS

    drawn(scenario)


def test_a_step_of_a_whole_host_is_not_contradicted_by_nodes_about_to_accept_it() -> None:
    async def scenario(world: DrawnWorld) -> None:
        for name, pause in (("a", 0.35), ("b", 0.35), ("c", 20.0)):
            world.start_node(name)
            await world.advance(pause)
        for name in "abcs":
            world.step(name, 600_000)
        accepted: list[str] = []
        while not accepted:
            await world.advance(0.05)
            accepted = [name for name, node in world.nodes.items() if node.clock.wall_ms() > world.now_ms() + 500_000]
        assert len(accepted) == 1
        assert world.tolerance_ms(world.nodes[accepted[0]]) == pytest.approx(600_000 + CLOCK_TOLERANCE_MS, abs=50)
        for other in {*world.nodes} - {*accepted}:
            assert world.tolerance_ms(world.nodes[other]) == pytest.approx(CLOCK_TOLERANCE_MS, abs=50)

    drawn(scenario)


def test_books_that_were_counted_early_may_lack_open_rows_and_no_others() -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        due = minute_end(minute_of(world.now_ms()))
        await world.create("shop", due)
        right, world.reader_clock = world.reader_clock, SimClock(skew_ms=600_000)
        await check_books(world)
        world.reader_clock = right
        await world.create("shop", due + 1)
        await check_books(world)
        await world.advance_to(due + 80_000)
        with pytest.raises(Violation, match="the books say"):
            await check_books(world)
        world.furthest_ms = due + 1
        await check_books(world)
        row = world.memory.tables["schedules"]
        for partition in row.partitions.values():
            for each in partition.rows.values():
                each.cells[row.regular_position["state"]] = "cancelled"
        with pytest.raises(Violation, match="the books say"):
            await check_books(world)
        world.crashes.clear()

    simulate(scenario)


@pytest.mark.parametrize("ahead_ms", [0, 900])
def test_a_cron_has_its_fires_from_the_instant_that_its_answerer_showed(ahead_ms: int) -> None:
    async def scenario(world: World) -> None:
        world.api_clock.step(ahead_ms)
        world.api_clock.discipline().accept()
        crons = await with_crons(world)
        fire = minute_end(minute_of(world.now_ms()))
        await world.advance_to(fire - 200)
        await crons.put("minutely", "* * * * *")
        await world.advance(150)
        await crons.check()
        first = fire if ahead_ms == 0 else fire + 60_000
        assert min(crons.calls("minutely")) == first
        made = world.receiver.calls
        world.receiver.calls = [call for call in made if call.nominal_due != made[0].nominal_due]
        with pytest.raises(Violation, match="was missed"):
            await crons.check()
        world.crashes.clear()

    simulate(scenario)


def test_fires_before_a_crons_creation_are_invented_unless_a_believed_clock_is_behind() -> None:
    async def scenario(world: World) -> None:
        world.api_clock.step(-120_000)
        world.api_clock.discipline().accept()
        crons, made = await with_crons(world), world.now_ms()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world, "behind_ms", lambda: 120_000)
            await crons.put("believed", "* * * * *")
        await world.advance(180)
        await crons.check()
        assert min(crons.calls("believed")) < made - 60_000
        await crons.put("wrong", "* * * * *")
        await world.advance(180)
        with pytest.raises(Violation, match="wrong: nobody asked for"):
            await crons.check()
        world.crashes.clear()

    simulate(scenario)


def test_a_fire_may_be_called_as_early_as_clocks_differ() -> None:
    async def scenario(world: World) -> None:
        crons = await with_crons(world)
        await crons.put("minutely", "* * * * *")
        fire = minute_end(minute_of(world.now_ms()))
        await world.advance_to(fire + 100)
        now = world.now_ms()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world, "now_ms", lambda: fire - 50)
            await crons.check()
            patch.setattr(world, "now_ms", lambda: fire - CLOCK_LIMIT_MS - 50)
            with pytest.raises(Violation, match="minutely: nobody asked for"):
                await crons.check()
        assert world.now_ms() == now
        world.crashes.clear()

    simulate(scenario)


def test_a_successor_has_ended_although_its_redelivery_was_given_up() -> None:
    async def scenario(world: DrawnWorld) -> None:
        troubles = Troubles(world)
        promises = Promises(world, Administrators(world), troubles, DrawnDestinations(world, troubles))
        due = UnixMillis(world.now_ms())
        known = new_schedule_id(due=due, poller_id=PollerId(0), randomness=world.api_randomness)
        following = world.schedules[str(known)] = Schedule(ClientId("shop"), known, due, None)
        with pytest.raises(Violation, match="came to nothing"):
            promises._check_successor(UUID(int=1), known)
        following.redelivery_given_up = True
        promises._check_successor(UUID(int=1), known)
        world.crashes.clear()

    drawn(scenario)


def _called(world: DrawnWorld, *, due: int, at: int) -> tuple[Schedule, int]:
    """A schedule that had no calls when its destination was resumed, and was called then. All are seconds from now."""
    due_ms = UnixMillis(world.now_ms() + 1_000 * due)
    known = new_schedule_id(due=due_ms, poller_id=PollerId(0), randomness=world.api_randomness)
    schedule = world.schedules[str(known)] = Schedule(ClientId("shop"), known, due_ms, None, destination="crm")
    at_ms = world.now_ms() + 1_000 * at
    schedule.calls.append(Call(at_ms, "a", "shop", str(known), due_ms, attempt=1, fence=1, redelivery=False))
    return schedule, 0


@pytest.mark.parametrize(
    ("calls", "wrong"),
    [
        ([(1, 30), (2, 30), (3, 31)], None),
        ([(1, 30), (2, 31), (3, 30)], "out of order"),
        ([(1, 30), (2, 36)], "and called at"),
    ],
)
def test_what_waited_for_a_resume_is_called_soon_and_in_order(calls: list[tuple[int, int]], wrong: str | None) -> None:
    async def scenario(world: DrawnWorld) -> None:
        destinations, now = DrawnDestinations(world, Troubles(world)), world.now_ms()
        rows = [_called(world, due=due, at=at) for due, at in calls]
        destinations._resumed.append(Resumed("crm", now, now + 34_000, rows))
        if wrong is not None:
            with pytest.raises(Violation, match=wrong):
                destinations.check_resumed()
            world.crashes.clear()
            # Unless it was changed again.
            destinations.says("shop", "crm", None, at=now + 1_000)
        destinations.check_resumed()

    drawn(scenario)


def test_a_pause_counts_no_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: DrawnWorld) -> None:
        destinations, attempts = DrawnDestinations(world, Troubles(world)), 1
        _called(world, due=0, at=0)
        monkeypatch.setattr(world, "cells_of", lambda schedule, *columns: [DESTINATION_PAUSED, attempts])
        destinations.check_waiting()
        attempts = 2
        with pytest.raises(Violation, match="with 2 attempts of 1"):
            destinations.check_waiting()
        world.crashes.clear()

    drawn(scenario)


@pytest.mark.parametrize("changed", [State.FAILED, None])
def test_an_end_that_changes_or_vanishes_is_found(changed: State | None) -> None:
    async def scenario(world: World) -> None:
        await world.add_client("shop")
        world.add_node("a")
        await world.advance(5)
        asked = await world.create("shop", world.now_ms() + 2_000)
        assert world.unfinished() == [asked]
        await world.advance(4)
        assert world.unfinished() == []
        assert (asked.end, world.lease_of(asked)) == (State.DELIVERED, ("a", 1, 1))
        key, clustering = asked.address
        table = world.memory.tables["schedules"]
        if changed is None:
            table.delete(key, clustering)
        else:
            table.partitions[key].rows[clustering].cells[table.regular_position["state"]] = str(changed)
        with pytest.raises(Violation, match="had ended as delivered"):
            await world.advance(1)
        world.crashes.clear()

    simulate(scenario)


def test_a_table_counts_what_may_have_changed_what_was_read_of_it() -> None:
    table = InMemoryConnection().tables["clients"]
    table.write(("shop",), (), statics=(), cells=[(0, "x")], marker=True)
    assert table.changes == 1
    table.delete(("shop",), ())
    assert table.changes == 2
