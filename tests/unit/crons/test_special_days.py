"""Special days, years and both day fields: read, written, said, and fired as a matcher of single minutes says."""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import InvalidRule, fires, in_words, load_zone, next_fires, parse_recurrence
from tests.unit.crons.instants import ms

UTC_ZONE = load_zone("UTC")


@pytest.mark.parametrize(
    ("text", "canonical", "words"),
    [
        ("0 9 L * *", "0 9 L * *", "at 09:00 on the last day of the month"),
        ("0 9 l-3 * *", "0 9 L-3 * *", "at 09:00 on the 3rd day before the last day of the month"),
        ("0 9 L-1 * *", "0 9 L-1 * *", "at 09:00 on the day before the last day of the month"),
        ("0 9 LW * *", "0 9 LW * *", "at 09:00 on the last workday of the month"),
        ("0 9 15W * *", "0 9 15W * *", "at 09:00 on the workday nearest to day 15 of the month"),
        ("0 9 * * 5#3", "0 9 * * 5#3", "at 09:00 on the 3rd Friday of the month"),
        ("0 9 * * 7L", "0 9 * * 0L", "at 09:00 on the last Sunday of the month"),
        ("0 9 L,1,15 * *", "0 9 1,15,L * *", "at 09:00 on days 1 and 15 of the month and on the last day of the month"),
        ("0 9 L * 5", "0 9 L * 5", "at 09:00 on the last day of the month or on Friday"),
        ("0 9 L * &5", "0 9 L * &5", "at 09:00 on Friday, but only on the last day of the month"),
        ("0 9 1-7 * &1", "0 9 1-7 * &1", "at 09:00 on Monday, but only on days 1 to 7 of the month"),
        ("0 9 * * &1", "0 9 * * 1", "at 09:00 on Monday"),
        ("0 9 * * 1 2027-2029", "0 9 * * 1 2027-2029", "at 09:00 on Monday, only in the years 2027 to 2029"),
        ("0 9 1 1 * *", "0 9 1 1 *", "at 09:00 on day 1 of the month, only in January"),
        ("0 9 1-31,L * *", "0 9 1-31 * *", "at 09:00 every day"),
        ("@daily", "0 0 * * *", "at 00:00 every day"),
    ],
)  # fmt: skip
def test_canonical_text_and_words(text: str, canonical: str, words: str) -> None:
    read = parse_recurrence(text)
    assert (read.text, in_words(read)) == (canonical, words)
    assert parse_recurrence(read.text) == read


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("0 0 L 2 *", "2027-01-01", ["2027-02-28", "2028-02-29"]),
        ("0 0 L-3 * *", "2027-01-31", ["2027-02-25", "2027-03-28"]),
        ("0 0 L-30 * *", "2027-01-02", ["2027-03-01", "2027-05-01"]),
        ("0 0 LW * *", "2027-01-01", ["2027-01-29", "2027-02-26", "2027-03-31"]),
        ("0 0 1W * *", "2027-05-01", ["2027-05-03", "2027-06-01"]),
        ("0 0 31W * *", "2027-01-01", ["2027-01-29", "2027-03-31", "2027-05-31"]),
        ("0 0 15W 8 *", "2027-01-01", ["2027-08-16"]),
        ("0 0 * * 5#5", "2027-01-01", ["2027-01-29", "2027-04-30"]),
        ("0 0 * * 1L", "2027-01-01", ["2027-01-25", "2027-02-22"]),
        ("0 0 1 1 * 2029", "2027-01-01", ["2029-01-01"]),
        ("0 0 29 2 * 2028-2032", "2027-01-01", ["2028-02-29", "2032-02-29"]),
    ],
)
def test_fires(text: str, after: str, expected: list[str]) -> None:
    found = next_fires(parse_recurrence(text), UTC_ZONE, after=ms(after), count=len(expected))
    assert found == [ms(day) for day in expected]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 0 L-31 * *", "day of month: 'L-31': 'L' and 'W'"),
        ("0 0 32W * *", "day of month: '32W': 'L' and 'W'"),
        ("0 0 * * 5#6", "day of week: '5#6'"),
        ("0 0 * * 8L", "day of week: '8L'"),
        ("L 0 * * *", "minute: 'L'"),
        ("0 0 1 1 * 1969", "year: '1969' is out of range"),
        ("0 0 1 1 * 2027 *", "needs five fields"),
        ("0 0 &1 * 1", "day of month: '&1'"),
        (f"0 0 {','.join(['L'] * 61)} * *", "day of month: has more than 60 items"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        parse_recurrence(text)
    assert refused.value.reason.startswith(reason)


days_of_month = st.one_of(
    st.integers(1, 31).map(str),
    st.sampled_from(["L", "LW", "*/2", "*/7"]),
    st.integers(1, 30).map(lambda day: f"L-{day}"),
    st.integers(1, 31).map(lambda day: f"{day}W"),
)
days_of_week = st.one_of(
    st.integers(0, 7).map(str),
    st.integers(0, 7).map(lambda day: f"{day}L"),
    st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}"),
)
times = st.tuples(st.integers(0, 59), st.integers(0, 23))
lists_of_month = st.one_of(st.just("*"), st.lists(days_of_month, min_size=1, max_size=3).map(",".join))
lists_of_week = st.one_of(st.just("*"), st.lists(days_of_week, min_size=1, max_size=3).map(",".join))


@given(times, lists_of_month, lists_of_week, st.booleans(), st.integers(2024, 2032))
@settings(max_examples=60)
def test_fires_are_those_of_a_matcher_of_days(
    time: tuple[int, int], of_month: str, of_week: str, both: bool, year: int
) -> None:
    minute, hour = time
    text = f"{minute} {hour} {of_month} * {'&' if both else ''}{of_week}"
    begin, end = ms(f"{year}-01-01") - 1, ms(f"{year + 1}-01-01") - 1
    starred = of_month.startswith("*") or of_week.startswith("*")
    expected = []
    day = date(year, 1, 1)
    while day.year == year:
        numbers = ((day.day, of_month), (day.isoweekday() % 7, of_week))
        matches = [any(_is(item, day, number) for item in field.split(",")) for number, field in numbers]
        if all(matches) if both or starred else any(matches):
            expected.append(int(datetime(year, day.month, day.day, hour, minute, tzinfo=UTC).timestamp() * 1000))
        day += timedelta(days=1)
    read = parse_recurrence(text)
    assert list(fires(read, UTC_ZONE, after=begin, until=end)) == expected
    again = parse_recurrence(read.text)
    assert again.text == read.text
    assert list(fires(again, UTC_ZONE, after=begin, until=end)) == expected


def _is(item: str, day: date, number: int) -> bool:
    """Whether one item of a field selects a day, whose number there is `number`, by looking at its neighbours."""
    last = monthrange(day.year, day.month)[1]
    weekday = day.isoweekday() % 7
    if item == "*":
        return True
    if item.startswith("*/"):
        return day.day % int(item[2:]) == 1
    if "#" in item:
        wanted, nth = map(int, item.split("#"))
        return weekday == wanted % 7 and (day.day + 6) // 7 == nth
    if item == "LW":
        return weekday in range(1, 6) and all(
            (day + timedelta(days=ahead)).isoweekday() > 5 for ahead in range(1, last - day.day + 1)
        )
    if item.endswith("L") and item != "L":
        return weekday == int(item[:-1]) % 7 and day.day + 7 > last
    if item.endswith("W"):
        wanted = int(item[:-1])
        if wanted > last:
            return False
        workdays = [number for number in range(1, last + 1) if day.replace(day=number).isoweekday() < 6]
        return day.day == min(workdays, key=lambda number: abs(number - wanted))
    if item.startswith("L"):
        return day.day == last - int(item[2:] or 0)
    return int(item) == number or (item == "7" and day.isoweekday() == 7 and number == 0)
