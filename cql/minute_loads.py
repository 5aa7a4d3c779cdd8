"""The table `minute_loads`."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from cql.connection import Connection, Item
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, MINUTES_PER_HOUR, ClientId, Hour, Minute
from scheduler_service.domain.minute_loads import LOADS_KEPT_MS, HourLoad, LoadCounts, Unwritten, days_of
from scheduler_service.runtime.concurrently import concurrently

LOADS: Final = Struct(f">{MINUTES_PER_HOUR}i")
_LEAST, _MOST = -(1 << 31), (1 << 31) - 1
_ROWS_PER_WRITE: Final = 50
"""About 15 KB."""


class CqlMinuteLoadStore:
    """`domain.ports.MinuteLoadStore` over a connection."""

    def __init__(self, connection: Connection, *, counts: LoadCounts) -> None:
        self.counts = counts
        self._connection = connection

    async def write(self, rows: Sequence[Unwritten], *, now: int) -> None:
        days: dict[tuple[ClientId, int], list[Item]] = {}
        for client_id, load, _ in rows:
            at = load.hour * HOUR_MS
            seconds = max((at + HOUR_MS + LOADS_KEPT_MS - now) // 1000, 1)
            packed = LOADS.pack(*(min(max(rows, _LEAST), _MOST) for rows in load.loads))
            item = ("minute_loads.write", (client_id, at - at % DAY_MS, at, load.writer, packed, seconds))
            days.setdefault((client_id, at // DAY_MS), []).append(item)
        requests = [
            items[start : start + _ROWS_PER_WRITE]
            for items in days.values()
            for start in range(0, len(items), _ROWS_PER_WRITE)
        ]
        await concurrently(self._connection.write_batch, requests)

    async def read(self, client_id: ClientId, *, first: Minute, last: Minute) -> Sequence[HourLoad]:
        answers = await concurrently(
            lambda hours: self._connection.select(
                "minute_loads.read",
                (client_id, hours[0] * HOUR_MS // DAY_MS * DAY_MS, hours[0] * HOUR_MS, hours[1] * HOUR_MS),
            ),
            days_of(first, last),
        )
        return [
            HourLoad(Hour(hour // HOUR_MS), writer, LOADS.unpack(packed))
            for rows in answers
            for hour, writer, packed in rows
        ]
