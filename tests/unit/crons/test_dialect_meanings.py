"""Fires of each dialect's expressions are those of a matcher that looks at every minute of a year.

The expressions are drawn with what they mean in their dialect, so neither a parser nor the walk is needed to match.
"""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import fires, load_zone, read_in_dialect
from scheduler_service.domain.crons.dialects import Dialect
from tests.unit.crons.instants import ms

Drawn = tuple[str, frozenset[int]]
YEAR = 2027
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()


class Form(NamedTuple):
    """A dialect: the range of its weekdays, which of them `*/n` begins at, and how the fields are put together."""

    sunday: int
    star_weekday: int
    multiples: bool
    one_day_field: bool
    written: str


FORMS: dict[Dialect, Form] = {
    "goscheduler": Form(0, 0, True, False, "{minute} {hour} {day} {month} {weekday}"),
    "quartz": Form(1, 1, False, True, "0 {minute} {hour} {day} {month} {weekday}"),
    "aws": Form(1, 1, False, True, "cron({minute} {hour} {day} {month} {weekday} *)"),
    "spring": Form(0, 1, False, False, "0 {minute} {hour} {day} {month} {weekday}"),
}


def numbers(low: int, high: int) -> st.SearchStrategy[Drawn]:
    """A list of numbers and ranges."""
    value = st.integers(low, high)
    single = value.map(lambda number: (str(number), frozenset({number})))
    pairs = st.tuples(value, value).map(sorted)
    ranges = pairs.map(lambda pair: (f"{pair[0]}-{pair[1]}", frozenset(range(pair[0], pair[1] + 1))))
    return st.lists(st.one_of(single, ranges), min_size=1, max_size=3).map(
        lambda parts: (",".join(text for text, _ in parts), frozenset[int]().union(*(values for _, values in parts)))
    )


def steps(form: Form, low: int, high: int, star: int) -> st.SearchStrategy[Drawn]:
    def stepped(pair: tuple[int | None, int]) -> Drawn:
        begin, step = pair
        text = f"{'*' if begin is None else begin}/{step}"
        if form.multiples:
            # Multiples of the step; the last day of a month is in none.
            end = 31 if high == 31 else high + 1
            chosen = (value for value in range(0, end, step) if value >= max(begin or 0, low))
            return text, frozenset(chosen)
        return text, frozenset(range(star if begin is None else begin, high + 1, step))

    drawn = st.tuples(st.one_of(st.none(), st.integers(low, high)), st.integers(1, 9)).map(stepped)
    return drawn.filter(lambda found: bool(found[1]))


def fields(
    form: Form, low: int, high: int, *, star: int | None = None, stepped: bool = True
) -> st.SearchStrategy[Drawn]:
    first = low if star is None else star
    whole = st.just(("*", frozenset(range(low, high + 1))))
    choices = [whole, numbers(low, high)]
    if stepped:
        choices.append(steps(form, low, high, first))
    return st.one_of(choices)


@st.composite
def rules(draw: st.DrawFn, form: Form) -> tuple[str, dict[str, frozenset[int]]]:
    highest = form.sunday + 6 if form.sunday or form.multiples else 7
    parts = {
        "minute": draw(fields(form, 0, 59)),
        "hour": draw(fields(form, 0, 23)),
        "day": draw(fields(form, 1, 31)),
        "month": draw(fields(form, 1, 12, stepped=not form.multiples)),
        "weekday": draw(fields(form, form.sunday, highest, star=form.star_weekday, stepped=not form.multiples)),
    }
    if form.one_day_field:
        left_out, low, high = draw(st.sampled_from([("day", 1, 31), ("weekday", 1, 7)]))
        parts[left_out] = ("?", frozenset(range(low, high + 1)))
    texts = {name: text for name, (text, _) in parts.items()}
    values = {name: chosen for name, (_, chosen) in parts.items()}
    if texts["weekday"].isdigit() and draw(st.booleans()):
        texts["weekday"] = WEEKDAYS[(int(texts["weekday"]) - form.sunday) % 7]
    values["weekday"] = frozenset((value - form.sunday) % 7 for value in values["weekday"])
    return form.written.format(**texts), values


def minutes_that_match(values: dict[str, frozenset[int]]) -> list[int]:
    found: list[int] = []
    day = date(YEAR, 1, 1)
    while day.year == YEAR:
        matches = day.month in values["month"] and day.day in values["day"]
        if matches and day.isoweekday() % 7 in values["weekday"]:
            midnight = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
            found += (
                (midnight + minute * 60) * 1000
                for minute in range(1440)
                if minute // 60 in values["hour"] and minute % 60 in values["minute"]
            )
        day += timedelta(days=1)
    return found


@pytest.mark.parametrize("dialect", FORMS)
def test_fires_are_those_of_a_matcher_of_minutes(dialect: Dialect) -> None:
    form = FORMS[dialect]

    @settings(max_examples=12)
    @given(rules(form))
    def agree(rule: tuple[str, dict[str, frozenset[int]]]) -> None:
        text, values = rule
        expected = minutes_that_match(values)
        if min(values["day"]) > max(monthrange(2028, month)[1] for month in values["month"]):
            return
        begin, end = ms(f"{YEAR}-01-01") - 1, ms(f"{YEAR + 1}-01-01") - 1
        assert list(fires(read_in_dialect(text, dialect), load_zone("UTC"), after=begin, until=end)) == expected

    agree()
