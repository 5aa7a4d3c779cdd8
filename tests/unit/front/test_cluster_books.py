"""Reconciliations under way and the latest audits in the SDK and as commands."""

import json
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import Minutehand
from tests.support.scripted_api import Script

UNDER_WAY: dict[str, Any] = {
    "items": [
        {
            "reconciliation_id": "019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364",
            "client_id": "shop",
            "action": "redeliver",
            "from": "2026-11-21T07:00:00.000Z",
            "to": "2026-11-21T08:00:00.000Z",
            "states": ["failed"],
            "filters": {},
            "state": "running",
            "progress": {"minutes_done": 7, "minutes_total": 60, "through": "2026-11-21T07:07:00.000Z"},
            "seen": {"failed": 3},
            "outcomes": {"redelivered": 3},
            "hours": [],
            "samples": [],
            "created_at": "2026-11-21T09:30:00.000Z",
            "created_by": "mira",
            "updated_at": "2026-11-21T09:30:00.000Z",
        }
    ],
    "left_out": 2,
    "next_cursor": "more",
    "a_field_of_a_later_version": 1,
}
LATEST: dict[str, Any] = {
    "items": [
        {
            "client_id": "shop",
            "audit_id": "01a1fd70-f1c0-8000-83ca-9d3752e6b438",
            "audited_at": "2026-11-21T09:30:00.000Z",
            "from": "2026-11-21T07:00:00.000Z",
            "to": "2026-11-21T08:00:00.000Z",
            "counts": {"accepted": 1234, "delivered": 1230, "failed": 0, "cancelled": 0, "skipped": 0, "open": 4},
            "findings": {"stranded": 3},
            "repaired": {"requeued": 2},
            "left_out": [],
        }
    ],
    "clients": 41,
    "clients_unaudited": 2,
    "clients_left_out": 5,
    "findings_standing": 3,
    "next_cursor": None,
}
ANSWERS = {"/v1/cluster/reconciliations": UNDER_WAY, "/v1/cluster/audits": LATEST}


async def test_they_are_asked_for_and_read() -> None:
    script = Script(*(httpx.Response(200, json=one) for one in (UNDER_WAY, LATEST) * 2))
    with script.api() as api:
        under_way = api.reconciliations_under_way(page_size=1, cursor="here")
        latest = api.latest_audits(page_size=1, cursor="here")
    async with script.async_api() as waiting:
        assert await waiting.reconciliations_under_way() == under_way
        assert await waiting.latest_audits() == latest
    assert [(one.url.path, dict(one.url.params)) for one in script.requests[:2]] == [
        (path, {"limit": "1", "cursor": "here"}) for path in ANSWERS
    ]
    assert (under_way.items[0].client_id, under_way.left_out, under_way.next_cursor) == ("shop", 2, "more")
    assert (latest.items[0].counts.open, latest.items[0].findings) == (4, {"stranded": 3})
    assert (latest.clients, latest.clients_unaudited, latest.clients_left_out) == (41, 2, 5)
    assert (latest.findings_standing, latest.next_cursor) == (3, None)


def run(monkeypatch: pytest.MonkeyPatch, arguments: str, answer: dict[str, Any]) -> httpx.Request:
    script = Script(httpx.Response(200, json=answer))
    monkeypatch.setattr(
        "minutehand.client.Minutehand", lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script))
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    monkeypatch.setenv("COLUMNS", "220")
    assert failures.run(arguments.split()) == 0
    return script.requests[0]


def test_without_a_client_reconciliations_under_way_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = run(monkeypatch, "reconciliations list --limit 500", UNDER_WAY)
    assert (request.url.path, dict(request.url.params)) == ("/v1/cluster/reconciliations", {"limit": "100"})
    said = capsys.readouterr()
    head, line, left_out = (one.split() for one in said.out.splitlines() if one.strip())
    assert (head[0], head[-1], line[0], line[-1]) == ("CLIENT", "BY", "shop", "mira")
    assert "7 of 60 3 redelivered" in " ".join(line)
    assert " ".join(left_out) == "2 more may be: they were not read."
    assert "There are more" in said.err
    run(monkeypatch, "reconciliations list", {"items": [], "left_out": 0, "next_cursor": None})
    assert capsys.readouterr().out == "No reconciliation is under way.\n"
    run(monkeypatch, "reconciliations list --json", UNDER_WAY)
    assert json.loads(capsys.readouterr().out)["left_out"] == 2


def test_without_a_client_the_latest_audits_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    request = run(monkeypatch, "audits --limit 7", LATEST)
    assert (request.url.path, dict(request.url.params)) == ("/v1/cluster/audits", {"limit": "7"})
    head, line, sums, left_out = (one.split() for one in capsys.readouterr().out.splitlines() if one.strip())
    assert (head[0], line[0], line[-3:]) == ("CLIENT", "shop", ["3", "stranded", "2"])
    assert " ".join(sums) == ("41 clients have an audit, 2 have none. 3 findings of runs over all clients stand.")
    assert " ".join(left_out) == "5 clients are left out: there are too many."
    none = {**LATEST, "items": [], "clients": 0, "clients_left_out": 0, "findings_standing": None}
    run(monkeypatch, "audits", none)
    assert capsys.readouterr().out == "0 clients have an audit, 2 have none. No run over all clients was made.\n"
    run(monkeypatch, "audits --json", LATEST)
    assert json.loads(capsys.readouterr().out)["items"][0]["from"] == "2026-11-21T07:00:00.000Z"
