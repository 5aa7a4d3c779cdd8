"""Days off: public holidays of a country by the pinned `holidays` package, weekends, and dates of one's own.

As with zones, every node computes the same instants with the same release of the package. Another release may know
other holidays; what that means for a cron is what other zone data mean: fires that have a child keep it, later ones are
computed with the release of the node that expands the cron, within a day (`expansion.LONGEST_SLEEP_MS`). The child's
options name the release.

The package is imported when the first country is used, which takes 0.1 s of CPU once in a process. A year of days off
is computed once, in about 1 ms; a look-up takes half a microsecond.
"""

from datetime import date
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import version
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from scheduler_service.domain.crons.fields import quoted
from scheduler_service.domain.crons.walk import EPOCH
from scheduler_service.domain.errors import InvalidRule

MAX_DATES: Final = 366
MOST_MOVED_DAYS: Final = 31
"""A fire on a day off that has no working day within these is left out."""
_WEEKEND: Final = (5, 6)

OnDayOff = Literal["skip", "move-next", "move-previous"]


class Calendar(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which days are off, and what happens to their fires.

    `country` is an ISO 3166-1 code of two letters, `subdivision` what the package knows in it (ISO 3166-2 without the
    country, mostly). `dates` are ISO dates. `weekends`: those of the country, else Saturday and Sunday; working days
    that a country puts on a weekend are no days off."""

    country: str | None = None
    subdivision: str | None = None
    dates: Annotated[tuple[str, ...], Meta(max_length=MAX_DATES)] = ()
    weekends: bool = False
    on: OnDayOff = "skip"


def holidays_version() -> str:
    """The release of the package."""
    return version("holidays")


def checked(calendar: Calendar) -> Calendar:
    """The canonical form: dates sorted, each once. Raises InvalidRule with the first fault."""
    for fault in calendar_faults(calendar):
        raise fault
    return msgspec.structs.replace(calendar, dates=tuple(sorted(set(calendar.dates))))


def calendar_faults(calendar: Calendar) -> list[InvalidRule]:
    """All faults, for `calendar` or a field below it."""
    faults: list[InvalidRule] = []
    if calendar.country is not None:
        faults += _country_faults(calendar.country, calendar.subdivision)
    elif calendar.subdivision is not None:
        faults.append(InvalidRule("calendar/subdivision", "belongs to a country: name that too"))
    elif not calendar.dates and not calendar.weekends:
        faults.append(InvalidRule("calendar", "names no days off: give a country, dates or weekends"))
    if wrong := [text for text in calendar.dates if not _is_date(text)]:
        shown = ", ".join(quoted(text) for text in wrong[:3])
        faults.append(InvalidRule("calendar/dates", f"has what is no date from 1970 on, such as 2026-12-24: {shown}"))
    return faults


class DaysOff:
    """The days off of one calendar, loaded year by year as they are asked for. Days are counted from 1970."""

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        self._off: set[int] = set()
        self._first = self._end = 0
        """The days that are loaded: first <= day < end."""

    def __contains__(self, day: int) -> bool:
        if not self._first <= day < self._end:
            self._load(day)
        return day in self._off

    def working_day(self, day: int) -> int | None:
        """The day itself or, where it is off, the working day that its fires are moved to. None: there is none near."""
        if day not in self:
            return day
        step = 1 if self.calendar.on == "move-next" else -1
        near = range(day + step, day + step * (MOST_MOVED_DAYS + 1), step)
        return next((each for each in near if each not in self), None)

    def _load(self, day: int) -> None:
        """Add the years between what is loaded and a day, and the day's own."""
        year = date.fromordinal(EPOCH + day).year
        while not self._first <= day < self._end:
            at = year if self._first == self._end else self._next_year(day)
            first, end = date(at, 1, 1).toordinal() - EPOCH, date(at, 12, 31).toordinal() + 1 - EPOCH
            self._off |= _days_off(self.calendar, at)
            self._first, self._end = (
                (first, end) if self._first == self._end else (min(first, self._first), max(end, self._end))
            )

    def _next_year(self, day: int) -> int:
        return date.fromordinal(EPOCH + (self._end if day >= self._end else self._first - 1)).year


@lru_cache(maxsize=4096)
def _days_off(calendar: Calendar, year: int) -> frozenset[int]:
    days = range(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal() + 1)
    own = {date.fromisoformat(text).toordinal() for text in calendar.dates if text.startswith(f"{year:04d}-")}
    if calendar.country is not None:
        own |= _public_holidays(calendar.country, calendar.subdivision, calendar.weekends, year)
    elif calendar.weekends:
        own |= {day for day in days if date.fromordinal(day).weekday() in _WEEKEND}
    return frozenset(day - EPOCH for day in own)


@lru_cache(maxsize=4096)
def _public_holidays(country: str, subdivision: str | None, weekends: bool, year: int) -> frozenset[int]:
    from holidays import country_holidays

    known = country_holidays(country, subdiv=subdivision, years=year, expand=False)
    if not weekends:
        return frozenset(day.toordinal() for day in known)
    days = range(date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal() + 1)
    return frozenset(day for day in days if not known.is_working_day(date.fromordinal(day)))


@lru_cache(maxsize=1)
def _countries() -> dict[str, list[str]]:
    from holidays import list_supported_countries

    return list_supported_countries(include_aliases=False)


def _country_faults(country: str, subdivision: str | None) -> list[InvalidRule]:
    known = _countries().get(country)
    if known is None:
        near = get_close_matches(country[:8].upper(), _countries(), 3, 0.5)
        meant = f": did you mean {' or '.join(near)}?" if near else ""
        reason = f"{quoted(country)} is no country of two letters that holidays {holidays_version()} knows{meant}"
        return [InvalidRule("calendar/country", reason)]
    if subdivision is None or subdivision in known:
        return []
    choice = f"its subdivisions are {', '.join(known)}" if known else "it has none: leave this out"
    return [InvalidRule("calendar/subdivision", f"{quoted(subdivision)} is not known in {country}: {choice}")]


def _is_date(text: str) -> bool:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return False
    return day.isoformat() == text and day.toordinal() >= EPOCH
