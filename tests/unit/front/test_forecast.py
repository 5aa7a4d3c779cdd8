"""The forecast in the SDK and as a command."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.cli.forecast import chart
from minutehand.client import Forecast, ForecastMinute, ForecastRun, Minutehand
from tests.support.scripted_api import Script

START = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
FORECAST: dict[str, Any] = {
    "from": "2026-11-21T09:30:00.000Z",
    "to": "2026-11-22T09:30:00.000Z",
    "guaranteed_per_minute": 1000,
    "capacity_per_minute": 4000,
    "calls": 2555,
    "minutes_beyond_guarantee": 1,
    "minutes_beyond_capacity": 0,
    "crons_left_out": 3,
    "peak": {"minute": "2026-11-21T10:31:00.000Z", "calls": 2050},
    "runs": [
        {"from": "2026-11-21T09:30:00.000Z", "rows": [5], "fires": [0]},
        {"from": "2026-11-21T10:30:00.000Z", "rows": [500, 2000], "fires": [0, 50]},
    ],
    "a_field_of_a_later_version": 1,
}


def reply() -> httpx.Response:
    return httpx.Response(200, json=FORECAST)


async def test_it_is_asked_for_and_read() -> None:
    script = Script(reply(), reply(), reply())
    with script.api() as api:
        plain = api.client("shop").forecast(start=START, end="2026-11-22T09:30:00Z")
        assert api.forecast() == plain
    async with script.async_api() as waiting:
        assert await waiting.client("shop").forecast() == plain
    assert (plain.start, plain.end - plain.start) == (START, timedelta(days=1))
    assert [minute.calls for minute in plain.minutes()] == [5, 500, 2050]
    assert list(plain.minutes())[-1] == ForecastMinute(minute=START + timedelta(minutes=61), rows=2000, fires=50)
    assert [(one.url.path, dict(one.url.params)) for one in script.requests] == [
        ("/v1/clients/shop/forecast", {"from": "2026-11-21T09:30:00+00:00", "to": "2026-11-22T09:30:00Z"}),
        ("/v1/cluster/forecast", {}),
        ("/v1/clients/shop/forecast", {}),
    ]


def run(monkeypatch: pytest.MonkeyPatch, arguments: str) -> Script:
    script = Script(reply())
    monkeypatch.setattr(
        "minutehand.client.Minutehand", lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script))
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    assert failures.run(arguments.split()) == 0
    return script


def test_a_chart_against_the_guarantee_of_a_client(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = run(monkeypatch, "forecast shop --to 2026-11-22T09:30:00Z")
    assert dict(script.requests[0].url.params) == {"to": "2026-11-22T09:30:00Z"}
    head, first, second, bounds, left_out = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["FROM", "CALLS", "FULLEST", "A", "MINUTE"]
    assert first == ["2026-11-21", "09:00", "5", "09:30", "5", "#", "|"]
    assert second == ["2026-11-21", "10:00", "2,550", "10:31", "2,050", "#" * 20 + "|" + "#" * 19, "!"]
    assert (bounds[1], left_out[4]) == ("1,000", "3")


def test_all_clients_against_the_capacity_of_the_nodes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "forecast").requests[0].url.path == "/v1/cluster/forecast"
    assert capsys.readouterr().out.splitlines()[2].split()[5:] == ["#" * 20, "|"]


@pytest.mark.parametrize("columns", [60, 80])
def test_bars_fit_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    for name, value in {"TTY_COMPATIBLE": "1", "TERM": "xterm", "COLUMNS": str(columns)}.items():
        monkeypatch.setenv(name, value)
    run(monkeypatch, "forecast shop")
    _, *chart_lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()][:3]
    assert all(line.startswith("2026-11-21 ") and "|" in line for line in chart_lines), "a field a line"
    assert max(map(len, chart_lines)) <= columns


def test_one_document_for_programs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "forecast shop --json")
    said = json.loads(capsys.readouterr().out)
    assert said == {name: value for name, value in FORECAST.items() if name != "a_field_of_a_later_version"}


@pytest.mark.parametrize(("hours", "lines"), [(1, 60), (5, 60), (15, 60), (60, 60), (24 * 7, 28), (24 * 31, 31)])
def test_a_chart_has_sixty_lines_at_most(hours: int, lines: int) -> None:
    first = START.replace(hour=0, minute=0)
    minutes = (1,) * (hours * 60)
    forecast = Forecast(
        start=first,
        end=first + timedelta(hours=hours),
        guaranteed_per_minute=0,
        capacity_per_minute=0,
        calls=hours * 60,
        minutes_beyond_guarantee=0,
        minutes_beyond_capacity=0,
        crons_left_out=0,
        runs=(ForecastRun(start=first, rows=minutes, fires=minutes),),
    )
    assert len(chart(forecast, 0)) == lines
