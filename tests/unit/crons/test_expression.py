"""Expressions are read as cronie reads them, and their canonical text reads the same again."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_service.domain.crons import Expression, InvalidRule, in_words, parse_expression
from tests.unit.crons.generated import Meaning, meanings


@given(meanings)
def test_values_are_those_that_were_meant(meaning: Meaning) -> None:
    read = parse_expression(meaning.text)
    assert (read.minutes, read.hours, read.days, read.months, read.weekdays) == tuple(
        tuple(sorted(values))
        for values in (meaning.minutes, meaning.hours, meaning.days, meaning.months, meaning.weekdays)
    )
    assert (read.either_day, read.follows_real_time) == (meaning.either_day, meaning.real_time)


@given(meanings)
def test_the_canonical_text_reads_the_same_again(meaning: Meaning) -> None:
    read = parse_expression(meaning.text)
    assert parse_expression(read.text) == read
    assert len(read.text) <= 255


@given(st.lists(meanings, min_size=2, max_size=8))
@settings(max_examples=20)
def test_equal_texts_mean_equal_expressions(some: list[Meaning]) -> None:
    read: dict[str, Expression] = {}
    for meaning in some:
        expression = parse_expression(meaning.text)
        assert read.setdefault(expression.text, expression) == expression


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@Weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" \t05  007\t* * 7 ", "5 7 * * 0"),
        ("0-59 0-23 1-31 1-12 0-7", "0-59 0-23 1-31 * 0-6"),
        ("*/1 */1 */1 */1 */1", "* * * * *"),
        ("*/5,10 0,1,2,4 * * *", "*/5 0-2,4 * * *"),
        ("*/2,3 * * * *", "*/2,3 * * * *"),
        ("*/100 */24 */40 */13 */9", "*/60 */24 */31 1 */7"),
        ("10-40/10 9,12,15 * JAN,Mar sUN", "10-40/10 9-15/3 * 1,3 0"),
        ("10-40/50 * * * *", "10 * * * *"),
        ("7,7,7 5-5 * * *", "7 5 * * *"),
        ("0 0 * * fri-sun", "0 0 * * 0,5,6"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * sun-tue", "0 0 * * 0-2"),
        ("0 0 * jan-dec/3 mon-fri/2", "0 0 * */3 1-5/2"),
        ("0 0 * * */7", "0 0 * * */7"),
        ("0 0 1 */6 *", "0 0 1 */6 *"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert parse_expression(text).text == canonical


@pytest.mark.parametrize(
    ("text", "either_day", "follows_real_time"),
    [
        ("0 0 1 * 1", True, False),
        ("0 0 */2 * 1", False, False),
        ("0 0 1 * */2", False, False),
        ("0 0 */1 * 1", False, False),
        ("0 0 1,*/2 * 1", True, False),
        ("0 0 1-31 * 1", True, False),
        ("*/5 2 1 * 1", True, True),
        ("0 */2 1 * 1", True, True),
        ("0,*/5 0-23 1 * 1", True, False),
    ],
)
def test_only_a_star_at_the_beginning_counts(text: str, either_day: bool, follows_real_time: bool) -> None:
    read = parse_expression(text)
    assert (read.either_day, read.follows_real_time) == (either_day, follows_real_time)


def test_a_text_is_read_once() -> None:
    assert parse_expression("12 3 4 5 *") is parse_expression("12 3 4 5 *")


@given(st.text(max_size=300))
@settings(max_examples=200)
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refused(text)


@given(st.text(alphabet="0123456789*/,- \t" + string.ascii_letters + "@?#~%LWH\n\x00٣½", max_size=60))
@settings(max_examples=200)
def test_any_text_that_looks_like_an_expression_is_read_or_refused(text: str) -> None:
    read_or_refused(text)


@given(meanings, st.integers(0, 60), st.sampled_from("*,-/ 0123456789LW#?~%@asnu\u0663"), st.booleans())
@settings(max_examples=80)
def test_any_text_that_is_nearly_an_expression_is_read_or_refused(
    meaning: Meaning, place: int, other: str, instead: bool
) -> None:
    place %= len(meaning.text)
    read_or_refused(meaning.text[:place] + other + meaning.text[place + instead :])


@pytest.mark.parametrize(
    "text", ["9" * 200 + " * * * *", "*/" + "9" * 200 + " * * * *", "0-" + "9" * 240, "1," * 59 + "1 * * * *"]
)
def test_long_numbers_and_lists_are_read_or_refused(text: str) -> None:
    read_or_refused(text)


def read_or_refused(text: str) -> None:
    try:
        read = parse_expression(text)
    except InvalidRule as error:
        refused = error
    else:
        assert parse_expression(read.text) == read
        assert in_words(read)
        return
    assert refused.field == "expression"
    assert 0 < len(refused.reason) < 400
    assert refused.reason.isprintable()
