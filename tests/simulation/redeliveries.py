"""Redeliveries in a simulated world: callers may have to repeat a request, and the repeats are counted."""

import asyncio
from collections import Counter

from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.redeliver import Redelivering, RedeliverResult, RedeliverSchedule, WasCancelled
from tests.simulation.creates import CreateRecord
from tests.simulation.faults import FaultPlan
from tests.simulation.world import World


class Redeliveries:
    """Makes requests through the API of the world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asks: Counter[ScheduleId] = Counter()
        self.redeliver = RedeliverSchedule(
            schedules=world.api_storage.schedules,
            attempts=world.api_storage.attempts,
            writer=world.writer,
            clock=world.api_clock,
        )

    async def ask(self, asked: CreateRecord) -> RedeliverResult | None:
        """Make one request. None: there was no answer, and it may have taken effect."""
        if asked.in_line is None:
            asked.in_line = len(asked.calls)
        self.asks[asked.schedule_id] += 1
        known, asked.end = asked.end, None
        try:
            result = await self.redeliver(self.world.clients[asked.client_id], asked.schedule_id)
        except StoreUnavailable:
            self.world.note("api", f"redeliver {asked.schedule_id} is not answered")
            return None
        self.world.note("api", f"redeliver {asked.schedule_id}: {type(result).__name__}")
        if isinstance(result, WasCancelled) and known == State.CANCELLED:
            asked.end = known
        if asked.cancelled and not isinstance(result, WasCancelled):
            raise self.world.violation(f"{asked.schedule_id} was cancelled and is redelivered")
        return result

    async def answered(self, asked: CreateRecord) -> RedeliverResult:
        """Repeat the request until there is an answer."""
        while True:
            result = await self.ask(asked)
            if result is not None:
                return result
            await self.world.api_clock.sleep(1.0)

    async def in_doubt(self, asked: CreateRecord, *, callers: int) -> int:
        """Make several requests at once over a store that loses answers; returns how many answers promised another
        call.
        """
        plan = self.world.api_connection.plan
        self.world.api_connection.plan = FaultPlan(refuse=0.1, lose_answer=0.3)
        try:
            results = await asyncio.gather(*(self.answered(asked) for _ in range(callers)))
        finally:
            self.world.api_connection.plan = plan
        return sum(isinstance(result, Redelivering) for result in results)
