"""Events from a shell: a table, and a stream of lines that programs read."""

import json

import httpx
import pytest

from minutehand.cli import failures
from tests.support.scripted_api import Script

FAILED = {
    "id": "1f0c6e1e-7d52-8b4e-9d43-5d0e2a9c6f10",
    "type": "schedule.failed",
    "at": "2026-11-21T09:30:04.120Z",
    "schedule_id": "01a1fe8c-0f8a-8000-8c91-89a08db81829",
    "data": {"due": "2026-11-21T09:30:00.000Z", "attempts": 3, "label": "a\x7fb", "reason": "exhausted"},
}
OPENED = {
    "id": "2f0c6e1e-7d52-8b4e-9d43-5d0e2a9c6f10",
    "type": "destination.opened",
    "at": "2026-11-21T09:30:05.000Z",
    "schedule_id": None,
    "data": {"destination": "warehouse"},
}


def page(*events: object) -> httpx.Response:
    return httpx.Response(200, json={"events": events, "cursor": "c", "more": False})


def test_a_list_says_all_that_an_event_tells(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = [page(FAILED, OPENED)]
    assert failures.run("events list shop".split()) == 0
    head, failed, opened = capsys.readouterr().out.splitlines()
    assert head.split() == ["AT", "TYPE", "SCHEDULE", "WHAT"]
    assert "attempts=3, label=a\\x7fb, reason=exhausted" in failed
    assert opened.split()[2:] == ["destination.opened", "-", "destination=warehouse"]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_stream_is_an_event_a_line_until_it_is_interrupted(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if script.answers:
            return script.answers.pop(0)
        raise KeyboardInterrupt

    monkeypatch.setattr(Script, "__call__", lambda self, request: answer(request))
    script.answers = [page(FAILED), page(OPENED)]
    assert failures.run(["events", "tail", "shop", *(["--json"] if as_json else [])]) == failures.INTERRUPTED
    told = capsys.readouterr()
    assert told.err == ""
    failed, opened = told.out.splitlines()
    if as_json:
        assert (json.loads(failed), json.loads(opened)) == (FAILED, OPENED), "as the API answers them"
        assert "\x7f" not in failed
    else:
        assert failed.split("  ")[:2] == ["2026-11-21 09:30:04.120Z", "schedule.failed"]
        assert opened.endswith("destination=warehouse")
