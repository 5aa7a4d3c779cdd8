"""The books in the SDK and as a command."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import Lateness, Minutehand
from tests.support.scripted_api import Script

MINUTE: dict[str, Any] = {
    "minute": "2026-11-21T09:30:00.000Z",
    "accepted": 1500,
    "delivered": 1490,
    "failed": 1,
    "cancelled": 2,
    "skipped": 3,
    "open": 4,
    "lateness": {"p50_seconds": 0.005, "p99_seconds": 0.2, "max_seconds": 0.137},
    "a_field_of_a_later_version": 1,
}
NEXT = {**MINUTE, "minute": "2026-11-21T09:31:00.000Z", "accepted": 1, "delivered": 0, "failed": 0, "cancelled": 0}
NEXT |= {"skipped": 0, "open": 1, "lateness": None}
PAGES = ({"items": [MINUTE], "next_cursor": "c"}, {"items": [], "next_cursor": "d"}, {"items": [NEXT]})


def answers() -> list[httpx.Response]:
    return [httpx.Response(200, json=page) for page in PAGES]


async def test_every_page_of_the_books_is_read() -> None:
    script = Script(*answers(), *answers())
    with script.api() as api:
        plain = list(api.client("shop").balance(start=datetime(2026, 11, 21, 9, tzinfo=UTC), page_size=2))
    async with script.async_api() as waiting:
        assert [one async for one in waiting.client("shop").balance(end="2026-11-21T10:00:00Z")] == plain
    assert [one.accepted for one in plain] == [1500, 1]
    assert [one.lateness for one in plain] == [Lateness(p50_seconds=0.005, p99_seconds=0.2, max_seconds=0.137), None]
    assert {one.url.path for one in script.requests} == {"/v1/clients/shop/balance"}
    queries = [dict(one.url.params) for one in script.requests]
    assert queries[:3] == [
        {"from": "2026-11-21T09:00:00+00:00", "limit": "2"},
        {"limit": "2", "cursor": "c"},
        {"limit": "2", "cursor": "d"},
    ]
    assert queries[3] == {"to": "2026-11-21T10:00:00Z"}


def run(monkeypatch: pytest.MonkeyPatch, arguments: str, *replies: httpx.Response) -> Script:
    script = Script(*replies)
    monkeypatch.setattr(
        "minutehand.client.Minutehand",
        lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script), retries=0),
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    assert failures.run(arguments.split()) == 0
    return script


def test_the_table_ends_with_the_totals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = run(monkeypatch, "balance shop --from 2026-11-21T09:00:00Z --to 2026-11-21T10:00:00Z", *answers())
    assert dict(script.requests[0].url.params) == {
        "from": "2026-11-21T09:00:00Z",
        "to": "2026-11-21T10:00:00Z",
        "limit": "1000",
    }
    head, first, second, total = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[:7] == ["MINUTE", "ACCEPTED", "DELIVERED", "FAILED", "CANCELLED", "SKIPPED", "OPEN"]
    assert head[7:] == ["P50", "(s)", "P99", "(s)", "MAX", "(s)"]
    assert first == ["2026-11-21", "09:30:00.000Z", "1,500", "1,490", "1", "2", "3", "4", "0.005", "0.2", "0.137"]
    assert second[2:] == ["1", "0", "0", "0", "0", "1", "-", "-", "-"]
    assert total == ["total", "1,501", "1,490", "1", "2", "3", "5"]


def test_one_document_for_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "balance shop --json", *answers())
    said = json.loads(capsys.readouterr().out)
    assert [minute["accepted"] for minute in said["minutes"]] == [1500, 1]
    assert said["total"] == {
        "accepted": 1501,
        "delivered": 1490,
        "failed": 1,
        "cancelled": 2,
        "skipped": 3,
        "open": 5,
    }


def test_no_schedules_no_totals(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "balance shop", httpx.Response(200, json={"items": []}))
    assert capsys.readouterr().out.splitlines()[1:] == ["none"]
