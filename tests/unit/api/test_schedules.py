import base64
from typing import Any
from uuid import UUID

import pytest

from scheduler_service.domain.ids import (
    ClientId,
    PollerId,
    ScheduleId,
    UnixMillis,
    compose_schedule_id,
)
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Definition, Outcome, State
from tests.support.api import NOW, ApiHarness, callback, schedule
from tests.support.outcomes import record

SCHEDULES = "/v1/clients/shop/schedules"


async def create(api: ApiHarness, key: str, **fields: Any) -> dict[str, Any]:
    reply = await api.send("POST", SCHEDULES, key=key, json=schedule(**fields))
    assert reply.status == 201, reply.body
    return dict(reply.json)


async def advance(api: ApiHarness, schedule_id: str, outcome: Outcome | None, *, in_flight: bool = False) -> None:
    """Make the owner commit of the poller's owner."""
    await record(api, ScheduleId(UUID(schedule_id)), outcome, in_flight=in_flight)


async def test_create_answers_the_whole_schedule(api: ApiHarness, key: str) -> None:
    request = schedule(
        due="2026-11-21T10:31:15.25+01:00",
        callback=callback(method="PUT", headers={"X-A": "1"}, body="héllo"),
        label="order-17",
        ordering_key="order",
        retry={"max_attempts": 5},
        timeout_seconds=2,
        skip_after_seconds=30,
    )
    reply = await api.send("POST", SCHEDULES, key=key, json=request)
    assert reply.status == 201
    made = reply.json
    assert reply.headers["Location"] == f"{SCHEDULES}/{made['schedule_id']}"
    assert made == {
        "schedule_id": made["schedule_id"],
        "client_id": "shop",
        "poller_id": made["poller_id"],
        "minute": "2026-11-21T09:31:00.000Z",
        "due": "2026-11-21T09:31:15.250Z",
        "nominal_due": None,
        "state": "scheduled",
        "in_flight": False,
        "attempts": 0,
        "next_attempt_at": "2026-11-21T09:31:15.250Z",
        "first_attempt_at": None,
        "finished_at": None,
        "last_status": None,
        "last_error": None,
        "reason": None,
        "callback": {
            "url": "https://receiver.example/hook",
            "method": "PUT",
            "headers": {"X-A": "1"},
            "body": "héllo",
        },
        "label": "order-17",
        "ordering_key": "order",
        "key": None,
        "latest": None,
        "retry": {"max_attempts": 5},
        "timeout_seconds": 2.0,
        "skip_after_seconds": 30.0,
        "on_success": None,
        "on_failure": None,
        "succeed_by": None,
        "cron_id": None,
        "rescheduled_from": None,
        "rescheduled_to": None,
        "redelivered_at": None,
        "created_at": "2026-11-21T09:30:00.000Z",
    }
    assert (await api.send("GET", f"{SCHEDULES}/{made['schedule_id']}", key=key)).json == made
    assert (await api.send("GET", f"{SCHEDULES}/{made['schedule_id'].upper()}", key=key)).json == made


async def test_the_edge_of_the_past(api: ApiHarness, key: str) -> None:
    made = await create(api, key, due=format_instant(NOW - 60_000))
    assert made["due"] == format_instant(NOW)


async def test_credentials_are_masked_and_stored(api: ApiHarness, key: str) -> None:
    headers = {"Authorization": "Bearer client-secret", "Cookie": "session=client-secret", "X-Plain": "shown"}
    made = await create(api, key, callback=callback(headers=headers))
    listed = await api.send("GET", SCHEDULES, key=key)
    got = await api.send("GET", f"{SCHEDULES}/{made['schedule_id']}", key=key)
    for shown in (made, got.json, listed.json["items"][0]):
        assert shown["callback"]["headers"] == {"Authorization": "***", "Cookie": "***", "X-Plain": "shown"}
    assert "client-secret" in api.connection.rows("schedules")[0]["headers"]


async def test_bytes_are_shown_as_base64(api: ApiHarness, key: str) -> None:
    body = base64.b64encode(b"\xff\x00\x01").decode()
    made = await create(api, key, callback=callback(body_base64=body))
    assert made["callback"]["body_base64"] == body
    assert "body" not in made["callback"]


async def test_what_became_of_it_is_shown(api: ApiHarness, key: str) -> None:
    made = await create(api, key)
    path = f"{SCHEDULES}/{made['schedule_id']}"
    await advance(api, made["schedule_id"], None, in_flight=True)
    shown = (await api.send("GET", path, key=key)).json
    assert (shown["state"], shown["in_flight"]) == ("scheduled", True)
    outcome = Outcome(
        state=State.DELIVERED,
        attempts=1,
        first_attempt_at=UnixMillis(NOW + 90_003),
        finished_at=UnixMillis(NOW + 90_050),
        last_status=200,
    )
    await advance(api, made["schedule_id"], outcome)
    shown = (await api.send("GET", path, key=key)).json
    assert (shown["state"], shown["in_flight"], shown["attempts"], shown["last_status"]) == ("delivered", False, 1, 200)
    assert shown["first_attempt_at"] == "2026-11-21T09:31:30.003Z"
    assert shown["finished_at"] == "2026-11-21T09:31:30.050Z"
    assert shown["next_attempt_at"] is None


async def test_a_retrying_one_says_when_it_is_tried_next(api: ApiHarness, key: str) -> None:
    made = await create(api, key)
    outcome = Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(NOW + 95_000), last_error="timeout")
    await advance(api, made["schedule_id"], outcome)
    shown = (await api.send("GET", f"{SCHEDULES}/{made['schedule_id']}", key=key)).json
    assert (shown["state"], shown["next_attempt_at"]) == ("retrying", "2026-11-21T09:31:35.000Z")
    assert (shown["last_error"], shown["due"]) == ("timeout", made["due"])
    cancelled = await api.send("DELETE", f"{SCHEDULES}/{made['schedule_id']}", key=key)
    assert (cancelled.status, cancelled.json["state"]) == (200, "cancelled")


async def test_cancel_and_cancel_again(api: ApiHarness, key: str) -> None:
    made = await create(api, key)
    path = f"{SCHEDULES}/{made['schedule_id']}"
    first = await api.send("DELETE", path, key=key)
    assert (first.status, first.json["state"], first.json["next_attempt_at"]) == (200, "cancelled", None)
    again = await api.send("DELETE", path, key=key)
    assert (again.status, again.json) == (200, first.json)
    assert (await api.send("GET", path, key=key)).json == first.json


async def test_cancel_too_late(api: ApiHarness, key: str) -> None:
    made = await create(api, key)
    path = f"{SCHEDULES}/{made['schedule_id']}"
    await advance(api, made["schedule_id"], None, in_flight=True)
    refused = await api.send("DELETE", path, key=key)
    assert refused.status == 409
    assert (refused.json["type"], refused.json["state"]) == ("/problems/in-flight", "scheduled")
    await advance(api, made["schedule_id"], Outcome(state=State.FAILED, attempts=1))
    refused = await api.send("DELETE", path, key=key)
    assert refused.status == 409
    assert (refused.json["type"], refused.json["state"]) == ("/problems/already-finished", "failed")


async def test_a_batch_answers_every_item_in_order(api: ApiHarness, key: str) -> None:
    items = [schedule(label=f"n{number}") for number in range(1_000)]
    items[500] = schedule(callback=callback(url="nonsense"))
    reply = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": items})
    assert reply.status == 200
    answered = reply.json["items"]
    assert [item["status"] for item in answered] == [201] * 500 + [422] + [201] * 499
    assert [item["schedule"]["label"] for item in answered if item["status"] == 201] == [
        f"n{number}" for number in range(1_000) if number != 500
    ]
    assert answered[500]["problem"]["type"] == "/problems/invalid"
    assert answered[500]["problem"]["errors"][0]["pointer"] == "/callback/url"
    assert len(api.connection.rows("schedules")) == 999


async def test_a_batch_with_an_item_of_a_wrong_type_creates_the_others(api: ApiHarness, key: str) -> None:
    raw = callback(json={"number": 1.10})
    items = [schedule(callback=raw), schedule(delay_seconds="soon"), schedule()]
    reply = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": items})
    assert [item["status"] for item in reply.json["items"]] == [201, 422, 201]
    assert reply.json["items"][0]["schedule"]["callback"]["body"] == '{"number":1.1}'


async def test_items_of_a_large_batch_that_cannot_be_read_are_refused_alone(api: ApiHarness, key: str) -> None:
    odd = {0: schedule(delay_seconds="soon"), 150: schedule(unknown=1), 299: [], 300: schedule(label="")}
    items = [odd.get(number, schedule(label=f"n{number}", callback=callback(body="x" * 400))) for number in range(350)]
    reply = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": items})
    answered = reply.json["items"]
    assert {number: item["status"] for number, item in enumerate(answered) if item["status"] != 201} == dict.fromkeys(
        odd, 422
    )
    assert [item["schedule"]["label"] for item in answered if item["status"] == 201] == [
        f"n{number}" for number in range(350) if number not in odd
    ]
    assert answered[150]["problem"]["errors"][0]["pointer"] == "/unknown"


async def test_list_pages_through_a_day(api: ApiHarness, key: str) -> None:
    items = [schedule(delay_seconds=7 * number, label="even" if number % 2 == 0 else "odd") for number in range(100)]
    await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": items})
    found: list[dict[str, Any]] = []
    query = {"from": format_instant(NOW), "to": format_instant(NOW + 600_000), "label": "even", "limit": "7"}
    while True:
        reply = await api.send("GET", SCHEDULES, key=key, params=query)
        assert reply.status == 200
        found += reply.json["items"]
        if reply.json["next_cursor"] is None:
            break
        query = {"cursor": reply.json["next_cursor"], "limit": "7"}
    expected = [format_instant(NOW + 7_000 * number) for number in range(0, 86, 2)]
    assert [item["due"] for item in found] == expected
    assert {item["label"] for item in found} == {"even"}


async def test_list_without_a_window_shows_the_next_day(api: ApiHarness, key: str) -> None:
    await create(api, key, delay_seconds=86_399)
    await create(api, key, delay_seconds=86_401)
    reply = await api.send("GET", SCHEDULES, key=key)
    assert [item["due"] for item in reply.json["items"]] == [format_instant(NOW + 86_399_000)]


async def test_a_cursor_is_good_for_its_own_listing_only(api: ApiHarness, key: str) -> None:
    other = await api.register("other")
    for _ in range(3):
        await create(api, key)
    page = (await api.send("GET", SCHEDULES, key=key, params={"limit": "1"})).json
    cursor = page["next_cursor"]
    world = {"limit": "1", "cursor": cursor}
    assert (await api.send("GET", SCHEDULES, key=key, params=world)).status == 200
    foreign = await api.send("GET", "/v1/clients/other/schedules", key=other, params=world)
    assert (foreign.status, list(foreign.faults)) == (422, ["/cursor"])
    changed = await api.send("GET", SCHEDULES, key=key, params={**world, "state": "failed", "label": "x"})
    assert (changed.status, set(changed.faults)) == (422, {"/state", "/label"})
    for position in range(0, len(cursor), 5):
        tampered = cursor[:position] + ("A" if cursor[position] != "A" else "B") + cursor[position + 1 :]
        reply = await api.send("GET", SCHEDULES, key=key, params={"cursor": tampered})
        assert (reply.status, list(reply.faults)) == (422, ["/cursor"])


async def test_a_row_that_cannot_be_decoded_fails_alone(api: ApiHarness, key: str) -> None:
    await create(api, key, delay_seconds=60)
    due = UnixMillis(NOW + 61_000)
    broken = Definition(
        client_id=ClientId("shop"),
        poller_id=PollerId(0),
        due=due,
        schedule_id=compose_schedule_id(due=due, poller_id=0, tail=1),
        method="POST",
        url="https://receiver.example/",
        headers="{not json",
        body=b"",
        options="[not options]",
        created_at=UnixMillis(NOW),
    )
    await api.storage.schedules.insert(broken)
    await create(api, key, delay_seconds=62)
    reply = await api.send("GET", SCHEDULES, key=key)
    assert [item["callback"]["headers"] for item in reply.json["items"]] == [{}, None, {}]
    assert (await api.send("GET", f"{SCHEDULES}/{broken.schedule_id}", key=key)).status == 200


@pytest.mark.parametrize("state", ["scheduled", "cancelled", "delivered"])
async def test_list_by_state(api: ApiHarness, key: str, state: str) -> None:
    kept, cancelled, delivered = [await create(api, key, delay_seconds=60 + number) for number in range(3)]
    await api.send("DELETE", f"{SCHEDULES}/{cancelled['schedule_id']}", key=key)
    await advance(api, delivered["schedule_id"], Outcome(state=State.DELIVERED, attempts=1))
    expected = {"scheduled": kept, "cancelled": cancelled, "delivered": delivered}[state]
    reply = await api.send("GET", SCHEDULES, key=key, params={"state": state})
    assert [item["schedule_id"] for item in reply.json["items"]] == [expected["schedule_id"]]


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({}, {}),
        ({"body": None, "body_base64": None}, {}),
        ({"body": ""}, {"body": ""}),
        ({"body_base64": ""}, {"body": ""}),
        ({"json": None}, {"body": "null"}),
        ({"json": ""}, {"body": '""'}),
    ],
)
async def test_a_missing_body_differs_from_an_empty_one_and_from_null(
    api: ApiHarness, key: str, sent: dict[str, Any], shown: dict[str, str]
) -> None:
    made = await create(api, key, callback=callback(**sent), retry={"max_attempts": 2})
    assert {name: value for name, value in made["callback"].items() if name.startswith("body")} == shown
    assert (await api.send("GET", f"{SCHEDULES}/{made['schedule_id']}", key=key)).json == made


async def test_a_json_of_null_is_a_body(api: ApiHarness, key: str) -> None:
    asked = schedule(callback={"url": "https://receiver.example/hook", "body": "x", "json": None})
    reply = await api.send("POST", SCHEDULES, key=key, json=asked)
    assert list(reply.faults) == ["/callback/json"]
