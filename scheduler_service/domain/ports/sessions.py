"""The store of the console's sessions."""

from collections.abc import Sequence
from typing import Protocol

from scheduler_service.domain.sessions import Session


class SessionStore(Protocol):
    """Sessions by the hash of their token. The store forgets them some time after they have expired."""

    async def insert_session(self, session: Session) -> None: ...

    async def read_session(self, token_hash: bytes) -> Session | None:
        """An expired one may still be returned."""

    async def list_sessions(self) -> Sequence[Session]:
        """All that this version can judge, of which some may have expired. It reads the whole table."""

    async def delete_session(self, token_hash: bytes) -> None:
        """Repeatable."""
