"""The pollers of one client on virtual time, over a store in memory, with a dispatcher that the test drives."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import Unknown
from membership.errors import StoreUnavailable
from membership.identity import PollerKey
from poller_cluster.bookkeeping import Bookkeeper
from poller_cluster.client_pollers import ClientPollers
from poller_cluster.clients import ServedClient
from poller_cluster.crons.fire_guard import CronFireGuard
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.lateness import Doubts
from poller_cluster.dispatch.long_calls import LongCalls
from poller_cluster.events.outcome_events import OutcomeEvents
from poller_cluster.events.tracks import EventTracks
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.limits import MinuteLimits
from poller_cluster.settings import MinuteSettings, ReceiverSettings
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, RowKey, UnixMillis
from scheduler_service.domain.ports import EventStore, ScheduleStore
from scheduler_service.domain.schedules import Definition, Outcome, Row
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.sim_clock import SimClock
from tests.support.api import ManualClock, SeededRandomness
from tests.support.budgets import budget
from tests.support.minutes import CLIENT, DELIVERED, MINUTE, POLLER
from tests.support.node_parts import GivenClients, node_runtime, overdue_calls
from tests.support.virtual_loop import run_virtual, virtual_loop

T = TypeVar("T")
EPOCH = 5


class Jobs(Dispatcher):
    """A dispatcher that starts nothing by itself: `waiting` holds the submitted rows, `limit` is how many may be
    claimed.
    """

    def __init__(self) -> None:
        self.waiting: list[Job] = []
        self.started: list[Job] = []
        self.seen: list[Job] = []
        self.limit = 100
        self.long_calls = LongCalls(ReceiverSettings(), capacity=lambda: 100, on_free=lambda client_id: None)
        self.overdue_calls = overdue_calls(ManualClock())
        self.reserved = 0
        self.doubts = Doubts(wall_ms=lambda: self.now(), trusted=lambda: True)
        self.now: Callable[[], int] = lambda: 0
        self.on_free: Callable[[], None] = lambda: None
        self._wanted = False

    def headroom(self, client_id: ClientId) -> int:
        headroom = self.limit - len(self.waiting) - len(self.started) - self.reserved
        self._wanted = self._wanted or headroom <= 0
        return headroom

    def _freed(self) -> None:
        if self._wanted:
            self._wanted = False
            self.on_free()

    def suspended(self, client_id: ClientId, *, lasts: bool) -> None:
        pass

    def claim_ahead_ms(self, client_id: ClientId, settings: MinuteSettings) -> int:
        return settings.claim_ahead_ms

    def reserve(self, client_id: ClientId, rows: int) -> None:
        self.reserved += rows

    def submit(self, jobs: Sequence[Job]) -> None:
        self.waiting.extend(jobs)
        self.seen.extend(jobs)

    def withdraw(self, owner: object) -> list[Job]:
        taken = [job for job in self.waiting if job.owner is owner]
        self.waiting = [job for job in self.waiting if job.owner is not owner]
        self._freed()
        return taken

    def start(self) -> Job:
        """Start the attempt of the earliest waiting row."""
        job = self.waiting.pop(0)
        self.started.append(job)
        return job

    def finish(self, job: Job, outcome: Outcome = DELIVERED) -> None:
        self.started.remove(job)
        job.owner.attempt_ended(job.claim.row.key, outcome, now=self.now())
        self._freed()

    def serve(self) -> None:
        """Deliver all waiting rows at once."""
        while self.waiting:
            self.finish(self.start())

    def keys(self) -> list[RowKey]:
        return [job.claim.row.key for job in self.seen]


class FaultySchedules:
    """The store behind a hook: 'refuse' (no effect), 'lose' (done, but the answer is lost), 'wait' until `gate` is
    set.
    """

    def __init__(self, inner: ScheduleStore | EventStore) -> None:
        self._inner = inner
        self.hook: Callable[[str], str | None] = lambda method: None
        self.asked: list[str] = []
        self.gate = asyncio.Event()

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*arguments: Any, **named: Any) -> Any:
            self.asked.append(method)
            fault = self.hook(method)
            if fault == "wait":
                await self.gate.wait()
            answer = None if fault == "refuse" else await getattr(self._inner, method)(*arguments, **named)
            if fault not in ("refuse", "lose"):
                return answer
            if method in ("open", "commit", "update"):
                return Unknown("planted")
            raise StoreUnavailable("planted")

        return ask


class _Feeds(GivenClients):
    """The client has a feed if the bench says so, whatever else it is."""

    def __init__(self, bench: "PollerBench") -> None:
        self._bench = bench

    def has_feed(self, client_id: ClientId) -> bool:
        return self._bench.has_feed


class PollerBench:
    """`grant` starts a poller; `advance` lets time pass. Virtual time begins at the start of MINUTE."""

    def __init__(self, *, pollers: int = 2, recovery_minutes: int = 4) -> None:
        self.clock = SimClock()
        self.storage = Storage.over(InMemoryConnection())
        self.schedules = FaultySchedules(self.storage.schedules)
        self.jobs = Jobs()
        self.is_trusted = True
        self.has_feed = False
        self.client: Callable[[], ServedClient | None] = lambda: None
        self.lost: list[tuple[PollerId, int]] = []
        self.faults: list[BaseException] = []
        self.crashes: list[BaseException] = []
        self.tasks = Tasks(lambda name, error: self.crashes.append(error))
        self.count = pollers
        randomness = SeededRandomness()
        schedules: Any = self.schedules
        writer = ScheduleWriter(
            schedules=schedules,
            keys=self.storage.schedule_keys,
            leases=self.storage.leases,
            clock=self.clock,
            randomness=randomness,
            hints=self,
        )
        unused: Any = None
        books = Bookkeeper(
            balances=self.storage.balances,
            dead_letters=self.storage.dead_letters,
            attempts=self.storage.attempts,
            clock=self.clock,
            spawn=self.tasks.spawn,
        )
        runtime = node_runtime(
            self.clock,
            randomness=randomness,
            spawn=self.tasks.spawn,
            budget=budget(self.clock, minutes_at_once=recovery_minutes),
            trusted=lambda: self.is_trusted,
            on_fault=lambda name, error: self.faults.append(error),
        )
        clients = GivenClients(lambda: [client for client in [self.client()] if client is not None])
        self.events = FaultySchedules(self.storage.events)
        events: Any = self.events
        self.tracks = EventTracks(store=events, runtime=runtime)
        self.context = MinuteContext(
            runtime=runtime,
            schedules=schedules,
            writer=writer,
            clients=clients,
            dispatcher=self.jobs,
            notices=unused,
            node_events=unused,
            fire_guard=CronFireGuard(crons=self.storage.crons, schedules=schedules),
            books=books,
            limits=MinuteLimits(MinuteSettings()),
            breaker_longest_seconds=300.0,
            recount=lambda partition, epoch: None,
            events=OutcomeEvents(
                tracks=self.tracks,
                store=events,
                schedules=schedules,
                leases=self.storage.leases,
                clients=_Feeds(self),
                runtime=runtime,
            ),
            ends=None,
        )
        self.pollers = ClientPollers(
            client_id=CLIENT,
            context=self.context,
            settings=MinuteSettings(),
            stagger=0.0,
            on_lost=lambda poller_id, epoch: self.lost.append((poller_id, epoch)),
        )
        self.jobs.on_free, self.jobs.now = self.pollers.wake, self.clock.wall_ms

    async def begin(self, *, start: int = MINUTE) -> None:
        pollers = [PollerKey(CLIENT, poller_id) for poller_id in range(POLLER, POLLER + self.count)]
        await self.storage.leases.create_pollers(pollers, watermark=start)
        self.tasks.spawn(self.pollers.run(), name="pollers")
        self.tasks.spawn(self.pollers.recover(), name="recovery")
        for poller in pollers:
            lease = await self.storage.leases.read_lease(poller)
            assert lease is not None
            await self.storage.leases.write_lease(expected=lease, new=replace(lease, epoch=EPOCH))
            self.tracks.granted(CLIENT, PollerId(poller.poller_id), epoch=EPOCH)
            self.pollers.grant(PollerId(poller.poller_id), epoch=EPOCH, start=Minute(start))
        await self.advance(0)

    async def close(self) -> None:
        await self.tasks.close()
        await self.storage.close()
        assert self.crashes == []

    async def advance(self, seconds: float) -> None:
        await virtual_loop().advance(seconds)

    def now(self) -> UnixMillis:
        return UnixMillis(self.clock.wall_ms())

    def hint(self, partition: Partition, key: RowKey) -> None:
        self.pollers.hint(partition.poller_id, partition.minute, [key])

    async def create(self, *definitions: Definition, hinted: bool = False) -> None:
        for one in definitions:
            await self.storage.schedules.insert(one)
            if hinted:
                self.hint(one.partition, one.key)
        await self.advance(0)

    async def row(self, one: Definition) -> Row:
        _, rows = await self.storage.schedules.read_rows(one.partition, [one.key])
        return rows[one.key]

    def position(self) -> int:
        return self.pollers.position(POLLER) - MINUTE


def on_pollers(scenario: Callable[[PollerBench], Awaitable[None]], **given: Any) -> None:
    """Run a scenario on virtual time."""

    async def run() -> None:
        bench = PollerBench(**given)
        try:
            await scenario(bench)
        finally:
            await bench.close()

    run_virtual(run)
