"""Keys of schedules, with what each names."""

from collections.abc import Hashable, Sequence

from cql.connection import Connection, Item
from cql.gathering import Gathering
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedule_keys import KeyHolder, KeyRow
from scheduler_service.runtime.lifecycle import Tasks

KEYS_PER_REQUEST = 40
"""Each is a partition of its own."""


class CqlScheduleKeyStore:
    """`domain.ports.ScheduleKeyStore` over a connection. `tasks` runs the requests that several callers share: plain
    reads of keys of one client, and plain writes, that the same servers hold."""

    def __init__(self, connection: Connection, *, tasks: Tasks) -> None:
        self._connection = connection
        self._reads = Gathering(self._read_some, tasks=tasks, most=KEYS_PER_REQUEST)
        self._writes = Gathering(self._write_some, tasks=tasks, most=KEYS_PER_REQUEST)

    async def read(self, client_id: ClientId, key: str, *, serial: bool = True) -> KeyRow:
        if serial:
            return await self._read_one(client_id, key, serial=True)
        servers = self._connection.replicas("schedule_keys.read", (client_id, key))
        return await self._reads.ask((client_id, servers), key)

    async def _read_one(self, client_id: ClientId, key: str, *, serial: bool) -> KeyRow:
        for values in await self._connection.select("schedule_keys.read", (client_id, key), serial=serial):
            return KeyRow.stored(*values)
        return KeyRow()

    async def _read_some(self, place: tuple[ClientId, Hashable], keys: Sequence[str]) -> Sequence[KeyRow]:
        client_id, _ = place
        wanted = list(dict.fromkeys(keys))
        if len(wanted) == 1:
            return [await self._read_one(client_id, wanted[0], serial=False)] * len(keys)
        rows = await self._connection.select("schedule_keys.read_some", (client_id, wanted))
        found = {key: KeyRow.stored(*values) for key, *values in rows}
        return [found.get(key, KeyRow()) for key in keys]

    async def take(
        self, client_id: ClientId, key: str, holder: KeyHolder, *, expected_revision: int | None, kept_seconds: int
    ) -> Answer[KeyHolder | None]:
        parameters = (kept_seconds, holder.schedule_id, holder.revision, client_id, key, expected_revision)
        match await self._connection.conditional((("schedule_keys.take", parameters),)):
            case Applied() | Unknown() as answer:
                return answer
            case Rejected():
                try:
                    return Rejected((await self.read(client_id, key)).taken)
                except StoreUnavailable as error:
                    return Unknown(str(error))

    async def go_ahead(self, client_id: ClientId, key: str, holder: KeyHolder, *, base: int, kept_seconds: int) -> None:
        # Instants in microseconds, as every timestamp: revisions are no lower than the clock was.
        parameters = (kept_seconds, holder.revision * 1000, holder.schedule_id, base, client_id, key)
        item: Item = ("schedule_keys.go_ahead", parameters)
        await self._writes.ask(self._connection.replicas(*item), item)

    async def _write_some(self, _: Hashable, items: Sequence[Item]) -> Sequence[None]:
        await self._connection.write_batch(items)
        return [None] * len(items)
