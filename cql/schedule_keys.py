"""Keys of schedules, with what each names."""

from cql.connection import Connection
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.schedule_keys import KeyHolder, KeyRow


class CqlScheduleKeyStore:
    """`domain.ports.ScheduleKeyStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, client_id: ClientId, key: str, *, serial: bool = True) -> KeyRow:
        for values in await self._connection.select("schedule_keys.read", (client_id, key), serial=serial):
            return KeyRow.stored(*values)
        return KeyRow()

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
        await self._connection.write("schedule_keys.go_ahead", parameters)
