"""GET .../forecast and /v1/cluster/forecast: what is counted, valid windows, and what a week costs."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.domain.ids import ClientId, minute_of
from scheduler_service.domain.minute_loads import LoadCounts
from tests.support.api import NOW, ApiHarness, SeededRandomness, schedule
from tests.support.nodes import Nodes

FORECAST, CLUSTER = "/v1/clients/shop/forecast", "/v1/cluster/forecast"
WEEK = {"from": "2026-11-21T09:30:00Z", "to": "2026-11-28T09:30:00Z"}
MINUTES_OF_A_WEEK = 10_080


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


@pytest.fixture
async def key(api: ApiHarness) -> str:
    return await api.register()


async def create(api: ApiHarness, key: str, minutes: float, *, client_id: str = "shop") -> str:
    path = f"/v1/clients/{client_id}/schedules"
    reply = await api.send("POST", path, key=key, json=schedule(delay_seconds=minutes * 60))
    assert reply.status == 201
    return str(reply.json["schedule_id"])


async def foreseen(api: ApiHarness, path: str = FORECAST, **query: str) -> Any:
    reply = await api.send("GET", path, params=query or WEEK)
    assert reply.status == 200, reply.body
    return reply.json


async def test_created_schedules_of_all_processes_less_cancelled_ones(api: ApiHarness, key: str) -> None:
    async with ApiHarness(stores=api.storage) as other:
        created = [await create(at, key, minutes) for at in (api, other) for minutes in (0, 1, 1, 3, 4_000)]
        reply = await other.send("DELETE", f"/v1/clients/shop/schedules/{created[4]}", key=key)
        assert reply.status == 200
        reply = await api.send(
            "PATCH", f"/v1/clients/shop/schedules/{created[3]}", key=key, json={"delay_seconds": 120}
        )
        assert reply.status in (200, 201), reply.body
    assert (await foreseen(api))["calls"] == 0, "nothing is written with a create"
    await api.services.minute_loads.write()
    answer = await foreseen(api)
    assert answer["runs"] == [
        {"from": "2026-11-21T09:30:00.000Z", "rows": [2, 4, 1, 1], "fires": [0, 0, 0, 0]},
        {"from": "2026-11-24T04:10:00.000Z", "rows": [1], "fires": [0]},
    ]
    assert (answer["calls"], answer["peak"]) == (9, {"minute": "2026-11-21T09:31:00.000Z", "calls": 4})
    assert (await foreseen(api, CLUSTER))["runs"] == answer["runs"]
    part = await foreseen(api, **{"from": "2026-11-21T09:31:30Z", "to": "2026-11-21T09:32:10Z"})
    assert [part[name] for name in ("from", "to")] == ["2026-11-21T09:31:00.000Z", "2026-11-21T09:33:00.000Z"]
    assert [run["rows"] for run in part["runs"]] == [[4, 1]]


async def test_a_batch_and_crons_count_and_deleted_crons_do_not(api: ApiHarness, key: str) -> None:
    await api.add_built_in_clients()
    batch = {"items": [schedule(delay_seconds=60)] * 5}
    assert (await api.send("POST", "/v1/clients/shop/schedules:batch", key=key, json=batch)).status == 200
    for name in ("one", "two"):
        rule = {"expression": "*/10 * * * *", "timezone": "UTC", "callback": schedule()["callback"]}
        assert (await api.send("PUT", f"/v1/clients/shop/crons/{name}", key=key, json=rule)).status == 201
    assert (await api.send("DELETE", "/v1/clients/shop/crons/two", key=key)).status == 200
    await api.services.minute_loads.write()
    answer = await foreseen(api, **{"from": "2026-11-21T09:30:00Z", "to": "2026-11-21T09:51:00Z"})
    assert [(run["from"][14:16], run["rows"], run["fires"]) for run in answer["runs"]] == [
        ("31", [5], [0]),
        ("40", [0], [1]),
        ("50", [0], [1]),
    ]


async def test_against_guarantees_and_capacity_of_one_and_of_all(api: ApiHarness, key: str) -> None:
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("node-a"), seconds=2)
    await api.register("bank", quota=1)
    counts, minute = api.storage.minute_loads.counts, minute_of(NOW) + 5
    counts.placed(ClientId("shop"), minute, 3_001)
    counts.placed(ClientId("bank"), minute, 1_000)
    counts.placed(ClientId("bank"), minute + 1, 5_001)
    await api.services.minute_loads.write()
    names = ("guaranteed_per_minute", "capacity_per_minute", "minutes_beyond_guarantee", "minutes_beyond_capacity")
    answer = await foreseen(api)
    assert [answer[name] for name in names] == [3_000, 5_000, 1, 0]
    answer = await foreseen(api, CLUSTER)
    assert [answer[name] for name in names] == [4_000, 5_000, 2, 1]


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"from": "yesterday"}, "/from"),
        ({"to": "2026-11-21T09:29:00Z"}, "/to"),
        ({"from": "2026-11-21T09:29:00Z", "to": "2026-12-22T09:30:00Z"}, "/to"),
        ({"from": "9999-12-31T23:59:59Z"}, "/to"),
        ({"from": "9999-12-31T23:58:59Z", "to": "9999-12-31T23:59:59Z"}, "/to"),
    ],
)
@pytest.mark.parametrize("path", [FORECAST, CLUSTER])
async def test_other_windows_are_refused(
    api: ApiHarness, key: str, path: str, query: dict[str, str], pointer: str
) -> None:
    reply = await api.send("GET", path, params=query)
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, pointer)


async def test_a_full_week_takes_a_request_a_day_and_less_than_a_second(api: ApiHarness, key: str) -> None:
    await api.add_built_in_clients()
    for writer in range(4):
        counts = LoadCounts(SeededRandomness(writer))
        for minute in range(MINUTES_OF_A_WEEK):
            counts.placed(ClientId("shop"), minute_of(NOW) + minute, 10_000 + writer)
        await api.storage.minute_loads.write(counts.unwritten(limit=1_000), now=NOW)
    for number in range(20):
        rule = {"expression": "* * * * *", "timezone": "UTC", "callback": schedule()["callback"]}
        assert (await api.send("PUT", f"/v1/clients/shop/crons/c{number}", key=key, json=rule)).status == 201
    statements = ("minute_loads.read", "crons.read_rules")
    for path in (FORECAST, CLUSTER):
        seconds = api.storage.metrics.requests.seconds
        before = {name: seconds[name].count if name in seconds else 0 for name in statements}
        began = time.process_time()
        answer = await foreseen(api, path)
        used = time.process_time() - began
        assert [seconds[name].count - before[name] for name in statements] == [8, 1]
        (run,) = answer["runs"]
        assert len(run["rows"]) == MINUTES_OF_A_WEEK
        assert set(run["rows"]) == {40_006}
        assert run["fires"] == [0, *[20] * (MINUTES_OF_A_WEEK - 1)]
        assert used < 1, f"{used:.3f} s of CPU, the caller's included"


async def test_rules_beyond_what_can_be_walked_in_time_are_said_to_be_left_out(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.add_built_in_clients()
    for number in range(6):
        rule = {"expression": f"{number // 2} 1 * * *", "timezone": "UTC", "callback": schedule()["callback"]}
        assert (await api.send("PUT", f"/v1/clients/shop/crons/c{number}", key=key, json=rule)).status == 201
    assert (await foreseen(api))["crons_left_out"] == 0
    monkeypatch.setattr("scheduler_service.usecases.forecast.WALK_SECONDS", 0.0)
    answer = await foreseen(api)
    assert (answer["crons_left_out"], answer["calls"]) == (6, 0)


FULL = "Minutehand-Minute-Load"


async def test_a_create_beyond_the_guarantee_of_its_minute_is_told_and_no_other(api: ApiHarness, key: str) -> None:
    minute, path = minute_of(NOW) + 10, "/v1/clients/shop/schedules"
    api.storage.minute_loads.counts.placed(ClientId("shop"), minute, 2_999)
    api.storage.minute_loads.counts.placed(ClientId("shop"), minute + 1, 3_000)
    body, reads = schedule(delay_seconds=600), api.storage.metrics.requests.seconds
    assert FULL not in (await api.send("POST", path, key=key, json=body)).headers
    told = '3001;guaranteed=3000;freer="2026-11-21T09:39:00.000Z"'
    plain = await api.send("POST", path, key=key, json=body)
    assert (plain.status, plain.headers[FULL]) == (201, told)
    other = await api.send("POST", path, key=key, json=body, headers={"Idempotency-Key": "one"})
    assert other.headers[FULL] == told.replace("3001", "3002")
    other = await api.send("POST", path, key=key, json=body, headers={"Origin": "https://page.example"})
    assert other.headers[FULL] == told.replace("3001", "3003")
    put = await api.send("PUT", f"{path}/by-key/mine", key=key, json=body)
    assert put.status == 201
    assert put.headers[FULL] == told.replace("3001", "3004")
    batch = {"items": [schedule(delay_seconds=seconds) for seconds in (60, 600, 660)]}
    reply = await api.send("POST", f"{path}:batch", key=key, json=batch)
    assert reply.headers[FULL] == told.replace("3001", "3005")
    assert FULL not in (await api.send("POST", path, key=key, json=schedule(delay_seconds=60))).headers
    assert "minute_loads.read" not in reads


async def test_what_other_processes_placed_counts_once_it_was_read(api: ApiHarness, key: str) -> None:
    minute = minute_of(NOW) + 10
    others = LoadCounts(SeededRandomness(5))
    others.placed(ClientId("shop"), minute, 2_990)
    await api.storage.minute_loads.write(others.unwritten(limit=9), now=NOW)
    batch = {"items": [schedule(delay_seconds=600)] * 125}
    for told in (None, '3240;guaranteed=3000;freer="2026-11-21T09:41:00.000Z"'):
        reply = await api.send("POST", "/v1/clients/shop/schedules:batch", key=key, json=batch)
        assert reply.headers.get(FULL) == told
        await api.services.minute_loads.write()
        await api.services.minute_loads.read()
