"""A month of fires as a calendar: weeks of days, each with what fires then. Pure."""

from calendar import Calendar
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple

LONGEST_DAYS = 31
"""Of a window of runs. A month in which clocks go back is an hour longer, and its last hour is left out."""
FIRST_YEAR, LAST_YEAR = 1970, 9998
"""Of the instants that fires have. Their months have neighbours that are dates, too."""


class Fire(NamedTuple):
    """`text`: what stands beside its time; None: nothing. `link`: its page."""

    at: datetime
    state: str
    link: str | None
    text: str | None = None


class Day(NamedTuple):
    """`within`: of the month itself. `more`: fires that are not among `fires`."""

    date: date
    within: bool
    today: bool
    fires: list[Fire]
    more: int


class Month(NamedTuple):
    """`title`: such as November 2026. `before`, `after`: the neighbours, as they are in an address."""

    title: str
    before: str
    after: str
    weeks: list[list[Day]]


def first_of(text: str | None, today: date) -> date:
    """The first day of a month in an address, such as 2026-11; this month, where that is none or has no fires."""
    try:
        first = datetime.strptime(text or "", "%Y-%m").replace(tzinfo=UTC).date()
    except ValueError:
        return today.replace(day=1)
    return first if FIRST_YEAR <= first.year <= LAST_YEAR else today.replace(day=1)


def next_first(first: date) -> date:
    return (first + timedelta(days=32)).replace(day=1)


def window_of(first: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """Start (inclusive) and end (exclusive) of the month, as its zone counts days."""
    after = next_first(first)
    start = datetime(first.year, first.month, 1, tzinfo=zone).astimezone(UTC)
    end = datetime(after.year, after.month, 1, tzinfo=zone).astimezone(UTC)
    return start, min(end, start + timedelta(days=LONGEST_DAYS))


def month_of(first: date, fires: Iterable[Fire], *, zone: tzinfo, today: date, most: int = 3) -> Month:
    """`most`: fires that a day shows one by one."""
    by_day: defaultdict[date, list[Fire]] = defaultdict(list)
    for fire in sorted(fires, key=lambda one: one.at):
        local = fire._replace(at=fire.at.astimezone(zone))
        by_day[local.at.date()].append(local)
    weeks = [
        [
            Day(day, day.month == first.month, day == today, by_day[day][:most], max(len(by_day[day]) - most, 0))
            for day in week
        ]
        for week in Calendar().monthdatescalendar(first.year, first.month)
    ]
    before = (first - timedelta(days=1)).replace(day=1)
    return Month(f"{first:%B %Y}", f"{before:%Y-%m}", f"{next_first(first):%Y-%m}", weeks)
