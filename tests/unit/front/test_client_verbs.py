"""The SDK's requests about existing schedules, against a scripted API: requests and results."""

import json
from datetime import UTC, datetime

import httpx
import pytest

from minutehand.client import Callback, CallbackUpdate, MinutehandApiError
from tests.support.scripted_api import ATTEMPT, EXCHANGE, LETTER, SCHEDULE, STORY, Script

ID = SCHEDULE["schedule_id"]
ONE = f"/v1/clients/shop/schedules/{ID}"


def page(*items: object, cursor: str | None = None) -> httpx.Response:
    return httpx.Response(200, json={"items": items, "next_cursor": cursor})


async def test_attempts_of_a_schedule() -> None:
    script = Script(page(ATTEMPT, {**ATTEMPT, "attempt": 3, "excerpt": None}), page(ATTEMPT))
    with script.api() as api:
        first, second = api.client("shop").schedules.attempts(str(ID))
    async with script.async_api() as waiting:
        assert await waiting.client("shop").schedules.attempts(str(ID)) == (first,)
    assert (first.duration_seconds, first.status, first.excerpt, second.attempt) == (0.012, 503, "try later", 3)
    assert first.started_at == datetime(2026, 11, 21, 9, 30, 15, 250_000, UTC)
    assert [(one.method, one.url.path) for one in script.requests] == [("GET", f"{ONE}/attempts")] * 2


async def test_the_story_of_a_schedule() -> None:
    answer = httpx.Response(200, json=STORY)
    script = Script(answer, answer)
    with script.api() as api:
        story = api.client("shop").schedules.explain(str(ID))
    async with script.async_api() as waiting:
        assert await waiting.client("shop").schedules.explain(str(ID)) == story
    assert (story.verdict, story.late_seconds, story.cause) == ("late", 5.0, "flow")
    assert [(step.step, step.seconds, step.cause) for step in story.steps] == [("waited", 4.9, "flow")]
    assert [(one.method, one.url.path) for one in script.requests] == [("GET", f"{ONE}:explain")] * 2


async def test_dead_letters_page_by_page() -> None:
    script = Script(page(LETTER, cursor="c"), page(LETTER), page(LETTER))
    start = datetime(2026, 11, 21, tzinfo=UTC)
    with script.api() as api:
        found = list(api.client("shop").dead_letters.list(start=start, end="2026-11-22T00:00:00Z", page_size=1))
    async with script.async_api() as waiting:
        assert [one async for one in waiting.client("shop").dead_letters.list()] == found[:1]
    assert [(one.schedule_id, one.reason, one.state) for one in found] == [(ID, "exhausted", "failed")] * 2
    assert [dict(one.url.params) for one in script.requests] == [
        {"from": "2026-11-21T00:00:00+00:00", "to": "2026-11-22T00:00:00Z", "limit": "1"},
        {"limit": "1", "cursor": "c"},
        {},
    ]


async def test_redeliver() -> None:
    shown = {**SCHEDULE, "redelivered_at": "2026-11-21T09:31:00.000Z"}
    script = Script(httpx.Response(202, json=shown), httpx.Response(202, json=shown))
    with script.api() as api:
        found = api.client("shop").schedules.redeliver(str(ID))
    async with script.async_api() as waiting:
        assert await waiting.client("shop").schedules.redeliver(str(ID)) == found
    assert found.redelivered_at == datetime(2026, 11, 21, 9, 31, tzinfo=UTC)
    assert [(one.method, one.url.path, one.content) for one in script.requests] == [
        ("POST", f"{ONE}:redeliver", b"")
    ] * 2


async def test_redeliver_a_window_step_by_step() -> None:
    first = {"redelivered": 5, "passed_over": 1, "next_cursor": "c"}
    script = Script(httpx.Response(200, json=first), httpx.Response(200, json={**first, "next_cursor": None}))
    with script.api() as api:
        done = api.client("shop").dead_letters.redeliver(start=datetime(2026, 11, 21, tzinfo=UTC), limit=6)
    async with script.async_api() as waiting:
        last = await waiting.client("shop").dead_letters.redeliver(cursor=done.next_cursor)
    assert (done.redelivered, done.passed_over, done.next_cursor, last.next_cursor) == (5, 1, "c", None)
    assert {one.url.path for one in script.requests} == {"/v1/clients/shop/dead-letters:redeliver"}
    assert (script.sent(), script.sent(1)) == ({"from": "2026-11-21T00:00:00+00:00", "limit": 6}, {"cursor": "c"})


async def test_letters_are_selected_by_id_or_by_filters() -> None:
    item = {"letter_id": "one@1", "status": 200, "acknowledged_at": "2026-11-21T09:31:00Z", "acknowledged_by": "k"}
    done = {"acknowledged": 1, "items": [item], "next_cursor": None}
    script = Script(*[httpx.Response(200, json=done) for _ in range(2)], httpx.Response(200, json={"items": []}))
    with script.api() as api:
        letters = api.client("shop").dead_letters
        found = letters.acknowledge(letter_ids=["one@1"])
        assert list(letters.acknowledge(status=503, host="shop.example", destination="shop", limit=6).items) == list(
            found.items
        )
        assert list(letters.list(acknowledged="any", status="5xx", error="timeout")) == []
    assert (found.items[0].acknowledged_by, found.acknowledged) == ("k", 1)
    assert script.sent() == {"letter_ids": ["one@1"]}
    assert script.sent(1) == {"status": "503", "host": "shop.example", "destination": "shop", "limit": 6}
    assert {one.url.path for one in script.requests[:2]} == {"/v1/clients/shop/dead-letters:acknowledge"}
    assert dict(script.requests[2].url.params) == {"acknowledged": "any", "status": "5xx", "error": "timeout"}


async def test_reschedule_a_window_page_by_page() -> None:
    moved = {"schedule_id": "a", "status": 200, "state": "cancelled", "rescheduled_to": "b"}
    stays = {"schedule_id": "c", "status": 409, "state": "scheduled"}
    script = Script(
        httpx.Response(200, json={"items": [moved], "next_cursor": "c"}),
        httpx.Response(200, json={"items": [stays], "next_cursor": None}),
        httpx.Response(200, json={"items": [moved], "next_cursor": None}),
    )
    window = {"start": "2026-11-21T09:00:00Z", "end": "2026-11-21T10:00:00Z"}
    with script.api() as api:
        schedules = api.client("shop").schedules
        found = schedules.reschedule_window(**window, shift_seconds=-60.5, label=["x", "y"], host=None)
    async with script.async_api() as waiting:
        again = await waiting.client("shop").schedules.reschedule_window(
            **window, due="2026-11-22T09:00:00Z", window_seconds=60, idempotency_key="k"
        )
    assert [(one.rescheduled, one.rescheduled_to, one.state) for one in found] == [
        (True, "b", "cancelled"),
        (False, None, "scheduled"),
    ]
    assert again == found[:1]
    asked = {"from": window["start"], "to": window["end"]}
    assert [script.sent(number) for number in range(3)] == [
        {**asked, "shift_seconds": -60.5, "label": ["x", "y"]},
        {"cursor": "c"},
        {**asked, "due": "2026-11-22T09:00:00Z", "window_seconds": 60},
    ]
    assert [one.headers.get("Idempotency-Key") for one in script.requests] == [None, None, "k"]
    assert {one.url.path for one in script.requests} == {"/v1/clients/shop/schedules:reschedule"}


def test_a_refused_cancel_names_the_schedule_that_is_called_instead() -> None:
    problem = {"type": "/problems/rescheduled", "title": "t", "status": 409, "rescheduled_to": "the-new-one"}
    refusal = httpx.Response(409, json=problem, headers={"Content-Type": "application/problem+json"})
    with Script(refusal).api() as api, pytest.raises(MinutehandApiError) as refused:
        api.client("shop").schedules.cancel("a")
    assert (refused.value.kind, refused.value.problem.rescheduled_to) == ("rescheduled", "the-new-one")


async def test_cancel_many_by_id_and_by_window() -> None:
    gone = {"schedule_id": ID, "status": 200, "state": "cancelled"}
    left = {"schedule_id": ID, "status": 404, "state": None}
    script = Script(page(gone, left), page(gone, cursor="c"), page(left), page(gone), page(gone))
    start, end = datetime(2026, 11, 21, tzinfo=UTC), "2026-11-22T00:00:00Z"
    with script.api() as api:
        schedules = api.client("shop").schedules
        found = schedules.cancel_many(["a", "b"])
        assert schedules.cancel_window(start=start, end=end, label="x") == found
    async with script.async_api() as waiting:
        assert await waiting.client("shop").schedules.cancel_many(["a"]) == found[:1]
        assert await waiting.client("shop").schedules.cancel_window(start=start, end=end) == found[:1]
    assert [one.cancelled for one in found] == [True, False]
    window = {"from": "2026-11-21T00:00:00+00:00", "to": end}
    sent = [{"schedule_ids": ["a", "b"]}, {**window, "label": "x"}, {"cursor": "c"}, {"schedule_ids": ["a"]}, window]
    assert [script.sent(number) for number in range(5)] == sent
    assert {(one.method, one.url.path) for one in script.requests} == {("POST", "/v1/clients/shop/schedules:cancel")}


async def test_filters_are_sent_as_parameters_and_as_fields() -> None:
    script = Script(page(), httpx.Response(200, json={"count": 3, "next_cursor": "c"}))
    script.answers += [httpx.Response(200, json={"count": 5, "next_cursor": None}), page(), page()]
    with script.api() as api:
        schedules = api.client("shop").schedules
        assert list(schedules.list(label=["a", "b&c"], state="failed", host="a.example")) == []
        assert schedules.count(start="2026-11-21T00:00:00Z", label=["a", "b"], key_prefix="cart-") == 5
        assert schedules.cancel_window(start="x", end="y", label=["a"], destination="mail", cron_id=None) == ()
    asked = [str(one.url.query, "ascii") for one in script.requests]
    assert asked == [
        "label=a&label=b%26c&state=failed&host=a.example",
        "from=2026-11-21T00%3A00%3A00Z&label=a&label=b&key_prefix=cart-",
        "cursor=c",
        "",
    ]
    assert script.requests[1].url.path == "/v1/clients/shop/schedules:count"
    assert script.sent(3) == {"from": "x", "to": "y", "label": ["a"], "destination": "mail"}


async def test_reschedule() -> None:
    shown = {**SCHEDULE, "rescheduled_from": "the-old-one"}
    script = Script(httpx.Response(201, json=shown), httpx.Response(201, json=shown))
    with script.api() as api:
        found = api.client("shop").schedules.reschedule(str(ID), due=datetime(2026, 11, 22, tzinfo=UTC))
    async with script.async_api() as waiting:
        other = Callback(url="https://b.example/")
        asked = waiting.client("shop").schedules.reschedule(str(ID), delay_seconds=5, callback=other)
        assert await asked == found
    assert found.rescheduled_from == "the-old-one"
    assert {one.url.path for one in script.requests} == {f"{ONE}:reschedule"}
    assert script.sent() == {"due": "2026-11-22T00:00:00+00:00"}
    assert script.sent(1) == {"delay_seconds": 5, "callback": {"url": "https://b.example/"}}


async def test_update_run_and_preview() -> None:
    shown = {**SCHEDULE, "rescheduled_from": "the-old-one"}
    request = {"url": "https://a.example/", "method": "POST", "headers": {"webhook-id": "x"}, "body": "{}"}
    script = Script(*(httpx.Response(200, json=shown) for _ in range(3)), httpx.Response(200, json=request))
    with script.api() as api:
        schedules = api.client("shop").schedules
        change = CallbackUpdate(headers={"X-A": "1", "X-B": None}, json=None)
        found = schedules.update(str(ID), delay_seconds=5, callback=change, label=None, timeout_seconds=3)
        assert schedules.update(str(ID), idempotency_key="mine") == found
    async with script.async_api() as waiting:
        assert await waiting.client("shop").schedules.run(str(ID)) == found
        assert (await waiting.client("shop").schedules.preview(str(ID))).body == "{}"
    assert [(one.method, one.url.path) for one in script.requests] == [
        ("PATCH", ONE),
        ("PATCH", ONE),
        ("POST", f"{ONE}:run"),
        ("POST", f"{ONE}:preview"),
    ]
    assert script.sent() == {
        "delay_seconds": 5,
        "callback": {"headers": {"X-A": "1", "X-B": None}, "json": None},
        "label": None,
        "timeout_seconds": 3,
    }
    assert script.sent(1) == {}
    assert script.requests[1].headers["Idempotency-Key"] == "mine"


async def test_a_trial_call_is_sent_and_its_exchange_read() -> None:
    script = Script(httpx.Response(200, json=EXCHANGE), httpx.Response(200, json=EXCHANGE))
    callback = Callback(url="https://a.example/", json={"a": 1})
    with script.api() as api:
        found = api.client("shop").trial_call(callback)
    async with script.async_api() as waiting:
        assert await waiting.client("shop").trial_call(callback, timeout_seconds=3) == found
    assert (found.delivered, found.status, found.connected_to) == (True, 204, "203.0.113.7:443")
    assert (found.times.secured_seconds, found.times.ended_seconds) == (None, 0.05)
    assert (found.request.headers or {})["Minutehand-Trial"] == "true"
    assert [one.url.path for one in script.requests] == ["/v1/clients/shop/callbacks:try"] * 2
    assert [json.loads(one.content) for one in script.requests] == [
        {"callback": {"url": "https://a.example/", "json": {"a": 1}}},
        {"callback": {"url": "https://a.example/", "json": {"a": 1}}, "timeout_seconds": 3},
    ]
