"""What clients request in a random world, through API processes, and what the answers promise them."""

import random
from collections.abc import Sequence
from uuid import UUID

import msgspec

from membership.errors import MinutehandError
from scheduler_service.api.services import ApiServices
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import ClientSuspended, FieldError, Invalid, NotFound
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.idempotency import Keyed, fingerprint_of
from scheduler_service.domain.ids import ClientId, ScheduleId, minute_of, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.once import OnceIds, age_fault, parse_once
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.usecases.cancel_schedules import Cancelled, CancelOutcome, CancelResult, InDoubt, InFlight
from scheduler_service.usecases.idempotency import Made
from scheduler_service.usecases.redeliver import Redelivering, RedeliverResult
from scheduler_service.usecases.reschedule_schedule import (
    Change,
    Rescheduled,
    RescheduleRequest,
    RescheduleResult,
    Updated,
)
from scheduler_service.usecases.schedule_keys import Put, PutResult, Unchanged
from scheduler_service.usecases.schedule_request import CallbackRequest, ScheduleRequest
from scheduler_service.usecases.schedule_update import CallbackUpdate, UpdateRequest
from tests.simulation.creates import IN_TIME_MS
from tests.simulation.drawn.api import RETRYABLE, Unanswered
from tests.simulation.drawn.schedules import Schedule
from tests.simulation.drawn.setting import SHORT_DAY_MS
from tests.simulation.drawn.world import DrawnWorld
from tests.simulation.receivers import Call

URL = "http://receiver.test/"
OTHER_HOST = "http://other.test/"
OTHERWISE = "http://receiver.test/otherwise"
"""What a reschedule may call instead."""
DESTINATIONS = ("crm", "erp")
FLOWS = (Flow("one", None, 1), Flow("paced", 0.5), Flow("both", 4.0, 2))
REFUSED = (ClientSuspended, Invalid, NotFound)


class DrawnClients:
    """`patience`: how often a caller sends the same request; None: until it is answered."""

    def __init__(self, world: DrawnWorld) -> None:
        self.world = world
        self._kept: dict[str, tuple[UUID, ...]] = {}

    # Create.

    def requests(self, dice: random.Random, *, count: int, spread_seconds: float) -> list[ScheduleRequest]:
        """Draw requests: a third have one of a few ordering keys, a third go to another host, a third have one of a few
        flow keys; some have both keys. Where there are destinations, two fifths name one."""
        made = []
        for _ in range(count):
            chance, delay = dice.random(), 0.2 + spread_seconds * dice.random()
            absolute = dice.random() < 0.3
            made.append(
                ScheduleRequest(
                    callback=_callback(chance, named=self.world.setting.destinations and int(chance * 9_973) % 5 < 2),
                    due=format_instant(int(self.world.now_ms() + 1000 * delay)) if absolute else None,
                    delay_seconds=None if absolute else delay,
                    ordering_key=f"key-{int(chance * 9)}" if chance < 1 / 3 else None,
                )
            )
        return made

    async def create(self, client: str, requests: Sequence[ScheduleRequest]) -> None:
        """Send a create once, whatever its result."""

        async def verb(services: ApiServices) -> Sequence[Made]:
            known = await services.catalog.client(ClientId(client))
            if len(requests) == 1:
                return [await services.schedules.create.one(known, requests[0])]
            return await services.schedules.create.many(known, requests)

        try:
            self._acknowledged(await self.world.ask(verb))
        except (Unanswered, *REFUSED) as error:
            self.world.note("client", f"create for {client}: {error}")

    async def create_under_key(
        self, client: str, key: str, requests: Sequence[ScheduleRequest], *, patience: int | None
    ) -> None:
        keyed = Keyed(ClientId(client), key, fingerprint_of("POST", "/schedules", key.encode()))

        async def verb(services: ApiServices) -> Sequence[Made]:
            known = await services.catalog.client(ClientId(client))
            items = (await services.schedules.idempotently.create(known, requests, keyed)).items
            if any(isinstance(item, RETRYABLE) for item in items):
                self._acknowledged(items)
                raise Unanswered("not every item")
            return items

        try:
            items = await self.world.asked_until_answered(verb, tries=patience)
        except (Unanswered, *REFUSED) as error:
            self.world.note("client", f"create under {key}: {error}")
            return
        ids = self._acknowledged(items)
        known = self._kept.setdefault(key, ids)
        if known != ids:
            raise self.world.violation(f"{key} stood for {known}, now for {ids}")

    async def create_under_token(
        self, client: str, dice: random.Random, requests: Sequence[ScheduleRequest], *, patience: int | None
    ) -> None:
        """Create as the SDK does: with a once token, by the clock and quota of an API process that answered before.
        When an answer is lost, the request is repeated to any process, even after the rows have ended.
        """

        async def told(services: ApiServices) -> tuple[int, int]:
            return services.clock.wall_ms(), (await services.catalog.client(ClientId(client))).poller_quota

        async def verb(services: ApiServices) -> Sequence[Made]:
            if (fault := age_fault(once, now=services.clock.wall_ms())) is not None:
                raise Invalid([FieldError("/once", fault)])
            known, ids = await services.catalog.client(ClientId(client)), OnceIds(ClientId(client), once, b"")
            if len(requests) == 1:
                return [await services.schedules.create.one(known, requests[0], once=ids)]
            items = await services.schedules.create.many(known, requests, once=ids)
            if any(isinstance(item, RETRYABLE) for item in items):
                self._acknowledged(items)
                raise Unanswered("not every item")
            return items

        try:
            at, quota = await self.world.ask(told)
            once = parse_once(f"{at}.{quota}.{int(dice.random() * quota)}.{dice.getrandbits(96):024x}")
            until = self.world.now_ms() + SHORT_DAY_MS // 2
            ids: dict[int, UUID] = {}
            while self.world.now_ms() < until:
                for position, item in enumerate(await self.world.asked_until_answered(verb, tries=patience)):
                    if isinstance(item, Definition) and ids.setdefault(position, item.schedule_id) != item.schedule_id:
                        raise self.world.violation(f"{once.text} stood for {ids[position]}, now for {item.schedule_id}")
                    self._acknowledged([item])
                await self.world.api_clock.sleep(30 * dice.random())
                if dice.random() < 0.4:
                    return
        except (Unanswered, *REFUSED) as error:
            self.world.note("client", f"create under a token: {error}")

    def _acknowledged(self, items: Sequence[Made]) -> tuple[UUID, ...]:
        ids: list[UUID] = []
        for item in items:
            if isinstance(item, MinutehandError):
                continue
            ids.append(item.schedule_id if isinstance(item, Definition) else item.row.schedule_id)
            self.acknowledge(ScheduleId(ids[-1]))
        return tuple(ids)

    def acknowledge(self, schedule_id: ScheduleId) -> None:
        schedule = self.world.schedules[str(schedule_id)]
        if not schedule.acknowledged:
            self.world.note("client", f"{schedule_id} is acknowledged")
            now = self.world.now_ms()
            schedule.acknowledged, schedule.acknowledged_ms = True, now
            passed = max(now, self.world.furthest_ms)
            schedule.in_time = passed < minute_start(minute_of(schedule.due)) - IN_TIME_MS

    async def put(self, client: str, key: str, request: ScheduleRequest, *, patience: int | None) -> None:
        """Put a schedule under the client's own key. Repeats may put another one, once the first was called."""

        async def verb(services: ApiServices) -> PutResult:
            known = await self._admitted(services, ClientId(client))
            return await services.schedules.by_key.put(known, msgspec.structs.replace(request, key=key))

        try:
            result = await self.world.asked_until_answered(verb, tries=patience)
        except (Unanswered, *REFUSED) as error:
            self.world.note("client", f"put {key} of {client}: {error}")
            return
        self.world.note("client", f"put {key} of {client}: {type(result).__name__}")
        match result:
            case Put(definition=definition):
                self.acknowledge(definition.schedule_id)
            case Unchanged(present=present):
                self.acknowledge(present.row.schedule_id)
            case InFlight() | InDoubt():
                pass

    # Cancel.

    async def cancel(self, schedule: Schedule, *, patience: int | None) -> None:
        schedule.cancel_wishes += 1

        async def verb(services: ApiServices) -> CancelResult:
            return await services.schedules.cancel.one(schedule.client_id, schedule.schedule_id)

        try:
            result = await self.world.asked_until_answered(verb, tries=patience)
        except Unanswered:
            self.world.note("client", f"cancel {schedule.schedule_id} is not answered")
            return
        self._cancel_answered(schedule, result)

    async def cancel_many(self, schedules: Sequence[Schedule], *, patience: int | None) -> None:
        """Cancel several schedules of one client."""
        left = {schedule.schedule_id: schedule for schedule in schedules}
        for schedule in schedules:
            schedule.cancel_wishes += 1
        while left and (patience is None or patience > 0):
            ids = list(left)

            async def verb(services: ApiServices, ids: Sequence[ScheduleId] = ids) -> dict[ScheduleId, CancelOutcome]:
                return await services.schedules.cancel.many(schedules[0].client_id, ids)

            try:
                results = await self.world.asked_until_answered(verb, tries=patience)
            except Unanswered:
                return
            for schedule_id, result in results.items():
                if not isinstance(result, MinutehandError):
                    self._cancel_answered(left.pop(schedule_id), result)
            patience = None if patience is None else patience - 1

    def _cancel_answered(self, schedule: Schedule, result: object) -> None:
        self.world.note("client", f"cancel {schedule.schedule_id}: {type(result).__name__}")
        if isinstance(result, Cancelled):
            self.promised_no_call(schedule, result.row)

    def promised_no_call(self, schedule: Schedule, row: Row) -> None:
        """The cancel was answered: from here on no call may be made. A rescheduled row's cancel must be refused,
        because its successor is called.
        """
        schedule.cancelled = True
        if schedule.calls and not says_so(row, schedule.calls[-1]):
            raise self.world.violation(f"{schedule.schedule_id} was called, and its cancel does not say so: {row}")
        if row.rescheduled_to is not None:
            raise self.world.violation(f"{schedule.schedule_id} was rescheduled, and its cancel is answered: {row}")

    # Reschedule.

    async def reschedule(
        self, schedule: Schedule, *, delay_seconds: float, otherwise: bool, key: str | None, patience: int | None
    ) -> None:
        request = RescheduleRequest(
            delay_seconds=delay_seconds, callback=CallbackRequest(url=OTHERWISE) if otherwise else None
        )
        await self._change(schedule, request, key=key, patience=patience)

    async def update(self, schedule: Schedule, *, label: str, key: str | None, patience: int | None) -> None:
        """Its instant stays, so that the update competes with the claim of both."""
        request = UpdateRequest(callback=CallbackUpdate(url=OTHERWISE), label=label)
        await self._change(schedule, request, key=key, patience=patience)

    async def _change(self, schedule: Schedule, request: Change, *, key: str | None, patience: int | None) -> None:
        schedule.cancel_wishes += 1
        client_id, schedule_id = schedule.client_id, schedule.schedule_id

        async def verb(services: ApiServices) -> RescheduleResult:
            client = await self._admitted(services, client_id)
            if key is None:
                return await services.schedules.reschedule(client, schedule_id, request)
            keyed = Keyed(client_id, key, fingerprint_of("POST", f"/{schedule_id}:reschedule", key.encode()))
            return (await services.schedules.idempotently.reschedule(client, schedule_id, request, keyed))[0]

        try:
            result = await self.world.asked_until_answered(verb, tries=patience)
        except (Unanswered, *REFUSED) as error:
            self.world.note("client", f"reschedule {schedule_id}: {error}")
            return
        self.world.note("client", f"reschedule {schedule_id}: {type(result).__name__}")
        schedule.updated |= isinstance(result, Updated)
        if isinstance(result, Rescheduled):
            if any(call.answer == 200 for call in schedule.calls) and not schedule.redeliver_wishes:
                raise self.world.violation(f"{schedule_id} was answered and is rescheduled all the same")
            schedule.cancelled = True
            self.acknowledge(result.new.row.schedule_id)

    # Redeliver.

    async def redeliver(self, schedule: Schedule, *, key: str | None, patience: int | None) -> None:
        if schedule.in_line is None:
            schedule.in_line = len(schedule.calls)
        schedule.redeliver_wishes += 1
        client_id, schedule_id, cancelled = schedule.client_id, schedule.schedule_id, schedule.cancelled

        async def verb(services: ApiServices) -> RedeliverResult:
            client = await self._admitted(services, client_id)
            if key is None:
                schedule.redeliver_wishes += 1  # without a key every repeat is another redelivery
                return await services.schedules.redeliver(client, schedule_id)
            keyed = Keyed(client_id, key, fingerprint_of("POST", f"/{schedule_id}:redeliver", b""))
            return (await services.schedules.idempotently.redeliver(client, schedule_id, keyed))[0]

        try:
            result = await self.world.asked_until_answered(verb, tries=patience)
        except (Unanswered, *REFUSED) as error:
            self.world.note("client", f"redeliver {schedule_id}: {error}")
            schedule.redelivery_given_up = True
            return
        self.world.note("client", f"redeliver {schedule_id}: {type(result).__name__}")
        if isinstance(result, Redelivering) and cancelled and result.row.state != State.CANCELLED:
            raise self.world.violation(f"{schedule_id} was cancelled and is redelivered")

    async def look(self, schedule: Schedule) -> None:
        """Read a schedule, which may complete what others left half done."""

        async def verb(services: ApiServices) -> object:
            client = await services.catalog.client(schedule.client_id)
            consistency = client.settings.read_consistency
            return await services.schedules.resolve(schedule.client_id, schedule.schedule_id, consistency=consistency)

        try:
            await self.world.ask(verb)
        except Unanswered:
            return

    @staticmethod
    async def _admitted(services: ApiServices, client_id: ClientId) -> Client:
        client = await services.catalog.client(client_id)
        services.schedules.create.admit(client)
        return client


def _callback(chance: float, *, named: bool) -> CallbackRequest:
    """`chance`: from 0 to 1. `named`: it names a destination."""
    callback = CallbackRequest(url=OTHER_HOST if 1 / 3 <= chance < 2 / 3 else URL)
    if named:
        callback = CallbackRequest(destination=DESTINATIONS[int(chance * 997) % 4 == 0], path="/orders")
    if 1 / 9 <= chance < 2 / 3:
        return callback
    flow = FLOWS[int(chance * 99) % len(FLOWS)]
    return msgspec.structs.replace(callback, flow_key=flow.key, flow_rate=flow.rate, flow_parallelism=flow.parallelism)


def says_so(row: Row, last: Call) -> bool:
    """Whether a cancelled row says that the receiver may have been called."""
    return (row.attempts or 0) >= last.attempt or "doubt" in (row.reason or "")
