"""The lifecycle of a server process: event loop, signals, exit code.

    start every part in order --> run until told to stop --> stop them in reverse order --> exit

The first SIGTERM or SIGINT stops it gracefully, the second at once. A part that can't go on ends the whole process with
a failure, so that its supervisor restarts it: no process runs on with half of its parts.
"""

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import uvloop

from membership.errors import MinutehandError
from minutehand.errors import LocalError
from scheduler_service.runtime.lifecycle import Service, Tasks
from scheduler_service.runtime.logging import get_logger

_log = get_logger("minutehand")
T = TypeVar("T")

COLLECT_AFTER = 50_000
"""Allocations net of frees before the youngest generation is searched for cycles. A batch of 1,000 makes some
10,000."""


class ProcessFailed(MinutehandError):
    """A part of the process could not go on."""


class StopSignal:
    """Says when the process is to end, and whether as a failure. The first reason counts."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.failure: str | None = None

    @property
    def requested(self) -> bool:
        """Whether the process is to end."""
        return self._event.is_set()

    def request(self) -> None:
        """End cleanly."""
        self._event.set()

    def fail(self, reason: str) -> None:
        """End as a failure; `reason` is a sentence for the operator."""
        if not self._event.is_set():
            self.failure = reason
            _log.error("process-failing", reason=reason)
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()

    def crashed(self, name: str, error: BaseException) -> None:
        """A task ended with an unhandled exception; the process exits."""
        _log.error("task-crashed", task=name, exc_info=error)
        self.fail(f"The part {name!r} raised an unhandled exception ({type(error).__name__}); see the log.")


def run_process(
    main: Callable[[StopSignal], Coroutine[Any, Any, None]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> None:
    """Run `main` on a new event loop until it ends. Raises what it raises, ProcessFailed for a failure."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_with_signals(main))


async def _with_signals(main: Callable[[StopSignal], Coroutine[Any, Any, None]]) -> None:
    stop = StopSignal()
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    received: list[int] = []

    def on_signal(number: int) -> None:
        received.append(number)
        if len(received) > 1:
            task.cancel()
        else:
            _log.info("process-stopping", signal=signal.Signals(number).name)
            stop.request()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        await main(stop)
    except asyncio.CancelledError:
        if len(received) < 2:
            raise
        raise ProcessFailed("Stopped at once by a second signal; calls under way are in doubt.") from None
    except (MinutehandError, LocalError):
        # Sentences for who started it: a traceback says no more.
        raise
    except Exception as error:
        _log.error("process-crashed", exc_info=error)
        raise
    if stop.failure is not None:
        raise ProcessFailed(stop.failure)


def spare_collector() -> None:
    """Exempt all present objects from cycle collection; call it when everything is started.

    Requests and calls leave no cycles behind. The collector ran several times during a batch of creates, over
    everything that the process had loaded, and in a node over tens of thousands of waiting rows: a sixth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 50)


async def start_unless_stopped(service: Service, stop: StopSignal, parts: AsyncExitStack) -> bool:
    """Start a service whose start may take long; False when the process is to end instead. Either way it is stopped
    with `parts`."""
    parts.push_async_callback(service.stop)

    async def started() -> bool:
        await service.start()
        return True

    return await unless_stopped(started(), stop) or False


async def unless_stopped(work: Coroutine[Any, Any, T], stop: StopSignal) -> T | None:
    """The result of `work`; when the process is to end first, cancel it and answer None. Exceptions of `work`
    propagate."""
    tasks = Tasks(lambda name, error: None)
    begun = tasks.spawn(work, name="begun")
    stopping = tasks.spawn(stop.wait(), name="stopping")
    try:
        await asyncio.wait([begun, stopping], return_when=asyncio.FIRST_COMPLETED)
        return begun.result() if begun.done() else None
    finally:
        await tasks.close()
