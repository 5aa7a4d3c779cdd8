"""Every refusal says what is wrong and what would be right."""

import pytest

from scheduler_service.domain.crons import Dst, InvalidRule, load_zone, parse_expression

LAST_OR_WORKDAY = "'L' and 'W' (last day, nearest workday) are none of cronie's: choose the dialect minutehand"
STEP = "a step is a number from 1 on, such as */5"
FORM = "is no value, range or step, such as 5, 1-5, */5 or 10-40/10"
EMPTY = "an item of the list is empty: write values with single commas between"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "needs five fields (minute, hour, day of month, month, day of week), not 0"),
        ("   ", "needs five fields (minute, hour, day of month, month, day of week), not 0"),
        ("* * * *", "needs five fields (minute, hour, day of month, month, day of week), not 4"),
        ("0 * * * * *", "not 6; for seconds or years choose the dialect, such as quartz"),
        ("0 0 * * * * 2027", "not 7; for seconds or years choose the dialect, such as quartz"),
        ("*" * 256, "is longer than 255 characters"),
        ("* * * * ٣", "may only have ASCII letters, digits and * , - /"),
        ("*\u00a0* * * *", "may only have ASCII letters, digits and * , - /"),
        ("@reboot", "'@reboot' is not supported: there is no start to wait for"),
        ("@every 5m", "'@every 5m' is none of @hourly, @daily, @midnight, @weekly"),
        ("L * * * *", f"minute: 'L': {LAST_OR_WORKDAY}"),
        ("0 0 L * *", f"day of month: 'L': {LAST_OR_WORKDAY}"),
        ("0 0 L-3 * *", f"day of month: 'L-3': {LAST_OR_WORKDAY}"),
        ("0 0 LW * *", f"day of month: 'LW': {LAST_OR_WORKDAY}"),
        ("0 0 15W * *", f"day of month: '15W': {LAST_OR_WORKDAY}"),
        ("0 0 * * 5L", f"day of week: '5L': {LAST_OR_WORKDAY}"),
        ("0 0 * * friL", f"day of week: 'friL': {LAST_OR_WORKDAY}"),
        ("0 0 ? * 1", "day of month: '?': '?' is not supported: write * for any day"),
        ("0 0 * * 1#2", "day of week: '1#2': '#' (the n-th weekday of a month) is none of cronie's"),
        ("0~30 * * * *", "minute: '0~30': '~' (a random value) is not supported: write one value and give"),
        ("H/15 * * * *", "minute: 'H/15': 'H' (a hashed value) is not supported: write one value, give"),
        ("0 0 * * 1%", "day of week: '1%': '%' is not supported: an expression has no command"),
        ("*/0 * * * *", f"minute: '*/0': {STEP}"),
        ("1-5/00 * * * *", f"minute: '1-5/00': {STEP}"),
        ("*/-5 * * * *", f"minute: '*/-5': {STEP}"),
        ("*/ * * * *", "minute: '*/': a step is a number after * or a range, such as */5 or 10-40/5"),
        ("/5 * * * *", "minute: '/5': a step is a number after * or a range"),
        ("5/10 * * * *", "minute: '5/10': a step comes after * or a range: write 5-59/10"),
        ("5/70 * * * *", "minute: '5/70': a step comes after * or a range: write 5"),
        ("0 0 * * mon/2", "day of week: 'mon/2': a step comes after * or a range: write 1-6/2"),
        ("60 * * * *", "minute: '60' is out of range, 0 to 59"),
        ("0-60 * * * *", "minute: '60' is out of range, 0 to 59"),
        ("* 24 * * *", "hour: '24' is out of range, 0 to 23"),
        ("* * 0 * *", "day of month: '0' is out of range, 1 to 31"),
        ("* * 32 * *", "day of month: '32' is out of range, 1 to 31"),
        ("* * * 0 *", "month: '0' is out of range, 1 to 12"),
        ("* * * 13 *", "month: '13' is out of range, 1 to 12"),
        ("* * * * 8", "day of week: '8' is out of range, 0 to 7"),
        ("-1 * * * *", "minute: '-1': a range is two values with a hyphen between, such as 1-5"),
        ("1-2-3 * * * *", "minute: '1-2-3': a range is two values with a hyphen between, such as 1-5"),
        ("30-10 * * * *", "minute: '30-10' runs backwards: write two ranges with a comma between"),
        ("* * * nov-feb *", "month: 'nov-feb' runs backwards: write two ranges with a comma between"),
        ("* * * * sat-mon", "day of week: 'sat-mon' runs backwards"),
        ("* * * * 5-0", "day of week: '5-0' runs backwards: write two ranges with a comma between (Sunday at the end"),
        ("1,,2 * * * *", f"minute: {EMPTY}"),
        (",1 * * * *", f"minute: {EMPTY}"),
        ("1, 2 * * *", f"minute: {EMPTY}"),
        (",".join("1" for _ in range(61)) + " * * * *", "minute: has more than 60 items: use ranges and steps"),
        ("1.5 * * * *", f"minute: '1.5' {FORM}"),
        ("1\n2 * * * *", f"minute: '1\\n2' {FORM}"),
        ("*5 * * * *", f"minute: '*5' {FORM}"),
        ("jan * * * *", f"minute: 'jan' {FORM}"),
        ("* * * january *", f"month: 'january' {FORM}, or a name of jan, feb, mar"),
        ("* * * * thur", f"day of week: 'thur' {FORM}, or a name of sun, mon, tue"),
        ("x" * 99 + " * * * *", "minute: '" + "x" * 40 + "…' is no value"),
        ("0 0 30 2 *", "never fires: none of its months has a day 30; 29 is the last they have"),
        ("0 0 30,31 2 */2", "never fires: none of its months has a day 30; 29 is the last they have"),
        ("0 0 31 4,6,9,11 *", "never fires: none of its months has a day 31; 30 is the last they have"),
    ],
)
def test_an_expression_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        parse_expression(text)
    assert refused.value.field == "expression"
    assert reason in refused.value.reason
    assert str(refused.value) == f"expression: {refused.value.reason}"


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 30 2 1", "0 0 31 4,5 *", "0 0 29-31 2 *", "0 0 29 2 */7"])
def test_a_date_that_some_year_has_is_not_refused(text: str) -> None:
    parse_expression(text)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "give a time zone, such as Europe/Berlin or UTC"),
        ("europe/berlin", "'europe/berlin' is no name of the IANA time zone database: did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("new york", "did you mean America/New_York?"),
        ("US/Pacfic", "did you mean US/Pacific?"),
        ("CEST", "did you mean"),
        ("Factory", "names are like Europe/Berlin or UTC"),
        ("+01:00", "names are like Europe/Berlin or UTC"),
        ("posixrules", "names are like Europe/Berlin or UTC"),
        ("localtime", "names are like Europe/Berlin or UTC"),
        ("../../../etc/localtime", "names are like Europe/Berlin or UTC"),
        ("/usr/share/zoneinfo/UTC", "is no name"),
        ("Europe", "is no name"),
        ("zone.tab", "names are like Europe/Berlin or UTC"),
        ("UTC\x00", "'UTC\\x00' is no name"),
        ("Europe/" + "B" * 100, "is longer than any name of a time zone; names are like Europe/Berlin or UTC"),
    ],
)
def test_a_zone_is_refused_with_the_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidRule) as refused:
        load_zone(name)
    assert refused.value.field == "timezone"
    assert reason in refused.value.reason


def test_an_unknown_answer_to_a_change_of_clocks_is_refused() -> None:
    with pytest.raises(InvalidRule, match="dst: gap is shift or skip, not 'fire'"):
        Dst(gap="fire")  # type: ignore[arg-type]
    with pytest.raises(InvalidRule, match="dst: fold is first or both, not 'last'"):
        Dst(fold="last")  # type: ignore[arg-type]
