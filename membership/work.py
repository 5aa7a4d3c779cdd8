"""Tasks of one shell, and queues that bound concurrency."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from membership.ports import Spawn, WallClock

T = TypeVar("T")


class Work:
    """The tasks of one shell, started under the task owner behind `spawn` (`runtime.lifecycle.Tasks`).

    That owner reports crashes and ends all tasks; a `Work` ends its own earlier, and bounds waits by the clock. `close`
    cancels in the order in which tasks were begun.
    """

    def __init__(self, *, clock: WallClock, spawn: Spawn, name: str) -> None:
        self._clock = clock
        self._spawn = spawn
        self._name = name
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def begin(self, work: Coroutine[Any, Any, Any], what: str) -> asyncio.Task[Any]:
        """Run `work` as a task, named for logs. After `close` it is cancelled before its first step."""
        task = self._spawn(work, name=f"{self._name}.{what}")
        self._tasks[task] = None
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        if self._closed:
            task.cancel()
        return task

    async def within(self, seconds: float, work: Coroutine[Any, Any, Any], what: str) -> bool:
        """Run `work` for at most `seconds`; False when it had to be cancelled. Its exception propagates."""
        task = self.begin(work, what)
        alarm = self.begin(self._clock.sleep(seconds), f"{what}.bound")
        try:
            await asyncio.wait([task, alarm], return_when=asyncio.FIRST_COMPLETED)
            in_time = task.done()
        finally:
            for one in (alarm, task):
                one.cancel()
            await asyncio.wait([task, alarm])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
        return in_time

    async def finish(self, seconds: float) -> None:
        """Wait at most `seconds` for running tasks to end by themselves, then close."""
        if running := list(self._tasks):
            alarm = self.begin(self._clock.sleep(seconds), "finish.bound")
            ended = asyncio.gather(*running, return_exceptions=True)
            await asyncio.wait([ended, alarm], return_when=asyncio.FIRST_COMPLETED)
        await self.close()

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended. Idempotent."""
        self._closed = True
        current = asyncio.current_task()
        while pending := [task for task in self._tasks if task is not current]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)


class BoundedQueue:
    """A queue that runs at most `width` items at once, first come first served."""

    def __init__(self, *, width: int, work: Work, what: str) -> None:
        self._width = width
        self._work = work
        self._what = what
        self._queue: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._running = 0

    @property
    def idle(self) -> bool:
        return self._running == 0

    def put(self, item: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._queue.append(item)
        if self._running < self._width:
            self._running += 1
            self._work.begin(self._run(), self._what)

    def clear(self) -> None:
        """Forget what was not begun."""
        self._queue.clear()

    async def _run(self) -> None:
        try:
            while self._queue:
                await self._queue.popleft()()
        finally:
            self._running -= 1


class GroupedQueue(Generic[T]):
    """Queues by key. `perform` gets up to `size` items of one key at a time: never concurrently for one key, and for at
    most `width` keys at once, first come first served."""

    def __init__(
        self,
        *,
        width: int,
        size: int,
        perform: Callable[[list[T]], Coroutine[Any, Any, None]],
        work: Work,
        what: str,
    ) -> None:
        self._size = size
        self._perform = perform
        self._turns = BoundedQueue(width=width, work=work, what=what)
        self._queues: dict[str, deque[T]] = {}

    @property
    def idle(self) -> bool:
        return self._turns.idle

    def put(self, key: str, item: T) -> None:
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
            self._turns.put(partial(self._turn, key))
        queue.append(item)

    def clear(self) -> None:
        """Forget what was not begun."""
        self._turns.clear()
        self._queues.clear()

    async def _turn(self, key: str) -> None:
        queue = self._queues.get(key)
        if queue is None:
            return
        await self._perform([queue.popleft() for _ in range(min(self._size, len(queue)))])
        # `clear` may have dropped the queue meanwhile, and `put` started another with a turn already scheduled.
        if self._queues.get(key) is queue:
            if queue:
                self._turns.put(partial(self._turn, key))
            else:
                del self._queues[key]
