"""The command line: what it prints for people and for programs, and one sentence for every error."""

import json
import re
from typing import Any

import httpx
import pytest

from minutehand.cli import failures
from tests.support.scripted_api import (
    ATTEMPT,
    BACKFILLED,
    CRON,
    CRON_CHANGE,
    EXCHANGE,
    LETTER,
    PREVIEW,
    PROBLEM,
    RECONCILIATION,
    RUN,
    SCHEDULE,
    STORY,
    Script,
    problem,
)

CLIENT = {
    "client_id": "shop",
    "poller_quota": 2,
    "poller_ceiling": 2,
    "state": "active",
    "settings": {"timeout_seconds": 10},
    "revision": 1,
    "created_at": "2026-11-21T09:00:00.000Z",
    "guaranteed_calls_per_minute": 2000,
}
DAY = "2026-11-21T00:00:00Z"
CANCEL_WINDOW = "schedules cancel-window shop --from 2026-11-21T00:00:00Z --to 2026-11-22T00:00:00Z"
CANCELLED = {"schedule_id": SCHEDULE["schedule_id"], "status": 200, "state": "cancelled"}
KEY = {"key_id": "k1", "created_at": "2026-11-21T09:00:00.000Z", "revoked_at": None}
ADMIN_KEY = {"key_id": "k1", "name": "ops", "created_at": "2026-11-21T09:00:00.000Z", "revoked_at": None}
SECRET = {"secret_id": "s1", "created_at": "2026-11-21T09:00:00.000Z", "expires_at": None}
MISSING = problem(404, {**PROBLEM, "type": "/problems/not-found", "status": 404})


def test_minutehands_own_client_is_listed_when_it_is_asked_for(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    script.answers = [httpx.Response(200, json={"items": [{**CLIENT, "client_id": "$cron"}, CLIENT]})] * 4
    for form in ([], ["--json"]):
        assert failures.run(["clients", "list", *form]) == 0
        listed = capsys.readouterr().out
        assert "shop" in listed
        assert "$cron" not in listed
        assert failures.run(["clients", "list", "--all", *form]) == 0
        assert "$cron" in capsys.readouterr().out


def test_attempts_show_the_end_of_a_retried_success_and_tell_an_empty_answer_from_none(
    script: Script, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = {**ATTEMPT, "attempt": 1, "status": 401, "excerpt": ""}
    unanswered = {**ATTEMPT, "status": None, "error": "connect-refused", "excerpt": ""}
    retried = {**ATTEMPT, "attempt": 3, "outcome": "delivered", "status": 204, "excerpt": None}
    retried |= {"started_at": None, "duration_seconds": None}
    script.answers = [httpx.Response(200, json={"items": [refused, unanswered, retried]})]
    assert failures.run(["schedules", "attempts", "shop", "x"]) == 0
    _, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    started, ended = ["2026-11-21", "09:30:15.250Z"], ["2026-11-21", "09:30:15.262Z"]
    assert rows == [
        ["1", "failed", *started, *ended, "0.012", "401", "-", "-", "-", "(empty)"],
        ["2", "failed", *started, *ended, "0.012", "-", "connect-refused", "-", "-", "-"],
        ["3", "delivered", "-", *ended, "-", "204", "-", "-", "-", "-"],
    ]


def test_attempts_show_what_a_receiver_said_later(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    taken = {**ATTEMPT, "status": 202, "error": "receiver-failed", "excerpt": None}
    word = {"result": "failed", "at": "2026-11-21T09:31:00.000Z", "reason": "no disk", "data": {"free": 0}}
    waits = {**taken, "attempt": 3, "outcome": "awaiting", "error": None, "acknowledgement": None}
    script.answers = [httpx.Response(200, json={"items": [{**taken, "acknowledgement": word}, waits]})]
    assert failures.run(["schedules", "attempts", "shop", "x"]) == 0
    _, told, awaited = (line.split() for line in capsys.readouterr().out.splitlines())
    assert " ".join(told).endswith("202 receiver-failed - failed (no disk) -")
    assert awaited[:2] == ["3", "awaiting"]


@pytest.mark.parametrize(
    ("arguments", "answers", "wanted"),
    [
        ("clients register shop --poller-quota 2", [MISSING, httpx.Response(201, json=CLIENT)], "shop"),
        ("clients list", [httpx.Response(200, json={"items": [CLIENT]})], "shop"),
        ("clients show shop", [httpx.Response(200, json=CLIENT)], "2000"),
        ("clients suspend shop", [httpx.Response(200, json={**CLIENT, "state": "suspended"})], "suspended"),
        ("clients resume shop", [httpx.Response(200, json=CLIENT)], "active"),
        (
            "clients register shop --poller-quota 2",
            [MISSING, httpx.Response(201, json={**CLIENT, "signing_secret": {**SECRET, "secret": "whsec_first"}})],
            "whsec_first",
        ),
        ("clients pause shop", [httpx.Response(200, json={**CLIENT, "paused": True})], "active, paused"),
        ("clients unpause shop", [httpx.Response(200, json=CLIENT)], "active"),
        ('clients set shop {"timeout_seconds":5}', [httpx.Response(200, json=CLIENT)], "2000"),
        ("clients delete shop", [httpx.Response(204)], "shop"),
        ("clients trial-call shop https://a.example/", [httpx.Response(200, json=EXCHANGE)], "delivered"),
        ("keys create shop", [httpx.Response(201, json={**KEY, "key": "mh_x"})], "mh_x (shown this once)"),
        (
            "keys create shop --scope read --name dashboard --expires-at 2027-11-21T00:00:00Z",
            [httpx.Response(201, json={**KEY, "key": "mh_x", "scope": "read"})],
            "read",
        ),
        ("keys list shop", [httpx.Response(200, json={"items": [{**KEY, "name": "dashboard"}]})], "dashboard"),
        ("keys list shop", [httpx.Response(200, json={"items": [KEY]})], "k1"),
        ("keys revoke shop k1", [httpx.Response(204)], "k1"),
        ("admin-keys create ops", [httpx.Response(201, json={**ADMIN_KEY, "key": "mh_x"})], "mh_x (shown this once)"),
        ("admin-keys list", [httpx.Response(200, json={"items": [ADMIN_KEY]})], "ops"),
        ("admin-keys revoke k1", [httpx.Response(204)], "k1"),
        (
            "signing-secrets create shop --scheme v1a",
            [httpx.Response(201, json={**SECRET, "scheme": "v1a", "secret": "whpk_x"})],
            "public key",
        ),
        (
            "signing-secrets list shop",
            [httpx.Response(200, json={"items": [{**SECRET, "scheme": "v1a", "public_key": "whpk_x"}]})],
            "whpk_x",
        ),
        (
            "signing-secrets create shop",
            [httpx.Response(201, json={**SECRET, "secret": "whsec_x"})],
            "whsec_x (shown this once",
        ),
        ("signing-secrets list shop", [httpx.Response(200, json={"items": [SECRET]})], "s1"),
        ("signing-secrets delete shop s1", [httpx.Response(204)], "s1"),
        (
            "schedules create shop https://a.example/ --delay-seconds 3",
            [httpx.Response(201, json=SCHEDULE)],
            "scheduled",
        ),
        ("schedules get shop X", [httpx.Response(200, json=SCHEDULE)], "09:30:15.250Z"),
        ("schedules cancel shop X", [httpx.Response(200, json={**SCHEDULE, "state": "cancelled"})], "cancelled"),
        ("schedules list shop", [httpx.Response(200, json={"items": [SCHEDULE]})], "01a1fe8c"),
        (
            "schedules count shop --label a --label b --host a.example --state failed --key-prefix x",
            [httpx.Response(200, json={"count": 1234, "next_cursor": None})],
            "1,234",
        ),
        (
            "crons put shop nightly https://a.example/ --expression @daily --timezone UTC",
            [httpx.Response(201, json=CRON)],
            "at 02:30 every day",
        ),
        ("schedules redeliver shop x", [httpx.Response(202, json={**SCHEDULE, "state": "retrying"})], "retrying"),
        (
            "schedules reschedule shop x --delay-seconds 5",
            [httpx.Response(201, json={**SCHEDULE, "rescheduled_from": "the-old-one"})],
            "the-old-one",
        ),
        (
            "schedules update shop x --label y --callback-url https://b.example/ --header X-A:1",
            [httpx.Response(200, json={**SCHEDULE, "rescheduled_from": "the-old-one"})],
            "the-old-one",
        ),
        ("schedules run shop x", [httpx.Response(201, json=SCHEDULE)], "scheduled"),
        (
            "schedules run shop x --dry-run",
            [httpx.Response(200, json={"url": "https://a.example/", "method": "PUT", "headers": {"webhook-id": "x"}})],
            "> PUT https://a.example/",
        ),
        ("schedules attempts shop x", [httpx.Response(200, json={"items": [ATTEMPT]})], "try later"),
        ("schedules explain shop x", [httpx.Response(200, json=STORY)], "It was late by 5 s because"),
        (
            f"reconciliations create shop --action redeliver --state failed --from {DAY} --to {DAY} --wait",
            [
                httpx.Response(202, json=RECONCILIATION),
                httpx.Response(200, json={**RECONCILIATION, "state": "finished", "outcomes": {"redelivered": 1007}}),
            ],
            "1,007 redelivered",
        ),
        (
            f"reconciliations create shop --action report --state failed --from {DAY} --to {DAY} --label a --host b",
            [httpx.Response(202, json={**RECONCILIATION, "filters": {"label": ["a", "b"], "host": "b.example"}})],
            "label a or b, host b.example",
        ),
        ("reconciliations show shop x", [httpx.Response(200, json=RECONCILIATION)], "3 of 60"),
        ("reconciliations list shop", [httpx.Response(200, json={"items": [RECONCILIATION]})], "7 redelivered"),
        ("reconciliations stop shop x", [httpx.Response(200, json={**RECONCILIATION, "state": "stopped"})], "stopped"),
        ("dead-letters list shop", [httpx.Response(200, json={"items": [LETTER]})], "exhausted"),
        ("dead-letters acknowledge shop one@1", [httpx.Response(200, json={"acknowledged": 3})], "3 are acknowledged"),
        (
            "dead-letters redeliver shop",
            [httpx.Response(200, json={"redelivered": 7, "passed_over": 0})],
            "7 are called again.\n",
        ),
        (
            "dead-letters redeliver shop a b",
            [
                httpx.Response(
                    200,
                    json={
                        "redelivered": 1,
                        "passed_over": 1,
                        "items": [{"letter_id": "a", "status": 202}, {"letter_id": "b", "status": 409}],
                    },
                )
            ],
            "1 is called again; 1 was passed over (1 open or redelivered since).",
        ),
        (
            "dead-letters redeliver shop a b c",
            [
                httpx.Response(
                    200,
                    json={
                        "redelivered": 0,
                        "passed_over": 3,
                        "items": [{"letter_id": f"{status}", "status": status} for status in (404, 409, 409)],
                    },
                )
            ],
            "0 are called again; 3 were passed over (1 not found, 2 open or redelivered since).",
        ),
        (
            "dead-letters redeliver shop a",
            [
                httpx.Response(
                    200,
                    json={
                        "redelivered": 0,
                        "passed_over": 1,
                        "items": [{"letter_id": "a", "status": 409, "state": "failed", "reason": "events-gone"}],
                    },
                )
            ],
            "1 was passed over (1 without events by now).",
        ),
        (
            CANCEL_WINDOW,
            [
                httpx.Response(200, json={"items": [CANCELLED], "next_cursor": "c"}),
                httpx.Response(200, json={"items": [{**CANCELLED, "status": 409, "state": "delivered"}]}),
            ],
            "delivered",
        ),
        (CANCEL_WINDOW, [httpx.Response(200, json={"items": [CANCELLED] * 3})], "3 are cancelled.\n"),
        (
            CANCEL_WINDOW,
            [httpx.Response(200, json={"items": [{**CANCELLED, "reason": "in-doubt"}]})],
            "1 is cancelled, 1 in doubt",
        ),
        (
            CANCEL_WINDOW,
            [httpx.Response(200, json={"items": [{**CANCELLED, "status": 409, "rescheduled_to": "the-new-one"}]})],
            "the-new-one",
        ),
        (
            "schedules cancel shop X",
            [httpx.Response(200, json={**SCHEDULE, "state": "cancelled", "reason": "in-doubt"})],
            "cancelled (in doubt)",
        ),
        ("crons list shop", [httpx.Response(200, json={"items": [CRON]})], "2026-11-22 01:30:00.000Z"),
        ("crons show shop nightly", [httpx.Response(200, json=CRON)], "2026-11-23 01:30:00.000Z"),
        ("crons pause shop nightly", [httpx.Response(200, json={**CRON, "state": "paused"})], "paused"),
        (
            "crons pause-all shop --label books --note moving --dry-run",
            [httpx.Response(200, json={"items": [CRON_CHANGE]})],
            "1 would be paused",
        ),
        (
            "crons resume-all shop --label books",
            [httpx.Response(200, json={"items": [CRON_CHANGE, {**CRON_CHANGE, "changed": False}]})],
            "1 was resumed",
        ),
        (
            "crons backfill shop nightly --from 2026-11-20T00:00:00Z",
            [httpx.Response(200, json={"items": [BACKFILLED, {**BACKFILLED, "status": 409, "due": None}]})],
            "1 of 2 fires are called",
        ),
        ("crons resume shop nightly", [httpx.Response(200, json=CRON)], "active"),
        ("crons trigger shop nightly", [httpx.Response(201, json=SCHEDULE)], "scheduled"),
        ("crons delete shop nightly", [httpx.Response(200, json={**CRON, "state": "deleted"})], "deleted"),
        ("crons runs shop nightly", [httpx.Response(200, json={"items": [RUN]})], "exhausted"),
        ("crons preview @daily --timezone UTC", [httpx.Response(200, json=PREVIEW)], "At 09:00 on Monday to Friday"),
    ],
)
def test_text_for_people_and_json_for_programs(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: str, answers: list[httpx.Response], wanted: str
) -> None:
    script.answers = [*answers, *answers]
    assert failures.run(arguments.split()) == 0
    assert wanted in capsys.readouterr().out
    assert failures.run([*arguments.split(), "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out) is not None
    assert output.err == ""


def test_instants_have_one_precision_in_json(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    """The precision of the API, whatever fraction an instant has."""
    script.answers = [httpx.Response(200, json={"items": [CRON]}), httpx.Response(200, json=SCHEDULE)]
    for command in ("crons list shop", "schedules get shop x"):
        assert failures.run([*command.split(), "--json"]) == 0
        found = re.findall(r'"(\d{4}-[^"]*)"', capsys.readouterr().out)
        assert len(found) > 1
        assert [one for one in found if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", one)] == []


def test_a_schedule_is_shown_with_what_it_was_given(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    callback = {**SCHEDULE["callback"], "headers": {"X-Shop": "2", "authorization": "***"}, "flow_key": "customer-1"}
    own = {"retry": {"max_attempts": 3, "deadline_seconds": 60.0}, "timeout_seconds": 5.0, "skip_after_seconds": 9.0}
    given = {**SCHEDULE, **own, "callback": callback, "ordering_key": "order-17"}
    script.answers = [httpx.Response(200, json=given)] * 2
    assert failures.run(["schedules", "get", "shop", "x", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).items() >= own.items()
    assert failures.run(["schedules", "get", "shop", "x"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    at = lines.index("headers X-Shop: 2")
    assert lines[at : at + 7] == [
        "headers X-Shop: 2",
        "authorization: ***",
        "flow key customer-1",
        "ordering key order-17",
        "time-out seconds 5.0",
        "skip after seconds 9.0",
        "retry max_attempts: 3",
    ]
    assert lines[at + 7] == "deadline_seconds: 60.0"


def test_a_list_is_shown_one_a_line(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    script.answers = [httpx.Response(200, json=CRON)]
    assert failures.run(["crons", "show", "shop", "nightly"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.startswith("next fires"))
    assert lines[at].split()[2:] == ["2026-11-22", "01:30:00.000Z"]
    assert lines[at + 1] == "2026-11-23 01:30:00.000Z"


def test_a_deleted_cron_calls_nothing(script: Script, capsys: pytest.CaptureFixture[str]) -> None:
    emptied = {"url": "", "method": "POST", "headers": {}, "body": ""}
    deleted = {**CRON, "state": "deleted", "next_fires": [], "callback": emptied}
    script.answers = [httpx.Response(200, json=deleted)]
    assert failures.run(["crons", "show", "shop", "nightly"]) == 0
    said = capsys.readouterr().out
    assert "calls" not in said
    assert "next fires" not in said


def test_a_request_goes_under_the_key_that_is_given(script: Script) -> None:
    for command in (
        "create shop https://a.example/ --delay-seconds 3",
        "redeliver shop x",
        "reschedule shop x --delay-seconds 5",
        "update shop x --label y",
        "run shop x",
    ):
        script.answers = [httpx.Response(200, json=SCHEDULE)] * 2
        assert failures.run(["schedules", *command.split(), "--idempotency-key", "mine"]) == 0
        assert failures.run(["schedules", *command.split()]) == 0
        # The connection of this test repeats nothing, so it generates no idempotency key.
        assert [request.headers.get("Idempotency-Key") for request in script.requests[-2:]] == ["mine", None]


def test_create_sends_what_the_flags_say(script: Script) -> None:
    script.answers = [httpx.Response(201, json=SCHEDULE)]
    when = ["--due", "2026-11-21T09:30:15Z", "--label", "l", "--ordering-key", "o"]
    how = ["--max-attempts", "3", "--timeout-seconds", "2.5", "--skip-after-seconds", "60"]
    how += ["--retry-deadline-seconds", "600"]
    what = ["--method", "PUT", "--header", "X-A: b: c", "--header", "X-D:e", "--body", "hello"]
    assert failures.run(["schedules", "create", "shop", "https://a.example/", *when, *what, *how]) == 0
    assert script.sent() == {
        "callback": {
            "url": "https://a.example/",
            "method": "PUT",
            "headers": {"X-A": "b: c", "X-D": "e"},
            "body": "hello",
        },
        "due": "2026-11-21T09:30:15Z",
        "label": "l",
        "ordering_key": "o",
        "retry": {"max_attempts": 3, "deadline_seconds": 600.0},
        "timeout_seconds": 2.5,
        "skip_after_seconds": 60.0,
    }


@pytest.mark.parametrize("known", [True, False])
def test_registering_a_known_client_keeps_its_quota(script: Script, known: bool) -> None:
    found = httpx.Response(200, json=CLIENT) if known else problem(404, {**PROBLEM, "status": 404})
    script.answers = [found, httpx.Response(200, json=CLIENT)]
    assert failures.run(["clients", "register", "shop", "--payload-bytes", "9"]) == 0
    assert script.sent(1)["poller_quota"] == (CLIENT["poller_quota"] if known else 1)


REFUSED = {
    **EXCHANGE,
    "delivered": False,
    "status": 404,
    "excerpt": "no such hook\nlook elsewhere",
    "response_headers": {"content-type": "text/plain"},
}
UNANSWERED = {
    **EXCHANGE,
    "delivered": False,
    "sent": False,
    "status": None,
    "http_version": None,
    "connected_to": None,
    "error": "connect-refused",
    "detail": "the port is closed",
}


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (
            EXCHANGE,
            ["> POST https://a.example/", "> webhook-id: 01", '> {"a": 1}', "< HTTP/2 204", "delivered: the receiver"],
        ),
        (REFUSED, ["< HTTP/2 404", "< content-type: text/plain", "< look elsewhere", "not delivered: the receiver"]),
        (UNANSWERED, ["not delivered: connect-refused (the port is closed); nothing was sent"]),
    ],
)
def test_a_trial_call_is_shown_whole(
    script: Script, capsys: pytest.CaptureFixture[str], answer: dict[str, Any], lines: list[str]
) -> None:
    script.answers = [httpx.Response(200, json=answer)]
    command = "clients trial-call shop https://a.example/ --method PUT --body x --timeout-seconds 2"
    assert failures.run(command.split()) == (0 if answer is EXCHANGE else 1)
    assert script.requests[0].url.path == "/v1/clients/shop/callbacks:try"
    assert script.requests[0].extensions["timeout"]["read"] > 60, "a call may take that long"
    assert script.sent() == {
        "callback": {"url": "https://a.example/", "method": "PUT", "headers": {}, "body": "x"},
        "timeout_seconds": 2.0,
    }
    said = capsys.readouterr().out
    assert [line for line in lines if line not in said] == []
    assert ("< HTTP" in said) == (answer["status"] is not None)


LISTS = [
    ("schedules list shop", [SCHEDULE] * 3),
    ("crons list shop", [CRON] * 3),
    ("crons runs shop nightly", [RUN] * 3),
    ("dead-letters list shop", [LETTER] * 3),
    ("reconciliations list shop", [RECONCILIATION] * 3),
]


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize(("command", "items"), LISTS)
def test_a_list_that_ends_at_its_limit_says_so(
    script: Script, capsys: pytest.CaptureFixture[str], command: str, items: list[object], flags: list[str]
) -> None:
    script.answers = [httpx.Response(200, json={"items": items, "next_cursor": None})] * 2
    assert failures.run([*command.split(), "--limit", "2", *flags]) == 0
    told = capsys.readouterr()
    assert told.err == "There are more: see --limit.\n"
    assert len(json.loads(told.out)) == 2 if flags else len(told.out.splitlines()) == 3
    assert script.requests[0].url.params["limit"] == "3"
    assert failures.run([*command.split(), "--limit", "3", *flags]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "answer", "wanted"),
    [
        (
            "clients show shop",
            problem(422),
            "Minutehand refused (422 invalid): 2 faults were found: /due is required; / is odd.\n",
        ),
        ("clients show shop", httpx.Response(200, text="?"), "is the address right?"),
        ("clients register shop --settings nonsense", None, "--settings is not a JSON object"),
        ("clients set shop nonsense", None, "JSON is not a JSON object"),
        ("clients register shop --settings []", None, "--settings is not a JSON object"),
        ("schedules create a https://b/ --body x --body-json 1", None, "Give only one of"),
        ("schedules create a https://b/ --body-json {", None, "--body-json is not JSON"),
        ("schedules create a https://b/ --body-file /nowhere/at/all", None, "/nowhere/at/all can't be read"),
        ("schedules create a https://b/ --header nonsense", None, "is not of the form"),
        ("crons put a b https://b/ --expression x --timezone y --header nonsense", None, "is not of the form"),
        ("crons show shop nightly", problem(422), "/due is required"),
    ],
)
def test_errors_are_one_sentence(
    script: Script, capsys: pytest.CaptureFixture[str], arguments: str, answer: httpx.Response | None, wanted: str
) -> None:
    script.answers = [] if answer is None else [answer]
    assert failures.run(arguments.split()) == 1
    output = capsys.readouterr()
    assert wanted in output.err
    assert output.err.count("\n") == 1
    assert output.out == ""


def test_an_unhandled_exception_is_a_sentence_too() -> None:
    said = failures.sentence_for(RuntimeError("at\nodds"))
    assert said == "This is a fault of Minutehand's, please report it: RuntimeError: at odds."


def test_no_key(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("MINUTEHAND_KEY", raising=False)
    assert failures.run(["clients", "list"]) == 1
    assert capsys.readouterr().err == "No key is given: use `minutehand login`, set MINUTEHAND_KEY, or use --key.\n"


def test_wrong_usage_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["schedules", "creat"]) == 2
    assert failures.run(["clients", "register"]) == 2
    assert failures.run(["clients", "register", "shop", "--poller-quota", "0"]) == 2
    assert failures.run(["crons", "put", "shop", "nightly", "https://a.example/", "--timezone", "UTC"]) == 2
    assert failures.run(["crons", "preview", "@daily", "--timezone", "UTC", "--count", "101"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_faults_of_a_configuration_are_one_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINUTEHAND_API_PORT", "x")
    assert failures.run(["api"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["MINUTEHAND_API_PORT", "api.admin_key", "cluster.token"]


def test_the_printed_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["config"]) == 0
    assert "\n[cassandra]\n" in capsys.readouterr().out
    assert failures.run(["config", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["api"]["port"]["default"] == 8080


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("minutehand 0.")
