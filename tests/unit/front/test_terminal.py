"""Foreign text reaches a terminal without control characters, and a narrow terminal shows every id and instant
whole.
"""

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.cli.output import print_fields, printable, span
from minutehand.reference_pages import documented
from scheduler_service.runtime.clock import SystemClock
from tests.support.scripted_api import ATTEMPT, CRON, EXCHANGE, LETTER, PROBLEM, SCHEDULE, STORY, Script, problem

HOSTILE = "a\x1b]0;owned\x07b\x9b2Jc\x7fd\u202ee\u2028f"
CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E)} - {"\n"}


NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: int(NOW.timestamp() * 1000))


ANSWERS = [
    ("schedules get shop 01", {**SCHEDULE, "state": HOSTILE}),
    ("schedules explain shop 01", {**STORY, "sentence": HOSTILE}),
    ("schedules attempts shop 01", {"items": [{**ATTEMPT, "excerpt": HOSTILE}]}),
    ("dead-letters list shop", {"items": [{**LETTER, "reason": HOSTILE}]}),
    ("crons show shop nightly", {**CRON, "words": HOSTILE}),
    ("clients trial-call shop https://a.example/", {**EXCHANGE, "excerpt": HOSTILE}),
    ("clients trial-call shop https://a.example/", {**EXCHANGE, "response_headers": {"x": HOSTILE}}),
]


@pytest.mark.parametrize(("arguments", "answer"), ANSWERS)
def test_no_control_character_is_printed(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: str, answer: dict[str, Any]
) -> None:
    script.answers = [httpx.Response(200, json=answer), httpx.Response(200, json=answer)]
    failures.run(arguments.split())
    told = capsys.readouterr()
    assert not CONTROLS & set(told.out + told.err)
    assert "a\\x1b]0;owned\\x07b\\x9b2Jc\\x7fd\\u202ee" in told.out
    failures.run([*arguments.split(), "--json"])
    told = capsys.readouterr()
    assert not CONTROLS & set(told.out + told.err)
    assert json.dumps(HOSTILE) in json.dumps(json.loads(told.out))


def test_a_refusals_words_are_text_too(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = [problem(409, {**PROBLEM, "errors": [], "detail": HOSTILE})]
    assert failures.run(["crons", "show", "shop", "nightly"]) == 1
    said = capsys.readouterr().err
    assert "a\\x1b]0;owned\\x07b\\x9b2Jc\\x7fd\\u202ee" in said
    assert not CONTROLS & set(said)


def test_tabs_and_newlines_of_our_own_stay() -> None:
    assert printable("one\n\ttwo\r") == "one\n\ttwo\\x0d"


AUDITED = {
    "entry_id": "e1",
    "at": "2026-11-21T09:30:00.000Z",
    "actor": "admin",
    "key_id": "3f9c2a71d0b84e56",
    "request_id": "01a1fe8c-0f8a-8000-8c91-89a08db81829",
    "action": "PUT /v1/clients/{client_id}",
    "result": "204",
    "problem": "a sentence of several words that says what was wrong with it",
    "target": {"client_id": "shop", "reconciliation_id": "019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364"},
    "details": {},
}
WHOLE = (
    *("2026-11-21 09:30:00.000Z", "reconciliation_id=019aa5c8-1bc0-7a4e-9c1d-5b7e2f90a364"),
    *(AUDITED[name] for name in ("key_id", "request_id", "action")),
)
WIDE, NARROW = 206, 70


def lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, *, width: int
) -> list[str]:
    """The output for a terminal of that width, without styles."""
    for name, value in {"TTY_COMPATIBLE": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)
    assert failures.run(arguments.split()) == 0
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_ids_and_instants_are_whole_on_any_terminal(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    script.answers = [httpx.Response(200, json={"items": [AUDITED, AUDITED], "next_cursor": None})]
    printed = lines(monkeypatch, capsys, "audit-log", width=width)
    assert max(map(len, printed)) <= width
    assert all(sum(whole in line for line in printed) == 2 for whole in WHOLE)
    assert ("REQUEST ID" in printed[0]) == (width == WIDE), "a table as long as it fits"
    words = " ".join(printed).split()
    assert all(words.count(word) >= 2 for word in AUDITED["problem"].split()), "what gives way is not cut either"


def test_a_table_that_fits_no_terminal_is_printed_a_field_a_line(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script.answers = [httpx.Response(200, json={"items": [AUDITED, AUDITED], "next_cursor": None})]
    printed = lines(monkeypatch, capsys, "audit-log", width=NARROW)
    assert [line.split()[0] for line in printed if line.startswith("AT ")] == ["AT", "AT"]
    assert printed.count("") == 1, "rows are set apart"


@pytest.mark.parametrize("width", [100, NARROW])
def test_names_of_metrics_are_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    words = {word for line in lines(monkeypatch, capsys, "metrics", width=width) for word in line.split()}
    assert {one.name for one in documented()} <= words


def test_a_pipe_gets_a_row_a_line(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(NARROW))
    script.answers = [httpx.Response(200, json={"items": [AUDITED], "next_cursor": None})]
    assert failures.run(["audit-log"]) == 0
    _, row = capsys.readouterr().out.splitlines()
    assert all(whole in row for whole in (*WHOLE, AUDITED["problem"]))


@pytest.mark.parametrize("command", ["audit-log", "schedules get shop 01"])
def test_a_pipe_gets_no_blanks_at_the_end_of_a_line(
    script: Script, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    answer = {"items": [AUDITED, {**AUDITED, "request_id": "-"}]} if command == "audit-log" else SCHEDULE
    script.answers = [httpx.Response(200, json=answer)]
    assert failures.run(command.split()) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) > 2
    assert [line for line in printed if line != line.rstrip()] == []


def test_the_window_of_an_audited_action_is_shown_as_instants(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    details = {"start": 1795858019000, "end": 1795858020000, "cancelled": 3}
    script.answers = [httpx.Response(200, json={"items": [{**AUDITED, "details": details}]})]
    assert failures.run(["audit-log"]) == 0
    assert "start=2026-11-28 09:26:59.000Z, end=2026-11-28 09:27:00.000Z, cancelled=3" in capsys.readouterr().out


@pytest.mark.parametrize("width", [36, 24, 23, 14, 13, 8, 3, 1])
@pytest.mark.parametrize("command", ["audit-log", "schedules get shop 01"])
def test_nothing_is_lost_on_a_terminal_of_few_columns(
    script: Script, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, width: int
) -> None:
    answer = {"items": [AUDITED], "next_cursor": None} if command == "audit-log" else SCHEDULE
    script.answers = [httpx.Response(200, json=answer)] * 2
    whole = lines(monkeypatch, capsys, command, width=WIDE)
    printed = lines(monkeypatch, capsys, command, width=width)
    assert max(map(len, printed)) <= width
    told = "".join(printed).replace(" ", "")
    assert [word for line in whole for word in line.split() if word not in told] == []


def test_values_are_below_their_names_where_an_id_does_not_fit_beside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = [("request_id", AUDITED["request_id"]), ("empty", ""), ("parts", ["one", "two"])]
    for name, value in {"TTY_COMPATIBLE": "1", "TERM": "xterm", "COLUMNS": str(len(AUDITED["request_id"]))}.items():
        monkeypatch.setenv(name, value)
    print_fields(fields)
    printed = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert [line.rstrip() for line in printed.splitlines()] == [
        *("request_id", AUDITED["request_id"]),
        *("empty", ""),
        *("parts", "one", "two"),
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3_600 + 61, "1 h 1 min"),
        (86_400 + 59, "1 d"),
        (86_400 * 30 + 7_200, "30 d 2 h"),
    ],
)
def test_a_length_of_time_has_two_units_at_most(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_terminal_gets_instants_relative_and_local_beside_utc(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    fields = [("due", NOW + timedelta(hours=1, seconds=30)), ("ended", NOW - timedelta(days=1, seconds=1))]
    try:
        print_fields(fields)
        assert "(" not in capsys.readouterr().out, "a pipe gets more than the instant"
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "200")
        print_fields(fields)
        local = [f", {at.astimezone():%a %H:%M:%S %Z} here" if zone != "UTC" else "" for _, at in fields]
    finally:
        monkeypatch.undo()
        time.tzset()
    due, ended = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert f"Z (in 1 h{local[0]})" in due
    assert f"Z (1 d ago{local[1]})" in ended
