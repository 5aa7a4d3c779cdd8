"""The SDK's crons against a scripted API: requests and results."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from minutehand.client import AsyncClientScope, Callback, ClientScope, Dst, MinutehandApiError, Retry
from tests.support.scripted_api import BACKFILLED, CRON, CRON_CHANGE, PREVIEW, RUN, SCHEDULE, Script, problem

CALLBACK = Callback(url="https://a.example/")
RULE = {"expression": "30 2 * * *", "timezone": "Europe/Berlin"}


def test_put_sends_only_what_is_given_and_reads_instants() -> None:
    script = Script(httpx.Response(201, json=CRON), httpx.Response(200, json=CRON))
    ends_at = datetime(2027, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    with script.api() as api:
        crons = api.client("shop").crons
        crons.put("nightly", CALLBACK, expression="30 2 * * *", timezone="Europe/Berlin")
        cron = crons.put(
            "nightly",
            CALLBACK,
            expression="30 2 * * *",
            timezone="Europe/Berlin",
            ends_at=ends_at,
            max_fires=10,
            pause_after_failures=3,
            dst=Dst(gap="skip"),
            retry=Retry(max_attempts=3),
        )
    assert [(one.method, one.url.path) for one in script.requests] == [("PUT", "/v1/clients/shop/crons/nightly")] * 2
    least = {**RULE, "callback": {"url": "https://a.example/"}}
    assert script.sent() == least
    assert script.sent(1) == {
        **least,
        "ends_at": "2027-01-01T01:00:00+01:00",
        "max_fires": 10,
        "pause_after_failures": 3,
        "dst": {"gap": "skip"},
        "retry": {"max_attempts": 3},
    }
    assert cron.ends_at == ends_at
    assert cron.next_fires[0] == datetime(2026, 11, 22, 1, 30, tzinfo=UTC)
    assert (cron.dst, cron.retry) == (Dst(gap="shift", fold="first"), Retry(max_attempts=3))


def test_pauses_carry_a_note_and_go_through_all_pages() -> None:
    pause = {"at": "2026-11-21T09:10:00.000Z", "by": "request", "note": "moving"}
    script = Script(
        httpx.Response(200, json={**CRON, "state": "paused", "pause": pause}),
        httpx.Response(200, json={"items": [CRON_CHANGE], "next_cursor": "more"}),
        httpx.Response(200, json={"items": [{**CRON_CHANGE, "status": 409}], "next_cursor": None}),
        httpx.Response(200, json={"items": [], "next_cursor": None}),
    )
    with script.api() as api:
        crons = api.client("shop").crons
        paused = crons.pause("nightly", note="moving")
        changes = crons.pause_all(label="books", note="moving", dry_run=True)
        assert crons.resume_all(label="books") == ()
    assert paused.pause is not None
    assert (paused.pause.note, paused.pause.at) == ("moving", datetime(2026, 11, 21, 9, 10, tzinfo=UTC))
    assert [one.status for one in changes] == [200, 409]
    asked = {"label": "books", "note": "moving", "dry_run": True}
    assert [script.sent(at) for at in range(4)] == [
        {"note": "moving"},
        asked,
        {**asked, "cursor": "more"},
        {"label": "books"},
    ]
    assert [one.url.path.rsplit("/", 1)[1] for one in script.requests[1:]] == [
        "crons:pause",
        "crons:pause",
        "crons:resume",
    ]


def test_a_backfill_goes_through_all_pages_of_one_range() -> None:
    script = Script(
        httpx.Response(200, json={"items": [BACKFILLED], "next_cursor": "more"}),
        httpx.Response(200, json={"items": [{**BACKFILLED, "status": 409, "due": None}], "next_cursor": None}),
    )
    start, end = datetime(2026, 11, 20, tzinfo=UTC), "2026-11-21T00:00:00Z"
    with script.api() as api:
        items = api.client("shop").crons.backfill("nightly", start=start, end=end, dry_run=True)
    assert [one.called for one in items] == [True, False]
    assert items[0].due == datetime(2026, 11, 21, 9, 30, 0, 120_000, tzinfo=UTC)
    asked = {"from": "2026-11-20T00:00:00+00:00", "to": end, "dry_run": True}
    assert [script.sent(), script.sent(1)] == [asked, {**asked, "cursor": "more"}]
    assert script.requests[0].url.path == "/v1/clients/shop/crons/nightly:backfill"


def test_instants_without_a_zone_are_refused_before_anything_is_sent() -> None:
    script = Script()
    naive = datetime(2026, 11, 21)
    with script.api() as api:
        crons = api.client("shop").crons
        with pytest.raises(ValueError, match="time zone"):
            crons.put("nightly", CALLBACK, expression="@daily", timezone="UTC", starts_at=naive)
        with pytest.raises(ValueError, match="time zone"):
            list(crons.runs("nightly", start=naive))
        with pytest.raises(ValueError, match="time zone"):
            api.preview_cron("@daily", timezone="UTC", start=naive)
    assert script.requests == []


VERBS = {
    "get": ("GET", ""),
    "pause": ("POST", ":pause"),
    "resume": ("POST", ":resume"),
    "delete": ("DELETE", ""),
    "trigger": ("POST", ":trigger"),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_every_verb_of_both_clients(verb: str) -> None:
    method, ending = VERBS[verb]
    shown = SCHEDULE if verb == "trigger" else CRON
    script = Script(httpx.Response(200, json=shown), httpx.Response(200, json=shown))
    plain, waiting = script.api(), script.async_api()
    scopes: tuple[ClientScope, AsyncClientScope] = (plain.client("shop"), waiting.client("shop"))
    answers: list[Any] = [getattr(scopes[0].crons, verb)("nightly"), await getattr(scopes[1].crons, verb)("nightly")]
    assert answers[0] == answers[1]
    assert answers[0].client_id == "shop"
    path = f"/v1/clients/shop/crons/nightly{ending}"
    assert [(one.method, one.url.path, one.content) for one in script.requests] == [(method, path, b"")] * 2
    plain.close()
    await waiting.close()


def page(item: object, cursor: str | None) -> httpx.Response:
    return httpx.Response(200, json={"items": [item] * 2, "next_cursor": cursor})


async def test_lists_are_read_page_by_page() -> None:
    pages = [(CRON, "c"), (CRON, None), (RUN, "r"), (RUN, None)] * 2
    script = Script(*(page(item, cursor) for item, cursor in pages))
    start = datetime(2026, 11, 1, tzinfo=UTC)
    with script.api() as api:
        crons = api.client("shop").crons
        assert [one.cron_id for one in crons.list(page_size=2)] == ["nightly"] * 4
        found = crons.runs("nightly", start=start, end="2026-11-30T00:00:00Z", page_size=2)
        assert len(script.requests) == 2
        assert [(one.state, one.last_status, one.triggered) for one in found] == [("failed", 503, False)] * 4
    async with script.async_api() as waiting:
        others = waiting.client("shop").crons
        assert len([one async for one in others.list(page_size=2)]) == 4
        runs = others.runs("nightly", start=start, end="2026-11-30T00:00:00Z", page_size=2)
        assert len([one async for one in runs]) == 4
    asked = [(one.url.path.removeprefix("/v1/clients/shop"), dict(one.url.params)) for one in script.requests]
    assert asked[:4] == asked[4:]
    assert asked[:4] == [
        ("/crons", {"limit": "2"}),
        ("/crons", {"limit": "2", "cursor": "c"}),
        ("/crons/nightly/runs", {"from": "2026-11-01T00:00:00+00:00", "to": "2026-11-30T00:00:00Z", "limit": "2"}),
        ("/crons/nightly/runs", {"limit": "2", "cursor": "r"}),
    ]


async def test_a_preview_belongs_to_no_client() -> None:
    script = Script(httpx.Response(200, json=PREVIEW), httpx.Response(200, json=PREVIEW))
    with script.api() as api:
        found = api.preview_cron(
            "0 9 * * mon-fri", timezone="UTC", dst=Dst(fold="both"), start="2026-11-22T00:00:00Z", count=1
        )
    async with script.async_api() as waiting:
        assert await waiting.preview_cron("@daily", timezone="UTC") == found
    assert found.next_fires == (datetime(2026, 11, 23, 9, tzinfo=UTC),)
    assert [(one.method, one.url.path) for one in script.requests] == [("POST", "/v1/crons:preview")] * 2
    assert script.sent() == {
        "expression": "0 9 * * mon-fri",
        "timezone": "UTC",
        "dst": {"fold": "both"},
        "from": "2026-11-22T00:00:00Z",
        "count": 1,
    }
    assert script.sent(1) == {"expression": "@daily", "timezone": "UTC"}


def test_a_refusal_is_an_error_and_nothing_is_repeated() -> None:
    script = Script(problem(503, {"type": "/problems/storage-unavailable", "title": "t", "status": 503}))
    with script.api() as api, pytest.raises(MinutehandApiError) as caught:
        api.client("shop").crons.trigger("nightly")
    assert caught.value.kind == "storage-unavailable"
    assert len(script.requests) == 1


def test_ids_cannot_leave_their_place_in_the_path() -> None:
    script = Script(httpx.Response(200, json=CRON))
    with script.api() as api:
        api.client("shop").crons.pause("a/../b?c#d")
        with pytest.raises(ValueError, match="empty"):
            api.client("shop").crons.get("")
    assert script.requests[0].url.raw_path == b"/v1/clients/shop/crons/a%2F..%2Fb%3Fc%23d:pause"
