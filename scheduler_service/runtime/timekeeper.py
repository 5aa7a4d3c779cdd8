"""Keeps a process's wall clock disciplined, and decides what a step of the system's clock means.

The members of the cluster are the jury: whichever of the two, the anchored clock or the system's after its step, agrees
with their median is right. Where there is nobody to ask, a step that lasts is believed.
"""

from collections.abc import Callable
from typing import Protocol

import structlog

from scheduler_service.runtime.clock import Clock, WallDiscipline

PERIOD_SECONDS = 1.0
AGREES_WITHIN_MS = 250
ALONE_BELIEVES_AFTER_SECONDS = 10.0
_log = structlog.get_logger("minutehand")


class DisciplinedClock(Clock, Protocol):
    """A clock whose wall part can be disciplined."""

    def discipline(self) -> WallDiscipline:
        """Observe the system's clock now."""


class Timekeeper:
    """`offset_ms()`: the anchored wall clock against the members' median, None while unknown.

    `alone()`: there is nobody to ask."""

    def __init__(
        self, *, clock: DisciplinedClock, offset_ms: Callable[[], int | None], alone: Callable[[], bool]
    ) -> None:
        self._clock = clock
        self._offset_ms = offset_ms
        self._alone = alone
        self._doubtful_since: float | None = None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(PERIOD_SECONDS)

    def look(self) -> None:
        """One comparison, and the verdict if one can be given. What is judged is said, once."""
        wall = self._clock.discipline()
        now, step_ms = self._clock.monotonic(), round(wall.pending_step_ms)
        if wall.doubtful and self._doubtful_since is None:
            self._doubtful_since = now
            _log.warning("clock-stepped", by_ms=step_ms)
        if self._doubtful_since is None:
            return
        verdict = self._judge(wall, doubted_seconds=now - self._doubtful_since) if wall.doubtful else "back by itself"
        if verdict is not None:
            self._doubtful_since = None
            _log.warning("clock-step-judged", by_ms=step_ms, verdict=verdict)

    def _judge(self, wall: WallDiscipline, *, doubted_seconds: float) -> str | None:
        if self._alone():
            if doubted_seconds < ALONE_BELIEVES_AFTER_SECONDS:
                return None
            wall.accept()
            return "accepted, for nobody can be asked"
        offset = self._offset_ms()
        if offset is None:
            return None
        if abs(offset) <= AGREES_WITHIN_MS:
            wall.hold()
            return "refused"
        if abs(offset + wall.pending_step_ms) <= AGREES_WITHIN_MS:
            wall.accept()
            return "accepted"
        return None
