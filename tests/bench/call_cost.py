"""Measures what calls cost one node, in its own process: CPU microseconds each, and the kernel's part of them.

    python -m tests.bench.call_cost [--rows N] [--pollers N] [--rounds N] [--spread SECONDS] [--flow-keys N]

The minutes' runs, the dispatcher and the delivery engine are real, and so are the sockets to a receiver in a process of
its own. Cassandra is not: pages are available at once, and owner commits are encoded as requests and applied a turn of
the loop later. So the driver is left out; the best of many rounds differs little from run to run. All rows of a round
are due within the `--spread` seconds before it begins; if this is negative, they are due after it begins. Those that
start over a second late cost their explanation besides, and the later ones of a long round are late, too: for calls
that are on time take few rows and a short spread, `--rows 2048 --spread 0.1`. With `--flow-keys` the rows have so many
flow keys in turn, whose limits keep none of them waiting.
"""

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import uvloop
from cassandra.cqltypes import lookup_casstype_simple

from cql.binding import Binder
from cql.connection import AnswerRows, Item, Parameters
from cql.group_commit import GroupCommit
from cql.packed import pack_content
from cql.schedules import CqlScheduleStore
from cql.settings import StorageSettings
from membership.conditional import APPLIED, Answer
from membership.view import MembersView
from minutehand.local.machine import free_ports
from minutehand.running import spare_collector
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.bookkeeping import Bookkeeper
from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.due_clock import DueClock
from poller_cluster.dispatch.preparation import Preparation
from poller_cluster.dispatch.request import Sender
from poller_cluster.minute.admission import MinuteAdmission
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.limits import MinuteLimits
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.runner import MinuteRun
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.notices.node_events import NodeEvents
from poller_cluster.settings import BackgroundSettings, MinuteSettings
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.flows import Flow
from scheduler_service.domain.ids import (
    MINUTE_MS,
    ClientId,
    Minute,
    Partition,
    PollerId,
    UnixMillis,
    compose_schedule_id,
    minute_of,
    minute_start,
)
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.options import ScheduleOptions, encode_options
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.randomness import SystemRandomness
from tests.support.node_parts import GivenOrder, GivenPollers

CLIENT = ClientId("bench")
SETTLING_MS = 2 * MINUTE_MS
"""How far the clock is moved when all calls are made, so that the minutes are swept."""
KINDS = {"t": "UTF8Type", "i": "Int32Type", "l": "LongType", "m": "TimestampType", "u": "UUIDType", "b": "BytesType"}
COLUMNS = {
    "schedules.commit": "libtimliu",
    "schedules.write_outcome": "timmmitttlumitimmu",
    "schedules.write_delivery": "tmttimmu",
}
"""Types of the parameters of an owner's writes."""
UNSET_BEFORE, UNSET_BEHIND = (None,) * 11, (None,) * 7
"""The columns of a packed row around `created_at`, up to its content."""


class _Column:
    def __init__(self, kind: str) -> None:
        self.name, self.type = kind, lookup_casstype_simple(KINDS[kind])


class _Prepared:
    """The driver's form of a prepared statement."""

    query_id = b"0123456789abcdef"

    def __init__(self, columns: str) -> None:
        self.column_metadata = [_Column(kind) for kind in columns]


class InstantConnection:
    """Holds pages as the driver would return them, applies every commit, and counts the rows recorded."""

    def __init__(self) -> None:
        self._binders = {name: Binder(cast(Any, _Prepared(columns))) for name, columns in COLUMNS.items()}
        self.rows: dict[int, list[tuple[Any, ...]]] = {}
        self.states: dict[int, list[tuple[Any, ...]]] = {}
        self.recorded = 0
        self.advances = 0
        self.all_recorded: asyncio.Future[None] | None = None
        self.wanted = 0

    async def select(self, name: str, parameters: Parameters, **options: Any) -> list[tuple[Any, ...]]:
        poller_id, limit = parameters[1], parameters[-1]
        await _turn()
        swept = "sweep" in name
        rows = (self.states if swept else self.rows)[poller_id]
        if len(parameters) == 4:
            return [(None, None, None, *row) for row in rows[:limit]]
        after = parameters[3:5]
        start = next(position for position, row in enumerate(rows) if (row[0], row[1]) == after) + 1
        return rows[start : start + limit]

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        b"".join([self._binders[name].row(parameters) for name, parameters in items])
        await _turn()
        self.advances += 1
        self.recorded += len(items) - 1
        if self.recorded >= self.wanted and self.all_recorded is not None and not self.all_recorded.done():
            self.all_recorded.set_result(None)
        return APPLIED

    def replicas(self, name: str, parameters: Parameters) -> int:
        return 0


async def _turn() -> None:
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(answer.set_result, None)
    await answer


class ShiftedClock(SystemClock):
    """The system's clock, `ahead_ms` ahead."""

    ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


class OneServedClient(ServedClients):
    """One client, known from the start."""

    def __init__(self, pollers: int) -> None:
        client = Client(
            client_id=CLIENT,
            poller_quota=pollers,
            poller_ceiling=pollers,
            state=ClientState.ACTIVE,
            settings=ClientSettings(),
            revision=1,
            created_at=UnixMillis(1),
        )
        self._client = ServedClient(client, client.settings.effective(poller_quota=pollers), (b"s" * 32,))

    def get(self, client_id: ClientId) -> ServedClient | None:
        return self._client

    def open_headers(self, client_id: ClientId, headers: str) -> str:
        return headers


class NoBalances:
    """Only a settled minute's write of the books is supported."""

    async def write(self, balance: Any) -> Answer[Any]:
        return APPLIED


class WokenPollers(GivenPollers):
    """All pollers of the one client."""

    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__()
        self._wake = wake

    def wake(self, client_id: ClientId) -> None:
        self._wake()


class Bench:
    """One node's parts, and the rounds in which it makes calls."""

    def __init__(self, *, pollers: int, url: str, flow_keys: int) -> None:
        self.pollers, self._url, self._flow_keys = pollers, url, flow_keys
        self.clock = ShiftedClock()
        self.connection = InstantConnection()
        self._settings = MinuteSettings()
        randomness = SystemRandomness()
        self._tasks = Tasks(lambda name, error: print(name, repr(error), file=sys.stderr))
        commits = cast(GroupCommit, None)
        store = CqlScheduleStore(
            cast(Any, self.connection),
            commits={"LOCAL_QUORUM": commits, "EACH_QUORUM": commits},
            settings=StorageSettings(),
            tasks=self._tasks,
            clock=self.clock,
            randomness=randomness,
            packs=lambda: True,
        )
        self._clients = OneServedClient(pollers)
        policy = NetworkPolicy.parse(allow=["127.0.0.0/8"])
        self.engine = DeliveryEngine(clock=self.clock, policy=policy, settings=DeliverySettings())
        books = Bookkeeper(
            balances=cast(Any, NoBalances()),
            dead_letters=cast(Any, None),
            attempts=cast(Any, None),
            clock=self.clock,
            spawn=self._tasks.spawn,
        )
        view = MembersView(ahead_at_most_ms=0, offset_known=True)
        runtime = NodeRuntime(
            clock=self.clock,
            randomness=randomness,
            spawn=self._tasks.spawn,
            budget=BackgroundBudget(clock=self.clock, randomness=randomness, settings=BackgroundSettings()),
            trusted=lambda: True,
            on_fault=lambda what, error: print(what, repr(error), file=sys.stderr),
        )
        preparation = Preparation(
            clients=self._clients,
            sender=Sender("bench-1@1763836800000", "0.1.0"),
            fetcher=cast(Any, None),
            runtime=runtime,
            on_token=lambda jobs: self.dispatcher.resume(jobs),
            on_fetched=lambda key, failure: None,
        )
        self.dispatcher = Dispatcher(
            engine=self.engine,
            clients=self._clients,
            pollers=WokenPollers(self._wake),
            preparation=preparation,
            due_clock=DueClock(clock=self.clock, view=lambda: view, limit_ms=1_000),
            runtime=runtime,
            on_result=books.attempt_made,
        )
        self._context = MinuteContext(
            runtime=runtime,
            schedules=store,
            writer=cast(Any, None),
            clients=self._clients,
            dispatcher=self.dispatcher,
            notices=cast(Any, None),
            node_events=NodeEvents(clients=self._clients, writer=cast(Any, None), runtime=runtime),
            fire_guard=cast(Any, None),
            books=books,
            limits=MinuteLimits(self._settings),
            breaker_longest_seconds=300.0,
            recount=lambda partition, epoch: None,
            events=None,
            ends=None,
        )
        self._runs: list[MinuteRun] = []

    async def start(self) -> None:
        await self.engine.start()
        self._tasks.spawn(self.dispatcher.run(), name="dispatcher")

    def fill(self, rows: int, *, spread_ms: int, round_: int) -> Minute:
        """Create rows for each poller, and set the clock to the end of the time in which they are due."""
        minute = Minute(minute_of(int(time.time() * 1000)) + 10 + 10 * round_)
        start = minute_start(minute)
        connection = self.connection
        connection.rows.clear()
        flows = [Flow(f"customer-{number}", 10_000.0, 1_000) for number in range(self._flow_keys)]
        options = [ScheduleOptions(flow=flow) for flow in flows] or [ScheduleOptions()]
        contents = [pack_content("POST", self._url, "[]", b"x" * 200, encode_options(each)) for each in options]
        for poller in range(self.pollers):
            found: list[tuple[Any, ...]] = []
            for number in range(rows // self.pollers):
                due = UnixMillis(start + number * abs(spread_ms) * self.pollers // rows)
                id_ = compose_schedule_id(due=due, poller_id=poller, tail=number)
                content = contents[(number * self.pollers + poller) % len(contents)]
                found.append((due, id_, *UNSET_BEFORE, start, *UNSET_BEHIND, content, None))
            connection.rows[poller] = found
        connection.states = {
            poller: [(row[0], row[1], "call", start, "delivered", row[0] + 1, *(None,) * 4) for row in found]
            for poller, found in connection.rows.items()
        }
        self.clock.ahead_ms = start + max(spread_ms, 0) - int(time.time() * 1000)
        connection.recorded, connection.wanted = 0, rows
        connection.all_recorded = asyncio.get_running_loop().create_future()
        return minute

    async def call_all(self, minute: Minute) -> None:
        """Run until every row is recorded."""
        self._runs = [self._run(PollerId(poller), minute) for poller in range(self.pollers)]
        work = [asyncio.create_task(run.run()) for run in self._runs]
        assert self.connection.all_recorded is not None
        await self.connection.all_recorded
        self.clock.ahead_ms += SETTLING_MS
        self._wake()
        await asyncio.gather(*work)

    def _run(self, poller_id: PollerId, minute: Minute) -> MinuteRun:
        admission = MinuteAdmission(
            client_id=CLIENT,
            minute=minute,
            poller=GivenOrder(),
            settings=self._settings,
            context=self._context,
        )
        machine = PollerMinute(
            partition=Partition(CLIENT, poller_id, minute), epoch=7, settings=self._settings, admission=admission
        )
        return MinuteRun(machine=machine, context=self._context, admission=admission)

    def _wake(self) -> None:
        for run in self._runs:
            run.wake()


@contextmanager
def receiver() -> Iterator[str]:
    """Start a receiver in a process of its own; returns its URL."""
    [port] = free_ports(1)
    process = subprocess.Popen([sys.executable, "-m", "tests.support.receiver", "--port", str(port)])
    try:
        yield f"http://127.0.0.1:{port}/callbacks"
    finally:
        process.kill()
        process.wait()


async def measure(options: argparse.Namespace, url: str, show: Callable[[str], None]) -> dict[str, float]:
    """CPU microseconds per call: of the process in the best round, and of the kernel in the round with the least."""
    bench = Bench(pollers=options.pollers, url=url, flow_keys=options.flow_keys)
    await asyncio.sleep(0.5)
    await bench.start()
    figures: list[tuple[float, float]] = []
    for number in range(options.rounds + 1):
        minute = bench.fill(options.rows, spread_ms=round(options.spread * 1000), round_=number)
        if number == 0:
            spare_collector()
        profile = cProfile.Profile() if options.profile and number == options.rounds else None
        before = bench.connection.advances
        if profile:
            profile.enable()
        cpu, kernel, wall = time.process_time(), os.times().system, time.perf_counter()
        await bench.call_all(minute)
        cpu, kernel, wall = time.process_time() - cpu, os.times().system - kernel, time.perf_counter() - wall
        if profile:
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(options.profile)
        elif number:
            figures.append((cpu, kernel))
        show(
            f"round {number}: {1e6 * cpu / options.rows:.1f} us a call, {options.rows / wall:,.0f}/s, "
            f"{bench.connection.advances - before} advances"
        )
    await bench.engine.stop(0)
    return {
        "process_us": round(1e6 * min(cpu for cpu, _ in figures) / options.rows, 1),
        "kernel_us": round(1e6 * min(kernel for _, kernel in figures) / options.rows, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.call_cost", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--rows",
        type=int,
        default=32_000,
        help="calls of a round, rounded up to as many for each poller (default: %(default)s)",
    )
    parser.add_argument("--pollers", type=int, default=64, help="pollers they are spread over (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="rounds after the first (default: %(default)s)")
    parser.add_argument(
        "--spread", type=float, default=2.0, help="seconds in which they are due (default: %(default)s)"
    )
    parser.add_argument(
        "--profile", type=int, default=0, metavar="N", help="show the N costliest functions of the last"
    )
    parser.add_argument("--flow-keys", type=int, default=0, help="flow keys of the rows (default: none)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    options.rows += -options.rows % options.pollers
    show = (lambda line: print(line, file=sys.stderr)) if options.json else print
    with receiver() as url, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(measure(options, url, show))
    print(
        json.dumps(figures)
        if options.json
        else f"best: {figures['process_us']} us a call, the kernel's {figures['kernel_us']}"
    )


if __name__ == "__main__":
    main()
