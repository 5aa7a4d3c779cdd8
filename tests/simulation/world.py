"""A deterministic world: virtual time, processes with clocks of their own, one store behind faults, scripted receivers.

Nodes are the real `Node` over the real stores over the in-memory connection; the API is the real `ScheduleWriter` and
`CancelSchedules`. All randomness comes from the seed, so the same seed gives the same trace. What must hold is checked
at every call and, by `settle_down`, at rest.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from itertools import cycle
from typing import Any

import msgspec

from cql.connection import Connection
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from membership.identity import PollerKey
from poller_cluster.settings import MinuteSettings, NodeSettings, ReceiverSettings
from scheduler_service.domain.acknowledgements import Ack, AckSettings
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.destinations import DESTINATIONS_SINCE, read_named_url
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import (
    ClientId,
    Partition,
    PollerId,
    RowKey,
    UnixMillis,
    key_of,
    minute_of,
    minute_start,
    new_schedule_id,
    partition_of,
    poller_of,
)
from scheduler_service.domain.options import ScheduleOptions, encode_headers, encode_options, original_kind, pin_of
from scheduler_service.domain.quotas import pinned_poller
from scheduler_service.domain.retry_rows import IN_DOUBT
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.cancel_schedules import Cancelled, CancelResult, CancelSchedules
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter
from tests.simulation.books import check_books
from tests.simulation.creates import IN_TIME_MS, CreateRecord, out_of_order, record_of
from tests.simulation.destinations import Destinations, DestinationWatch
from tests.simulation.faults import FaultyConnection
from tests.simulation.flows import FlowWatch
from tests.simulation.notices import Notices
from tests.simulation.receivers import Call, Receiver
from tests.simulation.sim_clock import EPOCH_MS, SimClock
from tests.simulation.sim_node import SeededRandomness, SimNode, announced_low_watermark
from tests.simulation.token_servers import TokenServer
from tests.support.virtual_loop import run_virtual, virtual_loop

CLOCK_TOLERANCE_MS = 300.0
"""How early a call may be by the true clock where processes' clocks differ from it by up to 100 ms and drift."""

WITHOUT_END = (None, State.RETRYING)
"""What the table shows as the state of rows that have not ended."""


class Violation(AssertionError):
    """A promise was broken."""


class World:
    """See the module. Build it inside a virtual loop."""

    def __init__(self, seed: int, *, node_settings: NodeSettings | None = None) -> None:
        self.rng = random.Random(seed)
        self.node_settings = node_settings or NodeSettings()
        self.memory = self.storage()
        self.server_clocks = [SimClock()]
        """Clocks of the store's servers, each on a machine of its own."""
        self.memory.server_clocks = [clock.system_ms for clock in self.server_clocks]
        self.store: Connection = self.memory
        self.receiver = Receiver()
        self.token_server = TokenServer()
        self.nodes: dict[str, SimNode] = {}
        self.leaving: list[SimNode] = []
        self.incarnations = 0
        self.nodes_know = DESTINATIONS_SINCE
        """The newest stored form that nodes started from now on know."""
        self.skewed = self.faults_planted = False
        self.asked: dict[str, CreateRecord] = {}
        self.trace: list[tuple[float, str, str]] = []
        self.crashes: list[tuple[str, BaseException]] = []
        self.truth = Storage.over(self.memory)
        self.api_clock = SimClock()
        self.reader_clock: Clock = self.api_clock
        """The clock of the process that reads the books."""
        self.api_connection = FaultyConnection(self.memory, clock=self.api_clock, rng=random.Random(seed + 1))
        self.api_randomness = SeededRandomness(random.Random(seed + 2))
        self._start_api()
        self.hints_lost = self.hints_crowded = 0.0
        self.hints_named = math.inf
        """How many more rows hints name. Hints beyond that name only the partition."""
        self.clients: dict[str, Client] = {}
        self.furthest_ms = 0
        """The latest time by which nodes acted while most clocks were wrong: rows due by then may have been called,
        passed or deleted too early."""
        self.flows = FlowWatch()
        self.destination_watch = DestinationWatch()
        self.destinations = Destinations(self)
        self.notices = Notices(self)
        self.balance_epochs: dict[Partition, int] = {}

    def _start_api(self) -> None:
        self.api_storage = Storage.over(
            self.api_connection,
            clock=self.api_clock,
            randomness=self.api_randomness,
            packs=cycle((True, False)).__next__,
        )
        self.writer = ScheduleWriter(
            schedules=self.api_storage.schedules,
            keys=self.api_storage.schedule_keys,
            leases=self.api_storage.leases,
            clock=self.api_clock,
            randomness=self.api_randomness,
            hints=self,
            low_watermark_of=lambda incarnation: announced_low_watermark(self.memory, incarnation),
        )
        schedules = self.api_storage.schedules
        self.resolve_schedule = ResolveSchedule(schedules=schedules, writer=self.writer)
        self.cancel_schedules = CancelSchedules(
            schedules=schedules,
            writer=self.writer,
            clock=self.api_clock,
            has_feed=lambda client_id: self.clients[client_id].settings.event_feed,
        )

    async def restart_api(self) -> None:
        """Start another API process instead of a dead one, whose pending work is lost and whose answers nobody
        awaits.
        """
        await self.api_storage.close()
        self._start_api()

    def storage(self) -> InMemoryConnection:
        return InMemoryConnection()

    # Time.

    def now_ms(self) -> int:
        return int(EPOCH_MS + asyncio.get_running_loop().time() * 1000)

    def behind_ms(self) -> int:
        """How far behind the truth the time may be that a process believes when its own clock is behind."""
        return 0

    async def advance(self, seconds: float) -> None:
        await virtual_loop().advance(seconds)
        await self.check_ends()
        self.check_crashes()

    async def advance_to(self, instant_ms: float) -> None:
        await self.advance(max((instant_ms - self.now_ms()) / 1000.0, 0.0))

    def note(self, who: str, what: str) -> None:
        self.trace.append((asyncio.get_running_loop().time(), who, what))

    def crashed(self, name: str, error: BaseException) -> None:
        self.crashes.append((name, error))

    def faulted(self, name: str, error: BaseException) -> None:
        """An unhandled exception of ours: a failure too, unless the scenario planted it."""
        if not self.faults_planted:
            self.crashed(name, error)

    def check_crashes(self) -> None:
        for name, error in self.crashes:
            raise Violation(f"task {name} died: {error!r}") from error

    # Nodes.

    def add_node(self, name: str, *, skew_ms: float = 0.0, rate: float = 1.0) -> SimNode:
        self.note(name, "starts")
        self.skewed = self.skewed or skew_ms != 0.0 or rate != 1.0
        self.incarnations += 1
        node = self.nodes[name] = SimNode(
            name=name,
            incarnation=self.incarnations,
            clock=SimClock(skew_ms=skew_ms, rate=rate),
            rng=random.Random(self.rng.getrandbits(64)),
            store=self.store,
            receiver=self.receiver,
            token_server=self.token_server,
            settings=self.node_settings,
            on_call=self.called,
            on_end=self.call_ended,
            on_crash=self.crashed,
            on_fault=self.faulted,
            hints=self,
            knows=self.nodes_know,
        )
        node.start()
        return node

    async def kill(self, name: str) -> None:
        self.note(name, "is killed")
        await self.nodes.pop(name).kill()

    async def kill_all(self) -> None:
        for name in list(self.nodes):
            await self.kill(name)

    async def stop(self, name: str) -> None:
        self.note(name, "is stopped")
        node = self.nodes.pop(name)
        await node.stop()
        self.note(name, "has left")
        await node.kill()

    def leave(self, name: str) -> None:
        """SIGTERM, without waiting for the end."""
        self.note(name, "is told to stop")
        node = self.nodes.pop(name)
        self.leaving.append(node)
        node.tasks.append(asyncio.get_running_loop().create_task(node.stop()))

    async def revive(self) -> None:
        """Start again every process whose incarnation has ended by itself, as a supervisor would."""
        for name, node in list(self.nodes.items()):
            if node.over is not None:
                await self.kill(name)
                self.add_node(name)

    def pause(self, name: str) -> None:
        self.note(name, "is paused")
        self.nodes[name].clock.pause()

    def resume(self, name: str) -> None:
        self.note(name, "goes on")
        self.nodes[name].clock.resume()

    def cut_off(self, *names: str) -> None:
        for name in names or tuple(self.nodes):
            self.note(name, "loses the store")
            self.nodes[name].connection.plan.cut_off = True

    def heal(self) -> None:
        self.note("world", "heals")
        for node in self.nodes.values():
            node.connection.plan = type(node.connection.plan)()
            node.clock.resume()
        self.api_connection.plan = type(self.api_connection.plan)()

    # Clients and their calls.

    async def add_client(self, name: str = "shop", *, quota: int = 1, settings: ClientSettings | None = None) -> Client:
        client = Client(
            client_id=ClientId(name),
            poller_quota=quota,
            poller_ceiling=quota,
            state=ClientState.ACTIVE,
            settings=settings or ClientSettings(),
            revision=1,
            created_at=UnixMillis(self.now_ms()),
        )
        await self.truth.leases.create_pollers(
            [PollerKey(name, poller) for poller in range(quota)], watermark=minute_of(self.now_ms())
        )
        await self.truth.clients.create_client(client)
        self.clients[name] = client
        return client

    async def change_client(self, name: str, **changes: Any) -> None:
        old = self.clients[name]
        new = msgspec.structs.replace(old, revision=old.revision + 1, **changes)
        new = msgspec.structs.replace(new, poller_ceiling=max(old.poller_ceiling, new.poller_quota))
        await self.truth.leases.create_pollers(
            [PollerKey(name, poller) for poller in range(old.poller_ceiling, new.poller_ceiling)],
            watermark=minute_of(self.now_ms()),
        )
        await self.truth.clients.update_client(expected_revision=old.revision, client=new)
        self.clients[name] = new

    def define(
        self,
        client: str,
        due_ms: float,
        *,
        url: str = "http://receiver.test/",
        ordering_key: str | None = None,
        flow: Flow | None = None,
        skip_after_seconds: float | None = None,
        timeout_seconds: float | None = None,
        ack: Ack | None = None,
        told: str | None = None,
        succeed_within_seconds: float | None = None,
    ) -> tuple[CreateRecord, Definition]:
        due, quota = UnixMillis(int(due_ms)), self.clients[client].poller_quota
        poller = PollerId(self.rng.randrange(quota))
        options = encode_options(
            ScheduleOptions(
                flow=flow,
                skip_after_seconds=skip_after_seconds,
                timeout_seconds=timeout_seconds,
                ack=ack,
                on_success=told,
                on_failure=told,
                succeed_within_seconds=succeed_within_seconds,
            )
        )
        if (pin := pin_of(options, ordering_key)) is not None:
            poller = pinned_poller(ClientId(client), pin, quota=quota)
        schedule_id = new_schedule_id(due=due, poller_id=poller, randomness=self.api_randomness)
        named = read_named_url(url)
        asked = self.asked[str(schedule_id)] = CreateRecord(
            ClientId(client),
            schedule_id,
            due,
            ordering_key,
            flow=flow,
            destination=None if named is None else named.name,
        )
        return asked, Definition(
            client_id=ClientId(client),
            poller_id=poller,
            due=due,
            schedule_id=schedule_id,
            kind=original_kind(options),
            method="POST" if named is None else "",
            url=url,
            headers=encode_headers([("x-due", str(int(due)))]),
            body=b"",
            options=options,
            ordering_key=ordering_key,
            created_at=UnixMillis(self.now_ms()),
        )

    async def create(self, client: str, due_ms: float, **columns: Any) -> CreateRecord:
        """Create a schedule; with an unavailable store it stays unacknowledged."""
        asked, definition = self.define(client, due_ms, **columns)
        try:
            await self.writer(definition, consistency=self.clients[client].settings.write_consistency)
        except StoreUnavailable:
            self.note("api", f"create {asked.schedule_id} is not acknowledged")
        else:
            asked.acknowledged = True
            asked.in_time = self.now_ms() < minute_start(minute_of(asked.due)) - IN_TIME_MS
        return asked

    async def cancel(self, asked: CreateRecord) -> CancelResult | None:
        try:
            result = await self.cancel_schedules.one(asked.client_id, asked.schedule_id)
        except StoreUnavailable:
            return None
        if isinstance(result, Cancelled):
            asked.cancelled = True
        return result

    def hint(self, partition: Partition, key: RowKey) -> None:
        """HintSender of API and nodes: reaches the poller's owner unless it is lost, with or without the row's name."""
        luck = self.rng.random()
        if luck < self.hints_lost:
            return
        self.hints_named -= 1
        told = None if luck < self.hints_lost + self.hints_crowded or self.hints_named < 0 else key
        for node in (*self.nodes.values(), *self.leaving):
            node.clock.when_running(lambda node=node: node.node.pollers.hinted([(partition, told)]))  # type: ignore[misc]

    # What must hold.

    def called(self, node: SimNode, call: Call) -> None:
        self.note(node.name, f"calls {call.schedule_id} attempt {call.attempt} fence {call.fence}")
        if self.notices.sent(node, call):
            return
        asked = record_of(self.asked, call)
        early = asked.due - call.at_ms
        if early > self.tolerance_ms(node):
            raise self.violation(f"{call.schedule_id} was called {early:.0f} ms early")
        if asked.cancelled:
            raise self.violation(f"{call.schedule_id} was called after its cancel was answered")
        if not node.node.membership_agent.trusted():
            raise self.violation(f"{node.name} called without trust")
        lease = self.lease_of(asked)
        if lease != (node.name, node.node.incarnation.number, call.fence):
            raise self.violation(
                f"{node.name} called {call.schedule_id} under fence {call.fence}; the lease is {lease}"
            )
        settings = self.clients[call.client_id].settings
        if asked.calls and settings.in_doubt == "drop" and not call.attempt > asked.calls[-1].attempt:
            raise self.violation(f"{call.schedule_id} of an at-most-once client was called twice")
        same = [earlier for earlier in asked.calls if earlier.attempt == call.attempt]
        if same and not call.redelivery:
            raise self.violation(f"{call.schedule_id} was called twice (attempt {call.attempt}) without doubt")
        asked.calls.append(call)
        if asked.flow is not None and (wrong := self.flows.started(asked, call, asked.flow.limits(settings.flows))):
            raise self.violation(wrong)
        if asked.destination is not None and (wrong := self.destination_watch.wrong(asked.destination, call)):
            raise self.violation(wrong)

    def call_ended(self, call: Call) -> None:
        """A node has heard of a call's end."""
        if (asked := self.asked.get(call.schedule_id)) is not None and asked.flow is not None:
            self.flows.ended(asked, call)

    def tolerance_ms(self, node: SimNode) -> float:
        """How early this node may call, by the true clock."""
        return CLOCK_TOLERANCE_MS if self.skewed else 0.0

    async def check_ends(self) -> None:
        """An end state changes only by an explicit redelivery."""
        for asked in self.asked.values():
            state = self.state_of(asked)
            if asked.end is not None and state != asked.end:
                raise self.violation(f"{asked.schedule_id} had ended as {asked.end}, now it is {state}")
            if state not in WITHOUT_END:
                asked.end = state

    def lease_of(self, asked: CreateRecord) -> tuple[str, int, int] | None:
        """Current owner and epoch of a schedule's poller in the store."""
        table = self.memory.tables["pollers"]
        partition = table.partitions.get((asked.client_id,))
        row = None if partition is None else partition.rows.get((poller_of(asked.schedule_id),))
        if row is None:
            return None
        owner, incarnation, epoch = (
            row.cells[table.regular_position[name]] for name in ("owner_node", "owner_incarnation", "epoch")
        )
        return owner, incarnation, epoch

    def violation(self, text: str) -> Violation:
        lines = [f"{at:10.3f} {who:8} {what}" for at, who, what in self.trace[-60:]]
        error = Violation(text + "\n" + "\n".join(lines))
        self.crashes.append(("violation", error))
        return error

    def state_of(self, asked: CreateRecord) -> str | None:
        """The state in the table, read after each step of a scenario: without a request and its tasks."""
        found = self.cells_of(asked, "state")
        state: str | None = None if found is None else found[0]
        return state

    def cells_of(self, asked: CreateRecord, *columns: str) -> list[Any] | None:
        """Some columns of its row; None: there is none."""
        table = self.memory.tables["schedules"]
        key, clustering = asked.address
        partition = table.partitions.get(key)
        row = None if partition is None else partition.rows.get(clustering)
        return None if row is None else [row.cells[table.regular_position[column]] for column in columns]

    async def row_of(self, asked: CreateRecord) -> Row | None:
        partition, key = partition_of(asked.client_id, asked.schedule_id), key_of(asked.schedule_id)
        _, rows = await self.truth.schedules.read_rows(partition, [key], serial=True)
        return rows.get(key)

    def unfinished(self) -> list[CreateRecord]:
        """Acknowledged creates without an end."""
        return [asked for asked in self.asked.values() if asked.acknowledged and self.state_of(asked) in WITHOUT_END]

    async def settle_down(self, *, within: float = 300.0) -> None:
        """End all faults: every acknowledged create must then reach exactly one end, and the books must agree."""
        deadline = asyncio.get_running_loop().time() + within
        while left := self.unfinished():
            await self.revive()
            if asyncio.get_running_loop().time() > deadline:
                row = await self.row_of(left[0])
                raise self.violation(f"{len(left)} acknowledged schedules have no end, the first: {left[0]}\n{row}")
            await self.advance(1.0)
        await self.advance(1.0)
        await check_books(self)
        if (pair := out_of_order(self.asked.values())) is not None:
            raise self.violation(f"{pair[1]} was called before {pair[0]} had ended")
        for asked in self.asked.values():
            row = await self.row_of(asked)
            if row is None or not row.defined:
                continue
            if row.state == State.DELIVERED and not asked.calls:
                raise self.violation(f"{asked.schedule_id} is delivered but was never called")
            if row.state == State.CANCELLED and asked.calls:
                if asked.calls[-1].attempt <= (row.attempts or 0) or row.reason == IN_DOUBT:
                    continue  # it was cancelled between attempts, some of which may not have reached the receiver
                raise self.violation(f"{asked.schedule_id} is cancelled but was called")
            if asked.cancelled and row.state != State.CANCELLED:
                raise self.violation(f"{asked.schedule_id}: cancel was answered, its state is {row.state}")

    async def close(self) -> None:
        for name in list(self.nodes):
            await self.kill(name)
        for node in self.leaving:
            await node.kill()
        await self.api_storage.close()
        await self.store.close()
        self.check_crashes()


Scene = Callable[[World], Awaitable[None]]


def simulate(
    scenario: Scene,
    *,
    seed: int = 1,
    settings: MinuteSettings | None = None,
    receivers: ReceiverSettings | None = None,
    bounds: ClientBounds | None = None,
) -> World:
    """Run a scenario in a world of its own; returns the world, for its trace."""
    node_settings = NodeSettings(
        minute=settings or MinuteSettings(),
        receivers=receivers or ReceiverSettings(),
        clients=bounds or ClientBounds(),
        acknowledgements=AckSettings(base_url="http://127.0.0.1:8080"),
    )

    async def run() -> World:
        world = World(seed, node_settings=node_settings)
        try:
            await scenario(world)
        finally:
            await world.close()
        return world

    return run_virtual(run, seed=seed)
