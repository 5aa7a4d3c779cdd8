"""From claimed rows to attempts: one ticker, fairness between clients, bounds on what is on the wire.

    submit --> [by due] --ticker--> [ready, per client] --deficit round robin by quota--> engine --> done

A row leaves the first queue when it is due, never before; should the clock be set back meanwhile, it waits again. Of
the ready ones, each client in turn may start attempts in proportion to its quota, up to its own limit and to the
engine's; a turn that the engine's limit cuts short goes on when there is room. Nothing starts while this life is not
trusted or the wall clock is in doubt: ready rows wait. There is one timer in all, none per row.
"""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Protocol

from poller_cluster.callback import Prepared, Sender, prepare, unsent
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.outcome import conclude
from poller_cluster.steps import Claim
from poller_cluster.tenants import Tenant, Tenants
from scheduler_service.domain.ids import ClientId, RowKey
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.runtime.signal import Signal

QUANTUM = 1
"""Attempts that a quota of one may start per turn."""
CLAIM_ROWS = 250
"""A client that is at its limit claims again when there is room for so many, or for a quarter of its limit."""
HELD_BACK_SECONDS = 0.05
"""How soon to look again when ready rows may not start (no trust, doubtful clock)."""


class Engine(Protocol):
    """What makes the HTTP requests (`delivery.engine`)."""

    @property
    def capacity(self) -> int:
        """How many attempts may be under way at a time."""

    @property
    def in_flight(self) -> int:
        """How many are."""

    def start_attempt(
        self, request: CallbackRequest, on_done: Callable[[AttemptResult], None], *, may_start: Callable[[], bool]
    ) -> None:
        """Start; `on_done` is called exactly once, later, on the loop. `may_start` is asked again at the socket."""


class Job:
    """One claimed row on its way. `done` hears its outcome; `may_start` says whether its owner still owns it, to the
    last moment. `owner` may take it back until it is started, and again after `queued_again` was called: the attempt
    ended before anything was sent."""

    __slots__ = ("claim", "client_id", "done", "due", "epoch", "may_start", "owner", "queued_again")

    def __init__(
        self,
        *,
        client_id: ClientId,
        claim: Claim,
        epoch: int,
        owner: object,
        done: Callable[[RowKey, Outcome], None],
        may_start: Callable[[], bool],
        queued_again: Callable[[], None],
    ) -> None:
        self.client_id = client_id
        self.claim = claim
        self.epoch = epoch
        self.owner = owner
        self.done = done
        self.may_start = may_start
        self.queued_again = queued_again
        self.due = claim.row.due


class _Lane:
    """The ready rows of one client, and its account with the round robin."""

    __slots__ = ("deficit", "on_the_wire", "outstanding", "queued", "ready", "reserved")

    def __init__(self) -> None:
        self.ready: deque[Job] = deque()
        self.queued = False
        self.deficit = 0
        self.on_the_wire = 0
        self.outstanding = 0
        self.reserved = 0


def claim_rows(limit: int) -> int:
    """How many rows a claim should have room for, where a client may have `limit` in flight."""
    return max(1, min(CLAIM_ROWS, limit // 4))


class Dispatcher:
    """See the module. Runs on one loop; `run` is its only task."""

    def __init__(
        self,
        *,
        engine: Engine,
        tenants: Tenants,
        clock: Clock,
        randomness: Randomness,
        sender: Sender,
        trusted: Callable[[], bool],
        ahead_ms: Callable[[], int],
        on_result: Callable[[Job, AttemptResult, Outcome], None],
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        self._engine = engine
        self._tenants = tenants
        self._clock = clock
        self._randomness = randomness
        self._sender = sender
        self._trusted = trusted
        self._ahead_ms = ahead_ms
        self._on_result = on_result
        self._on_fault = on_fault
        self._by_due: list[tuple[int, int, Job]] = []
        self._sequence = 0
        self._clients: dict[ClientId, _Lane] = {}
        self._turn: deque[ClientId] = deque()
        self._wake = Signal(clock)

    def room(self, client_id: ClientId) -> int:
        """How many more rows of this client may be claimed: what its limit leaves over what is claimed already, or is
        being claimed. None before there is room for `CLAIM_ROWS` of them, so that claims are not written one by one."""
        tenant = self._tenants.get(client_id)
        if tenant is None or not tenant.active:
            return 0
        limit = tenant.settings.max_in_flight or 1
        lane = self._clients.get(client_id)
        free = limit if lane is None else limit - lane.outstanding - lane.reserved
        return free if free >= claim_rows(limit) else 0

    def made_room(self, client_id: ClientId, rows: int) -> bool:
        """Whether these rows, just ended or given back, made room for claims where there was none."""
        room = self.room(client_id)
        return room > 0 and room - rows < claim_rows(room + self._taken(client_id))

    def _taken(self, client_id: ClientId) -> int:
        lane = self._clients.get(client_id)
        return 0 if lane is None else lane.outstanding + lane.reserved

    def reserve(self, client_id: ClientId, rows: int) -> None:
        """Keep room for rows that are being claimed; negative gives it back."""
        self._lane(client_id).reserved += rows

    def _lane(self, client_id: ClientId) -> _Lane:
        lane = self._clients.get(client_id)
        if lane is None:
            lane = self._clients[client_id] = _Lane()
        return lane

    def submit(self, job: Job) -> None:
        """Start this row's attempt when it is due and its turn has come."""
        self._lane(job.client_id).outstanding += 1
        self._await_due(job)

    def wake(self) -> None:
        """Clients changed: rows that were not to be started may be now."""
        self._wake.set()

    def withdraw(self, owner: object) -> list[Job]:
        """Take back every row of `owner` that was not started."""
        taken = [job for _, _, job in self._by_due if job.owner is owner]
        if taken:
            self._by_due = [item for item in self._by_due if item[2].owner is not owner]
            heapq.heapify(self._by_due)
        for lane in self._clients.values():
            mine = [job for job in lane.ready if job.owner is owner]
            if mine:
                taken += mine
                lane.ready = deque(job for job in lane.ready if job.owner is not owner)
        for job in taken:
            self._clients[job.client_id].outstanding -= 1
        return taken

    def _now(self) -> int:
        return self._clock.wall_ms() - self._ahead_ms()

    def _await_due(self, job: Job) -> None:
        self._sequence += 1
        heapq.heappush(self._by_due, (job.due, self._sequence, job))
        if self._by_due[0][2] is job:
            self._wake.set()

    async def run(self) -> None:
        """The ticker: wake when the next row is due."""
        while True:
            now = self._now()
            while self._by_due and self._by_due[0][0] <= now:
                self._make_ready(heapq.heappop(self._by_due)[2])
            held_back = not self._pump()
            pause = (self._by_due[0][0] - now) / 1000.0 if self._by_due else None
            if held_back:
                pause = HELD_BACK_SECONDS if pause is None else min(pause, HELD_BACK_SECONDS)
            await self._wake.wait(pause)

    def _make_ready(self, job: Job) -> None:
        lane = self._clients[job.client_id]
        lane.ready.append(job)
        if not lane.queued:
            lane.queued = True
            self._turn.append(job.client_id)

    def _pump(self) -> bool:
        """Start what may start. False: ready rows are held back for want of trust or of a clock."""
        if not self._turn:
            return True
        if not self._trusted() or not self._clock.wall_trusted():
            return False
        idle_turns = 0
        while self._turn and idle_turns < len(self._turn) and self._engine_free():
            client_id = self._turn.popleft()
            started = self._serve(client_id, self._clients[client_id])
            idle_turns = 0 if started else idle_turns + 1
        return True

    def _engine_free(self) -> bool:
        return self._engine.in_flight < self._engine.capacity

    def _serve(self, client_id: ClientId, lane: _Lane) -> bool:
        """One client's turn; it stays in the round while it has ready rows."""
        tenant = self._tenants.get(client_id)
        started = cut_short = False
        if tenant is not None and tenant.active:
            limit = tenant.settings.max_in_flight or 1
            if lane.deficit < 1:
                lane.deficit += QUANTUM * tenant.quota
            now = self._now()
            while lane.ready and lane.deficit >= 1 and lane.on_the_wire < limit and self._engine_free():
                job = lane.ready.popleft()
                if job.due > now:
                    self._await_due(job)
                    continue
                lane.deficit -= 1
                started = True
                self._start(lane, job, tenant)
            cut_short = lane.deficit >= 1 and lane.on_the_wire < limit
        if not lane.ready:
            lane.queued = False
            lane.deficit = 0
        elif cut_short:
            self._turn.appendleft(client_id)
        else:
            self._turn.append(client_id)
        return started

    def _prepare(self, job: Job, tenant: Tenant) -> Prepared | Outcome:
        now = self._clock.wall_ms()
        try:
            return prepare(job.claim, tenant=tenant, epoch=job.epoch, sender=self._sender, now=now)
        except Exception as error:
            # A row that nobody can make a request of fails alone; everybody else's wait behind it otherwise.
            self._on_fault(f"row {job.claim.row.schedule_id}", error)
            return unsent(job.claim, State.FAILED, "internal", now, job.epoch, self._sender)

    def _start(self, lane: _Lane, job: Job, tenant: Tenant) -> None:
        prepared = self._prepare(job, tenant)
        if isinstance(prepared, Outcome):
            lane.outstanding -= 1
            job.done(job.claim.row.key, prepared)
            return
        lane.on_the_wire += 1
        self._engine.start_attempt(
            prepared.request,
            lambda result: self._attempt_done(lane, job, prepared, result, tenant),
            may_start=job.may_start,
        )

    def _attempt_done(self, lane: _Lane, job: Job, prepared: Prepared, result: AttemptResult, tenant: Tenant) -> None:
        lane.on_the_wire -= 1
        if result.error == "not-trusted" and result.nothing_sent:
            self._make_ready(job)
            self._wake.set()
            job.queued_again()
            return
        if result.error == "stopped":
            # Neither an end nor a failure: the row stays in flight, in doubt for whoever comes next.
            return
        lane.outstanding -= 1
        outcome = conclude(
            job.claim,
            result,
            options=prepared.options,
            settings=tenant.settings,
            epoch=job.epoch,
            life=self._sender.life,
            now=self._clock.wall_ms(),
            jitter=self._randomness.fraction(),
        )
        self._on_result(job, result, outcome)
        job.done(job.claim.row.key, outcome)
        if not self._pump():
            self._wake.set()
