"""The request for a claimed row, and rows that are never sent."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from poller_cluster.clients import ServedClient
from poller_cluster.delivery.headers import sign
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.request import Prepared, prepare
from scheduler_service.domain.callback_rules import METHODS, METHODS_WITHOUT_BODY
from scheduler_service.domain.clients import LatePolicy
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.domain.schedule_keys import KeyMark
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import EPOCH, SENDER, claim, client

SKIP = LatePolicy(kind="skip", after_seconds=5.0)


def prepared(of: Claim, *, for_client: ServedClient | None = None, now: int = NOW) -> Prepared:
    made = prepare(of, client=for_client or client(), epoch=EPOCH, sender=SENDER, now=now)
    assert isinstance(made, Prepared)
    return made


def refused(of: Claim, *, for_client: ServedClient | None = None, now: int = NOW) -> Outcome:
    made = prepare(of, client=for_client or client(), epoch=EPOCH, sender=SENDER, now=now)
    assert isinstance(made, Outcome)
    return made


def headers(of: Claim, **given: Any) -> dict[str, str]:
    return dict(prepared(of, **given).request.headers)


def test_the_request_is_the_rows() -> None:
    request = prepared(claim()).request
    assert (request.method, request.url, request.body) == ("PUT", "https://receiver.example/hook", b"payload")
    assert (request.timeout_seconds, request.at_most_once) == (10.0, False)


def test_the_headers_say_what_this_attempt_is() -> None:
    of = claim(cron_id="nightly")
    found = headers(of, now=NOW + 1_500)
    assert found == {
        "x-of-mine": "1",
        "webhook-id": str(of.row.schedule_id),
        "webhook-timestamp": str(NOW // 1000 + 1),
        "Minutehand-Client": "shop",
        "Minutehand-Schedule-Id": str(of.row.schedule_id),
        "Minutehand-Due": "2026-11-21T09:30:00.000Z",
        "Minutehand-Attempt": "1",
        "Minutehand-Fence": str(EPOCH),
        "User-Agent": "Minutehand/1.2.3",
        "Minutehand-Cron-Id": "nightly",
    }


def test_every_active_secret_signs() -> None:
    of = claim()
    found = headers(of, for_client=client(secrets=(b"old", b"new")))["webhook-signature"]
    assert found == sign((b"old", b"new"), str(of.row.schedule_id), NOW // 1000, b"payload")
    assert len(found.split()) == 2


def test_every_active_key_pair_signs() -> None:
    of, pairs = claim(), (b"p" * 32, b"q" * 32)
    found = headers(of, for_client=client(secrets=(b"old",), private_keys=pairs))["webhook-signature"]
    assert found == sign((b"old",), str(of.row.schedule_id), NOW // 1000, b"payload", pairs)
    assert [one.partition(",")[0] for one in found.split()] == ["v1", "v1a", "v1a"]


@pytest.mark.parametrize("broken", [{"options": "{"}, {"options": "[]"}, {"headers": "[1]"}, {"headers": "nothing"}])
def test_what_cannot_be_decoded_fails(broken: dict[str, Any]) -> None:
    found = refused(claim(**broken, attempt_base=2, first_attempt_at=NOW - 9), now=NOW + 7)
    assert found == Outcome(
        state=State.FAILED,
        attempts=2,
        first_attempt_at=claim(first_attempt_at=NOW - 9).first_attempt_at,
        finished_at=found.finished_at,
        reason="undecodable",
        fired_by=SENDER.incarnation,
        fired_epoch=EPOCH,
    )
    assert found.finished_at == NOW + 7


@pytest.mark.parametrize("of", [claim(redelivery=True), claim(options='{"in_doubt":true}')])
def test_what_is_in_doubt_is_marked_or_dropped(of: Claim) -> None:
    assert headers(of)["Minutehand-Redelivery"] == "true"
    found = refused(of, for_client=client(in_doubt="drop"))
    assert (found.state, found.reason, found.attempts) == (State.FAILED, "in-doubt", 0)


def test_what_is_not_in_doubt_is_sent_at_most_once() -> None:
    made = prepared(claim(), for_client=client(in_doubt="drop"))
    assert made.request.at_most_once
    assert "Minutehand-Redelivery" not in dict(made.request.headers)


def test_a_first_attempt_that_is_too_late_is_skipped() -> None:
    lenient = client(late_policy=SKIP)
    prepared(claim(), for_client=lenient, now=NOW + 5_000)
    found = refused(claim(), for_client=lenient, now=NOW + 5_001)
    assert (found.state, found.reason, found.finished_at) == (State.SKIPPED, "late", NOW + 5_001)


def test_a_row_that_was_only_found_late_is_late_from_then_on() -> None:
    lenient, of = client(late_policy=SKIP), replace(claim(), found_at=NOW + 70_000)
    prepared(of, for_client=lenient, now=NOW + 75_000)
    assert refused(of, for_client=lenient, now=NOW + 75_001).reason == "late"
    early = replace(claim(), found_at=NOW - 1_000)
    assert refused(early, for_client=lenient, now=NOW + 5_001).reason == "late"


def test_without_a_policy_a_call_is_made_however_late() -> None:
    prepared(claim(), now=NOW + 86_400_000)


@pytest.mark.parametrize(
    "of",
    [
        claim(attempt_base=1),
        claim(redelivery=True),
        claim(options='{"in_doubt":true}'),
        claim(options='{"skip_after_seconds":1,"redelivery":{"at":1,"attempts":0}}'),
    ],
    ids=str,
)
def test_only_a_surely_first_attempt_is_skipped(of: Claim) -> None:
    prepared(of, for_client=client(late_policy=SKIP), now=NOW + 60_000)


def test_a_requeued_row_is_as_late_as_its_schedule() -> None:
    """Lateness counts from the due in the id, not from the retry row's own instant."""
    of = claim()
    moved = claim(due=NOW + 60_000, schedule_id=of.row.schedule_id, kind="copy")
    assert refused(moved, for_client=client(late_policy=SKIP), now=NOW + 60_001).state is State.SKIPPED


def test_a_schedule_asks_for_itself() -> None:
    strict = claim(options=encode_options(ScheduleOptions(skip_after_seconds=1.0, timeout_seconds=2.5)))
    assert prepared(strict, now=NOW + 1_000).request.timeout_seconds == 2.5
    assert refused(strict, now=NOW + 1_001).reason == "late"
    patient = claim(options=encode_options(ScheduleOptions(skip_after_seconds=60.0)))
    prepared(patient, for_client=client(late_policy=SKIP), now=NOW + 60_000)


def test_attempts_are_numbered_on() -> None:
    assert headers(claim(attempt_base=3))["Minutehand-Attempt"] == "4"


def test_the_nominal_due_is_what_the_receiver_sees() -> None:
    of = claim(due=NOW + 30_000, nominal_due=NOW)
    assert headers(of)["Minutehand-Due"] == "2026-11-21T09:30:00.000Z"


def test_a_retry_names_the_due_of_its_schedule() -> None:
    """Not the instant of the retry row."""
    of = claim()
    retry = claim(due=NOW + 90_000, schedule_id=of.row.schedule_id, attempt_base=1)
    assert headers(retry)["Minutehand-Due"] == "2026-11-21T09:30:00.000Z"


@pytest.mark.parametrize("method", sorted(METHODS - METHODS_WITHOUT_BODY))
def test_a_row_without_a_body_gets_the_default_one(method: str) -> None:
    of = claim(method=method, body=b"", nominal_due=NOW - 5_000, attempt_base=2)
    request = prepared(of, for_client=client(secrets=(b"s" * 32,))).request
    assert msgspec.json.decode(request.body) == {
        "schedule_id": str(of.row.schedule_id),
        "due": "2026-11-21T09:29:55.000Z",
        "attempt": 3,
    }
    found = dict(request.headers)
    assert (found["content-type"], found["x-of-mine"]) == ("application/json", "1")
    assert found["webhook-signature"] == sign((b"s" * 32,), str(of.row.schedule_id), NOW // 1000, request.body)


def test_it_has_the_clients_own_key() -> None:
    mark = KeyMark(name="cart-17", revision=1, put_at=UnixMillis(NOW), kept_days=15)
    of = claim(body=None, options=encode_options(ScheduleOptions(key=mark)))
    assert msgspec.json.decode(prepared(of).request.body)["key"] == "cart-17"


def test_a_content_type_of_the_callers_own_stays() -> None:
    of = claim(body=b"", headers='[["Content-Type","application/x-nothing"]]')
    types = [value for name, value in prepared(of).request.headers if name.lower() == "content-type"]
    assert types == ["application/x-nothing"]


@pytest.mark.parametrize(
    "row",
    [{"method": "GET"}, {"method": "HEAD"}, {"options": encode_options(ScheduleOptions(empty_body=True))}],
    ids=["get", "head", "empty"],
)
def test_an_empty_body_stays_empty_without_a_content_type(row: dict[str, Any]) -> None:
    request = prepared(claim(body=b"", **row)).request
    assert request.body == b""
    assert "content-type" not in dict(request.headers)
