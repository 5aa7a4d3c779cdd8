"""Reads canonical texts: what is stored of a rule. They are cronie's five fields, and more.

    0 9 L,15W * 5#3          special days (`special_days`)
    0 9 1-7 * &1             day of month AND day of week must match, not one of them
    0 9 1 1 * 2027-2030      a sixth field for years

    every 90 minutes         an interval (`interval`)
    {"any":[...], ...}       a compound, as JSON (`compound.Document`)

A program that is older than one of these forms refuses the text, and neither places nor withdraws a fire of that cron.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from scheduler_service.domain.crons.calendars import checked
from scheduler_service.domain.crons.compound import Document, Member, Recurrence, compose
from scheduler_service.domain.crons.expression import (
    MAX_EXPRESSION,
    MAX_FIELD_ITEMS,
    assemble,
    parse_expression,
    parse_field,
)
from scheduler_service.domain.crons.fields import (
    DAY,
    FIELDS,
    HOUR,
    MINUTE,
    MONTH,
    WEEKDAY,
    YEAR,
    Field,
    Values,
    refused,
)
from scheduler_service.domain.crons.interval import parse_interval, says_interval
from scheduler_service.domain.crons.special_days import SpecialDay, special_day_of_month, special_day_of_week

_BLANKS: Final = re.compile("[ \t]+")
_BOTH: Final = "&"
_decode: Final = msgspec.json.Decoder(Document).decode
_MORE: Final = re.compile(r"[LlWw#&]")


@lru_cache(maxsize=16_384)
def parse_recurrence(text: str) -> Recurrence:
    """Parse a canonical text, or any other that cronie reads. Raises InvalidRule."""
    if not text.startswith("{"):
        return parse_member(text)
    try:
        document = _decode(text)
    except msgspec.DecodeError as error:
        raise refused("is no rule that this version knows") from error
    return compose(
        tuple(parse_member(each) for each in document.any),
        tuple(parse_member(each) for each in document.excluding),
        None if document.calendar is None else checked(document.calendar),
    )


def parse_member(text: str) -> Member:
    """The same for anything but a compound."""
    if len(text) <= MAX_EXPRESSION and says_interval(text):
        return parse_interval(text)
    texts = _BLANKS.split(text.strip(" \t")) if len(text) <= MAX_EXPRESSION and text.isascii() else []
    more = len(texts) == len(FIELDS) + 1 or (len(texts) == len(FIELDS) and _MORE.search(texts[2] + texts[4]))
    if not more:
        return parse_expression(text)
    minute, hour, day, month, weekday = texts[: len(FIELDS)]
    both = weekday.startswith(_BOTH)
    days, special_days = _split(DAY, day, special_day_of_month)
    weekdays, special_weekdays = _split(WEEKDAY, weekday.removeprefix(_BOTH), special_day_of_week)
    return assemble(
        parse_field(MINUTE, minute),
        parse_field(HOUR, hour),
        days,
        parse_field(MONTH, month),
        weekdays,
        special_days=special_days,
        special_weekdays=special_weekdays,
        both=both,
        years=() if len(texts) == len(FIELDS) else _years(texts[-1]),
    )


def _split(field: Field, text: str, read: Callable[[str], SpecialDay | None]) -> tuple[Values, list[SpecialDay]]:
    items = text.split(",")
    if len(items) > MAX_FIELD_ITEMS:
        raise refused(f"has more than {MAX_FIELD_ITEMS} items: use ranges and steps", field)
    special = {item: found for item in items if (found := read(item)) is not None}
    plain = [item for item in items if item not in special]
    return parse_field(field, ",".join(plain)) if plain else Values(frozenset()), list(special.values())


def _years(text: str) -> frozenset[int]:
    """Empty for all."""
    values = parse_field(YEAR, text)
    return frozenset() if values.star == 1 else values.values
