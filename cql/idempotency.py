"""Idempotency keys, with what was begun under each."""

from uuid import UUID

from cql.connection import Connection
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.idempotency import Kept
from scheduler_service.domain.ids import ClientId

_ID_BYTES = 16


class CqlIdempotencyStore:
    """`domain.ports.IdempotencyStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def keep(self, client_id: ClientId, key: str, kept: Kept) -> Answer[Kept]:
        ids = b"".join(id_.bytes for id_ in kept.ids)
        parameters = (client_id, key, kept.fingerprint, ids, kept.created_at)
        match await self._connection.conditional((("idempotency_keys.keep", parameters),)):
            case Applied() | Unknown() as answer:
                return answer
            case Rejected():
                return await self._met(client_id, key)

    async def read(self, client_id: ClientId, key: str) -> Kept | None:
        for values in await self._connection.select("idempotency_keys.read", (client_id, key), serial=True):
            fingerprint, ids, created_at = values
            starts = range(0, len(ids), _ID_BYTES)
            return Kept(
                fingerprint=fingerprint,
                ids=tuple(UUID(bytes=ids[start : start + _ID_BYTES]) for start in starts),
                created_at=created_at,
            )
        return None

    async def _met(self, client_id: ClientId, key: str) -> Answer[Kept]:
        try:
            kept = await self.read(client_id, key)
        except StoreUnavailable as error:
            return Unknown(str(error))
        return Unknown("the entry of the key was deleted meanwhile") if kept is None else Rejected(kept)
