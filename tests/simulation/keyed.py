"""Requests under idempotency keys in a simulated world, which callers repeat until there is an answer."""

from collections.abc import Sequence

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.domain.clients import WriteConsistency
from scheduler_service.domain.idempotency import Keyed, fingerprint_of
from scheduler_service.domain.ids import CronId, ScheduleId
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.quotas import PollerChooser
from scheduler_service.domain.schedules import Definition, Kind
from scheduler_service.usecases.admission import AdmitCreates, JudgeClock
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.create_schedules import CreateSchedules
from scheduler_service.usecases.idempotency import CreateIdempotently, RememberRequest, SeeCreated
from scheduler_service.usecases.redeliver import RedeliverSchedule
from scheduler_service.usecases.reschedule_schedule import RescheduleSchedule
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_keys import ScheduleKeys
from scheduler_service.usecases.schedule_request import CallbackPolicy, CallbackRequest, ScheduleRequest
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.secret_encryption import NoEncryption
from scheduler_service.usecases.trigger_crons import TriggerCron
from tests.simulation.creates import CreateRecord
from tests.simulation.sim_clock import AgreedClock
from tests.simulation.world import World


class _Registering(ScheduleWriter):
    """Registers every row with the world before its insert: it may be called before the create is answered."""

    world: World

    async def __call__(self, definition: Definition, *, consistency: WriteConsistency = "LOCAL_QUORUM") -> None:
        self.register(definition)
        await super().__call__(definition, consistency=consistency)

    async def many(
        self, definitions: Sequence[Definition], *, consistency: WriteConsistency = "LOCAL_QUORUM"
    ) -> list[MinutehandError | None]:
        for definition in definitions:
            self.register(definition)
        return await super().many(definitions, consistency=consistency)

    def register(self, definition: Definition) -> None:
        if definition.kind is Kind.CALL:
            asked = CreateRecord(definition.client_id, definition.schedule_id, definition.due)
            self.world.asked.setdefault(str(definition.schedule_id), asked)


class Callers:
    """Callers of API processes that share the world's connection and clock."""

    def __init__(self, world: World) -> None:
        self.world = world
        storage, clock, randomness = world.api_storage, world.api_clock, world.api_randomness
        writer = _Registering(
            schedules=storage.schedules,
            keys=storage.schedule_keys,
            leases=storage.leases,
            clock=clock,
            randomness=randomness,
            hints=world,
        )
        writer.world = world
        resolve = ResolveSchedule(schedules=storage.schedules, writer=writer)
        pollers = PollerChooser(randomness)
        cancel = CancelSchedules(
            schedules=storage.schedules, writer=writer, clock=clock, has_feed=lambda client_id: False
        )
        create = CreateSchedules(
            writer=writer,
            pollers=pollers,
            policy=CallbackPolicy(network=NetworkPolicy(), encryption=NoEncryption()),
            admit=AdmitCreates(
                judge_clock=JudgeClock(clock=clock, compared=AgreedClock(), limit_ms=1_000), admit_wires=lambda: None
            ),
            clock=clock,
            randomness=randomness,
        )
        self.once = CreateIdempotently(
            remember=RememberRequest(keys=storage.idempotency),
            create=create,
            by_key=ScheduleKeys(create=create, resolve=resolve, cancel=cancel, writer=writer, clock=clock),
            redeliver=RedeliverSchedule(
                schedules=storage.schedules,
                attempts=storage.attempts,
                writer=writer,
                clock=clock,
            ),
            reschedule=RescheduleSchedule(
                schedules=storage.schedules,
                resolve=resolve,
                cancel=cancel,
                writer=writer,
                pollers=pollers,
                policy=CallbackPolicy(network=NetworkPolicy(), encryption=NoEncryption()),
                clock=clock,
            ),
            trigger=TriggerCron(crons=storage.crons, writer=writer, clock=clock),
            see_created=SeeCreated(resolve=resolve, writer=writer, clock=clock),
            clock=clock,
        )

    async def create(self, key: str, *delays: float) -> list[CreateRecord]:
        """Send one request. Raises StoreUnavailable unless every item of it was acknowledged."""
        client = self.world.clients["shop"]
        requests = [
            ScheduleRequest(callback=CallbackRequest(url="https://receiver.test/"), delay_seconds=delay)
            for delay in delays
        ]
        keyed = Keyed(client.client_id, key, fingerprint_of("POST", "/schedules", repr(delays).encode()))
        made = (await self.once.create(client, requests, keyed)).items
        found = []
        for item in made:
            if isinstance(item, MinutehandError):
                raise item
            row = item if isinstance(item, Definition) else item.row
            asked = self.world.asked[str(row.schedule_id)]
            asked.acknowledged = True
            found.append(asked)
        return found

    async def acknowledged(self, key: str, *delays: float) -> list[CreateRecord]:
        """Repeat a create until it is acknowledged."""
        while True:
            try:
                return await self.create(key, *delays)
            except StoreUnavailable:
                await self.world.api_clock.sleep(0.5)

    async def triggered(self, key: str, cron_id: CronId) -> ScheduleId:
        """Repeat a trigger until it is acknowledged. Raises Conflict."""
        client = self.world.clients["shop"]
        keyed = Keyed(client.client_id, key, fingerprint_of("POST", f"/{cron_id}:trigger"))
        while True:
            try:
                made = await self.once.trigger(client, cron_id, keyed)
            except StoreUnavailable:
                await self.world.api_clock.sleep(0.5)
                continue
            schedule_id = made.schedule_id if isinstance(made, Definition) else made.row.schedule_id
            self.world.asked[str(schedule_id)].acknowledged = True
            return schedule_id

    async def redelivered(self, key: str, asked: CreateRecord) -> None:
        """Repeat a redelivery until there is an answer."""
        keyed = Keyed(asked.client_id, key, fingerprint_of("POST", f"/{asked.schedule_id}:redeliver", b""))
        if asked.in_line is None:
            asked.in_line = len(asked.calls)
        while True:
            asked.end = None
            try:
                await self.once.redeliver(self.world.clients["shop"], asked.schedule_id, keyed)
            except StoreUnavailable:
                await self.world.api_clock.sleep(0.5)
            else:
                return
