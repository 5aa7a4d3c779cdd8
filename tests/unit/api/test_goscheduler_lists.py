"""Lists of schedules and of runs, and bulk actions, on GoScheduler's wire."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from scheduler_service.api.goscheduler.envelope import WireRefusal
from scheduler_service.api.goscheduler.queries import (
    ListQuery,
    position_token,
    read_list_query,
    read_position,
    read_runs_query,
    read_schedule_id,
    run_token,
)
from scheduler_service.domain.ids import HOUR_MS, ClientId, ScheduleId, UnixMillis
from scheduler_service.domain.options import decode_options
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.usecases.list_schedules import Position
from tests.support.api import NOW, ApiHarness
from tests.support.cron_calls import expand
from tests.support.goscheduler import NOW_SECONDS, create, end, register, send, settings

INDIA = ZoneInfo("Asia/Kolkata")
WINDOW = {"start_time": "2026-11-21 15:00:00", "end_time": "2026-11-21 17:00:00"}
"""09:30 to 11:30 in UTC, from NOW on."""


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(goscheduler=settings()) as harness:
        await harness.add_built_in_clients()
        await register(harness)
        yield harness


def read(**query: str) -> ListQuery:
    return read_list_query(query, now=NOW, zone=INDIA, longest_days=30)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2021-01-25 14:00:11", 1_611_563_400),
        ("2021-02-28 13:50:51", 1_614_500_400),
        ("2021-03-05 07:50:51", 1_614_910_800),
        ("2021-01-25 23:50:00.0000", 1_611_598_800),
    ],
)
def test_times_are_minutes_of_india(text: str, seconds: int) -> None:
    assert (read(start_time=text).start, read(start_time=text).end) == (seconds * 1000, seconds * 1000 + HOUR_MS)
    assert (read(end_time=text).start, read(end_time=text).end) == (seconds * 1000 - HOUR_MS, seconds * 1000)


def test_what_is_left_out() -> None:
    asked = read()
    assert (asked.start, asked.end, asked.size, asked.status, asked.position) == (NOW - HOUR_MS, NOW, 15, "", None)
    assert read(size="", status="ERROR", start_time="2020-12-01 00:00:00", end_time="2020-12-02 00:00:00").size == 15


@pytest.mark.parametrize(
    "text",
    [
        "2021-01-25",
        "2021-02-28 07",
        "2021-03-05 07:50",
        "2006-01-02T15:04:05.000Z",
        "Mon Jan 2 15:04:05 MST 2006",
        "2021-02-30 00:00:00",
        "\uff12021-01-25 14:00:11",
        "0000-01-01 00:00:00",
        "2021-01-25 24:00:00",
    ],
)
def test_what_is_no_time(text: str) -> None:
    for name in ("start_time", "end_time"):
        with pytest.raises(WireRefusal, match=name):
            read(**{name: text})


@pytest.mark.parametrize("size", ["ABC", "!@#$", "()", "1.5", "-1", "9" * 30])
def test_what_is_no_size(size: str) -> None:
    with pytest.raises(WireRefusal, match="size"):
        read(size=size)


def test_a_size_beyond_ours_is_ours() -> None:
    assert [read(size=size).size for size in ("0", "500", "1999999920")] == [0, 500, 500]


@pytest.mark.parametrize("token", ["x", "0", "zz", "00" * 65, "ff", "2f", b"1/x".hex(), b"x/".hex(), b"1".hex()])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(WireRefusal, match="Invalid page token"):
        read_position(token)


def test_tokens_come_back() -> None:
    schedule_id = ScheduleId(UUID("01a1fd71-dc20-8000-91e3-79615487ce1e"))
    for position in (Position(UnixMillis(NOW), schedule_id), Position(UnixMillis(NOW))):
        assert read(continuation_token=position_token(position)).position == position
    assert read_runs_query({"continuation_token": run_token(NOW)}).before == NOW
    with pytest.raises(WireRefusal):
        read_runs_query({"continuation_token": b"x".hex()})
    resumed = read(continuation_start_time=str(NOW_SECONDS), **WINDOW).position
    assert resumed == Position(UnixMillis(NOW))
    assert read(continuation_start_time="0").position is None


def test_ids_with_and_without_dashes() -> None:
    text = "01A1FD71-dc20-8000-91e3-79615487ce1e"
    assert read_schedule_id(text) == read_schedule_id(text.replace("-", "")) == UUID(text)


@pytest.mark.parametrize(
    "query",
    [
        {"start_time": "2026-11-21 15:00:00", "end_time": "2026-11-21 14:59:00"},
        {"start_time": "2026-11-21 15:00:00", "end_time": "2026-12-21 15:01:00"},
        {"size": "x"},
        {"continuation_token": "x"},
    ],
)
async def test_a_list_that_is_refused(api: ApiHarness, query: dict[str, str]) -> None:
    for method, path in (("GET", "/apps/test/schedules"), ("POST", "/apps/test/bulk-action/delete")):
        reply = await send(api, method, path, params=query)
        assert (reply.status, reply.json["status"]["statusCode"]) == (400, 400)
    unknown = await send(api, "GET", "/apps/Athena/schedules", params=WINDOW)
    assert (unknown.status, unknown.json["status"]["statusCode"]) == (400, 4001)


async def test_an_app_without_schedules(api: ApiHarness) -> None:
    reply = await send(api, "GET", "/apps/test/schedules", params=WINDOW)
    end_seconds = NOW_SECONDS + 7200
    assert reply.json["data"] == {
        "schedules": None,
        "continuationToken": "",
        "continuationStartTime": end_seconds,
    }
    assert reply.json["status"]["totalCount"] == 0


async def test_schedules_of_an_app_by_pages(api: ApiHarness) -> None:
    made = [await create(api, scheduleTime=NOW_SECONDS + 60 * number) for number in range(1, 8)]
    await create(api, scheduleTime=NOW_SECONDS + 7200)
    cancelled = made.pop()
    await send(api, "DELETE", f"/schedules/{cancelled['scheduleId']}")
    found: list[Any] = []
    query = {**WINDOW, "size": "4"}
    for _ in range(10):
        reply = await send(api, "GET", "/apps/test/schedules", params=query)
        data = reply.json["data"]
        assert reply.json["status"]["totalCount"] == len(data["schedules"] or [])
        found += data["schedules"] or []
        if not data["continuationToken"]:
            break
        query["continuation_token"] = data["continuationToken"]
        query["continuation_start_time"] = str(data["continuationStartTime"])
    assert found == [{**one, "status": "SCHEDULED"} for one in made]


async def test_a_long_window_is_one_answer(api: ApiHarness) -> None:
    """One listing of ours reads a week of minutes without schedules."""
    made = await create(api, scheduleTime=NOW_SECONDS + 29 * 86_400)
    month = {"start_time": "2026-11-21 15:00:00", "end_time": "2026-12-21 15:00:00"}
    data = (await send(api, "GET", "/apps/test/schedules", params=month)).json["data"]
    assert [one["scheduleId"] for one in data["schedules"]] == [made["scheduleId"]]
    assert data["continuationToken"] == ""


async def test_a_schedule_of_our_own_api_is_shown_at_the_instant_that_was_asked_for(api: ApiHarness) -> None:
    key = (await api.send("POST", "/v1/clients/test/keys")).json["key"]
    api.clock.advance(40)
    late = {"due": "2026-11-21T09:30:10Z", "callback": {"url": "https://receiver.example/hook", "json": {"a": 1}}}
    made = await api.send("POST", "/v1/clients/test/schedules", key=key, json=late)
    assert made.status == 201
    (shown,) = (await send(api, "GET", "/apps/test/schedules", params=WINDOW)).json["data"]["schedules"]
    assert (shown["scheduleId"], shown["payload"]) == (made.json["schedule_id"], '{"a":1}')
    assert (shown["scheduleTime"], shown["scheduleGroup"]) == (NOW_SECONDS + 10, NOW_SECONDS)


async def test_schedules_of_an_app_by_status(api: ApiHarness) -> None:
    ends = {
        "SUCCESS": Outcome(state=State.DELIVERED, attempts=1),
        "FAILURE": Outcome(state=State.FAILED, attempts=1),
        "MISS": Outcome(state=State.SKIPPED),
        "SCHEDULED": None,
    }
    ids = {}
    for status, outcome in ends.items():
        ids[status] = (await create(api))["scheduleId"]
        if outcome is not None:
            await end(api, "test", ids[status], outcome)
    for status, id_ in ids.items():
        reply = await send(api, "GET", "/apps/test/schedules", params={**WINDOW, "status": status})
        assert [(one["scheduleId"], one["status"]) for one in reply.json["data"]["schedules"]] == [(id_, status)]
    for status in ("ERROR", "", "success"):
        reply = await send(api, "GET", "/apps/test/schedules", params={**WINDOW, "status": status})
        assert {one["scheduleId"] for one in reply.json["data"]["schedules"]} == set(ids.values())


async def test_the_runs_of_a_cron(api: ApiHarness) -> None:
    cron = await create(api, scheduleTime=None, cronExpression="*/5 * * * *")
    path = f"/schedules/{cron['scheduleId']}/runs"
    assert (await send(api, "GET", path)).json["status"]["statusMessage"] == "No cron runs found"
    await expand(api, cron["scheduleId"], client_id="test")
    api.clock.advance(400)
    every = (await send(api, "GET", path, params={"size": "100"})).json["data"]
    assert every["continuationToken"] == ""
    times = [run["scheduleTime"] for run in every["schedules"]]
    assert times == sorted(times, reverse=True)
    assert times[-1] == NOW_SECONDS + 300
    shown = every["schedules"][-1]
    assert (shown["appId"], shown["payload"], shown["status"]) == ("test", cron["payload"], "SCHEDULED")
    assert shown["callback"] == cron["callback"]
    row = await api.services.schedules.resolve(ClientId("test"), ScheduleId(UUID(shown["scheduleId"])))
    assert row is not None
    assert decode_options(row.row.options).wire == "goscheduler"
    one = await send(api, "GET", f"/schedules/{shown['scheduleId']}")
    assert one.json["data"]["schedule"] == shown
    past = (await send(api, "GET", path, params={"when": "past"})).json["data"]["schedules"]
    future = (await send(api, "GET", path, params={"when": "future"})).json["data"]["schedules"]
    assert [run["scheduleTime"] for run in past] == [NOW_SECONDS + 300]
    assert [run["scheduleTime"] for run in future] == sorted(times)[1:]
    paged, token = [], ""
    for _ in range(50):
        data = (await send(api, "GET", path, params={"size": "2", "continuation_token": token})).json["data"]
        paged += data["schedules"]
        token = data["continuationToken"]
        if not token:
            break
    assert paged == every["schedules"]
    await send(api, "DELETE", f"/schedules/{cron['scheduleId']}")
    await expand(api, cron["scheduleId"], client_id="test")
    left = (await send(api, "GET", path)).json["data"]["schedules"]
    assert [run["scheduleId"] for run in left] == [shown["scheduleId"]]


@pytest.mark.parametrize(
    ("action", "status", "ours", "states"),
    [
        ("reconcile", "FAILURE", "redeliver", ["failed"]),
        ("reconcile", "SUCCESS", "redeliver", ["delivered"]),
        ("reconcile", "MISS", "redeliver", ["skipped"]),
        ("reconcile", "", "redeliver", ["delivered", "failed", "skipped"]),
        ("delete", "SCHEDULED", "cancel", ["scheduled", "retrying"]),
        ("delete", "", "cancel", ["scheduled", "retrying"]),
    ],
)
async def test_a_bulk_action_is_a_reconciliation(
    api: ApiHarness, action: str, status: str, ours: str, states: list[str]
) -> None:
    reply = await send(api, "POST", f"/apps/test/bulk-action/{action}", params={**WINDOW, "status": status})
    assert reply.json["status"] == {
        "statusCode": 200,
        "statusMessage": "Success",
        "statusType": "Success",
        "totalCount": 0,
    }
    assert reply.json["remarks"].startswith(f"{action} initiated successfully for app: test")
    (made,) = (await api.send("GET", "/v1/clients/test/reconciliations")).json["items"]
    assert (made["action"], made["states"]) == (ours, states)
    assert (made["from"], made["to"]) == ("2026-11-21T09:30:00.000Z", "2026-11-21T11:30:00.000Z")


@pytest.mark.parametrize(
    ("path", "query", "code"),
    [
        ("/apps/test/bulk-action/other", {}, 4005),
        ("/apps/Athena/bulk-action/delete", {}, 4001),
        ("/apps/test/bulk-action/reconcile", {"status": "SCHEDULED"}, 400),
        ("/apps/test/bulk-action/delete", {"status": "SUCCESS"}, 400),
        ("/apps/test/bulk-action/delete", {**WINDOW, "end_time": "2026-11-28 15:01:00"}, 400),
    ],
)
async def test_a_bulk_action_that_is_refused(api: ApiHarness, path: str, query: dict[str, str], code: int) -> None:
    reply = await send(api, "POST", path, params=query)
    assert (reply.status, reply.json["status"]["statusCode"]) == (400, code)
    assert (await api.send("GET", "/v1/clients/test/reconciliations")).json["items"] == []
