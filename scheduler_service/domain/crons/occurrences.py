"""The instants at which an expression fires in a zone: a walk over the local calendar, stretch by stretch.

In one stretch of a zone's clock local time is UTC plus a constant, so matching works on whole local minutes. Gaps and
folds are handled between two stretches, by how far the clock had got before.
"""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.zones import Stretch, stretches
from scheduler_service.domain.errors import InvalidRule
from scheduler_service.domain.ids import DAY_MS, UnixMillis

SEARCHED_MS = 5 * 366 * DAY_MS
"""The search for a next fire ends after this: five years."""

_LAST_SECOND = 253_370_764_799
"""9998-12-31T23:59:59Z. Beyond it, local time may be out of `datetime`'s range."""
_MINUTES_OF_DAY = 1440
_EPOCH = date(1970, 1, 1).toordinal()
_EPOCH_WEEKDAY = 4
"""A Thursday, counted from Sunday."""

Gap = Literal["shift", "skip"]
Fold = Literal["first", "both"]


@dataclass(frozen=True, slots=True)
class Dst:
    """How to handle fixed times that a change of clocks skips (`gap`) or repeats (`fold`)."""

    gap: Gap = "shift"
    fold: Fold = "first"

    def __post_init__(self) -> None:
        if self.gap not in ("shift", "skip"):
            raise InvalidRule("dst", f"gap is shift or skip, not {self.gap!r:.40}")
        if self.fold not in ("first", "both"):
            raise InvalidRule("dst", f"fold is first or both, not {self.fold!r:.40}")


DEFAULT_DST = Dst()


def fires(
    expression: Expression, zone: ZoneInfo, dst: Dst = DEFAULT_DST, *, after: int, until: int
) -> Iterator[UnixMillis]:
    """Nominal instants in (after, until], each once, ascending, computed lazily."""
    first = max(after // 1000 + 1, 0)
    end = min(until // 1000, _LAST_SECOND) + 1
    if first >= end:
        return
    for stretch in stretches(zone, first, end):
        for second in _fires_of_stretch(expression, stretch, dst, first=first):
            if second >= end:
                return
            yield UnixMillis(second * 1000)


def first_fire(
    expression: Expression, zone: ZoneInfo, dst: Dst = DEFAULT_DST, *, after: int, until: int | None = None
) -> UnixMillis | None:
    """The first one in (after, until]; None if there is none, or none within five years."""
    limit = after + SEARCHED_MS if until is None else min(until, after + SEARCHED_MS)
    return next(fires(expression, zone, dst, after=after, until=limit), None)


def next_fires(
    expression: Expression, zone: ZoneInfo, dst: Dst = DEFAULT_DST, *, after: int, count: int, until: int | None = None
) -> list[UnixMillis]:
    """The first `count` in (after, until]; fewer if the next one is more than five years after the one before."""
    found: list[UnixMillis] = []
    while len(found) < count:
        begin = found[-1] if found else after
        limit = begin + SEARCHED_MS if until is None else min(until, begin + SEARCHED_MS)
        more = list(islice(fires(expression, zone, dst, after=begin, until=limit), count - len(found)))
        if not more:
            break
        found += more
    return found


def _fires_of_stretch(expression: Expression, stretch: Stretch, dst: Dst, *, first: int) -> Iterator[int]:
    """Seconds of UTC from `first` on within one stretch, its start included for the gap before it."""
    offset = stretch.offset
    local_start = stretch.start + offset
    begin = max(stretch.start, first) + offset
    after_gap = None
    if not expression.follows_real_time:
        if dst.fold == "first":
            begin = max(begin, stretch.reached)
        if dst.gap == "shift" and stretch.reached < local_start and stretch.start >= first:
            swallowed = _local_minutes(expression, _minute_from(stretch.reached), _minute_from(local_start))
            if next(swallowed, None) is not None:
                after_gap = stretch.start
                yield after_gap
    for minute in _local_minutes(expression, _minute_from(begin), _minute_from(stretch.end + offset)):
        second = minute * 60 - offset
        # The fire shifted out of the gap may coincide with a regular one, and counts once.
        if second != after_gap:
            yield second


def _minute_from(second: int) -> int:
    """The first minute that begins at `second` or later."""
    return -(-second // 60)


def _local_minutes(expression: Expression, first: int, end: int) -> Iterator[int]:
    """Matching minutes of a clock without gaps and folds, counted from 1970: first <= minute < end, ascending."""
    if first >= end:
        return
    minutes = expression.minutes
    for day in _days(expression, first // _MINUTES_OF_DAY, (end - 1) // _MINUTES_OF_DAY):
        for hour in expression.hours:
            start = day * _MINUTES_OF_DAY + hour * 60
            if start + 60 <= first:
                continue
            for minute in minutes:
                found = start + minute
                if found >= end:
                    return
                if found >= first:
                    yield found


def _days(expression: Expression, first: int, last: int) -> Iterator[int]:
    """Matching days, counted from 1970: first <= day <= last, ascending."""
    begin = date.fromordinal(_EPOCH + first)
    year, month = begin.year, begin.month
    while True:
        start = date(year, month, 1).toordinal() - _EPOCH
        if start > last:
            return
        if month in expression.months and (not expression.years or year in expression.years):
            shape = ((start + _EPOCH_WEEKDAY) % 7, monthrange(year, month)[1])
            if expression.special_days or expression.special_weekdays:
                days = _special_days_of_month(expression, *shape)
            else:
                days = _days_of_month(expression.days, expression.weekdays, expression.either_day, *shape)
            for number in days:
                day = start + number - 1
                if day > last:
                    return
                if day >= first:
                    yield day
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)


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
