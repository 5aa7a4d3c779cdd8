"""What a key names, and how that moves from a schedule to those that replace it (see `schedule_keys`)."""

from membership.conditional import Applied, Rejected, Unknown
from scheduler_service.domain.ids import ClientId, ScheduleId, due_of
from scheduler_service.domain.ports import ScheduleKeyStore
from scheduler_service.domain.schedule_keys import KeyHolder, KeyMark, KeyRow
from scheduler_service.runtime.clock import Clock

MAX_MOVES = 20
"""Lost races for one key after which a request fails as unavailable."""


class KeyChain:
    """The keys of schedules. Every method raises StoreUnavailable; then repeat."""

    def __init__(self, *, store: ScheduleKeyStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def row(self, client_id: ClientId, key: str, *, serial: bool = True) -> KeyRow:
        """A schedule that was put under the key and that later ones may have replaced."""
        return await self._store.read(client_id, key, serial=serial)

    async def was_taken(self, client_id: ClientId, key: str, schedule_id: ScheduleId) -> bool:
        """Whether it was exactly this schedule that took the key last."""
        taken = (await self._store.read(client_id, key)).taken
        return taken is not None and taken.schedule_id == schedule_id

    async def take(self, client_id: ClientId, new: ScheduleId, mark: KeyMark, *, after: KeyHolder | None) -> bool:
        """Let a new schedule take the key, if what had it as it was read still does. False: another one has it by now,
        or the answer was lost and the new one has it not."""
        taken = await self._store.take(
            client_id,
            mark.name,
            KeyHolder(new, mark.revision),
            expected_revision=None if after is None else after.revision,
            kept_seconds=self._kept_seconds(new, mark),
        )
        match taken:
            case Applied():
                return True
            case Rejected():
                return False
            case Unknown():
                return await self.was_taken(client_id, mark.name, new)

    async def move(self, client_id: ClientId, new: ScheduleId, mark: KeyMark, *, base: int | None = None) -> None:
        """Let the key be ahead at a replacement, unless it is at a later one. `base`: of the row that led to what it
        replaces, as it was read; None: look whether what has the key was put before."""
        if base is None:
            base = (await self._store.read(client_id, mark.name)).base
            if base >= mark.revision:
                return
        await self._store.go_ahead(
            client_id,
            mark.name,
            KeyHolder(new, mark.revision),
            base=base,
            kept_seconds=self._kept_seconds(new, mark),
        )

    def _kept_seconds(self, new: ScheduleId, mark: KeyMark) -> int:
        return mark.kept_seconds(due=due_of(new), now=self._clock.wall_ms())
