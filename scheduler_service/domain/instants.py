"""Instants as text: RFC 3339 with an offset in, UTC with milliseconds out (`2026-11-21T09:30:00.250Z`)."""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.ids import DAY_MS, MINUTE_MS, UnixMillis

_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,32}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_USUAL = len("2026-11-21T09:30:15.250Z")
LAST_INSTANT = 253_370_764_799_999
"""9998-12-31T23:59:59.999Z: fires of rules are computed no further."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)


def parse_instant(text: str) -> UnixMillis:
    """The instant that an RFC 3339 text names, rounded up to the next millisecond so that nothing is ever early.

    Raises ValueError, with a sentence for the author of the text. Leap seconds (`:60`) are refused: no clock here shows
    them.
    """
    # Fast path for the format of `format_instant`: the minute comes from a cache.
    if len(text) == _USUAL and text[19] == "." and text[23] == "Z" and (rest := text[17:19] + text[20:23]).isdecimal():
        minute, within = _minute_ms(text[:17]), int(rest)
        if minute is not None and within < MINUTE_MS and rest.isascii():
            return UnixMillis(minute + within)
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError("must be an RFC 3339 instant with an offset, such as 2026-11-21T09:30:15Z")
    day, time, fraction, sign, hours, minutes = form.groups()
    zone = UTC
    try:
        if sign is not None:
            if int(hours) > 23 or int(minutes) > 59:
                raise ValueError
            offset = timedelta(hours=int(hours), minutes=int(minutes))
            zone = timezone(offset if sign == "+" else -offset)
        whole = datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=zone)
    except ValueError:
        raise ValueError(f"{text!r} is no instant of the calendar") from None
    milliseconds = 0 if fraction is None else -(-int(fraction) * 1000 // 10 ** len(fraction))
    return UnixMillis((whole - _EPOCH) // _SECOND * 1000 + milliseconds)


@lru_cache(maxsize=4096)
def _minute_ms(text: str) -> int | None:
    """The instant of a text like `2026-11-21T09:30:`, in UTC. None if it has another form or is not in the calendar."""
    try:
        return parse_instant(f"{text}00Z")
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _minute_text(minute: int) -> str:
    return (_EPOCH + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:")


@lru_cache(maxsize=4096)
def format_instant(instant: int) -> str:
    """RFC 3339 in UTC with milliseconds. For years 1 to 9999, which all stored instants are in."""
    minute, rest = divmod(instant, MINUTE_MS)
    return f"{_minute_text(minute)}{rest // 1000:02d}.{rest % 1000:03d}Z"


def read_instant(text: str | None, pointer: str, faults: list[FieldError]) -> UnixMillis | None:
    """The instant of a request's field; None where it is left out, or wrong and added to the faults."""
    if text is None:
        return None
    try:
        instant = parse_instant(text)
    except ValueError as error:
        faults.append(FieldError(pointer, str(error)))
        return None
    if not 0 <= instant <= LAST_INSTANT:
        faults.append(FieldError(pointer, "must be from 1970 to the end of the year 9998"))
        return None
    return instant


def window_faults(start: int, end: int, *, longest_days: int | None) -> list[FieldError]:
    """Faults of the `from` and `to` of a request, in Unix milliseconds. `longest_days` None: any length."""
    if not start < end:
        return [FieldError("/to", "must be after from")]
    if longest_days is not None and end - start > longest_days * DAY_MS:
        longest = "24 hours" if longest_days == 1 else f"{longest_days} days"
        return [FieldError("/to", f"is more than {longest} after from; choose a shorter window")]
    return []


def format_instant_or_none(value: int | None) -> str | None:
    return None if value is None else format_instant(value)
