"""Requests for crons: every fault at once, each with its place, and what is stored of a valid one."""

from typing import Any

import msgspec
import pytest

from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.crons import Written
from scheduler_service.domain.crons.row import CronCallback, CronOptions
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.instants import parse_instant
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.options import RetryOverride
from scheduler_service.usecases.cron_request import (
    CronDraft,
    CronRequest,
    Preview,
    PreviewRequest,
    draft_cron,
    preview,
)
from tests.support.api import NOW, callback, cron

LONDON = {"expression": "*/5 9-17 * * mon-fri", "timezone": "Europe/London"}


def drafted(request: dict[str, Any], **settings: Any) -> CronDraft:
    decoded = msgspec.json.decode(msgspec.json.encode(request), type=CronRequest)
    return draft_cron(decoded, settings=ClientSettings(**settings), check_url=NetworkPolicy().check_url, now=NOW)


def faults(request: dict[str, Any], **settings: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        drafted(request, **settings)
    assert len(caught.value.errors) == len({error.pointer for error in caught.value.errors})
    return {error.pointer: error.detail for error in caught.value.errors}


def previewed(**fields: Any) -> Preview:
    decoded = msgspec.json.decode(msgspec.json.encode({**LONDON, **fields}), type=PreviewRequest)
    return preview(decoded, now=NOW)


def test_what_is_left_out_has_its_default() -> None:
    assert drafted(cron()) == CronDraft(
        expression="30 2 * * *",
        timezone="Europe/Berlin",
        callback=CronCallback(method="POST", url="https://receiver.example/hook", headers="[]", body=b""),
        options=CronOptions(),
    )


def test_everything_that_is_asked_for_is_stored() -> None:
    request = cron(
        expression="@Hourly",
        callback=callback(method="PUT", headers={"X-A": "1"}, json={"a": 1}),
        starts_at="2026-12-01T00:00:00+01:00",
        ends_at="2027-12-01T00:00:00Z",
        max_fires=1_000_000,
        spread_seconds=3600,
        catch_up_seconds=0,
        overlap="skip",
        dst={"gap": "skip", "fold": "both"},
        retry={"max_attempts": 2},
        timeout_seconds=2.5,
        label="nightly",
        pause_after_failures=1_000,
    )
    assert drafted(request) == CronDraft(
        expression="0 * * * *",
        timezone="Europe/Berlin",
        callback=CronCallback(
            method="PUT",
            url="https://receiver.example/hook",
            headers='[["X-A","1"],["content-type","application/json"]]',
            body=b'{"a":1}',
        ),
        options=CronOptions(
            starts_at=parse_instant("2026-11-30T23:00:00Z"),
            ends_at=parse_instant("2027-12-01T00:00:00Z"),
            max_fires=1_000_000,
            spread_seconds=3600,
            catch_up_seconds=0.0,
            overlap="skip",
            gap="skip",
            fold="both",
            retry=RetryOverride(max_attempts=2),
            timeout_seconds=2.5,
            label="nightly",
            pause_after_failures=1_000,
        ),
    )


def test_an_empty_retry_equals_none() -> None:
    assert drafted(cron(retry={})) == drafted(cron())


@pytest.mark.parametrize("text", ["30  2 * * *", "30 2 1-31 * 0-6", " 30\t2 * jan-dec *  "])
def test_texts_that_read_alike_are_stored_alike(text: str) -> None:
    stored = drafted(cron(expression=text)).expression
    assert drafted(cron(expression=stored)).expression == stored
    assert "\t" not in stored
    assert "jan" not in stored


@pytest.mark.parametrize(
    ("wrong", "pointer", "words"),
    [
        ({"expression": "30 2 * *"}, "/expression", "five fields"),
        ({"expression": ""}, "/expression", "five fields"),
        ({"expression": "60 2 * * *"}, "/expression", "out of range"),
        ({"expression": "0 0 30 2 *"}, "/expression", "never fires"),
        ({"expression": "0 0 31 4,6 *"}, "/expression", "never fires"),
        ({"timezone": "Europe/Berlim"}, "/timezone", "Europe/Berlin"),
        ({"timezone": ""}, "/timezone", "time zone"),
        ({"timezone": "../etc/passwd"}, "/timezone", "no name"),
        ({"starts_at": "tomorrow"}, "/starts_at", "RFC 3339"),
        ({"starts_at": "9999-01-01T00:00:00Z"}, "/starts_at", "9998"),
        ({"ends_at": "0001-01-01T00:00:00+23:59"}, "/ends_at", "1970"),
        ({"ends_at": "9999-12-31T23:59:59-23:59"}, "/ends_at", "9998"),
        ({"ends_at": "2026-12-01T00:00:00"}, "/ends_at", "offset"),
        ({"ends_at": "2026-11-21T09:30:00Z"}, "/ends_at", "there is no fire before it"),
        (
            {"starts_at": "2026-12-02T00:00:00Z", "ends_at": "2026-12-02T00:00:00Z"},
            "/ends_at",
            "later than starts_at",
        ),
        (
            {"expression": "0 0 29 2 *", "starts_at": "2096-03-01T00:00:00Z"},
            "/expression",
            "within five years of starts_at",
        ),
        ({"callback": callback(url="http://10.0.0.1/")}, "/callback/url", "10.0.0.1"),
        ({"callback": callback(body="x", json=1)}, "/callback/json", "at most one"),
        ({"callback": callback(headers={"webhook-id": "1"})}, "/callback/headers/webhook-id", ""),
    ],
)
def test_a_fault_is_named_where_it_is(wrong: dict[str, Any], pointer: str, words: str) -> None:
    found = faults(cron(**wrong))
    assert list(found) == [pointer]
    assert words in found[pointer]


def test_every_fault_is_named_at_once() -> None:
    wrong = cron(
        expression="* * *",
        timezone="Mars/Olympus",
        starts_at="2026-12-02T00:00:00Z",
        ends_at="2026-12-01T00:00:00Z",
        callback=callback(url="ftp://x", method="post", headers={"Host": "x"}, body="x" * 11),
    )
    assert set(faults(wrong, payload_bytes=10)) == {
        "/expression",
        "/timezone",
        "/ends_at",
        "/callback/url",
        "/callback/method",
        "/callback/headers/Host",
        "/callback/body",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_fires": 0},
        {"max_fires": 1_000_001},
        {"spread_seconds": 3601},
        {"spread_seconds": -1},
        {"spread_seconds": 1.5},
        {"catch_up_seconds": 604_801},
        {"catch_up_seconds": -1},
        {"overlap": "queue"},
        {"pause_after_failures": 0},
        {"pause_after_failures": 1_001},
        {"dst": {"gap": "first"}},
        {"dst": {"jump": "skip"}},
        {"timeout_seconds": 601},
        {"label": ""},
        {"due": "2026-12-01T00:00:00Z"},
    ],
)
def test_what_the_types_refuse(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        drafted(cron(**wrong))


def test_a_preview_begins_now_or_at_a_given_instant_itself() -> None:
    shown = previewed(count=2)
    assert shown == Preview(
        written=Written("cronie", "*/5 9-17 * * 1-5"),
        calendar=None,
        rule="*/5 9-17 * * 1-5",
        timezone="Europe/London",
        words="every 5 minutes from 09:00 to 17:55 on Monday to Friday",
        next_fires=[parse_instant("2026-11-23T09:00:00Z"), parse_instant("2026-11-23T09:05:00Z")],
    )
    assert previewed(count=2, **{"from": "2026-11-23T10:00:00+01:00"}) == shown
    later = previewed(count=1, **{"from": "2026-11-23T09:00:00.001Z"})
    assert later.next_fires == shown.next_fires[1:]
    assert len(previewed().next_fires) == 5


def test_a_preview_heeds_what_happens_when_clocks_change() -> None:
    rule = {"expression": "30 2 * * *", "timezone": "Europe/Berlin", "from": "2027-03-27T12:00:00Z", "count": 1}
    assert previewed(**rule).next_fires == [parse_instant("2027-03-28T01:00:00Z")]
    assert previewed(**rule, dst={"gap": "skip"}).next_fires == [parse_instant("2027-03-29T00:30:00Z")]


def test_a_preview_names_every_fault_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        previewed(expression="x", timezone="y", **{"from": "z"})
    assert {error.pointer for error in caught.value.errors} == {"/expression", "/timezone", "/from"}
    with pytest.raises(Invalid, match="never fires"):
        previewed(expression="0 0 31 2 *")
    with pytest.raises(Invalid, match="five years"):
        previewed(expression="0 0 29 2 *", **{"from": "2096-03-01T00:00:00Z"})


def test_an_empty_body_differs_from_none() -> None:
    assert drafted(cron(callback=callback(body=""))).options == CronOptions(empty_body=True)
    assert drafted(cron(callback=callback(json=None))).callback.body == b"null"
