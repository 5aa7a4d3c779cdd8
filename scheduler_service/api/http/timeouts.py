"""How long others are waited for: one timer for all who are waited for equally long.

They run out in the order in which they began, so a queue and a timer at its head are enough. That costs a tenth of a
timer for each (0.5 against 6 µs).
"""

import asyncio
from collections import deque
from collections.abc import Callable

from membership.ports import Timer
from scheduler_service.runtime.clock import Clock


class Wait:
    """One wait. It ends by itself, and `at_end` is called, unless it is over before."""

    __slots__ = ("at", "at_end")

    def __init__(self, at: float, at_end: Callable[[], None]) -> None:
        self.at = at
        self.at_end: Callable[[], None] | None = at_end

    def over(self) -> None:
        """What was waited for has come."""
        self.at_end = None


class Waits:
    """Waits of the same length, in the order in which they began."""

    def __init__(self, seconds: float, *, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._queue: deque[Wait] = deque()
        self._timer: Timer | None = None

    def _add(self, wait: Wait) -> None:
        """One that begins now."""
        self._queue.append(wait)
        if self._timer is None:
            self._timer = self._clock.call_later(self._seconds, self._expire)

    def close(self) -> None:
        """Forget every wait and stop the timer."""
        self._queue.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        queue = self._queue
        while queue and (queue[0].at_end is None or queue[0].at <= now):
            at_end = queue.popleft().at_end
            if at_end is not None:
                at_end()
        if queue:
            self._timer = self._clock.call_later(queue[0].at - now, self._expire)


class TimerQueue(Waits):
    """Waits that end by a call of whoever began them."""

    def begin(self, at_end: Callable[[], None]) -> Wait:
        wait = Wait(self._clock.monotonic() + self._seconds, at_end)
        self._add(wait)
        return wait

    def end_oldest(self, *, after: float) -> bool:
        """End the one that has been waited for longest, if that is so many seconds at least."""
        queue = self._queue
        while queue and queue[0].at_end is None:
            queue.popleft()
        if not queue or queue[0].at - self._seconds + after > self._clock.monotonic():
            return False
        at_end = queue.popleft().at_end
        assert at_end is not None
        at_end()
        return True


class Deadline(Wait):
    """One request's limit. `expired`: its task was cancelled by it."""

    __slots__ = ("expired", "task")

    def __init__(self, at: float, task: "asyncio.Task[object]") -> None:
        super().__init__(at, self._expire)
        self.task: asyncio.Task[object] | None = task
        self.expired = False

    def met(self) -> None:
        """The request ended in time."""
        self.over()
        self.task = None

    def _expire(self) -> None:
        assert self.task is not None
        self.expired = True
        self.task.cancel()


class Deadlines(Waits):
    """Time limits of requests, which all have the same.

    Cancels the task of every request that is still under way so many seconds after it began.
    """

    def begin(self, now: float) -> Deadline:
        """A limit for the current task. `now`: the clock's monotonic time, which the caller knows anyway."""
        task = asyncio.current_task()
        assert task is not None
        deadline = Deadline(now + self._seconds, task)
        self._add(deadline)
        return deadline
