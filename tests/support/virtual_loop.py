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
from contextvars import Context, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_RESOLUTION_SECONDS = 1e-7
_SPREAD_SECONDS = 1e-6


class NothingLeft(RuntimeError):
    """The scenario waits forever: nothing is ready and no timer is set."""


class LeftBehind(AssertionError):
    """The scenario ended and left tasks running."""


class _Handle(asyncio.Handle):
    """A callback without what asyncio keeps for debugging: a simulation makes a hundred thousand a second."""

    __slots__ = ()
    _callback: Callable[..., object]
    _context: Context
    _repr = None
    _source_traceback = None

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None) -> None:
        self._callback = callback
        self._args = args
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = _nothing, ()


class _Timer(_Handle, asyncio.TimerHandle):
    __slots__ = ()
    _when: float


def _nothing() -> None:
    pass


class VirtualLoop(base_events.BaseEventLoop):
    """See the module. `time()` begins at 0."""

    _ready: deque[_Handle]
    _closed: bool
    _stopping: bool
    # It is asked for each future and each task, and a type needs no frame to say no.
    get_debug = bool

    def __init__(self, *, seed: int = 0) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = count()
        self._ties = random.Random(seed) if seed else None
        self._failures: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self._failures.append(context))

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError("the loop is closed")
        handle = _Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        # Not by way of `call_at`: each simulated request sets several timers.
        if self._closed:
            raise RuntimeError("the loop is closed")
        when = self._now + delay
        if self._ties is not None:
            when += self._ties.random() * _SPREAD_SECONDS
        timer = _Timer(callback, args, context)
        timer._when = when
        heappush(self._timers, (when, next(self._order), timer))
        return timer

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._ties is not None:
            when += self._ties.random() * _SPREAD_SECONDS
        return self._set(when, _Timer(callback, args, context))

    def _set(self, when: float, timer: _Timer) -> _Timer:
        if self._closed:
            raise RuntimeError("the loop is closed")
        timer._when = when
        heappush(self._timers, (when, next(self._order), timer))
        return timer

    def _run_once(self) -> None:
        """Run what is ready, or what is due next, round by round until the loop is stopped: what asyncio's own loop
        does, without sockets and signals. asyncio asks for one round a call; most rounds have one callback, so that
        calls would cost as much as what they run.
        """
        ready, timers = self._ready, self._timers
        while True:
            if not ready and not self._stopping:
                while timers and timers[0][2]._cancelled:
                    heappop(timers)
                if not timers:
                    raise NothingLeft(f"at {self._now:.3f} s: {self.describe_tasks()}")
                if (due := timers[0][0]) > self._now:
                    self._now = due
            end = self._now + _RESOLUTION_SECONDS
            while timers and timers[0][0] < end:
                ready.append(heappop(timers)[2])
            for _ in range(len(ready)):
                handle = ready.popleft()
                try:
                    handle._context.run(handle._callback, *handle._args)
                except Exception as error:
                    message = f"exception in {handle!r}"
                    self.call_exception_handler({"message": message, "exception": error, "handle": handle})
            if self._stopping:
                return

    async def advance(self, seconds: float) -> None:
        """Return `seconds` later, when all that was due by then has run as far as it can."""
        passed = self.create_future()
        self._set(self._now + seconds, _Timer(passed.set_result, (None,), None))
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
