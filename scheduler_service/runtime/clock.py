"""Time: a monotonic clock for liveness and trust, a disciplined wall clock for due times.

The wall clock is an anchor plus the monotonic clock. Small differences from the system's clock are slewed; a step of
more than half a second makes the clock doubtful (`wall_trusted` is False) until it is accepted or refused
(`timekeeper`). So an operator's `date -s` never fires a minute early.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from membership.ports import Timer, WallClock

STEP_MS = 500
"""A difference between wall and system clock above this is a step, not drift."""
SLEW_PER_SECOND_MS = 50
"""How fast drift is corrected: 50 ms a second, so that no interval is wrong by more than 5 %."""


class Clock(WallClock, Protocol):
    """The clock that is given to everything above membership."""

    def wall_trusted(self) -> bool:
        """False after a step, until it is judged: fire nothing and settle nothing meanwhile."""


class WallDiscipline:
    """The pure part: holds the anchor, slews it, detects steps.

        agreed --step--> doubtful --hold----> held    (the anchor is right, the system's clock is not: ignore it)
           ^                 |------accept--> agreed  (the system's clock is right: anchor to it)
           `---- the system's clock returns by itself, from doubtful or held

    `observe` is called about once a second with both raw clocks. A further step makes a held clock doubtful again.
    """

    __slots__ = ("_anchor_ms", "_held_step_ms", "_last_observed", "doubtful", "pending_step_ms")

    def __init__(self, *, system_ms: float, monotonic: float) -> None:
        self._anchor_ms = system_ms - monotonic * 1000.0
        self._last_observed = monotonic
        self._held_step_ms: float | None = None
        self.doubtful = False
        self.pending_step_ms = 0.0

    def wall_ms(self, monotonic: float) -> int:
        return int(self._anchor_ms + monotonic * 1000.0)

    def observe(self, *, system_ms: float, monotonic: float) -> None:
        """Compare with the system's clock: slew a small difference, become doubtful at a large one."""
        difference = system_ms - (self._anchor_ms + monotonic * 1000.0)
        elapsed = max(monotonic - self._last_observed, 0.0)
        self._last_observed = monotonic
        if abs(difference) > STEP_MS:
            self.pending_step_ms = difference
            held = self._held_step_ms is not None and abs(difference - self._held_step_ms) <= STEP_MS
            self.doubtful = not held
            return
        self._agreed()
        # At most two seconds' worth, so that the clock does not jump after a long time without `observe`.
        bound = SLEW_PER_SECOND_MS * min(elapsed, 2.0)
        self._anchor_ms += max(-bound, min(bound, difference))

    def accept(self) -> None:
        """Adopt the system's clock as last observed."""
        self._anchor_ms += self.pending_step_ms
        self._agreed()

    def hold(self) -> None:
        """Keep the anchor against the system's clock as last observed."""
        self._held_step_ms = self.pending_step_ms
        self.doubtful = False

    def _agreed(self) -> None:
        self.doubtful, self.pending_step_ms, self._held_step_ms = False, 0.0, None


def boot_seconds() -> float:
    """Monotonic seconds that count suspends where the system has such a clock (CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_boot_clock = boot_seconds if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class SystemClock:
    """The real clock. The process has to call `discipline` about once a second."""

    def __init__(self) -> None:
        self._wall = WallDiscipline(system_ms=time.time() * 1000.0, monotonic=_boot_clock())

    def monotonic(self) -> float:
        return _boot_clock()

    def wall_ms(self) -> int:
        return self._wall.wall_ms(_boot_clock())

    def system_ms(self) -> int:
        return int(time.time() * 1000.0)

    def wall_trusted(self) -> bool:
        return not self._wall.doubtful

    def discipline(self) -> WallDiscipline:
        """Observe the system's clock now; returns the discipline, for `accept`, `hold` and metrics."""
        self._wall.observe(system_ms=time.time() * 1000.0, monotonic=_boot_clock())
        return self._wall

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(max(seconds, 0.0), callback)
