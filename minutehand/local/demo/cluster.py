"""The cluster of a demo, on this machine and in one directory.

    Cassandra -> schema -> Kafka, if asked for -> API and nodes

Its processes are tied to this one, so they end with it.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cql.migrate import migrate
from cql.settings import StorageSettings
from minutehand.local.cassandra import RunningCassandra
from minutehand.local.demo.files import DemoDirectory, DemoPlan, DemoProcesses
from minutehand.local.demo.kafka import CLUSTER, FOLDER, DemoKafka
from minutehand.local.demo.show import Runs, Say
from minutehand.local.demo.targets import check_targets, read_targets
from minutehand.local.errors import DataDirLocked
from minutehand.local.progress import Progress
from minutehand.local.start import check_cassandra, start_cassandra
from minutehand.processes.programs import Program
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness

T = TypeVar("T")
CASSANDRA_GRACE_SECONDS = 10.0
ORPHAN_SECONDS = 15.0
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The user's options. A port of None is chosen. `outputs`: see `DemoDirectory`. `java_options`: of Cassandra's
    JVM. `bigben` and `goscheduler`: see `DemoPlan`. `kafka`: with a broker, which destinations may name, and its
    data in a folder of its own. `targets`: a file of further targets.
    """

    directory: Path
    nodes: int = 2
    heap_mb: int = 768
    cassandra_port: int | None = None
    api_port: int | None = None
    receiver_port: int | None = None
    outputs: tuple[str, ...] = ()
    java_options: tuple[str, ...] = ()
    bigben: bool = False
    goscheduler: bool = False
    kafka: bool = False
    targets: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """`watched`: by process name, whether it runs. `kafka`: None unless it was asked for."""

    plan: DemoPlan
    pids: DemoProcesses
    watched: Mapping[str, Runs]
    kafka: DemoKafka | None = None


class DemoCluster:
    """Starts the parts one after the other; they stop in reverse order, whatever happens."""

    def __init__(self, options: ClusterOptions, *, say: Say, progress: Progress) -> None:
        outputs = (*options.outputs, *((FOLDER,) if options.kafka else ()))
        self.directory = DemoDirectory(options.directory, outputs=outputs)
        self._options = options
        self._say = say
        self._progress = progress

    def start(self, running: ExitStack, *, fresh: bool) -> Started:
        """Start everything and return when it is ready; `running` stops it. The caller has claimed the directory.
        `fresh`: without what an earlier demo stored, which is deleted once nothing is in the way of the start.
        Raises LocalError."""
        began = time.monotonic()
        options, directory = self._options, self.directory
        own = "" if options.targets is None else read_targets(options.targets)
        api_port, receiver_port, node_ports = directory.choose_ports(
            api=options.api_port, receiver=options.receiver_port, nodes=options.nodes
        )
        if fresh:
            self._await_orphan(lambda: directory.delete_data(self._check_cassandra))
        directory.mark()
        cassandra = self._start_cassandra(running)
        kafka = self._start_kafka(running) if options.kafka else None
        if own or kafka is not None:
            directory.write_targets(own if kafka is None else f"{own}\n{kafka.targets}")
            check_targets(directory.targets, hint=f"The demo adds [kafka.clusters.{CLUSTER}] to what --targets has.")
        keys = directory.last_keys()
        plan = DemoPlan(
            **({} if keys is None else {"admin_key": keys.admin_key}),
            cassandra_port=cassandra.port,
            api_port=api_port,
            receiver_port=receiver_port,
            node_ports=tuple(node_ports),
            bigben=options.bigben,
            goscheduler=options.goscheduler,
            targets=bool(own) or kafka is not None,
        )
        directory.write_settings(plan)
        api, nodes = self._start_programs(plan, running)
        took = time.monotonic() - began
        self._say(f"{len(nodes)} nodes are members of the cluster ({took:.0f} s since the start).")
        pids = DemoProcesses(cassandra=cassandra.pid, api=(api.pid,), nodes=tuple(one.pid for one in nodes))
        watched = {"Cassandra": cassandra.is_running, **{one.name: _runs(one) for one in (api, *nodes)}}
        if kafka is not None:
            watched["Kafka"] = kafka.broker.is_running
        return Started(plan=plan, pids=pids, watched=watched, kafka=kafka)

    def _start_cassandra(self, running: ExitStack) -> RunningCassandra:
        """Start Cassandra and migrate its schema."""
        goes_on = self.directory.has_data
        cassandra = self._await_orphan(self._run_cassandra)
        running.callback(self._say, f"Everything is stopped. The data stays in {self.directory.path}.")
        self._stop_later(running, "Cassandra", lambda: cassandra.stop(CASSANDRA_GRACE_SECONDS))
        self._say(f"Cassandra answers on port {cassandra.port}.")
        if goes_on:
            self._say("Its data is that of an earlier demo: calls that came due while nothing ran are made now.")
        storage = StorageSettings(contact_points=cassandra.contact_points, port=cassandra.port)
        asyncio.run(migrate(storage, clock=SystemClock(), randomness=SystemRandomness()))
        self._say("The schema is up to date.")
        return cassandra

    def _start_kafka(self, running: ExitStack) -> DemoKafka:
        kafka = self._await_orphan(lambda: DemoKafka.start(self.directory, running, progress=self._progress))
        running.callback(self._say, "Stopping Kafka.")
        self._say(f"Kafka answers on port {kafka.broker.port}.")
        return kafka

    def _check_cassandra(self, freed_bytes: int) -> None:
        check_cassandra(
            self.directory.cassandra,
            native_port=self._options.cassandra_port,
            heap_mb=self._options.heap_mb,
            freed_bytes=freed_bytes,
            progress=self._progress,
        )

    def _run_cassandra(self) -> RunningCassandra:
        return start_cassandra(
            self.directory.cassandra,
            native_port=self._options.cassandra_port,
            heap_mb=self._options.heap_mb,
            java_options=self._options.java_options,
            progress=self._progress,
        )

    def _stop_later(self, running: ExitStack, name: str, stop: Callable[[], None]) -> None:
        running.callback(stop)
        running.callback(self._say, f"Stopping {name}.")

    def _await_orphan(self, action: Callable[[], T]) -> T:
        """Do what needs the data directory for itself."""
        deadline = time.monotonic() + ORPHAN_SECONDS
        while True:
            try:
                return action()
            except DataDirLocked:
                # An earlier demo was killed, and its Cassandra is about to end.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _start_programs(self, plan: DemoPlan, running: ExitStack) -> tuple[Program, list[Program]]:
        """Start all in parallel; returns when all are ready."""
        directory = self.directory
        settings = ["--config", str(directory.settings)]
        api = Program("API", ["api", *settings], log_file=directory.log_file("api"))
        self._stop_later(running, "the API", api.stop)
        nodes = []
        for number, port in enumerate(plan.node_ports, start=1):
            node = Program(
                f"node demo-{number}",
                ["node", *settings, "--processes", "1", "--node-id", f"demo-{number}"],
                log_file=directory.log_file(f"node-{number}"),
                variables={"MINUTEHAND_OPS_PORT": str(port)},
            )
            self._stop_later(running, f"{node.name}, which hands over its pollers", node.stop)
            nodes.append(node)
        api.await_ready(f"{plan.api_url}/readyz")
        self._say(f"The API answers on {plan.api_url}.")
        for node, port in zip(nodes, plan.node_ports, strict=True):
            node.await_ready(f"http://127.0.0.1:{port}/readyz")
        return api, nodes


def _runs(program: Program) -> Runs:
    return lambda: program.exit_code() is None


def run_until_interrupted(work: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run` under `signals_interrupt`. A signal cancels the work: an exception that is raised wherever the loop
    happens to be comes out of task groups in an exception group, and its traceback is logged. Raises KeyboardInterrupt.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}

    async def until_interrupted() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        for number in SIGNALS:
            loop.add_signal_handler(number, task.cancel)
        try:
            await work
        finally:
            for number, handler in before.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    try:
        asyncio.run(until_interrupted())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, and SIGINT too where the shell had it ignored; restores the handlers."""
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
