"""An asyncio event loop whose time is virtual: it stands still while anything can run, then jumps to the next timer.

    result = run_virtual(scenario)                  # scenario: an async function without arguments
    loop = virtual_loop()                           # inside: the running loop
    await loop.advance(5.0)                         # let five seconds pass; returns when all that was due has run

There are no sockets, threads or signals: code that needs them fails at once. Two runs with one seed do the same steps
in the same order, as long as the code under test iterates over nothing that is ordered by hashes of strings or
addresses. With seed 0, timers of one instant run in the order in which they were set; another seed draws the order.
"""

import asyncio
import random
from asyncio import base_events
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION_SECONDS = 1e-7
_SPREAD_SECONDS = 1e-6


class NothingLeft(RuntimeError):
    """The scenario waits forever: nothing is ready and no timer is set."""


class LeftBehind(AssertionError):
    """The scenario ended and left tasks running."""


class _NoInput:
    """The loop's selector. There is no input, so waiting is a jump to the next timer."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeft(f"at {self._loop.time():.3f} s: {self._loop.describe_tasks()}")
        if timeout > 0:
            self._loop.jump()
        return []


class VirtualLoop(base_events.BaseEventLoop):
    """See the module. `time()` begins at 0."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = _RESOLUTION_SECONDS
        self._selector = _NoInput(self)
        self._ties = random.Random(seed) if seed else None
        self._failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self._failures.append(context))

    def time(self) -> float:
        return self._now

    def jump(self) -> None:
        """Jump to the next timer."""
        self._now = max(self._now, self._scheduled[0].when())

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._ties is not None:
            when += self._ties.random() * _SPREAD_SECONDS
        return super().call_at(when, callback, *args, context=context)

    async def advance(self, seconds: float) -> None:
        """Return `seconds` later, when all that was due by then has run as far as it can."""
        passed = self.create_future()
        super().call_at(self._now + seconds, passed.set_result, None)
        await passed
        await self.settle()

    async def settle(self) -> None:
        """Return when nothing more can run at this instant."""
        while self._ready:  # noqa: ASYNC110
            await asyncio.sleep(0)

    def describe_tasks(self) -> str:
        return ", ".join(sorted(task.get_name() for task in asyncio.all_tasks(self))) or "no task"

    def raise_failures(self) -> None:
        """Raise the first exception that nobody retrieved or that a callback raised."""
        for context in self._failures:
            error = context.get("exception")
            raise error if error is not None else RuntimeError(str(context["message"]))

    def run_in_executor(self, executor: object, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        raise RuntimeError("a virtual loop has no threads")

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        raise RuntimeError("a virtual loop has no threads")

    def _process_events(self, _: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


def virtual_loop() -> VirtualLoop:
    """The running loop."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError("this runs under run_virtual only")
    return loop


def run_virtual(coro_fn: Callable[[], Awaitable[T]], *, seed: int = 0, leave_nothing: bool = True) -> T:
    """Run a scenario to its end and return its result. `leave_nothing`: tasks left running are an error.

    Raises `NothingLeft`, `LeftBehind`, the scenario's exception, or an exception of a task or callback that nobody
    retrieved.
    """
    loop = VirtualLoop(seed=seed)

    async def scenario() -> T:
        return await coro_fn()

    try:
        main = loop.create_task(scenario(), name="scenario")
        try:
            result = loop.run_until_complete(main)
        finally:
            names = _cancel_rest(loop)
        loop.raise_failures()
        if names and leave_nothing:
            raise LeftBehind(", ".join(names))
        return result
    finally:
        loop.close()


def _cancel_rest(loop: VirtualLoop) -> list[str]:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    return [task.get_name() for task in tasks]
