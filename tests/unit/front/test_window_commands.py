"""Commands over windows: what a reconciliation did to schedules, and schedules that move together."""

import json

import httpx
import pytest

from minutehand.cli import failures
from tests.support.scripted_api import RECONCILED, Script

SCHEDULES_OF = "reconciliations schedules shop x"
MOVE = "schedules reschedule-window shop --from 2026-11-21T00:00:00Z --to 2026-11-22T00:00:00Z"
MOVED = {"schedule_id": "one", "status": 200, "state": "cancelled", "rescheduled_to": "two"}
STAYS = {"schedule_id": "three", "status": 409, "state": "retrying", "reason": "in-doubt"}


def page(*items: object, cursor: str | None = None) -> httpx.Response:
    return httpx.Response(200, json={"items": items, "next_cursor": cursor})


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_what_was_done_to_schedules(script: Script, capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    script.answers = [page(RECONCILED, cursor="c"), page(RECONCILED, RECONCILED)]
    assert failures.run([*SCHEDULES_OF.split(), "--outcome", "open", "--limit", "2", *flags]) == 0
    told = capsys.readouterr()
    assert told.out.count("retrying") == 2
    assert told.err == "There are more: see --limit.\n"
    assert dict(script.requests[0].url.params) == {"outcome": "open", "limit": "3"}


def test_schedules_of_a_window_move_together(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = [page(MOVED, cursor="c"), page(STAYS)] * 2
    command = [*MOVE.split(), "--shift-seconds", "-60", "--state", "scheduled", "--label", "a"]
    assert failures.run(command) == 0
    told = capsys.readouterr().out
    assert "1 is rescheduled; 1 could not be." in told
    assert "in-doubt" in told
    window = {"from": "2026-11-21T00:00:00Z", "to": "2026-11-22T00:00:00Z"}
    assert script.sent() == {**window, "shift_seconds": -60, "state": ["scheduled"], "label": ["a"]}
    assert failures.run([*command, "--json"]) == 0
    assert [one["schedule_id"] for one in json.loads(capsys.readouterr().out)] == ["one", "three"]


@pytest.mark.parametrize(("flags", "told"), [([], "1,234 would be rescheduled."), (["--json"], "1234")])
def test_a_dry_run_counts_what_waits(
    script: Script, capsys: pytest.CaptureFixture[str], flags: list[str], told: str
) -> None:
    script.answers = [httpx.Response(200, json={"count": 1234, "next_cursor": None})]
    due = ["--due", "2026-11-23T00:00", "--timezone", "Europe/Berlin", "--window-seconds", "60"]
    assert failures.run([*MOVE.split(), *due, "--dry-run", *flags]) == 0
    assert told in capsys.readouterr().out
    (asked,) = script.requests
    assert asked.url.path == "/v1/clients/shop/schedules:count"
    assert asked.url.params.get_list("state") == ["scheduled", "retrying"]
