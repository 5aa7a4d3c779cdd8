"""The store of clients' own keys of schedules."""

from typing import Protocol

from membership.conditional import Answer
from scheduler_service.domain.ids import (
    ClientId,
)
from scheduler_service.domain.schedule_keys import KeyHolder


class ScheduleKeyStore(Protocol):
    """What clients' own keys name. A key is forgotten when its time is over."""

    async def read(self, client_id: ClientId, key: str, *, serial: bool = True) -> KeyHolder | None:
        """None: it names nothing. `serial`: sees whatever was taken before it began."""

    async def take(
        self, client_id: ClientId, key: str, holder: KeyHolder, *, expected_revision: int | None, kept_seconds: int
    ) -> Answer[KeyHolder | None]:
        """Let the key name `holder` for so long, if its revision is the expected one (None: it names nothing)."""
