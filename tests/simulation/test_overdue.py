"""Success deadlines: each schedule that was not delivered in time is told of, whatever kept it, and no other."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from cql.connection import Item
from membership.errors import StoreUnavailable
from poller_cluster.notices import success_deadlines
from poller_cluster.notices.success_deadlines import Looked, SuccessDeadlines
from scheduler_service.domain import success_deadlines as rules
from scheduler_service.domain.clients import ClientSettings, ClientState, RetrySettings
from scheduler_service.domain.ids import ClientId, PollerId
from scheduler_service.domain.notices import EVENTS_CLIENT, EVENTS_POLLERS, DeadlineContent, deadline_row
from scheduler_service.domain.schedules import Definition, State
from scheduler_service.usecases import schedule_writer
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.cluster import three_nodes
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import INSERTS
from tests.simulation.notice_scenes import trouble
from tests.simulation.notices import BOOK
from tests.simulation.plants import Plant
from tests.simulation.world import Scene, Violation, World, simulate

PATIENT = ClientSettings(
    event_feed=True,
    retry=RetrySettings(max_attempts=100, base_seconds=1.0, cap_seconds=5.0, deadline_seconds=86_400.0),
)
WITHIN = 20.0


async def watched(world: World) -> None:
    await world.add_client(EVENTS_CLIENT, quota=EVENTS_POLLERS)
    await three_nodes(world, quota=2, settings=PATIENT)
    await world.notices.subscribe(events=("schedule.overdue",))
    await world.advance(15.0)


async def load(world: World, number: int, *, seconds: int = 20, **columns: Any) -> list[CreateRecord]:
    base = world.now_ms() + 10_000
    return [
        await world.create("shop", base + world.rng.randrange(seconds * 1000), succeed_within_seconds=WITHIN, **columns)
        for _ in range(number)
    ]


def told(world: World) -> dict[str, dict[str, Any]]:
    """What the feed tells of schedules that are overdue, by id. An event may be there more than once."""
    rows = [row for row in world.memory.rows("events") if row["type"] == "schedule.overdue"]
    by_id = {str(row["schedule_id"]): msgspec.json.decode(row["data"]) for row in rows}
    assert len({row["event_id"] for row in rows}) == len(by_id), "a deadline has two ids"
    return by_id


async def late(world: World, asked: Sequence[CreateRecord]) -> set[str]:
    """Those that exist, were not cancelled and not delivered by their deadlines."""
    found = set()
    for one in asked:
        row = await world.row_of(one)
        if row is not None and row.defined and not rules.met(row, one.due + round(WITHIN * 1000)):
            found.add(str(one.schedule_id))
    return found


async def agree(world: World, asked: Sequence[CreateRecord]) -> dict[str, dict[str, Any]]:
    """The events, which must be of exactly those that are late."""
    events, expected = told(world), await late(world, asked)
    if events.keys() != expected:
        missing, wrong = expected - events.keys(), events.keys() - expected
        raise world.violation(f"overdue and not told: {missing}; told and not overdue: {wrong}")
    return events


async def down(world: World) -> None:
    await watched(world)
    world.receiver.script = lambda call: 503 if not call.url.startswith(BOOK) and call.schedule_id in bad else 200
    asked = await load(world, 30)
    bad = {str(one.schedule_id) for one in asked[::2]}
    for one in asked[::8]:
        await world.cancel(one)
    await world.advance(70.0)
    events = await agree(world, asked)
    assert events.keys() == bad - {str(one.schedule_id) for one in asked[::8]}
    assert {(event["reason"], event["state"], event["last_status"]) for event in events.values()} == {
        ("receiver", "retrying", 503)
    }
    assert all("told_late_seconds" not in event for event in events.values())
    bad = set()
    await world.settle_down()
    assert {next(iter(ends)) for ends in world.notices.ends.values()} == {"schedule.overdue"}
    assert world.notices.ends.keys() == events.keys()


def test_a_receiver_that_is_down_makes_its_schedules_overdue() -> None:
    simulate(down)


async def paused(world: World) -> None:
    await watched(world)
    await world.destinations.put("crm", url="https://crm.test/")
    await world.destinations.pause("crm")
    asked = await load(world, 10, seconds=5, url="destination://crm")
    await world.advance(60.0)
    events = await agree(world, asked)
    assert len(events) == 10
    assert {(event["reason"], event["destination"]) for event in events.values()} == {("destination-paused", "crm")}
    await world.destinations.resume("crm")
    await world.settle_down()


def test_a_paused_destination_makes_its_schedules_overdue() -> None:
    simulate(paused)


async def suspended(world: World) -> None:
    await watched(world)
    asked = await load(world, 10, seconds=5)
    await world.change_client("shop", state=ClientState.SUSPENDED)
    await world.advance(60.0)
    events = await agree(world, asked)
    assert len(events) == 10
    assert {event["reason"] for event in events.values()} == {"client-suspended"}
    await world.change_client("shop", state=ClientState.ACTIVE)
    await world.settle_down()
    await world.advance(150.0)
    assert world.notices.ends.keys() == events.keys()


def test_a_suspended_client_is_told_of_what_is_overdue() -> None:
    simulate(suspended)


async def outage(world: World) -> None:
    """All nodes are away over all deadlines."""
    await watched(world)
    asked = await load(world, 20, seconds=10)
    await world.kill_all()
    await world.advance(300.0)
    assert not told(world)
    for name in "xyz":
        world.add_node(name)
    await world.advance(60.0)
    events = await agree(world, asked)
    assert len(events) == 20
    assert all(event["told_late_seconds"] > 200 for event in events.values())
    await world.settle_down()


def test_an_outage_over_the_deadlines_is_told_as_soon_as_a_node_is_back() -> None:
    simulate(outage)


async def close(world: World) -> None:
    """They are delivered from ten seconds before to ten seconds after their deadlines."""
    await watched(world)
    world.receiver.latency_seconds = WITHIN
    asked = await load(world, 60, seconds=5)
    await world.advance(60.0)
    events = await agree(world, asked)
    assert 10 < len(events) < 50
    assert {event["reason"] for event in events.values()} == {"in-flight", "delivered-late"}
    await world.settle_down()


def test_a_success_a_moment_before_the_deadline_is_not_told_and_one_after_it_is() -> None:
    simulate(close)


async def dying_creates(world: World) -> None:
    """API processes die between the two rows of a create, or after both, without an answer."""
    await watched(world)
    await world.destinations.put("crm", url="https://crm.test/")
    await world.destinations.pause("crm")
    asked = []
    for number in range(24):
        world.api_connection.plan.hook = dies_after(number % 3)
        asked += await load(world, 1, seconds=5, url="destination://crm")
    world.api_connection.plan.hook = None
    exist = [one for one in asked if await world.row_of(one) is not None]
    assert 0 < len(exist) < len(asked)
    await world.advance(60.0)
    assert len(await agree(world, asked)) == len(exist)
    await world.destinations.resume("crm")
    await world.advance(120.0)


def dies_after(number: int) -> Callable[[str, Sequence[Item]], str | None]:
    """Storage takes so many rows of a process, and no more."""
    left = [number]

    def hook(kind: str, items: Sequence[Item]) -> str | None:
        if not any(statement in INSERTS for statement, _ in items):
            return None
        left[0] -= 1
        return "refuse" if left[0] < 0 else None

    return hook


def test_a_create_that_dies_half_done_leaves_nothing_unwatched_and_nothing_wrong() -> None:
    simulate(dying_creates)


async def slow_create(world: World) -> None:
    """The schedule's row comes when its deadline was looked at already."""
    await watched(world)
    asked, definition = world.define("shop", world.now_ms() + 1_000, succeed_within_seconds=1.0)
    watch = deadline_row(definition)
    assert watch is not None
    await world.writer(watch)
    await world.advance(15.0)
    await world.change_client("shop", state=ClientState.SUSPENDED)
    await world.writer(definition)
    asked.acknowledged = True
    await world.advance(60.0)
    assert told(world).keys() == {str(asked.schedule_id)}
    await world.change_client("shop", state=ClientState.ACTIVE)
    await world.settle_down()


def test_a_schedule_that_comes_after_its_deadline_is_told_of() -> None:
    simulate(slow_create)


async def orphan(world: World) -> None:
    """A create dies after the deadline's row, and the node that looks first dies, too."""
    await watched(world)
    _, definition = world.define("shop", world.now_ms() + 1_000, succeed_within_seconds=1.0)
    watch = deadline_row(definition)
    assert watch is not None
    await world.writer(watch)

    async def state() -> tuple[str | None, str | None]:
        rows = await world.truth.schedules.find_rows(watch.partition, [watch.key], serial=True)
        return rows[watch.key].state, rows[watch.key].reason

    while await state() == (None, None):
        await world.advance(1.0)
    assert await state() == (State.RETRYING, Looked.AGAIN)
    await world.kill_all()
    for name in "xyz":
        world.add_node(name)
    # It comes back within a minute, and is then given up by nodes that have not looked before.
    await world.advance(75.0)
    assert await state() == (State.SKIPPED, Looked.NO_SCHEDULE)


def test_a_schedule_that_is_never_made_is_looked_for_twice() -> None:
    simulate(orphan)


async def many_at_once(world: World) -> None:
    """Hundreds of schedules of one client become overdue within a second."""
    await watched(world)
    await world.destinations.put("crm", url="https://crm.test/")
    await world.destinations.pause("crm")
    asked = await load(world, 300, seconds=1, url="destination://crm")
    reads = Counter[str]()

    def count(kind: str, items: Sequence[Item]) -> None:
        reads.update(name for name, _ in items)

    for node in world.nodes.values():
        node.connection.plan.hook = count
    await world.advance(60.0)
    world.heal()
    assert len(await agree(world, asked)) == 300
    assert max(reads["clients.read"], reads["destinations.read"]) < 30
    await world.destinations.resume("crm")
    await world.settle_down()


def test_many_overdue_schedules_of_a_client_share_what_is_read_of_it() -> None:
    simulate(many_at_once)


async def tortured(world: World) -> None:
    """Nodes are killed, paused, cut off and lose answers; receivers fail for some, the client is held for a while."""
    world.faults_planted = True
    await watched(world)
    rng = random.Random(world.rng.random())

    async def held_a_while() -> None:
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await world.advance(20.0 * rng.random())
        await world.change_client("shop", state=ClientState.ACTIVE)

    sick = rng.random()
    world.receiver.script = lambda call: (
        503 if not call.url.startswith(BOOK) and int(call.schedule_id[-2:], 16) / 256 < sick else 200
    )
    asked = await load(world, 40, seconds=60)
    await trouble(world, rng, turns=10, also=held_a_while)
    sick = 0.0
    await world.settle_down(within=600)
    for _ in range(300):
        if await late(world, [one for one in asked if one.acknowledged]) <= told(world).keys():
            return
        await world.revive()
        await world.advance(1.0)
    raise world.violation(f"overdue and not told: {await late(world, asked) - told(world).keys()}")


@pytest.mark.parametrize("seed", range(8))
def test_whatever_is_overdue_is_told_through_deaths_and_lost_answers(seed: int) -> None:
    simulate(tortured, seed=seed)


def the_schedule_comes_first(patch: pytest.MonkeyPatch) -> None:
    write = ScheduleWriter.__call__
    row_of = deadline_row
    patch.setattr(schedule_writer, "deadline_row", lambda definition: None)

    async def plant(self: ScheduleWriter, definition: Definition, **more: Any) -> None:
        await write(self, definition, **more)
        if (watch := row_of(definition)) is not None:
            await write(self, watch, **more)

    patch.setattr(ScheduleWriter, "__call__", plant)


def an_absent_schedule_is_given_up(patch: pytest.MonkeyPatch) -> None:
    look = SuccessDeadlines.look
    patch.setattr(SuccessDeadlines, "look", lambda self, *looked, again: look(self, *looked, again=True))


def no_look_is_remembered(patch: pytest.MonkeyPatch) -> None:
    look = SuccessDeadlines.look
    patch.setattr(
        SuccessDeadlines, "look", lambda self, poller_id, deadline, again: look(self, poller_id, deadline, again=False)
    )


def a_held_client_is_not_told(patch: pytest.MonkeyPatch) -> None:
    look = SuccessDeadlines.look

    async def plant(self: SuccessDeadlines, poller_id: PollerId, deadline: DeadlineContent, *, again: bool) -> Looked:
        client = await self._clients.read_client(ClientId(deadline.client_id))
        return (
            Looked.NO_FEED
            if client is None or client.calls_held
            else await look(self, poller_id, deadline, again=again)
        )

    patch.setattr(SuccessDeadlines, "look", plant)


def any_success_is_in_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(success_deadlines, "met", lambda row, by: row.state in (State.DELIVERED, State.CANCELLED))


def a_cancelled_one_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(success_deadlines, "met", lambda row, by: row.state == State.DELIVERED)


def it_is_looked_at_right_then(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("scheduler_service.domain.notices.LOOK_AFTER_MS", -1_000)


def an_outage_is_not_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "TOLD_LATE_MS", 10**9)


def no_answer_is_taken_for_one(patch: pytest.MonkeyPatch) -> None:
    look = SuccessDeadlines.look

    async def plant(self: SuccessDeadlines, poller_id: PollerId, deadline: DeadlineContent, *, again: bool) -> Looked:
        try:
            return await look(self, poller_id, deadline, again=again)
        except StoreUnavailable:
            return Looked.MET

    patch.setattr(SuccessDeadlines, "look", plant)


async def unanswered(world: World) -> None:
    """Storage refuses reads of single clients, and events, for a while."""
    world.faults_planted = True
    await watched(world)
    await world.destinations.put("crm", url="https://crm.test/")
    await world.destinations.pause("crm")
    asked = await load(world, 10, seconds=5, url="destination://crm")
    await world.advance(20.0)
    for node in world.nodes.values():
        node.connection.plan.hook = lambda kind, items: (
            "refuse" if any(name in ("events.insert", "clients.read") for name, _ in items) else None
        )
    await world.advance(30.0)
    world.heal()
    await world.advance(60.0)
    assert len(await agree(world, asked)) == 10
    await world.destinations.resume("crm")
    await world.settle_down()


def test_storage_that_does_not_answer_delays_what_is_told() -> None:
    simulate(unanswered)


@pytest.mark.parametrize(
    ("plant", "scene"),
    [
        (the_schedule_comes_first, dying_creates),
        (an_absent_schedule_is_given_up, slow_create),
        (no_look_is_remembered, orphan),
        (a_held_client_is_not_told, suspended),
        (any_success_is_in_time, close),
        (a_cancelled_one_counts, down),
        (it_is_looked_at_right_then, close),
        (an_outage_is_not_told, outage),
        (no_answer_is_taken_for_one, unanswered),
    ],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, scene: Scene) -> None:
    plant(monkeypatch)
    with pytest.raises((Violation, AssertionError, KeyError)):
        simulate(scene)
