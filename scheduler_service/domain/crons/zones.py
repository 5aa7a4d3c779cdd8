"""Zones of the pinned `tzdata` package, and their clocks as stretches of constant offset from UTC."""

import struct
from bisect import bisect_left
from calendar import isleap
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from importlib.resources import files
from io import BytesIO
from typing import NamedTuple
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

from scheduler_service.domain.errors import InvalidRule

_LONGEST_NAME = 64
_NO_PLACE = "Factory"
"""A placeholder in the database, not a zone."""

_DAY = 86_400
_SECOND = timedelta(seconds=1)
_LONGEST_FOLD = 2 * _DAY
"""No clock ever went back by more: offsets are within 16 hours of UTC."""
_RULED_BY = 4000
"""From this year on every zone follows its rule."""
_COUNTS = struct.Struct(">20x6l")
"""The counts in the header of a zone's file."""

_named: WeakKeyDictionary[ZoneInfo, tuple[int, ...]] = WeakKeyDictionary()
"""The instants listed in the files of loaded zones."""


class Stretch(NamedTuple):
    """Local time is UTC + `offset` for `start` <= UTC < `end`. All in seconds."""

    start: int
    end: int
    offset: int
    reached: int
    """The highest local time (exclusive) that the clock had reached or jumped past before `start`."""


def tzdata_version() -> str:
    """The release of the IANA database that all instants are computed from, such as `2026f`."""
    return str(tzdata.IANA_VERSION)


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """All valid names."""
    names = files("tzdata").joinpath("zones").read_text("ascii").split()
    return frozenset(names) - {_NO_PLACE}


@lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo:
    """The zone of that IANA name. Raises InvalidRule for the field `timezone`, with similar names."""
    if name not in zone_names():
        raise InvalidRule("timezone", _unknown(name))
    return read_zone(files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes(), name)


def read_zone(data: bytes, name: str) -> ZoneInfo:
    """The zone in a file of any release. Raises ValueError where it is none, or of the form before 2005."""
    try:
        zone = ZoneInfo.from_file(BytesIO(data), key=name)
        if data[4:5] < b"2":
            raise ValueError("its form is older than version 2")
        _named[zone] = _named_changes(data)
    except (ValueError, IndexError, struct.error) as error:
        raise ValueError(f"{name} is no zone of a compiled database: {error}") from error
    return zone


def _unknown(name: str) -> str:
    if not name:
        return "give a time zone, such as Europe/Berlin or UTC"
    if len(name) > _LONGEST_NAME:
        return "is longer than any name of a time zone; names are like Europe/Berlin or UTC"
    wanted = name.lower().replace(" ", "_")
    folded = {known.lower(): known for known in sorted(zone_names())}
    cities = {known.rpartition("/")[2]: known for known in folded if "/" in known}
    near = [wanted] if wanted in folded else [cities[each] for each in get_close_matches(wanted, cities, 1, 0.85)]
    if not near:
        near = get_close_matches(wanted, folded, 3, 0.75)
    if not near:
        return f"{name!r} is no name of the IANA time zone database; names are like Europe/Berlin or UTC"
    meant = " or ".join(folded[each] for each in near)
    return f"{name!r} is no name of the IANA time zone database: did you mean {meant}?"


def stretches(zone: ZoneInfo, first: int, end: int) -> Iterator[Stretch]:
    """The stretches that cover first <= UTC < end (seconds), in order; they may begin before and end after.

    They are also cut at the ends of years, so that only the years in use are computed.
    """
    start = first - _LONGEST_FOLD
    offset = _offset(zone, start)
    reached = start + offset
    year = datetime.fromtimestamp(start, UTC).year
    while start < end:
        for change, following in (*_changes(zone, year), (_year_start(year + 1), None)):
            if change <= start:
                continue
            if start < end and change > first:
                yield Stretch(start, change, offset, reached)
            reached = max(reached, change + offset)
            start, offset = change, offset if following is None else following
        year += 1


@lru_cache(maxsize=16_384)
def _changes(zone: ZoneInfo, year: int) -> tuple[tuple[int, int], ...]:
    """The instants in a UTC year at which the offset changes (seconds), each with the new offset.

    A zone's file lists the changes up to some year, and has a rule of month, week and day for all later years, which is
    the same for years that begin on the same weekday and are equally long. A zone that was not loaded here is searched
    year by year.
    """
    named = _named.get(zone)
    if named is None:
        return _searched_changes(zone, year)
    start, end = _year_start(year), _year_start(year + 1)
    if named and end <= named[-1]:
        instants = named[bisect_left(named, start) : bisect_left(named, end)]
        return tuple((at, offset) for at in instants if (offset := _offset(zone, at)) != _offset(zone, at - 1))
    if named and start <= named[-1]:
        return _searched_changes(zone, year)
    return tuple((start + at, offset) for at, offset in _changes_by_rule(zone, *_kind_of(year)))


def _named_changes(data: bytes) -> tuple[int, ...]:
    """The instants that a zone's file lists, ascending (RFC 9636, section 3). Not all of them change the offset."""
    # There are two blocks of the same form; skip the first, which has 4-byte instants for old readers.
    isutcnt, isstdcnt, leapcnt, timecnt, typecnt, charcnt = _COUNTS.unpack_from(data)
    second = _COUNTS.size + 5 * timecnt + 6 * typecnt + charcnt + 8 * leapcnt + isstdcnt + isutcnt
    timecnt = _COUNTS.unpack_from(data, second)[3]
    return struct.unpack_from(f">{timecnt}q", data, second + _COUNTS.size)


@lru_cache(maxsize=16_384)
def _changes_by_rule(zone: ZoneInfo, weekday: int, leap: bool) -> tuple[tuple[int, int], ...]:
    """The changes in a year of this kind, in seconds from its beginning."""
    year = _year_of_kind()[weekday, leap]
    return tuple((at - _year_start(year), offset) for at, offset in _searched_changes(zone, year))


def _kind_of(year: int) -> tuple[int, bool]:
    return date(year, 1, 1).weekday(), isleap(year)


@lru_cache(maxsize=1)
def _year_of_kind() -> dict[tuple[int, bool], int]:
    """A year of each kind; 400 years have all 14."""
    return {_kind_of(year): year for year in range(_RULED_BY, _RULED_BY + 400)}


def _searched_changes(zone: ZoneInfo, year: int) -> tuple[tuple[int, int], ...]:
    """Probes one instant a day and bisects where the offset differs. A change that is reversed within a day would be
    missed; the database has none."""
    found: list[tuple[int, int]] = []
    end = _year_start(year + 1)
    before = _year_start(year) - 1
    offset = _offset(zone, before)
    while before < end - 1:
        probe = min(before + _DAY, end - 1)
        while (probed := _offset(zone, probe)) != offset:
            before, after = before, probe
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if _offset(zone, middle) == offset else (before, middle)
            offset = _offset(zone, after)
            found.append((after, offset))
            before = after
            if offset == probed:
                break
        before = probe
    return tuple(found)


@lru_cache(maxsize=256)
def _year_start(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())


def _offset(zone: ZoneInfo, instant: int) -> int:
    offset = datetime.fromtimestamp(instant, zone).utcoffset()
    assert offset is not None
    return offset // _SECOND
