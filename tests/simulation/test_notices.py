"""Notices: every wanted event of a client arrives at the destination of its subscription, whatever happens to nodes."""

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import Any

import msgspec
import pytest

from cql.events import CqlEventStore
from membership.errors import StoreUnavailable
from poller_cluster.notices import node_events
from poller_cluster.notices.collector import NoticeCollector
from scheduler_service.domain.clients import ClientSettings, ClientState, LatePolicy, RetrySettings
from scheduler_service.domain.events import PlacedEvent
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.notices import EVENTS_CLIENT
from scheduler_service.domain.options import ScheduleOptions
from scheduler_service.domain.schedules import Definition, State
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.cluster import three_nodes
from tests.simulation.creates import CreateRecord
from tests.simulation.notice_scenes import (
    fails_notices,
    fails_some,
    load,
    refuse_notices,
    replace_nodes,
    trouble,
    until_told,
)
from tests.simulation.notices import BOOK
from tests.simulation.plants import Plant
from tests.simulation.world import Scene, Violation, World, simulate

FED = ClientSettings(event_feed=True, retry=RetrySettings(max_attempts=3, base_seconds=1.0, cap_seconds=2.0))
OF_STATE = {
    State.DELIVERED: "schedule.delivered",
    State.FAILED: "schedule.failed",
    State.CANCELLED: "schedule.cancelled",
}


async def subscribed(world: World, *, settings: ClientSettings = FED, **asked: object) -> None:
    await three_nodes(world, quota=3, settings=settings)
    await world.notices.subscribe(**asked)  # type: ignore[arg-type]
    await world.advance(15.0)


def missing(world: World, asked: Sequence[CreateRecord]) -> list[str]:
    """Acknowledged schedules that have ended, of whose end no notice tells."""
    return [
        f"{one.schedule_id} {state}"
        for one in asked
        if one.acknowledged
        and (state := world.state_of(one)) is not None
        and OF_STATE[State(state)] not in world.notices.ends.get(str(one.schedule_id), set())
    ]


async def all_told(world: World, asked: Sequence[CreateRecord]) -> None:
    await until_told(world, lambda: missing(world, asked))


async def told_once(world: World) -> None:
    await subscribed(world)
    world.receiver.script = fails_some
    asked = await load(world, 60)
    await all_told(world, asked)
    await world.advance(120.0)
    assert set(world.notices.types.values()) == set(OF_STATE.values())
    assert max(world.notices.got.values()) == 1
    assert len(world.notices.got) == len(asked)


def test_every_end_is_told_once_where_nothing_goes_wrong() -> None:
    simulate(told_once)


@pytest.mark.parametrize("seed", range(8))
def test_every_end_is_told_through_deaths_and_lost_answers(seed: int) -> None:
    simulate(tortured, seed=seed)


async def tortured(world: World) -> None:
    """Nodes are killed, paused, cut off and lose answers while schedules end and notices are placed and sent."""
    world.faults_planted = True
    await subscribed(world)
    world.receiver.script = fails_some
    asked = await load(world, 50, seconds=90)
    await trouble(world, random.Random(world.rng.random()), turns=12)
    await all_told(world, asked)


async def unheard(world: World) -> None:
    """The destination of the notices only fails."""
    await subscribed(world)
    world.receiver.script = fails_notices
    asked = await load(world, 40)
    await world.advance(400.0)
    assert len(world.notices.calls) > 20
    assert not world.notices.got
    told = world.memory.rows("events")
    assert {row["client_id"] for row in told} == {"shop"}
    assert {row["type"] for row in told} <= set(OF_STATE.values())
    assert len({row["event_id"] for row in told}) == len(asked)


def test_notices_never_lead_to_events() -> None:
    """Neither their ends, nor the breaker that only they open."""
    simulate(unheard)


def test_a_filter_holds_for_what_is_sent() -> None:
    async def scenario(world: World) -> None:
        await subscribed(world, events=("schedule.failed",))
        world.receiver.script = fails_some
        asked = await load(world, 40)
        await world.settle_down()
        await world.advance(60.0)
        failed = {str(one.schedule_id) for one in asked if world.state_of(one) == State.FAILED}
        assert failed
        assert world.notices.ends == {schedule_id: {"schedule.failed"} for schedule_id in failed}

    simulate(scenario)


def test_notices_wait_while_the_client_is_held_and_its_minutes_settle() -> None:
    async def scenario(world: World) -> None:
        await subscribed(world)
        asked = await load(world, 20, seconds=5)
        await world.advance(13.0)
        await world.change_client("shop", state=ClientState.SUSPENDED)
        await world.advance(300.0)
        sent = len(world.notices.calls)
        await world.advance(300.0)
        assert len(world.notices.calls) == sent
        await world.change_client("shop", state=ClientState.ACTIVE)
        await all_told(world, asked)

    simulate(scenario)


def test_what_gets_no_answer_is_a_dead_letter_of_the_client() -> None:
    async def scenario(world: World) -> None:
        await subscribed(world)
        world.receiver.script = fails_notices
        await load(world, 10, seconds=5)
        await world.advance(200.0)
        letters = world.memory.rows("dead_letters")
        assert letters
        assert {(row["client_id"], row["label"], row["reason"]) for row in letters} == {
            ("shop", f"{EVENTS_CLIENT}/all", "exhausted")
        }

    simulate(scenario)


async def held_up(world: World) -> None:
    """Storage takes no row of `$events` for minutes, then all nodes die."""
    world.faults_planted = True
    await subscribed(world)
    asked = await load(world, 20, seconds=5)
    refuse_notices(world)
    await world.advance(150.0)
    await replace_nodes(world)
    await all_told(world, asked)


async def strict_client(world: World) -> None:
    """A client that wants each call once at most, and none late: its notices are repeated all the same."""
    settings = msgspec.structs.replace(FED, in_doubt="drop", late_policy=LatePolicy(kind="skip", after_seconds=0.5))
    await subscribed(world, settings=settings)
    world.receiver.script = lambda call: 503 if call.url.startswith(BOOK) and call.attempt == 1 else 200
    asked = await load(world, 20, seconds=5)
    await world.destinations.pause("book")
    await world.advance(60.0)
    await world.destinations.resume("book")
    await all_told(world, asked)


async def opened(world: World) -> None:
    """Calls to a destination fail for a while, and are more than are guaranteed."""
    await subscribed(world, events=("destination.opened", "destination.closed", "quota.exceeded"))
    await world.destinations.put("crm", url="https://crm.test/")
    base = world.now_ms() + 60_000 - world.now_ms() % 60_000
    down = base + 30_000
    world.receiver.script = lambda call: 503 if "crm" in call.url and call.at_ms < down else 200
    asked = [await world.create("shop", base + 10_000 + number, url="destination://crm") for number in range(40)]
    busy = [await world.create("shop", base + 20_000 + number) for number in range(3_200)]
    await world.settle_down(within=600)
    await world.advance(30.0)
    assert {world.state_of(one) for one in asked} <= {State.DELIVERED, State.FAILED}
    assert {world.state_of(one) for one in busy} == {State.DELIVERED}
    told = Counter(world.notices.types.values())
    assert told["destination.opened"] >= 1
    assert told["destination.closed"] >= 1
    assert told["quota.exceeded"] == 1


def test_what_is_no_end_is_told_at_most_once_a_minute() -> None:
    simulate(opened)


def test_minutes_do_not_settle_before_their_notices_are_placed() -> None:
    simulate(held_up)


def test_notices_of_a_client_that_repeats_no_call_are_repeated() -> None:
    simulate(strict_client)


def told_before_it_is_placed(patch: pytest.MonkeyPatch) -> None:
    place = NoticeCollector.place

    async def plant(self: NoticeCollector, client_id: ClientId, placed: PlacedEvent) -> None:
        self._runtime.spawn(place(self, client_id, placed), name="planted")

    patch.setattr(NoticeCollector, "place", plant)


def no_answer_is_taken_for_one(patch: pytest.MonkeyPatch) -> None:
    write = ScheduleWriter.__call__

    async def plant(self: ScheduleWriter, definition: Definition, **more: Any) -> None:
        with suppress(StoreUnavailable) if definition.client_id == EVENTS_CLIENT else nullcontext():
            await write(self, definition, **more)

    patch.setattr(ScheduleWriter, "__call__", plant)


def the_last_event_is_left_out(patch: pytest.MonkeyPatch) -> None:
    read = CqlEventStore.read_events

    async def plant(self: CqlEventStore, *where: Any, limit: int, **more: Any) -> Any:
        return await read(self, *where, limit=max(limit - 1, 1), **more)

    patch.setattr(CqlEventStore, "read_events", plant)


def notices_are_calls_like_any(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ScheduleOptions, "at_most_once", lambda self, settings: settings.in_doubt == "drop")


def late_notices_are_skipped(patch: pytest.MonkeyPatch) -> None:
    skip_after = ScheduleOptions.skip_after_ms

    def plant(self: ScheduleOptions, policy: LatePolicy) -> int | None:
        return skip_after(msgspec.structs.replace(self, skip_after_seconds=None), policy)

    patch.setattr(ScheduleOptions, "skip_after_ms", plant)


def what_notices_open_is_told(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(node_events, "is_notice", lambda job: False)


@pytest.mark.parametrize(
    ("plant", "scene"),
    [
        (told_before_it_is_placed, held_up),
        (no_answer_is_taken_for_one, held_up),
        (the_last_event_is_left_out, told_once),
        (notices_are_calls_like_any, strict_client),
        (late_notices_are_skipped, strict_client),
        (what_notices_open_is_told, unheard),
    ],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, scene: Scene) -> None:
    plant(monkeypatch)
    with pytest.raises((Violation, AssertionError)):
        simulate(scene)
