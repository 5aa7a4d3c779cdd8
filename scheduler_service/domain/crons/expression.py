"""Expressions, and the five fields that cronie reads. The package's docstring has the rules."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from scheduler_service.domain.crons.fields import (
    DAY,
    FIELDS,
    HOUR,
    MINUTE,
    MONTH,
    SUNDAY_AT_THE_END,
    WEEKDAY,
    Field,
    Values,
    canonical_text,
    compact,
    quoted,
    refused,
)
from scheduler_service.domain.crons.special_days import SpecialDay

MAX_EXPRESSION = 255
MAX_FIELD_ITEMS = 60
"""In one field. No sensible list has more: no field has more values."""

_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_VALUE = "([0-9]+|[A-Za-z]+)"
_ITEM = re.compile(rf"(?:(\*)|{_VALUE}(?:-{_VALUE})?)(?:/([0-9]+))?")
_BLANKS = re.compile("[ \t]+")

_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FOREIGN = (
    (re.compile(r".*\?.*"), "'?' is not supported: write * for any day"),
    (re.compile(".*#.*"), "'#' (the n-th weekday of a month) is none of cronie's: choose the dialect minutehand"),
    (re.compile(".*~.*"), "'~' (a random value) is not supported: write one value and give spread_seconds"),
    (re.compile(".*%.*"), "'%' is not supported: an expression has no command"),
    (
        re.compile(r"(?i)H(\(.*\))?(/.*)?"),
        "'H' (a hashed value) is not supported: write one value, give spread_seconds",
    ),
    (
        re.compile(r"(?i)L(-.*)?|LW|WL|[0-9]*W|([0-9]+|[a-z]{3})L"),
        "'L' and 'W' (last day, nearest workday) are none of cronie's: choose the dialect minutehand",
    ),
)
_MALFORMED = (
    (re.compile(".*/-.*"), "a step is a number from 1 on, such as */5"),
    (re.compile(".*/.*"), "a step is a number after * or a range, such as */5 or 10-40/5"),
    (re.compile(".*-.*"), "a range is two values with a hyphen between, such as 1-5"),
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. The tuples are sorted and within their fields' ranges; 0 is Sunday.

    `text` is canonical: two expressions with one text are equal, and `parse_recurrence(text)` gives the same again.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    """Empty only beside `special_days`."""
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """Empty only beside `special_weekdays`."""
    either_day: bool
    """A day matches by day of month OR day of week: neither text begins with a star. Otherwise both must match."""
    follows_real_time: bool
    """The minute's or the hour's text begins with a star."""
    text: str
    special_days: tuple[SpecialDay, ...] = ()
    special_weekdays: tuple[SpecialDay, ...] = ()
    years: tuple[int, ...] = ()
    """Empty for all."""


def assemble(
    minute: Values,
    hour: Values,
    day: Values,
    month: Values,
    weekday: Values,
    *,
    special_days: Iterable[SpecialDay] = (),
    special_weekdays: Iterable[SpecialDay] = (),
    both: bool = False,
    years: Iterable[int] = (),
) -> Expression:
    """An expression of parsed fields. `both`: day of month AND day of week must match, whatever their texts begin with.
    Raises InvalidRule for dates that no year has."""
    day, special_days = _without_needless(DAY, day, special_days, both)
    weekday, special_weekdays = _without_needless(WEEKDAY, weekday, special_weekdays, both)
    by_star = bool(day.star or weekday.star)
    texts = [
        canonical_text(MINUTE, minute),
        canonical_text(HOUR, hour),
        _with_special(DAY, day, special_days),
        canonical_text(MONTH, month),
        ("&" if both and not by_star else "") + _with_special(WEEKDAY, weekday, special_weekdays),
    ]
    chosen_years = tuple(sorted(set(years)))
    if chosen_years:
        texts.append(compact(chosen_years))
    expression = Expression(
        minutes=tuple(sorted(minute.values)),
        hours=tuple(sorted(hour.values)),
        days=tuple(sorted(day.values)),
        months=tuple(sorted(month.values)),
        weekdays=tuple(sorted(weekday.values)),
        either_day=not (both or by_star),
        follows_real_time=bool(minute.star or hour.star),
        text=" ".join(texts),
        special_days=special_days,
        special_weekdays=special_weekdays,
        years=chosen_years,
    )
    _refuse_impossible_date(expression)
    return expression


def _without_needless(
    field: Field, values: Values, special: Iterable[SpecialDay], both: bool
) -> tuple[Values, tuple[SpecialDay, ...]]:
    """A field that has every value needs no special days and, where both must match, is the same as a star."""
    if len(values.values) < field.span:
        return values, tuple(sorted(set(special)))
    return (values._replace(star=values.star or 1) if both else values), ()


def _with_special(field: Field, values: Values, special: tuple[SpecialDay, ...]) -> str:
    texts = [canonical_text(field, values)] if values.values else []
    return ",".join([*texts, *(each.text for each in special)])


@lru_cache(maxsize=16_384)
def parse_expression(text: str) -> Expression:
    """Parse an expression as cronie reads it. Raises InvalidRule for the field `expression`, with the first fault
    found."""
    if len(text) > MAX_EXPRESSION:
        raise refused(f"is longer than {MAX_EXPRESSION} characters")
    if not text.isascii():
        raise refused("may only have ASCII letters, digits and * , - /")
    written = _written_out(text.strip(" \t"))
    texts = _BLANKS.split(written) if written else []
    if len(texts) != len(FIELDS):
        also = "; for seconds or years choose the dialect, such as quartz" if len(texts) > len(FIELDS) else ""
        raise refused(f"needs five fields (minute, hour, day of month, month, day of week), not {len(texts)}{also}")
    return assemble(*(parse_field(field, part) for field, part in zip(FIELDS, texts, strict=True)))


def _written_out(text: str) -> str:
    """Replace a nickname by its five fields; any other text is returned unchanged."""
    if not text.startswith("@"):
        return text
    if text.lower() == "@reboot":
        raise refused("'@reboot' is not supported: there is no start to wait for")
    fields = _NICKNAMES.get(text.lower())
    if fields is None:
        raise refused(f"{quoted(text)} is none of {', '.join(_NICKNAMES)}")
    return fields


def parse_field(field: Field, text: str) -> Values:
    """One field as cronie reads it. Raises InvalidRule."""
    items = text.split(",")
    if len(items) > MAX_FIELD_ITEMS:
        raise refused(f"has more than {MAX_FIELD_ITEMS} items: use ranges and steps", field)
    found: set[int] = set()
    star = 0
    for place, item in enumerate(items):
        first, last, step = _parse_item(field, item)
        found.update(range(first, last + 1, step))
        if place == 0 and item.startswith("*"):
            star = min(step, field.span)
    if field is WEEKDAY:
        found = {value % 7 for value in found}
    return Values(frozenset(found), star if len(found) < field.span else min(star, 1))


def _parse_item(field: Field, item: str) -> tuple[int, int, int]:
    """First value, last value and step."""
    form = _ITEM.fullmatch(item)
    if form is None:
        raise refused(_why_not(field, item, _FOREIGN + _MALFORMED), field)
    star, first, last, step_text = form.groups()
    step = 1 if step_text is None else int(step_text)
    if step == 0:
        raise refused(f"{quoted(item)}: a step is a number from 1 on, such as */5", field)
    if star is not None:
        return field.low, field.high, step
    begin = _value(field, first, item)
    if last is None:
        if step_text is not None:
            better = f"write {begin}-{field.low + field.span - 1}/{step}" if step < field.span else f"write {begin}"
            raise refused(f"{quoted(item)}: a step comes after * or a range: {better}", field)
        return begin, begin, 1
    end = _value(field, last, item)
    if end == 0 < begin and last.lower() == "sun":
        end = SUNDAY_AT_THE_END
    if end < begin:
        sunday = " (Sunday at the end of a range is 7)" if field is WEEKDAY and end == 0 else ""
        raise refused(f"{quoted(item)} runs backwards: write two ranges with a comma between{sunday}", field)
    return begin, end, step


def _value(field: Field, text: str, item: str) -> int:
    if text.isdigit():
        value = int(text)
        if not field.low <= value <= field.high:
            raise refused(f"{quoted(text)} is out of range, {field.low} to {field.high}", field)
        return value
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.low
    raise refused(_why_not(field, item, _FOREIGN), field)


def _why_not(field: Field, item: str, patterns: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    if not item:
        return "an item of the list is empty: write values with single commas between"
    for pattern, reason in patterns:
        if pattern.fullmatch(item):
            return f"{quoted(item)}: {reason}"
    names = f", or a name of {', '.join(field.names)}" if field.names else ""
    return f"{quoted(item)} is no value, range or step, such as 5, 1-5, */5 or 10-40/10{names}"


def _refuse_impossible_date(expression: Expression) -> None:
    if expression.either_day or expression.special_days:
        return
    longest = max(_LONGEST_MONTHS[month - 1] for month in expression.months)
    if expression.days[0] > longest:
        raise refused(
            f"never fires: none of its months has a day {expression.days[0]}; {longest} is the last they have"
        )
