"""The way of spans out of a process: what is sent, what is counted as lost, and that nothing waits for an endpoint."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest
from structlog.testing import capture_logs

from minutehand.tracing.export import BATCH, CLOSE_SECONDS, EXPORT_SECONDS, FLUSH_SECONDS, SpanExport
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.tracing import Span, SpanContext
from tests.support.api import NOW, ManualClock


class Endpoint:
    """An exporter. `answer` is called by the thread; what waits in it is released by `close`."""

    def __init__(self) -> None:
        self.sent: list[list[Span]] = []
        self.answer: Callable[[], bool] = lambda: True
        self.began = threading.Event()
        self.closed = threading.Event()

    def export(self, spans: list[Span]) -> bool:
        self.sent.append(spans)
        self.began.set()
        return self.answer()

    def close(self) -> None:
        self.closed.set()

    def hang(self) -> bool:
        """No answer until it is closed."""
        assert self.closed.wait(10)
        return False


class Bench:
    def __init__(self, limit: int = 4 * BATCH) -> None:
        self.clock, self.endpoint = ManualClock(), Endpoint()
        self.crashes: list[BaseException] = []
        tasks = Tasks(lambda name, error: self.crashes.append(error))
        self.export = SpanExport(self.endpoint, clock=self.clock, limit=limit, tasks=tasks)

    def end(self, count: int) -> None:
        for number in range(count):
            self.export.ended(
                Span(
                    name="create",
                    kind="server",
                    context=SpanContext(1, number + 1),
                    parent=None,
                    links=(),
                    began=NOW,
                    ended=NOW,
                    attributes={},
                )
            )

    async def results(self, *, exported: int = 0, failed: int = 0, dropped: int = 0) -> None:
        """Wait until so many spans ended so."""
        wanted = {"exported": exported, "failed": failed, "dropped": dropped}
        async with asyncio.timeout(10):
            while self.export.results != wanted:
                await asyncio.to_thread(lambda: None)

    async def began(self) -> None:
        """An export is under way."""
        assert await asyncio.to_thread(self.endpoint.began.wait, 10)
        self.endpoint.began.clear()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    await made.export.start()
    await asyncio.sleep(0)
    yield made
    made.endpoint.closed.set()
    await made.export.stop()
    assert made.crashes == []


async def test_spans_are_sent_after_a_second(bench: Bench) -> None:
    bench.end(3)
    assert bench.endpoint.sent == []
    bench.clock.advance(EXPORT_SECONDS)
    await bench.results(exported=3)
    assert [len(batch) for batch in bench.endpoint.sent] == [3]


async def test_a_full_batch_is_sent_at_once(bench: Bench) -> None:
    bench.end(BATCH + 1)
    await bench.results(exported=BATCH)
    assert bench.endpoint.sent[0][0].context.span_id == 1
    bench.clock.advance(EXPORT_SECONDS)
    await bench.results(exported=BATCH + 1)


async def test_what_finds_a_full_queue_is_dropped_and_counted(bench: Bench) -> None:
    bench.endpoint.answer = bench.endpoint.hang
    bench.end(BATCH)
    await bench.began()
    bench.end(4 * BATCH + 7)
    await bench.results(dropped=7)
    assert len(bench.endpoint.sent) == 1


async def test_refused_spans_are_failed_and_the_change_is_logged_once(bench: Bench) -> None:
    bench.endpoint.answer = lambda: False
    with capture_logs() as logs:
        for number in (1, 2):
            bench.end(BATCH)
            await bench.results(failed=number * BATCH)
        bench.endpoint.answer = lambda: True
        for number in (1, 2):
            bench.end(BATCH)
            await bench.results(failed=2 * BATCH, exported=number * BATCH)
    assert [one["event"] for one in logs] == ["trace-export-fails", "trace-export-works"]


async def test_a_fault_of_the_exporter_costs_its_spans_and_nothing_else(bench: Bench) -> None:
    def broken() -> bool:
        raise RuntimeError("a bug")

    bench.endpoint.answer = broken
    bench.end(BATCH)
    await bench.results(failed=BATCH)
    bench.endpoint.answer = lambda: True
    bench.end(BATCH)
    await bench.results(failed=BATCH, exported=BATCH)


async def test_a_stop_sends_what_waits(bench: Bench) -> None:
    bench.end(BATCH + 3)
    await bench.export.stop()
    await bench.export.stop()
    assert bench.export.results == {"exported": BATCH + 3, "failed": 0, "dropped": 0}
    assert bench.endpoint.closed.is_set()


async def test_a_stop_gives_up_an_endpoint_that_does_not_answer(bench: Bench) -> None:
    bench.endpoint.answer = bench.endpoint.hang
    bench.end(2 * BATCH)
    await bench.began()
    stopped = asyncio.ensure_future(bench.export.stop())
    await asyncio.sleep(0)
    bench.clock.advance(FLUSH_SECONDS - 0.1)
    assert not bench.endpoint.closed.is_set()
    bench.clock.advance(0.1)
    async with asyncio.timeout(10):
        await stopped
    assert bench.export.results == {"exported": 0, "failed": BATCH, "dropped": BATCH}


async def test_a_stop_does_not_wait_for_an_export_that_does_not_even_end_when_it_is_closed(bench: Bench) -> None:
    over = threading.Event()
    bench.endpoint.answer = lambda: over.wait(10)
    bench.end(BATCH)
    await bench.began()
    stopped = asyncio.ensure_future(bench.export.stop())
    await asyncio.sleep(0)
    bench.clock.advance(FLUSH_SECONDS + CLOSE_SECONDS)
    try:
        async with asyncio.timeout(1):
            await stopped
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "trace-export")
    finally:
        over.set()
    assert bench.export.results == {"exported": 0, "failed": BATCH, "dropped": 0}


async def test_what_ends_after_the_stop_is_dropped(bench: Bench) -> None:
    await bench.export.stop()
    bench.end(2)
    assert bench.export.results == {"exported": 0, "failed": 0, "dropped": 2}


async def test_it_may_be_stopped_before_it_is_started() -> None:
    bench = Bench()
    await bench.export.stop()
    assert bench.endpoint.sent == []
