"""Request and stop reconciliations, and show them.

    admitted (client, clock) -> judged (every fault) -> a slot of its client -> inserted -> found by the nodes' search

A client has a bounded number of slots. A request takes one that is free, or whose holder has ended, by a conditional
write, so concurrent requests never get more than there are. The slot is taken first: the search for reconciliations
goes by slots. A slot whose holder was never inserted is free again after `ABANDONED_MS`.

The caller chooses the id before anything is written, so a repeat with the same id creates nothing twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import Conflict, FieldError, Invalid, NotFound
from scheduler_service.domain.idempotency import Keyed
from scheduler_service.domain.ids import ClientId, RowKey, ScheduleId, minute_of, minute_start
from scheduler_service.domain.instants import parse_instant, read_instant, window_faults
from scheduler_service.domain.ports import ReconciliationStore
from scheduler_service.domain.reconciliations import (
    HANDLED,
    MAX_RUNNING,
    Action,
    Progress,
    ReconciledSchedule,
    Reconciliation,
    ReconciliationId,
    ReconciliationState,
    Seen,
    Slot,
    asked_at,
    new_reconciliation_id,
    stopped,
)
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.admission import AdmitCreates
from scheduler_service.usecases.filter_request import FilterRequest, asked_filter
from scheduler_service.usecases.idempotency import RememberRequest
from scheduler_service.usecases.reading_steps import HasRead, uncounted
from scheduler_service.usecases.schedule_request import Instant

ABANDONED_MS = 60_000
"""A request whose insert is not seen after this time counts as failed; and a stopped reconciliation keeps its slot for
this long, unless it is closed before."""
MAX_RECONCILIATION_TURNS = 20
MAX_RECONCILED_MINUTES = 100
"""Minutes whose schedules one call lists at most."""
MAX_SEEN = 5_000
"""Schedules that one call reads before it stops."""
LEAST_READ = 100
"""Schedules read at a time at least: with an outcome asked for, most of them may be left out."""
RECONCILED_BYTES = 120
"""What one schedule counts as for the budget of reads."""
MAX_DAYS = 31
"""Days that a window may span unless an operator says otherwise."""

_LOWEST_ID = ScheduleId(UUID(int=0))


class ReconciliationRequest(FilterRequest, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Count (report), redeliver, cancel or skip all schedules due from `from` to before `to` (RFC 3339 with an offset)
    that are in one of `states` and match every filter given: a label or one of several, a cron, the destination or host
    of the callback, the beginning of the own key. redeliver applies to delivered, failed and skipped, cancel to
    scheduled and retrying, skip to scheduled ones that are overdue: `to` is not after now. report applies to any; with
    the same window it shows what a skip would end."""

    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    states: Annotated[list[State], Meta(min_length=1, max_length=20)]
    action: Action


class RequestReconciliations:
    """For clients that the caller has looked up."""

    def __init__(
        self,
        *,
        store: ReconciliationStore,
        remember: RememberRequest,
        admit: AdmitCreates,
        clock: Clock,
        randomness: Randomness,
        max_days: int = MAX_DAYS,
    ) -> None:
        self._store = store
        self._remember = remember
        self._admit = admit
        self._clock = clock
        self._randomness = randomness
        self._max_days = max_days

    def admit(self, client: Client) -> None:
        """Call it before a body is read. Raises Conflict for built-in clients, ClockInDoubt."""
        self._admit.work(client)

    def faults(self, request: ReconciliationRequest) -> list[FieldError]:
        """All faults of a request."""
        faults: list[FieldError] = []
        start, end = read_instant(request.start, "/from", faults), read_instant(request.end, "/to", faults)
        if start is not None and end is not None:
            faults += window_faults(start, end, longest_days=self._max_days)
            if request.action is Action.SKIP and end > self._clock.wall_ms():
                faults.append(FieldError("/to", "is after now: what is still to come is cancelled, not skipped"))
        asked_filter(request, faults)
        # An action that could not be decoded is a fault already; any state is allowed for it here.
        possible = HANDLED.get(request.action, tuple(State))
        for position, state in enumerate(request.states):
            if state not in possible:
                detail = f"{request.action} applies to {', '.join(possible)}"
                faults.append(FieldError(f"/states/{position}", detail))
        return faults

    def new_id(self) -> ReconciliationId:
        return new_reconciliation_id(at=self._clock.wall_ms(), randomness=self._randomness)

    async def create(
        self, client: Client, request: ReconciliationRequest, *, reconciliation_id: ReconciliationId, created_by: str
    ) -> Reconciliation:
        """The reconciliation, durable. Raises what `admit` does, ClientSuspended for actions that make calls, Invalid,
        Conflict where every slot is taken. After StoreUnavailable it may have begun: repeat with the same id."""
        self._judge(client, request)
        start, created_at = parse_instant(request.start), asked_at(reconciliation_id)
        asked = Reconciliation(
            client_id=client.client_id,
            reconciliation_id=reconciliation_id,
            action=request.action,
            start=start,
            end=parse_instant(request.end),
            states=tuple(state for state in State if state in request.states),
            filter=asked_filter(request, []),
            created_at=created_at,
            created_by=created_by,
            progress=Progress(minute=minute_of(start)),
            updated_at=created_at,
        )
        await self._take_slot(client.client_id, reconciliation_id)
        await self._store.insert(asked)
        return asked

    async def create_once(
        self, client: Client, request: ReconciliationRequest, keyed: Keyed, *, created_by: str
    ) -> tuple[Reconciliation, bool]:
        """As `create`, and whether it was requested before under the same key. Raises KeyReused too."""
        self._judge(client, request)
        chosen = self.new_id()
        remembered = await self._remember(keyed, ids=[chosen], at=asked_at(chosen))
        chosen = ReconciliationId(remembered.ids[0])
        if remembered.replayed:
            known = await self._store.read(client.client_id, chosen, serial=True)
            if known is not None:
                return known, True
        made = await self.create(client, request, reconciliation_id=chosen, created_by=created_by)
        return made, remembered.replayed

    def _judge(self, client: Client, request: ReconciliationRequest) -> None:
        if request.action is Action.REDELIVER:
            self._admit(client)
        else:
            self.admit(client)
        if faults := self.faults(request):
            raise Invalid(faults)

    async def stop(self, client_id: ClientId, reconciliation_id: ReconciliationId) -> Reconciliation:
        """Stop it; what its current slice does is still counted. One that was stopped before is returned unchanged.
        Raises NotFound, Conflict for one that has finished, StoreUnavailable."""
        for _ in range(MAX_RECONCILIATION_TURNS):
            current = await self._store.read(client_id, reconciliation_id, serial=True)
            if current is None:
                raise NotFound(f"there is no reconciliation {reconciliation_id}")
            if current.state is ReconciliationState.STOPPED:
                return current
            if current.state is ReconciliationState.FINISHED:
                raise Conflict("reconciliation-finished", "it has already finished", state=current.state.value)
            ended = stopped(current, at=self._clock.wall_ms())
            match await self._store.write(ended, expected_version=current.version):
                case Applied():
                    return ended
                case Rejected() | Unknown():
                    continue
        raise StoreUnavailable("this reconciliation changes too often")

    async def _take_slot(self, client_id: ClientId, reconciliation_id: ReconciliationId) -> None:
        for _ in range(MAX_RECONCILIATION_TURNS):
            holders = await self._store.read_slots(client_id)
            if reconciliation_id in holders.values():
                return
            number = await self._free(client_id, holders)
            slot = Slot(client_id, number, reconciliation_id)
            match await self._store.take_slot(slot, expected=holders.get(number)):
                case Applied():
                    return
                case Rejected() | Unknown():
                    continue
        raise StoreUnavailable("the slots of this client's reconciliations change too often")

    async def _free(self, client_id: ClientId, holders: Mapping[int, ReconciliationId]) -> int:
        """The number of a slot that may be taken. Raises Conflict."""
        for number in range(MAX_RUNNING):
            if number not in holders:
                return number
        runs = await concurrently(lambda item: self._runs(client_id, item[1]), holders.items())
        for number, still in zip(holders, runs, strict=True):
            if not still:
                return number
        raise Conflict("too-many-reconciliations", f"{MAX_RUNNING} reconciliations of this client are running")

    async def _runs(self, client_id: ClientId, reconciliation_id: ReconciliationId) -> bool:
        found = await self._store.read(client_id, reconciliation_id, serial=True)
        if found is None:
            return asked_at(reconciliation_id) > self._clock.wall_ms() - ABANDONED_MS
        if found.state is ReconciliationState.STOPPED and not found.settled:
            return found.updated_at > self._clock.wall_ms() - ABANDONED_MS
        return found.running


@dataclass(frozen=True, slots=True)
class ReconciledPage:
    """`next`: the key to continue after; None: there are no more so far."""

    items: list[ReconciledSchedule]
    next: RowKey | None


@dataclass(frozen=True, slots=True)
class ReconciliationPage:
    """`next`: the id to continue before; None: there are no more."""

    items: list[Reconciliation]
    next: ReconciliationId | None


class ShowReconciliations:
    """Show: a client's reconciliations and their progress.

    Answers for one client at a time.
    """

    def __init__(self, *, store: ReconciliationStore) -> None:
        self._store = store

    async def one(self, client_id: ClientId, reconciliation_id: ReconciliationId) -> Reconciliation:
        """Raises NotFound, StoreUnavailable."""
        found = await self._store.read(client_id, reconciliation_id)
        if found is None:
            raise NotFound(f"there is no reconciliation {reconciliation_id}")
        return found

    async def page(self, client_id: ClientId, *, before: ReconciliationId | None, limit: int) -> ReconciliationPage:
        """Up to `limit`, the newest first. Raises StoreUnavailable."""
        found = list(await self._store.read_newest(client_id, before=before, limit=limit))
        return ReconciliationPage(found, found[-1].reconciliation_id if len(found) == limit else None)

    async def schedules(
        self,
        client_id: ClientId,
        reconciliation_id: ReconciliationId,
        *,
        after: RowKey | None,
        limit: int,
        outcome: Seen | None = None,
        has_read: HasRead = uncounted,
    ) -> ReconciledPage:
        """What was done to up to `limit` schedules after `after`, by due: those with this outcome, or all. One call
        reads a bounded number of minutes and schedules, so it may answer fewer, even none, and still a key to continue
        after. Raises NotFound, StoreUnavailable."""
        asked = await self.one(client_id, reconciliation_id)
        first = minute_of(asked.start if after is None else after.due)
        minutes = await self._store.reconciled_minutes(
            client_id, reconciliation_id, first=first, last=minute_of(asked.end - 1), limit=MAX_RECONCILED_MINUTES + 1
        )
        found: list[ReconciledSchedule] = []
        seen = 0
        for minute in minutes[:MAX_RECONCILED_MINUTES]:
            more = True
            while more:
                most = max(limit + 1 - len(found), LEAST_READ)
                page = await self._store.read_reconciled(client_id, reconciliation_id, minute, after=after, limit=most)
                has_read(len(page), len(page) * RECONCILED_BYTES)
                seen, more = seen + len(page), len(page) == most
                for one in page:
                    if outcome in (None, one.outcome):
                        if len(found) == limit:
                            return ReconciledPage(found, after)
                        found.append(one)
                    after = one.key
                if seen >= MAX_SEEN:
                    return ReconciledPage(found, after)
        if len(minutes) <= MAX_RECONCILED_MINUTES:
            return ReconciledPage(found, None)
        return ReconciledPage(found, RowKey(minute_start(minutes[-1]), _LOWEST_ID))
