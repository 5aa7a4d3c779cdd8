"""Reconciliations in a simulated world: the requests, their required results, and a second node that interferes."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.reconciliations import (
    Action,
    ReconciledSchedule,
    Reconciliation,
    ReconciliationId,
    done_as,
)
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases import reconcile
from scheduler_service.usecases.admission import AdmitCreates, JudgeClock
from scheduler_service.usecases.idempotency import RememberRequest
from scheduler_service.usecases.reconcile import Reconcile
from scheduler_service.usecases.reconciliations import (
    ReconciliationRequest,
    RequestReconciliations,
    ShowReconciliations,
)
from scheduler_service.usecases.redeliver import RedeliverSchedule
from tests.simulation.creates import CreateRecord
from tests.simulation.sim_clock import AgreedClock
from tests.simulation.world import World

GIVES_UP = ClientSettings(retry=RetrySettings(max_attempts=1))
"""One failure is final, so that a redelivery ends as the schedule had ended before."""


def small_slices(patch: pytest.MonkeyPatch) -> None:
    """Slices of a few rows each, so that a window has several and busy minutes are cut."""
    patch.setattr(reconcile, "SLICE_ROWS", 4)
    patch.setattr(reconcile, "POLLER_ROWS", 2)
    patch.setattr(reconcile, "ROWS_BETWEEN_CHECKS", 3)


class Reconciliations:
    """Of the client `shop`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = world.truth.reconciliations
        self.requests = RequestReconciliations(
            store=world.api_storage.reconciliations,
            remember=RememberRequest(keys=world.api_storage.idempotency),
            admit=AdmitCreates(
                judge_clock=JudgeClock(clock=world.api_clock, compared=AgreedClock(), limit_ms=1_000),
                admit_wires=lambda: None,
            ),
            clock=world.api_clock,
            randomness=world.api_randomness,
        )
        self._ended: dict[ReconciliationId, Reconciliation] = {}
        self._versions: dict[ReconciliationId, int] = {}

    async def ask(self, action: Action, *states: State, start: float, end: float) -> ReconciliationId:
        """Request one, under the same id until it is answered."""
        request = ReconciliationRequest(
            start=format_instant(int(start)), end=format_instant(int(end)), states=list(states), action=action
        )
        asked_id = self.requests.new_id()
        while True:
            try:
                await self.requests.create(
                    self.world.clients["shop"], request, reconciliation_id=asked_id, created_by="shop"
                )
            except StoreUnavailable:
                await self.world.api_clock.sleep(0.5)
                continue
            self.world.note("api", f"{action} {asked_id}")
            return asked_id

    async def stop(self, asked_id: ReconciliationId) -> Reconciliation:
        while True:
            try:
                return await self.requests.stop(self.world.clients["shop"].client_id, asked_id)
            except StoreUnavailable:
                await self.world.api_clock.sleep(0.5)

    async def read(self, asked_id: ReconciliationId) -> Reconciliation:
        found = await self.store.read(self.world.clients["shop"].client_id, asked_id, serial=True)
        assert found is not None
        known = self._ended.setdefault(asked_id, found) if found.settled else self._ended.get(asked_id)
        if known is not None and found != known:
            raise self.world.violation(f"it had ended as {known}, now it is {found}")
        if self._versions.get(asked_id, 0) > (found.version or 0):
            raise self.world.violation(f"its version fell: {found}")
        self._versions[asked_id] = found.version or 0
        return found

    async def advance(self, seconds: float) -> None:
        """Work on them while ends may change, because reconciliations change them."""
        for _ in range(round(seconds)):
            for asked in self.world.asked.values():
                asked.end = None
            await self.world.advance(1.0)

    async def ended(self, asked_id: ReconciliationId, *, within: float = 120.0) -> Reconciliation:
        """Work on one until it has ended, restarting processes whose incarnations are over."""
        for _ in range(round(within)):
            if not (found := await self.read(asked_id)).running:
                return found
            await self.world.revive()
            await self.advance(1.0)
        raise self.world.violation(f"it has not ended: {await self.read(asked_id)}")

    async def handled(self, asked_id: ReconciliationId) -> list[ReconciledSchedule]:
        """What it did to schedules, as its client is shown it, a page of two at a time."""
        show, after = ShowReconciliations(store=self.store), None
        found: list[ReconciledSchedule] = []
        while True:
            page = await show.schedules(self.world.clients["shop"].client_id, asked_id, after=after, limit=2)
            found += page.items
            if (after := page.next) is None:
                return found

    async def check_handled(self, done: Reconciliation, schedules: Iterable[ScheduleId]) -> None:
        """Once it has ended: what it did is shown for each of these schedules, and for no other. An unwritten slice may
        have left alone what is not counted, because it had ended by the time of the one that was written."""
        handled = await self.handled(done.reconciliation_id)
        shown = Counter(one.outcome for one in handled)
        acts = sorted(one.schedule_id for one in handled if one.outcome is done_as(done.action))
        if acts != sorted(schedules):
            raise self.world.violation(f"{done} shows {len(acts)} as done: {handled}")
        counted = Counter(done.progress.outcomes)
        if shown[done_as(done.action)] != counted[done_as(done.action)] or shown.total() < counted.total():
            raise self.world.violation(f"{done} shows {shown}")

    async def rows(self, asked: Sequence[CreateRecord]) -> list[Row]:
        rows = [await self.world.row_of(one) for one in asked]
        return [row for row in rows if row is not None]

    async def check_redelivered_once(self, asked: Sequence[CreateRecord]) -> None:
        """When all has ended, each schedule was called again once per redelivery."""
        for one, row in zip(asked, await self.rows(asked), strict=True):
            attempts = sorted({call.attempt for call in one.calls})
            if (attempts, row.redelivered_after, row.attempts) != ([1, 2], 1, 2):
                raise self.world.violation(f"{one.schedule_id} was redelivered otherwise than once: {row}")

    async def meddle(self, asked_id: ReconciliationId) -> None:
        """Work on it as a second node that should not, over the API's connection, until it has ended."""
        storage, world = self.world.api_storage, self.world
        once = Reconcile(
            store=storage.reconciliations,
            schedules=storage.schedules,
            redeliver=RedeliverSchedule(
                schedules=storage.schedules,
                attempts=storage.attempts,
                writer=world.writer,
                clock=world.api_clock,
            ),
            cancel=world.cancel_schedules,
            clock=world.api_clock,
            on_fault=world.faulted,
        )
        client = world.clients["shop"]
        while True:
            await world.api_clock.sleep(0.2)
            try:
                found = await storage.reconciliations.read(client.client_id, asked_id, serial=True)
                if found is None or not once.may_begin(found):
                    continue
                if not found.running:
                    return
                await once(client, found, share=1.0, ours=lambda: True)
            except StoreUnavailable:
                continue


async def given_up(world: World, count: int, *, spread_ms: int = 3_000) -> list[CreateRecord]:
    """Failed schedules over some minutes of both pollers, called once each. Every other one fails again when called
    again.
    """
    world.receiver.script = lambda call: 410 if call.attempt == 1 or int(call.schedule_id[-1], 16) % 2 else 200
    start = world.now_ms() + 2_000
    asked = [await world.create("shop", UnixMillis(start + spread_ms * number)) for number in range(count)]
    await world.advance(spread_ms * count / 1000 + 5.0)
    assert {one.end for one in asked} == {State.FAILED}
    return asked
