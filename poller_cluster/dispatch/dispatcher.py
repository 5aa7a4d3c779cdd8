"""From claimed rows to attempts: one ticker, fairness between clients, bounds on what is on the wire.

    submit --> [by due] --ticker--> [ready, per client] --deficit round robin by quota--> engine --> the row's owner
                                           ^--- [waiting, per receiver] <--no room there--'

A row leaves the first queue when it is due, never before; if the clock is set back then, it waits again. Each client in
turn may start ready rows in proportion to its quota, up to its own limit and the engine's; a turn that the engine's
limit interrupts goes on when there is room. Nothing starts while this incarnation is not trusted or the wall clock is
in doubt: ready rows wait. One timer serves all rows.

There are two such rounds. The second, of the rows beyond what their poller is guaranteed in a minute, is served only
while no row of the first may start.

Ready rows are looked for once for all attempts that end in a turn of the loop, and what holds for all rows of a
client's turn (its limit, the clocks) is computed once; the docstring of `poller_cluster` says what that saves.

A client whose receivers hang can't fill the engine (`ready_rows`), and long calls share a part of it (`long_calls`).
A ready row whose receiver has no room (see `receivers`) is parked, so that rows for other hosts pass it. A row
whose receiver is held back ends at once without an attempt: it is requeued (`defer`), and so is one that can't be
prepared yet (`preparation`), or whose destination is paused (`named_rows`). One whose token is being fetched is parked.
Everything that a destination says is taken at the start of the attempt, as the node knows it then.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from membership.signal import Signal
from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.targets.port import Engine
from poller_cluster.dispatch.due_clock import DueClock
from poller_cluster.dispatch.flows import FlowPlace, Flows, TooManyFlows
from poller_cluster.dispatch.job import Claim, Job, Turn
from poller_cluster.dispatch.lateness import Doubts, explained
from poller_cluster.dispatch.left_clients import LeftClients
from poller_cluster.dispatch.long_calls import LongCalls
from poller_cluster.dispatch.named_rows import NamedRows
from poller_cluster.dispatch.outcome import conclude, heeded, held_back_until
from poller_cluster.dispatch.overdue_calls import OverdueCalls
from poller_cluster.dispatch.preparation import Preparation
from poller_cluster.dispatch.ready_rows import ClientRows, ReadyRows, RowsByDue, claim_rows, engine_part
from poller_cluster.dispatch.receivers import ROUNDING, Receiver, Receivers, due_within
from poller_cluster.dispatch.request import Prepared
from poller_cluster.held_pollers import HeldPollers
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.settings import MinuteSettings, ReceiverSettings
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import flow_of
from scheduler_service.domain.schedules import Outcome
from scheduler_service.domain.waits import LATE_MS

QUANTUM = 1
"""Attempts that a quota of one may start per turn."""
ENDS_AT_ONCE = 32
"""Attempts that end in one turn of the loop are replaced in groups of this size: looking for rows costs more than
starting one, but connections must not stay idle."""
HELD_BACK_SECONDS = 0.05
"""From one look to the next while ready rows may not start (no trust, or the clock in doubt)."""
SHORTEST_PAUSE_SECONDS = 0.001


class Dispatcher:
    """See the module. Runs on one loop; `run` is its only task."""

    def __init__(
        self,
        *,
        engine: Engine,
        clients: ServedClients,
        pollers: HeldPollers,
        preparation: Preparation,
        due_clock: DueClock,
        runtime: NodeRuntime,
        on_result: Callable[[Job, AttemptResult, Outcome], None],
        receivers: ReceiverSettings | None = None,
        on_breaker: Callable[[Job, str, bool], None] = lambda job, destination, opened: None,
    ) -> None:
        """`on_breaker`: the end of this job has opened (True) or closed the breaker of its destination. This node has
        the same share of a client's limits as of its pollers. They are woken when there is room."""
        self.over_quota = 0
        """Rows submitted so far beyond what their poller is guaranteed."""
        self._engine = engine
        self._clients = clients
        self._clock = runtime.clock
        self._randomness = runtime.randomness
        self._preparation = preparation
        self._trusted = runtime.trusted
        self._due_clock = due_clock
        self._on_result = on_result
        self._on_free = pollers.wake
        self._on_breaker = on_breaker
        self._by_due = RowsByDue()
        self._held: dict[ClientId, ClientRows] = {}
        self._turns: tuple[deque[ReadyRows], deque[ReadyRows]] = (deque(), deque())
        settings = receivers or ReceiverSettings()
        self._receiver_share = settings.receiver_share
        self._receivers: Receivers[Job] = Receivers(settings, on_free=pollers.wake)
        self.flows: Flows[Job] = Flows(
            monotonic=runtime.clock.monotonic,
            flows_per_client=settings.flows_per_client,
            on_free=pollers.wake,
            on_tick=self.wake,
        )
        self.long_calls = LongCalls(settings, capacity=lambda: engine.capacity, on_free=pollers.wake)
        self._named_rows = NamedRows()
        self.overdue_calls = OverdueCalls(
            clock=runtime.clock,
            share=pollers.share,
            share_of_all=pollers.share_of_all,
            rate_of_all=lambda: clients.overdue_rate,
            held_back=lambda client_id: self._held_for(client_id).overdue,
            judged_at=due_clock.earliest,
        )
        self._left = LeftClients(remember_seconds=settings.breaker_longest_seconds, forget=self._forget)
        self._parked: dict[Receiver[Job], None] = {}
        self._held_share = pollers.share
        self._positions = pollers.positions
        self._wake = Signal(runtime.clock)
        self.doubts = Doubts(wall_ms=runtime.clock.wall_ms, trusted=runtime.trusted)
        """Runs of minutes that hold back for them tell it, too."""
        self._ended = 0
        """Attempts that have ended since the last look for rows to start."""

    def headroom(self, client_id: ClientId) -> int:
        """How many more rows of this client may be claimed: its limit less the rows that are claimed, or whose claim is
        under way. 0 until there is room for `claim_rows`, so that claims are not written one by one; `on_free` then
        tells when there is."""
        client = self._clients.get(client_id)
        if client is None or not client.active:
            return 0
        limit, held = self.limit_of(client), self._held_for(client_id)
        free = limit - held.taken
        least = claim_rows(limit, receiver_share=self._receiver_share)
        if free >= least:
            return free
        held.want_headroom(tell_at=limit - least)
        held.full.begin(self._clock.wall_ms())
        return 0

    def suspended(self, client_id: ClientId, *, lasts: bool) -> None:
        """The calls of this client are held from now on, or are not any more."""
        inactive = self._held_for(client_id).inactive
        (inactive.begin if lasts else inactive.end)(self._clock.wall_ms())

    def claim_ahead_ms(self, client_id: ClientId, settings: MinuteSettings) -> int:
        """How far ahead rows may be claimed: less when most of the client's room is taken, since rows that one poller
        claims for later would keep rows of other pollers waiting that are due now."""
        client, taken = self._clients.get(client_id), self._held_for(client_id).taken
        limit = 1 if client is None else self.limit_of(client)
        part = (taken + 1) / limit
        return due_within(part, lead_ms=settings.claim_lead_ms, ahead_ms=settings.claim_ahead_ms)

    def limit_of(self, client: ServedClient) -> int:
        """This node's share of the client's `max_in_flight`."""
        return max(int((client.settings.max_in_flight or 1) * self._share(client) + ROUNDING), 1)

    def _share(self, client: ServedClient) -> float:
        """This node's share of the client's limits. A node that holds none of its pollers sends its notices as if it
        held one."""
        return self._held_share(client.client_id) or 1.0 / max(client.quota, 1)

    def receiver(self, client: ServedClient, url: str) -> Receiver[Job]:
        """The receiver of a URL of this client."""
        client_id = client.client_id
        return self._receivers.of(
            client_id, url, client.settings, share=self._share(client), destinations=client.destinations
        )

    def reserve(self, client_id: ClientId, rows: int) -> None:
        """Reserve room for rows whose claim is under way; a negative number gives it back."""
        held = self._held_for(client_id)
        held.reserved += rows
        if held.gained_headroom():
            self._has_room(held)

    def _held_for(self, client_id: ClientId) -> ClientRows:
        held = self._held.get(client_id)
        if held is None:
            held = self._held[client_id] = ClientRows(client_id, self._turns)
        return held

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start the attempts of these rows, all of one owner, when they are due and it is their client's turn."""
        if not jobs:
            return
        client_id = jobs[0].owner.client_id
        self._held_for(client_id).outstanding += len(jobs)
        client = self._clients.get(client_id)
        url = receiver = None
        for job in jobs:
            self.over_quota += job.over_quota
            if client is not None:
                if receiver is None or job.claim.row.url != url:
                    url = job.claim.row.url
                    receiver = self.receiver(client, url or "")
                job.receiver = receiver
                receiver.outstanding += 1
                self._enter(job, client)
        self._await_due(jobs)

    def _enter(self, job: Job, client: ServedClient) -> None:
        self.long_calls.enter(job, client)
        self.overdue_calls.enter(job)
        if (flow := flow_of(job.claim.row.options)) is None:
            return
        # With too many keys it was not claimed, unless the rules have changed since.
        with suppress(TooManyFlows):
            job.flow = self.flows.place(client.client_id, flow, client.settings)
        if job.flow is not None:
            job.flow.state.outstanding += 1

    def wake(self) -> None:
        """Clients changed: rows that might not be started may be now."""
        self._wake.set()

    def resume(self, jobs: Sequence[Job]) -> None:
        """The token that these rows waited for was fetched, or is not to be had now."""
        for job in jobs:
            self._make_ready(job, called=job.called)
        self._wake.set()

    def left(self, client_id: ClientId) -> None:
        """This node holds no poller of the client any more."""
        self._left.add(client_id, self._clock.monotonic())
        self._wake.set()

    def _forget(self, client_id: ClientId, now: float) -> bool:
        if self._positions(client_id):
            return True
        held = self._held.get(client_id)
        if (held is not None and held.taken) or not self.flows.forget(client_id, now=now):
            return False
        if not self._receivers.forget(client_id, now=now):
            return False
        self._held.pop(client_id, None)
        self.long_calls.forget(client_id)
        self.overdue_calls.forget(client_id)
        self._preparation.tokens.forget(client_id)
        return True

    def withdraw(self, owner: object) -> list[Job]:
        """Take back every row of `owner` that was not started."""
        taken = self._by_due.withdraw(owner)
        for queue in (queue for held in self._held.values() for queue in held.queues):
            mine = [job for job in queue.ready if job.owner is owner]
            if mine:
                taken += mine
                queue.ready = deque(job for job in queue.ready if job.owner is not owner)
        for receiver in self._parked:
            mine = [job for job in receiver.waiting if job.owner is owner]
            if mine:
                taken += mine
                receiver.waiting = deque(job for job in receiver.waiting if job.owner is not owner)
        taken += self.flows.withdraw(owner, lambda job: job.owner)
        taken += self._preparation.tokens.withdraw(lambda job: job.owner is owner)
        for job in taken:
            self._released(job)
        if self._parked:
            # A withdrawn row may have been the one that its receiver had just let start.
            self._wake.set()
        return taken

    def _released(self, job: Job) -> None:
        """This row has ended, or was taken back."""
        held = self._held[job.owner.client_id]
        held.outstanding -= 1
        if job.receiver is not None:
            job.receiver.released()
            job.receiver = None
        if job.flow is not None:
            job.flow.released(self._clock.monotonic())
            job.flow = None
        self.long_calls.leave(job)
        self.overdue_calls.leave(job)
        if held.gained_headroom():
            self._has_room(held)

    def _has_room(self, held: ClientRows) -> None:
        held.full.end(self._clock.wall_ms())
        self._on_free(held.client_id)

    def _await_due(self, jobs: Sequence[Job]) -> None:
        if self._by_due.add(jobs):
            self._wake.set()

    async def run(self) -> None:
        """The ticker: wake when the next row is due."""
        while True:
            now = self._due_clock.now()
            for job in self._by_due.take(now):
                self._make_ready(job)
            for job in self.flows.tick(self._clock.monotonic()):
                self._make_ready(job, called=True)
            held_back = not self._pump()
            first = self._by_due.first()
            # The clock is read again, since starting took time. The pause is never 0, so that the loop gets a turn.
            pause = None if first is None else max((first - self._due_clock.now()) / 1000.0, SHORTEST_PAUSE_SECONDS)
            if held_back:
                pause = HELD_BACK_SECONDS if pause is None else min(pause, HELD_BACK_SECONDS)
            elif self._parked and (delay := self._unpark()) is not None:
                pause = delay if pause is None else min(pause, delay)
            if (tick := self.flows.next_tick()) is not None:
                delay = max(tick - self._clock.monotonic(), SHORTEST_PAUSE_SECONDS)
                pause = delay if pause is None else min(pause, delay)
            if self._left and (delay := self._left.forget(self._clock.monotonic())) is not None:
                pause = delay if pause is None else min(pause, delay)
            await self._wake.wait(pause)

    def _unpark(self) -> float | None:
        """Start rows that waited for their receiver's rate; returns the seconds until the next one may start."""
        now = self._clock.monotonic()
        soonest: float | None = None
        for receiver in list(self._parked):
            delay = receiver.delay(now)
            if receiver.destination is not None and self._is_held_up(receiver, receiver.destination):
                while receiver.waiting:
                    self._make_ready(receiver.waiting.pop(), called=True)
            elif delay == 0.0 and receiver.waiting:
                self._make_ready(receiver.waiting.popleft(), called=True)
            if not receiver.waiting:
                del self._parked[receiver]
            elif delay is not None:
                soonest = delay if soonest is None else min(soonest, delay)
        if not self._pump():
            soonest = HELD_BACK_SECONDS if soonest is None else min(soonest, HELD_BACK_SECONDS)
        return soonest

    def _is_held_up(self, receiver: Receiver[Job], name: str) -> bool:
        """Whether the rows that wait for this destination must be judged again: none of them may start now."""
        client = self._clients.get(receiver.waiting[0].owner.client_id) if receiver.waiting else None
        if client is None or not client.active:
            return False
        destination = client.destinations.get(name)
        return destination is None or not destination.callable

    def _make_ready(self, job: Job, *, called: bool = False) -> None:
        queue = self._held[job.owner.client_id].queues[job.over_quota]
        job.called = called
        if called:
            queue.ready.appendleft(job)
        else:
            queue.ready.append(job)
        if not queue.queued:
            queue.queued = True
            queue.turn.append(queue)

    def _pump_soon(self) -> None:
        """Look for rows to start once for all attempts that end in this turn of the loop, and after every
        `ENDS_AT_ONCE` of them, so that freed connections don't stay idle."""
        self._ended += 1
        if self._ended == 1:
            asyncio.get_running_loop().call_soon(self._pump_for_ended)
        elif self._ended % ENDS_AT_ONCE == 0:
            self._pump_for_ended()

    def _pump_for_ended(self) -> None:
        self._ended = 0
        if not self._pump():
            self._wake.set()

    def _pump(self) -> bool:
        """Start the rows that may start. False: ready rows are held back for lack of trust or of a reliable clock."""
        if not any(self._turns):
            return True
        if not self._trusted() or not self._due_clock.known or not self._clock.wall_trusted():
            self.doubts.begin()
            return False
        if self.doubts.last:
            self.doubts.end()
        for turn in self._turns:
            # The round ends when every client in it has had a turn in a row without starting anything.
            idle_turns = 0
            while turn and idle_turns < len(turn) and self._engine_free() > 0:
                idle_turns = 0 if self._serve(turn.popleft()) else idle_turns + 1
        return True

    def _engine_free(self) -> int:
        return self._engine.capacity - self._engine.in_flight

    def _serve(self, queue: ReadyRows) -> bool:
        """One client's turn; it stays in the round while it has ready rows."""
        client, held, ready = self._clients.get(queue.client_id), queue.client, queue.ready
        started = cut_short = False
        if client is not None and client.active:
            limit, free = self.limit_of(client), self._engine_free()
            if queue.deficit < 1:
                queue.deficit += QUANTUM * client.quota
            start = Turn(
                client=client,
                now=self._due_clock.now(),
                earliest=self._due_clock.earliest(),
                wall_ms=self._clock.wall_ms(),
                monotonic=self._clock.monotonic(),
            )
            while ready and queue.deficit >= 1 and free > 0:
                if held.on_the_wire >= limit or held.on_the_wire >= engine_part(self._engine.capacity, free):
                    break
                job = ready.popleft()
                if job.due > start.now:
                    self._await_due([job])
                    self._wake.set()
                elif self._may_go(job, start):
                    queue.deficit -= 1
                    started = True
                    # A row that ends at once without an attempt is counted too; the next turn reads the exact number.
                    free -= 1
                    self._start(held, job, start)
            cut_short = queue.deficit >= 1 and held.on_the_wire < limit and self._engine_free() <= 0
        if not ready:
            queue.queued = False
            # As in deficit round robin: a client without ready rows saves nothing up.
            queue.deficit = 0
        elif cut_short:
            queue.turn.appendleft(queue)
        else:
            queue.turn.append(queue)
        return started

    def _may_go(self, job: Job, start: Turn) -> bool:
        """Whether this row's receiver takes it now. Otherwise the row is parked, or gets its outcome."""
        receiver = job.receiver
        if receiver is None:
            receiver = job.receiver = self.receiver(start.client, job.claim.row.url or "")
            receiver.outstanding += 1
            self._enter(job, start.client)
        now = start.monotonic
        if receiver.destination is not None:
            outcome = self.judge_named(job.claim, start.client, receiver.destination)
            if outcome is not None:
                self._ended_unsent(job, outcome, start.wall_ms)
                return False
        if receiver.held_back(now, 0.0):
            outcome = self._until_open_again(job.claim, start.client, receiver)
            if outcome is not None:
                self._ended_unsent(job, outcome, start.wall_ms)
                return False
        if receiver.delay(now) != 0.0 or (receiver.waiting and not job.called):
            job.waits_for("receiver", start.wall_ms)
            # A row whose turn had come keeps its place at the front.
            if job.called:
                receiver.waiting.appendleft(job)
            else:
                receiver.waiting.append(job)
            if receiver not in self._parked:
                self._parked[receiver] = None
                self._wake.set()
            return False
        if job.flow is None or self._has_rate(job, job.flow, now):
            return True
        job.waits_for("flow", start.wall_ms)
        return False

    def _ended_unsent(self, job: Job, outcome: Outcome, now: int) -> None:
        self._released(job)
        job.owner.attempt_ended(job.claim.row.key, outcome, now=now)

    def _has_rate(self, job: Job, flow: FlowPlace[Job], now: float) -> bool:
        """Whether the flow of this row lets it start now. Otherwise the row is parked there."""
        if flow.delay(now) == 0.0 and (job.called or not flow.state.waiting):
            return True
        flow.park(job, first=job.called)
        if self._parked:
            # It may have been the one that its receiver had just let start.
            self._wake.set()
        return False

    def known_receiver(self, client_id: ClientId, name: str) -> Receiver[Job] | None:
        """The receiver of this name, if rows were for it recently."""
        return self._receivers.known(client_id, name)

    def held_back(self) -> Counter[ClientId]:
        """How many receivers of each client have a breaker that is open or half-open."""
        return Counter(client_id for client_id, receiver in self._receivers.all() if not receiver.breaker.closed)

    def judge(self, claim: Claim, client: ServedClient, receiver: "Receiver[Job]") -> Outcome | None:
        """The outcome of a row that need not be claimed: its receiver is held back beyond its due; else None."""
        due_in = (claim.row.due - self._due_clock.now()) / 1000.0
        if not receiver.held_back(self._clock.monotonic(), due_in):
            return None
        return self._until_open_again(claim, client, receiver)

    def judge_named(self, claim: Claim, client: ServedClient, name: str) -> Outcome | None:
        """The outcome of a row whose destination can't be called now; else None."""
        return self._named_rows.judge(
            claim,
            client,
            name,
            now=self._clock.wall_ms(),
            judged_at=self._due_clock.earliest(),
            fraction=self._randomness.fraction(),
        )

    def _until_open_again(self, claim: Claim, client: ServedClient, receiver: "Receiver[Job]") -> Outcome | None:
        """The rows come back spread over as long again as the breaker is open, so that they don't come all at once."""
        breaker = receiver.breaker
        seconds = breaker.until - self._clock.monotonic() + breaker.open_seconds * self._randomness.fraction()
        settings, now = client.settings_for(claim.row.url), self._clock.wall_ms()
        return held_back_until(claim, settings=settings, seconds=seconds, now=now)

    def _start(self, held: ClientRows, job: Job, start: Turn) -> None:
        prepared = self._preparation.prepare(job, start.client, now=start.wall_ms, judged_at=start.earliest)
        if start.now - job.due > LATE_MS or (job.claim.waits is not None and job.claim.row.is_retry_row):
            prepared = explained(prepared, job, self._preparation.sender, held, self.doubts, now=start.now)
        if prepared is None:
            job.waits_for("token-unavailable", start.wall_ms)
            if self._parked:
                # It may have been the one that its receiver had just let start.
                self._wake.set()
            return
        if isinstance(prepared, Outcome):
            self._ended_unsent(job, prepared, start.wall_ms)
            return
        held.on_the_wire += 1
        assert job.receiver is not None
        generation = job.receiver.started()
        if job.flow is not None:
            job.flow.started(start.monotonic)
        self.long_calls.started(job)
        self.overdue_calls.started(job)
        self._engine.start_attempt(
            prepared.request,
            lambda result: self._attempt_done(held, job, prepared, result, generation),
            may_start=job.owner.may_send,
        )

    def _attempt_done(
        self, held: ClientRows, job: Job, prepared: Prepared, result: AttemptResult, generation: int
    ) -> None:
        held.on_the_wire -= 1
        self._ended_at(job, result, generation)
        self.long_calls.ended(job, result)
        if job.flow is not None:
            job.flow.ended(self._clock.monotonic())
        if result.error == "not-trusted" and result.nothing_sent:
            self.overdue_calls.not_sent(job)
            self._make_ready(job)
            self._wake.set()
            job.owner.queued_again()
            return
        if result.error == "stopped":
            # Neither an end nor a failure: the row stays in flight, and is in doubt for the poller's next owner.
            return
        self._released(job)
        if prepared.sent is not None or prepared.trace is not None:
            self._preparation.attempt_ended(job, prepared, result)
        now = self._clock.wall_ms()
        if result.asked is not None:
            verb = heeded(job.claim, result, options=prepared.options, settings=prepared.settings, now=now)
            result = msgspec.structs.replace(result, heeded=verb)
        outcome = conclude(
            job.claim,
            result,
            options=prepared.options,
            settings=prepared.settings,
            epoch=job.owner.epoch,
            incarnation=job.fired_by or self._preparation.sender.incarnation,
            now=now,
            jitter=self._randomness.fraction,
        )
        self._on_result(job, result, outcome)
        job.owner.attempt_ended(job.claim.row.key, outcome, now=now)
        self._pump_soon()

    def _ended_at(self, job: Job, result: AttemptResult, generation: int) -> None:
        """Make ready the row that waited for this end, or all waiting rows if they must be judged again."""
        receiver = job.receiver
        assert receiver is not None
        waiting, was_closed = receiver.waiting, receiver.breaker.closed
        changed = receiver.ended(result, generation=generation, now=self._clock.monotonic())
        if changed and receiver.destination is not None and was_closed != receiver.breaker.closed:
            self._on_breaker(job, receiver.destination, was_closed)
        if not waiting:
            return
        for _ in range(len(waiting) if changed else 1):
            self._make_ready(waiting.pop() if changed else waiting.popleft(), called=True)
        if not waiting:
            self._parked.pop(receiver, None)
