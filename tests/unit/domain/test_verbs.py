"""What answers ask for, and what becomes of it."""

from email.utils import formatdate
from typing import Any

import pytest

from scheduler_service.domain.ids import DAY_MS, MAX_DUE
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.verbs import MOST_CALLS, VERBS, Asked, Heeded, heed, marked, read_asked

NOW = 1_795_253_400_000
AT = NOW + 3_600_000


@pytest.mark.parametrize("zeros", [10, 300, 305, 320, 5_000])
def test_a_retry_after_beyond_all_numbers_is_read_at_all(zeros: int) -> None:
    """It is a receiver's header: an error here would leave its connection unread."""
    asked = read_asked(200, [("Retry-After", f"Mon, 01 Jan 2024 00:00:00 -1{'0' * zeros}")], wall_ms=NOW)
    assert asked is not None
    assert asked.unreadable == "snooze" or (asked.call_at or 0) > MAX_DUE


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        (200, [], None),
        (500, [], None),
        (489, [], Asked(not_again=True)),
        (503, [("Webhook-Delivery", " Abort-Message ")], Asked(not_again=True)),
        (200, [("webhook-delivery", "abort-message")], None),
        (503, [("webhook-delivery", "something-else")], None),
        (503, [("Retry-After", "60")], None),
        (202, [("Retry-After", "3600")], Asked(call_at=AT)),
        (200, [("RETRY-AFTER", formatdate(AT / 1000, usegmt=True))], Asked(call_at=AT)),
        (200, [("Minutehand-Call-At", format_instant(AT))], Asked(call_at=AT)),
        (503, [("Minutehand-Call-At", "2026-11-21T11:30:00+01:00")], Asked(call_at=AT)),
        (200, [("Retry-After", "5"), ("Minutehand-Call-At", format_instant(AT))], Asked(call_at=AT)),
        (200, [("Minutehand-Call-At", format_instant(AT)), ("Minutehand-Call-At", "no")], Asked(call_at=AT)),
        (200, [("Retry-After", "-5")], Asked(unreadable="snooze")),
        (200, [("Retry-After", "0")], Asked(unreadable="snooze")),
        (200, [("Retry-After", "soon")], Asked(unreadable="snooze")),
        (200, [("Retry-After", "Fri, 99 Foo 99999 00:00:00 GMT")], Asked(unreadable="snooze")),
        (200, [("Minutehand-Call-At", "10000-01-01T00:00:00Z")], Asked(unreadable="snooze")),
        (200, [("Minutehand-Call-At", "2026-11-21")], Asked(unreadable="snooze")),
        (200, [("Minutehand-Stop-Cron", "TRUE")], Asked(stop_cron=True)),
        (200, [("Minutehand-Stop-Cron", "false")], None),
        (200, [("Minutehand-Stop-Cron", "1")], Asked(unreadable="stop-cron")),
    ],
)
def test_what_an_answer_asks_for(status: int, fields: list[tuple[str, str]], expected: Asked | None) -> None:
    assert read_asked(status, fields, wall_ms=NOW) == expected


def heeded(asked: Asked, **differing: Any) -> Heeded | None:
    usual = {
        "allowed": VERBS,
        "attempts": 1,
        "horizon_days": 30,
        "at_most_once": False,
        "of_fire": True,
        "earliest": NOW,
        "now": NOW,
    }
    return heed(asked, **(usual | differing))  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", VERBS)
def test_only_what_the_client_allows_is_heeded(verb: str) -> None:
    asked = {"not-again": Asked(not_again=True), "snooze": Asked(call_at=AT), "stop-cron": Asked(stop_cron=True)}[verb]
    alone, without = heeded(asked, allowed=(verb,)), heeded(asked, allowed=set(VERBS) - {verb})
    assert alone is not None
    assert (alone.obeyed, alone.mark) == (verb, f"verb:{verb}")
    assert without is not None
    assert (without.verb, without.obeyed, without.mark) == (verb, None, "")


@pytest.mark.parametrize(
    ("asked", "differing", "why"),
    [
        (Asked(call_at=NOW), {}, "past"),
        (Asked(call_at=-1), {}, "past"),
        (Asked(call_at=NOW + 30 * DAY_MS + 1), {}, "too-far"),
        (Asked(call_at=MAX_DUE + 1), {"horizon_days": 10**9}, "too-far"),
        (Asked(call_at=AT), {"at_most_once": True}, "at-most-once"),
        (Asked(call_at=AT), {"attempts": MOST_CALLS}, "too-often"),
        (Asked(unreadable="snooze"), {}, "unreadable"),
        (Asked(stop_cron=True), {"of_fire": False}, "no-fire"),
    ],
)
def test_what_is_not_obeyed_says_why(asked: Asked, differing: dict[str, Any], why: str) -> None:
    found = heeded(asked, **differing)
    assert found is not None
    assert (found.obeyed, found.ignored, found.at) == (None, why, None)
    assert marked(found.mark) == (found.verb, why)


def test_a_snooze_is_at_the_instant_that_was_asked_for_and_a_second_ahead_at_least() -> None:
    assert heeded(Asked(call_at=AT)) == Heeded("snooze", None, AT)  # type: ignore[arg-type]
    assert heeded(Asked(call_at=NOW + 30 * DAY_MS)) is not None
    soon, behind = heeded(Asked(call_at=NOW + 1)), heeded(Asked(call_at=NOW + 1), earliest=NOW + 5_000)
    assert soon is not None
    assert behind is not None
    assert (soon.at, behind.at) == (NOW + 1_000, NOW + 5_000)


def test_the_strongest_verb_counts() -> None:
    everything = Asked(not_again=True, call_at=AT, stop_cron=True)
    verbs = [heeded(everything), heeded(everything, of_fire=False), heeded(Asked(not_again=True, call_at=AT))]
    assert [found.obeyed for found in verbs if found] == ["stop-cron", "not-again", "not-again"]


def test_other_errors_are_no_verbs() -> None:
    assert [marked(error) for error in (None, "timeout", "verb:snooze")] == [None, None, ("snooze", None)]
