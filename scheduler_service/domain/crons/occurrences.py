"""The instants at which a rule fires in a zone: those of an expression (`walk`), an interval, or a compound of them."""

from collections.abc import Iterator
from functools import partial
from itertools import islice
from zoneinfo import ZoneInfo

from scheduler_service.domain.crons.compound import Compound, Recurrence
from scheduler_service.domain.crons.compound_walk import seconds_of_compound, seconds_of_interval
from scheduler_service.domain.crons.dst import DEFAULT_DST, Dst
from scheduler_service.domain.crons.expression import Expression
from scheduler_service.domain.crons.walk import LAST_SECOND, local_minutes, seconds_of
from scheduler_service.domain.ids import DAY_MS, UnixMillis

SEARCHED_MS = 5 * 366 * DAY_MS
"""The search for a next fire ends after this: five years."""


def fires(rule: Recurrence, zone: ZoneInfo, dst: Dst = DEFAULT_DST, *, after: int, until: int) -> Iterator[UnixMillis]:
    """Nominal instants in (after, until], each once, ascending, computed lazily. Intervals have an anchor."""
    first = max(after // 1000 + 1, 0)
    end = min(until // 1000, LAST_SECOND) + 1
    if first >= end:
        return
    for second in _seconds(rule, zone, dst, first, end):
        yield UnixMillis(second * 1000)


def _seconds(rule: Recurrence, zone: ZoneInfo, dst: Dst, first: int, end: int) -> Iterator[int]:
    if isinstance(rule, Expression):
        matching, real = partial(local_minutes, rule), rule.follows_real_time
        return seconds_of(matching, zone, dst, follows_real_time=real, first=first, end=end)
    if isinstance(rule, Compound):
        return seconds_of_compound(rule, zone, dst, first=first, end=end)
    return seconds_of_interval(rule, first=first, end=end)


def first_fire(
    rule: Recurrence, zone: ZoneInfo, dst: Dst = DEFAULT_DST, *, after: int, until: int | None = None
) -> UnixMillis | None:
    """The first one in (after, until]; None if there is none, or none within five years."""
    limit = after + SEARCHED_MS if until is None else min(until, after + SEARCHED_MS)
    return next(fires(rule, zone, dst, after=after, until=limit), None)


def next_fires(
    rule: Recurrence, zone: ZoneInfo, dst: Dst = DEFAULT_DST, *, after: int, count: int, until: int | None = None
) -> list[UnixMillis]:
    """The first `count` in (after, until]; fewer if the next one is more than five years after the one before or, for
    a compound, after `after`: each of its days is looked at by itself."""
    if isinstance(rule, Compound):
        limit = after + SEARCHED_MS if until is None else min(until, after + SEARCHED_MS)
        return list(islice(fires(rule, zone, dst, after=after, until=limit), count))
    found: list[UnixMillis] = []
    while len(found) < count:
        begin = found[-1] if found else after
        limit = begin + SEARCHED_MS if until is None else min(until, begin + SEARCHED_MS)
        more = list(islice(fires(rule, zone, dst, after=begin, until=limit), count - len(found)))
        if not more:
            break
        found += more
    return found
