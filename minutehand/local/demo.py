"""The demo: everything on this machine, and callbacks to watch.

    Cassandra -> schema -> API and pollers -> client, key, signing secret -> receiver -> schedules -> callbacks

The processes are tied to this one, so whatever ends it ends them too. The data stays in the directory: the next start
goes on with it, and is quicker.
"""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cql.migrate import migrate
from cql.settings import StorageSettings
from minutehand.local.cassandra import RunningCassandra
from minutehand.local.demo_files import DemoDirectory, DemoPlan, DemoProcesses
from minutehand.local.demo_show import DemoShow, Runs, Say
from minutehand.local.errors import DataDirLocked
from minutehand.local.programs import Program
from minutehand.local.progress import Progress
from minutehand.local.start import start_cassandra
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness

CASSANDRA_GRACE_SECONDS = 10.0
ORPHAN_SECONDS = 15.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What the user may choose. A port that is None is chosen."""

    directory: Path
    once: bool = False
    pollers: int = 2
    heap_mb: int = 768
    cassandra_port: int | None = None
    api_port: int | None = None
    receiver_port: int | None = None


def run_demo(options: DemoOptions, *, say: Say, progress: Progress) -> None:
    """Run until Ctrl-C or SIGTERM; with `once` until the first callbacks were verified.

    Raises LocalError, and KeyboardInterrupt when it was interrupted before there was anything to watch.
    """
    demo = _Demo(options, say=say, progress=progress)
    with _signals_interrupt(), ExitStack() as running:
        try:
            demo.run(running)
        except KeyboardInterrupt:
            if not demo.staying:
                raise
        finally:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            if demo.begun:
                say("Stopping.")


class _Demo:
    """Starts one thing after the other; what was started is stopped in reverse order, whatever happens."""

    def __init__(self, options: DemoOptions, *, say: Say, progress: Progress) -> None:
        self._options = options
        self._directory = DemoDirectory(options.directory)
        self._say = say
        self._progress = progress
        self._show: DemoShow | None = None
        self.begun = False

    @property
    def staying(self) -> bool:
        return self._show is not None and self._show.staying

    def run(self, running: ExitStack) -> None:
        began = time.monotonic()
        options, directory = self._options, self._directory
        directory.claim(running)
        api_port, receiver_port, poller_ports = directory.choose_ports(
            api=options.api_port, receiver=options.receiver_port, pollers=options.pollers
        )
        cassandra = self._start_cassandra(running)
        plan = DemoPlan(
            cassandra_port=cassandra.port,
            api_port=api_port,
            receiver_port=receiver_port,
            poller_ports=tuple(poller_ports),
        )
        directory.write_settings(plan)
        api, pollers = self._start_programs(plan, running)
        took = time.monotonic() - began
        self._say(f"{len(pollers)} pollers are members of the cluster ({took:.0f} s since the start).")
        pids = DemoProcesses(cassandra=cassandra.pid, api=(api.pid,), pollers=tuple(one.pid for one in pollers))
        self._show = DemoShow(directory, plan, pids, once=options.once, say=self._say)
        running.callback(directory.clear_state)
        asyncio.run(
            self._show.run({"Cassandra": cassandra.is_running, **{one.name: _runs(one) for one in (api, *pollers)}})
        )

    def _start_cassandra(self, running: ExitStack) -> RunningCassandra:
        """With its schema."""
        cassandra = self._await_cassandra()
        self.begun = True
        running.callback(cassandra.stop, CASSANDRA_GRACE_SECONDS)
        self._say(f"Cassandra answers on port {cassandra.port}.")
        storage = StorageSettings(contact_points=cassandra.contact_points, port=cassandra.port)
        asyncio.run(migrate(storage, clock=SystemClock(), randomness=SystemRandomness()))
        self._say("The schema is up to date.")
        return cassandra

    def _await_cassandra(self) -> RunningCassandra:
        deadline = time.monotonic() + ORPHAN_SECONDS
        while True:
            try:
                return start_cassandra(
                    self._directory.cassandra,
                    native_port=self._options.cassandra_port,
                    heap_mb=self._options.heap_mb,
                    progress=self._progress,
                )
            except DataDirLocked:
                # The demo before this one was killed, and its Cassandra is about to notice.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)

    def _start_programs(self, plan: DemoPlan, running: ExitStack) -> tuple[Program, list[Program]]:
        """All at once; returns when all are ready."""
        directory = self._directory
        settings = ["--config", str(directory.settings)]
        api = Program("API", ["api", *settings], log_file=directory.log_file("api"))
        running.callback(api.stop)
        pollers = []
        for number, port in enumerate(plan.poller_ports, start=1):
            poller = Program(
                f"poller demo-{number}",
                ["poller", *settings, "--processes", "1", "--node-id", f"demo-{number}"],
                log_file=directory.log_file(f"poller-{number}"),
                variables={"MINUTEHAND_OPS_PORT": str(port)},
            )
            running.callback(poller.stop)
            pollers.append(poller)
        api.await_ready(f"{plan.api_url}/readyz")
        self._say(f"The API answers on {plan.api_url}.")
        for poller, port in zip(pollers, plan.poller_ports, strict=True):
            poller.await_ready(f"http://127.0.0.1:{port}/readyz")
        return api, pollers


def _runs(program: Program) -> Runs:
    return lambda: program.exit_code() is None


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """SIGTERM is as good as Ctrl-C, also where the shell had the latter ignored. As before afterwards."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in _SIGNALS:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
