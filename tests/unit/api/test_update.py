"""Updates over REST: a waiting schedule goes on with what was changed, and exactly one of old and new is called."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from scheduler_service.domain.ids import ScheduleId, UnixMillis, partition_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.retry_rows import definition_of
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ApiHarness, Reply
from tests.support.outcomes import SHOP, created, ended, record, row_of

SCHEDULES = "/v1/clients/shop/schedules"
LATER = format_instant(NOW + 7_200_000)


async def update(api: ApiHarness, key: str, schedule_id: object, **body: object) -> Reply:
    return await api.send("PATCH", f"{SCHEDULES}/{schedule_id}", key=key, json=body)


async def run(api: ApiHarness, key: str, schedule_id: object) -> Reply:
    return await api.send("POST", f"{SCHEDULES}/{schedule_id}:run", key=key)


async def shown(api: ApiHarness, key: str, schedule_id: object) -> dict[str, Any]:
    return dict((await api.send("GET", f"{SCHEDULES}/{schedule_id}", key=key)).json)


FIELDS = ("due", "nominal_due", "callback", "label", "ordering_key", "retry", "timeout_seconds", "skip_after_seconds")


def called(view: dict[str, Any]) -> dict[str, Any]:
    """What the call would be."""
    return {name: view.get(name) for name in FIELDS}


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        ({"label": "y"}, {"label": "y"}),
        ({"label": None}, {"label": None}),
        ({"timeout_seconds": 3}, {"timeout_seconds": 3}),
        ({"timeout_seconds": None}, {"timeout_seconds": None}),
        ({"skip_after_seconds": 9}, {"skip_after_seconds": 9}),
        ({"retry": {"max_attempts": 2}}, {"retry": {"max_attempts": 2}}),
        ({"retry": None}, {"retry": None}),
        ({"due": LATER}, {"due": LATER}),
    ],
)
async def test_an_update_changes_named_fields_only(
    api: ApiHarness, key: str, change: dict[str, Any], becomes: dict[str, Any]
) -> None:
    one = await created(
        api, key, label="x", ordering_key="order", timeout_seconds=2.5, skip_after_seconds=7, retry={"max_attempts": 9}
    )
    before = await shown(api, key, one)
    reply = await update(api, key, one, **change)
    assert reply.status == 200, reply.body
    new = reply.json
    assert called(new) == called(before) | becomes
    assert (new["rescheduled_from"], new["state"], new["poller_id"]) == (str(one), "scheduled", before["poller_id"])
    assert reply.headers["Location"] == f"{SCHEDULES}/{new['schedule_id']}"
    assert await shown(api, key, new["schedule_id"]) == new
    old = await shown(api, key, one)
    assert (old["state"], old["rescheduled_to"]) == ("cancelled", new["schedule_id"])


BEFORE = {
    "url": "https://shop.example/a",
    "method": "PUT",
    "headers": {"X-One": "1", "X-Two": "2", "Content-Type": "text/csv"},
    "body": "a,b",
}


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        ({"url": "https://shop.example/b"}, {"url": "https://shop.example/b"}),
        ({"method": "POST"}, {"method": "POST"}),
        (
            {"headers": {"x-one": "7", "X-Two": None, "X-Three": "3"}},
            {"headers": {"x-one": "7", "Content-Type": "text/csv", "X-Three": "3"}},
        ),
        (
            {"json": {"n": 1}},
            {"body": '{"n":1}', "headers": {"X-One": "1", "X-Two": "2", "content-type": "application/json"}},
        ),
        (
            {"body": "c", "headers": {"Content-Type": "text/plain"}},
            {"body": "c", "headers": {"X-One": "1", "X-Two": "2", "Content-Type": "text/plain"}},
        ),
        ({"json": None}, {"body": "null", "headers": {"X-One": "1", "X-Two": "2", "content-type": "application/json"}}),
        ({"body": ""}, {"body": "", "headers": {"X-One": "1", "X-Two": "2"}}),
        ({"body_base64": "/w=="}, {"body": None, "body_base64": "/w==", "headers": {"X-One": "1", "X-Two": "2"}}),
        ({"body": None}, {"body": None, "headers": {"X-One": "1", "X-Two": "2"}}),
    ],
)
async def test_a_callback_is_merged(api: ApiHarness, key: str, change: dict[str, Any], becomes: dict[str, Any]) -> None:
    one = await created(api, key, callback=BEFORE)
    reply = await update(api, key, one, callback=change)
    assert reply.status == 200, reply.body
    expected = {name: value for name, value in (BEFORE | becomes).items() if value is not None}
    assert reply.json["callback"] == expected
    # The merge starts from what is stored, whatever form the first body had.
    again = await update(api, key, reply.json["schedule_id"], callback={"url": "https://shop.example/c"})
    assert again.json["callback"] == expected | {"url": "https://shop.example/c"}


FLOW = {"flow_key": "customer-7", "flow_rate": 2.0, "flow_parallelism": 1}


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        ({"url": "https://shop.example/b"}, FLOW),
        ({"flow_rate": 3}, FLOW | {"flow_rate": 3.0}),
        ({"flow_parallelism": None}, FLOW | {"flow_parallelism": None}),
        ({"flow_key": "customer-8"}, FLOW | {"flow_key": "customer-8"}),
        ({"flow_key": None}, dict.fromkeys(FLOW)),
    ],
)
async def test_a_flow_key_is_merged_too_and_decides_the_poller(
    api: ApiHarness, key: str, change: dict[str, Any], becomes: dict[str, Any]
) -> None:
    one = await created(api, key, callback={"url": "https://shop.example/", **FLOW})
    new = (await update(api, key, one, callback=change)).json
    assert {name: new.get(name, new["callback"].get(name)) for name in FLOW} == becomes
    if becomes["flow_key"] is not None:
        like = await created(api, key, callback={"url": "https://shop.example/", "flow_key": becomes["flow_key"]})
        assert (await shown(api, key, like))["poller_id"] == new["poller_id"]


async def test_an_empty_body_that_was_asked_for_stays_one(api: ApiHarness, key: str) -> None:
    one = await created(api, key, callback={"url": "https://shop.example/", "body": ""})
    reply = await update(api, key, one, callback={"method": "PUT"})
    assert reply.json["callback"]["body"] == ""


async def test_credentials_stay_without_being_shown(api: ApiHarness, key: str) -> None:
    one = await created(
        api, key, callback={"url": "https://shop.example/", "headers": {"Authorization": "Bearer s3cret"}}
    )
    reply = await update(api, key, one, callback={"url": "https://shop.example/b"})
    assert b"s3cret" not in reply.body
    new = UUID(reply.json["schedule_id"])
    stored = await row_of(api, new)
    assert "s3cret" in (stored.headers or "")


async def test_an_update_that_changes_nothing_writes_nothing(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x", callback=BEFORE)
    before = await shown(api, key, one)
    for change in (
        {},
        {"label": "x"},
        {"due": before["due"]},
        {"retry": None, "timeout_seconds": None},
        {"callback": {"url": BEFORE["url"], "headers": {"X-One": "1", "X-Gone": None}}},
    ):
        reply = await update(api, key, one, **change)
        assert (reply.status, reply.json) == (200, before), change


async def test_a_repeat_gets_the_same_schedule_and_another_update_is_refused(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    first = await update(api, key, one, label="y", delay_seconds=300)
    api.clock.advance(20)
    again = await update(api, key, one, label="y", delay_seconds=300)
    assert (again.status, again.json) == (200, first.json)
    other = await update(api, key, one, label="z")
    assert (other.status, other.json["type"]) == (409, "/problems/rescheduled")
    assert other.json["rescheduled_to"] == first.json["schedule_id"]


async def test_a_retried_schedule_keeps_its_next_attempt(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    at = UnixMillis(NOW + 500_000)
    await record(api, one, Outcome(state=State.RETRYING, attempts=3, next_attempt_at=at))
    reply = await update(api, key, one, callback={"url": "https://other.example/"})
    assert (reply.status, reply.json["due"], reply.json["attempts"]) == (200, format_instant(at), 0)
    assert (await shown(api, key, one))["state"] == "cancelled"


async def test_what_is_being_called_or_has_ended_is_refused(api: ApiHarness, key: str) -> None:
    flying, done, gone = [await created(api, key) for _ in range(3)]
    await record(api, flying, None, in_flight=True)
    await ended(api, done, State.DELIVERED)
    await api.send("DELETE", f"{SCHEDULES}/{gone}", key=key)
    for one, kind, state in (
        (flying, "in-flight", "scheduled"),
        (done, "already-finished", "delivered"),
        (gone, "already-finished", "cancelled"),
    ):
        for reply in (await update(api, key, one, label="y"), await run(api, key, one)):
            assert (reply.status, reply.json["type"], reply.json["state"]) == (409, f"/problems/{kind}", state)
    missing = await update(api, key, UUID(int=1), label="y")
    assert missing.status == 404


async def test_all_faults_are_named_and_nothing_is_stored(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    before = await shown(api, key, one)
    reply = await update(
        api,
        key,
        one,
        delay_seconds=-1,
        callback={"url": "ftp://x", "method": "BREW", "headers": {"Host": "x"}, "body": "a", "body_base64": "!"},
    )
    assert reply.status == 422
    pointers = {fault["pointer"] for fault in reply.json["errors"]}
    assert pointers >= {
        "/delay_seconds",
        "/callback/url",
        "/callback/method",
        "/callback/headers/Host",
        "/callback/body_base64",
    }
    wrong = await update(api, key, one, label=7, timeout_seconds=1000, unknown=1, delay_seconds=-1)
    assert {fault["pointer"] for fault in wrong.json["errors"]} == {
        "/label",
        "/timeout_seconds",
        "/unknown",
        "/delay_seconds",
    }
    assert await shown(api, key, one) == before


async def test_a_key_follows(api: ApiHarness, key: str) -> None:
    put = await api.send(
        "PUT",
        f"{SCHEDULES}/by-key/cart-17",
        key=key,
        json={"delay_seconds": 600, "callback": {"url": "https://shop.example/"}},
    )
    reply = await update(api, key, put.json["schedule_id"], label="y")
    assert (reply.status, reply.json["key"]) == (200, "cart-17")
    named = await api.send("GET", f"{SCHEDULES}/by-key/cart-17", key=key)
    assert named.json["schedule_id"] == reply.json["schedule_id"]


async def test_a_run_is_due_now_and_happens_once(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x")
    first = await run(api, key, one)
    assert (first.status, first.json["due"], first.json["label"]) == (201, format_instant(NOW), "x")
    api.clock.advance(1)
    again = await run(api, key, one)
    assert (again.status, again.json) == (201, first.json)
    assert (await shown(api, key, one))["state"] == "cancelled"


async def test_under_an_idempotency_key_a_repeat_is_answered_as_such(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    for verb, path, body in (("PATCH", "", {"label": "y"}), ("POST", ":run", None)):
        headers = {"Idempotency-Key": f"{verb}-1"}
        first, again = [
            await api.send(verb, f"{SCHEDULES}/{one}{path}", key=key, json=body, headers=headers)
            if body is not None
            else await api.send(verb, f"{SCHEDULES}/{one}{path}", key=key, headers=headers)
            for _ in range(2)
        ]
        assert again.json == first.json
        assert again.headers.get("Idempotency-Replayed") == "true"
        one = UUID(first.json["schedule_id"])


async def test_stored_content_that_cannot_be_read_is_not_merged(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await spoil(api, one)
    reply = await update(api, key, one, callback={"url": "https://shop.example/b"})
    assert (reply.status, [fault["pointer"] for fault in reply.json["errors"]]) == (422, ["/callback"])
    shown = await api.send("POST", f"{SCHEDULES}/{one}:preview", key=key)
    assert (shown.status, shown.json["type"]) == (409, "/problems/undecodable")
    assert (await update(api, key, one, label="y")).status == 200


async def spoil(api: ApiHarness, schedule_id: UUID) -> None:
    """The row's headers are no JSON."""
    known = definition_of(partition_of(SHOP, ScheduleId(schedule_id)), await row_of(api, schedule_id))
    await api.storage.schedules.insert(msgspec.structs.replace(known, headers="no JSON"))
