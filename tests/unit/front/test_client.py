"""The SDK against a scripted API: its requests, its results, its errors."""

import inspect
from datetime import UTC, datetime, timedelta, timezone

import httpx
import pytest

from minutehand import client
from minutehand.client import (
    AsyncClientScope,
    AsyncMinutehand,
    Callback,
    ClientScope,
    HealthReason,
    Minutehand,
    MinutehandApiError,
    MinutehandUnreachable,
    NewSchedule,
    Retry,
)
from tests.support.scripted_api import PROBLEM, SCHEDULE, Script, problem


def test_create_sends_only_what_is_given_and_reads_instants() -> None:
    script = Script(httpx.Response(201, json=SCHEDULE))
    due = datetime(2026, 11, 21, 10, 30, 15, tzinfo=timezone(timedelta(hours=1)))
    with script.api() as api:
        schedule = api.client("shop").schedules.create(
            Callback(url="https://a.example/", json={"order": None}), due=due, retry=Retry(max_attempts=3)
        )
    (request,) = script.requests
    assert (request.method, request.url.path) == ("POST", "/v1/clients/shop/schedules")
    assert request.headers["authorization"] == "Bearer the-key"
    assert script.sent() == {
        "callback": {"url": "https://a.example/", "json": {"order": None}},
        "due": "2026-11-21T10:30:15+01:00",
        "retry": {"max_attempts": 3},
    }
    assert schedule.due == datetime(2026, 11, 21, 9, 30, 15, 250_000, tzinfo=UTC)
    assert schedule.callback.method == "POST"


def test_bytes_go_as_base64() -> None:
    script = Script(httpx.Response(201, json=SCHEDULE))
    with script.api() as api:
        api.client("shop").schedules.create(
            Callback(url="https://a.example/", body_base64=b"\xff\x00"), delay_seconds=1
        )
    assert script.sent()["callback"]["body_base64"] == "/wA="


def test_instants_without_a_zone_are_refused_before_anything_is_sent() -> None:
    script = Script()
    naive = datetime(2026, 11, 21)
    with script.api() as api:
        with pytest.raises(ValueError, match="time zone"):
            api.client("shop").schedules.create(Callback(url="https://a.example/"), due=naive)
        with pytest.raises(ValueError, match="time zone"):
            list(api.client("shop").schedules.list(start=naive))
    assert script.requests == []


def test_a_batch_answers_item_by_item() -> None:
    items = [{"status": 201, "schedule": SCHEDULE}, {"status": 422, "problem": PROBLEM}]
    script = Script(httpx.Response(200, json={"items": items}))
    callback = Callback(url="https://a.example/")
    with script.api() as api:
        created, refused = api.client("shop").schedules.create_batch(
            [NewSchedule(callback=callback, delay_seconds=1), NewSchedule(callback=callback)]
        )
    assert script.requests[0].url.path == "/v1/clients/shop/schedules:batch"
    assert script.sent() == {
        "items": [
            {"callback": {"url": "https://a.example/"}, "delay_seconds": 1},
            {"callback": {"url": "https://a.example/"}},
        ]
    }
    assert created.schedule is not None
    assert created.problem is None
    assert refused.problem is not None
    assert refused.problem.kind == "invalid"


def test_a_list_is_read_page_by_page_and_only_as_far_as_it_is_wanted() -> None:
    script = Script(
        httpx.Response(200, json={"items": [SCHEDULE, SCHEDULE], "next_cursor": "c1"}),
        httpx.Response(200, json={"items": [], "next_cursor": "c2"}),
        httpx.Response(200, json={"items": [SCHEDULE], "next_cursor": None}),
    )
    with script.api() as api:
        found = api.client("shop").schedules.list(start="2026-11-21T09:00:00Z", state="delivered", page_size=2)
        assert script.requests == []
        assert len(list(found)) == 3
    queries = [dict(request.url.params) for request in script.requests]
    assert queries == [
        {"from": "2026-11-21T09:00:00Z", "state": "delivered", "limit": "2"},
        {"limit": "2", "cursor": "c1"},
        {"limit": "2", "cursor": "c2"},
    ]


def test_a_refusal_carries_the_whole_problem() -> None:
    script = Script(problem(422, **{"Retry-After": "3"}))
    with script.api() as api, pytest.raises(MinutehandApiError) as caught:
        api.clients.register("shop", poller_quota=1)
    error = caught.value
    assert str(error) == "2 faults were found: /due is required; / is odd"
    assert (error.status, error.kind, error.retry_after_seconds) == (422, "invalid", 3.0)
    assert error.problem.request_id == "abc"


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(502, text="<html>bad gateway</html>"),
        httpx.Response(301, headers={"Location": "https://elsewhere.test/"}),
        httpx.Response(200, text="<html>hello</html>"),
        problem(500, {"title": 3}),
    ],
)
def test_an_answer_of_another_server_is_recognised(answer: httpx.Response) -> None:
    with Script(answer).api() as api, pytest.raises(MinutehandUnreachable, match="is the address right"):
        api.clients.get("shop")


def test_no_answer_at_all() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[Errno 111] Connection refused")

    api = Minutehand("http://api.test", "k", transport=httpx.MockTransport(refuse))
    with api, pytest.raises(MinutehandUnreachable, match=r"does not answer at http://api.test \(Connection refused\)"):
        api.health()


def test_health_is_an_answer_also_when_it_is_bad() -> None:
    script = Script(
        httpx.Response(200, json={"status": "ok", "reasons": []}),
        httpx.Response(503, json={"status": "unavailable", "reasons": [{"reason": "storage-away", "detail": "why"}]}),
    )
    with script.api() as api:
        assert api.health().ready
        health = api.health()
    assert not health.ready
    assert health.reasons == (HealthReason(reason="storage-away", detail="why"),)


def test_ids_cannot_leave_their_place_in_the_path() -> None:
    script = Script(httpx.Response(204), httpx.Response(204))
    with script.api() as api:
        api.client("a/../b").keys.revoke("k?x#y")
        api.client("$cron").signing_secrets.delete("s")
        with pytest.raises(ValueError, match="empty"):
            api.client("").keys.list()
    paths = [request.url.raw_path for request in script.requests]
    assert paths == [b"/v1/clients/a%2F..%2Fb/keys/k%3Fx%23y", b"/v1/clients/$cron/signing-secrets/s"]


async def test_the_asynchronous_client_does_the_same() -> None:
    script = Script(
        httpx.Response(201, json=SCHEDULE),
        httpx.Response(200, json={"items": [SCHEDULE], "next_cursor": "c"}),
        httpx.Response(200, json={"items": [SCHEDULE]}),
        problem(409, {**PROBLEM, "status": 409, "type": "/problems/in-flight"}),
    )
    async with script.async_api() as api:
        shop = api.client("shop")
        created = await shop.schedules.create(Callback(url="https://a.example/"), delay_seconds=2.5)
        found = shop.schedules.list(state="failed", page_size=7)
        assert [one.schedule_id async for one in found] == [created.schedule_id] * 2
        with pytest.raises(MinutehandApiError) as caught:
            await shop.schedules.cancel(created.schedule_id)
    assert caught.value.kind == "in-flight"
    queries = [dict(request.url.params) for request in script.requests[1:3]]
    assert queries == [{"state": "failed", "limit": "7"}, {"limit": "7", "cursor": "c"}]
    assert script.sent() == {"callback": {"url": "https://a.example/"}, "delay_seconds": 2.5}


def methods(type_: type) -> dict[str, list[str]]:
    public = inspect.getmembers(type_, lambda member: inspect.isfunction(member))
    return {name: list(inspect.signature(it).parameters) for name, it in public if not name.startswith("_")}


async def test_both_clients_have_the_same_methods() -> None:
    plain, waiting = Minutehand("http://a", "k"), AsyncMinutehand("http://a", "k")
    pairs: list[tuple[object, object]] = [(plain, waiting), (plain.clients, waiting.clients)]
    scopes: tuple[ClientScope, AsyncClientScope] = (plain.client("a"), waiting.client("a"))
    assert vars(scopes[0]).keys() == vars(scopes[1]).keys()
    parts = ("schedules", "dead_letters", "crons", "keys", "signing_secrets")
    pairs += [(getattr(scopes[0], name), getattr(scopes[1], name)) for name in parts]
    for one, other in pairs:
        assert methods(type(one)) == methods(type(other))
    plain.close()
    await waiting.close()


@pytest.mark.parametrize("key", ["", "two words", "cl\u00e9", "copied-with-its-end\n"])
def test_a_malformed_key_is_refused_at_once(key: str) -> None:
    for class_ in (Minutehand, AsyncMinutehand):
        with pytest.raises(ValueError, match="this is no key"):
            class_("http://127.0.0.1:8080", key)


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "localhost", "", "ftp://a.example"])
def test_a_malformed_address_is_refused_at_once(url: str) -> None:
    for class_ in (Minutehand, AsyncMinutehand):
        with pytest.raises(ValueError, match="begins with http"):
            class_(url, "the-key")


def test_every_exported_name_is_there() -> None:
    assert [name for name in client.__all__ if not hasattr(client, name)] == []
