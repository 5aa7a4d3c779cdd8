"""Bulk loads as they were begun."""

from cql.connection import Connection
from membership.conditional import Answer, Applied, Rejected, Unknown
from scheduler_service.domain.bulk_loads import BulkLoad, BulkState
from scheduler_service.domain.ids import ClientId, UnixMillis


class CqlBulkLoadStore:
    """By client and name. For the job alone: no use case reads them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self, load: BulkLoad) -> Answer[BulkLoad]:
        """Insert it if it was never begun. Rejected(as it was begun, and how far its last run came)."""
        parameters = (load.client_id, load.load_id, load.key_column, load.lanes, load.started_at)
        match await self._connection.conditional((("bulk_loads.begin", parameters),)):
            case Applied() as answer:
                await self.note(load.client_id, load.load_id, state=load.state, at=load.state_at)
                return answer
            case Unknown() as answer:
                return answer
            case Rejected():
                met = await self.read(load.client_id, load.load_id)
                return Unknown("the load is not to be read") if met is None else Rejected(met)

    async def note(self, client_id: ClientId, load_id: str, *, state: BulkState, at: UnixMillis) -> None:
        """How far a run of a load that was begun came; the last one counts. Raises StoreUnavailable."""
        await self._connection.write("bulk_loads.note", (state.value, at, client_id, load_id))

    async def read(self, client_id: ClientId, load_id: str) -> BulkLoad | None:
        """Serial. None: it was never begun. Raises StoreUnavailable."""
        rows = await self._connection.select("bulk_loads.read", (client_id, load_id), serial=True)
        for key_column, lanes, started_at, state, state_at in rows:
            if started_at is None:
                return None
            return BulkLoad(
                client_id=client_id,
                load_id=load_id,
                key_column=key_column,
                lanes=lanes,
                started_at=started_at,
                state=BulkState(state or BulkState.RUNNING),
                state_at=state_at or started_at,
            )
        return None
