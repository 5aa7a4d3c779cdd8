"""What a client used. Instants are aware datetimes, days are dates in UTC."""

from datetime import date, datetime

import msgspec

from minutehand.client._calls import Operation, client_path, given
from minutehand.client._models import Page


class UsedLateness(msgspec.Struct, frozen=True, kw_only=True):
    """Lateness of the first attempts."""

    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    max_seconds: float


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """accepted = delivered + failed + cancelled + skipped + open. `attempts`: those made for them; `bytes`: of their
    bodies."""

    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int
    attempts: int
    bytes: int
    lateness: UsedLateness | None = None


class HourUsage(Used, frozen=True, kw_only=True):
    """The schedules due in one hour."""

    hour: datetime


class FailingHost(msgspec.Struct, frozen=True, kw_only=True):
    """How many schedules of a day failed at a receiver's host; `destination:NAME` for calls to a destination."""

    host: str
    failed: int


class DayUsage(Used, frozen=True, kw_only=True):
    """The schedules due on one day, as of `counted_at`. `complete`: only a redelivery can still change it. Hours
    without schedules are left out."""

    day: date
    complete: bool
    counted_at: datetime
    failing_hosts: tuple[FailingHost, ...] = ()
    hours: tuple[HourUsage, ...] = ()


def list_usage(client_id: str, *, start: date | str | None, end: date | str | None) -> Operation[Page[DayUsage]]:
    query = given({"from": _day(start), "to": _day(end)})
    return Operation(method="GET", path=f"{client_path(client_id)}/usage", answer=Page[DayUsage], query=query)


def _day(value: date | str | None) -> str | None:
    if isinstance(value, datetime):
        raise ValueError("give a date, such as datetime.now(UTC).date()")
    return value.isoformat() if isinstance(value, date) else value
