"""The store of clients' own keys of schedules."""

from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.ids import (
    ClientId,
)
from scheduler_service.domain.schedule_keys import KeyHolder, KeyRow


class ScheduleKeyStore(Protocol):
    """What clients' own keys name. A key is forgotten when its time is over."""

    async def read(self, client_id: ClientId, key: str, *, serial: bool = True) -> KeyRow:
        """`serial`: sees whatever was taken before it began."""

    async def take(
        self, client_id: ClientId, key: str, holder: KeyHolder, *, expected_revision: int | None, kept_seconds: int
    ) -> Answer[KeyHolder | None]:
        """Let `holder` take the key for so long, if the revision of what has it is the expected one (None: nothing)."""

    async def go_ahead(self, client_id: ClientId, key: str, holder: KeyHolder, *, base: int, kept_seconds: int) -> None:
        """Let the key be ahead at `holder` for so long, while what took it has the revision `base`. Of two of these the
        one of the higher revision counts, in whatever order they come. Raises StoreUnavailable."""
