"""Query parameters of lists, runs and bulk actions. Pure.

    size                       15 unless given, at most MAX_SIZE in one answer: the rest is behind the token
    start_time, end_time       2006-01-02 15:04:05 in the operator's zone, cut to the minute; one of them left out: an
                               hour from the other; both: the last hour
    continuation_token         hexadecimal, from the answer before
    continuation_start_time    Unix seconds, from the answer before; it counts where there is no token
    status                     see `statuses`

Parameters that are not known are ignored, and of repeated ones the first counts, as GoScheduler has it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from scheduler_service.api.goscheduler.envelope import INVALID, WireRefusal
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, MINUTE_MS, ScheduleId, UnixMillis
from scheduler_service.usecases.list_schedules import Position

DEFAULT_SIZE: Final = 15
MAX_SIZE: Final = 500
"""As our own lists."""
MAX_LISTED_DAYS: Final = 30
MAX_BULK_DAYS: Final = 7
_LAYOUT: Final = "%Y-%m-%d %H:%M:%S"
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})(?:[.,]\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F-]{32,64}")
_TOKEN = re.compile(r"(?:[0-9a-f]{2}){1,64}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQuery:
    """Dues in [start, end), Unix milliseconds, from `position` on; None: from the start."""

    start: UnixMillis
    end: UnixMillis
    size: int
    status: str
    position: Position | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsQuery:
    """`before`: runs with an earlier nominal instant; None: from the newest on. `when`: past, future or all."""

    size: int
    when: str
    before: UnixMillis | None


def read_list_query(query: Mapping[str, str], *, now: int, zone: ZoneInfo, longest_days: int) -> ListQuery:
    """Raises WireRefusal."""
    size = _size(query)
    start, end = _window(query, now=now, zone=zone)
    if end < start:
        raise WireRefusal(INVALID, "end_time must not be before start_time")
    if end - start > longest_days * DAY_MS:
        raise WireRefusal(INVALID, f"a time range of more than {longest_days} days is not allowed")
    if token := query.get("continuation_token", ""):
        position: Position | None = read_position(token)
    elif resumed := _integer(query.get("continuation_start_time", "")):
        position = Position(UnixMillis(max(resumed * 1000, start)))
    else:
        position = None
    return ListQuery(start=start, end=end, size=size, status=query.get("status", ""), position=position)


def read_runs_query(query: Mapping[str, str]) -> RunsQuery:
    """Raises WireRefusal."""
    token = query.get("continuation_token", "")
    before = None
    if token:
        text = _decoded(token)
        if not text.isdecimal():
            raise _bad_token(token)
        before = UnixMillis(int(text))
    return RunsQuery(size=_size(query), when=query.get("when", ""), before=before)


def read_schedule_id(text: str) -> UUID:
    """An id in a path, with or without dashes. Raises WireRefusal."""
    bare = text.replace("-", "")
    if _UUID.fullmatch(text) is None or len(bare) != 32:
        raise WireRefusal(INVALID, f"invalid UUID {text[:128]}")
    return UUID(bare)


def position_token(position: Position | None) -> str:
    if position is None:
        return ""
    named = "" if position.schedule_id is None else str(position.schedule_id)
    return f"{position.due}/{named}".encode().hex()


def read_position(token: str) -> Position:
    """Raises WireRefusal."""
    due, slash, named = _decoded(token).partition("/")
    if not due.isdecimal() or len(due) > 15 or not slash:
        raise _bad_token(token)
    try:
        return Position(UnixMillis(int(due)), ScheduleId(UUID(named)) if named else None)
    except ValueError:
        raise _bad_token(token) from None


def run_token(before: int | None) -> str:
    return "" if before is None else str(before).encode().hex()


def _decoded(token: str) -> str:
    if _TOKEN.fullmatch(token) is None:
        raise _bad_token(token)
    text = bytes.fromhex(token).decode("latin-1")
    if not text.isascii():
        raise _bad_token(token)
    return text


def _bad_token(token: str) -> WireRefusal:
    return WireRefusal(INVALID, f"Invalid page token: {token[:128]}")


def _size(query: Mapping[str, str]) -> int:
    text = query.get("size", "")
    if not text:
        return DEFAULT_SIZE
    size = _integer(text)
    if size is None:
        raise WireRefusal(INVALID, f"size must be an integer, not {text[:128]}")
    if size < 0:
        raise WireRefusal(INVALID, f"size must not be below 0, and is {size}")
    return min(size, MAX_SIZE)


def _integer(text: str) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) is not None else None


def _window(query: Mapping[str, str], *, now: int, zone: ZoneInfo) -> tuple[UnixMillis, UnixMillis]:
    begin, until = query.get("start_time", ""), query.get("end_time", "")
    faults: list[str] = []
    start = _instant("start_time", begin, zone, faults) if begin else None
    end = _instant("end_time", until, zone, faults) if until else None
    if faults:
        raise WireRefusal(INVALID, ", ".join(faults))
    if start is None and end is None:
        return UnixMillis(max(now - HOUR_MS, 0)), UnixMillis(now)
    if start is None:
        assert end is not None
        return UnixMillis(max(end - HOUR_MS, 0)), end
    return start, UnixMillis(start + HOUR_MS) if end is None else end


def _instant(name: str, text: str, zone: ZoneInfo, faults: list[str]) -> UnixMillis:
    form = _TIME.fullmatch(text)
    try:
        if form is not None:
            local = datetime.strptime(form[1], _LAYOUT).replace(tzinfo=zone)
            return UnixMillis(max(int(local.timestamp()) * 1000 // MINUTE_MS * MINUTE_MS, 0))
    except (ValueError, OverflowError):
        pass
    faults.append(f"{name} must be like 2006-01-02 15:04:05, and is {text[:64]}")
    return UnixMillis(0)
