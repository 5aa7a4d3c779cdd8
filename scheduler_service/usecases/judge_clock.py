"""Judge: may this process create schedules by its own wall clock? A wrong one would place calls at wrong times.

It may not while the clock is in doubt after a step, nor while it is off by the limit against the members' clocks,
whichever way. Where no member was watched for long enough, the clock is taken at its word.
"""

from collections.abc import Callable

from scheduler_service.domain.errors import ClockInDoubt
from scheduler_service.runtime.clock import Clock


class JudgeClock:
    """`offset_ms()`: this clock against the members' median, None while unknown."""

    def __init__(self, *, clock: Clock, offset_ms: Callable[[], int | None], limit_ms: int) -> None:
        self._clock = clock
        self._offset_ms = offset_ms
        self._limit_ms = limit_ms

    def __call__(self) -> None:
        """Raises ClockInDoubt."""
        if not self._clock.wall_trusted():
            raise ClockInDoubt("this process's clock was stepped and does not agree with the pollers' yet")
        offset_ms = self._offset_ms()
        if offset_ms is not None and abs(offset_ms) >= self._limit_ms:
            raise ClockInDoubt(f"this process's clock is {abs(offset_ms)} ms off the pollers'")
