"""Reschedules in a simulated world."""

import asyncio
import random
from collections.abc import Sequence
from itertools import cycle
from uuid import UUID

from cql.connection import Item
from cql.storage import Storage
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ScheduleId, due_of
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.quotas import PollerChooser
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.reschedule_schedule import (
    Change,
    Rescheduled,
    RescheduleRequest,
    RescheduleResult,
    RescheduleSchedule,
)
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_request import CallbackPolicy
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from scheduler_service.usecases.secret_encryption import NoEncryption
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan, FaultyConnection
from tests.simulation.world import World


class DyingApi:
    """An API process that dies, once, before or after its `write`th write; its pending requests are never answered."""

    def __init__(self, world: World, *, write: int, fault: str, in_place: bool = True) -> None:
        self._world = world
        self._write, self._fault, self._writes = write, fault, 0
        connection = FaultyConnection(world.memory, clock=world.api_clock, rng=random.Random(write))
        connection.plan = FaultPlan(hook=self._hook)
        self.storage = Storage.over(connection, packs=cycle((True, False)).__next__)
        writer = ScheduleWriter(
            schedules=self.storage.schedules,
            keys=self.storage.schedule_keys,
            leases=self.storage.leases,
            clock=world.api_clock,
            randomness=world.api_randomness,
            hints=world,
        )
        schedules = self.storage.schedules
        self.reschedule = RescheduleSchedule(
            schedules=schedules,
            resolve=ResolveSchedule(schedules=schedules, writer=writer),
            cancel=CancelSchedules(
                schedules=schedules, writer=writer, clock=world.api_clock, has_feed=lambda client_id: False
            ),
            writer=writer,
            pollers=PollerChooser(world.api_randomness),
            policy=CallbackPolicy(network=NetworkPolicy(), encryption=NoEncryption()),
            clock=world.api_clock,
            in_place=lambda: in_place,
        )

    def _hook(self, kind: str, items: Sequence[Item]) -> str | None:
        self._writes += kind != "select"
        return self._fault if kind != "select" and self._writes == self._write else None

    async def ask(self, asked: CreateRecord, request: RescheduleRequest, *, within: float = 2.0) -> None:
        """Make one request, which may never be answered."""
        world = self._world
        client = world.clients[asked.client_id]
        caller = asyncio.get_running_loop().create_task(self.reschedule(client, asked.schedule_id, request))
        await world.advance(within)
        caller.cancel()
        await self.storage.close()
        for row in world.memory.rows("schedules"):
            if row["rescheduled_from"] is not None:
                new = ScheduleId(UUID(str(row["schedule_id"])))
                world.asked.setdefault(str(new), CreateRecord(asked.client_id, new, due_of(new)))


async def reschedule_once(world: World, asked: CreateRecord, request: RescheduleRequest) -> RescheduleResult:
    """Make one request. Raises StoreUnavailable."""
    return await verb_of(world)(world.clients[asked.client_id], asked.schedule_id, request)


async def change_once(world: World, verb: RescheduleSchedule, asked: CreateRecord, request: Change) -> RescheduleResult:
    """Make one request, whose successor the world knows before it is announced: it may be called before the answer
    arrives. Raises StoreUnavailable."""
    client = world.clients[asked.client_id]
    chosen = await verb.choose(client, asked.schedule_id, request)
    if not isinstance(chosen, UUID):
        return chosen
    world.asked.setdefault(str(chosen), CreateRecord(asked.client_id, chosen, due_of(chosen)))
    return await verb(client, asked.schedule_id, request, chosen=chosen)


def verb_of(world: World, *, in_place: bool = True) -> RescheduleSchedule:
    """The verb of the world's API process. `in_place`: whether every node knows of revisions."""
    return RescheduleSchedule(
        schedules=world.api_storage.schedules,
        resolve=world.resolve_schedule,
        cancel=world.cancel_schedules,
        writer=world.writer,
        pollers=PollerChooser(world.api_randomness),
        policy=CallbackPolicy(network=NetworkPolicy(), encryption=NoEncryption()),
        clock=world.api_clock,
        in_place=lambda: in_place,
    )


async def reschedule(world: World, asked: CreateRecord, delay_seconds: float) -> bool:
    """Repeat the request until there is an answer: whether the new schedule is called instead."""
    while True:
        try:
            result = await reschedule_once(world, asked, RescheduleRequest(delay_seconds=delay_seconds))
        except StoreUnavailable:
            # The new row may exist already, and be called before the reschedule is answered.
            await register(world, asked)
            continue
        if isinstance(result, Rescheduled):
            (await register(world, asked)).acknowledged = True
            asked.cancelled = True
            return True
        return False


async def register(world: World, asked: CreateRecord) -> CreateRecord:
    """The schedule that replaced it, or itself if none did."""
    row = await world.row_of(asked)
    if row is None or row.rescheduled_to is None:
        return asked
    new = ScheduleId(UUID(str(row.rescheduled_to)))
    return world.asked.setdefault(str(new), CreateRecord(asked.client_id, new, due_of(new)))
