"""Compares with cronsim, which follows cronie's rules too; each difference between the two has a test."""

import re
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import InvalidRule, fires, load_zone, next_fires, parse_expression, parse_recurrence
from tests.unit.crons.generated import Meaning, meanings, near_midnight_or_early

DAY = 86_400
SPANS = [
    ("Europe/Berlin", "1981-01-01", 40),
    ("America/New_York", "1970-01-01", 60),
    ("Australia/Lord_Howe", "1986-01-01", 40),
    ("Africa/Casablanca", "2012-01-01", 30),
    ("Asia/Kathmandu", "1986-01-02", 40),
    ("America/Sao_Paulo", "1990-01-01", 28),
    ("Pacific/Apia", "2010-01-01", 5),
]
CHANGES_BY_THE_HOUR = {
    "Europe/Berlin": ["2026-03-29", "2026-10-25"],
    "America/New_York": ["2026-03-08", "2026-11-01"],
    "Australia/Lord_Howe": ["2026-04-04", "2026-10-03"],
    "Africa/Casablanca": ["2026-02-15", "2026-03-22"],
    "Asia/Kathmandu": ["1985-12-31"],
    "America/Sao_Paulo": ["2018-02-18", "2018-11-04"],
    "Pacific/Apia": ["2011-12-30"],
}
BY_PART_OF_AN_HOUR = {"Australia/Lord_Howe", "Asia/Kathmandu"}
WITHOUT_A_MIDNIGHT = {"America/Sao_Paulo", "Pacific/Apia"}
ONE_VALUE_WITH_A_STEP = re.compile(r"\b(\w+)-\1/")
COMPARED = 6


def seconds(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())


def ours(text: str, zone: str, *, after: int, days: int) -> list[int]:
    """The first few instants, in seconds."""
    found = fires(parse_expression(text), load_zone(zone), after=after * 1000, until=(after + days * DAY) * 1000)
    return [instant // 1000 for instant in islice(found, COMPARED)]


def theirs(text: str, zone: str, *, after: int, count: int) -> list[int]:
    begin = datetime.fromtimestamp(after, load_zone(zone))
    return [int(found.timestamp()) for found in islice(CronSim(text, begin), count)]


def compare(meaning: Meaning, zone: str, *, after: int) -> None:
    if ONE_VALUE_WITH_A_STEP.search(meaning.text):
        return
    expected = ours(meaning.text, zone, after=after, days=60)
    assert theirs(meaning.text, zone, after=after, count=len(expected)) == expected


@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize(("zone", "first_day", "years"), SPANS, ids=[zone for zone, _, _ in SPANS])
def test_fires_equal_cronsims_at_any_time(zone: str, first_day: str, years: int, part: int) -> None:
    @settings(max_examples=15)
    @given(meanings, st.integers(0, years * 365 * DAY // 3))
    def agree(meaning: Meaning, offset: int) -> None:
        if not (meaning.real_time and zone in BY_PART_OF_AN_HOUR):
            compare(meaning, zone, after=seconds(first_day) + part * years * 365 * DAY // 3 + offset)

    agree()


@pytest.mark.parametrize(
    ("zone", "day"), [(zone, day) for zone, days in CHANGES_BY_THE_HOUR.items() for day in days]
)  # fmt: skip
def test_when_clocks_are_changed(zone: str, day: str) -> None:
    @settings(max_examples=20)
    @given(near_midnight_or_early, st.integers(-6 * 3600, 18 * 3600))
    def agree(meaning: Meaning, offset: int) -> None:
        after = seconds(day) + offset
        # Asked from within a fold, cronsim starts at the first of the two readings.
        within_fold = datetime.fromtimestamp(after, load_zone(zone)).fold == 1
        if not (within_fold or (meaning.real_time and zone in BY_PART_OF_AN_HOUR | WITHOUT_A_MIDNIGHT)):
            compare(meaning, zone, after=after)

    agree()


@given(
    st.sampled_from(["*", "L", "LW", "1,L", "13", "*/3"]),
    st.sampled_from(["*", "5#3", "1#5", "5L", "0L", "2", "1,5#2"]),
    st.integers(0, 30 * 365 * DAY),
)
@settings(max_examples=60)
def test_special_days(day: str, weekday: str, offset: int) -> None:
    text, after = f"0 9 {day} * {weekday}", seconds("2000-01-01") + offset
    found = next_fires(parse_recurrence(text), load_zone("UTC"), after=after * 1000, count=COMPARED)
    assert [instant // 1000 for instant in found] == theirs(text, "UTC", after=after, count=COMPARED)


def test_a_range_of_one_value_with_a_step_is_that_value_as_in_cronie() -> None:
    """cronsim reads it as 5-59/20."""
    after = seconds("2026-01-01")
    assert ours("5-5/20 0 * * *", "UTC", after=after, days=1) == [after + 300]
    assert theirs("5-5/20 0 * * *", "UTC", after=after, count=3) == [after + 300, after + 1500, after + 2700]


def test_a_value_with_a_step_is_refused_as_by_cronie() -> None:
    """cronsim reads 5/20 as 5-59/20."""
    after = seconds("2026-01-01")
    assert theirs("5/20 0 * * *", "UTC", after=after, count=2) == [after + 300, after + 1500]
    with pytest.raises(InvalidRule, match="write 5-59/20"):
        parse_expression("5/20 0 * * *")


@pytest.mark.parametrize(
    ("text", "zone", "after", "missed"),
    [
        ("* 4 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00", "2026-10-04T04:00:00+11:00"),
        ("* 13 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00", "2026-04-05T13:00:00+10:30"),
        ("* 3 * * *", "Asia/Kathmandu", "1985-12-31T12:00:00", "1986-01-01T03:00:00+05:45"),
    ],
)
def test_real_time_after_a_change_by_part_of_an_hour(text: str, zone: str, after: str, missed: str) -> None:
    """cronsim continues hour by hour from a minute that is no longer the full one, and misses the hour it looks for."""
    due = int(datetime.fromisoformat(missed).timestamp())
    assert ours(text, zone, after=seconds(after), days=2)[0] == due
    assert due not in theirs(text, zone, after=seconds(after), count=1)


@pytest.mark.parametrize(
    ("text", "zone", "day", "after_gap"),
    [
        ("* 0 4 11 *", "America/Sao_Paulo", "2018-11-03", "2018-11-04T01:00:00-02:00"),
        ("* 0 30 12 *", "Pacific/Apia", "2011-12-29", "2011-12-31T00:00:00+14:00"),
    ],
)
def test_real_time_has_no_midnight_where_it_does_not_exist(text: str, zone: str, day: str, after_gap: str) -> None:
    """cronsim takes the first instant of the day for 00:00, whatever the clock shows."""
    assert ours(text, zone, after=seconds(day), days=30) == []
    assert theirs(text, zone, after=seconds(day), count=1) == [int(datetime.fromisoformat(after_gap).timestamp())]


def test_the_end_of_a_gap_within_a_minute() -> None:
    """The clock of Monrovia went from 00:00:00 to 00:44:30; cronsim only looks at full minutes."""
    after = seconds("1972-01-07") - 3600
    end_of_gap = int((datetime(1972, 1, 7, tzinfo=UTC) + timedelta(minutes=44, seconds=30)).timestamp())
    assert ours("10 0 7 1 *", "Africa/Monrovia", after=after, days=3) == [end_of_gap]
    assert theirs("10 0 7 1 *", "Africa/Monrovia", after=after, count=1) == [end_of_gap + 30]
