"""Clocks of a simulated world: one true time, and a clock for each process that may be skewed, drift, step or stop."""

import asyncio
from collections.abc import Callable
from functools import partial

from membership.ports import Timer
from scheduler_service.runtime.clock import WallDiscipline

EPOCH_MS = 1_795_000_020_000
"""True wall time at virtual time zero: some minute's start in 2026."""


class _SimTimer:
    def __init__(self) -> None:
        self.handle: asyncio.TimerHandle | None = None
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
        if self.handle is not None:
            self.handle.cancel()


class SimClock:
    """A process's clock. `rate` is its seconds per true second; a paused process's timers run when it resumes."""

    def __init__(self, *, skew_ms: float = 0.0, rate: float = 1.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._base = 1_000.0
        self._since = self._loop.time()
        self._rate = rate
        self._skew_ms = skew_ms
        self._paused = False
        self._parked: list[tuple[_SimTimer, Callable[[], None]]] = []
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._wall = WallDiscipline(system_ms=self.exact_ms(), monotonic=self.monotonic())

    def true_ms(self) -> float:
        return EPOCH_MS + self._loop.time() * 1000.0

    def system_ms(self) -> int:
        """What `date` would show on this machine."""
        return int(self.exact_ms())

    def exact_ms(self) -> float:
        """The same with fractions; a step in whole milliseconds would not set a clock exactly right."""
        return self.true_ms() + self._skew_ms

    def step(self, milliseconds: float) -> None:
        """Step this machine's clock."""
        self._skew_ms += milliseconds

    def monotonic(self) -> float:
        return self._base + (self._loop.time() - self._since) * self._rate

    def wall_ms(self) -> int:
        return self._wall.wall_ms(self.monotonic())

    def wall_trusted(self) -> bool:
        return not self._wall.doubtful

    def discipline(self) -> WallDiscipline:
        self._wall.observe(system_ms=self.exact_ms(), monotonic=self.monotonic())
        return self._wall

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            await self.running()
            return
        # The most frequent case of a simulation: it needs no timer object, and nothing to cancel after the timer has
        # run.
        rung = self._loop.create_future()
        handle = self._loop.call_later(seconds / self._rate, self._wake, rung)
        try:
            await rung
        finally:
            if not rung.done() or rung.cancelled():
                handle.cancel()

    def _wake(self, rung: "asyncio.Future[None]") -> None:
        if self._paused:
            self._parked.append((_SimTimer(), partial(_ring_once, rung)))
        elif not rung.done():
            rung.set_result(None)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _SimTimer()
        timer.handle = self._loop.call_later(max(seconds, 0.0) / self._rate, self._ring, timer, callback)
        return timer

    def _ring(self, timer: _SimTimer, callback: Callable[[], None]) -> None:
        if timer.cancelled:
            return
        if self._paused:
            self._parked.append((timer, callback))
        else:
            callback()

    # Pause and resume of the process.

    def pause(self) -> None:
        self._paused = True
        self._resumed.clear()

    @property
    def paused(self) -> bool:
        return self._paused

    def resume(self) -> None:
        self._paused = False
        self._resumed.set()
        parked, self._parked = self._parked, []
        for timer, callback in parked:
            if not timer.cancelled:
                self._loop.call_soon(self._ring, timer, callback)

    async def running(self) -> None:
        """Return once the process is not paused."""
        while self._paused:
            await self._resumed.wait()

    def when_running(self, callback: Callable[[], None]) -> None:
        """Call back now, or when the process resumes."""
        if self._paused:
            self._parked.append((_SimTimer(), callback))
        else:
            callback()


def _ring_once(rung: "asyncio.Future[None]") -> None:
    if not rung.done():
        rung.set_result(None)


class AgreedClock:
    """A `ComparedClock` with which the members agree."""

    first_offset_ms = 0
    alone = False
