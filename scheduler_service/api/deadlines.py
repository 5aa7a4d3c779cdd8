"""Time limits of requests, which all have the same."""

import asyncio

from scheduler_service.api.http.timeouts import Wait, Waits


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
    """Cancels the task of every request that is still under way so many seconds after it began."""

    def begin(self, now: float) -> Deadline:
        """A limit for the current task. `now`: the clock's monotonic time, which the caller knows anyway."""
        task = asyncio.current_task()
        assert task is not None
        deadline = Deadline(now + self._seconds, task)
        self._add(deadline)
        return deadline
