"""Bounds the unanswered requests of one session: fewer while most of them time out.

Servers process requests in order of arrival, from all sessions. So what a session sends beyond what they can answer
within a time-out delays everything, heartbeats on other connections too, and is abandoned before it is answered. Kept
here it delays only itself.

    more than half of a window's requests unanswered      half as many, `LEAST` at least
    less than a tenth of them                             a quarter more, up to the setting

In between nothing changes: one stalled server of three is no reason to send less to the other two.
"""

import asyncio
from collections import deque

WINDOW_SECONDS = 0.5
ENOUGH = 10
"""Requests that a window must have before it is judged."""
LEAST = 32


class ConcurrencyLimiter:
    """Used on one event loop. `now` is monotonic seconds. At most `waiting` requests wait for a place."""

    __slots__ = ("_asked", "_began", "_most", "_queue", "_unanswered", "places", "taken", "waiting")

    def __init__(self, *, places: int, waiting: int) -> None:
        self.places = places
        """The current number of places."""
        self.taken = 0
        self.waiting = waiting
        self._most = places
        self._queue: deque[asyncio.Future[None]] = deque()
        self._began: float | None = None
        self._asked = self._unanswered = 0

    def enter(self) -> asyncio.Future[None] | None:
        """Take a place, or return a future to wait for; if that is cancelled, call `left_queue`. Raises QueueFull."""
        if self.taken < self.places and not self._queue:
            self.taken += 1
            return None
        if len(self._queue) >= self.waiting:
            raise QueueFull
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        return turn

    def left_queue(self, turn: asyncio.Future[None]) -> None:
        """The wait for `turn` was cancelled: leave the queue, or give back the place if it was granted already."""
        # Granted in the same turn of the loop in which the wait was cancelled.
        if turn.done() and not turn.cancelled():
            self.leave()
        elif turn in self._queue:
            self._queue.remove(turn)

    def leave(self) -> None:
        self.taken -= 1
        self._let_in()

    def answered(self, answered: bool, *, now: float) -> None:
        """Record the end of a request; `answered` False: it timed out."""
        if self._began is None:
            self._began = now
        self._asked += 1
        self._unanswered += not answered
        if now - self._began < WINDOW_SECONDS or self._asked < ENOUGH:
            return
        if self._unanswered * 2 > self._asked:
            self.places = max(self.places // 2, min(LEAST, self._most))
        elif self._unanswered * 10 < self._asked:
            self.places = min(self.places + max(self.places // 4, 1), self._most)
        self._began, self._asked, self._unanswered = now, 0, 0
        self._let_in()

    def _let_in(self) -> None:
        while self._queue and self.taken < self.places:
            turn = self._queue.popleft()
            if not turn.done():
                self.taken += 1
                turn.set_result(None)


class QueueFull(Exception):
    """Too many requests wait."""
