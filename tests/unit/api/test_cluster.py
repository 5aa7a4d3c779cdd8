"""The operator's view: nodes, owners, guarantees against capacity, pollers, draining."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from membership.errors import StoreUnavailable
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.ports import Heartbeat, NodeState
from scheduler_service.api.metrics import PROCESS_METRICS, Shown
from scheduler_service.domain.ids import ClientId, Minute, PollerId, compose_schedule_id, minute_of, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.metrics import Count, Metrics
from scheduler_service.usecases import cluster, open_minutes
from tests.support.api import NOW, ApiHarness
from tests.support.nodes import Nodes

PRESENT = minute_of(NOW)
SHOP = ClientId("shop")


@pytest.fixture
async def nodes(api: ApiHarness) -> Nodes:
    return Nodes(api)


async def test_nodes_with_what_they_own_and_guarantees_against_capacity(api: ApiHarness, nodes: Nodes) -> None:
    await api.register("shop", quota=4)
    await api.register("other", quota=2)
    a, b = await nodes.add("a"), await nodes.add("b", weight=2.0, capacity_per_minute=9_000)
    await nodes.beat(a, b, seconds=2)
    for poller_id, owner in enumerate((a, a, b)):
        await nodes.own(PollerKey("shop", poller_id), owner)
    await nodes.own(PollerKey("other", 1), b)
    api.clock.advance(0.5)
    reply = await api.send("GET", "/v1/cluster")
    assert reply.status == 200
    assert reply.json == {
        "nodes": [
            {
                "node_id": "a",
                "incarnation": 7,
                "state": "live",
                "beat_age_seconds": 0.5,
                "pollers": 2,
                "clock_offset_ms": None,
                "capacity_per_minute": 5_000,
                "weight": 1.0,
                "version": "0.1.0",
                "address": "a:1",
            },
            {
                "node_id": "b",
                "incarnation": 7,
                "state": "live",
                "beat_age_seconds": 0.5,
                "pollers": 2,
                "clock_offset_ms": None,
                "capacity_per_minute": 9_000,
                "weight": 2.0,
                "version": "0.1.0",
                "address": "b:1",
            },
        ],
        "pollers": {"total": 6, "owned": 4},
        "guaranteed_calls_per_minute": 6_000,
        "capacity_per_minute": 14_000,
        "not_calling": None,
    }


async def test_only_the_living_own_pollers_and_only_the_live_have_capacity(api: ApiHarness, nodes: Nodes) -> None:
    await api.register("shop", quota=3)
    live, dead, draining = await nodes.add("live"), await nodes.add("dead"), await nodes.add("draining")
    for poller_id, owner in enumerate((live, dead, draining)):
        await nodes.own(PollerKey("shop", poller_id), owner)
    await nodes.beat(live, dead, draining, seconds=2)
    await api.storage.members.declare_dead(dead, renewals=0)
    await nodes.beat(live, seconds=4)
    await nodes.beat(draining, state=NodeState.DRAINING)
    found = (await api.send("GET", "/v1/cluster")).json
    assert {node["node_id"]: (node["state"], node["pollers"]) for node in found["nodes"]} == {
        "live": ("live", 1),
        "dead": ("dead", 0),
        "draining": ("draining", 1),
    }
    assert found["pollers"] == {"total": 3, "owned": 2}
    assert found["capacity_per_minute"] == 5_000


async def test_pollers_of_a_shrunk_quota_count_and_those_of_a_deleted_client_do_not(api: ApiHarness) -> None:
    await api.register("shop", quota=5)
    await api.register("shop", quota=2)
    await api.register("gone", quota=7)
    await api.send("POST", "/v1/clients/gone:suspend")
    assert (await api.send("DELETE", "/v1/clients/gone")).status == 204
    found = (await api.send("GET", "/v1/cluster")).json
    assert found["pollers"] == {"total": 5, "owned": 0}
    assert found["guaranteed_calls_per_minute"] == 2_000
    assert found["nodes"] == []


async def test_ownership_is_counted_at_most_every_two_seconds(api: ApiHarness, nodes: Nodes) -> None:
    await api.register("shop", quota=1)
    a = await nodes.add("a")
    await nodes.beat(a)
    assert (await api.send("GET", "/v1/cluster")).json["pollers"]["owned"] == 0
    await nodes.own(PollerKey("shop", 0), a)
    api.clock.advance(1.9)
    assert (await api.send("GET", "/v1/cluster")).json["pollers"]["owned"] == 0
    api.clock.advance(0.2)
    assert (await api.send("GET", "/v1/cluster")).json["pollers"]["owned"] == 1


async def test_before_the_first_picture_storage_is_asked(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(self: object) -> list[Heartbeat]:
        raise StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(api.storage.members), "read_heartbeats", away)
        assert (await api.send("GET", "/v1/cluster")).status == 503
    assert (await api.send("GET", "/v1/cluster")).status == 200


async def test_parameters_are_refused(api: ApiHarness) -> None:
    await api.register("shop")
    assert (await api.send("GET", "/v1/cluster?x=1")).status == 422
    assert (await api.send("GET", "/v1/clients/shop/pollers?limit=1")).status == 422


# Pollers of a client.


async def put(api: ApiHarness, poller_id: int, minute: int, count: int = 1, *, offset_ms: int = 0) -> list[Definition]:
    made = []
    for number in range(count):
        due = minute_start(minute) + offset_ms + number
        definition = Definition(
            client_id=SHOP,
            poller_id=PollerId(poller_id),
            due=due,
            schedule_id=compose_schedule_id(due=due, poller_id=poller_id, tail=number),
            method="POST",
            url="https://receiver.example/",
            headers="[]",
            body=b"",
            options="{}",
            created_at=NOW,
        )
        await api.storage.schedules.insert(definition)
        made.append(definition)
    return made


async def pollers(api: ApiHarness) -> list[dict[str, Any]]:
    reply = await api.send("GET", "/v1/clients/shop/pollers")
    assert reply.status == 200, reply.body
    assert reply.json["next_cursor"] is None
    items: list[dict[str, Any]] = reply.json["items"]
    return items


async def test_a_poller_with_its_owner_watermark_and_backlog(api: ApiHarness, nodes: Nodes) -> None:
    key = await api.register("shop", quota=2)
    a = await nodes.add("a")
    await nodes.own(PollerKey("shop", 0), a, watermark=PRESENT - 3, lagging=True)
    (finished, *_) = await put(api, 0, PRESENT - 3, 4)
    await put(api, 0, PRESENT, 2, offset_ms=-1)
    await put(api, 0, PRESENT, 5, offset_ms=30_000)
    await put(api, 0, PRESENT - 4, 9)
    await put(api, 1, PRESENT - 90, 1)
    cancelled = await api.send("DELETE", f"/v1/clients/shop/schedules/{finished.schedule_id}")
    assert cancelled.status == 200
    reply = await api.send("GET", "/v1/clients/shop/pollers", key=key)
    assert reply.json["items"][0] == {
        "poller_id": 0,
        "owner": {"node_id": "a", "incarnation": 7},
        "epoch": 1,
        "watermark": format_instant(minute_start(Minute(PRESENT - 3))),
        "lagging": True,
        "open_minutes": 3,
        "backlog": 5,
        "cut": False,
    }
    idle = reply.json["items"][1]
    assert (idle["owner"], idle["epoch"], idle["lagging"]) == (None, 0, True)
    assert (idle["open_minutes"], idle["backlog"]) == (0, 0), "what lies before the watermark is settled"


@pytest.mark.parametrize(
    ("watermark", "low_watermark", "lagging", "effective"),
    [
        (PRESENT - 50, PRESENT - 2, False, PRESENT - 2),
        (PRESENT - 2, PRESENT - 50, False, PRESENT - 2),
        (PRESENT - 50, PRESENT - 2, True, PRESENT - 50),
        (PRESENT - 50, None, False, PRESENT - 50),
    ],
)
async def test_the_watermark_shown_is_where_a_taker_would_start(
    api: ApiHarness, nodes: Nodes, watermark: int, low_watermark: int | None, lagging: bool, effective: int
) -> None:
    await api.register("shop", quota=1)
    await nodes.add("a", number=8, low_watermark=PRESENT)
    a = await nodes.add("a", number=7, low_watermark=low_watermark)
    await nodes.own(PollerKey("shop", 0), a, watermark=watermark, lagging=lagging)
    (found,) = await pollers(api)
    assert found["watermark"] == format_instant(minute_start(Minute(effective)))


async def test_a_great_backlog_is_cut_and_said_to_be(
    api: ApiHarness, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.register("shop", quota=3)
    for poller_id in range(3):
        await nodes.own(PollerKey("shop", poller_id), None, watermark=PRESENT - 20, lagging=True)
        for minute in range(PRESENT - 20, PRESENT - 20 + (2, 10, 10)[poller_id]):
            await put(api, poller_id, minute, 3)
    assert [(one["backlog"], one["cut"]) for one in await pollers(api)] == [(6, False), (30, False), (30, False)]
    monkeypatch.setattr(open_minutes, "MAX_COUNTED", 8)
    assert [(one["open_minutes"], one["backlog"], one["cut"]) for one in await pollers(api)] == [
        (2, 6, False),
        (10, 9, True),
        (10, 9, True),
    ], "the oldest minutes of each come first"
    monkeypatch.setattr(cluster, "MAX_ROWS_OF_MINUTE", 2)
    assert all(one["cut"] for one in await pollers(api))
    monkeypatch.undo()
    monkeypatch.setattr(open_minutes, "MAX_ROWS", 20)
    assert sum(one["backlog"] for one in await pollers(api)) < 66
    monkeypatch.undo()
    monkeypatch.setattr(open_minutes, "MAX_MINUTES", 5)
    monkeypatch.setattr(open_minutes, "HOURS_PER_READ", 1)
    await nodes.own(PollerKey("shop", 0), None, watermark=PRESENT - 200, lagging=True)
    await put(api, 0, PRESENT - 200)
    for minute in range(6):
        await put(api, 0, PRESENT - 190 + minute)
    assert all(one["cut"] for one in await pollers(api))


async def test_after_an_outage_of_weeks_the_first_days_are_searched(api: ApiHarness, nodes: Nodes) -> None:
    await api.register("shop", quota=1)
    await nodes.own(PollerKey("shop", 0), None, watermark=PRESENT - 20 * 1440, lagging=True)
    await put(api, 0, PRESENT - 20 * 1440, 2)
    await put(api, 0, PRESENT, 2)
    (found,) = await pollers(api)
    assert (found["open_minutes"], found["backlog"], found["cut"]) == (1, 2, True)


# Draining.


async def test_draining_tells_the_newest_incarnation(api: ApiHarness, nodes: Nodes) -> None:
    await nodes.add("a", number=3, state=NodeState.LEFT)
    await nodes.add("a", number=4, address="a:4")
    with capture_logs() as said:
        for _ in range(2):
            reply = await api.send("POST", "/v1/cluster/nodes/a:drain")
            assert (reply.status, reply.json) == (202, {"node_id": "a", "incarnation": 4, "state": "draining"})
    assert api.nodes.drained == [(NodeIncarnation(NodeId("a"), IncarnationNumber(4)), "a:4")] * 2
    assert [line["event"] for line in said] == ["node-drain-asked"] * 2


async def test_the_last_node_drains_only_when_it_is_forced(api: ApiHarness, nodes: Nodes) -> None:
    await nodes.add("a")
    api.nodes.last.add("a")
    reply = await api.send("POST", "/v1/cluster/nodes/a:drain")
    assert (reply.status, reply.json["type"]) == (409, "/problems/last-node")
    assert (await api.send("POST", "/v1/cluster/nodes/a:drain?force=false")).status == 409
    assert (await api.send("POST", "/v1/cluster/nodes/a:drain?force=perhaps")).faults.keys() == {"/force"}
    assert api.nodes.drained == []
    assert (await api.send("POST", "/v1/cluster/nodes/a:drain?force=true")).status == 202
    assert len(api.nodes.drained) == 1


async def test_a_drain_is_taken_back(api: ApiHarness, nodes: Nodes) -> None:
    assert (await api.send("POST", "/v1/cluster/nodes/a:undrain")).status == 404
    a = await nodes.add("a", number=4, state=NodeState.DRAINING)
    await api.members.look()
    with capture_logs() as said:
        reply = await api.send("POST", "/v1/cluster/nodes/a:undrain")
    assert (reply.status, reply.json) == (202, {"node_id": "a", "incarnation": 4, "state": "live"})
    assert api.nodes.undrained == [(a, "a:1")]
    assert [line["event"] for line in said] == ["node-undrain-asked"]


async def why_no_calls_are_made(api: ApiHarness) -> str | None:
    reason: str | None = (await api.send("GET", "/v1/cluster")).json["not_calling"]
    return reason


async def test_the_cluster_says_why_no_calls_are_made(api: ApiHarness, nodes: Nodes) -> None:
    await api.register("shop", quota=1)
    a = await nodes.add("a")
    assert await why_no_calls_are_made(api) is None, "nobody knows yet who beats"
    await nodes.beat(a, seconds=5)
    assert "no node owns a poller" in str(await why_no_calls_are_made(api))
    await nodes.own(PollerKey("shop", 0), a)
    await nodes.beat(a, seconds=3)
    assert await why_no_calls_are_made(api) is None
    await nodes.beat(a, seconds=1, state=NodeState.DRAINING)
    assert await why_no_calls_are_made(api) is None, "until it has handed over"
    await nodes.own(PollerKey("shop", 0), None)
    await nodes.beat(a, seconds=3, state=NodeState.DRAINING)
    assert "minutehand nodes undrain NODE" in str(await why_no_calls_are_made(api))
    await nodes.own(PollerKey("shop", 0), a)
    await nodes.beat(seconds=9)
    assert "no node beats" in str(await why_no_calls_are_made(api)), (
        "also where nobody is left to declare the owner dead"
    )


async def test_without_nodes_no_calls_are_made(api: ApiHarness, nodes: Nodes) -> None:
    await nodes.beat(seconds=9)
    assert await why_no_calls_are_made(api) is None


async def test_who_is_not_there_cannot_drain(api: ApiHarness, nodes: Nodes) -> None:
    assert (await api.send("POST", "/v1/cluster/nodes/a:drain")).status == 404
    await nodes.add("a", state=NodeState.LEFT)
    await api.members.look()
    reply = await api.send("POST", "/v1/cluster/nodes/a:drain")
    assert reply.status == 404
    assert "has ended (left)" in reply.json["detail"]
    assert api.nodes.drained == []


async def test_a_node_that_does_not_answer(api: ApiHarness, nodes: Nodes) -> None:
    await nodes.add("a")
    api.nodes.silent.add("a")
    reply = await api.send("POST", "/v1/cluster/nodes/a:drain")
    assert reply.status == 503
    assert reply.json["type"] == "/problems/node-unreachable"
    assert "node a does not answer at a:1" in reply.json["detail"]
    assert reply.headers["Retry-After"] == "1"
    assert b"minutehand_api_storage_available 1.0" in (await api.send("GET", "/metrics")).body


async def test_clock_and_members_are_shown_to_prometheus(api: ApiHarness, nodes: Nodes) -> None:
    metrics = Metrics(program="api", version="0")
    shown = Shown(members=api.members, clock=api.clock, ended={}, hints_dropped=Count(), audits=api.audits)
    metrics.show(PROCESS_METRICS, of=shown)
    assert b"minutehand_clock_offset_seconds 0.0" in metrics.exposition()
    assert b"\nminutehand_nodes_taking" not in metrics.exposition(), "nobody knows yet"
    a = await nodes.add("a")
    await nodes.beat(a, seconds=31, offset_ms=300)
    api.clock.trusted = False
    assert b"minutehand_clock_offset_seconds -0.3" in metrics.exposition()
    assert b"minutehand_clock_trusted 0.0" in metrics.exposition()
    assert b'minutehand_members{state="live"} 1.0' in metrics.exposition()
    assert b"minutehand_nodes_taking 1.0" in metrics.exposition()
    await nodes.beat(a, seconds=1, state=NodeState.DRAINING)
    assert b"minutehand_nodes_taking 0.0" in metrics.exposition()
    await nodes.beat(a, seconds=1, state=NodeState.LIVE)
    await nodes.beat(seconds=9)
    assert b'minutehand_members{state="live"} 1.0' in metrics.exposition(), "nobody has declared it dead"
    assert b"minutehand_nodes_taking 0.0" in metrics.exposition()
    assert b'minutehand_members{state="dead"} 0.0' in metrics.exposition()
