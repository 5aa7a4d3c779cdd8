"""GET .../backlog and /v1/cluster/backlog: what is counted, what is estimated, what holds it, and what it costs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from membership.identity import PollerKey
from scheduler_service.domain.books import MinuteBalance
from scheduler_service.domain.ids import ClientId, Minute, PollerId, compose_schedule_id, minute_of, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases import backlog, open_minutes
from tests.support.api import NOW, ApiHarness
from tests.support.nodes import Nodes

BACKLOG, CLUSTER = "/v1/clients/shop/backlog", "/v1/cluster/backlog"
PRESENT = minute_of(NOW)
AGES = ("under_1_minute", "under_10_minutes", "under_1_hour", "under_6_hours", "under_1_day", "older")


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


@pytest.fixture
async def nodes(api: ApiHarness) -> Nodes:
    return Nodes(api)


async def put(api: ApiHarness, minute: int, count: int, *, client: str = "shop", poller: int = 0) -> None:
    """Rows at the beginning of a minute, counted in its load as their writer does."""
    for number in range(count):
        due = minute_start(minute) + number
        await api.storage.schedules.insert(
            Definition(
                client_id=ClientId(client),
                poller_id=PollerId(poller),
                due=due,
                schedule_id=compose_schedule_id(due=due, poller_id=poller, tail=number),
                method="POST",
                url="https://receiver.example/",
                headers="[]",
                body=b"",
                options="{}",
                created_at=NOW,
            )
        )


async def behind(nodes: Nodes, minutes: int, *, client: str = "shop", pollers: int = 1, owner: Any = None) -> None:
    for poller_id in range(pollers):
        await nodes.own(PollerKey(client, poller_id), owner, watermark=PRESENT - minutes, lagging=True)


async def shown(api: ApiHarness, path: str = BACKLOG, **query: str) -> Any:
    await api.services.minute_loads.write()
    reply = await api.send("GET", path, params=query)
    assert reply.status == 200, reply.body
    return reply.json


def ages(overdue: dict[str, Any]) -> list[int]:
    return [overdue["ages"][name] for name in AGES]


async def test_rows_are_counted_by_age_where_they_are_few(api: ApiHarness, nodes: Nodes) -> None:
    key = await api.register("shop", quota=2)
    await behind(nodes, 3_000, pollers=2)
    for at, minutes in enumerate((0, 1, 9, 10, 59, 60, 359, 360, 1_439, 1_440, 2_999)):
        await put(api, PRESENT - minutes, at + 1, poller=at % 2)
    await put(api, PRESENT + 1, 5)
    found = await shown(api)
    overdue = found["overdue"]
    assert ages(overdue) == [1, 2 + 3, 4 + 5, 6 + 7, 8 + 9, 10 + 11]
    assert (overdue["rows"], overdue["counted"], overdue["estimated"], overdue["exact"]) == (66, 66, 0, True)
    assert (overdue["open_minutes"], found["pollers"], found["pollers_behind"]) == (11, 2, 2)
    assert overdue["oldest"] == format_instant(minute_start(Minute(PRESENT - 2_999)))
    assert (found["held_by"], found["drain_seconds"]) == (["no-owner"], None)
    mine = await api.send("GET", BACKLOG, key=key)
    assert mine.json == found


async def test_settled_minutes_ended_rows_and_what_lies_before_the_watermark_are_left_out(
    api: ApiHarness, nodes: Nodes
) -> None:
    await api.register("shop", quota=2)
    await behind(nodes, 60)
    await nodes.own(PollerKey("shop", 1), None, watermark=PRESENT - 30, lagging=True)
    await put(api, PRESENT - 40, 10, poller=1)
    for minutes in (61, 60, 50, 40):
        await put(api, PRESENT - minutes, 10)
    counts = {"accepted": 10, "delivered": 10, "failed": 0, "cancelled": 0, "skipped": 0, "open": 0}
    settled = MinuteBalance(
        client_id=ClientId("shop"), poller_id=PollerId(0), minute=Minute(PRESENT - 50), epoch=1, **counts
    )
    await api.storage.balances.write(settled)
    due = minute_start(PRESENT - 40)
    first = compose_schedule_id(due=due, poller_id=0, tail=0)
    assert (await api.send("DELETE", f"/v1/clients/shop/schedules/{first}")).status == 200
    found = await shown(api)
    assert (found["overdue"]["rows"], found["overdue"]["open_minutes"]) == (10 + 9, 2)


async def test_what_is_not_counted_is_estimated_by_loads(
    api: ApiHarness, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.register("shop", quota=2)
    await behind(nodes, 100, pollers=2)
    for minute in range(PRESENT - 100, PRESENT - 60):
        for poller in range(2):
            await put(api, minute, 5, poller=poller)
    assert (await shown(api))["overdue"]["exact"]
    monkeypatch.setattr(open_minutes, "MAX_COUNTED", 8)
    overdue = (await shown(api))["overdue"]
    assert (overdue["counted"], overdue["rows"], overdue["exact"]) == (40, 400, False)
    assert ages(overdue) == [0, 0, 0, 400, 0, 0]
    monkeypatch.setattr(backlog, "ROWS_OF_MINUTE", 2)
    overdue = (await shown(api))["overdue"]
    assert (overdue["counted"], overdue["rows"]) == (16, 400), "the rest of a minute that was read in part"
    monkeypatch.setattr(open_minutes, "MAX_HOURS", 1)
    overdue = (await shown(api))["overdue"]
    assert (overdue["rows"], overdue["exact"]) == (400, False), "minutes whose index was not read"


async def test_without_a_load_the_mean_of_those_counted_stands_for_it(
    api: ApiHarness, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.register("shop", quota=1)
    await behind(nodes, 100)
    for minute in range(PRESENT - 100, PRESENT - 60):
        await put(api, minute, 5)
        api.storage.minute_loads.counts.placed(ClientId("shop"), minute, -5)
    monkeypatch.setattr(open_minutes, "MAX_COUNTED", 8)
    overdue = (await shown(api))["overdue"]
    assert (overdue["counted"], overdue["rows"]) == (40, 200)


async def test_new_minutes_of_owned_pollers_are_not_estimated(
    api: ApiHarness, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.register("shop", quota=1)
    node = await nodes.add("a")
    await nodes.beat(node, seconds=2)
    await behind(nodes, 100, owner=node)
    for minute in (PRESENT - 100, PRESENT - 1, PRESENT):
        await put(api, minute, 5)
    monkeypatch.setattr(open_minutes, "MAX_COUNTED", 0)
    found = await shown(api)
    assert found["overdue"]["rows"] == 5
    await nodes.api.storage.members.declare_dead(node, renewals=0)
    await nodes.beat(seconds=8)
    assert (await shown(api))["overdue"]["rows"] == 15, "nobody calls them"


async def test_what_holds_it_and_how_long_it_takes(api: ApiHarness, nodes: Nodes) -> None:
    key = await api.register("shop", quota=1)
    node = await nodes.add("a")
    await nodes.beat(node, seconds=2)
    await behind(nodes, 10, owner=node)
    api.storage.minute_loads.counts.placed(ClientId("shop"), PRESENT - 9, 1_996)
    await put(api, PRESENT - 9, 5)
    found = await shown(api)
    assert (found["held_by"], found["drain_seconds"]) == (["quota", "recovery"], 0), "5 rows at 1,000 a minute"
    for verb, reasons in (
        ("pause", ["client-paused", "quota"]),
        ("suspend", ["client-suspended", "client-paused", "quota"]),
    ):
        assert (await api.send("POST", f"/v1/clients/shop:{verb}")).status == 200
        found = await shown(api)
        assert (found["held_by"], found["drain_seconds"]) == (reasons, None)
    assert (await api.send("GET", BACKLOG, key=key)).json == found, "a suspended client sees it too"


async def test_receivers_that_nodes_hold_back_are_told_where_something_is_overdue(
    api: ApiHarness, nodes: Nodes
) -> None:
    for client in ("shop", "other", "idle"):
        await api.register(client, quota=1)
    await nodes.beat(*[await nodes.add(name) for name in ("a", "b", "silent")], seconds=2)
    api.nodes.silent = {"silent"}
    api.nodes.held = {"a": {"idle"}, "b": {"shop", "idle"}}
    for client in ("shop", "other", "idle"):
        await behind(nodes, 10, client=client)
    await put(api, PRESENT - 9, 1)
    await put(api, PRESENT - 9, 1, client="other")
    every = {one["client_id"]: one["held_by"] for one in (await shown(api, CLUSTER))["items"]}
    assert every == {"shop": ["no-owner", "receiver-open"], "other": ["no-owner"]}
    assert (await shown(api))["held_by"] == ["no-owner", "receiver-open"]
    assert (await shown(api, "/v1/clients/idle/backlog"))["held_by"] == ["no-owner"]


async def test_which_rows_the_late_policy_will_skip(api: ApiHarness, nodes: Nodes) -> None:
    settings = {"late_policy": {"kind": "skip", "after_seconds": 900}, "in_doubt": "drop"}
    body = {"poller_quota": 1, "settings": settings}
    assert (await api.send("PUT", "/v1/clients/shop", json=body)).status in (200, 201)
    await behind(nodes, 100)
    for minutes, count in ((5, 1), (30, 2), (90, 4)):
        await put(api, PRESENT - minutes, count)
    found = await shown(api)
    assert found["late_policy"] == {"kind": "skip", "after_seconds": 900.0}
    assert (found["to_skip"], found["at_most_once"]) == (4, True), "of ages that are older as a whole"


async def test_all_clients_the_worst_first_and_in_pages(api: ApiHarness, nodes: Nodes) -> None:
    for number, count in enumerate((3, 7, 7, 0)):
        await api.register(f"client-{number}", quota=1)
        await behind(nodes, 10, client=f"client-{number}")
        await put(api, PRESENT - 5, count, client=f"client-{number}")
    await api.register("healthy", quota=1)
    await nodes.own(PollerKey("healthy", 0), None, watermark=PRESENT - 1)
    found = await shown(api, CLUSTER, limit="2")
    assert [one["client_id"] for one in found["items"]] == ["client-1", "client-2"]
    assert (found["overdue"]["rows"], found["clients"]) == (17, 3)
    rest = await shown(api, CLUSTER, limit="2", cursor=found["next_cursor"])
    assert [(one["client_id"], one["overdue"]["rows"]) for one in rest["items"]] == [("client-0", 3)]
    assert rest["next_cursor"] is None


async def test_beyond_some_clients_only_loads_are_read(
    api: ApiHarness, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "MAX_DETAILED", 1)
    for name, count in (("many", 9), ("few", 4)):
        await api.register(name, quota=1)
        await behind(nodes, 10, client=name)
        await put(api, PRESENT - 5, count, client=name)
    found = await shown(api, CLUSTER)
    assert [(one["overdue"]["rows"], one["overdue"]["exact"]) for one in found["items"]] == [(9, True), (4, False)]


async def test_it_is_looked_at_at_most_every_ten_seconds(api: ApiHarness, nodes: Nodes) -> None:
    await api.register("shop", quota=1)
    await behind(nodes, 10)
    await put(api, PRESENT - 5, 1)
    assert (await shown(api, CLUSTER))["overdue"]["rows"] == 1
    await put(api, PRESENT - 4, 1)
    api.clock.advance(9)
    assert (await shown(api, CLUSTER))["overdue"]["rows"] == 1
    api.clock.advance(2)
    assert (await shown(api, CLUSTER))["overdue"]["rows"] == 2


async def test_an_outage_of_weeks_costs_a_bounded_number_of_reads(
    api: ApiHarness, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.register("shop", quota=4)
    await behind(nodes, 20 * 1_440, pollers=4)
    for hour in range(100):
        for poller in range(4):
            await put(api, PRESENT - 20 * 1_440 + hour * 60, 1, poller=poller)
    reads = 0
    read = type(api.storage.schedules).count_unfinished

    async def counted(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal reads
        reads += 1
        return await read(self, *arguments, **named)

    monkeypatch.setattr(type(api.storage.schedules), "count_unfinished", counted)
    overdue = (await shown(api))["overdue"]
    assert reads == open_minutes.MAX_COUNTED
    assert overdue["counted"] == open_minutes.MAX_COUNTED
    assert overdue["rows"] == 72 * 4, "the index of three days was read"
    assert not overdue["exact"]
