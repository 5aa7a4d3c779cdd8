"""Quartz, EventBridge and Spring: the examples of their own documents, what they differ in, and refusals."""

import pytest

from scheduler_service.domain.crons import InvalidRule, in_words, parse_recurrence, read_in_dialect
from scheduler_service.domain.crons.dialects import Dialect

QUARTZ = [
    # The examples of Quartz' CronTrigger tutorial, in its order.
    ("0 0 12 * * ?", "0 12 * * *"),
    ("0 15 10 ? * *", "15 10 * * *"),
    ("0 15 10 * * ?", "15 10 * * *"),
    ("0 15 10 * * ? *", "15 10 * * *"),
    ("0 15 10 * * ? 2027", "15 10 * * * 2027"),
    ("0 * 14 * * ?", "* 14 * * *"),
    ("0 0/5 14 * * ?", "*/5 14 * * *"),
    ("0 0/5 14,18 * * ?", "*/5 14,18 * * *"),
    ("0 0-5 14 * * ?", "0-5 14 * * *"),
    ("0 10,44 14 ? 3 WED", "10,44 14 * 3 3"),
    ("0 15 10 ? * MON-FRI", "15 10 * * 1-5"),
    ("0 15 10 15 * ?", "15 10 15 * *"),
    ("0 15 10 L * ?", "15 10 L * *"),
    ("0 15 10 L-2 * ?", "15 10 L-2 * *"),
    ("0 15 10 ? * 6L", "15 10 * * 5L"),
    ("0 15 10 ? * 6L 2027-2030", "15 10 * * 5L 2027-2030"),
    ("0 15 10 ? * 6#3", "15 10 * * 5#3"),
    ("0 0 12 1/5 * ?", "0 12 1-31/5 * *"),
    ("0 11 11 11 11 ?", "11 11 11 11 *"),
    # Ranges over the end of a field, steps, weekdays from 1, the last day of a week.
    ("0 0 22-2 * * ?", "0 0-2,22,23 * * *"),
    ("0 0 0 ? * FRI-MON", "0 0 * * 0,1,5,6"),
    ("0 0 0 ? 11-2 1", "0 0 * 1,2,11,12 0"),
    ("0 20/15 * * * ?", "20-50/15 * * * *"),
    ("0 0 0 ? * 2/2", "0 0 * * 1-5/2"),
    ("0 0 0 ? * */2", "0 0 * * 0-6/2"),
    ("0 0 0 ? * L", "0 0 * * 6"),
    ("0 0 0 ? * friL", "0 0 * * 5L"),
    ("0 0 0 LW * ?", "0 0 LW * *"),
    ("0 0 0 15W * ?", "0 0 15W * *"),
    ("00 0 0 1 JAN ?  *", "0 0 1 1 *"),
]
AWS = [
    # The examples of the EventBridge guide.
    ("cron(0 10 * * ? *)", "0 10 * * *"),
    ("cron(15 12 * * ? *)", "15 12 * * *"),
    ("cron(0 18 ? * MON-FRI *)", "0 18 * * 1-5"),
    ("cron(0 8 1 * ? *)", "0 8 1 * *"),
    ("cron(0/15 * * * ? *)", "*/15 * * * *"),
    ("cron(0/10 * ? * MON-FRI *)", "*/10 * * * 1-5"),
    ("cron(0/5 8-17 ? * MON-FRI *)", "*/5 8-17 * * 1-5"),
    ("cron(0/30 20-2 ? * MON-FRI *)", None),
    ("cron(15 10 ? * 6L 2027-2030)", "15 10 * * 5L 2027-2030"),
    ("cron(0 0 ? * 3#2 *)", "0 0 * * 2#2"),
    ("cron(0 0 3W * ? *)", "0 0 3W * *"),
    ("cron(0 0 L * ? *)", "0 0 L * *"),
    ("cron(0 9 ? * L *)", "0 9 * * 6"),
    ("rate(1 minute)", "every 1 minute"),
    ("rate(5 minutes)", "every 5 minutes"),
    ("rate(1 hour)", "every 60 minutes"),
    ("rate(7 days)", "every 10080 minutes"),
    (" rate( 90  minutes ) ", "every 90 minutes"),
]
SPRING = [
    # The examples of CronExpression.parse.
    ("0 0 * * * *", "0 * * * *"),
    ("0 0 8-10 * * *", "0 8-10 * * *"),
    ("0 0 6,19 * * *", "0 6,19 * * *"),
    ("0 0/30 8-10 * * *", "*/30 8-10 * * *"),
    ("0 0 9-17 * * MON-FRI", "0 9-17 * * 1-5"),
    ("0 0 0 25 12 ?", "0 0 25 12 *"),
    ("0 0 0 L * *", "0 0 L * *"),
    ("0 0 0 L-3 * *", "0 0 L-3 * *"),
    ("0 0 0 1W * *", "0 0 1W * *"),
    ("0 0 0 LW * *", "0 0 LW * *"),
    ("0 0 0 * * 5L", "0 0 * * 5L"),
    ("0 0 0 * * THUL", "0 0 * * 4L"),
    ("0 0 0 ? * 5#2", "0 0 * * 5#2"),
    ("0 0 0 ? * MON#1", "0 0 * * 1#1"),
    ("@yearly", "0 0 1 1 *"),
    ("@weekly", "0 0 * * 0"),
    ("@hourly", "0 * * * *"),
    # Both day fields must match; Sunday is 0 and 7; a star of weekdays begins at Monday.
    ("0 0 0 13 * FRI", "0 0 13 * &5"),
    ("0 0 0 * * 0", "0 0 * * 0"),
    ("0 0 0 * * 7", "0 0 * * 0"),
    ("0 0 0 * * FRI-SUN", "0 0 * * 0,5,6"),
    ("0 0 0 * * SUN-TUE", "0 0 * * 0-2"),
    ("0 0 0 * * */2", "0 0 * * 0,1,3,5"),
    ("0 0 0 1 JAN-NOV/5 *", "0 0 1 */5 *"),
    ("0 0 0 1 4/15 *", "0 0 1 4 *"),
    ("0 0 0 */2 * MON", "0 0 1-31/2 * &1"),
    ("0 20/15 * * * *", "20-50/15 * * * *"),
]
CASES = [
    *(("quartz", *case) for case in QUARTZ),
    *(("aws", *case) for case in AWS),
    *(("spring", *case) for case in SPRING),
]


@pytest.mark.parametrize(("dialect", "text", "canonical"), CASES)
def test_the_canonical_rule(dialect: Dialect, text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(InvalidRule, match="runs backwards: write two ranges"):
            read_in_dialect(text, dialect)
        return
    rule = read_in_dialect(text, dialect)
    assert rule.text == canonical
    assert in_words(parse_recurrence(rule.text)) == in_words(rule)
    assert parse_recurrence(rule.text).text == canonical


@pytest.mark.parametrize(
    ("dialect", "text", "reasons"),
    [
        ("quartz", "* * * * *", ["needs six or seven fields (second, minute, hour"]),
        ("quartz", "*/10 * * * * ?", ["second: '*/10': fires are at whole minutes: write 0"]),
        ("quartz", "30 0 25 * * ?", ["second: '30'", "hour: '25' is out of range, 0 to 23"]),
        ("quartz", "0 0 12 * * *", ["one of day of month and day of week must be ?"]),
        ("quartz", "0 0 12 ? * ?", ["one of day of month and day of week must be ?"]),
        ("quartz", "0 0 12 L-3W * ?", ["day of month: 'L-3W' is not supported: write LW"]),
        ("quartz", "0 0 12 ? * 0", ["day of week: '0' is out of range, 1 to 7"]),
        ("quartz", "0 0 12 ? * 6#6", ["day of week: '6#6' is no value"]),
        ("quartz", "0 */0 12 * * ?", ["minute: '*/0': a step is a number from 1 on"]),
        ("quartz", "0 0 12 1 MAR-NOV/2 ?", ["month: 'MAR-NOV/2': a step after names is ignored by some versions"]),
        ("aws", "cron(0 12 ? * MON/2 *)", ["day of week: 'MON/2': a step after names"]),
        ("quartz", "0 /5 12 * * ?", ["minute: '/5' is no value, range or step"]),
        ("quartz", "0 ? 12 * * ?", ["minute: '?' is for one of the day fields, alone: write *"]),
        ("quartz", "0 0 12 1 * ? 2101", ["year: '2101' is out of range, 1970 to 2099"]),
        ("quartz", "0 0 12 1 * ? 2030-2027", ["year: '2030-2027' runs backwards"]),
        ("quartz", "0 1,,2 12 * * ?", ["minute: an item of the list is empty"]),
        ("quartz", f"0 {','.join(['1'] * 61)} 12 * * ?", ["minute: has more than 60 items"]),
        ("quartz", "0" * 256, ["is longer than 255 characters"]),
        ("aws", "0 10 * * ? *", ["is neither cron(...) nor rate(...)"]),
        ("aws", "cron(0 10 * * ?)", ["needs six fields in cron(...)"]),
        ("aws", "cron(0 10 * * * *)", ["one of day of month and day of week must be ?"]),
        ("aws", "at(2027-11-20T13:00:00)", ["is one instant: create a schedule that is due then, not a cron"]),
        ("aws", "rate(0 minutes)", ["an interval is 1 minute to 366 days long"]),
        ("aws", "rate(367 days)", ["an interval is 1 minute to 366 days long"]),
        ("aws", "rate(30 seconds)", ["a rate is a number of minutes, hours or days"]),
        ("aws", "rate(5)", ["a rate is a number of minutes, hours or days"]),
        ("spring", "0 0 0 * * * 2027", ["needs six fields (second, minute"]),
        ("spring", "@reboot", ["'@reboot' is none of @yearly"]),
        ("spring", "0 0 0 * * L", ["day of week: 'L' is no value"]),
        (
            "spring",
            "5 70 24 32 13 8",
            ["second: '5'", "minute: '70'", "hour: '24'", "day of month: '32'", "month: '13'", "day of week: '8'"],
        ),
    ],
)  # fmt: skip
def test_refusals_name_all_faults(dialect: Dialect, text: str, reasons: list[str]) -> None:
    with pytest.raises(InvalidRule) as refused:
        read_in_dialect(text, dialect)
    faults = refused.value.reason.split("; ")
    assert len(faults) == len(reasons)
    for fault, reason in zip(faults, reasons, strict=True):
        assert reason in fault


@pytest.mark.parametrize("dialect", ["cronie", "minutehand", "goscheduler", "quartz", "aws", "spring"])
def test_a_long_text_is_refused_and_not_searched(dialect: Dialect) -> None:
    for text in ("9" * 5000, "cron(" + "*" * 5000 + ")", "every " + "1" * 5000, "* " * 3000):
        with pytest.raises(InvalidRule) as refused:
            read_in_dialect(text, dialect)
        assert len(refused.value.reason) < 400
