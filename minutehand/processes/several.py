"""Several processes of one program under one command: common preconditions are checked once, then all are started.

APIs share one port: the kernel spreads connections over them (SO_REUSEPORT). Each is a whole API with its own caches,
hints and metrics. `/readyz` answers for the process that accepted the connection, `minutehand.processes.health` for all
of them. `/metrics` shows all of them, whichever is asked (`runtime.metrics_pages`); with `api.metrics_port`, each
process has a port for metrics and shows its own there. The parent keeps the port bound without listening, so that
port 0 means one and the same for all, and no program that wants the port exclusively can take it.

Not guaranteed: a connection that the kernel gave to a process just before it stopped may be reset before its first
request is read.

Nodes are members each, with their own names and ports.
"""

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from cql.settings import StorageSettings
from cql.storage import open_storage
from minutehand.config import Settings
from minutehand.processes.health import HealthSettings, answering_for
from minutehand.processes.workers import Work, run_workers
from minutehand.running import StopSignal, run_process
from minutehand.starting import Starting
from scheduler_service.api.http.server import LAST_ANSWERS_SECONDS, why_not_listening
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.health import Reason
from scheduler_service.runtime.listening import CannotListen

ENDING_SECONDS = 10.0
"""How much longer than its drain a process may take to end."""


def arguments_of(program: str, config: Path | None, *more: str) -> list[str]:
    """The command of one of several processes."""
    given = [] if config is None else ["--config", str(config)]
    return [program, *given, "--processes", "1", *more]


def run_several(
    works: Sequence[Work], *, storage: StorageSettings, health: HealthSettings, finishing_seconds: float
) -> None:
    """Wait for storage, then run, until SIGTERM or SIGINT. Raises MinutehandError when storage or the health port is
    not usable, and WorkersFailed."""
    check = _Check(storage)
    with answering_for(works, health, waiting=check.waiting) as told:
        run_process(check.run)
        if check.passed:
            run_workers(told, grace_seconds=finishing_seconds + ENDING_SECONDS)


class _Check:
    """Waits for storage once for all processes, and reports once what would keep every one of them from starting."""

    def __init__(self, storage: StorageSettings) -> None:
        self._storage = storage
        self._starting: Starting | None = None
        self.passed = False

    def waiting(self) -> Sequence[Reason]:
        """Why no process is started yet. Callable on any thread."""
        return () if self._starting is None else self._starting.waiting()

    async def run(self, stop: StopSignal) -> None:
        """Returns when storage is usable, or when told to end. Raises MinutehandError."""
        self._starting = Starting(clock=SystemClock(), storage=self._storage, stop=stop)
        storage = await self._starting.answered(lambda: open_storage(self._storage))
        if storage is not None:
            await storage.close()
            self.passed = stop.failure is None


def api_works(
    settings: ApiSettings, *, port: int, processes: int, config: Path | None, sockets: Path
) -> Sequence[Work]:
    """One API process each, sharing `port` whatever the configuration says. `sockets`: a directory of theirs alone."""
    return [
        Work(
            name=f"api-{number}",
            arguments=arguments_of("api", config, "--host", settings.host, "--port", str(port)),
            variables={"MINUTEHAND_API_SHARE_PORT": "true", **_metrics(settings, number, sockets)},
        )
        for number in range(processes)
    ]


def _metrics(settings: ApiSettings, number: int, sockets: Path) -> Mapping[str, str]:
    """A port for each process, or a socket by which the others know its metrics: either way Prometheus gets all."""
    if settings.metrics_port is None:
        return {"MINUTEHAND_API_METRICS_SOCKET": str(sockets / f"api-{number}.sock")}
    if settings.metrics_port == 0:
        return {}
    return {"MINUTEHAND_API_METRICS_PORT": str(settings.metrics_port + number)}


def run_apis(settings: Settings, *, processes: int, config: Path | None) -> None:
    """Run until SIGTERM or SIGINT. Raises MinutehandError when port or storage is not usable, and WorkersFailed."""
    api = settings.api
    assert api is not None
    with reserved_port(api) as port, tempfile.TemporaryDirectory(prefix="minutehand-") as sockets:
        works = api_works(api, port=port, processes=processes, config=config, sockets=Path(sockets))
        run_several(
            works,
            storage=settings.cassandra,
            health=settings.health,
            finishing_seconds=api.shutdown_delay_seconds + LAST_ANSWERS_SECONDS + api.shutdown_seconds,
        )


@contextmanager
def reserved_port(settings: ApiSettings) -> Iterator[int]:
    """The port, bound by this process without listening. Raises CannotListen."""
    if not hasattr(socket, "SO_REUSEPORT"):
        raise CannotListen("several processes can't share a port on this system: run one, with --processes 1")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        if settings.port and not settings.share_port:
            # SO_REUSEPORT would also succeed beside an unrelated program that sets it, which would get some requests.
            with socket.socket(family, kind, protocol) as alone:
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind(address)
        shared = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(why_not_listening(error, settings)) from error
    with shared:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            shared.bind(address)
        except OSError as error:
            raise CannotListen(why_not_listening(error, settings)) from error
        yield int(shared.getsockname()[1])


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def node_works(settings: Settings, *, node_id: str, processes: int, config: Path | None) -> Sequence[Work]:
    """NODE-0, NODE-1, ... A configured port is the first node's; the others listen on those above it."""
    first_port = settings.ops.port
    return [
        Work(
            name=(name := f"{node_id}-{number}"),
            arguments=arguments_of("node", config, "--node-id", name),
            variables={} if first_port == 0 else {"MINUTEHAND_OPS_PORT": str(first_port + number)},
        )
        for number in range(processes)
    ]


def run_nodes(settings: Settings, *, node_id: str, processes: int, config: Path | None) -> None:
    """Run until SIGTERM or SIGINT. Raises MinutehandError when storage is not usable, and WorkersFailed."""
    membership = settings.membership
    run_several(
        node_works(settings, node_id=node_id, processes=processes, config=config),
        storage=settings.cassandra,
        health=settings.health,
        finishing_seconds=membership.drain_seconds + 2 * membership.leave_seconds + 2 * membership.send_margin_seconds,
    )
