"""GoScheduler: five fields with one blank between, read as its own parser reads them.

- Day of month AND day of week must match, whatever their texts begin with.
- A step stands alone in its field, of minutes, hours or days only, and selects multiples of itself: `20/15` minutes are
  30 and 45, not 20, 35 and 50; `*/5` days are 5, 10 ... 30, not 1, 6 ... 31; and day 31 is in no step.
- A list has numbers and ranges of numbers; months and weekdays also single names. 7 is no Sunday.

Refused although the original accepts it: steps of 0 or less, which it never comes to the end of; a step of days that
selects none, which it takes for every day; signs before a number.
"""

import re
from typing import Final

from scheduler_service.domain.crons.dialects.faults import all_of
from scheduler_service.domain.crons.expression import MAX_EXPRESSION, MAX_FIELD_ITEMS, Expression, assemble
from scheduler_service.domain.crons.fields import (
    DAY,
    FIELDS,
    HOUR,
    MINUTE,
    Field,
    Values,
    every_value,
    quoted,
    refused,
)

_NUMBER: Final = re.compile("[0-9]{1,9}")
_STEPPED: Final = {MINUTE: 60, HOUR: 24, DAY: 31}
"""Fields with steps, and the first value that a step never selects."""


def read_goscheduler(text: str) -> Expression:
    """Raises InvalidRule with all faults."""
    if len(text) > MAX_EXPRESSION:
        raise refused(f"is longer than {MAX_EXPRESSION} characters")
    texts = text.split(" ")
    if len(texts) != len(FIELDS) or "" in texts:
        raise refused(
            "needs five fields with one blank between (minute, hour, day of month, month, day of week), "
            f"and {quoted(text)} has not"
        )
    return assemble(*all_of(_field, FIELDS, texts), both=True)


def _field(field: Field, text: str) -> Values:
    if text == "*":
        return every_value(field)
    if "/" in text:
        return _step(field, text)
    items = text.split(",")
    if len(items) > MAX_FIELD_ITEMS:
        raise refused(f"has more than {MAX_FIELD_ITEMS} items: use ranges", field)
    return Values(frozenset(value for item in items for value in _item(field, item)))


def _step(field: Field, text: str) -> Values:
    end = _STEPPED.get(field)
    if end is None:
        raise refused(f"{quoted(text)}: this dialect has steps of minutes, hours and days only: list the values", field)
    begin, _, step_text = text.partition("/")
    if _NUMBER.fullmatch(step_text) is None or int(step_text) == 0:
        raise refused(f"{quoted(text)}: a step is a number from 1 on, alone in its field, such as */5", field)
    step = int(step_text)
    if begin == "*":
        values = range(0, end, step)
    elif _NUMBER.fullmatch(begin) is not None:
        values = range(-(-int(begin) // step) * step, end, step)
    else:
        raise refused(f"{quoted(text)}: a step comes after * or one number: list the values", field)
    chosen = frozenset(value for value in values if value >= field.low)
    if not chosen:
        raise refused(f"{quoted(text)} selects nothing, as no multiple of {step} is left: write the values", field)
    if begin != "*" or field is DAY:
        return Values(chosen)
    return Values(chosen, 1 if len(chosen) == field.span else min(step, field.span))


def _item(field: Field, item: str) -> range:
    if item.lower() in field.names:
        named = field.names.index(item.lower()) + field.low
        return range(named, named + 1)
    first, hyphen, last = item.partition("-")
    low, high = _number(field, item, first), _number(field, item, last if hyphen else first)
    if low > high:
        raise refused(f"{quoted(item)} runs backwards: write two ranges with a comma between", field)
    return range(low, high + 1)


def _number(field: Field, item: str, text: str) -> int:
    highest = field.low + field.span - 1
    if _NUMBER.fullmatch(text) is None:
        names = f", or a name of {', '.join(field.names)}" if field.names else ""
        raise refused(f"{quoted(item)} is no number or range of numbers, such as 5 or 1-5{names}", field)
    if not field.low <= int(text) <= highest:
        raise refused(f"{quoted(item)} is out of range, {field.low} to {highest}", field)
    return int(text)
