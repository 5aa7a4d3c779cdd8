"""GoScheduler's meaning: the cases of its own tests, and what it is refused for."""

import pytest

from scheduler_service.domain.crons import InvalidRule, fires, in_words, load_zone, parse_recurrence, read_in_dialect
from scheduler_service.domain.crons.expression import Expression
from tests.unit.crons.instants import ms


def read(text: str) -> Expression:
    return read_in_dialect(text, "goscheduler")


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("*", range(60)),
        ("10", [10]),
        ("*/10", range(0, 60, 10)),
        ("*/15", [0, 15, 30, 45]),
        ("*/25", [0, 25, 50]),
        ("10-15", range(10, 16)),
        ("20-22,25,35", [20, 21, 22, 25, 35]),
        ("10-15,17,20-22,25,35", [10, 11, 12, 13, 14, 15, 17, 20, 21, 22, 25, 35]),
        ("20/15", [30, 45]),
        ("12/10", [20, 30, 40, 50]),
        ("4/2", range(4, 60, 2)),
        ("10,20,30", [10, 20, 30]),
        ("*/100", [0]),
    ],
)
def test_minutes(text: str, minutes: list[int]) -> None:
    assert read(f"{text} * * * *").minutes == tuple(minutes)


@pytest.mark.parametrize(
    ("text", "hours"),
    [("*", range(24)), ("*/4", range(0, 24, 4)), ("12/4", [12, 16, 20]), ("5-6,10-12,17", [5, 6, 10, 11, 12, 17])],
)
def test_hours(text: str, hours: list[int]) -> None:
    assert read(f"0 {text} * * *").hours == tuple(hours)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("*", range(1, 32)),
        ("*/5", [5, 10, 15, 20, 25, 30]),
        ("*/1", range(1, 31)),
        ("16/5", [20, 25, 30]),
        ("10-12,15-15,20-22", [10, 11, 12, 15, 20, 21, 22]),
        ("31", [31]),
    ],
)
def test_days(text: str, days: list[int]) -> None:
    assert read(f"0 0 {text} * *").days == tuple(days)


@pytest.mark.parametrize(
    ("text", "months"),
    [("jan", [1]), ("JAN,JUN,DEC", [1, 6, 12]), ("9-12", [9, 10, 11, 12]), ("JAN,3,9-12", [1, 3, 9, 10, 11, 12])],
)
def test_months(text: str, months: list[int]) -> None:
    assert read(f"0 0 * {text} *").months == tuple(months)


@pytest.mark.parametrize(
    ("text", "weekdays"),
    [("0", [0]), ("sun", [0]), ("SUN,WED,SAT", [0, 3, 6]), ("0-3", [0, 1, 2, 3]), ("SUN,1-3", [0, 1, 2, 3])],
)
def test_weekdays(text: str, weekdays: list[int]) -> None:
    assert read(f"0 0 * * {text}").weekdays == tuple(weekdays)


@pytest.mark.parametrize(
    ("text", "canonical", "words"),
    [
        ("* * * * *", "* * * * *", "every minute"),
        ("*/5 * * * *", "*/5 * * * *", "every 5 minutes"),
        ("0 9 1,15 * 1", "0 9 1,15 * &1", "at 09:00 on Monday, but only on days 1 and 15 of the month"),
        ("0 9 * * MON", "0 9 * * 1", "at 09:00 on Monday"),
        ("0 9 */5 * *", "0 9 5-30/5 * *", "at 09:00 on every 5th day of the month from 5 to 30"),
        ("0 9 1-31 * 1", "0 9 * * 1", "at 09:00 on Monday"),
        ("0 9 13 * 0-6", "0 9 13 * *", "at 09:00 on day 13 of the month"),
    ],
)
def test_the_canonical_rule_and_its_words(text: str, canonical: str, words: str) -> None:
    rule = read(text)
    assert (rule.text, in_words(rule)) == (canonical, words)
    assert parse_recurrence(canonical) == rule


def test_both_day_fields_must_match() -> None:
    found = fires(read("0 0 13 * 5"), load_zone("UTC"), after=ms("2026-01-01"), until=ms("2027-01-01"))
    assert list(found) == [ms("2026-02-13"), ms("2026-03-13"), ms("2026-11-13")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "needs five fields with one blank between"),
        ("* * * *", "needs five fields with one blank between"),
        ("*/5 * * * * *", "needs five fields with one blank between"),
        ("*  * * * *", "needs five fields with one blank between"),
        ("*/0 * * * *", "minute: '*/0': a step is a number from 1 on"),
        ("*/-5 * * * *", "minute: '*/-5': a step is a number from 1 on"),
        ("59/30 * * * *", "minute: '59/30' selects nothing, as no multiple of 30 is left"),
        ("0 0 */31 * *", "day of month: '*/31' selects nothing"),
        ("*/5,10 * * * *", "minute: '*/5,10': a step is a number from 1 on, alone in its field"),
        ("0-30/10 * * * *", "minute: '0-30/10': a step comes after * or one number"),
        ("0 0 * */2 *", "month: '*/2': this dialect has steps of minutes, hours and days only"),
        ("0 0 * * 7", "day of week: '7' is out of range, 0 to 6"),
        ("0 0 * * mon-fri", "day of week: 'mon-fri' is no number or range of numbers"),
        ("0 0 * jan-mar *", "month: 'jan-mar' is no number or range of numbers"),
        ("20-10 * * * *", "minute: '20-10' runs backwards"),
        ("+5 * * * *", "minute: '+5' is no number"),
        ("1,,2 * * * *", "minute: '' is no number"),
        ("\u0665 * * * *", "minute: '\u0665' is no number"),
        ("@daily", "needs five fields"),
        ("0 0 ? * *", "day of month: '?' is no number"),
        (f"{','.join(['1'] * 61)} * * * *", "minute: has more than 60 items"),
        ("*" * 256, "is longer than 255 characters"),
        ("0 0 30 2 *", "never fires: none of its months has a day 30"),
    ],
)
def test_refusals(text: str, reason: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        read(text)
    assert refused.value.reason.startswith(reason)
    assert refused.value.field == "expression"


def test_all_faults_are_named_at_once() -> None:
    with pytest.raises(InvalidRule) as refused:
        read("100 50 * 25 *")
    assert refused.value.reason == (
        "minute: '100' is out of range, 0 to 59; hour: '50' is out of range, 0 to 23; "
        "month: '25' is out of range, 1 to 12"
    )
