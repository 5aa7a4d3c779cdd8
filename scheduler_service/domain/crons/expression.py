"""Parses the five fields of a cron expression. The package's docstring has the rules."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from scheduler_service.domain.errors import InvalidRule

MAX_EXPRESSION = 255
MAX_FIELD_ITEMS = 60
"""In one field. No sensible list has more: no field has more values."""

_QUOTED = 40
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_SUNDAY_AT_THE_END = 7

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
    (re.compile(".*#.*"), "'#' (the n-th weekday of a month) is not supported: list days of the month, or weekdays"),
    (re.compile(".*~.*"), "'~' (a random value) is not supported: write one value and give spread_seconds"),
    (re.compile(".*%.*"), "'%' is not supported: an expression has no command"),
    (
        re.compile(r"(?i)H(\(.*\))?(/.*)?"),
        "'H' (a hashed value) is not supported: write one value, give spread_seconds",
    ),
    (
        re.compile(r"(?i)L(-.*)?|LW|WL|[0-9]*W|([0-9]+|[a-z]{3})L"),
        "'L' and 'W' (last day, nearest workday) are not supported: list the days",
    ),
)
_MALFORMED = (
    (re.compile(".*/-.*"), "a step is a number from 1 on, such as */5"),
    (re.compile(".*/.*"), "a step is a number after * or a range, such as */5 or 10-40/5"),
    (re.compile(".*-.*"), "a range is two values with a hyphen between, such as 1-5"),
)


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    span: int
    """How many values there are; the two Sundays are one."""
    names: tuple[str, ...] = ()


_MINUTE = _Field("minute", 0, 59, 60)
_HOUR = _Field("hour", 0, 23, 24)
_DAY = _Field("day of month", 1, 31, 31)
_MONTH = _Field("month", 1, 12, 12, tuple("jan feb mar apr may jun jul aug sep oct nov dec".split()))
_WEEKDAY = _Field("day of week", 0, _SUNDAY_AT_THE_END, 7, tuple("sun mon tue wed thu fri sat".split()))
_FIELDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression. The tuples are sorted, not empty and within their fields' ranges; 0 is Sunday.

    `text` is canonical: two expressions with one text are equal, and `parse_expression(text)` gives the same again.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    either_day: bool
    """A day matches by day of month OR day of week: neither text begins with a star. Otherwise both must match."""
    follows_real_time: bool
    """The minute's or the hour's text begins with a star."""
    text: str


class _Values(NamedTuple):
    values: frozenset[int]
    star: int
    """The step of the star that the text begins with, at most the field's span; 0 if it begins with none."""


@lru_cache(maxsize=16_384)
def parse_expression(text: str) -> Expression:
    """Parse an expression. Raises InvalidRule for the field `expression`, with the first fault found."""
    if len(text) > MAX_EXPRESSION:
        raise _refused(f"is longer than {MAX_EXPRESSION} characters")
    if not text.isascii():
        raise _refused("may only have ASCII letters, digits and * , - /")
    written = _written_out(text.strip(" \t"))
    texts = _BLANKS.split(written) if written else []
    if len(texts) != len(_FIELDS):
        also = "; seconds and years are not supported" if len(texts) > len(_FIELDS) else ""
        raise _refused(f"needs five fields (minute, hour, day of month, month, day of week), not {len(texts)}{also}")
    minute, hour, day, month, weekday = parsed = [
        _parse_field(field, part) for field, part in zip(_FIELDS, texts, strict=True)
    ]
    expression = Expression(
        minutes=tuple(sorted(minute.values)),
        hours=tuple(sorted(hour.values)),
        days=tuple(sorted(day.values)),
        months=tuple(sorted(month.values)),
        weekdays=tuple(sorted(weekday.values)),
        either_day=not (day.star or weekday.star),
        follows_real_time=bool(minute.star or hour.star),
        text=" ".join(_canonical(field, values) for field, values in zip(_FIELDS, parsed, strict=True)),
    )
    _refuse_impossible_date(expression)
    return expression


def _refused(reason: str, field: _Field | None = None) -> InvalidRule:
    return InvalidRule("expression", reason if field is None else f"{field.name}: {reason}")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")


def _written_out(text: str) -> str:
    """Replace a nickname by its five fields; any other text is returned unchanged."""
    if not text.startswith("@"):
        return text
    if text.lower() == "@reboot":
        raise _refused("'@reboot' is not supported: there is no start to wait for")
    fields = _NICKNAMES.get(text.lower())
    if fields is None:
        raise _refused(f"{_quoted(text)} is none of {', '.join(_NICKNAMES)}")
    return fields


def _parse_field(field: _Field, text: str) -> _Values:
    items = text.split(",")
    if len(items) > MAX_FIELD_ITEMS:
        raise _refused(f"has more than {MAX_FIELD_ITEMS} items: use ranges and steps", field)
    found: set[int] = set()
    star = 0
    for place, item in enumerate(items):
        first, last, step = _parse_item(field, item)
        found.update(range(first, last + 1, step))
        if place == 0 and item.startswith("*"):
            star = min(step, field.span)
    if field is _WEEKDAY:
        found = {value % 7 for value in found}
    return _Values(frozenset(found), star if len(found) < field.span else min(star, 1))


def _parse_item(field: _Field, item: str) -> tuple[int, int, int]:
    """First value, last value and step."""
    form = _ITEM.fullmatch(item)
    if form is None:
        raise _refused(_why_not(field, item, _FOREIGN + _MALFORMED), field)
    star, first, last, step_text = form.groups()
    step = 1 if step_text is None else int(step_text)
    if step == 0:
        raise _refused(f"{_quoted(item)}: a step is a number from 1 on, such as */5", field)
    if star is not None:
        return field.low, field.high, step
    begin = _value(field, first, item)
    if last is None:
        if step_text is not None:
            better = f"write {begin}-{field.low + field.span - 1}/{step}" if step < field.span else f"write {begin}"
            raise _refused(f"{_quoted(item)}: a step comes after * or a range: {better}", field)
        return begin, begin, 1
    end = _value(field, last, item)
    if end == 0 < begin and last.lower() == "sun":
        end = _SUNDAY_AT_THE_END
    if end < begin:
        sunday = " (Sunday at the end of a range is 7)" if field is _WEEKDAY and end == 0 else ""
        raise _refused(f"{_quoted(item)} runs backwards: write two ranges with a comma between{sunday}", field)
    return begin, end, step


def _value(field: _Field, text: str, item: str) -> int:
    if text.isdigit():
        value = int(text)
        if not field.low <= value <= field.high:
            raise _refused(f"{_quoted(text)} is out of range, {field.low} to {field.high}", field)
        return value
    if text.lower() in field.names:
        return field.names.index(text.lower()) + field.low
    raise _refused(_why_not(field, item, _FOREIGN), field)


def _why_not(field: _Field, item: str, patterns: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    if not item:
        return "an item of the list is empty: write values with single commas between"
    for pattern, reason in patterns:
        if pattern.fullmatch(item):
            return f"{_quoted(item)}: {reason}"
    names = f", or a name of {', '.join(field.names)}" if field.names else ""
    return f"{_quoted(item)} is no value, range or step, such as 5, 1-5, */5 or 10-40/10{names}"


def _refuse_impossible_date(expression: Expression) -> None:
    longest = max(_LONGEST_MONTHS[month - 1] for month in expression.months)
    if not expression.either_day and expression.days[0] > longest:
        raise _refused(
            f"never fires: none of its months has a day {expression.days[0]}; {longest} is the last they have"
        )


def _canonical(field: _Field, parsed: _Values) -> str:
    """One text for all fields that mean the same. In the month, unlike elsewhere, a star has no effect beside its
    values, so it replaces any values that it can express."""
    values = parsed.values
    star = parsed.star
    if field is _MONTH:
        steps = (step for step in range(1, field.span) if values == frozenset(range(field.low, field.high + 1, step)))
        star = next(steps, 0)
    if not star:
        return _compact(values)
    text = "*" if star == 1 else f"*/{star}"
    rest = values - {value % 7 if field is _WEEKDAY else value for value in range(field.low, field.high + 1, star)}
    return f"{text},{_compact(rest)}" if rest else text


def _compact(values: Iterable[int]) -> str:
    ordered = sorted(values)
    step = progression(ordered)
    if step is not None and step > 1:
        return f"{ordered[0]}-{ordered[-1]}/{step}"
    return ",".join(
        f"{first}-{last}" if last > first + 1 else ",".join(str(value) for value in range(first, last + 1))
        for first, last in runs(ordered)
    )


def progression(ordered: list[int]) -> int | None:
    """The step between the values if it is the same everywhere. None for fewer than three values."""
    steps = {later - earlier for earlier, later in pairwise(ordered)}
    return steps.pop() if len(ordered) > 2 and len(steps) == 1 else None


def runs(ordered: list[int]) -> list[tuple[int, int]]:
    """The values as maximal ranges without holes, each as (first, last)."""
    found: list[tuple[int, int]] = []
    for value in ordered:
        if found and found[-1][1] == value - 1:
            found[-1] = (found[-1][0], value)
        else:
            found.append((value, value))
    return found
