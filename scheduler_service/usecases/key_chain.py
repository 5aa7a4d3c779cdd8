"""What a key names, and how that moves from a schedule to those that replace it (see `schedule_keys`)."""

from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId, ScheduleId, due_of
from scheduler_service.domain.ports import ScheduleKeyStore
from scheduler_service.domain.schedule_keys import KeyHolder, KeyMark
from scheduler_service.runtime.clock import Clock

MAX_MOVES = 20
"""Lost races for one key after which a request fails as unavailable."""


class KeyChain:
    """The keys of schedules. Every method raises StoreUnavailable; then repeat."""

    def __init__(self, *, store: ScheduleKeyStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def holder(self, client_id: ClientId, key: str, *, serial: bool = True) -> KeyHolder | None:
        """A schedule that was put under the key and that later ones may have replaced."""
        return await self._store.read(client_id, key, serial=serial)

    async def names(self, client_id: ClientId, key: str, schedule_id: ScheduleId) -> bool:
        """Whether the key names exactly this schedule."""
        holder = await self._store.read(client_id, key)
        return holder is not None and holder.schedule_id == schedule_id

    async def take(self, client_id: ClientId, new: ScheduleId, mark: KeyMark, *, after: KeyHolder | None) -> bool:
        """Let the key name a new schedule, if it still names what was read. False: it names another one by now, or the
        answer was lost and it does not name the new one."""
        expected = None if after is None else after.revision
        match await self._taken(client_id, new, mark, expected):
            case Applied():
                return True
            case Rejected():
                return False
            case Unknown():
                return await self.names(client_id, mark.name, new)

    async def move(self, client_id: ClientId, new: ScheduleId, mark: KeyMark) -> None:
        """Let the key name a replacement, unless it names that or a later one already."""
        for _ in range(MAX_MOVES):
            holder = await self._store.read(client_id, mark.name)
            if holder is not None and holder.revision >= mark.revision:
                return
            expected = None if holder is None else holder.revision
            if isinstance(await self._taken(client_id, new, mark, expected), Applied):
                return
        raise StoreUnavailable("the key of this schedule changes too often")

    async def _taken(
        self, client_id: ClientId, new: ScheduleId, mark: KeyMark, expected: int | None
    ) -> Answer[KeyHolder | None]:
        kept_seconds = mark.kept_seconds(due=due_of(new), now=self._clock.wall_ms())
        return await self._store.take(
            client_id,
            mark.name,
            KeyHolder(new, mark.revision),
            expected_revision=expected,
            kept_seconds=kept_seconds,
        )
