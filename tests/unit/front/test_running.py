"""The lifecycle of a server program, tested without a process."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import pytest
from structlog.testing import capture_logs

from minutehand.errors import LocalError
from minutehand.running import ProcessFailed, StopSignal, run_process, start_unless_stopped, unless_stopped


class Slow:
    """A service whose start ends when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.said: list[str] = []

    async def start(self) -> None:
        self.begun.set()
        try:
            await self.may_end.wait()
            self.said.append("started")
        except asyncio.CancelledError:
            self.said.append("cancelled")
            raise

    async def stop(self) -> None:
        self.said.append("stopped")


async def test_a_slow_start_ends_when_the_process_is_to_end() -> None:
    stop, service = StopSignal(), Slow()

    async def ask() -> None:
        await service.begun.wait()
        stop.request()

    async with AsyncExitStack() as parts:
        started, _ = await asyncio.gather(start_unless_stopped(service, stop, parts), ask())
        assert not started
    assert service.said == ["cancelled", "stopped"]
    assert stop.failure is None


async def test_a_start_that_succeeds() -> None:
    stop, service = StopSignal(), Slow()
    service.may_end.set()
    async with AsyncExitStack() as parts:
        assert await start_unless_stopped(service, stop, parts)
    assert service.said == ["started", "stopped"]


async def test_work_is_awaited_or_cancelled() -> None:
    async def one() -> int:
        return 1

    assert await unless_stopped(one(), StopSignal()) == 1
    stop, service = StopSignal(), Slow()
    stop.request()
    assert await unless_stopped(service.start(), stop) is None
    assert service.said == ["cancelled"]


async def test_an_exception_passes_through_unless_stopped() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await unless_stopped(fail(), StopSignal())
    assert len(asyncio.all_tasks()) == 1


async def test_the_first_reason_counts() -> None:
    stop = StopSignal()
    stop.crashed("node shop", RuntimeError("x"))
    stop.fail("something else")
    stop.request()
    await stop.wait()
    assert stop.failure is not None
    assert "'node shop'" in stop.failure
    assert "RuntimeError" in stop.failure
    late = StopSignal()
    late.request()
    late.fail("too late to matter")
    assert late.failure is None


def test_a_signal_ends_a_process_in_good_order() -> None:
    said = []

    async def main(stop: StopSignal) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        said.append("stopped")

    run_process(main)
    assert said == ["stopped"]


def test_a_second_signal_ends_it_at_once() -> None:
    async def main(stop: StopSignal) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(ProcessFailed, match="second signal"):
        run_process(main)


def test_a_part_that_cannot_go_on_is_a_failure() -> None:
    async def main(stop: StopSignal) -> None:
        stop.fail("The node a@1 must end.")
        await stop.wait()

    with pytest.raises(ProcessFailed, match="The node a@1 must end"):
        run_process(main)


@pytest.mark.parametrize(("error", "traced"), [(LocalError("No topic.", "Create it."), 0), (RuntimeError("a bug"), 1)])
def test_only_unhandled_exceptions_are_logged_with_a_traceback(error: Exception, traced: int) -> None:
    async def main(stop: StopSignal) -> None:
        raise error

    with capture_logs() as lines, pytest.raises(type(error)):
        run_process(main)
    assert len([line for line in lines if line["event"] == "process-crashed"]) == traced
