"""Request: what tenants ask of their crons, as far as it may make calls that would not be made otherwise.

    admitted (client, clock) -> draft (every rule, every fault) -> change

Pausing and deleting make none: whoever wants that goes to `ChangeCrons` at once.
"""

from scheduler_service.domain.client_bounds import UNBOUND, ClientBounds
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import Cron
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import CronId
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.admit_creates import AdmitCreates
from scheduler_service.usecases.cron_request import CronRequest, draft_cron
from scheduler_service.usecases.crons import ChangeCrons, Changed, CronDraft
from scheduler_service.usecases.reading_steps import Told
from scheduler_service.usecases.schedule_request import CheckUrl


class RequestCrons:
    """For clients that the caller has looked up. Everything raises what `admit` does."""

    def __init__(
        self,
        *,
        change: ChangeCrons,
        admit: AdmitCreates,
        check_url: CheckUrl,
        clock: Clock,
        bounds: ClientBounds = UNBOUND,
    ) -> None:
        self.admit = admit
        """To be asked before a body is read."""
        self._change = change
        self._check_url = check_url
        self._clock = clock
        self._bounds = bounds

    async def put(
        self, client: Client, cron_id: CronId, request: CronRequest, *, told: Told = lambda rows, size: None
    ) -> Changed:
        """Raises Invalid, Conflict (too-many-crons), ContentTooLarge, StoreUnavailable too. `told`: see
        `ChangeCrons.put`."""
        self.admit(client)
        return await self._change.put(client, cron_id, self._draft(client, request), told=told)

    def faults(self, client: Client, request: CronRequest) -> list[FieldError]:
        """Everything wrong with a request, without storing anything."""
        try:
            self._draft(client, request)
        except Invalid as invalid:
            return invalid.errors
        return []

    def _draft(self, client: Client, request: CronRequest) -> CronDraft:
        now = self._clock.wall_ms()
        return draft_cron(request, settings=client.settings, check_url=self._check_url, now=now, bounds=self._bounds)

    async def resume(self, client: Client, cron_id: CronId) -> Cron:
        """Raises NotFound, StoreUnavailable too."""
        self.admit(client)
        return await self._change.resume(client.client_id, cron_id)

    async def trigger(self, client: Client, cron_id: CronId) -> Definition:
        """Raises NotFound, StoreUnavailable too."""
        self.admit(client)
        return await self._change.trigger(client, cron_id)
