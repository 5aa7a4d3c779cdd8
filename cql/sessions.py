"""The table `console_sessions`."""

from collections.abc import Sequence

import msgspec

from cql.connection import Connection
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.sessions import Owner, Session

_decode = msgspec.json.Decoder(Owner).decode


class CqlSessionStore:
    """`domain.ports.SessionStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def insert_session(self, session: Session) -> None:
        seconds = max(-((session.created_at - session.expires_at) // 1000), 1)
        owner = msgspec.json.encode(session.owner).decode()
        values = (session.token_hash, owner, session.created_at, session.expires_at, seconds)
        await self._connection.write("console_sessions.insert", values)

    async def read_session(self, token_hash: bytes) -> Session | None:
        for row in await self._connection.select("console_sessions.read", (token_hash,)):
            return _session(token_hash, *row)
        return None

    async def list_sessions(self) -> Sequence[Session]:
        rows = await self._connection.select("console_sessions.list", ())
        return [session for row in rows if (session := _session(*row)) is not None]

    async def delete_session(self, token_hash: bytes) -> None:
        await self._connection.write("console_sessions.delete", (token_hash,))


def _session(token_hash: bytes, owner: str | None, created_at: int, expires_at: int) -> Session | None:
    """None: a later version began it in a way that this one can't judge."""
    try:
        return Session(token_hash, _decode(owner or ""), UnixMillis(created_at), UnixMillis(expires_at))
    except msgspec.DecodeError:
        return None
