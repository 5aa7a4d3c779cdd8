"""Intervals: counted from an anchor in real time."""

import pytest

from scheduler_service.domain.crons import InvalidRule, Rule, anchored, fires, in_words, load_zone, parse_recurrence
from scheduler_service.domain.crons.compound import anchor_second
from tests.unit.crons.instants import ms


@pytest.mark.parametrize(
    ("text", "canonical", "words"),
    [
        ("every 90 minutes", "every 90 minutes", "every 90 minutes"),
        ("every minute", "every 1 minute", "every minute"),
        ("Every 2 Hours", "every 120 minutes", "every 2 hours"),
        ("every 3 days", "every 4320 minutes", "every 3 days"),
        ("every 14 days", "every 20160 minutes", "every 2 weeks"),
        (
            "every 90 minutes from 2026-11-27T10:30:00+01:00",
            "every 90 minutes from 2026-11-27T09:30:00Z",
            "every 90 minutes from 2026-11-27T09:30:00Z",
        ),
    ],
)  # fmt: skip
def test_text_and_words(text: str, canonical: str, words: str) -> None:
    read = parse_recurrence(text)
    assert (read.text, in_words(read)) == (canonical, words)
    assert parse_recurrence(canonical) == read


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every 0 minutes", "an interval is 1 minute to 366 days long"),
        ("every 367 days", "an interval is 1 minute to 366 days long"),
        ("every 30 seconds", "is no interval, such as every 90 minutes"),
        ("every -5 minutes", "is no interval"),
        ("every 5 minutes from tomorrow", "is no instant with an offset"),
        ("every 5 minutes from 2026-11-27T09:30:00.5Z", "counts from a whole second"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        parse_recurrence(text)
    assert reason in refused.value.reason


def test_fires_are_counted_from_the_anchor_in_real_time() -> None:
    zone = load_zone("Europe/Berlin")
    every = parse_recurrence("every 90 minutes from 2026-10-25T00:00:00Z")
    found = list(fires(every, zone, after=ms("2026-10-24T21:00"), until=ms("2026-10-25T03:00")))
    assert found == [ms(f"2026-10-{at}") for at in ("24T22:30", "25T00:00", "25T01:30", "25T03:00")]


def test_a_cron_counts_from_its_start_or_its_creation() -> None:
    assert anchor_second(None, 10_999) == 10
    assert anchor_second(10_001, 5_000) == 11
    begun = anchored(parse_recurrence("every 2 minutes"), 100)
    rule = Rule(expression=begun, timezone="UTC")
    assert rule.next_fires(100_500, 2) == [220_000, 340_000]
    assert Rule(expression=begun, timezone="UTC", starts_at=100_000).next_fires(0, 1) == [100_000]
