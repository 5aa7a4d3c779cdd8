"""Puts calls where another release of the zone data has them, through the use cases: every write competes with owners
and clients under the usual conditions."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from uuid import UUID

from cql.storage import Storage, open_storage
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import Cron, CronState
from scheduler_service.domain.errors import InvalidRule, NotFound
from scheduler_service.domain.ids import ClientId, CronId, Partition, ScheduleId, UnixMillis, partition_of
from scheduler_service.domain.quotas import PollerChooser
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.crons import ChangeCrons
from scheduler_service.usecases.minute_loads import KeepMinuteLoads
from scheduler_service.usecases.reschedule_schedule import LocalTimeReplacement, Rescheduled, RescheduleSchedule
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_request import CallbackPolicy
from scheduler_service.usecases.secret_encryption import secret_encryption
from spark.io.submitted import patient
from spark.jobs.job import Context
from spark.transforms.zone_moves import CronRule, ZoneChange, must_expand_again
from spark.writer import unhinted_writer

AT_ONCE = 16
SAID_EVERY = 5_000


class StoredCall(NamedTuple):
    """A call that moves. `nominal_due`: its new instant, where it is called later."""

    client_id: ClientId
    schedule_id: ScheduleId
    due: UnixMillis
    nominal_due: UnixMillis | None

    @classmethod
    def of(cls, client_id: str, schedule_id: str, due: int, asked: int, new: int, new_due: int) -> Self:
        """Of the columns of a report. Calls that are called when they were asked for have no nominal due."""
        nominal = None if due == asked else UnixMillis(new)
        return cls(ClientId(client_id), ScheduleId(UUID(schedule_id)), UnixMillis(new_due), nominal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """`late`: crons that had to be expanded again."""

    late: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)
    crons: Mapping[str, int] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        return {**self.calls, **self.crons}


class ReplaceLocalTimes:
    """`version`: of the new release; requests by its name are recognised where they are repeated."""

    def __init__(self, context: Context, storage: Storage, *, version: str) -> None:
        clock, randomness = SystemClock(), SystemRandomness()
        encryption = secret_encryption(context.secrets, randomness=randomness)
        writer = unhinted_writer(storage, clock=clock, randomness=randomness)
        self._storage = storage
        self._say = context.say
        self._now = int(context.now.timestamp() * 1000)
        self._name = f"zone data {version}"
        self._clients: dict[ClientId, Client | None] = {}
        self._reschedule = RescheduleSchedule(
            schedules=storage.schedules,
            resolve=ResolveSchedule(schedules=storage.schedules, writer=writer),
            # The writer has no hints: the sweeps of the minutes tell of these cancels.
            cancel=CancelSchedules(
                schedules=storage.schedules, writer=writer, clock=clock, has_feed=lambda client_id: False
            ),
            writer=writer,
            pollers=PollerChooser(randomness),
            policy=CallbackPolicy(network=context.policy, bounds=context.bounds, encryption=encryption),
            clock=clock,
        )
        self._change = ChangeCrons(
            crons=storage.crons,
            catalog=Catalog(store=storage.clients, clock=clock, bounds=context.bounds),
            writer=writer,
            encryption=encryption,
            clock=clock,
        )

    @classmethod
    @asynccontextmanager
    async def over(cls, context: Context, *, version: str) -> AsyncIterator[Self]:
        """Raises StoreUnavailable."""
        storage = await open_storage(patient(context.storage))
        try:
            yield cls(context, storage, version=version)
        finally:
            await KeepMinuteLoads(store=storage.minute_loads, clock=SystemClock()).finish()
            await storage.close()

    async def late_crons(
        self, crons: Sequence[tuple[ClientId, CronId]], changed: Mapping[str, ZoneChange]
    ) -> list[tuple[ClientId, CronId]]:
        """Those that would not be expanded as the new release has it in time. Raises StoreUnavailable."""

        async def is_late(name: tuple[ClientId, CronId]) -> bool:
            client_id, cron_id = name
            cron = (await self._storage.crons.read(client_id, [cron_id])).get(cron_id)
            if cron is None or cron.state is not CronState.ACTIVE or cron.timezone not in changed:
                return False
            _, zone = changed[cron.timezone].zones()
            try:
                return must_expand_again(_rule(cron), await self._placed(cron), zone, now=self._now)
            except InvalidRule:
                return False

        late = await concurrently(is_late, crons, width=AT_ONCE)
        return [name for name, is_so in zip(crons, late, strict=True) if is_so]

    async def calls(self, calls: Sequence[StoredCall]) -> Mapping[str, int]:
        """Reschedule them; answers how many were moved, or had been called, cancelled or changed meanwhile. Raises
        StoreUnavailable; calls that were moved before it stay so."""
        partitions: dict[Partition, list[StoredCall]] = {}
        for call in calls:
            partitions.setdefault(partition_of(call.client_id, call.schedule_id), []).append(call)
        counts: Counter[str] = Counter()

        async def of_partition(several: Sequence[StoredCall]) -> None:
            # One after the other: each changes what the others' writes are conditional on.
            for call in several:
                counts[await self._moved(call)] += 1
                if counts.total() % SAID_EVERY == 0:
                    self._say(f"tz_audit: {counts.total():,} of {len(calls):,} calls")

        await concurrently(of_partition, list(partitions.values()), width=AT_ONCE)
        return dict(counts)

    async def crons(self, crons: Sequence[tuple[ClientId, CronId]]) -> Mapping[str, int]:
        """Have them expanded again. Raises StoreUnavailable, likewise."""

        async def one(name: tuple[ClientId, CronId]) -> str:
            try:
                cron = await self._change.expand_again(*name)
            except NotFound:
                return "crons deleted meanwhile"
            return "crons expanded again" if cron.state is CronState.ACTIVE else "crons paused meanwhile"

        return dict(Counter(await concurrently(one, crons, width=AT_ONCE)))

    async def _moved(self, call: StoredCall) -> str:
        client = await self._client(call.client_id)
        if client is None:
            return "calls of deleted clients"
        asked = LocalTimeReplacement(name=self._name, due=call.due, nominal_due=call.nominal_due)
        result = await self._reschedule(client, call.schedule_id, asked)
        return "calls rescheduled" if isinstance(result, Rescheduled) else "calls moved on meanwhile"

    async def _client(self, client_id: ClientId) -> Client | None:
        if client_id not in self._clients:
            self._clients[client_id] = await self._storage.clients.read_client(client_id)
        return self._clients[client_id]

    async def _placed(self, cron: Cron) -> list[UnixMillis]:
        """The fires ahead that have a child."""
        first, last = UnixMillis(self._now + 1), cron.expanded_through
        if last < first:
            return []
        runs = await self._storage.crons.read_runs(cron.client_id, cron.cron_id, first=first, last=last)
        return [run.nominal_due for run in runs if not run.triggered]


def _rule(cron: Cron) -> CronRule:
    return CronRule(
        client_id=cron.client_id,
        cron_id=cron.cron_id,
        expression=cron.expression,
        timezone=cron.timezone,
        options=cron.options,
        created_at=cron.created_at,
        expanded_through=cron.expanded_through,
        fires=cron.fires,
        wake_at=cron.wake_at,
    )
