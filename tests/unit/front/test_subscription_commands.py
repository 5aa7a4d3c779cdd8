"""Subscriptions from the SDK and from a shell: what is sent, and what is shown."""

import json

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import EventFilter, NewSubscription
from tests.support.scripted_api import SUBSCRIPTION, Script

ONE = "/v1/clients/shop/subscriptions/failures"
NEW = NewSubscription(destination="warehouse", events=["schedule.failed"], filter=EventFilter(label="orders"))
SENT = {"destination": "warehouse", "events": ["schedule.failed"], "filter": {"label": "orders"}}


def told(script: Script) -> list[tuple[str, str, object]]:
    return [(one.method, one.url.path, json.loads(one.content) if one.content else None) for one in script.requests]


def answers() -> list[httpx.Response]:
    shown = httpx.Response(200, json=SUBSCRIPTION)
    return [shown, shown, httpx.Response(200, json={"items": [SUBSCRIPTION]}), httpx.Response(204)]


async def test_both_clients_send_the_same() -> None:
    script, waiting = Script(*answers()), Script(*answers())
    with script.api() as api:
        subscriptions = api.client("shop").subscriptions
        put = subscriptions.put("failures", NEW, revision=7)
        assert subscriptions.get("failures") == put
        assert subscriptions.list() == (put,)
        subscriptions.delete("failures", revision=7)
    assert (put.name, put.events, put.filter.label) == ("failures", ("schedule.failed",), "orders")
    assert told(script) == [
        ("PUT", ONE, SENT),
        ("GET", ONE, None),
        ("GET", ONE.rpartition("/")[0], None),
        ("DELETE", ONE, None),
    ]
    assert script.requests[0].headers["If-Match"] == script.requests[-1].headers["If-Match"] == '"7"'
    async with waiting.async_api() as other:
        same = other.client("shop").subscriptions
        assert await same.put("failures", NEW, revision=7) == await same.get("failures")
        assert await same.list() == (put,)
        await same.delete("failures", revision=7)
    assert told(waiting) == told(script)


def test_commands(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = answers()
    line = "subscriptions put shop failures warehouse --event schedule.failed --label orders"
    assert failures.run(line.split()) == 0
    assert told(script)[0] == ("PUT", ONE, SENT | {"enabled": True})
    assert failures.run("subscriptions show shop failures".split()) == 0
    assert failures.run("subscriptions list shop".split()) == 0
    assert failures.run("subscriptions delete shop failures".split()) == 0
    shown = capsys.readouterr().out
    assert "schedule.failed" in shown
    assert "orders" in shown
    assert "The subscription failures is deleted." in shown
