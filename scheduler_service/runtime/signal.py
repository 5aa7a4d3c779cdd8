"""A wake-up call for one waiter, with a deadline on a given clock."""

import asyncio

from scheduler_service.runtime.clock import Clock


class Signal:
    """`set` before or during `wait` ends it; several `set`s count once. One waiter at a time."""

    __slots__ = ("_clock", "_set", "_waiter")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float | None = None) -> None:
        """Return at the next `set` (at once if one came since the last wait), or after `seconds` of the clock."""
        if not self._set and (seconds is None or seconds > 0):
            self._waiter = asyncio.get_running_loop().create_future()
            timer = None if seconds is None else self._clock.call_later(seconds, self._timed_out)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        self._set = False

    def _timed_out(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
