"""An event loop that can say whether anything is left to run."""

import asyncio
import selectors
from collections import deque
from typing import Final

_RESOLUTION_SECONDS: Final = 1e-6
_TURNS: Final = 64
"""While callbacks are ready, sockets are looked at once in so many turns: moving time takes hundreds of thousands."""


class _SeldomSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._turns += 1
        if timeout == 0 and self._turns % _TURNS:
            return []
        return super().select(timeout)


class DevLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop; uvloop does not show what is ready."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__(_SeldomSelector())

    @property
    def idle(self) -> bool:
        """Nothing can run now, apart from the caller and what waits for sockets or for real time."""
        if self._ready:
            return False
        return not self._scheduled or self._scheduled[0].when() > self.time() + _RESOLUTION_SECONDS
