"""The instants at which an expression fires in a zone: a walk over the local calendar, stretch by stretch.

In one stretch of a zone's clock local time is UTC plus a constant, so matching works on whole local minutes. Gaps and
folds are handled between two stretches, by how far the clock had got before.
"""

from calendar import monthrange
from collections.abc import Callable, Iterator
from datetime import date
from functools import lru_cache
from zoneinfo import ZoneInfo

from scheduler_service.domain.crons.dst import Dst
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.zones import Stretch, stretches

LAST_SECOND = 253_370_764_799
"""9998-12-31T23:59:59Z. Beyond it, local time may be out of `datetime`'s range."""
MINUTES_OF_DAY = 1440
EPOCH = date(1970, 1, 1).toordinal()
EPOCH_WEEKDAY = 4
"""A Thursday, counted from Sunday."""

LocalMinutes = Callable[[int, int], Iterator[int]]
"""Matching minutes of a clock without gaps and folds, counted from 1970: first <= minute < end, ascending."""


def seconds_of(
    local_minutes: LocalMinutes, zone: ZoneInfo, dst: Dst, *, follows_real_time: bool, first: int, end: int
) -> Iterator[int]:
    """Fires with first <= second of UTC < end, each once, ascending, computed lazily."""
    for stretch in stretches(zone, first, end):
        for second in _fires_of_stretch(local_minutes, stretch, dst, follows_real_time, first=first):
            if second >= end:
                return
            yield second


def _fires_of_stretch(
    local_minutes: LocalMinutes, stretch: Stretch, dst: Dst, follows_real_time: bool, *, first: int
) -> Iterator[int]:
    """Seconds of UTC from `first` on within one stretch, its start included for the gap before it."""
    offset = stretch.offset
    local_start = stretch.start + offset
    begin = max(stretch.start, first) + offset
    after_gap = None
    if not follows_real_time:
        if dst.fold == "first":
            begin = max(begin, stretch.reached)
        if dst.gap == "shift" and stretch.reached < local_start and stretch.start >= first:
            swallowed = local_minutes(_minute_from(stretch.reached), _minute_from(local_start))
            if next(swallowed, None) is not None:
                after_gap = stretch.start
                yield after_gap
    for minute in local_minutes(_minute_from(begin), _minute_from(stretch.end + offset)):
        second = minute * 60 - offset
        # The fire shifted out of the gap may coincide with a regular one, and counts once.
        if second != after_gap:
            yield second


def _minute_from(second: int) -> int:
    """The first minute that begins at `second` or later."""
    return -(-second // 60)


def local_minutes(expression: Expression, first: int, end: int) -> Iterator[int]:
    """Matching minutes of a clock without gaps and folds, counted from 1970: first <= minute < end, ascending."""
    if first >= end:
        return
    minutes = expression.minutes
    for day in days_between(expression, first // MINUTES_OF_DAY, (end - 1) // MINUTES_OF_DAY):
        for hour in expression.hours:
            start = day * MINUTES_OF_DAY + hour * 60
            if start + 60 <= first:
                continue
            for minute in minutes:
                found = start + minute
                if found >= end:
                    return
                if found >= first:
                    yield found


def days_between(expression: Expression, first: int, last: int) -> Iterator[int]:
    """Matching days, counted from 1970: first <= day <= last, ascending."""
    begin = date.fromordinal(EPOCH + first)
    year, month = begin.year, begin.month
    while True:
        start = date(year, month, 1).toordinal() - EPOCH
        if start > last:
            return
        for number in _days_in(expression, year, month, start):
            day = start + number - 1
            if day > last:
                return
            if day >= first:
                yield day
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)


def matches_day(expression: Expression, day: int) -> bool:
    """Whether a day, counted from 1970, matches."""
    at = date.fromordinal(EPOCH + day)
    return at.day in _days_in(expression, at.year, at.month, day - at.day + 1)


def _days_in(expression: Expression, year: int, month: int, start: int) -> tuple[int, ...]:
    """Matching days of a month whose first day is `start`, counted from 1970."""
    if month not in expression.months or (expression.years and year not in expression.years):
        return ()
    shape = ((start + EPOCH_WEEKDAY) % 7, monthrange(year, month)[1])
    if expression.special_days or expression.special_weekdays:
        return _special_days_of_month(expression, *shape)
    return _days_of_month(expression.days, expression.weekdays, expression.either_day, *shape)


@lru_cache(maxsize=16_384)
def _days_of_month(
    days: tuple[int, ...], weekdays: tuple[int, ...], either: bool, first_weekday: int, length: int
) -> tuple[int, ...]:
    """Matching days of a month that has this length and begins on this weekday."""
    found = []
    for number in range(1, length + 1):
        of_month, of_week = number in days, (first_weekday + number - 1) % 7 in weekdays
        if (of_month or of_week) if either else (of_month and of_week):
            found.append(number)
    return tuple(found)


@lru_cache(maxsize=16_384)
def _special_days_of_month(expression: Expression, first_weekday: int, length: int) -> tuple[int, ...]:
    """The same for an expression with special days."""
    of_month = set(expression.days) | {day.day_of(first_weekday, length) for day in expression.special_days}
    special = {day.day_of(first_weekday, length) for day in expression.special_weekdays}
    plain = {day for day in range(1, length + 1) if (first_weekday + day - 1) % 7 in expression.weekdays}
    of_week = plain | special
    found = of_month | of_week if expression.either_day else of_month & of_week
    return tuple(sorted(day for day in found if day is not None and day <= length))
