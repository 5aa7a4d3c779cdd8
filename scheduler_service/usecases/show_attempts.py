"""Show: every attempt of one schedule that is known, in order (`domain.attempts`)."""

from scheduler_service.domain.attempts import AttemptShown, attempts_of
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId, ScheduleId
from scheduler_service.domain.ports import AttemptStore
from scheduler_service.domain.retry_rows import is_acknowledged
from scheduler_service.domain.schedules import Row
from scheduler_service.usecases.resolve_schedule import ResolveSchedule


class ShowAttempts:
    """Reads attempts of clients that the caller has looked up."""

    def __init__(self, *, resolve: ResolveSchedule, attempts: AttemptStore) -> None:
        self._resolve = resolve
        self._attempts = attempts

    async def __call__(self, client_id: ClientId, schedule_id: ScheduleId) -> list[AttemptShown]:
        """Raises NotFound, StoreUnavailable."""
        resolved = await self._resolve(client_id, schedule_id)
        if resolved is None:
            raise NotFound("this client has no schedule of that id")
        return await read_attempts(self._attempts, client_id, resolved.row)


async def read_attempts(store: AttemptStore, client_id: ClientId, row: Row) -> list[AttemptShown]:
    """The attempts of the schedule with this original. Raises StoreUnavailable."""
    words = await store.read_words(client_id, row.schedule_id) if is_acknowledged(row.options) else None
    return attempts_of(row, await store.read(client_id, row.schedule_id), words)
