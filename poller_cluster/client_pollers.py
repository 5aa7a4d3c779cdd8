"""The pollers of one client on this node: when each minute is entered, swept and passed.

One read of the index of occupied minutes shows which pollers of the client have rows in a minute, and an index row is
durable before any row of its partition is acknowledged. So idle pollers are never probed:

    -5 s .. -2 s before a minute   enter: read the index, start a run for every held poller that has rows
    grace after its end            sweep: read the index again, start a run where rows came meanwhile; every other
                                   poller passes the minute as empty, and will never open it for its rows

A granted poller begins with the minutes under way at once, and concurrently recovers from its watermark (`recovery`).
While the client is suspended no minute is entered and its pollers' positions do not move; resuming it recovers from
those positions."""

import asyncio
import math
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from itertools import chain
from typing import Any

from membership.errors import StoreUnavailable
from membership.signal import Signal
from poller_cluster.background_budget import MinutePlace
from poller_cluster.minute.admission import MinuteAdmission
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.order_ahead import ahead_minutes, look_ahead, look_up_overdue
from poller_cluster.minute.ordering import OrderingKeys
from poller_cluster.minute.runner import MinuteRun
from poller_cluster.minute.steps import Phase
from poller_cluster.recovery import RecoveryRange, found, next_chunk
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    minute_end,
    minute_of,
    minute_start,
)
from scheduler_service.domain.overdue_rates import OVERDUE_AFTER_MS

PREFETCH_MS = 5_000
STAGGER_MS = 3_000
RETRY_PAUSE_SECONDS = 0.5
FIRST_EPOCH = 1
"""Under this epoch nobody has owned a poller before."""
HELD_BACK_MINUTES = 2
"""Minutes of a client in recovery that hold back rows for an overdue rate: no further ones are begun meanwhile. They
need no place among those of the node, so they delay no other client."""
FAULT_PAUSE_SECONDS = 30.0
"""From an unhandled exception in a minute to the next try."""


class HeldPoller:
    """One held poller under one epoch: the minutes that run, and up to where all minutes are settled.

    `recovery`: the minutes that recovery has not looked at. `entered` is False until the minutes under way at the grant
    were looked up. `stands`: while draining, its position when the drain began; the client's sweeps go on, but start no
    runs here. `leaving`: it drains to be handed over. `order`: its ordering keys as far as known; `looked_ahead` is
    False until later minutes were searched for retry rows; `looking` is True while a search for the order is under
    way. `granted_at`: monotonic seconds; -inf if nobody owned it before."""

    __slots__ = (
        "entered",
        "epoch",
        "granted_at",
        "leaving",
        "looked_ahead",
        "looking",
        "order",
        "poller_id",
        "recovery",
        "runs",
        "settled",
        "stands",
        "tasks",
    )

    def __init__(
        self,
        *,
        poller_id: PollerId,
        epoch: int,
        recovery: RecoveryRange,
        granted_at: float = -math.inf,
        on_order_wanted: Callable[[], None] = lambda: None,
    ) -> None:
        self.poller_id = poller_id
        self.epoch = epoch
        self.recovery = recovery
        self.granted_at = granted_at
        self.entered = False
        self.leaving = False
        self.looked_ahead = False
        self.looking = False
        self.order = OrderingKeys(on_change=self.wake, on_wanted=on_order_wanted)
        self.stands: Minute | None = None
        self.runs: dict[Minute, MinuteRun] = {}
        self.tasks: dict[Minute, asyncio.Task[object]] = {}
        self.settled: set[Minute] = set()
        """Settled minutes that the client's sweep has not passed yet."""

    @property
    def draining(self) -> bool:
        return self.stands is not None

    def position(self, swept: Minute) -> Minute:
        """The oldest minute not settled. All minutes up to `swept` without a run are settled, or still in the recovery
        range."""
        if self.stands is not None:
            return self.stands
        position = Minute(swept + 1)
        while position in self.settled:
            position = Minute(position + 1)
        if not self.recovery.done:
            position = min(position, self.recovery.at)
        if self.runs:
            position = min(position, min(self.runs))
        return position

    def knows(self, minute: Minute) -> bool:
        return minute in self.runs or minute in self.settled

    def knows_order(self, minute: Minute) -> bool:
        if not (self.looked_ahead and self.entered) or self.draining:
            return False
        return not self.awaits_recovery(minute) and all(read > minute for read in self.order.reading)

    def awaits_recovery(self, minute: Minute) -> bool:
        return not self.recovery.done and self.recovery.at <= minute

    def wake(self) -> None:
        """Let all runs step again."""
        for run in self.runs.values():
            run.wake()

    def wake_minute(self, minute: Minute) -> None:
        if (run := self.runs.get(minute)) is not None:
            run.wake()

    def abandon(self) -> None:
        """The poller is lost: nothing more is written or sent for it."""
        for run in self.runs.values():
            run.abandon()

    def drain(self, swept: Minute) -> None:
        """Claim nothing more, start no run. The client has swept all minutes up to `swept`."""
        if self.stands is None:
            self.stands = self.position(swept)
        for run in self.runs.values():
            run.drain()

    def resume(self, *, passed: Minute, swept: Minute) -> None:
        """Go on from the poller's position. The client had swept up to `passed`, and now skips to `swept`: minutes up
        to there that the poller has not settled become its recovery range.

        A minute has one machine at a time under one epoch: a run that still drains is resumed, not started again.
        """
        start = self.position(passed)
        self.stands = None
        for minute, run in list(self.runs.items()):
            if minute in self.tasks:
                run.resume()
            else:
                del self.runs[minute]
        self.recovery = RecoveryRange(self.poller_id, start, Minute(swept + 1))
        self.entered = False
        self.settled = {minute for minute in self.settled if minute > swept}


def _ended(place: MinutePlace) -> Callable[[object], None]:
    return lambda task: place.end()


class ClientPollers:
    """One client's held pollers. The task `run` enters and sweeps minutes; the task `recover` recovers concurrently."""

    def __init__(
        self,
        *,
        client_id: ClientId,
        context: MinuteContext,
        settings: MinuteSettings,
        stagger: float,
        on_lost: Callable[[PollerId, int], None],
    ) -> None:
        self.client_id = client_id
        self.pollers: dict[PollerId, HeldPoller] = {}
        self.suspended = False
        self._context = context
        self._settings = settings
        self._prefetch_ms = PREFETCH_MS - round(STAGGER_MS * stagger)
        self._on_lost = on_lost
        self._clock = context.runtime.clock
        self._spawn = context.runtime.spawn
        self._budget = context.runtime.budget
        self._trusted = context.runtime.trusted
        self._on_fault = context.runtime.on_fault
        self._swept = self._sweepable(self._clock.wall_ms())
        self._entered = self._swept
        self._wake = Signal(self._clock)
        self._recovery_wake = Signal(self._clock)

    def _sweepable(self, now: int) -> Minute:
        """The last minute whose sweep may begin at `now`."""
        return Minute(minute_of(now - self._settings.grace_ms) - 1)

    # Pollers are granted, drained and revoked.

    def grant(self, poller_id: PollerId, *, epoch: int, start: Minute) -> None:
        """Work for the poller from `start` on; runs under an older epoch are abandoned."""
        self.revoke(poller_id)
        recovery = RecoveryRange(poller_id, start, Minute(self._swept + 1))
        self.pollers[poller_id] = HeldPoller(
            poller_id=poller_id,
            epoch=epoch,
            recovery=recovery,
            granted_at=self._clock.monotonic() if epoch > FIRST_EPOCH else -math.inf,
            on_order_wanted=self._wake.set,
        )
        self._wake.set()
        self._recovery_wake.set()

    def revoke(self, poller_id: PollerId) -> None:
        if (poller := self.pollers.pop(poller_id, None)) is not None:
            poller.abandon()

    def position(self, poller_id: PollerId) -> Minute:
        return self.pollers[poller_id].position(self._swept)

    @property
    def swept(self) -> Minute:
        """The last minute that was swept."""
        return self._swept

    @property
    def entered(self) -> Minute:
        """The last minute that was entered."""
        return self._entered

    @property
    def caught_up(self) -> bool:
        """Whether every held poller has recovered, so that only minutes after `swept` have rows to call."""
        return all(poller.entered and poller.recovery.done and not poller.draining for poller in self.pollers.values())

    @property
    def at_rest(self) -> bool:
        """Whether it is caught up, and no minute is under way."""
        return self.caught_up and not any(poller.runs for poller in self.pollers.values())

    def pass_empty(self, now_ms: int, *, before: Minute | None) -> None:
        """Pass the minutes whose sweep could begin at `now_ms`, without a read: the caller knows that the held pollers
        have no rows there, and will have none. `before`: only minutes before this one. They are caught up."""
        swept = self._sweepable(now_ms)
        self._swept = max(self._swept, swept if before is None else min(swept, Minute(before - 1)))
        self._entered = max(self._entered, self._swept)
        for poller in self.pollers.values():
            poller.settled = {minute for minute in poller.settled if minute > self._swept}

    async def drain(self, poller_id: PollerId) -> None:
        """Claim nothing more, and return when nothing is in flight. The poller's position does not move afterwards."""
        poller = self.pollers.get(poller_id)
        if poller is not None:
            poller.leaving = True
            poller.drain(self._swept)
            while poller.tasks:
                await asyncio.wait(list(poller.tasks.values()))

    def clock_corrected(self) -> None:
        """The clock was ahead and was corrected: every poller stops until it is granted again, and minutes that were
        passed too early are entered and swept again."""
        passed, self._swept = self._swept, min(self._swept, self._sweepable(self._clock.wall_ms()))
        self._entered = self._swept
        for poller in self.pollers.values():
            poller.leaving = True
            poller.drain(passed)
        self._wake.set()

    def suspend(self) -> None:
        """Hold due rows: pollers finish the rows in flight and stop at their positions."""
        if not self.suspended:
            self.suspended = True
            self._context.dispatcher.suspended(self.client_id, lasts=True)
            for poller in self.pollers.values():
                poller.drain(self._swept)

    def resume(self) -> None:
        """Go on from the pollers' positions; pollers that are being handed over go on draining."""
        if self.suspended:
            self.suspended = False
            self._context.dispatcher.suspended(self.client_id, lasts=False)
            passed, self._swept = self._swept, max(self._swept, self._sweepable(self._clock.wall_ms()))
            self._entered = self._swept
            for poller in self.pollers.values():
                if not poller.leaving:
                    poller.resume(passed=passed, swept=self._swept)
            self._wake.set()
            self._recovery_wake.set()

    def wake(self) -> None:
        """There is room, or settings changed: let all runs step again."""
        for poller in self.pollers.values():
            poller.wake()

    def hint(self, poller_id: PollerId, minute: Minute, keys: Collection[RowKey] | None) -> None:
        """Rows placed near their due, or cancelled; None: too many to be named, so the minute is read again. Minutes
        not entered yet will be read; rows in passed ones are requeued by the process that placed them. Of cancels
        there events tell, if the client has a feed."""
        poller = self.pollers.get(poller_id)
        if poller is None:
            return
        run = poller.runs.get(minute)
        if run is not None:
            run.hint(keys)
        elif self._swept < minute <= self._entered and minute not in poller.settled:
            self._start(poller, minute, was_empty=poller.entered)
        elif keys is not None and self._context.events is not None and self._context.feeds(self.client_id):
            self._context.events.hinted(Partition(self.client_id, poller_id, minute), keys)

    # Entering and sweeping minutes.

    async def run(self) -> None:
        """Enter and sweep minutes in time, until cancelled."""
        while True:
            try:
                pause = None if self.suspended else await self._turn()
            except StoreUnavailable:
                pause = RETRY_PAUSE_SECONDS
            await self._wake.wait(pause)

    async def _turn(self) -> float:
        """Enter or sweep the minute that is due; returns the seconds until the next one is."""
        now = self._clock.wall_ms()
        if not self._trusted() or not self._clock.wall_trusted():
            return RETRY_PAUSE_SECONDS
        late = [poller for poller in self.pollers.values() if not poller.entered]
        if late:
            await self._look_up(late, self._first_on_time(), self._entered)
            for poller in late:
                poller.entered = True
                poller.order.changed()
        for poller in self.pollers.values():
            if poller.order.wanted and not poller.looked_ahead:
                self._look_aside(poller, self._look_ahead)
        next_enter = minute_start(self._entered + 1) - self._prefetch_ms
        if now >= next_enter:
            minute = Minute(self._entered + 1)
            # Set before the read: a hint that arrives during it belongs to this minute, and must start its run.
            self._entered = minute
            try:
                await self._look_up(list(self.pollers.values()), minute, minute)
            except BaseException:
                self._entered = Minute(minute - 1)
                raise
            return 0.0
        next_sweep = minute_end(self._swept + 1) + self._settings.grace_ms
        if now >= next_sweep:
            await self._sweep(Minute(self._swept + 1))
            return 0.0
        return (min(next_enter, next_sweep) - now) / 1000.0

    def _first_on_time(self) -> Minute:
        """The first minute that a poller enters when it is granted. Under an overdue rate recovery may take long, so it
        is left no minutes with rows that are not overdue."""
        client, first = self._context.clients.get(self.client_id), Minute(self._swept + 1)
        if not self._context.dispatcher.overdue_calls.limited(client):
            return first
        return min(first, minute_of(self._clock.wall_ms() - OVERDUE_AFTER_MS))

    async def _look_up(
        self, pollers: Sequence[HeldPoller], first: Minute, last: Minute, *, were_empty: bool = False
    ) -> None:
        """Start runs for the given pollers in the minutes [first, last] where they have rows. `were_empty`: see
        `_start`."""
        if first > last or not pollers:
            return
        occupied = await self._context.schedules.occupied(self.client_id, first=first, last=last)
        for minute in sorted(occupied):
            here = set(occupied[minute])
            for poller in pollers:
                if poller.poller_id in here and not poller.knows(minute):
                    self._start(poller, minute, was_empty=were_empty)

    async def _sweep(self, minute: Minute) -> None:
        pollers = list(self.pollers.values())
        await self._look_up(pollers, minute, minute, were_empty=True)
        if not self._trusted() or any(not poller.entered for poller in self.pollers.values()):
            return
        self._swept = minute
        for poller in pollers:
            poller.settled.discard(minute)
        for poller in pollers:
            if poller.order.overdue(self._clock.wall_ms(), limit=1):
                self._look_aside(poller, self._look_up_overdue)

    def _look_aside(self, poller: HeldPoller, look: Callable[[HeldPoller], Coroutine[Any, Any, None]]) -> None:
        """Search for more of the order of a poller's keys, one search at a time. In a task, since the wait for the
        background budget may be long and must not delay entering and sweeping."""
        if not poller.looking:
            poller.looking = True
            self._spawn(self._look(poller, look), name=f"order of {self.client_id}/{poller.poller_id}")

    async def _look(self, poller: HeldPoller, look: Callable[[HeldPoller], Coroutine[Any, Any, None]]) -> None:
        try:
            await look(poller)
        except StoreUnavailable:
            await self._clock.sleep(RETRY_PAUSE_SECONDS)
        finally:
            poller.looking = False
            self._wake.set()

    async def _look_up_overdue(self, poller: HeldPoller) -> None:
        await look_up_overdue(
            self._context.schedules, self.client_id, poller.order, now=self._clock.wall_ms(), budget=self._budget
        )

    async def _look_ahead(self, poller: HeldPoller) -> None:
        """Search later minutes for retry rows of a poller that has rows with an ordering key."""
        client = self._context.clients.get(self.client_id)
        if client is None:
            # The client is deleted, but its pollers still run. Without the pause the search would be started at once.
            await self._clock.sleep(RETRY_PAUSE_SECONDS)
            return
        now = minute_of(self._clock.wall_ms())
        last = Minute(
            now
            + ahead_minutes(
                cap_seconds=client.settings.retry.cap_seconds,
                breaker_longest_seconds=self._context.breaker_longest_seconds,
            )
        )
        await look_ahead(
            self._context.schedules,
            self.client_id,
            poller.poller_id,
            poller.order,
            first=now,
            last=last,
            budget=self._budget,
        )
        if self._trusted():
            poller.looked_ahead = True
            poller.order.changed()

    def _start(
        self,
        poller: HeldPoller,
        minute: Minute,
        *,
        place: MinutePlace | None = None,
        was_empty: bool = False,
    ) -> "asyncio.Task[object] | None":
        """`place`: that of a minute in recovery. `was_empty`: the poller had no rows here when the minute was entered,
        so all its rows were created since."""
        if poller.draining or self.pollers.get(poller.poller_id) is not poller or self.suspended:
            return None
        admission = MinuteAdmission(
            client_id=self.client_id,
            minute=minute,
            poller=poller,
            settings=self._settings,
            context=self._context,
            may_rest=(lambda: True) if place is None else (lambda: place.may_rest),
        )
        machine = PollerMinute(
            partition=Partition(self.client_id, poller.poller_id, minute),
            epoch=poller.epoch,
            settings=self._settings,
            admission=admission,
            events=self._context.feeds(self.client_id),
        )
        machine.rows.all_found = was_empty
        run = MinuteRun(
            machine=machine,
            context=self._context,
            admission=admission,
            past=place is not None,
            on_rest=(lambda: None) if place is None else place.rest,
        )
        poller.runs[minute] = run
        work = self._run_minute(poller, minute, run, admission)
        task = self._spawn(work, name=f"minute {self.client_id}/{poller.poller_id} {minute}")
        poller.tasks[minute] = task
        return task

    async def _run_minute(self, poller: HeldPoller, minute: Minute, run: MinuteRun, admission: MinuteAdmission) -> None:
        phase = None
        try:
            phase = await run.run()
        except Exception as error:
            # A fault in one minute must not end the node, and with it all other calls.
            self._on_fault(f"minute {self.client_id}/{poller.poller_id} {minute}", error)
            run.abandon()
            await self._clock.sleep(FAULT_PAUSE_SECONDS)
        finally:
            poller.tasks.pop(minute, None)
            admission.closed()
            if phase is Phase.SETTLED:
                if minute > self._swept:
                    poller.settled.add(minute)
                poller.runs.pop(minute, None)
        if self.pollers.get(poller.poller_id) is not poller:
            return
        # A new machine under the same epoch would take a late write of the old one for its own: that needs a new epoch.
        if phase is Phase.LOST or (phase is None and run.machine.write_unanswered):
            self._on_lost(poller.poller_id, poller.epoch)
        elif phase is None:
            self._start(poller, minute)

    # Recovery.

    async def recover(self) -> None:
        """Run the occupied minutes between the pollers' watermarks and the present, oldest first, until cancelled."""
        while True:
            recoveries = [
                poller.recovery for poller in self.pollers.values() if not poller.recovery.done and not poller.draining
            ]
            chunk = next_chunk(recoveries)
            if chunk is None or self.suspended or not self._trusted():
                await self._recovery_wake.wait(None if chunk is None else RETRY_PAUSE_SECONDS)
                continue
            try:
                await self._recover_chunk(recoveries, *chunk)
            except StoreUnavailable:
                await self._recovery_wake.wait(RETRY_PAUSE_SECONDS)

    async def _overdue_room(self) -> None:
        """Wait while enough minutes hold back rows for an overdue rate."""
        while sum(run.past and run.holds_overdue for run in self._runs()) >= HELD_BACK_MINUTES:
            await self._recovery_wake.wait(RETRY_PAUSE_SECONDS)

    def _runs(self) -> Iterator[MinuteRun]:
        return chain.from_iterable(poller.runs.values() for poller in self.pollers.values())

    async def _recover_chunk(self, recoveries: Sequence[RecoveryRange], first: Minute, last: Minute) -> None:
        async with self._budget.slot(self.client_id):
            occupied = await self._context.schedules.occupied(self.client_id, first=first, last=last)
        if not self._trusted():
            return
        for minute, recovery in found(recoveries, occupied):
            poller = self.pollers.get(recovery.poller_id)
            if poller is None or poller.recovery is not recovery or poller.draining:
                continue
            await self._overdue_room()
            place = await self._budget.minute_place(self.client_id)
            task = None if poller.knows(minute) else self._start(poller, minute, place=place)
            if task is None:
                place.end()
                if not poller.knows(minute):
                    continue
            else:
                task.add_done_callback(_ended(place))
                task.add_done_callback(lambda _: self._recovery_wake.set())
            recovery.at = Minute(minute + 1)
            poller.order.changed()
        # The rest of the chunk is empty. A poller granted again meanwhile has another range, and starts over.
        for recovery in recoveries:
            poller = self.pollers.get(recovery.poller_id)
            if poller is not None and poller.recovery is recovery and not poller.draining:
                recovery.at = Minute(max(recovery.at, min(last + 1, recovery.to)))
                poller.order.changed()
