"""Findings of an audit reach the client's feed and its subscriptions as one event."""

from typing import Any

import msgspec

from scheduler_service.domain.audits import Audit, new_audit_id, unbalanced_event
from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.ids import HOUR_MS, ClientId, UnixMillis
from scheduler_service.domain.notices import EVENTS_CLIENT, event_row
from scheduler_service.usecases.tell_audits import tell_unbalanced
from tests.simulation.cluster import three_nodes
from tests.simulation.world import World, simulate
from tests.support.api import SeededRandomness

SHOP = ClientId("shop")
FED = ClientSettings(event_feed=True)
WINDOW = 490_000 * HOUR_MS


async def fed(world: World) -> None:
    await three_nodes(world, quota=3, settings=FED)
    await world.notices.subscribe()
    await world.advance(15.0)


def audit(world: World, *, hour: int = 0, **findings: int) -> Audit:
    start = WINDOW + hour * HOUR_MS
    return Audit(
        client_id=SHOP,
        audit_id=new_audit_id(at=world.now_ms(), randomness=SeededRandomness(world.now_ms())),
        window_start=UnixMillis(start),
        window_end=UnixMillis(start + HOUR_MS),
        findings=findings or {"stranded": 2},
    )


async def tell(world: World, one: Audit) -> list[ClientId]:
    """As a run of the job does."""
    truth = world.truth
    await truth.audits.insert(one)
    return await tell_unbalanced([one], clients=truth.clients, reports=truth.audits, writer=world.writer)


def feed(world: World) -> list[dict[str, Any]]:
    return world.memory.rows("events")


def rows(world: World) -> list[dict[str, Any]]:
    """Those of `$events` that tell what is no end."""
    return [row for row in world.memory.rows("schedules") if row["label"] == f"{SHOP}/books.unbalanced"]


def test_findings_are_told_once_though_a_run_dies_before_its_report_says_so() -> None:
    async def scenario(world: World) -> None:
        await fed(world)
        found = audit(world)
        for pause in (0, 0, 120):
            await world.advance(pause)
            assert await tell(world, found) == [SHOP]
        await world.advance(120.0)
        event = unbalanced_event(found)
        assert event is not None
        assert [(row["event_id"], row["type"], row["data"]) for row in feed(world)] == [
            (event.event_id, "books.unbalanced", event.data)
        ]
        assert len(rows(world)) == 1
        assert world.notices.types == {str(event.event_id): "books.unbalanced"}
        assert set(world.notices.got.values()) == {1}

    simulate(scenario)


def test_what_stands_hour_after_hour_is_told_once() -> None:
    async def scenario(world: World) -> None:
        await fed(world)
        for hour in range(3):
            assert await tell(world, audit(world, hour=hour)) == ([] if hour else [SHOP])
            await world.advance(120.0)
        assert len(feed(world)) == len(rows(world)) == len(world.notices.types) == 1
        assert await tell(world, audit(world, hour=3, stranded=3)) == [SHOP]
        await world.advance(120.0)
        assert len(world.notices.types) == 2
        assert set(world.notices.got.values()) == {1}

    simulate(scenario)


def test_findings_are_told_though_all_nodes_die_before() -> None:
    async def scenario(world: World) -> None:
        world.faults_planted = True
        await fed(world)
        for name in list(world.nodes):
            await world.kill(name)
        await tell(world, audit(world))
        await world.advance(150.0)
        assert feed(world) == []
        for name in "xyz":
            world.add_node(name)
        await world.advance(150.0)
        assert list(world.notices.types.values()) == ["books.unbalanced"]

    simulate(scenario)


def test_a_feed_that_is_off_when_the_row_comes_gets_no_event() -> None:
    async def scenario(world: World) -> None:
        await fed(world)
        await world.change_client(SHOP, settings=ClientSettings())
        await world.advance(60.0)
        found = audit(world)
        assert await tell(world, found) == []
        event = unbalanced_event(found)
        assert event is not None
        await world.writer(event_row(SHOP, event, quota=world.clients[EVENTS_CLIENT].poller_quota))
        await world.advance(120.0)
        assert [(row["state"], row["reason"]) for row in rows(world)] == [("skipped", "no-feed")]
        assert feed(world) == []

    simulate(scenario)


def test_nodes_append_a_type_that_they_do_not_know() -> None:
    """As nodes that know events, but not this type, append it."""

    async def scenario(world: World) -> None:
        await fed(world)
        event = unbalanced_event(audit(world))
        assert event is not None
        later = msgspec.structs.replace(event, type="of.tomorrow")
        await world.writer(event_row(SHOP, later, quota=world.clients[EVENTS_CLIENT].poller_quota))
        await world.advance(120.0)
        assert [row["type"] for row in feed(world)] == ["of.tomorrow"]
        assert world.notices.types == {str(event.event_id): "of.tomorrow"}

    simulate(scenario)
