"""What clients used, as it was counted."""

from collections.abc import Sequence
from typing import Any

import msgspec

from cql.connection import Connection
from cql.cron_rows import months
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.usage import DayUsage, FailingHost, HourUsage, Used
from scheduler_service.runtime.concurrently import concurrently

_COLUMNS = ("client_id", "day", "complete", "counted_at", "failing_hosts", "hours", *Used.__struct_fields__)
_hosts = msgspec.json.Decoder(tuple[FailingHost, ...]).decode
_hours = msgspec.json.Decoder(tuple[HourUsage, ...]).decode


class CqlUsageStore:
    """`domain.ports.UsageStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[DayUsage]:
        answers = await concurrently(
            lambda month: self._connection.select("usage_by_day.read", (client_id, month, first, last)),
            months(first, last),
        )
        return [_day(values) for rows in answers for values in rows]


def _day(values: tuple[Any, ...]) -> DayUsage:
    found = dict(zip(_COLUMNS, values, strict=True))
    hosts, hours = _hosts(found.pop("failing_hosts") or "[]"), _hours(found.pop("hours") or "[]")
    return DayUsage(failing_hosts=hosts, hours=hours, **found)
