"""Schedules from a file: the requests, their keys, and the messages about refused lines."""

import asyncio
import json
import math
import os
import re
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from minutehand.cli import failures, schedules
from minutehand.client import Minutehand
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.scripted_api import PROBLEM, SCHEDULE, Script, problem

CREATED = httpx.Response(201, json=SCHEDULE)
REFUSED = problem(422)


def ndjson(directory: Path, *schedules: dict[str, Any]) -> Path:
    file = directory / "calls.ndjson"
    file.write_text("\n\n".join(json.dumps(one) for one in schedules) + "\n")
    return file


def call(number: int, **fields: Any) -> dict[str, Any]:
    return {"callback": {"url": f"https://a.example/{number}"}, "delay_seconds": 5, **fields}


class Api:
    """Creates what it is sent once for each key, and fails after some creates."""

    def __init__(self) -> None:
        self.created: dict[str, dict[str, Any]] = {}
        self.fails_after = math.inf
        self.refuses = ""
        self.overlapped = threading.Event()
        self._under_way: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        content, key = json.loads(request.content), request.headers["Idempotency-Key"]
        if "/by-key/" in (own := request.url.path):
            if own in self._under_way:
                self.overlapped.set()
            self._under_way.add(own)
            self.overlapped.wait(0.002)  # another request begins meanwhile, if it may
            self._under_way.discard(own)
        with self._lock:
            if len(self.created) >= self.fails_after:
                return problem(503, {**PROBLEM, "status": 503, "type": "/problems/unavailable", "errors": []})
            if content["callback"]["url"] == self.refuses:
                return problem(422)
            assert self.created.setdefault(key, content) == content
            return httpx.Response(201, json=SCHEDULE)

    @property
    def urls(self) -> list[str]:
        return sorted(one["callback"]["url"].rpartition("/")[2] for one in self.created.values())


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    found = Api()

    def connected(url: str, key: str) -> Minutehand:
        return Minutehand(url, key, transport=httpx.MockTransport(found), retries=0)

    monkeypatch.setattr("minutehand.client.Minutehand", connected)
    monkeypatch.setenv("MINUTEHAND_KEY", "the-key")
    return found


def load(file: Path, *options: str) -> int:
    return failures.run(["schedules", "load", "shop", str(file), *options])


def test_a_load_that_stopped_goes_on_and_creates_nothing_twice(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = range(100)
    file = ndjson(tmp_path, *map(call, numbers), call(7))
    api.fails_after = 40
    assert load(file) == 1
    said = capsys.readouterr()
    assert "40 are created, 0 refused, 61 are left: the same command goes on with them." in said.out
    assert "unavailable" in said.err
    api.fails_after = math.inf
    assert load(file) == 0
    assert "101 are created, 0 refused." in capsys.readouterr().out
    assert api.urls == sorted([*map(str, numbers), "7"]), "two equal lines are two schedules"


def test_what_is_corrected_or_added_is_created_and_nothing_else(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api.refuses = "https://a.example/2"
    assert load(ndjson(tmp_path, call(1), call(2), call(3))) == 1
    assert load(ndjson(tmp_path, call(0), call(1), call(20), call(3), call(4))) == 0
    assert "5 are created, 0 refused." in capsys.readouterr().out
    assert api.urls == ["0", "1", "20", "3", "4"]
    file = tmp_path / "others.ndjson"
    file.write_text(json.dumps(call(1)))
    assert load(file) == 0
    assert api.urls.count("1") == 2, "another file has other calls"


def test_an_interrupted_load_says_what_it_has_done(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(sentence: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(schedules, "_TOLD_EVERY", 10)
    monkeypatch.setattr(schedules, "progress", interrupted)
    assert load(ndjson(tmp_path, *map(call, range(100))), "--json") == 130
    told = json.loads(capsys.readouterr().out)
    assert told == {"created": len(api.created), "refused": [], "left": 100 - len(api.created)}
    assert 10 <= told["created"] < 100


def test_a_refusal_that_would_meet_all_lines_ends_the_load(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.answers = [problem(403, {**PROBLEM, "status": 403, "type": "/problems/client-suspended"})] * 16
    assert load(ndjson(tmp_path, *map(call, range(1_000)))) == 1
    assert "0 are created, 0 refused, 1,000 are left" in capsys.readouterr().out
    assert len(script.requests) <= 16


def test_lines_of_one_key_are_put_one_after_the_other(api: Api, tmp_path: Path) -> None:
    lines = [call(number, key=f"k{number % 2}") for number in range(40)]
    assert load(ndjson(tmp_path, *lines)) == 0
    assert not api.overlapped.is_set()
    for own_key in range(2):
        put = [int(one["callback"]["url"].rpartition("/")[2]) for one in api.created.values()]
        assert [number for number in put if number % 2 == own_key] == list(range(own_key, 40, 2))


def test_a_line_holds_what_a_create_takes(script: Script, tmp_path: Path) -> None:
    due = {"local": "2027-03-28T02:30", "timezone": "Europe/Berlin"}
    sent = {"callback": {"url": "https://a.example/", "json": {"a": 1}}, "due": due, "retry": {"max_attempts": 2}}
    script.answers = [CREATED] * 2
    assert load(ndjson(tmp_path, {**sent, "label": "l"})) == 0
    assert script.sent() == {**sent, "label": "l"}
    assert load(ndjson(tmp_path, {**sent, "key": "k"})) == 0
    assert script.sent(1) == sent
    assert [request.url.path.rpartition("/schedules")[2] for request in script.requests] == ["", "/by-key/k"]


def test_csv(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "calls.csv"
    file.write_text(
        "url,method,due,delay_seconds,label,skip_after_seconds\n"
        'https://a.example/,PUT,2026-11-21T09:30:15Z,,"a, b",0.5\nhttps://b.example/,,,5,,\n'
    )
    assert load(file) == 0
    first, second = sorted(api.created.values(), key=str)
    assert first == {
        "callback": {"url": "https://a.example/", "method": "PUT"},
        "due": "2026-11-21T09:30:15Z",
        "label": "a, b",
        "skip_after_seconds": 0.5,
    }
    assert second == {"callback": {"url": "https://b.example/"}, "delay_seconds": 5}


def test_what_is_refused_is_named_by_its_line_with_every_fault(
    api: Api, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, api.refuses = ndjson(tmp_path, call(1), call(2)), "https://a.example/2"
    assert load(file) == 1
    assert "1 is created, 1 refused." in (said := capsys.readouterr().out)
    assert said.splitlines()[-1].split() == "3 422 2 faults were found: /due is required; / is odd".split()
    assert load(file, "--json") == 1
    told = json.loads(capsys.readouterr().out)
    (refused,) = told["refused"]
    assert (told["created"], told["left"], refused["line"], refused["status"]) == (1, 0, 3, 422)
    assert refused["errors"] == PROBLEM["errors"]


def test_a_pipe_is_read_once(api: Api, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(json.dumps(call(1)),))
    writer.start()
    assert load(pipe) == 0
    writer.join()
    assert api.urls == ["1"]


async def test_a_repeat_is_answered_as_it_was_by_the_api(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ApiHarness() as harness:
        assert harness.server is not None
        await harness.register("shop")
        monkeypatch.setenv("MINUTEHAND_URL", f"http://127.0.0.1:{harness.server.port}")
        monkeypatch.setenv("MINUTEHAND_KEY", ADMIN_KEY)
        lines = [call(1, delay_seconds=60), call(2, delay_seconds=60, key="cart"), call(3, delay_seconds=-1, label="")]
        for _ in range(2):
            assert await asyncio.to_thread(load, ndjson(tmp_path, *lines), "--json") == 1
            told = json.loads(capsys.readouterr().out)
            assert (told["created"], told["left"], [one["line"] for one in told["refused"]]) == (2, 0, [5])
            assert {one["pointer"] for one in told["refused"][0]["errors"]} == {"/delay_seconds", "/label"}
        assert await asyncio.to_thread(failures.run, ["schedules", "list", "shop", "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["schedules", "load", "shop", str(tmp_path / "absent.ndjson"), "--key", "k"]) == 1
    assert capsys.readouterr().err.endswith("/absent.ndjson: No such file or directory.\n")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.ndjson", "{}", "line 1 of .* is no schedule: callback is missing"),
        ("x.ndjson", "{}\n{\n", "line 2 of .* is no JSON: Expecting [^:]* at character 3[.]"),
        ("x.ndjson", "[1]", "line 1 of .* is no JSON object"),
        ("x.ndjson", '{"callback": {"uri": "x"}}', "callback.uri is unknown"),
        ("x.ndjson", '{"callback": {"url": "x"}, "delay": 5, "on": 1}', "schedule: delay is unknown, on is unknown"),
        ("x.ndjson", '{"callback": "x"}', "line 1 of .* is no schedule: callback is no JSON object"),
        ("x.ndjson", '{"callback": {"url": "x"}, "delay_seconds": NaN}', "line 1 of .* is no JSON: NaN is no number"),
        ("x.csv", "url,delay_seconds\nhttps://a.example/,nan", "line 2 of .* delay_seconds is no number"),
        ("x.csv", "url,delay_seconds\nhttps://a.example/,-inf", "line 2 of .* delay_seconds is no number"),
        ("x.csv", "url,delay,when\nhttps://a.example/,5,6", "columns that are unknown: delay, when"),
        ("x.csv", "url,delay_seconds\nhttps://a.example/,soon", "line 2.*delay_seconds is no number"),
        ("x.csv", "url,label\nhttps://a.example/", "line 2 of .* has not as many cells"),
        (
            "x.ndjson",
            '{"callback": {"uri": 1}, "due": {"local": 1}, "a": 1}\n[1]',
            "uri is unknown, .*due.timezone is missing, a is unknown; line 2 of .* is no JSON object",
        ),
        ("x.csv", "url,delay_seconds,window_seconds\n,a,b", "delay_seconds is no number, window_seconds is no number"),
        ("x.csv", "url\nhttps://a.example/,more", "line 2 of .* has not as many cells"),
    ],
)
def test_what_is_no_schedule_is_named_and_nothing_is_sent(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    assert load(tmp_path / name) == 1
    assert re.search(said, capsys.readouterr().err)
    assert script.requests == []
