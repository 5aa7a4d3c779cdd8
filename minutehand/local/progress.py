"""Progress of long waits: a port, the silent one, and one that prints lines."""

import sys
import time
from typing import Protocol, TextIO


class Progress(Protocol):
    """Reports progress. Called from the thread that waits; must not raise."""

    def __call__(self, done: int, total: int, what: str) -> None:
        """`done` of `total` (bytes of a download, percents of a start; 0: not known) of `what`, a short phrase."""


def silent(done: int, total: int, what: str) -> None:
    """Show nothing."""


class ProgressLines:
    """Prints a line for each new `what`, then at most one every `every_seconds`, if it differs from the last; percents
    where the total is known."""

    def __init__(self, stream: TextIO | None = None, *, every_seconds: float = 2.0) -> None:
        self._stream = stream or sys.stderr
        self._every_seconds = every_seconds
        self._what, self._finished, self._last = "", False, ""
        self._next = 0.0

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        finished = total > 0 and done >= total
        if what == self._what and ((now < self._next and not finished) or self._finished):
            return
        share = f" {min(done * 100 // total, 100)} %" if total > 0 else ""
        line = f"{what}{share}"
        if line != self._last:
            print(line, file=self._stream, flush=True)
            self._last = line
        self._what, self._finished = what, finished
        self._next = now + self._every_seconds
