"""The backlog in the SDK and as a command."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import Minutehand
from tests.support.scripted_api import Script

OVERDUE: dict[str, Any] = {
    "rows": 5021,
    "counted": 21,
    "estimated": 5000,
    "exact": False,
    "ages": {
        "under_1_minute": 0,
        "under_10_minutes": 21,
        "under_1_hour": 5000,
        "under_6_hours": 0,
        "under_1_day": 0,
        "older": 0,
    },
    "oldest": "2026-11-21T08:30:00.000Z",
    "open_minutes": 61,
}
SHOP: dict[str, Any] = {
    "client_id": "shop",
    "overdue": OVERDUE,
    "pollers": 2,
    "pollers_behind": 1,
    "held_by": ["quota", "recovery"],
    "late_policy": {"kind": "skip", "after_seconds": 600.0},
    "to_skip": 5000,
    "at_most_once": False,
    "drain_seconds": 301,
    "a_field_of_a_later_version": 1,
}
ALL: dict[str, Any] = {
    "overdue": OVERDUE,
    "clients": 2,
    "drain_seconds": 8000,
    "items": [SHOP],
    "next_cursor": "more",
}


def answered(of: str) -> httpx.Response:
    return httpx.Response(200, json={"cluster": ALL, "shop": SHOP}[of])


async def test_it_is_asked_for_and_read() -> None:
    script = Script(answered("shop"), answered("cluster"), answered("shop"))
    with script.api() as api:
        shop = api.client("shop").backlog()
        every = api.backlog(page_size=1, cursor="here")
    async with script.async_api() as waiting:
        assert await waiting.client("shop").backlog() == shop
    assert every.items == (shop,)
    assert (shop.overdue.oldest, shop.drained_in) == (
        datetime(2026, 11, 21, 8, 30, tzinfo=UTC),
        timedelta(seconds=301),
    )
    assert (every.next_cursor, shop.held_by, shop.overdue.ages.under_1_hour) == ("more", ("quota", "recovery"), 5000)
    assert [(one.url.path, dict(one.url.params)) for one in script.requests[:2]] == [
        ("/v1/clients/shop/backlog", {}),
        ("/v1/cluster/backlog", {"limit": "1", "cursor": "here"}),
    ]


def run(monkeypatch: pytest.MonkeyPatch, arguments: str, reply: Any = None) -> None:
    script = Script(reply or answered("cluster" if arguments == "backlog" else "shop"))
    monkeypatch.setattr(
        "minutehand.client.Minutehand", lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script))
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    assert failures.run(arguments.split()) == 0


def test_a_table_of_the_worst(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run(monkeypatch, "backlog")
    head, line, total, more = (one.split() for one in capsys.readouterr().out.splitlines() if one.strip())
    assert head[:3] == ["CLIENT", "OVERDUE", "<1MIN"]
    assert line[:8] == ["shop", "~5,021", "0", "21", "5,000", "0", "0", "0"]
    assert " ".join(line).endswith("1 of 2 5,000 5 min quota, recovery")
    assert " ".join(total).startswith("~5,021 overdue of 2 clients; 2.2 h at")
    assert " ".join(more).startswith("There are more clients")


def test_one_client_nothing_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "backlog shop --json")
    assert json.loads(capsys.readouterr().out)["overdue"]["rows"] == 5021
    run(monkeypatch, "backlog", httpx.Response(200, json={**ALL, "clients": 0, "items": []}))
    assert capsys.readouterr().out == "No client is behind by more than two minutes.\n"


def reconciliation(state: str, action: str) -> httpx.Response:
    return httpx.Response(
        202 if state == "running" else 200,
        json={
            "reconciliation_id": "019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364",
            "client_id": "shop",
            "action": action,
            "from": "2026-10-22T08:30:00.000Z",
            "to": "2026-11-21T08:30:00.000Z",
            "states": ["scheduled"],
            "filters": {},
            "state": state,
            "progress": {"minutes_done": 1, "minutes_total": 1, "through": "2026-11-21T08:30:00.000Z"},
            "seen": {"scheduled": 7},
            "outcomes": {"skipped": 7} if action == "skip" else {"counted": 7},
            "hours": [{"hour": "2026-11-21T07:00:00.000Z", "schedules": 7}],
            "samples": ["01a1fe8c-0f8a-8000-8c91-89a08db81829"],
            "created_at": "2026-11-21T09:30:00.000Z",
            "created_by": "shop",
            "updated_at": "2026-11-21T09:30:00.000Z",
        },
    )


@pytest.mark.parametrize(("arguments", "action"), [("", "report"), (" --run", "skip")])
def test_what_is_overdue_is_only_counted_unless_it_is_to_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, action: str
) -> None:
    script = Script(reconciliation("running", action), reconciliation("finished", action))
    monkeypatch.setattr(
        "minutehand.client.Minutehand", lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script))
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    assert failures.run(["reconciliations", "skip-overdue", "shop", "--older-than", "3600", *arguments.split()]) == 0
    asked = json.loads(script.requests[0].content)
    assert (asked["action"], asked["states"]) == (action, ["scheduled"])
    span = datetime.fromisoformat(asked["to"]) - datetime.fromisoformat(asked["from"])
    assert span == timedelta(days=30)
    out = capsys.readouterr().out
    assert "2026-11-21 07:00" in out
    assert "01a1fe8c-0f8a-8000-8c91-89a08db81829" in out
