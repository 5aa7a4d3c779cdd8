"""Audits in the SDK and as a command."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import AuditCounts, AuditFinding, Minutehand
from tests.support.scripted_api import Script

AUDIT: dict[str, Any] = {
    "audit_id": "019b5a3a-fc00-8000-8000-000000000001",
    "audited_at": "2026-11-21T09:30:00.000Z",
    "from": "2026-11-21T08:00:00.000Z",
    "to": "2026-11-21T09:00:00.000Z",
    "counts": {"accepted": 1500, "delivered": 1400, "failed": 1, "cancelled": 2, "skipped": 3, "open": 94},
    "findings": {"stranded": 2, "overdue-cron": 1},
    "shown": [
        {
            "kind": "stranded",
            "detail": "has no outcome",
            "poller_id": 3,
            "minute": "2026-11-21T08:01:00.000Z",
            "due": "2026-11-21T08:01:02.000Z",
            "schedule_id": "i",
        }
    ],
    "repaired": {"requeued": 2},
    "left_out": ["One thing."],
    "a_field_of_a_later_version": 1,
}
CLEAN = {**AUDIT, "findings": {}, "shown": [], "repaired": {}, "left_out": []}
PAGES = ({"items": [AUDIT], "next_cursor": "c"}, {"items": [CLEAN]})


def answers() -> list[httpx.Response]:
    return [httpx.Response(200, json=page) for page in PAGES]


async def test_every_audit_is_read() -> None:
    script = Script(*answers(), *answers())
    with script.api() as api:
        plain = list(api.client("shop").audits(page_size=1))
    async with script.async_api() as waiting:
        assert [one async for one in waiting.client("shop").audits()] == plain
    first, second = plain
    assert (first.start, first.end) == (datetime(2026, 11, 21, 8, tzinfo=UTC), datetime(2026, 11, 21, 9, tzinfo=UTC))
    assert first.counts == AuditCounts(accepted=1500, delivered=1400, failed=1, cancelled=2, skipped=3, open=94)
    assert first.findings == {"stranded": 2, "overdue-cron": 1}
    assert first.shown == (
        AuditFinding(
            kind="stranded",
            detail="has no outcome",
            poller_id=3,
            minute=datetime(2026, 11, 21, 8, 1, tzinfo=UTC),
            due=datetime(2026, 11, 21, 8, 1, 2, tzinfo=UTC),
            schedule_id="i",
        ),
    )
    assert (first.repaired, first.left_out, second.shown) == ({"requeued": 2}, ("One thing.",), ())
    assert {one.url.path for one in script.requests} == {"/v1/clients/shop/audits"}
    queries = [dict(one.url.params) for one in script.requests]
    assert queries == [{"limit": "1"}, {"limit": "1", "cursor": "c"}, {}, {"cursor": "c"}]


def run(monkeypatch: pytest.MonkeyPatch, arguments: str) -> Script:
    script = Script(*answers())
    monkeypatch.setattr(
        "minutehand.client.Minutehand", lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script))
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    assert failures.run(arguments.split()) == 0
    return script


def test_the_table_counts_findings_by_kind(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(monkeypatch, "audits shop")
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["AUDITED", "FROM", "TO", "ACCEPTED", "OPEN", "FINDINGS", "REPAIRED"]
    assert "1,500" in first
    assert "1 overdue-cron, 2 stranded" in first
    assert second.split()[-2:] == ["none", "0"]


def test_json_shows_every_finding(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = run(monkeypatch, "audits shop --limit 1 --json")
    (only,) = json.loads(capsys.readouterr().out)
    assert only["shown"][0]["schedule_id"] == "i"
    assert script.requests[0].url.params["limit"] == "2", "one more than is shown, to know of more"
