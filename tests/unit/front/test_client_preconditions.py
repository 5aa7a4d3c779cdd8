"""Changes of what was seen only: which tags the SDK and the commands send, and where they find them."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from minutehand.client import Callback, Minutehand
from tests.support.scripted_api import CRON, DESTINATION, EXCHANGE, SCHEDULE, SUBSCRIPTION, Script
from tests.unit.front.test_client_settings import CLIENT

CALLBACK = Callback(url="https://a.example/")
RULE: dict[str, Any] = {"expression": "@daily", "timezone": "UTC"}
SENT: list[tuple[dict[str, Any], Callable[[Minutehand], object]]] = [
    (SCHEDULE, lambda api: api.client("shop").schedules.put("k", CALLBACK, if_match="7", delay_seconds=1)),
    (SCHEDULE, lambda api: api.client("shop").schedules.cancel("x", if_match="7")),
    (SCHEDULE, lambda api: api.client("shop").schedules.cancel_by_key("k", if_match="7")),
    (SCHEDULE, lambda api: api.client("shop").schedules.reschedule("x", delay_seconds=1, if_match="7")),
    (SCHEDULE, lambda api: api.client("shop").schedules.update("x", label="y", if_match="7")),
    (SCHEDULE, lambda api: api.client("shop").schedules.run("x", if_match="7")),
    (CRON, lambda api: api.client("shop").crons.put("c", CALLBACK, revision=7, **RULE)),
    (CRON, lambda api: api.client("shop").crons.pause("c", revision=7)),
    (CRON, lambda api: api.client("shop").crons.resume("c", revision=7)),
    (CRON, lambda api: api.client("shop").crons.delete("c", revision=7)),
    (DESTINATION, lambda api: api.client("shop").destinations.pause("d", revision=7)),
    (DESTINATION, lambda api: api.client("shop").destinations.resume("d", revision=7)),
    (SUBSCRIPTION, lambda api: api.client("shop").subscriptions.put("s", {"destination": "d"}, revision=7)),
    (CLIENT, lambda api: api.client("shop").change_settings({"timeout_seconds": 3.0}, revision=7)),
    (CLIENT, lambda api: api.client("shop").pause(revision=7)),
    (CLIENT, lambda api: api.client("shop").unpause(revision=7)),
    (CLIENT, lambda api: api.clients.suspend("shop", revision=7)),
    (CLIENT, lambda api: api.clients.resume("shop", revision=7)),
    (CLIENT, lambda api: api.clients.delete("shop", revision=7)),
]
SHOP = "https://a.example/"
COMMANDS = [
    (SCHEDULE, f"schedules put shop k {SHOP} --delay-seconds 1 --if-match 7"),
    (SCHEDULE, "schedules cancel shop x --if-match 7"),
    (SCHEDULE, "schedules cancel-by-key shop k --if-match 7"),
    (SCHEDULE, "schedules reschedule shop x --delay-seconds 1 --if-match 7"),
    (SCHEDULE, "schedules update shop x --label y --if-match 7"),
    (SCHEDULE, "schedules run shop x --if-match 7"),
    (CRON, f"crons put shop c {SHOP} --expression @daily --timezone UTC --revision 7"),
    (CRON, "crons pause shop c --revision 7"),
    (CRON, "crons resume shop c --revision 7"),
    (CRON, "crons delete shop c --revision 7"),
    (DESTINATION, "destinations pause shop d --revision 7"),
    (DESTINATION, "destinations resume shop d --revision 7"),
    (SUBSCRIPTION, "subscriptions put shop s d --revision 7"),
    (CLIENT, 'clients set shop {"timeout_seconds":3} --revision 7'),
    *[(CLIENT, f"clients {verb} shop --revision 7") for verb in ("suspend", "resume", "pause", "unpause", "delete")],
]


@pytest.mark.parametrize(("answer", "change"), SENT)
def test_the_sdk_sends_the_tag_it_is_given(answer: dict[str, Any], change: Callable[[Minutehand], object]) -> None:
    script = Script(httpx.Response(200, json=answer))
    with script.api() as api:
        change(api)
    assert script.requests[0].headers["If-Match"] == '"7"'


@pytest.mark.parametrize(("answer", "command"), COMMANDS)
def test_commands_do_too(script: Script, answer: dict[str, Any], command: str) -> None:
    script.answers = [httpx.Response(200, json=answer)]
    assert failures.run(command.split()) == 0
    assert script.requests[0].headers["If-Match"] == '"7"'


def test_a_cron_only_if_there_is_none(script: Script) -> None:
    script.answers = [httpx.Response(201, json=CRON)]
    assert failures.run(f"crons put shop c {SHOP} --expression @daily --timezone UTC --absent".split()) == 0
    assert script.requests[0].headers["If-None-Match"] == "*"


def test_a_schedule_tells_its_tag(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    answers = [httpx.Response(200, json=SCHEDULE, headers={"ETag": '"x-2"'}) for _ in range(2)]
    with Script(answers[0], httpx.Response(201, json=SCHEDULE)).api() as api:
        schedules = api.client("shop").schedules
        assert (schedules.get("x").etag, schedules.create(CALLBACK, delay_seconds=1).etag) == ("x-2", None)
    script.answers = answers[1:]
    assert failures.run(["schedules", "get", "shop", "x"]) == 0
    assert "x-2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "answer"),
    [("crons put shop c --expression @daily --timezone UTC", CRON), ("clients trial-call shop", None)],
)
def test_calls_have_the_same_options_everywhere(script: Script, command: str, answer: dict[str, Any] | None) -> None:
    script.answers = [httpx.Response(200, json=EXCHANGE if answer is None else answer)]
    call = (
        "--destination d --path /p --method PUT --header X:1 --body b --flow-key k --flow-rate 2 --flow-parallelism 3"
    )
    assert failures.run([*command.split(), *call.split(), "--timeout-seconds", "2"]) == 0
    assert (script.sent()["callback"], script.sent()["timeout_seconds"]) == (
        {
            "destination": "d",
            "path": "/p",
            "method": "PUT",
            "headers": {"X": "1"},
            "body": "b",
            "flow_key": "k",
            "flow_rate": 2.0,
            "flow_parallelism": 3,
        },
        2.0,
    )


def test_a_cron_may_bound_its_retries(script: Script) -> None:
    script.answers = [httpx.Response(201, json=CRON)]
    retry = "--max-attempts 3 --retry-deadline-seconds 60"
    assert failures.run(f"crons put shop c {SHOP} --expression @daily --timezone UTC {retry}".split()) == 0
    assert script.sent()["retry"] == {"max_attempts": 3, "deadline_seconds": 60.0}


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        (f"schedules create shop {SHOP} --delay-seconds 5", SCHEDULE),
        (f"schedules put shop k {SHOP} --delay-seconds 5", SCHEDULE),
        (f"crons put shop c {SHOP} --expression @daily --timezone UTC", CRON),
    ],
)
def test_receivers_may_be_given_time_for_their_word(script: Script, command: str, answer: dict[str, Any]) -> None:
    script.answers = [httpx.Response(201, json=answer)]
    assert failures.run([*command.split(), "--ack-seconds", "600"]) == 0
    assert script.sent()["callback"]["ack"] == {"within_seconds": 600.0}
