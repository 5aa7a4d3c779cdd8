"""The instants of intervals and compounds. `domain.crons.walk` is told which local minutes match."""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge
from zoneinfo import ZoneInfo

from scheduler_service.domain.crons.calendars import MOST_MOVED_DAYS, DaysOff
from scheduler_service.domain.crons.compound import Compound
from scheduler_service.domain.crons.dst import Dst
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.interval import Interval
from scheduler_service.domain.crons.walk import MINUTES_OF_DAY, days_between, matches_day, seconds_of
from scheduler_service.domain.crons.zones import stretches

_DAYS_AT_A_TIME = 64
_NO_TIMES = 0
_ALL_TIMES = (1 << MINUTES_OF_DAY) - 1
"""Minutes of a day as bits: the first is minute 0. Ten unions of all minutes take 1 us so, and 400 us as sets."""


def seconds_of_interval(interval: Interval, *, first: int, end: int) -> Iterator[int]:
    """Fires with first <= second of UTC < end."""
    assert interval.anchor is not None
    step = interval.minutes * 60
    begin = interval.anchor + -(-(first - interval.anchor) // step) * step
    return iter(range(begin, end, step))


def seconds_of_compound(rule: Compound, zone: ZoneInfo, dst: Dst, *, first: int, end: int) -> Iterator[int]:
    """Fires with first <= second of UTC < end, each once, ascending, computed lazily."""
    exclusions = _Exclusions(rule.excluding)
    off = DaysOff(rule.calendar) if rule.calendar is not None else None
    streams = [_seconds_of_member(member, off, exclusions, zone, dst, first, end) for member in rule.members]
    before = None
    for second in merge(*streams):
        if second != before:
            before = second
            yield second


def _seconds_of_member(
    member: Expression | Interval,
    off: DaysOff | None,
    exclusions: "_Exclusions",
    zone: ZoneInfo,
    dst: Dst,
    first: int,
    end: int,
) -> Iterator[int]:
    if isinstance(member, Interval):
        return _kept(member, off, exclusions, zone, first, end)
    matching = partial(_local_minutes, member, off, exclusions)
    return seconds_of(matching, zone, dst, follows_real_time=member.follows_real_time, first=first, end=end)


def _kept(
    member: Interval, off: DaysOff | None, exclusions: "_Exclusions", zone: ZoneInfo, first: int, end: int
) -> Iterator[int]:
    today, gone = -1, _NO_TIMES
    for stretch in stretches(zone, first, end):
        for second in seconds_of_interval(member, first=max(stretch.start, first), end=min(stretch.end, end)):
            day, time = divmod((second + stretch.offset) // 60, MINUTES_OF_DAY)
            if day != today:
                today, gone = day, _ALL_TIMES if off is not None and day in off else exclusions.gone(day)
            if not gone >> time & 1:
                yield second


def _local_minutes(
    expression: Expression, off: DaysOff | None, exclusions: "_Exclusions", first: int, end: int
) -> Iterator[int]:
    """As `walk.local_minutes`."""
    if first >= end:
        return
    times_of = exclusions.times_left(expression)
    for day in _days(expression, off, first // MINUTES_OF_DAY, (end - 1) // MINUTES_OF_DAY):
        start = day * MINUTES_OF_DAY
        for time in times_of(day):
            found = start + time
            if found >= end:
                return
            if found >= first:
                yield found


def _days(expression: Expression, off: DaysOff | None, first: int, last: int) -> Iterator[int]:
    """Days with fires, counted from 1970: first <= day <= last, ascending."""
    if off is None:
        yield from days_between(expression, first, last)
        return
    if off.calendar.on == "skip":
        yield from (day for day in days_between(expression, first, last) if day not in off)
        return
    # Fires of days before `first` may be moved to it, and of days after `last` too.
    before, behind = (MOST_MOVED_DAYS, 0) if off.calendar.on == "move-next" else (0, MOST_MOVED_DAYS)
    for begin in range(first, last + 1, _DAYS_AT_A_TIME):
        end = min(begin + _DAYS_AT_A_TIME - 1, last)
        moved = {off.working_day(day) for day in days_between(expression, begin - before, end + behind)}
        yield from sorted(day for day in moved if day is not None and begin <= day <= end)


class _Exclusions:
    """Excluded expressions. Days on which the same ones match have the same times left, which are computed once."""

    def __init__(self, excluding: tuple[Expression, ...]) -> None:
        self._excluding = excluding
        self._times = [_times_of(each) for each in excluding]
        self._matching: dict[int, tuple[int, ...]] = {}
        """Which expressions match a day."""

    def times_left(self, expression: Expression) -> Callable[[int], tuple[int, ...]]:
        """What answers, for a day that matches, the minutes of that day at which the expression fires, ascending."""
        own = tuple(hour * 60 + minute for hour in expression.hours for minute in expression.minutes)
        all_own = _times_of(expression)
        left: dict[tuple[int, ...], tuple[int, ...]] = {(): own}

        def of_day(day: int) -> tuple[int, ...]:
            matching = self._on(day)
            found = left.get(matching)
            if found is None:
                kept = all_own & ~self.gone(day)
                found = left[matching] = tuple(time for time in own if kept >> time & 1) if kept else ()
            return found

        return of_day

    def gone(self, day: int) -> int:
        """Excluded minutes of a day, as bits."""
        found = _NO_TIMES
        for each in self._on(day):
            found |= self._times[each]
        return found

    def _on(self, day: int) -> tuple[int, ...]:
        if not self._excluding:
            return ()
        found = self._matching.get(day)
        if found is None:
            matching = (place for place, each in enumerate(self._excluding) if matches_day(each, day))
            found = self._matching[day] = tuple(matching)
        return found


def _times_of(expression: Expression) -> int:
    """The minutes of a day at which an expression fires, as bits."""
    minutes = sum(1 << minute for minute in expression.minutes)
    return sum(minutes << hour * 60 for hour in expression.hours)
