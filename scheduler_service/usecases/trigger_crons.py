"""Trigger: one run of a cron now, in addition to its rule and in any state.

    choose the run (cron, instant -> id, row) -> list it among the cron's runs -> place its row -> acknowledged

The id and the row derive from the cron as it is at one revision, and from the instant. So a caller that knows the
instant derives the same run again, and writes equal values, until the cron is changed.
"""

from typing import NamedTuple

from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.expansion import run_options, run_row
from scheduler_service.domain.crons.row import Cron, CronRun
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import ClientId, CronId, ScheduleId, UnixMillis, derived_schedule_id, due_of
from scheduler_service.domain.options import encode_options
from scheduler_service.domain.ports import CronStore
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.crons import existing
from scheduler_service.usecases.schedule_writer import ScheduleWriter

REMEMBERED = 10_000
"""Instants of triggers that are remembered. Two triggers with the same instant are one run."""


class ChosenRun(NamedTuple):
    """A run that is not placed yet."""

    definition: Definition
    run: CronRun


class TriggerCron:
    """Triggers crons of clients that the caller has looked up and admitted. Triggers that several processes admit in
    one millisecond are one run."""

    def __init__(self, *, crons: CronStore, writer: ScheduleWriter, clock: Clock) -> None:
        self._crons = crons
        self._writer = writer
        self._clock = clock
        self._triggers: set[tuple[ClientId, CronId, int]] = set()

    async def __call__(self, client: Client, cron_id: CronId) -> Definition:
        """The row of the run, durable. Raises NotFound, StoreUnavailable."""
        return await self.place(client, await self.choose(client, cron_id))

    async def choose(self, client: Client, cron_id: CronId) -> ChosenRun:
        """A run of this instant. Nothing is created. Raises NotFound, StoreUnavailable."""
        cron = await self._read(client, cron_id)
        return _run(cron, self._next_instant(cron, self._clock.wall_ms()))

    async def again(self, client: Client, cron_id: CronId, schedule_id: ScheduleId) -> ChosenRun:
        """The run that was chosen before under this id. Raises NotFound; Conflict (cron-changed) where the present cron
        would be called otherwise; StoreUnavailable."""
        cron = await self._read(client, cron_id)
        chosen = _run(cron, due_of(schedule_id))
        if chosen.definition.schedule_id != schedule_id:
            detail = f"cron {cron_id!r} was changed after it was triggered, before the run was stored"
            raise Conflict("cron-changed", detail, state=cron.state)
        return chosen

    async def place(self, client: Client, chosen: ChosenRun) -> Definition:
        """Its row, durable. May be repeated. Raises StoreUnavailable."""
        await self.list_run(chosen)
        await self._writer(chosen.definition, consistency=client.settings.write_consistency)
        return chosen.definition

    async def list_run(self, chosen: ChosenRun) -> None:
        """List it among its cron's runs; one without a row is not shown. Raises StoreUnavailable."""
        await self._crons.insert_runs([chosen.run])

    async def _read(self, client: Client, cron_id: CronId) -> Cron:
        return existing((await self._crons.read(client.client_id, [cron_id])).get(cron_id), cron_id)

    def _next_instant(self, cron: Cron, now: int) -> UnixMillis:
        """The next instant that no other run has. It is never a whole second, because fires are at whole minutes."""
        if len(self._triggers) >= REMEMBERED:
            self._triggers.clear()
        while now % 1000 == 0 or (cron.client_id, cron.cron_id, now) in self._triggers:
            now += 1
        self._triggers.add((cron.client_id, cron.cron_id, now))
        return UnixMillis(now)


def _run(cron: Cron, at: UnixMillis) -> ChosenRun:
    name = f"trigger {cron.client_id} {cron.cron_id} {cron.revision} {at}"
    schedule_id = derived_schedule_id(due=at, poller_id=cron.poller_id, name=name)
    options = encode_options(run_options(cron))
    definition = run_row(cron, options, schedule_id, due=at, nominal_due=at, created_at=at)
    return ChosenRun(definition, CronRun(cron.client_id, cron.cron_id, at, cron.revision, schedule_id))
