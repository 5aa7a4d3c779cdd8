import asyncio

import pytest

from scheduler_service.api.http.timeouts import Deadline, Deadlines
from tests.support.api import ManualClock


async def begin(deadlines: Deadlines, clock: ManualClock, begun: list[Deadline]) -> None:
    begun.append(deadlines.begin(clock.monotonic()))
    await asyncio.Event().wait()


async def test_only_what_is_overdue_is_cancelled() -> None:
    clock = ManualClock()
    deadlines = Deadlines(5.0, clock=clock)
    begun: list[Deadline] = []
    tasks = []
    for _ in range(3):
        tasks.append(asyncio.ensure_future(begin(deadlines, clock, begun)))
        await asyncio.sleep(0)
        clock.advance(1)
    begun[1].disarm()
    clock.advance(2)
    assert [one.expired for one in begun] == [True, False, False]
    clock.advance(1)
    assert [one.expired for one in begun] == [True, False, False]
    clock.advance(1)
    assert [one.expired for one in begun] == [True, False, True]
    tasks[1].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)


async def test_a_deadline_that_was_kept_leaves_nothing_behind() -> None:
    clock = ManualClock()
    deadlines = Deadlines(5.0, clock=clock)
    for _ in range(100):
        deadlines.begin(clock.monotonic()).disarm()
    clock.advance(5)
    assert len(deadlines._queue) == 0
    assert deadlines._timer is None
    deadlines.begin(clock.monotonic())
    assert deadlines._timer is not None
    deadlines.close()
    clock.advance(10)
    await asyncio.sleep(0)


async def test_one_timer_serves_all() -> None:
    clock = ManualClock()
    deadlines = Deadlines(5.0, clock=clock)
    for _ in range(100):
        deadlines.begin(clock.monotonic()).disarm()
    assert len(clock._timers) == 1
    deadlines.close()


def test_a_limit_needs_a_task() -> None:
    with pytest.raises(RuntimeError):
        Deadlines(5.0, clock=ManualClock()).begin(0.0)
