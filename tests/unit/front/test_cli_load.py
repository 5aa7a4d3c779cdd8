"""Schedules from a file: the requests, their keys, and the messages about refused lines."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from minutehand.cli import failures, load
from tests.support.scripted_api import PROBLEM, SCHEDULE, Script

CREATED = {"status": 201, "schedule": SCHEDULE}
REFUSED = {"status": 422, "problem": PROBLEM}


def answer(*items: dict[str, Any]) -> httpx.Response:
    return httpx.Response(200, json={"items": items})


def ndjson(directory: Path, *schedules: dict[str, Any]) -> Path:
    file = directory / "calls.ndjson"
    file.write_text("\n\n".join(json.dumps(one) for one in schedules) + "\n")
    return file


def call(number: int, **fields: Any) -> dict[str, Any]:
    return {"callback": {"url": f"https://a.example/{number}"}, "delay_seconds": 5, **fields}


def keys(script: Script) -> list[str]:
    return [request.headers["Idempotency-Key"] for request in script.requests]


def test_it_sends_batches_and_repeats_them_under_the_same_keys(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "BATCH", 2)
    file = ndjson(tmp_path, call(1), call(1), call(1), call(1), call(5))
    batches = [answer(CREATED, CREATED), answer(CREATED, CREATED), answer(CREATED)]
    script.answers = [*batches[:2], httpx.Response(404, text="not ours"), *batches]
    assert failures.run(["schedules", "load", "shop", str(file)]) == 1
    assert failures.run(["schedules", "load", "shop", str(file)]) == 0
    said = capsys.readouterr()
    assert "Stopped after line 7: 4 are created, 0 refused." in said.err
    assert "5 are created, 0 refused." in said.out
    assert keys(script)[:3] == keys(script)[3:]
    assert len(set(keys(script))) == 3, "two batches of one content are two batches"
    assert [len(script.sent(at)["items"]) for at in range(3)] == [2, 2, 1]
    assert script.requests[0].url.path == "/v1/clients/shop/schedules:batch"


def test_another_content_has_another_key(script: Script, tmp_path: Path) -> None:
    for delay in (5, 6):
        script.answers = [answer(CREATED)]
        file = ndjson(tmp_path, call(1, delay_seconds=delay))
        assert failures.run(["schedules", "load", "shop", str(file)]) == 0
    assert len(set(keys(script))) == 2


def test_a_line_holds_what_a_create_takes(script: Script, tmp_path: Path) -> None:
    due = {"local": "2027-03-28T02:30", "timezone": "Europe/Berlin"}
    sent = {"callback": {"url": "https://a.example/", "json": {"a": 1}}, "due": due, "retry": {"max_attempts": 2}}
    script.answers = [answer(CREATED)]
    assert failures.run(["schedules", "load", "shop", str(ndjson(tmp_path, {**sent, "key": "k"}))]) == 0
    assert script.sent() == {"items": [{**sent, "key": "k"}]}


def test_csv(script: Script, tmp_path: Path) -> None:
    file = tmp_path / "calls.csv"
    file.write_text(
        "url,method,due,delay_seconds,label,skip_after_seconds\n"
        'https://a.example/,PUT,2026-11-21T09:30:15Z,,"a, b",0.5\nhttps://b.example/,,,5,,\n'
    )
    script.answers = [answer(CREATED, CREATED)]
    assert failures.run(["schedules", "load", "shop", str(file)]) == 0
    assert script.sent()["items"] == [
        {
            "callback": {"url": "https://a.example/", "method": "PUT"},
            "due": "2026-11-21T09:30:15Z",
            "label": "a, b",
            "skip_after_seconds": 0.5,
        },
        {"callback": {"url": "https://b.example/"}, "delay_seconds": 5},
    ]


def test_what_is_refused_is_named_by_its_line(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = ndjson(tmp_path, call(1), call(2))
    script.answers = [answer(CREATED, REFUSED)] * 2
    assert failures.run(["schedules", "load", "shop", str(file)]) == 1
    assert "1 are created, 1 refused." in (said := capsys.readouterr().out)
    assert said.splitlines()[-1].split()[:4] == ["3", "422", "2", "faults"]
    assert failures.run(["schedules", "load", "shop", str(file), "--json"]) == 1
    (refused,) = json.loads(capsys.readouterr().out)["refused"]
    assert (refused["line"], refused["status"]) == (3, 422)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.ndjson", "{}", "line 1 of .* is no schedule: callback is missing"),
        ("x.ndjson", "{", "line 1 of .* is no JSON"),
        ("x.ndjson", "[1]", "line 1 of .* is no JSON object"),
        ("x.ndjson", '{"callback": {"uri": "x"}}', "callback.uri is unknown, callback.url is missing"),
        ("x.ndjson", '{"callback": {"url": "x"}, "delay": 5, "on": 1}', "schedule: delay is unknown, on is unknown"),
        ("x.ndjson", '{"callback": "x"}', "line 1 of .* is no schedule: callback is no JSON object"),
        ("x.ndjson", '{"callback": {"url": "x"}, "delay_seconds": NaN}', "line 1 of .* is no JSON: NaN is no number"),
        ("x.csv", "url,delay_seconds\nhttps://a.example/,nan", "line 2: delay_seconds is no number"),
        ("x.csv", "url,delay_seconds\nhttps://a.example/,-inf", "line 2: delay_seconds is no number"),
        ("x.csv", "url,delay,when\nhttps://a.example/,5,6", "columns that are unknown: delay, when"),
        ("x.csv", "url,delay_seconds\nhttps://a.example/,soon", "line 2.*delay_seconds is no number"),
        ("x.csv", "url,label\nhttps://a.example/", "line 2 of .* has not as many cells"),
        ("x.csv", "url\nhttps://a.example/,more", "line 2 of .* has not as many cells"),
    ],
)
def test_what_is_no_schedule_is_named_and_nothing_is_sent(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    assert failures.run(["schedules", "load", "shop", str(tmp_path / name)]) == 1
    assert re.search(said, capsys.readouterr().err)
    assert script.requests == []
