"""The way of spans out of a process: a bounded queue, and batches that a thread sends.

    ended --> [queue] --512 of them, or after a second--> exporter, on a thread --> exported
       '-- full: dropped                                       '-- refused, or no answer: failed

One batch is on the way at a time. The event loop only appends to a list; encoding and waiting are the thread's, so an
endpoint that is away costs spans and nothing else. So does a fault of the exporter: calls go on without traces. Each
batch has a thread of its own, which the process does not wait for when it ends: an answer may never end.
"""

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import Final, Protocol

from membership.signal import Signal
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import Kind, Metric
from scheduler_service.runtime.tracing import Span

BATCH: Final = 512
EXPORT_SECONDS: Final = 1.0
FLUSH_SECONDS: Final = 2.0
"""How long a process that stops waits until its last spans are sent."""
CLOSE_SECONDS: Final = 1.0
"""How much longer it waits for an export that was told to end."""
_log = get_logger("minutehand.traces")


class Exporter(Protocol):
    """Sends spans. Both methods may be called by any thread."""

    def export(self, spans: list[Span]) -> bool:
        """Whether they were taken; blocks until then."""

    def close(self) -> None:
        """End an export that is waiting to be repeated."""


class SpanExport:
    """A `SpanSink` and a `Service`. `limit`: spans that may wait."""

    def __init__(self, exporter: Exporter, *, clock: Clock, limit: int, tasks: Tasks) -> None:
        self.results = {"exported": 0, "failed": 0, "dropped": 0}
        """What became of spans so far."""
        self._exporter = exporter
        self._clock = clock
        self._limit = limit
        self._tasks = tasks
        self._queue: deque[Span] = deque()
        self._wake = Signal(clock)
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._failing = False

    def ended(self, span: Span) -> None:
        queue = self._queue
        if len(queue) >= self._limit or self._stopping:
            self.results["dropped"] += 1
            return
        queue.append(span)
        if len(queue) == BATCH:
            self._wake.set()

    async def start(self) -> None:
        self._task = self._tasks.spawn(self._run(), name="trace-export")

    async def stop(self) -> None:
        """Send what waits, unless that takes longer than `FLUSH_SECONDS`; an export that does not end is left alone."""
        task, self._task, self._stopping = self._task, None, True
        if task is None:
            return
        self._wake.set()

        def abandon() -> None:
            task.cancel()

        timers = (
            self._clock.call_later(FLUSH_SECONDS, self._give_up),
            self._clock.call_later(FLUSH_SECONDS + CLOSE_SECONDS, abandon),
        )
        try:
            await asyncio.wait([task])
        finally:
            for timer in timers:
                timer.cancel()
            self._exporter.close()

    def _give_up(self) -> None:
        self.results["dropped"] += len(self._queue)
        self._queue.clear()
        self._exporter.close()

    async def _run(self) -> None:
        while self._queue or not self._stopping:
            if len(self._queue) < BATCH and not self._stopping:
                await self._wake.wait(EXPORT_SECONDS)
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
            if batch:
                await self._send(batch)

    async def _send(self, batch: list[Span]) -> None:
        loop = asyncio.get_running_loop()
        sent: asyncio.Future[bool] = loop.create_future()

        def ended(taken: bool) -> None:
            if not sent.done():
                sent.set_result(taken)

        def work() -> None:
            try:
                taken = self._exporter.export(batch)
            except Exception:
                taken = False
            # The loop is closed where the process did not wait for this thread.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(ended, taken)

        threading.Thread(target=work, name="trace-export", daemon=True).start()
        taken = False
        try:
            taken = await sent
        finally:
            self._told(len(batch), taken=taken)

    def _told(self, spans: int, *, taken: bool) -> None:
        self.results["exported" if taken else "failed"] += spans
        if taken is self._failing:
            self._failing = not taken
            if taken:
                _log.info("trace-export-works")
            else:
                _log.warning("trace-export-fails")


METRICS: Final[tuple[Metric[SpanExport | None], ...]] = (
    Metric(
        "minutehand_trace_spans_total",
        Kind.COUNTER,
        "Spans by what became of them: exported, failed (the endpoint did not take them), dropped (no room, no time).",
        lambda export: {} if export is None else export.results,
        labels=("result",),
    ),
)
"""Those of a process; without values where it exports nothing."""
