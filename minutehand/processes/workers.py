"""Several processes of one program on one machine, under a parent that restarts them.

    start all --> one ended --pause--> start it again          1 s after the first end, then twice as long, up to 30 s
        |                              a process that ran for a minute begins again at 1 s
        |--SIGTERM, SIGINT--> the same to all --> wait for them, KILL after the grace
        `--all are down, none ever ran for 10 s--> give up: the cause is permanent

They are tied to the parent (`children`), so they end with it. Their output goes to the parent's own.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from minutehand.errors import LocalError
from minutehand.processes.children import Child, TiedChild
from minutehand.processes.identity import send_signal
from scheduler_service.runtime.logging import get_logger

FIRST_RESTART_SECONDS = 1.0
LONGEST_RESTART_SECONDS = 30.0
LONG_RUN_SECONDS = 60.0
PROVEN_SECONDS = 10.0
_POLL_SECONDS = 0.1
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = get_logger("minutehand")


class WorkersFailed(LocalError):
    """The processes could not start, or did not end cleanly."""


class Pauses:
    """How long to wait before a process that ended is started again. Pure."""

    def __init__(self) -> None:
        self._next = FIRST_RESTART_SECONDS

    def after(self, ran_seconds: float) -> float:
        """The pause after a run of so many seconds."""
        pause = FIRST_RESTART_SECONDS if ran_seconds >= LONG_RUN_SECONDS else self._next
        self._next = min(pause * 2, LONGEST_RESTART_SECONDS)
        return pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one process runs: `python -m MODULE ARGUMENTS` with `variables` on top of this process's environment."""

    name: str
    arguments: Sequence[str]
    variables: Mapping[str, str] = field(default_factory=dict)
    module: str = "minutehand"


class _Worker:
    """One process, restarted whenever it ends."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.child: Child | None = None
        self.code: int | None = None
        self.proven = False
        """It ran for PROVEN_SECONDS, or ended with 0 once, so it is able to start."""
        self._pauses = Pauses()
        self._began = 0.0
        self._due = 0.0

    def look(self, now: float) -> None:
        """Start it when that is due; notice its end."""
        if self.child is None:
            if now >= self._due:
                self._start(now)
            return
        self.proven = self.proven or now - self._began >= PROVEN_SECONDS
        if self.ended():
            self._due = now + self._pauses.after(now - self._began)
            _log.warning(
                "process-ended",
                process=self.work.name,
                code=self.code,
                ran_seconds=round(now - self._began, 1),
                again_in_seconds=round(self._due - now, 1),
            )

    def ended(self) -> bool:
        """Whether it is not running; the first call after its end collects its exit code."""
        if self.child is not None and (code := self.child.exit_code()) is not None:
            self.child.end(0.0)
            self.child, self.code = None, code
            self.proven = self.proven or code == 0
        return self.child is None

    def kill(self) -> None:
        if self.child is not None:
            self.child.end(0.0)
            self.child, self.code = None, 128 + signal.SIGKILL

    def _start(self, now: float) -> None:
        self._began, self.code = now, None
        command = [sys.executable, "-m", self.work.module, *self.work.arguments]
        self.child = TiedChild(command, console=None, environment={**os.environ, **self.work.variables})
        _log.info("process-started", process=self.work.name, pid=self.child.identity.pid)


def run_workers(works: Sequence[Work], *, grace_seconds: float) -> None:
    """Keep one process for each of `works` running until SIGTERM or SIGINT; returns when all have ended.

    Raises WorkersFailed when none of them can start, or one of them did not end cleanly.
    """
    workers = [_Worker(work) for work in works]
    with _signals() as received:
        try:
            while not received:
                now = time.monotonic()
                for worker in workers:
                    worker.look(now)
                if all(worker.code is not None and not worker.proven for worker in workers):
                    raise WorkersFailed(
                        f"None of {len(workers)} processes could start.", "Their output above says why."
                    )
                time.sleep(_POLL_SECONDS)
            _end(workers, received, grace_seconds)
        finally:
            for worker in workers:
                worker.kill()
    # A process that is still starting has no handlers yet and may die of the signal itself.
    good = {None, 0, *(128 + number for number in received)}
    if failed := [worker.work.name for worker in workers if worker.code not in good]:
        raise WorkersFailed(f"These processes did not end cleanly: {', '.join(failed)}.", "Their log says why.")


def _end(workers: Sequence[_Worker], received: Sequence[signal.Signals], grace_seconds: float) -> None:
    """Pass every signal on, until all have ended or the grace is over."""
    passed_on = 0
    deadline = time.monotonic() + grace_seconds
    running = [worker for worker in workers if not worker.ended()]
    for worker in workers:
        if worker not in running:
            # It was waiting for its restart: its last exit code is no result of this shutdown.
            worker.code = None
    while running and time.monotonic() < deadline:
        for number in received[passed_on:]:
            passed_on += 1
            for worker in running:
                if worker.child is not None:
                    send_signal(worker.child.identity, number)
        time.sleep(_POLL_SECONDS)
        running = [worker for worker in running if not worker.ended()]


@contextmanager
def _signals() -> Iterator[list[signal.Signals]]:
    """Collect SIGTERM and SIGINT instead of obeying them; restores the handlers."""
    received: list[signal.Signals] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, lambda given, frame: received.append(signal.Signals(given)))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
