"""The commands of crons: what they send and print."""

import json

import httpx
import pytest

from minutehand.cli import failures
from tests.support.scripted_api import CRON, PREVIEW, RUN, Script


def test_put_sends_what_the_flags_say(script: Script) -> None:
    script.answers = [httpx.Response(201, json=CRON)]
    rule = "--expression|30 2 * * *|--timezone|Europe/Berlin|--starts-at|2026-12-01T00:00:00Z|--ends-at|x"
    bounds = "--max-fires|5|--spread-seconds|60|--catch-up-seconds|0.5|--overlap|skip|--dst-gap|skip|--dst-fold|both"
    call = (
        "--method|PUT|--header|X-A: b|--body-json|[1]|--max-attempts|3|--timeout-seconds|2|--label|l|--ordering-key|k"
        "|--pause-after-failures|3"
    )
    days = "--calendar-country|DE|--calendar-subdivision|BY|--calendar-date|2026-12-24|--calendar-weekends"
    more = f"--dialect|quartz|--also|a|--also|b|--excluding|c|{days}|--on-day-off|move-next"
    flags = f"{rule}|{bounds}|{call}|{more}".split("|")
    assert failures.run(["crons", "put", "shop", "nightly", "https://a.example/", *flags]) == 0
    assert script.requests[0].url.path == "/v1/clients/shop/crons/nightly"
    assert script.sent() == {
        "expression": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "callback": {"url": "https://a.example/", "method": "PUT", "headers": {"X-A": "b"}, "json": [1]},
        "starts_at": "2026-12-01T00:00:00Z",
        "ends_at": "x",
        "max_fires": 5,
        "spread_seconds": 60,
        "catch_up_seconds": 0.5,
        "overlap": "skip",
        "dst": {"gap": "skip", "fold": "both"},
        "retry": {"max_attempts": 3},
        "timeout_seconds": 2.0,
        "label": "l",
        "ordering_key": "k",
        "pause_after_failures": 3,
        "dialect": "quartz",
        "also": ["a", "b"],
        "excluding": ["c"],
        "calendar": {
            "country": "DE",
            "subdivision": "BY",
            "dates": ["2026-12-24"],
            "weekends": True,
            "on": "move-next",
        },
    }


def test_preview_and_runs_send_what_the_flags_say(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = [httpx.Response(200, json=PREVIEW), httpx.Response(200, json={"items": [RUN] * 3})]
    flags = ["--timezone", "UTC", "--count", "7", "--from", "2026-12-01T00:00:00Z", "--dst-fold", "both"]
    flags += ["--dialect", "minutehand", "--also", "0 9 L * *", "--calendar-weekends"]
    assert failures.run(["crons", "preview", "0 9 * * mon-fri", *flags]) == 0
    assert script.sent() == {
        "expression": "0 9 * * mon-fri",
        "timezone": "UTC",
        "dialect": "minutehand",
        "also": ["0 9 L * *"],
        "calendar": {"weekends": True},
        "count": 7,
        "from": "2026-12-01T00:00:00Z",
        "dst": {"fold": "both"},
    }
    capsys.readouterr()
    window = ["--from", "2026-11-01T00:00:00Z", "--to", "2026-12-01T00:00:00Z", "--limit", "2", "--json"]
    assert failures.run(["crons", "runs", "shop", "nightly", *window]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
    query = dict(script.requests[1].url.params)
    assert query == {"from": "2026-11-01T00:00:00Z", "to": "2026-12-01T00:00:00Z", "limit": "3"}


def test_a_triggered_run_is_distinguished(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = [httpx.Response(200, json={"items": [RUN, {**RUN, "triggered": True, "kind": "triggered"}]})]
    assert failures.run(["crons", "runs", "shop", "nightly"]) == 0
    assert [" triggered " in line for line in capsys.readouterr().out.splitlines()] == [False, False, True]
