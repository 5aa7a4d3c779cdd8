"""Explain: reads what the story of one schedule is told from (`domain.stories`)."""

from membership.identity import PollerKey
from membership.ports import LeaseRow, LeaseStore
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ScheduleId, poller_of
from scheduler_service.domain.ports import AttemptStore
from scheduler_service.domain.stories import Facts, Story, story_of
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.show_attempts import read_attempts


class ExplainSchedule:
    """Tells stories of clients that the caller has looked up."""

    def __init__(self, *, resolve: ResolveSchedule, attempts: AttemptStore, leases: LeaseStore, clock: Clock) -> None:
        self._resolve = resolve
        self._attempts = attempts
        self._leases = leases
        self._clock = clock

    async def __call__(self, client: Client, schedule_id: ScheduleId) -> Story:
        """Up to four reads: one while it has not ended, one if its receiver may say later what became of it. Raises
        NotFound, StoreUnavailable."""
        resolved = await self._resolve(client.client_id, schedule_id)
        if resolved is None:
            raise NotFound("this client has no schedule of that id")
        row = resolved.row
        attempts = await read_attempts(self._attempts, client.client_id, row)
        lease: LeaseRow | None = None
        if not row.ended:
            lease = await self._leases.read_lease(PollerKey(client.client_id, poller_of(schedule_id)))
        owner = None if lease is None else lease.owner
        return story_of(
            Facts(
                row=row,
                in_flight=resolved.in_flight,
                attempts=attempts,
                claimed_by=None if owner is None else str(owner),
                epoch=None if lease is None else lease.epoch,
                client_held=client.calls_held,
                now=self._clock.wall_ms(),
            )
        )
