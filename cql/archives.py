"""The table `archived_days`."""

from collections.abc import Sequence

from cql.connection import Connection, Parameters, without_rows
from membership.conditional import Answer
from scheduler_service.domain.archives import ArchivedDay, RunId
from scheduler_service.domain.ids import ClientId, UnixMillis

_COLUMNS = ArchivedDay.__struct_fields__


class CqlArchiveStore:
    """`domain.archives.ArchiveStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[ArchivedDay]:
        rows = await self._connection.select("archived_days.read", (client_id, first, last))
        return [ArchivedDay(**dict(zip(_COLUMNS, values, strict=True))) for values in rows]

    async def read_run(self, client_id: ClientId) -> RunId | None:
        for _, run in await self._connection.select("archived_days.run", (client_id,), serial=True):
            return RunId(int=run.int) if run is not None else None
        return None

    async def take(self, client_id: ClientId, run: RunId | None, *, expected: RunId | None) -> Answer[None]:
        return await self._write("archived_days.take", (run, client_id, expected))

    async def mark(self, day: ArchivedDay, *, run: RunId) -> Answer[None]:
        values = (day.as_of, day.rows, day.digest, day.place, day.past_retention, day.stale)
        return await self._write("archived_days.mark", (*values, day.client_id, day.day, run))

    async def mark_stale(self, day: ArchivedDay) -> Answer[None]:
        return await self._write("archived_days.mark_stale", (day.client_id, day.day, day.as_of))

    async def _write(self, name: str, parameters: Parameters) -> Answer[None]:
        return without_rows(await self._connection.conditional(((name, parameters),)))
