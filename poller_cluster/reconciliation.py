"""Nodes carry out reconciliations: those of a client are done by the owner of one of its pollers.

    slots of all clients --those of our pollers that run--> a task each: slice, pause, slice, ... until it has ended

The poller is chosen by a hash of the client. So the work moves with the poller when its owner dies or hands it over,
and one node paces all of a client's reconciliations: those that redeliver share one rate. While a poller moves, two
nodes may work on the same slice; `usecases.reconcile` says why nothing is done twice.

Running reconciliations are found by a search: every `CHANGE_SEARCH_SECONDS` one cheap read tells whether any were
requested since the last look, and only then, or after `FULL_SEARCH_SECONDS`, the slots of all clients are read. There
are at most ten a client, in a fixed number of partitions, so the cost does not depend on the number of schedules, nor
of clients that never reconcile. Ended ones are remembered while they hold a slot, and not read again.

Redeliveries get instants that are spread evenly, in every poller, over `redeliver_share` of its guaranteed rate, and
the next slice waits until most of the last one's have passed. So redeliveries arrive gradually, like due calls, and
leave them the rest of the guaranteed rate; after a restart the next slice begins where the instants ended. The rates of
cancels and reads are limited by pauses.

While the client is suspended, redeliveries wait; while the clock is in doubt, all reconciliations do.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import partial

from membership.errors import MinutehandError, StoreUnavailable
from poller_cluster.clients import ServedClients
from poller_cluster.held_pollers import HeldPollers
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.node_stores import NodeStores
from poller_cluster.settings import ReconciliationSettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import ReconciliationStore
from scheduler_service.domain.reconciliations import (
    FORGOTTEN_MS,
    SLOT_BUCKETS,
    Action,
    Reconciliation,
    ReconciliationId,
    ReconciliationState,
    Slot,
    asked_at,
)
from scheduler_service.runtime.backoff import Backoff
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.logging import get_logger
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.reconcile import NotOurs, Reconcile, SliceDone
from scheduler_service.usecases.redeliver import RedeliverSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter

CHANGE_SEARCH_SECONDS = 5.0
FULL_SEARCH_SECONDS = 120.0
REDELIVERED_AHEAD_MS = 20_000
"""The next instants are given out this long before the last ones have passed: above the time that a node reads
ahead."""
LONGEST_SLEEP_SECONDS = 15.0
"""The longest pause, so that a reconciliation that was stopped meanwhile is closed in time."""

_log = get_logger("minutehand.node")


class Reconciler:
    """The work of one node on reconciliations, slice by slice with `reconcile`."""

    def __init__(
        self,
        *,
        store: ReconciliationStore,
        reconcile: Reconcile,
        clients: ServedClients,
        pollers: HeldPollers,
        settings: ReconciliationSettings,
        runtime: NodeRuntime,
    ) -> None:
        self.rows = 0
        """Schedules that this node redelivered, cancelled, or left as they were."""
        self.finished = 0
        """Reconciliations that reached the end of their windows on this node."""
        self._store = store
        self._reconcile = reconcile
        self._clients = clients
        self._pollers = pollers
        self._settings = settings
        self._clock = runtime.clock
        self._randomness = runtime.randomness
        self._spawn = runtime.spawn
        self._budget = runtime.budget
        self._trusted = runtime.trusted
        self._on_fault = runtime.on_fault
        self._slots: dict[int, Sequence[Slot]] = {}
        self._unread: set[int] = set()
        self._changes: int | None = None
        self._looked_at = 0.0
        self._ended: set[ReconciliationId] = set()
        self._working: set[ReconciliationId] = set()
        self._resting: dict[ReconciliationId, float] = {}
        self._redelivering: Counter[ClientId] = Counter()

    @property
    def working(self) -> int:
        """Reconciliations that this node works on now."""
        return len(self._working)

    async def run(self) -> None:
        """Search until cancelled."""
        while True:
            await self._clock.sleep(CHANGE_SEARCH_SECONDS)
            if not self._trusted():
                continue
            for step in (self._look, self._begin):
                try:
                    await step()
                except StoreUnavailable:
                    continue
                except Exception as error:
                    self._on_fault("search for reconciliations", error)

    async def _look(self) -> None:
        """Read the slots if they may have changed. Raises StoreUnavailable: unread ones are read by the next call."""
        changes, now = await self._store.changes(), self._clock.monotonic()
        if changes != self._changes or now - self._looked_at >= FULL_SEARCH_SECONDS:
            self._unread = set(range(SLOT_BUCKETS))
            self._changes, self._looked_at = changes, now
        for bucket in sorted(self._unread):
            self._slots[bucket] = await self._store.list_slots(bucket)
            self._unread.discard(bucket)
        held = {slot.holder for slots in self._slots.values() for slot in slots}
        self._ended &= held
        self._resting = {each: until for each, until in self._resting.items() if each in held and until > now}

    async def _begin(self) -> None:
        """Start work on running reconciliations that this node is responsible for. Raises StoreUnavailable: the rest
        are started by the next call."""
        now = self._clock.monotonic()
        slots = [
            slot
            for bucket in self._slots.values()
            for slot in bucket
            if slot.holder not in self._ended
            and slot.holder not in self._working
            and self._resting.get(slot.holder, now) <= now
            and self._ours(slot.client_id)
        ]
        for slot, over in zip(slots, await concurrently(self._is_over, slots), strict=True):
            if over:
                self._ended.add(slot.holder)
            elif slot.holder not in self._working:
                self._working.add(slot.holder)
                self._spawn(self._work_safely(slot), name=f"reconciliation {slot.holder}")

    async def _is_over(self, slot: Slot) -> bool:
        """Whether the holder of a slot has ended for good, as far as a cheap read shows."""
        found = await self._read(slot, serial=False)
        if found is None:
            return asked_at(slot.holder) < self._clock.wall_ms() - FORGOTTEN_MS
        return found.settled

    async def _read(self, slot: Slot, *, serial: bool) -> Reconciliation | None:
        """None also for one that can't be decoded; that is logged."""
        try:
            return await self._store.read(slot.client_id, slot.holder, serial=serial)
        except StoreUnavailable:
            raise
        except MinutehandError as error:
            self._resting[slot.holder] = self._clock.monotonic() + FULL_SEARCH_SECONDS
            self._on_fault(f"reconciliation {slot.holder} of {slot.client_id}", error)
            return None

    def _ours(self, client_id: ClientId) -> bool:
        client = self._clients.get(client_id)
        if client is None or not self._trusted():
            return False
        return _poller_of(client_id, client.quota) in self._pollers.kept(client_id)

    async def _work_safely(self, slot: Slot) -> None:
        try:
            await self._work(slot)
        except NotOurs:
            return
        except Exception as error:
            self._resting[slot.holder] = self._clock.monotonic() + FULL_SEARCH_SECONDS
            self._on_fault(f"reconciliation {slot.holder} of {slot.client_id}", error)
        finally:
            self._working.discard(slot.holder)

    async def _work(self, slot: Slot) -> None:
        """Work slice by slice, until the reconciliation has ended or another node is responsible."""
        backoff = Backoff(clock=self._clock, randomness=self._randomness)
        redelivers = False
        try:
            while self._ours(slot.client_id):
                try:
                    found = await self._read(slot, serial=True)
                    if found is None:
                        # Its insert is still under way, or failed; or it is past its retention.
                        return
                    if found.settled:
                        self._ended.add(slot.holder)
                        return
                    if found.action is Action.REDELIVER and not redelivers:
                        redelivers = True
                        self._redelivering[slot.client_id] += 1
                    pause = await self._slice(found)
                except StoreUnavailable:
                    await backoff.wait()
                    continue
                backoff.reset()
                await self._clock.sleep(min(pause, LONGEST_SLEEP_SECONDS))
        finally:
            if redelivers:
                self._redelivering[slot.client_id] -= 1

    async def _slice(self, found: Reconciliation) -> float:
        """Do a slice, if it may be done now; returns the seconds to wait before the next. Raises StoreUnavailable,
        NotOurs."""
        client = self._clients.get(found.client_id)
        if client is None:
            raise NotOurs("its client is gone")
        turn = partial(self._budget.slot, found.client_id)
        if not found.running:
            await self._reconcile.close(client.record, found, turn=turn)
            return 0.0
        redelivers = found.action is Action.REDELIVER
        if not self._reconcile.may_begin(found) or (redelivers and not client.active):
            return CHANGE_SEARCH_SECONDS
        if redelivers and (wait := self._until_headroom(found)) > 0:
            return wait
        if found.version is None:
            _log.info("reconciliation-started", **_names(found))
        share = self._settings.redeliver_share / max(self._redelivering[found.client_id], 1)
        done = await self._reconcile(
            client.record, found, share=share, ours=lambda: self._ours(found.client_id), turn=turn
        )
        self.rows += done.acted
        stands = done.reconciliation
        if stands.state is ReconciliationState.FINISHED:
            self.finished += 1
            outcomes = {outcome.value: count for outcome, count in stands.progress.outcomes.items()}
            _log.info("reconciliation-finished", **_names(found), outcomes=outcomes)
        if not stands.running:
            return 0.0
        return max(self._until_headroom(stands) if redelivers else 0.0, self._pause(found, done))

    def _until_headroom(self, reconciliation: Reconciliation) -> float:
        """Seconds until the next instants may be given out."""
        return max(reconciliation.progress.lead - REDELIVERED_AHEAD_MS - self._clock.wall_ms(), 0) / 1000

    def _pause(self, reconciliation: Reconciliation, done: SliceDone) -> float:
        settings = self._settings
        pause = done.looked_at / settings.rows_read_per_second
        if reconciliation.action in (Action.CANCEL, Action.SKIP):
            pause = max(pause, done.acted / settings.cancels_per_second)
        return pause


def _names(reconciliation: Reconciliation) -> dict[str, str]:
    return {
        "client": reconciliation.client_id,
        "reconciliation": str(reconciliation.reconciliation_id),
        "verb": reconciliation.action.value,
    }


def _poller_of(client_id: ClientId, quota: int) -> int:
    digest = hashlib.blake2b(client_id.encode(), digest_size=4, person=b"reconcile").digest()
    return int.from_bytes(digest, "big") % max(quota, 1)


def reconcile_over(
    stores: NodeStores, *, writer: ScheduleWriter, clients: ServedClients, runtime: NodeRuntime
) -> Reconcile:
    """The use case over a node's stores."""
    schedules, clock = stores.schedules, runtime.clock
    return Reconcile(
        store=stores.reconciliations,
        schedules=schedules,
        redeliver=RedeliverSchedule(schedules=schedules, attempts=stores.attempts, writer=writer, clock=clock),
        cancel=CancelSchedules(schedules=schedules, writer=writer, clock=clock, has_feed=clients.has_feed),
        clock=clock,
        on_fault=runtime.on_fault,
    )
