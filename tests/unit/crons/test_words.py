"""Descriptions of rules are correct, and differ where the rules differ."""

import itertools
from collections import defaultdict
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import Expression, InvalidRule, in_words, parse_expression
from tests.unit.crons.generated import Meaning, meanings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0,30 * * * *", "every 30 minutes"),
        ("*/7 * * * *", "at every 7th minute from 0 to 56 past every hour"),
        ("*/60 * * * *", "at minute 0 past every hour"),
        ("1-59/2 * * * *", "at every 2nd minute from 1 to 59 past every hour"),
        ("@hourly", "at minute 0 past every hour"),
        ("0 * * * mon-fri", "at minute 0 past every hour on Monday to Friday"),
        ("5,10,20 * * * *", "at minutes 5, 10 and 20 past every hour"),
        ("0-10,30 * * * *", "at minutes 0 to 10 and 30 past every hour"),
        ("0 0-23 * * *", "at minute 0 past hours 0 to 23 every day"),
        ("0-59 0-23 * * *", "every minute from 00:00 to 23:59 every day"),
        ("30 2 * * *", "at 02:30 every day"),
        ("@daily", "at 00:00 every day"),
        ("@weekly", "at 00:00 on Sunday"),
        ("@monthly", "at 00:00 on day 1 of the month"),
        ("@yearly", "at 00:00 on day 1 of the month, only in January"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("0,30 9,17 * * *", "at 09:00, 09:30, 17:00 and 17:30 every day"),
        ("15 9-17 * * *", "at minute 15 past hours 9 to 17 every day"),
        ("*/5 9-17 * * 1-5", "every 5 minutes from 09:00 to 17:55 on Monday to Friday"),
        ("* 9 * * *", "every minute from 09:00 to 09:59 every day"),
        ("* 3,7,8 * * *", "at every minute past hours 3, 7 and 8 every day"),
        ("0 */2 * * *", "at minute 0 past every 2nd hour from 0 to 22 every day"),
        ("0 1-23/3 * * *", "at minute 0 past every 3rd hour from 1 to 22 every day"),
        ("0 9 1 * 1", "at 09:00 on day 1 of the month or on Monday"),
        ("0 9 */1 * 1", "at 09:00 on Monday"),
        ("0 9 1-31 * 1", "at 09:00 every day"),
        ("0 9 1 * 0-6", "at 09:00 every day"),
        ("0 9 1 * */1", "at 09:00 on day 1 of the month"),
        ("0 9 */2 * 1", "at 09:00 on Monday, but only on every 2nd day of the month from 1 to 31"),
        ("0 9 1-7 * */7", "at 09:00 on Sunday, but only on days 1 to 7 of the month"),
        ("0 9 1,15 * *", "at 09:00 on days 1 and 15 of the month"),
        ("0 9 * * sat,sun", "at 09:00 on Saturday and Sunday"),
        ("0 9 * * 5-7", "at 09:00 on Friday to Sunday"),
        ("0 9 * * 1,3,5", "at 09:00 on Monday, Wednesday and Friday"),
        ("0 9 * 1 *", "at 09:00 every day, only in January"),
        ("0 9 * */3 *", "at 09:00 every day, only in January, April, July and October"),
        ("0 9 1 6-8,12 1", "at 09:00 on day 1 of the month or on Monday, only in June to August and December"),
        ("*/10 * * 2 *", "every 10 minutes, only in February"),
        ("0 0 29 2 *", "at 00:00 on day 29 of the month, only in February"),
        ("0 0 10-22/4 * *", "at 00:00 on every 4th day of the month from 10 to 22"),
        ("7 3 21,22,23 * *", "at 03:07 on days 21 to 23 of the month"),
    ],
)
def test_expressions_are_described_in_words(text: str, words: str) -> None:
    assert in_words(parse_expression(text)) == words


def days_of(expression: Expression) -> frozenset[tuple[int, int, int]]:
    """Every month, day of month and weekday that matches."""
    return frozenset(
        (month, day, weekday)
        for month, day, weekday in itertools.product(expression.months, range(1, 32), range(7))
        if (
            day in expression.days or weekday in expression.weekdays
            if expression.either_day
            else day in expression.days and weekday in expression.weekdays
        )
    )


DAY_FIELDS = ["*", "*/2", "*/31", "1", "1-31", "1-7", "1,15", "1-30", "2-30/2", "1,*/2", "*/1,5"]
WEEKDAY_FIELDS = ["*", "*/2", "*/7", "0", "1", "0-6", "1-7", "1-5", "sat,sun", "1-5/2", "6,*/2", "mon,sun"]


@pytest.mark.parametrize("months", ["*", "1", "1,2", "1-3"])
def test_other_days_are_other_words(months: str) -> None:
    meant = defaultdict(set)
    for day, weekday in itertools.product(DAY_FIELDS, WEEKDAY_FIELDS):
        expression = parse_expression(f"0 9 {day} {months} {weekday}")
        meant[in_words(expression)].add(days_of(expression))
    assert {words: len(days) for words, days in meant.items() if len(days) > 1} == {}
    assert len(meant) > 50


@given(st.lists(meanings, min_size=2, max_size=20), meanings)
@settings(max_examples=10)
def test_what_fires_at_other_times_or_on_other_days_reads_otherwise(some: list[Meaning], other: Meaning) -> None:
    """The fields of each pair are crossed, so that the comparison includes expressions that differ in one field."""
    meant = defaultdict(set)
    for meaning in some:
        for taken in range(5):
            texts = meaning.text.split()
            texts[taken] = other.text.split()[taken]
            with suppress(InvalidRule):  # a date that no year has
                read = parse_expression(" ".join(texts))
                meant[in_words(read)].add((read.minutes, read.hours, days_of(read)))
    assert {words: len(meanings) for words, meanings in meant.items() if len(meanings) > 1} == {}


TIMES = ["*", "0-59", "0", "30", "0,30", "0,20,40", "*/7", "*/15", "1-59/2", "0-10", "5,6", "*/15,7"]
HOURS = ["*", "0-23", "9", "9,10", "9-17", "*/2", "1-23/2", "9,10,11,20", "0", "*/23"]


def test_other_times_are_other_words() -> None:
    meant = defaultdict(set)
    for minute, hour in itertools.product(TIMES, HOURS):
        read = parse_expression(f"{minute} {hour} * * *")
        meant[in_words(read)].add((read.minutes, read.hours))
    assert {words: len(times) for words, times in meant.items() if len(times) > 1} == {}
    assert all(("every hour" in words) <= (len(hours) == 24) for words, times in meant.items() for _, hours in times)
