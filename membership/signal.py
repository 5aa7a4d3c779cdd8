"""Wake-ups within a process: `Signal` ends the wait of one waiter, `Notifier` informs all waiters and listeners."""

import asyncio
from collections.abc import Callable

from membership.ports import WallClock


class Signal:
    """`set` before or during `wait` ends it; several `set`s count once. One waiter at a time."""

    __slots__ = ("_clock", "_set", "_waiter")

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self._set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._set = True
        self._end_wait()

    async def wait(self, seconds: float | None = None) -> None:
        """Return at the next `set` (at once if one came since the last wait), or after `seconds` of the clock."""
        if not self._set and (seconds is None or seconds > 0):
            self._waiter = asyncio.get_running_loop().create_future()
            timer = None if seconds is None else self._clock.call_later(seconds, self._end_wait)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        self._set = False

    def _end_wait(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Notifier:
    """Says that something changed; waiters and listeners find out themselves what it was."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` synchronously at every change, in order of registration."""
        self._listeners.append(listener)

    def notify(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in list(self._listeners):
            listener()

    async def wait(self) -> None:
        """Until the next change."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
