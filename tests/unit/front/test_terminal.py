"""What others wrote reaches a terminal as text: no escape sequence of theirs is obeyed there."""

import json
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.cli.output import printable
from tests.support.scripted_api import ATTEMPT, CRON, EXCHANGE, LETTER, PROBLEM, SCHEDULE, Script, problem

HOSTILE = "a\x1b]0;owned\x07b\x9b2Jc\x7fd\u202ee\u2028f"
CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E)} - {"\n"}


ANSWERS = [
    ("schedules get shop 01", {**SCHEDULE, "state": HOSTILE}),
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
