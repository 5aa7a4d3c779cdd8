"""Usage in the SDK and as a command."""

import json
from datetime import UTC, date, datetime
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import FailingHost, Minutehand, UsedLateness
from tests.support.scripted_api import Script

USED: dict[str, Any] = {
    "accepted": 1500,
    "delivered": 1490,
    "failed": 3,
    "cancelled": 2,
    "skipped": 1,
    "open": 4,
    "attempts": 1511,
    "bytes": 123456,
    "lateness": {"p50_seconds": 0.005, "p95_seconds": 0.02, "p99_seconds": 0.2, "max_seconds": 0.137},
}
DAY: dict[str, Any] = {
    **USED,
    "day": "2026-11-21",
    "complete": False,
    "counted_at": "2026-11-21T09:30:00.000Z",
    "failing_hosts": [{"host": name, "failed": 4 - place} for place, name in enumerate(("a", "b", "c", "d"))],
    "hours": [{**USED, "hour": "2026-11-21T09:00:00.000Z", "lateness": None}],
    "a_field_of_a_later_version": 1,
}
QUIET = {**DAY, **dict.fromkeys(USED, 0), "day": "2026-11-22", "complete": True, "lateness": None}
QUIET |= {"failing_hosts": [], "hours": []}


def reply() -> httpx.Response:
    return httpx.Response(200, json={"items": [DAY, QUIET], "next_cursor": None})


async def test_days_are_asked_for_and_read() -> None:
    script = Script(reply(), reply())
    with script.api() as api:
        plain = api.client("shop").usage(start=date(2026, 11, 21), end="2026-11-23")
        with pytest.raises(ValueError, match="give a date"):
            api.client("shop").usage(start=datetime(2026, 11, 21, tzinfo=UTC))
    async with script.async_api() as waiting:
        assert await waiting.client("shop").usage() == plain
    first, second = plain
    assert (first.day, first.complete, first.bytes) == (date(2026, 11, 21), False, 123456)
    assert first.failing_hosts[0] == FailingHost(host="a", failed=4)
    assert first.hours[0].hour == datetime(2026, 11, 21, 9, tzinfo=UTC)
    assert first.lateness == UsedLateness(p50_seconds=0.005, p95_seconds=0.02, p99_seconds=0.2, max_seconds=0.137)
    assert (second.complete, second.lateness, second.hours) == (True, None, ())
    assert [(one.url.path, dict(one.url.params)) for one in script.requests] == [
        ("/v1/clients/shop/usage", {"from": "2026-11-21", "to": "2026-11-23"}),
        ("/v1/clients/shop/usage", {}),
    ]


def run(monkeypatch: pytest.MonkeyPatch, arguments: str) -> Script:
    script = Script(reply())
    monkeypatch.setattr(
        "minutehand.client.Minutehand", lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script))
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    assert failures.run(arguments.split()) == 0
    return script


def test_a_line_for_each_day(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = run(monkeypatch, "usage shop --from 2026-11-21 --to 2026-11-23")
    assert dict(script.requests[0].url.params) == {"from": "2026-11-21", "to": "2026-11-23"}
    head, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head[:3] == ["DAY", "COMPLETE", "ACCEPTED"]
    assert head[10:] == ["P50", "(s)", "P95", "(s)", "P99", "(s)", "MAX", "(s)", "FAILING", "HOSTS"]
    assert first[:4] == ["2026-11-21", "no", "1,500", "1,490"]
    assert first[8:] == ["1,511", "123,456", "0.005", "0.02", "0.2", "0.137", "a:4", "b:3", "c:2"]
    assert second == ["2026-11-22", "yes", *["0"] * 8, *["-"] * 5]


def test_a_line_for_each_hour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "usage shop --hours")
    _, hour = (line.split() for line in capsys.readouterr().out.splitlines())
    assert hour[:3] == ["2026-11-21", "09:00", "1,500"]
    assert hour[-4:] == ["-"] * 4


def test_one_document_for_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "usage shop --json")
    said = json.loads(capsys.readouterr().out)
    assert [(day["day"], day["accepted"], len(day["hours"])) for day in said["days"]] == [
        ("2026-11-21", 1500, 1),
        ("2026-11-22", 0, 0),
    ]
