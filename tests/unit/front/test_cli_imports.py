"""`minutehand import`: nothing is stored without --apply, and with it each entry under an id of its own."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from tests.support.scripted_api import CRON, PROBLEM, SCHEDULE, Script, problem

RULES = [
    {"Name": "nightly", "ScheduleExpression": "cron(0 9 ? * MON-FRI *)", "ScheduleExpressionTimezone": "Europe/Berlin"},
    {"Name": "off", "ScheduleExpression": "rate(5 minutes)", "State": "DISABLED"},
    {"Name": "later", "ScheduleExpression": "at(2199-01-01T09:00:00)", "ScheduleExpressionTimezone": "Europe/Berlin"},
    {"Name": "past", "ScheduleExpression": "at(2020-01-01T09:00:00)"},
]
NONE = problem(404, {**PROBLEM, "type": "/problems/not-found", "status": 404})
APPLY = ["--apply", "--client", "shop", "--url-template", "https://in.example/{name}?id={id}"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "rules.json"
    made.write_text(json.dumps(RULES))
    return made


def test_without_apply_it_only_shows(script: Script, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["import", "eventbridge", str(file)]) == 0
    shown = capsys.readouterr().out
    assert script.requests == []
    for told in ("eventbridge-nightly", "at 09:00 on Monday to Friday", "DIFFERS without a dialect: refused",
                 "left out: off in the source", "left out: its time has passed", "2 to import, 2 left out, 0 faults",
                 "Nothing was put"):  # fmt: skip
        assert told in shown
    assert failures.run(["import", "eventbridge", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["applied"], [one["differs"] for one in document["entries"]]) == (
        None,
        [True, True, False, False],
    )


def test_what_is_no_schedule_keeps_nothing_back(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules"
    file.write_text(json.dumps({"Rules": [{"Name": "e", "EventPattern": "{}"}, RULES[0]]}))
    script.answers = [NONE, httpx.Response(201, json=CRON)]
    assert failures.run(["import", "eventbridge", str(file), *APPLY]) == 0
    told = capsys.readouterr().out
    assert "item 1, Rules[0]: left out: e waits for events" in told
    assert "1 to import, 1 left out, 0 faults" in told
    assert failures.run(["import", "eventbridge", str(file), "--json"]) == 0
    assert [one["place"] for one in json.loads(capsys.readouterr().out)["left_out"]] == ["item 1, Rules[0]"]


def test_applied_each_is_put_under_its_id(script: Script, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = [NONE, httpx.Response(201, json=CRON), NONE, httpx.Response(201, json=SCHEDULE)]
    assert failures.run(["import", "eventbridge", str(file), *APPLY]) == 0
    told = capsys.readouterr().out
    assert "crons: 1 created, 0 changed, 0 unchanged; calls: 1 created, 0 changed, 0 unchanged" in told
    _, cron, _, once = script.requests
    assert (cron.method, cron.url.path) == ("PUT", "/v1/clients/shop/crons/eventbridge-nightly")
    asked: dict[str, Any] = script.sent(1)
    assert (asked["dialect"], asked["expression"], asked["timezone"]) == (
        "aws",
        "cron(0 9 ? * MON-FRI *)",
        "Europe/Berlin",
    )
    assert asked["callback"]["url"] == "https://in.example/nightly?id=eventbridge-nightly"
    assert asked["callback"]["json"] == {"source": "eventbridge", "name": "nightly"}
    assert once.url.path.endswith("/eventbridge-later")
    assert script.sent(3)["due"] == {"local": "2199-01-01T09:00:00", "timezone": "Europe/Berlin"}


@pytest.mark.parametrize(
    ("before", "after", "result"),
    [
        ({"revision": 3}, {"revision": 3}, "unchanged"),
        ({"revision": 3}, {"revision": 4}, "changed"),
        ({"revision": 3, "state": "deleted"}, {"revision": 4}, "created"),
    ],
)
def test_a_repeat_tells_what_it_changed(
    script: Script,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    before: dict[str, Any],
    after: dict[str, Any],
    result: str,
) -> None:
    file = tmp_path / "rules.json"
    file.write_text(json.dumps(RULES[:1]))
    script.answers = [httpx.Response(200, json={**CRON, **one}) for one in (before, after)]
    assert failures.run(["import", "eventbridge", str(file), *APPLY, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["entries"][0]["applied"] == result
    counts = {"created": 0, "changed": 0, "unchanged": 0}
    assert document["applied"] == {"crons": {**counts, result: 1}, "calls": counts}


def test_it_shows_where_calls_go_and_what_they_carry(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    details = {"url": "https://u:geheim@a.example/x?token=geheim&n=1", "headers": {"Authorization": "geheim"}}
    row = {"appId": "shop", "scheduleId": "s", "cronExpression": "0 9 * * *", "callback": {"details": details}}
    file = tmp_path / "rules.json"
    file.write_text(json.dumps([{**row, "payload": "a\n" + "ü" * 100}, {**row, "scheduleId": "t"}]))
    assert failures.run(["import", "goscheduler", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "  -> POST https://***@a.example/x?token=***&n=1, headers Authorization, 202 bytes: a\\nüü" in shown
    assert "ü..." in shown
    assert "headers Authorization, no body" in shown
    assert failures.run(["import", "goscheduler", str(file), "--json"]) == 0
    told = capsys.readouterr().out
    assert json.loads(told)["entries"][1]["call"] == {
        "url": "https://***@a.example/x?token=***&n=1", "destination": None, "path": None, "method": "POST",
        "headers": {"Authorization": "***"}, "body_bytes": 0, "body_begin": "",
    }  # fmt: skip
    assert "geheim" not in shown + told
    assert failures.run(["import", "goscheduler", str(file), "--destination", "jobs", "--path", "/{id}"]) == 0
    assert "  -> destination jobs/go-shop.t, headers" in capsys.readouterr().out


def test_without_a_receiver_it_says_so(script: Script, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["import", "eventbridge", str(file)]) == 0
    assert "Nothing says yet where the calls go" in capsys.readouterr().out


def test_a_refusal_names_what_it_stopped_at(script: Script, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refusal = problem(422, {**PROBLEM, "type": "/problems/invalid", "status": 422})
    script.answers = [NONE, httpx.Response(201, json=CRON), refusal]
    assert failures.run(["import", "eventbridge", str(file), *APPLY]) == 1
    assert "Stopped at eventbridge-later, item " in (told := capsys.readouterr().err)
    assert "before it: crons: 1 created, 0 changed, 0 unchanged." in told


def test_with_faults_nothing_is_put(script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "crontab"
    file.write_text("@daily x\n@reboot y\n")
    assert failures.run(["import", "crontab", str(file), *APPLY]) == 1
    told = capsys.readouterr()
    assert "line 2: " in told.out
    assert "--apply puts them" not in told.out
    assert "Nothing was put" in told.err
    assert failures.run(["import", "crontab", str(file)]) == 1
    assert script.requests == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--apply"], "--apply needs --client"),
        (["--apply", "--client", "shop"], "nothing says where the calls go"),
        (["--url-template", "https://x.example/{job}"], "names {job}"),
        (["--url-template", "https://x.example/", "--destination", "jobs"], "Give one of"),
    ],
)
def test_what_is_missing_is_said(
    script: Script, file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    assert failures.run(["import", "eventbridge", str(file), *arguments]) == 1
    assert why in capsys.readouterr().err
    assert script.requests == []


def test_a_destination_takes_the_path(script: Script, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("@daily /bin/x\n")
    script.answers = [NONE, httpx.Response(201, json=CRON)]
    asked = ["--apply", "--client", "shop", "--destination", "jobs", "--path", "/run/{id}"]
    assert failures.run(["import", "crontab", str(file), *asked]) == 0
    callback = script.sent(1)["callback"]
    assert callback["destination"] == "jobs"
    assert callback["path"].startswith("/run/crontab-x-")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty: give aws scheduler get-schedule"),
        (b"[1, \xff]", "is no text in UTF-8: its byte 5 is 0xff. Save it as UTF-8."),
        ('[{"Name": 1}]'.encode("utf-16"), "is no text in UTF-8: its byte 1 is 0xff"),
        (b'[{"Name": "a"', "is no JSON (aws scheduler get-schedule, or aws events list-rules): Expecting"),
        (b"<rules/>", "looks like XML, which is not read"),
    ],
)
def test_a_file_that_can_not_be_read_is_one_sentence(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, why: str
) -> None:
    file = tmp_path / "rules"
    file.write_bytes(data)
    assert failures.run(["import", "eventbridge", str(file)]) == 1
    assert f"{file}{':' if 'byte' not in why else ''} {why}" in (told := capsys.readouterr()).err
    assert "Traceback" not in told.err + told.out


def test_a_mark_at_the_begin_of_utf8_is_no_fault(script: Script, tmp_path: Path) -> None:
    file = tmp_path / "rules"
    file.write_text(json.dumps(RULES), "utf-8-sig")
    assert failures.run(["import", "eventbridge", str(file)]) == 0
    assert failures.run(["import", "eventbridge", str(tmp_path)]) == 1
