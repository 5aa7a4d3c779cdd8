"""The fields of the dialects that descend from Quartz: lists, ranges, `first/step`, names, `?` and special days. Pure.

A step without a range goes on to the end of its field: `20/15` minutes are 20, 35 and 50. `0/15` is the same as `*/15`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from scheduler_service.domain.crons.dialects.faults import all_of
from scheduler_service.domain.crons.expression import MAX_EXPRESSION, MAX_FIELD_ITEMS, Expression, assemble
from scheduler_service.domain.crons.fields import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    YEAR,
    Field,
    Values,
    every_value,
    quoted,
    refused,
)
from scheduler_service.domain.crons.special_days import SpecialDay, special_day_of_month, special_day_of_week

SECOND: Final = Field("second", 0, 59, 60)
_ITEM: Final = re.compile(r"(\*|[0-9]{1,4}|[A-Za-z]{3})(?:-([0-9]{1,4}|[A-Za-z]{3}))?(?:/([0-9]{1,4}))?")
_SPECIAL_WEEKDAY: Final = re.compile(r"([0-9]|[A-Za-z]{3})(#[1-5]|[Ll])")
_ANY: Final = "?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """How one dialect differs. `sunday_is_one`: weekdays are 1-7 from Sunday, otherwise 0-7 where 0 and 7 are Sunday.
    `wraps`: a range may run over the end of its field. `lone_last_weekday`: L in the day of week is Saturday.
    `one_any`: exactly one of the day fields is `?`. `steps_after_names`: MAR-NOV/2 means what it says. `years`: the
    first and the last one."""

    sunday_is_one: bool
    wraps: bool
    lone_last_weekday: bool
    one_any: bool
    steps_after_names: bool
    years: tuple[int, int] | None


class _Days(NamedTuple):
    values: Values
    special: Sequence[SpecialDay] = ()


def read_fields(grammar: Grammar, texts: Sequence[str], *, seconds: bool) -> Expression:
    """The expression of these fields, in the order second (if there are any), minute, hour, day of month, month, day of
    week, year (if there is one). Raises InvalidRule with all faults."""
    fields = [*([SECOND] if seconds else []), MINUTE, HOUR, DAY, MONTH, WEEKDAY]
    if grammar.years is not None and len(texts) == len(fields) + 1:
        first, last = grammar.years
        fields.append(YEAR._replace(low=first, high=last, span=last - first + 1))
    names = [field.name for field in fields]
    read = dict(zip(names, all_of(partial(_field, grammar), fields, texts), strict=True))
    written = dict(zip(names, texts, strict=True))
    if grammar.one_any and (written[DAY.name] == _ANY) == (written[WEEKDAY.name] == _ANY):
        raise refused("one of day of month and day of week must be ?, and only one: it stands for any day")
    years = read.get(YEAR.name)
    return assemble(
        read[MINUTE.name].values,
        read[HOUR.name].values,
        read[DAY.name].values,
        read[MONTH.name].values,
        read[WEEKDAY.name].values,
        special_days=read[DAY.name].special,
        special_weekdays=read[WEEKDAY.name].special,
        both=True,
        years=() if years is None or years.values.star == 1 else years.values.values,
    )


def split_fields(text: str, counts: Iterable[int], names: str) -> list[str]:
    """The fields of a text, with any blanks between. Raises InvalidRule if there are more or fewer."""
    if len(text) > MAX_EXPRESSION:
        raise refused(f"is longer than {MAX_EXPRESSION} characters")
    texts = text.split()
    if len(texts) not in counts:
        raise refused(f"needs {names}, not {len(texts)}")
    return texts


def _field(grammar: Grammar, field: Field, text: str) -> _Days:
    if field is SECOND:
        if text not in ("0", "00"):
            raise refused(f"{quoted(text)}: fires are at whole minutes: write 0", field)
        return _Days(Values(frozenset({0})))
    if text == _ANY and field in (DAY, WEEKDAY):
        return _Days(every_value(field))
    items = text.split(",")
    if len(items) > MAX_FIELD_ITEMS:
        raise refused(f"has more than {MAX_FIELD_ITEMS} items: use ranges and steps", field)
    if field is DAY:
        return _days(field, items, special_day_of_month, partial(_values, grammar, field))
    if field is WEEKDAY:
        return _days(field, items, partial(_special_weekday, grammar), partial(_values, grammar, field))
    return _Days(_values(grammar, field, items))


def _days(
    field: Field,
    items: Sequence[str],
    special: Callable[[str], SpecialDay | None],
    plain: Callable[[Sequence[str]], Values],
) -> _Days:
    found = {item: day for item in items if (day := special(item)) is not None}
    rest = [item for item in items if item not in found]
    return _Days(plain(rest) if rest else Values(frozenset()), list(found.values()))


def _special_weekday(grammar: Grammar, item: str) -> SpecialDay | None:
    form = _SPECIAL_WEEKDAY.fullmatch(item)
    if form is None:
        return None
    name, rest = form.groups()
    weekday = _known(_weekday_field(grammar), name)
    if weekday is None:
        return None
    return special_day_of_week(f"{(weekday - grammar.sunday_is_one) % 7}{rest}")


def _weekday_field(grammar: Grammar) -> Field:
    return WEEKDAY._replace(low=1) if grammar.sunday_is_one else WEEKDAY


def _values(grammar: Grammar, field: Field, items: Sequence[str]) -> Values:
    numbered = _weekday_field(grammar) if field is WEEKDAY else field
    found: set[int] = set()
    star = 0
    for item in items:
        if field is WEEKDAY and grammar.lone_last_weekday and item.upper() == "L":
            found.add(7)
            continue
        first, last, step = _item(grammar, numbered, item)
        found.update(range(first, last + 1, step))
        if len(items) == 1 and field in (MINUTE, HOUR) and (first, last) == (0, field.high) and step < field.span:
            star = step
    if field is WEEKDAY:
        found = {(value - grammar.sunday_is_one) % 7 for value in found}
    else:
        found = {value if value <= field.high else value - field.span for value in found}
    if len(found) == field.span:
        star = min(star, 1) if field in (MINUTE, HOUR) else 1
    return Values(frozenset(found), star)


def _item(grammar: Grammar, field: Field, item: str) -> tuple[int, int, int]:
    """First value, last value (beyond the field's end where the range wraps) and step."""
    form = _ITEM.fullmatch(item)
    if form is None:
        raise refused(_why_not(field, item), field)
    begin, end, step_text = form.groups()
    step = 1 if step_text is None else int(step_text)
    if step == 0:
        raise refused(f"{quoted(item)}: a step is a number from 1 on", field)
    if step_text is not None and not grammar.steps_after_names and not begin.isdigit() and begin != "*":
        raise refused(f"{quoted(item)}: a step after names is ignored by some versions: write numbers", field)
    if begin == "*":
        if end is not None:
            raise refused(_why_not(field, item), field)
        # Weekdays 0 and 7 are one day: a star begins at Monday, as java.time does.
        low = 1 if field is WEEKDAY else field.low
        return low, field.high, step
    first = _value(field, item, begin)
    if end is None:
        return first, first if step_text is None else field.high, step
    last = _value(field, item, end)
    if field is WEEKDAY:
        # Sunday is 0 at the beginning of a range and 7 at its end.
        first, last = first % 7, 7 if last == 0 < first else last
    if last < first:
        if not grammar.wraps or field.low >= YEAR.low:
            raise refused(f"{quoted(item)} runs backwards: write two ranges with a comma between", field)
        last += field.span
    return first, last, step


def _value(field: Field, item: str, text: str) -> int:
    value = _known(field, text)
    if value is not None:
        return value
    if text.isdigit():
        raise refused(f"{quoted(text)} is out of range, {field.low} to {field.high}", field)
    raise refused(_why_not(field, item), field)


def _known(field: Field, text: str) -> int | None:
    if text.isdigit():
        return int(text) if field.low <= int(text) <= field.high else None
    return field.names.index(text.lower()) + field.low if text.lower() in field.names else None


def _why_not(field: Field, item: str) -> str:
    if not item:
        return "an item of the list is empty: write values with single commas between"
    if re.fullmatch(r"(?i)L-?[0-9]*W", item):
        return f"{quoted(item)} is not supported: write LW, or a workday near a date such as 28W"
    if item == _ANY:
        return f"{quoted(item)} is for one of the day fields, alone: write *"
    special = {"day of month": ", or L, L-3, LW, 15W", "day of week": ", or 6L, 6#3"}.get(field.name, "")
    names = f", or a name of {', '.join(field.names)}" if field.names else ""
    return f"{quoted(item)} is no value, range or step, such as 5, 1-5, */5 or 10/5{names}{special}"
