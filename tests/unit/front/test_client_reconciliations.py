"""The SDK's reconciliations against a scripted API: requests and results."""

from datetime import UTC, datetime

import httpx
import pytest

from minutehand.client import Reconciliation
from tests.support.scripted_api import RECONCILED, RECONCILIATION, Script

ID = str(RECONCILIATION["reconciliation_id"])
ALL = "/v1/clients/shop/reconciliations"
START = datetime(2026, 11, 21, 9, tzinfo=UTC)


def shown(**fields: object) -> httpx.Response:
    return httpx.Response(200, json={**RECONCILIATION, **fields})


async def test_create() -> None:
    script = Script(shown(), shown())
    with script.api() as api:
        found = api.client("shop").reconciliations.create(
            "redeliver", start=START, end="2026-11-21T10:00:00Z", states=["failed"]
        )
    async with script.async_api() as waiting:
        assert (
            await waiting.client("shop").reconciliations.create(
                "redeliver", start=START, end="2026-11-21T10:00:00Z", states=("failed",)
            )
            == found
        )
    window = {"from": "2026-11-21T09:00:00+00:00", "to": "2026-11-21T10:00:00Z"}
    assert script.sent() == script.sent(1) == {**window, "states": ["failed"], "action": "redeliver"}
    assert {(one.method, one.url.path) for one in script.requests} == {("POST", ALL)}
    assert (found.start, found.states, found.progress.minutes_done, found.running) == (START, ("failed",), 3, True)
    assert (found.seen, found.outcomes) == ({"failed": 8}, {"redelivered": 7, "gone": 1})


async def test_filters_are_sent_and_shown() -> None:
    filters = {"label": ["a", "b"], "host": "a.example"}
    script = Script(shown(filters=filters), shown())
    with script.api() as api:
        reconciliations = api.client("shop").reconciliations
        asked = {"start": START, "end": "2026-11-21T10:00:00Z", "states": ["failed"]}
        found = reconciliations.create("report", **asked, label=["a", "b"], host="a.example", cron_id=None)
        assert reconciliations.get(ID).filters == {}
    assert found.filters == filters
    assert {name: script.sent()[name] for name in ("label", "host")} == filters
    assert "cron_id" not in script.sent()


async def test_a_window_without_a_zone_is_refused() -> None:
    with Script().api() as api, pytest.raises(ValueError, match="no time zone"):
        api.client("shop").reconciliations.create(
            "report", start=START.replace(tzinfo=None), end="x", states=["failed"]
        )


async def test_look_list_and_stop() -> None:
    first, last, other = (
        httpx.Response(200, json={"items": [RECONCILIATION], "next_cursor": cursor}) for cursor in ("c", None, None)
    )
    script = Script(shown(), first, last, shown(state="stopped"), shown(), other, shown(state="stopped"))
    with script.api() as api:
        reconciliations = api.client("shop").reconciliations
        found = reconciliations.get(ID)
        assert list(reconciliations.list(page_size=1)) == [found, found]
        assert reconciliations.stop(ID).state == "stopped"
    async with script.async_api() as waiting:
        same = waiting.client("shop").reconciliations
        assert await same.get(ID) == found
        assert [one async for one in same.list()] == [found]
        assert (await same.stop(ID)).running is False
    sent = [(one.method, one.url.path, dict(one.url.params)) for one in script.requests]
    one = [("GET", f"{ALL}/{ID}", {}), ("GET", ALL, {"limit": "1"}), ("GET", ALL, {"limit": "1", "cursor": "c"})]
    stop = ("POST", f"{ALL}/{ID}:stop", {})
    assert sent == [*one, stop, one[0], ("GET", ALL, {}), stop]


async def test_what_was_done_to_schedules_page_by_page() -> None:
    first, last, other = (
        httpx.Response(200, json={"items": [RECONCILED], "next_cursor": cursor}) for cursor in ("c", None, None)
    )
    script = Script(first, last, other)
    with script.api() as api:
        found = list(api.client("shop").reconciliations.schedules(ID, outcome="open", page_size=1))
    async with script.async_api() as waiting:
        assert [one async for one in waiting.client("shop").reconciliations.schedules(ID)] == found[1:]
    assert [(one.schedule_id, one.outcome, one.reason, one.due) for one in found[:1]] == [
        (RECONCILED["schedule_id"], "open", "retrying", START)
    ]
    assert [dict(one.url.params) for one in script.requests] == [
        {"outcome": "open", "limit": "1"},
        {"limit": "1", "cursor": "c"},
        {},
    ]
    assert {one.url.path for one in script.requests} == {f"{ALL}/{ID}/schedules"}


async def test_wait_until_it_runs_no_more() -> None:
    steps: list[dict[str, object]] = [{}, {"outcomes": {"redelivered": 9}}, {"state": "finished"}]
    script, told = Script(*(shown(**step) for step in steps * 2)), list[Reconciliation]()
    with script.api() as api:
        found = api.client("shop").reconciliations.wait(ID, every_seconds=0, on_progress=told.append)
    async with script.async_api() as waiting:
        assert await waiting.client("shop").reconciliations.wait(ID, every_seconds=0) == found
    assert found.state == "finished"
    assert [one.outcomes["redelivered"] for one in told] == [7, 9]
