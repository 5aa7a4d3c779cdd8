"""The health of several processes of one command, on one port of the parent's.

    process --Unix socket, one line of JSON for each connection--> parent --HTTP--> /livez, /readyz

The parent asks every process every HEALTH_LOOK_SECONDS and answers from memory. It is ready when all processes are. A
process that is down or starting makes it unready only: the parent restarts that process, and what keeps it from
starting (storage, as a rule) is not mended by a restart of the whole. A process that runs, and whose event loop is
silent for SILENT_SECONDS, makes it not live.

The parent answers on a thread with an event loop: its main thread waits for signals and for its children.
"""

import asyncio
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from minutehand.processes.workers import Work
from scheduler_service.runtime.answering_socket import AnsweringSocket, report_crash
from scheduler_service.runtime.clock import Clock, SystemClock
from scheduler_service.runtime.health import PROCESS_DOWN, PROCESS_SILENT, Reason
from scheduler_service.runtime.lifecycle import Service, Tasks
from scheduler_service.runtime.listening import OpsRunner, health_response, listening_socket

HEALTH_LOOK_SECONDS = 2.0
ANSWER_SECONDS = 4.0
"""How long a process may take to answer: it may have to wait for a probe of storage."""
SILENT_SECONDS = 30.0
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """Where a command that runs several processes answers /livez and /readyz for all of them. A single process answers
    on its own port (api.port, ops.port) instead. Raises ValueError for ports that don't exist."""

    host: str = "127.0.0.1"
    """Address to listen on. The default accepts connections from this machine only."""
    port: int | None = None
    """Port to listen on; 0 takes a free one. None: no such port."""
    socket: str | None = None
    """Path of the Unix socket over which one of several processes reports its health to the command. The command sets
    it."""

    def __post_init__(self) -> None:
        if self.port is not None and not 0 <= self.port <= 65_535:
            raise ValueError("port: must be from 0 to 65535")


class _Told(msgspec.Struct, frozen=True):
    """The reasons why a process is not live, and why not ready."""

    live: list[Reason]
    ready: list[Reason]


def health_socket(
    path: str,
    *,
    live: Callable[[], Sequence[Reason]],
    ready: Callable[[], Sequence[Reason] | Awaitable[Sequence[Reason]]],
) -> AnsweringSocket:
    """The `Service` that tells a process's health over a Unix socket."""

    async def answer() -> bytes:
        reasons = ready()
        return msgspec.json.encode(
            _Told(list(live()), list(await reasons if isinstance(reasons, Awaitable) else reasons))
        )

    return AnsweringSocket(path, answer, name="health-answer")


def told_health(
    settings: HealthSettings,
    *,
    live: Callable[[], Sequence[Reason]],
    ready: Callable[[], Sequence[Reason] | Awaitable[Sequence[Reason]]],
) -> Sequence[Service]:
    """The service that reports to the parent; none in a process without one."""
    return () if settings.socket is None else (health_socket(settings.socket, live=live, ready=ready),)


@dataclass(slots=True)
class _Seen:
    """The last answer of one process. `silent_since`: since when it accepts connections without answering."""

    path: Path
    told: _Told | None = None
    silent_since: float | None = None


@dataclass(slots=True)
class HealthOfSeveral:
    """The health of all processes. `sockets`: by process name. `waiting`: why none is started yet."""

    sockets: Mapping[str, Path]
    clock: Clock
    waiting: Callable[[], Sequence[Reason]] = tuple
    _seen: dict[str, _Seen] = field(init=False)

    def __post_init__(self) -> None:
        self._seen = {name: _Seen(path) for name, path in self.sockets.items()}

    async def look(self) -> None:
        """Ask all processes, concurrently."""
        await asyncio.gather(*map(self._ask, self._seen.values()))

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            await self.look()
            await self.clock.sleep(HEALTH_LOOK_SECONDS)

    def live(self) -> Sequence[Reason]:
        reasons = []
        for name, seen in self._seen.items():
            if seen.silent_since is not None:
                silent = self.clock.monotonic() - seen.silent_since
                if silent >= SILENT_SECONDS:
                    reasons.append(Reason(PROCESS_SILENT, f"{name} has not answered for {silent:.0f} s"))
            elif seen.told is not None:
                reasons += _named(name, seen.told.live)
        return reasons

    def ready(self) -> Sequence[Reason]:
        if waiting := self.waiting():
            return waiting
        reasons = []
        for name, seen in self._seen.items():
            if seen.silent_since is not None:
                reasons.append(Reason(PROCESS_SILENT, f"{name} does not answer"))
            elif seen.told is None:
                reasons.append(Reason(PROCESS_DOWN, f"{name} is not running, or is just starting"))
            else:
                reasons += _named(name, seen.told.ready)
        return reasons

    async def _ask(self, seen: _Seen) -> None:
        told, began = None, self.clock.monotonic()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_unix_connection(str(seen.path))
                try:
                    told = msgspec.json.decode(await reader.read(_MOST_BYTES), type=_Told)
                finally:
                    writer.close()
        except TimeoutError:
            # Only a process that accepted the connection can time out: one that is down or starting refuses it.
            if seen.silent_since is None:
                seen.silent_since = began
            return
        except (OSError, msgspec.DecodeError):
            pass
        seen.told, seen.silent_since = told, None


def _named(name: str, reasons: Sequence[Reason]) -> list[Reason]:
    return [Reason(one.reason, f"{name}: {one.detail}") for one in reasons]


@contextmanager
def answering_for(
    works: Sequence[Work], settings: HealthSettings, *, waiting: Callable[[], Sequence[Reason]]
) -> Iterator[Sequence[Work]]:
    """Answer for these processes while the block runs; yields the works with the variable that names their sockets.
    `waiting`: why none is started yet; asked on another thread.

    Raises CannotListen.
    """
    if settings.port is None:
        yield works
        return
    with listen(settings) as listener, tempfile.TemporaryDirectory(prefix="minutehand-") as directory:
        sockets = {work.name: Path(directory) / f"{number}.sock" for number, work in enumerate(works)}
        health = HealthOfSeveral(sockets, SystemClock(), waiting)
        loop, over = asyncio.new_event_loop(), asyncio.Event()
        served = serve(listener, health, over=over)
        thread = threading.Thread(target=_run, args=(loop, served), name="health", daemon=True)
        thread.start()
        try:
            yield [
                replace(work, variables={**work.variables, "MINUTEHAND_HEALTH_SOCKET": str(sockets[work.name])})
                for work in works
            ]
        finally:
            loop.call_soon_threadsafe(over.set)
            thread.join()
            loop.close()


def _run(loop: asyncio.AbstractEventLoop, served: Coroutine[Any, Any, None]) -> None:
    loop.run_until_complete(served)
    # Closed transports release their sockets in later iterations of the loop.
    loop.run_until_complete(loop.shutdown_asyncgens())


async def serve(listener: socket.socket, health: HealthOfSeveral, *, over: asyncio.Event) -> None:
    """Answer until `over` is set. An unhandled exception in the task that asks ends it too: no answer is better than a
    stale one."""

    async def live(request: web.Request) -> web.Response:
        return health_response(health.live())

    async def ready(request: web.Request) -> web.Response:
        return health_response(health.ready())

    app = web.Application()
    app.router.add_get("/livez", live)
    app.router.add_get("/readyz", ready)
    runner = OpsRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()

    def report(name: str, error: BaseException) -> None:
        report_crash(name, error)
        over.set()

    tasks = Tasks(report)
    try:
        tasks.spawn(health.run(), name="health")
        await web.SockSite(runner, listener).start()
        await over.wait()
    finally:
        await tasks.close()
        await runner.cleanup()


def listen(settings: HealthSettings) -> socket.socket:
    """The bound, listening socket. Raises CannotListen."""

    def why(error: OSError) -> str:
        return (
            f"The processes' health can't be served on {settings.host}:{settings.port} ({error.strerror}): "
            "choose another health.host or health.port."
        )

    assert settings.port is not None
    return listening_socket(settings.host, settings.port, why=why)
