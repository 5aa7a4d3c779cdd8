"""A client's usage by day and hour of the due: counted from the rows by Spark, shown by the API.

A day is *complete* when every poller of its client is settled past its end and none of its schedules is open: then only
an explicit redelivery can change it.
"""

import msgspec

from scheduler_service.domain.ids import ClientId, UnixMillis


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """Schedules by outcome (accepted = delivered + failed + cancelled + skipped + open), attempts made for them, bytes
    of their bodies, and the lateness of first attempts in milliseconds, null if there was none."""

    accepted: int = 0
    delivered: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    open: int = 0
    attempts: int = 0
    bytes: int = 0
    lateness_p50_ms: int | None = None
    lateness_p95_ms: int | None = None
    lateness_p99_ms: int | None = None
    lateness_max_ms: int | None = None


class HourUsage(Used, frozen=True, kw_only=True):
    """Of one hour of a day, 0 to 23 in UTC."""

    hour: int


class FailingHost(msgspec.Struct, frozen=True, kw_only=True):
    """How many schedules of a day failed at a receiver's host; `destination:NAME` for calls to a destination."""

    host: str
    failed: int


class DayUsage(Used, frozen=True, kw_only=True):
    """Of one UTC day, which begins at `day`. `failing_hosts`: those where most failed, worst first. `hours`: those that
    have schedules, in order. Counted at `counted_at`."""

    client_id: ClientId
    day: UnixMillis
    complete: bool
    counted_at: UnixMillis
    failing_hosts: tuple[FailingHost, ...] = ()
    hours: tuple[HourUsage, ...] = ()
