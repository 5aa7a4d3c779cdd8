"""The audit log in the SDK and as a command."""

import json
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import Minutehand
from tests.support.scripted_api import Script

MADE: dict[str, Any] = {
    "entry_id": "01a1fd71-2c58-8000-882a-6d1f0c3e5a97",
    "at": "2026-11-21T09:30:00.000Z",
    "actor": "ops",
    "key_id": "k1",
    "action": "create_key",
    "client_id": "shop",
    "target": {"client_id": "shop"},
    "request_id": "r1",
    "result": "done",
    "status": 201,
    "problem": None,
    "details": {"client_id": "shop", "key_id": "k2"},
    "a_field_of_a_later_version": 1,
}
OPEN = {**MADE, "key_id": None, "result": "unknown", "status": None, "details": {}, "request_id": "r2"}
PAGES = ({"items": [MADE], "next_cursor": "c"}, {"items": [], "next_cursor": "d"}, {"items": [OPEN]})


def answers() -> list[httpx.Response]:
    return [httpx.Response(200, json=page) for page in PAGES]


async def test_every_page_is_read() -> None:
    script = Script(*answers(), *answers())
    with script.api() as api:
        plain = list(api.audit_log(start=datetime(2026, 11, 21, tzinfo=UTC), page_size=2))
    async with script.async_api() as waiting:
        assert [one async for one in waiting.audit_log(end="2026-11-22T00:00:00Z")] == plain
    assert [(one.action, one.result, one.key_id) for one in plain] == [
        ("create_key", "done", "k1"),
        ("create_key", "unknown", None),
    ]
    assert plain[0].at == datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
    assert {one.url.path for one in script.requests} == {"/v1/audit-log"}
    queries = [dict(one.url.params) for one in script.requests]
    assert queries[:2] == [{"from": "2026-11-21T00:00:00+00:00", "limit": "2"}, {"limit": "2", "cursor": "c"}]
    assert queries[3] == {"to": "2026-11-22T00:00:00Z"}


def run(monkeypatch: pytest.MonkeyPatch, arguments: str) -> Script:
    script = Script(*answers())
    monkeypatch.setattr(
        "minutehand.client.Minutehand", lambda url, key: Minutehand(url, key, transport=httpx.MockTransport(script))
    )
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    assert failures.run(arguments.split()) == 0
    return script


def test_as_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = run(monkeypatch, "audit-log --from 2026-11-21T00:00:00Z --to 2026-11-22T00:00:00Z")
    out = capsys.readouterr().out
    assert "client_id=shop, key_id=k2" in out
    assert out.splitlines()[0].split()[:2] == ["AT", "WHO"]
    assert "unknown" in out.splitlines()[2]
    assert dict(script.requests[0].url.params)["from"] == "2026-11-21T00:00:00Z"


def test_an_audit_log_of_one_client_is_filtered_by_path(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = run(monkeypatch, "audit-log --client shop --from 2026-11-21T00:00:00Z")
    assert {one.url.path for one in script.requests} == {"/v1/clients/shop/audit-log"}
    assert dict(script.requests[0].url.params)["from"] == "2026-11-21T00:00:00Z"
    assert "client_id=shop, key_id=k2" in capsys.readouterr().out


def test_as_json_and_no_more_than_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = run(monkeypatch, "audit-log --limit 1 --json")
    (one,) = json.loads(capsys.readouterr().out)
    assert one["request_id"] == "r1"
    assert script.requests[0].url.params["limit"] == "2", "one more than is shown, to know of more"
