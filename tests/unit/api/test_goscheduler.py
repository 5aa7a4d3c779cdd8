"""The contract of GoScheduler's wire, case by case: status codes, codes in the envelope, and what is answered."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId, ScheduleId
from scheduler_service.domain.options import decode_options
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.domain.wires import WIRES_SINCE
from tests.support.api import NOW, ApiHarness, replace_insert
from tests.support.goscheduler import (
    NOW_SECONDS,
    callback,
    claim,
    create,
    cron,
    end,
    register,
    schedule,
    send,
    settings,
)
from tests.support.nodes import Nodes

UNKNOWN = "01a1fd71-dc20-8000-91e3-79615487ce1e"
DETAILS = {"url": "https://receiver.example/hook", "method": "POST", "headers": {"Accept": "application/json"}}


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(goscheduler=settings()) as harness:
        await harness.add_built_in_clients()
        await register(harness)
        yield harness


def status(code: int, count: int) -> dict[str, object]:
    return {"statusCode": code, "statusMessage": "Success", "statusType": "Success", "totalCount": count}


async def test_the_health_check(api: ApiHarness) -> None:
    for method in ("GET", "POST"):
        reply = await send(api, method, "/healthcheck")
        assert (reply.status, reply.json) == (200, {"status": "Success", "code": 200})


async def test_an_app_is_registered(api: ApiHarness) -> None:
    """At the path of the program, and at that of its README."""
    asked = {"appId": "Athena", "partitions": 4, "active": True}
    for path in ("/apps", "/app"):
        reply = await send(api, "POST", path, asked)
        assert reply.json == {"status": status(201, 1), "data": {**asked, "configuration": {}}}
    assert (await api.send("GET", "/v1/clients/athena")).json["poller_quota"] == 4


async def test_what_is_left_out_of_a_registration(api: ApiHarness) -> None:
    reply = await send(api, "POST", "/apps", {"appId": "Athena"})
    assert reply.json["data"] == {"appId": "Athena", "partitions": 5, "active": False, "configuration": {}}
    assert (await api.send("GET", "/v1/clients/athena")).json["state"] == "suspended"


async def test_a_configuration_is_settings(api: ApiHarness) -> None:
    configuration = {
        "futureScheduleCreationPeriod": 30,
        "firedScheduleRetentionPeriod": 10,
        "payloadSize": 1024,
        "httpRetries": 3,
        "httpTimeout": 2000,
    }
    reply = await register(api, configuration=configuration)
    assert reply.json["data"]["configuration"] == configuration
    found = (await api.send("GET", "/v1/clients/test")).json["stored_settings"]
    assert (found["horizon_days"], found["retention_days"], found["payload_bytes"]) == (30, 10, 1024)
    assert (found["retry"]["max_attempts"], found["timeout_seconds"]) == (3, 2.0)


async def test_registering_again_keeps_what_is_not_named(api: ApiHarness) -> None:
    wanted = {"poller_quota": 3, "settings": {"retention_days": 21}}
    assert (await api.send("PUT", "/v1/clients/test", json=wanted)).status == 200
    await register(api, partitions=4, configuration={"payloadSize": 100})
    found = (await api.send("GET", "/v1/clients/test")).json
    assert (found["poller_quota"], found["stored_settings"]["retention_days"]) == (4, 21)
    again = (await api.send("GET", "/v1/clients/test")).json["revision"]
    await register(api, partitions=4, configuration={"payloadSize": 100})
    assert (await api.send("GET", "/v1/clients/test")).json["revision"] == again


async def test_apps_are_listed(api: ApiHarness) -> None:
    await register(api, "Athena")
    reply = await send(api, "GET", "/apps")
    assert reply.json["status"] == status(200, 2)
    assert [app["appId"] for app in reply.json["data"]["apps"]] == ["Athena", "test"]
    one = await send(api, "GET", "/apps", params={"app_id": "test"})
    assert one.json["data"]["apps"] == [{"appId": "test", "partitions": 3, "active": True, "configuration": {}}]
    none = await send(api, "GET", "/apps", params={"app_id": "nobody"})
    assert (none.status, none.json["status"]["statusCode"]) == (404, 404)


async def test_an_app_is_deactivated_and_activated(api: ApiHarness) -> None:
    for verb, active, again in (("deactivate", False, 4002), ("activate", True, 4003)):
        reply = await send(api, "POST", f"/apps/test/{verb}")
        assert reply.json == {"status": status(201, 0), "data": {"appId": "test", "Active": active}}
        reply = await send(api, "POST", f"/apps/test/{verb}")
        assert (reply.status, reply.json["status"]["statusCode"]) == (400, again)
        if not active:
            refused = await send(api, "POST", "/schedules", schedule())
            assert (refused.status, refused.json["status"]["statusCode"]) == (400, 4002)


async def test_a_schedule_is_created(api: ApiHarness) -> None:
    """The program answers with it below `schedule`, its README shows its fields beside that."""
    for path in ("/schedules", "/schedule"):
        reply = await send(api, "POST", path, schedule())
        data = dict(reply.json["data"])
        shown = data.pop("schedule")
        assert (reply.json["status"], data) == (status(201, 1), shown)
        seconds = NOW_SECONDS + 90
        assert shown.pop("scheduleId")
        assert 0 <= shown.pop("partitionId") < 3
        assert shown == {
            "payload": '{"order": 17}',
            "appId": "test",
            "scheduleTime": seconds,
            "scheduleGroup": seconds // 60 * 60,
            "callback": {"type": "http", "details": DETAILS},
        }


async def test_keys_are_read_in_any_case(api: ApiHarness) -> None:
    details = {"URL": DETAILS["url"], "Method": "PUT", "HEADERS": {"x-Mine": "1"}}
    body = {
        "AppId": "test",
        "PAYLOAD": "p",
        "ScheduleTime": NOW_SECONDS,
        "Callback": {"Type": "http", "Details": details},
        "somethingElse": [1],
    }
    shown = (await send(api, "POST", "/schedules", body)).json["data"]["schedule"]
    assert shown["callback"]["details"] == {"url": DETAILS["url"], "method": "PUT", "headers": {"x-Mine": "1"}}
    assert (shown["payload"], shown["scheduleTime"]) == ("p", NOW_SECONDS)


async def test_a_schedule_is_an_ordinary_one(api: ApiHarness) -> None:
    shown = await create(api, callback=callback(headers={"Authorization": "secret", "Host": "x", "User-Agent": "y"}))
    found = (await api.send("GET", f"/v1/clients/test/schedules/{shown['scheduleId']}")).json
    assert found["due"] == "2026-11-21T09:31:30.000Z"
    assert found["callback"] == {
        "url": DETAILS["url"],
        "method": "POST",
        "headers": {"Authorization": "***"},
        "body": '{"order": 17}',
    }


async def test_the_present_second_has_not_passed(api: ApiHarness) -> None:
    api.clock.advance(0.75)
    shown = await create(api, scheduleTime=NOW_SECONDS)
    assert shown["scheduleTime"] == NOW_SECONDS


REFUSED: list[tuple[str, object, int, int, str]] = [
    ("an app that is not registered", schedule(appId="Athena"), 400, 4001, "Athena is not registered"),
    ("no app", schedule(appId=None), 400, 4001, "is not registered"),
    ("an empty object", {}, 400, 4001, "is not registered"),
    ("a null", None, 400, 5001, "empty"),
    ("a list", [], 400, 5001, "JSON object"),
    ("a number for a text", schedule(payload=7), 400, 5001, "payload must be a string"),
    ("a text for a number", schedule(scheduleTime="7"), 400, 5001, "scheduleTime must be an integer"),
    ("a fraction", schedule(scheduleTime=7.5), 400, 5001, "scheduleTime must be an integer"),
    ("two wrong types", schedule(payload=7, scheduleTime=True), 400, 5001, "payload must be a string, scheduleTime"),
    ("headers that are no texts", schedule(callback=callback(headers={"a": 1})), 400, 5001, "callback.details.headers"),
    ("a callback of another type", schedule(callback={"type": "kafka"}), 400, 5001, "unknown callback type: kafka"),
    ("a callback without type", schedule(callback={}), 400, 5001, "unknown callback type"),
    ("no callback", schedule(callback=None), 400, 400, "callback is missing"),
    ("only an old callback", schedule(callback=None, httpCallback=DETAILS), 400, 400, "callback is missing"),
    ("no payload", schedule(payload=None), 400, 400, "payload is missing"),
    ("an empty payload", schedule(payload=""), 400, 400, "payload is missing"),
    ("a payload too long", schedule(payload="x" * 65_537), 400, 400, "payload the body has 65537 bytes"),
    ("no url", schedule(callback=callback(url="")), 400, 400, "callback.details.url"),
    ("no valid url", schedule(callback=callback(url="receiver")), 400, 400, "callback.details.url"),
    ("a url inside", schedule(callback=callback(url="http://127.0.0.1/x")), 400, 400, "callback.details.url"),
    ("no method", schedule(callback=callback(method="")), 400, 400, "callback.details.method is missing"),
    ("another method", schedule(callback=callback(method="get")), 400, 400, "callback.details.method"),
    ("a header of ours", schedule(callback=callback(headers={"webhook-id": "1"})), 400, 400, "headers.webhook-id"),
    ("the past", schedule(scheduleTime=NOW_SECONDS - 1), 400, 400, "scheduleTime 1795253399 is in the past"),
    ("no time", schedule(scheduleTime=None), 400, 400, "scheduleTime 0 is in the past"),
    ("too far ahead", schedule(scheduleTime=NOW_SECONDS + 731 * 86_400), 400, 400, "more than 730 days ahead"),
    ("the end of time", schedule(scheduleTime=(1 << 63) - 1), 400, 400, "more than 730 days ahead"),
    ("no integer of 64 bits", schedule(scheduleTime=1 << 63), 400, 5001, "scheduleTime must be an integer"),
]


@pytest.mark.parametrize(
    ("body", "http", "code", "text"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED]
)
async def test_it_is_refused(api: ApiHarness, body: object, http: int, code: int, text: str) -> None:
    reply = await send(api, "POST", "/schedules", body)
    found = reply.json["status"]
    assert (reply.status, found["statusCode"]) == (http, code), found
    assert text in found["statusMessage"]
    assert found.keys() == {"statusCode", "statusMessage", "statusType"}


async def test_all_faults_are_named(api: ApiHarness) -> None:
    body = schedule(payload="", scheduleTime=1, callback=callback(url="ftp://x.example", method="X"))
    message = (await send(api, "POST", "/schedules", body)).json["status"]["statusMessage"]
    for name in ("payload", "scheduleTime", "callback.details.url", "callback.details.method"):
        assert name in message, message


@pytest.mark.parametrize("data", [b"", b"  ", b"{", b"{]", b"\xff", b'{"appId": "\xff"}', b"[" * 100_000])
async def test_what_is_no_json(api: ApiHarness, data: bytes) -> None:
    for path in ("/schedules", "/apps"):
        reply = await send(api, "POST", path, data=data)
        assert (reply.status, reply.json["status"]["statusCode"]) == (400, 5001), reply.body


SHOWN: list[tuple[Outcome | None, str | None, str | None]] = [
    (None, "SCHEDULED", None),
    (Outcome(state=State.RETRYING, attempts=1, last_status=503, next_attempt_at=NOW + 300_000), "SCHEDULED", "503"),  # type: ignore[arg-type]
    (Outcome(state=State.DELIVERED, attempts=1, last_status=204), "SUCCESS", None),
    (Outcome(state=State.FAILED, attempts=10, last_status=500), "FAILURE", "500 Internal Server Error"),
    (Outcome(state=State.FAILED, attempts=10, last_error="timeout"), "FAILURE", "timeout"),
    (Outcome(state=State.SKIPPED, reason="late"), "MISS", "late"),
    (Outcome(state=State.CANCELLED), None, None),
]


@pytest.mark.parametrize(("outcome", "word", "message"), SHOWN)
async def test_how_a_schedule_is_shown(
    api: ApiHarness, outcome: Outcome | None, word: str | None, message: str | None
) -> None:
    made = await create(api)
    if outcome is not None:
        await end(api, "test", made["scheduleId"], outcome)
    for path in ("/schedules", "/schedule"):
        reply = await send(api, "GET", f"{path}/{made['scheduleId']}")
        if word is None:
            assert (reply.status, reply.json["status"]["statusCode"]) == (404, 404)
            continue
        shown = dict(reply.json["data"]["schedule"])
        assert reply.json["status"] == status(200, 1)
        assert (shown.pop("errorMessage", "") or "").startswith(message or "")
        assert shown == {**made, "status": word}


async def test_credentials_are_shown_to_their_author_only(api: ApiHarness) -> None:
    made = await create(api, callback=callback(headers={"Authorization": "secret"}))
    assert made["callback"]["details"]["headers"] == {"Authorization": "secret"}
    for path in (f"/schedules/{made['scheduleId']}", "/apps/test/schedules?end_time=2026-11-21 15:30:00"):
        assert b"secret" not in (await send(api, "GET", path)).body


@pytest.mark.parametrize("id_", ["x", "0", UNKNOWN[:-1], UNKNOWN + "0", "%20"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_is_no_id(api: ApiHarness, method: str, id_: str) -> None:
    reply = await send(api, method, f"/schedules/{id_}")
    assert (reply.status, reply.json["status"]["statusCode"]) == (400, 400)


async def test_what_is_not_there(api: ApiHarness) -> None:
    for id_ in (UNKNOWN, "71545a13-7a1d-4006-8d72-3104f77383c1", UNKNOWN.replace("-", "").upper()):
        for method in ("GET", "DELETE"):
            reply = await send(api, method, f"/schedules/{id_}")
            assert (reply.status, reply.json["status"]["statusCode"]) == (404, 404)
        runs = await send(api, "GET", f"/schedules/{id_}/runs")
        assert (runs.status, runs.json["status"]["statusCode"]) == (404, 404)


async def test_a_schedule_is_deleted(api: ApiHarness) -> None:
    made = await create(api)
    reply = await send(api, "DELETE", f"/schedules/{made['scheduleId']}")
    assert reply.json == {"status": status(200, 1), "data": {"schedule": made}}
    assert (await send(api, "DELETE", f"/schedules/{made['scheduleId']}")).status == 404
    found = (await api.send("GET", f"/v1/clients/test/schedules/{made['scheduleId']}")).json
    assert found["state"] == "cancelled"


async def test_deleting_one_that_has_ended_changes_nothing(api: ApiHarness) -> None:
    made = await create(api)
    await end(api, "test", made["scheduleId"], Outcome(state=State.DELIVERED, attempts=1))
    for _ in range(2):
        reply = await send(api, "DELETE", f"/schedules/{made['scheduleId']}")
        assert reply.json["data"]["schedule"] == {**made, "status": "SUCCESS"}


async def test_one_that_is_being_called_can_not_be_deleted(api: ApiHarness) -> None:
    made = await create(api)
    await claim(api, "test", made["scheduleId"])
    reply = await send(api, "DELETE", f"/schedules/{made['scheduleId']}")
    assert (reply.status, reply.json["status"]["statusCode"]) == (409, 409)
    assert (await send(api, "GET", f"/schedules/{made['scheduleId']}")).json["data"]["schedule"][
        "status"
    ] == "SCHEDULED"


async def test_one_that_our_own_api_rescheduled_is_gone(api: ApiHarness) -> None:
    made = await create(api)
    path = f"/v1/clients/test/schedules/{made['scheduleId']}"
    moved = (await api.send("POST", f"{path}:reschedule", json={"delay_seconds": 600})).json["schedule_id"]
    for method in ("GET", "DELETE"):
        assert (await send(api, method, f"/schedules/{made['scheduleId']}")).status == 404
    row = await api.services.schedules.resolve(ClientId("test"), ScheduleId(UUID(moved)))
    assert row is not None
    assert decode_options(row.row.options).wire == "goscheduler"
    shown = (await send(api, "GET", f"/schedules/{moved}")).json["data"]["schedule"]
    assert (shown["payload"], shown["scheduleTime"]) == (made["payload"], NOW_SECONDS + 600)


async def test_storage_that_does_not_answer(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await create(api)

    async def fails(*arguments: object, **named: object) -> None:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(type(api.storage.schedules), "read_rows", fails)
    replace_insert(monkeypatch, api.storage.schedules, fails)
    for method, path in (("GET", f"/schedules/{made['scheduleId']}"), ("POST", "/schedules")):
        reply = await send(api, method, path, schedule() if method == "POST" else None)
        assert (reply.status, reply.json["status"]["statusCode"]) == (503, 5004)
        assert reply.headers["Retry-After"] == "1"


async def test_a_request_that_takes_too_long(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    made = await create(api)

    async def hangs(*arguments: object, **named: object) -> None:
        api.clock.advance(10)
        await asyncio.Event().wait()

    monkeypatch.setattr(type(api.storage.schedules), "read_rows", hangs)
    reply = await send(api, "GET", f"/schedules/{made['scheduleId']}")
    assert (reply.status, reply.json["status"]["statusCode"]) == (503, 5004)


async def test_a_fault_of_ours(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crashes(*arguments: object, **named: object) -> None:
        raise RuntimeError("with a secret")

    monkeypatch.setattr(type(api.services.clients.show), "one", crashes)
    reply = await send(api, "POST", "/apps", {"appId": "test", "active": True})
    assert (reply.status, reply.json["status"]["statusCode"]) == (500, 5004)
    assert b"secret" not in reply.body


async def test_a_redelivery_is_the_history(api: ApiHarness) -> None:
    made = await create(api)
    outcome: Any = Outcome(
        state=State.DELIVERED, attempts=2, finished_at=NOW + 5_000, redelivered_at=NOW, redelivered_after=1
    )
    await end(api, "test", made["scheduleId"], outcome)
    shown = (await send(api, "GET", f"/schedules/{made['scheduleId']}")).json["data"]["schedule"]
    assert shown["reconciliationHistory"] == [{"status": "SUCCESS", "callbackOn": "2026-11-21 09:30:05"}]


async def test_other_paths_and_methods(api: ApiHarness) -> None:
    for method, path, http in (("GET", "/nothing", 404), ("PUT", "/schedules", 405), ("DELETE", "/apps", 405)):
        reply = await send(api, method, path)
        assert (reply.status, reply.json["status"]["statusCode"]) == (http, http)


async def test_a_cron_is_created_shown_listed_and_deleted(api: ApiHarness) -> None:
    none = await send(api, "GET", "/crons/schedules")
    assert (none.status, none.json["status"]["statusMessage"]) == (404, "No cron schedules found")
    reply = await send(api, "POST", "/schedules", cron())
    made = reply.json["data"]["schedule"]
    assert reply.json["status"] == status(201, 1)
    id_ = made["scheduleId"]
    assert 0 <= made["partitionId"] < 3
    assert {name: made[name] for name in made if name not in ("scheduleId", "partitionId")} == {
        "payload": '{"order": 17}',
        "appId": "test",
        "callback": {"type": "http", "details": DETAILS},
        "cronExpression": "*/5 * * * *",
        "status": "SCHEDULED",
    }
    shown = await send(api, "GET", f"/schedules/{id_}")
    assert shown.json == {"status": status(200, 1), "data": {"schedule": made}}
    assert (await api.send("PUT", "/v1/clients/test/crons/of-our-own", json=OWN)).status == 201
    for params in ({}, {"app_id": "test"}, {"status": "SCHEDULED"}, {"status": "ANY"}):
        listed = await send(api, "GET", "/crons/schedules", params=params)
        assert listed.json == {"status": status(200, 0), "data": [made]}
    for params in ({"app_id": "Athena"}, {"status": "DELETED"}):
        assert (await send(api, "GET", "/crons/schedules", params=params)).status == 404
    deleted = await send(api, "DELETE", f"/schedules/{id_}")
    assert deleted.json["data"]["schedule"] == {**made, "status": "DELETED"}
    listed = await send(api, "GET", "/crons/schedules", params={"status": "DELETED"})
    (left,) = listed.json["data"]
    assert (left["scheduleId"], left["status"], left["callback"]["details"]["url"]) == (id_, "DELETED", "")
    assert (await send(api, "GET", f"/schedules/{id_}")).json["data"]["schedule"]["status"] == "DELETED"


async def test_a_cron_is_shown_in_words_by_our_own_api(api: ApiHarness) -> None:
    made = await create(api, scheduleTime=None, cronExpression="20/15 8 */5 * 1-5")
    assert made["cronExpression"] == "20/15 8 */5 * 1-5"
    shown = (await api.send("GET", f"/v1/clients/test/crons/{made['scheduleId']}")).json
    assert (shown["dialect"], shown["expression"], shown["timezone"]) == ("goscheduler", "20/15 8 */5 * 1-5", "UTC")
    # 2026-11-25 is a Wednesday; 30 and 45 are the multiples of 15 from 20 on; days 5, 10 ... 30, AND a working day.
    assert shown["next_fires"][:3] == [
        "2026-11-25T08:30:00.000Z",
        "2026-11-25T08:45:00.000Z",
        "2026-11-30T08:30:00.000Z",
    ]
    assert (await send(api, "GET", f"/schedules/{made['scheduleId']}")).json["data"]["schedule"] == made


async def test_crons_are_read_in_the_operators_zone() -> None:
    """A minute that local time skips does not fire, and one that it repeats fires twice."""
    async with ApiHarness(goscheduler=settings(timezone="Europe/Berlin")) as api:
        await api.add_built_in_clients()
        await register(api)
        made = await create(api, scheduleTime=None, cronExpression="30 2 * 3 *")
        shown = (await api.send("GET", f"/v1/clients/test/crons/{made['scheduleId']}")).json
    assert (shown["timezone"], shown["dst"]) == ("Europe/Berlin", {"gap": "skip", "fold": "both"})


@pytest.mark.parametrize(
    "expression",
    ["*/0 * * * *", "0/0 * * * *", "* * * *", "*/1 * 1 * * 12", "60 * * * *", "* 24 * * *", "* * 0 * *", "@daily"],
)
async def test_a_cron_that_is_none(api: ApiHarness, expression: str) -> None:
    reply = await send(api, "POST", "/schedules", cron(cronExpression=expression))
    found = reply.json["status"]
    assert (reply.status, found["statusCode"]) == (400, 400)
    assert found["statusMessage"].startswith("cronExpression ")


async def test_all_faults_of_a_cron_are_named(api: ApiHarness) -> None:
    body = cron(cronExpression="60 24 * * *", payload="", callback=callback(url="ftp://x.example"))
    message = (await send(api, "POST", "/schedules", body)).json["status"]["statusMessage"]
    for name in ("payload is missing", "'60'", "'24'", "callback.details.url"):
        assert name in message, message
    only = (await send(api, "POST", "/schedules", cron(callback=None))).json["status"]["statusMessage"]
    assert only == "callback is missing: give one of type http, with its details"


OWN = {"expression": "@daily", "timezone": "UTC", "callback": {"url": "https://receiver.example/hook"}}


@pytest.mark.parametrize(("knows", "status"), [(WIRES_SINCE - 1, 409), (WIRES_SINCE, 200)])
@pytest.mark.parametrize("body", [schedule(), cron()], ids=["schedule", "cron"])
async def test_nothing_is_created_while_nodes_run_that_would_call_it_otherwise(
    api: ApiHarness, body: dict[str, object], knows: int, status: int
) -> None:
    await register(api)
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("older", knows=knows), await nodes.add("new", knows=WIRES_SINCE + 1), seconds=3)
    reply = await send(api, "POST", "/schedules", body)
    assert (reply.status, reply.json["status"]["statusCode"]) == (status, 201 if status == 200 else status)
    assert status == 200 or "upgrade them first" in reply.json["status"]["statusMessage"]
    stored = [one for table in ("schedules", "crons") for one in api.connection.rows(table)]
    assert bool(stored) == (status == 200)
