"""An API process whose clock is wrong, or may be, creates nothing."""

import pytest

from tests.support.api import ApiHarness, schedule
from tests.support.nodes import Nodes


@pytest.fixture
async def nodes(api: ApiHarness) -> Nodes:
    return Nodes(api)


async def assert_nothing_is_created(api: ApiHarness, key: str) -> None:
    for path, body in (("", schedule()), (":batch", {"items": [schedule()]})):
        reply = await api.send("POST", f"/v1/clients/shop/schedules{path}", key=key, json=body)
        assert reply.status == 503, reply.body
        assert reply.json["type"] == "/problems/clock-in-doubt"
        assert reply.headers["Retry-After"] == "1"
    assert api.connection.rows("schedules") == []
    assert b"minutehand_api_storage_available 1.0" in (await api.send("GET", "/metrics")).body


async def test_creates_are_refused_while_the_clock_is_in_doubt(api: ApiHarness, key: str) -> None:
    api.clock.trusted = False
    await assert_nothing_is_created(api, key)
    assert (await api.send("GET", "/v1/clients/shop/schedules", key=key)).status == 200
    api.clock.trusted = True
    assert (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())).status == 201


@pytest.mark.parametrize("offset_ms", [1_000, -1_000])
async def test_creates_are_refused_while_the_clock_is_a_second_off(
    api: ApiHarness, nodes: Nodes, key: str, offset_ms: int
) -> None:
    a = await nodes.add("a")
    await nodes.beat(a, seconds=31, offset_ms=offset_ms)
    await assert_nothing_is_created(api, key)
    await nodes.beat(a, seconds=31, offset_ms=offset_ms // 1_000 * 999)
    assert (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())).status == 201


async def test_creates_are_refused_until_a_node_was_seen_to_beat(api: ApiHarness, nodes: Nodes, key: str) -> None:
    api.members.compared = False
    await assert_nothing_is_created(api, key)
    reply = await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())
    assert "this process sees no node" in reply.json["detail"]
    ready = await api.send("GET", "/readyz")
    assert (ready.status, [one["reason"] for one in ready.json["reasons"]]) == (503, ["clock-untrusted"])
    assert "this process sees no node" in ready.json["reasons"][0]["detail"]
    assert (await api.send("GET", "/v1/clients/shop/schedules", key=key)).status == 200
    a = await nodes.add("a")
    await nodes.beat(a, seconds=2)
    assert (await api.send("GET", "/readyz")).status == 200
    assert (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())).status == 201


async def test_creates_of_a_process_that_starts_an_hour_behind_are_refused(
    api: ApiHarness, nodes: Nodes, key: str
) -> None:
    api.members.compared = False
    a = await nodes.add("a")
    await assert_nothing_is_created(api, key)
    await nodes.beat(a, seconds=2, offset_ms=-3_600_000)
    await assert_nothing_is_created(api, key)


async def test_a_process_that_once_knew_the_time_takes_creates_while_no_node_runs(
    api: ApiHarness, nodes: Nodes, key: str
) -> None:
    api.members.compared = False
    a = await nodes.add("a")
    await nodes.beat(a, seconds=2)
    for _ in range(30):
        api.clock.advance(1.0)
        await api.members.look()
    assert api.members.alone
    assert (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())).status == 201


async def test_a_suspended_client_is_told_of_its_suspension_first(api: ApiHarness, key: str) -> None:
    await api.send("POST", "/v1/clients/shop:suspend")
    api.clock.trusted = False
    assert (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())).status == 403
