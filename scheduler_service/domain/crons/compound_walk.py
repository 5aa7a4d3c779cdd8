"""The instants of intervals and compounds. `domain.crons.walk` is told which local minutes match."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from heapq import merge
from zoneinfo import ZoneInfo

from scheduler_service.domain.crons.calendars import MOST_MOVED_DAYS, Calendar, is_off, working_day
from scheduler_service.domain.crons.compound import Compound
from scheduler_service.domain.crons.dst import Dst
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.interval import Interval
from scheduler_service.domain.crons.walk import MINUTES_OF_DAY, days_between, matches_day, seconds_of

_DAYS_AT_A_TIME = 64
_SECOND = timedelta(seconds=1)


def seconds_of_interval(interval: Interval, *, first: int, end: int) -> Iterator[int]:
    """Fires with first <= second of UTC < end."""
    assert interval.anchor is not None
    step = interval.minutes * 60
    begin = interval.anchor + -(-(first - interval.anchor) // step) * step
    return iter(range(begin, end, step))


def seconds_of_compound(rule: Compound, zone: ZoneInfo, dst: Dst, *, first: int, end: int) -> Iterator[int]:
    """Fires with first <= second of UTC < end, each once, ascending, computed lazily."""
    exclusions = _Exclusions(rule.excluding)
    streams = [_seconds_of_member(member, rule, exclusions, zone, dst, first, end) for member in rule.members]
    before = None
    for second in merge(*streams):
        if second != before:
            before = second
            yield second


def _seconds_of_member(
    member: Expression | Interval,
    rule: Compound,
    exclusions: "_Exclusions",
    zone: ZoneInfo,
    dst: Dst,
    first: int,
    end: int,
) -> Iterator[int]:
    if isinstance(member, Interval):
        return _kept(member, rule.calendar, exclusions, zone, first, end)
    matching = partial(_local_minutes, member, rule.calendar, exclusions)
    return seconds_of(matching, zone, dst, follows_real_time=member.follows_real_time, first=first, end=end)


def _kept(
    member: Interval, calendar: Calendar | None, exclusions: "_Exclusions", zone: ZoneInfo, first: int, end: int
) -> Iterator[int]:
    for second in seconds_of_interval(member, first=first, end=end):
        offset = datetime.fromtimestamp(second, zone).utcoffset()
        assert offset is not None
        day, time = divmod((second + offset // _SECOND) // 60, MINUTES_OF_DAY)
        if (calendar is None or not is_off(calendar, day)) and not exclusions.excludes(day, time):
            yield second


def _local_minutes(
    expression: Expression, calendar: Calendar | None, exclusions: "_Exclusions", first: int, end: int
) -> Iterator[int]:
    """As `walk.local_minutes`."""
    if first >= end:
        return
    for day in _days(expression, calendar, first // MINUTES_OF_DAY, (end - 1) // MINUTES_OF_DAY):
        start = day * MINUTES_OF_DAY
        for time in exclusions.times(expression, day):
            found = start + time
            if found >= end:
                return
            if found >= first:
                yield found


def _days(expression: Expression, calendar: Calendar | None, first: int, last: int) -> Iterator[int]:
    """Days with fires, counted from 1970: first <= day <= last, ascending."""
    if calendar is None:
        yield from days_between(expression, first, last)
        return
    if calendar.on == "skip":
        yield from (day for day in days_between(expression, first, last) if not is_off(calendar, day))
        return
    # Fires of days before `first` may be moved to it, and of days after `last` too.
    before, behind = (MOST_MOVED_DAYS, 0) if calendar.on == "move-next" else (0, MOST_MOVED_DAYS)
    for begin in range(first, last + 1, _DAYS_AT_A_TIME):
        end = min(begin + _DAYS_AT_A_TIME - 1, last)
        moved = {working_day(calendar, day) for day in days_between(expression, begin - before, end + behind)}
        yield from sorted(day for day in moved if day is not None and begin <= day <= end)


class _Exclusions:
    """Excluded expressions. Days on which the same ones match have the same times left, which are computed once."""

    def __init__(self, excluding: tuple[Expression, ...]) -> None:
        self._excluding = excluding
        self._times = [
            frozenset(hour * 60 + minute for hour in each.hours for minute in each.minutes) for each in excluding
        ]
        self._matching: dict[int, tuple[int, ...]] = {}
        self._left: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}

    def times(self, expression: Expression, day: int) -> tuple[int, ...]:
        """Minutes of a day at which an expression fires if the day matches, ascending."""
        name = id(expression), self._on(day)
        left = self._left.get(name)
        if left is None:
            gone = frozenset[int]().union(*(self._times[each] for each in name[1]))
            own = (hour * 60 + minute for hour in expression.hours for minute in expression.minutes)
            left = self._left[name] = tuple(time for time in own if time not in gone)
        return left

    def excludes(self, day: int, time: int) -> bool:
        return any(time in self._times[each] for each in self._on(day))

    def _on(self, day: int) -> tuple[int, ...]:
        """Which expressions match a day."""
        if not self._excluding:
            return ()
        found = self._matching.get(day)
        if found is None:
            matching = (place for place, each in enumerate(self._excluding) if matches_day(each, day))
            found = self._matching[day] = tuple(matching)
        return found
