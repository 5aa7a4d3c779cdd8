"""How long-running parts start and stop, and the one place where tasks are created.

`Service`: `start` returns when the service is running; `stop` is idempotent, may be called at any time, also before
`start`, and leaves no task behind. `Tasks` holds the tasks of one service and reports one that dies of an exception to
`on_crash`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class Service(Protocol):
    """Something that runs until it is stopped."""

    async def start(self) -> None:
        """Return when running. Raises if it can't run; nothing is left behind then."""

    async def stop(self) -> None:
        """Stop and leave nothing running. Idempotent; safe before `start` and while `start` runs."""


class Tasks:
    """The tasks of one owner. `on_crash(name, error)` is called for every task that ends with an exception."""

    def __init__(self, on_crash: Callable[[str, BaseException], None]) -> None:
        self._on_crash = on_crash
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Run `work` as a task. After `close` the work is not begun, and the task returned is already cancelled."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        if self._closed:
            task.cancel()
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_crash(task.get_name(), error)

    async def close(self) -> None:
        """Cancel every task, except the caller's, and wait until all have ended."""
        self._closed = True
        current = asyncio.current_task()
        # In a loop, because a task that is being cancelled may spawn others.
        while pending := [task for task in self._tasks if task is not current]:
            for task in pending:
                task.cancel()
            await asyncio.wait(pending)

    async def drain(self) -> None:
        """Wait until every task has ended by itself."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
