"""Measures the CPU that a JVM's compilers and collector used, by the system's accounting of its threads.

A server that was just started compiles its most frequent code for a minute or so. That is no cost of the work, and in a
short phase it may exceed the work itself. HotSpot names its threads, and the system keeps the first 15 characters of a
name. `VM Thread`, which begins and ends pauses, counts as the rest.

HotSpot ends idle compiler threads and starts others, so the threads are sampled repeatedly: what a thread used between
its last sample and its end counts as the rest.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Kind = Literal["compiler", "collector"]
_KINDS: dict[Kind, tuple[str, ...]] = {
    "compiler": ("C1 Compiler", "C2 Compiler", "JVMCI"),
    "collector": ("GC Thread", "G1 ", "ParGC", "CMS ", "Concurrent Mark", "ZWorker", "ZDriver", "Shenandoah"),
}
LOOK_SECONDS = 0.5


def kind_of(name: str) -> Kind | None:
    """The kind of a thread with this name; None: neither."""
    return next((kind for kind, beginnings in _KINDS.items() if name.startswith(beginnings)), None)


class JvmThreads:
    """CPU seconds of compilers and collector from the first `look` to the last."""

    def __init__(self, pid: int, *, proc: Path = Path("/proc")) -> None:
        self._tasks = proc / str(pid) / "task"
        self._before: dict[tuple[str, str], float] | None = None
        self._seen: dict[tuple[str, str], tuple[Kind, float]] = {}

    def look(self) -> None:
        found: dict[tuple[str, str], float] = {}
        for task in sorted(self._tasks.glob("*/stat")):
            try:
                text = task.read_text(encoding="ascii", errors="replace")
            except OSError:
                continue  # it has just ended
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            if (kind := kind_of(name)) is not None:
                # A thread's number may be reused later, but not with the same start.
                thread = task.parent.name, fields[19]
                seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                found[thread] = seconds
                self._seen[thread] = kind, seconds
        if self._before is None:
            self._before = found

    def used(self) -> dict[Kind, float]:
        """CPU seconds by kind. A thread missing from the first sample began later, so all its use counts. Empty where
        the system does not account for threads.
        """
        if not self._seen:
            return {}
        before = self._before or {}
        return {
            kind: sum(seconds - before.get(thread, 0.0) for thread, (one, seconds) in self._seen.items() if one == kind)
            for kind in _KINDS
        }


@contextmanager
def watched(pid: int) -> Iterator[JvmThreads]:
    """Sample the threads of a process during the block, at its beginning and end too."""
    threads, over = JvmThreads(pid), threading.Event()
    threads.look()

    def watch() -> None:
        while not over.wait(LOOK_SECONDS):
            threads.look()

    watching = threading.Thread(target=watch, name="jvm-threads", daemon=True)
    watching.start()
    try:
        yield threads
    finally:
        over.set()
        watching.join()
        threads.look()
