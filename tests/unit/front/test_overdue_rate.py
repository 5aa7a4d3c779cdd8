"""The overdue rate in the SDK and as commands."""

import json

import httpx
import pytest

from minutehand.cli import failures
from tests.support.scripted_api import PROBLEM, Script, problem

LIMITED, UNLIMITED = {"overdue_per_second": 50.0}, {"overdue_per_second": None}


def test_the_sdk_sets_shows_and_removes_it(script: Script) -> None:
    script.answers = [*(httpx.Response(200, json=LIMITED) for _ in range(2)), httpx.Response(204)]
    with script.api() as api:
        assert api.set_overdue_rate(50).overdue_per_second == 50.0
        assert api.overdue_rate().overdue_per_second == 50.0
        api.remove_overdue_rate()
    assert [(one.method, one.url.path) for one in script.requests] == [
        (method, "/v1/cluster/overdue-rate") for method in ("PUT", "GET", "DELETE")
    ]
    assert script.sent() == LIMITED


@pytest.mark.parametrize(
    ("arguments", "answers", "said"),
    [
        ("set 50", [LIMITED], "At most 50 overdue calls a second are made of all clients together."),
        ("show", [UNLIMITED], "Overdue calls are made as fast as limits permit."),
        ("remove", [None, UNLIMITED], "Overdue calls are made as fast as limits permit."),
    ],
)
def test_the_commands(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: str, answers: list[object], said: str
) -> None:
    script.answers = [httpx.Response(204) if one is None else httpx.Response(200, json=one) for one in answers]
    assert failures.run(["overdue-rate", *arguments.split()]) == 0
    assert capsys.readouterr().out.strip() == said
    script.answers = [httpx.Response(204) if one is None else httpx.Response(200, json=one) for one in answers]
    assert failures.run(["overdue-rate", *arguments.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answers[-1]


@pytest.mark.parametrize(("given", "sent"), [("12.5", 12.5), ("0", None)])
def test_a_clients_own_is_set_when_it_is_registered(script: Script, given: str, sent: float | None) -> None:
    script.answers = [problem(404, {**PROBLEM, "type": "/problems/not-found", "status": 404}), httpx.Response(500)]
    failures.run(["clients", "register", "shop", "--overdue-per-second", given])
    assert script.sent(1).get("settings", {}).get("overdue_per_second") == sent
