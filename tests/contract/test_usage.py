"""Usage by day is read over months, in whole days and in order."""

from typing import Any

import pytest

from cql.storage import Storage
from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.domain.usage import DayUsage, FailingHost, HourUsage
from tests.contract.conftest import Names
from tests.support.usage import put_usage

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY = 1_795_219_200_000
"""2026-11-21."""


def usage(client_id: ClientId, *, days: int = 0, **other: Any) -> DayUsage:
    at = UnixMillis(DAY + days * DAY_MS)
    return DayUsage(client_id=client_id, day=at, **{"complete": True, "counted_at": UnixMillis(DAY + 5), **other})


async def test_a_day_is_read_as_it_was_counted(storage: Storage, names: Names) -> None:
    client = names.client()
    counts = {"accepted": 1 << 40, "delivered": 7, "failed": 3, "cancelled": 1, "skipped": 2, "open": 4}
    late = {"lateness_p50_ms": 0, "lateness_p95_ms": 20, "lateness_p99_ms": 300, "lateness_max_ms": 1 << 40}
    hours = (HourUsage(hour=0, accepted=1), HourUsage(hour=23, **counts, **late, attempts=9, bytes=1 << 41))
    hosts = (FailingHost(host="its.example", failed=2), FailingHost(host="[::1]", failed=1))
    full = usage(client, **counts, **late, attempts=12, bytes=1 << 42, hours=hours, failing_hosts=hosts, complete=False)
    for one in (usage(client), full):
        await put_usage(storage.connection, one)
        assert await storage.usage.read(client, first=one.day, last=one.day) == [one]


async def test_days_of_a_span(storage: Storage, names: Names) -> None:
    client = names.client()
    wanted = [usage(client, days=offset) for offset in (-21, -20, 0, 9, 10, 41)]
    for one in [*reversed(wanted), usage(client, days=-22), usage(client, days=42), usage(names.client("other"))]:
        await put_usage(storage.connection, one)
    assert await storage.usage.read(client, first=wanted[0].day, last=wanted[-1].day) == wanted
    assert await storage.usage.read(client, first=wanted[1].day, last=wanted[0].day) == []
    assert await storage.usage.read(names.client("nobody"), first=wanted[0].day, last=wanted[-1].day) == []
