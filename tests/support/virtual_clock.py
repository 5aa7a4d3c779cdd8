"""A process's clock on a virtual loop: it may be skewed, run at another rate, and stop with its process."""

import asyncio
from collections.abc import Callable

from membership.ports import Timer

EPOCH_MS = 1_795_000_000_000
"""Wall time at virtual time zero."""


class _Call:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self._callback = None

    def make(self) -> None:
        if self._callback is not None:
            self._callback()


class VirtualClock:
    """`rate`: its seconds per virtual second. While it is paused, waits by this clock do not end, although time
    passes.
    """

    def __init__(self, *, rate: float = 1.0, skew_ms: float = 0.0) -> None:
        self._loop = asyncio.get_running_loop()
        self._rate = rate
        self.skew_ms = skew_ms
        self._resumed: asyncio.Event | None = None
        self._parked: list[_Call] = []

    def monotonic(self) -> float:
        return 1_000.0 + self._loop.time() * self._rate

    def wall_ms(self) -> int:
        return int(EPOCH_MS + self.skew_ms + self._loop.time() * 1000.0)

    def system_ms(self) -> int:
        return self.wall_ms()

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            passed = self._loop.create_future()
            timer = self._loop.call_later(seconds / self._rate, passed.set_result, None)
            try:
                await passed
            finally:
                timer.cancel()
        else:
            await asyncio.sleep(0)
        while self._resumed is not None:
            await self._resumed.wait()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        call = _Call(callback)
        self._loop.call_later(max(seconds, 0.0) / self._rate, self._ring, call)
        return call

    def _ring(self, call: "_Call") -> None:
        if self._resumed is None:
            call.make()
        else:
            self._parked.append(call)

    def pause(self) -> None:
        """Pause the process: waits that end meanwhile are noticed when it resumes."""
        self._resumed = self._resumed or asyncio.Event()

    def resume(self) -> None:
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None
            parked, self._parked = self._parked, []
            for call in parked:
                call.make()
