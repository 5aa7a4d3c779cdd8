"""Which days of which clients are counted, and in which portions. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from spark.jobs.tenants import Tenant
from spark.window import Window

DAY_SECONDS = 86_400
RETENTION_MARGIN = 3_600
"""Seconds that a day must be short of its client's retention: it is read for a while."""


class Day(NamedTuple):
    """Of one client. `at`: its beginning, Unix seconds."""

    client_id: str
    at: int


class Stored(NamedTuple):
    complete: bool
    accepted: int


@dataclass(slots=True)
class Plan:
    """What is to be counted, and why the rest is not."""

    wanted: list[Day]
    complete: int = 0
    expired: int = 0


def oldest_whole_day(tenant: Tenant, now: datetime) -> int:
    """The first day that retention has left whole, and leaves so while it is read; Unix seconds."""
    left = seconds(now) + RETENTION_MARGIN - tenant.retention_days * DAY_SECONDS
    return -(-left // DAY_SECONDS) * DAY_SECONDS


def choose(
    plan: Plan,
    tenant: Tenant,
    span: Window,
    *,
    kept: int,
    stored: Mapping[Day, Stored],
    busy: set[Day],
    explicit: bool,
    again: bool,
) -> None:
    """Add the days of one client that are to be counted."""
    for at in range(seconds(span.start), seconds(span.end), DAY_SECONDS):
        one = Day(tenant.client_id, at)
        known = stored.get(one)
        if known is not None and known.complete and not again:
            plan.complete += 1
        elif at < kept:
            plan.expired += explicit
        elif one in busy or known is not None or at + DAY_SECONDS > tenant.created:
            plan.wanted.append(one)


def pieces(wanted: Iterable[Day], busy: set[Day]) -> list[list[Day]]:
    """What is counted at once: the days without rows together, then one day after the other."""
    idle: list[Day] = []
    by_day: dict[int, list[Day]] = {}
    for one in wanted:
        (by_day.setdefault(one.at, []) if one in busy else idle).append(one)
    return [some for some in (idle, *(by_day[at] for at in sorted(by_day))) if some]


def seconds(instant: datetime) -> int:
    """Unix seconds."""
    return int(instant.timestamp())
