"""The store of idempotency keys."""

from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.idempotency import Kept
from scheduler_service.domain.ids import (
    ClientId,
)


class IdempotencyStore(Protocol):
    """What was begun under idempotency keys. Kept 24 hours; afterwards a key can be used again."""

    async def keep(self, client_id: ClientId, key: str, kept: Kept) -> Answer[Kept]:
        """Insert if nothing is kept under this key; otherwise Rejected(the kept value)."""

    async def read(self, client_id: ClientId, key: str) -> Kept | None:
        """Serial: sees whatever was kept before it began."""
