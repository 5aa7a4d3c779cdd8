"""The shells' parts under virtual time: bounded waits, signals, narrow queues."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from membership.signal import Notifier, Signal
from membership.work import BoundedQueue, Work
from tests.support.virtual_clock import VirtualClock
from tests.support.virtual_loop import LeftBehind, NothingLeft, run_virtual, virtual_loop


def spawn(work: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work, name=name)


def new_work() -> tuple[VirtualClock, Work]:
    clock = VirtualClock()
    return clock, Work(clock=clock, spawn=spawn, name="test")


def test_work_beyond_its_bound_is_given_up() -> None:
    async def scenario() -> None:
        clock, work = new_work()
        assert await work.within(2.0, clock.sleep(1.0), "short")
        assert virtual_loop().time() == pytest.approx(1.0)
        assert not await work.within(2.0, clock.sleep(60.0), "long")
        assert virtual_loop().time() == pytest.approx(3.0)

        async def broken() -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work.within(2.0, broken(), "broken")

    run_virtual(scenario)


def test_finish_lets_end_what_ends_in_time() -> None:
    async def scenario() -> None:
        clock, work = new_work()
        short, long = work.begin(clock.sleep(1.0), "short"), work.begin(clock.sleep(60.0), "long")
        await work.finish(5.0)
        assert virtual_loop().time() == pytest.approx(5.0)
        assert not short.cancelled()
        assert long.cancelled()
        await work.finish(5.0)
        assert virtual_loop().time() == pytest.approx(5.0)
        late = work.begin(clock.sleep(1.0), "late")
        await asyncio.wait([late])
        assert late.cancelled(), "nothing begins after the end"

    run_virtual(scenario)


def test_a_signal_is_set_during_and_before_its_wait_and_once_for_several() -> None:
    async def scenario() -> None:
        signal, loop = Signal(VirtualClock()), virtual_loop()
        await signal.wait(1.0)
        assert loop.time() == pytest.approx(1.0)
        loop.call_later(0.5, signal.set)
        await signal.wait(10.0)
        assert loop.time() == pytest.approx(1.5)
        signal.set()
        signal.set()
        await signal.wait(10.0)
        await signal.wait(1.0)
        assert loop.time() == pytest.approx(2.5)
        loop.call_later(3.0, signal.set)
        await signal.wait()
        assert loop.time() == pytest.approx(5.5)

    run_virtual(scenario)


def test_the_deadline_of_a_signal_is_kept_by_its_clock() -> None:
    async def scenario() -> None:
        clock, loop = VirtualClock(rate=2.0), virtual_loop()
        signal = Signal(clock)
        await signal.wait(1.0)
        assert loop.time() == pytest.approx(0.5)
        clock.pause()
        loop.call_later(5.0, clock.resume)
        await signal.wait(1.0)
        assert loop.time() == pytest.approx(5.5)

    run_virtual(scenario)


def test_a_concurrency_limiter_works_in_order_on_few_at_once() -> None:
    async def scenario() -> None:
        clock, work = new_work()
        queue = BoundedQueue(width=3, work=work, what="item")
        begun: list[int] = []

        def item(number: int) -> Any:
            async def run() -> None:
                begun.append(number)
                await clock.sleep(1.0)

            return run

        for number in range(7):
            queue.put(item(number))
        await virtual_loop().advance(0.5)
        assert begun == [0, 1, 2]
        await virtual_loop().advance(1.0)
        assert begun == [0, 1, 2, 3, 4, 5]
        assert not queue.idle
        queue.clear()
        await virtual_loop().advance(5.0)
        assert begun == [0, 1, 2, 3, 4, 5]
        assert queue.idle

    run_virtual(scenario)


def test_a_notifier_wakes_all_waiters() -> None:
    async def scenario() -> None:
        notifier, heard = Notifier(), list[str]()
        notifier.listen(lambda: heard.append("listener"))

        async def wait(name: str) -> None:
            await notifier.wait()
            heard.append(name)

        tasks = [spawn(wait(name), name=name) for name in "ab"]
        await virtual_loop().settle()
        notifier.notify()
        await asyncio.gather(*tasks)
        assert heard == ["listener", "a", "b"]

    run_virtual(scenario)


def test_a_virtual_loop_says_when_nothing_can_come_any_more() -> None:
    async def stuck() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(NothingLeft, match="scenario"):
        run_virtual(stuck)


def test_a_virtual_loop_names_what_was_left_running() -> None:
    async def leaves() -> None:
        spawn(asyncio.Event().wait(), name="forgotten")

    with pytest.raises(LeftBehind, match="forgotten"):
        run_virtual(leaves)
    run_virtual(leaves, leave_nothing=False)


def test_a_virtual_loop_raises_unretrieved_exceptions() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_later(1.0, lambda: 1 // 0)
        await virtual_loop().advance(2.0)

    with pytest.raises(ZeroDivisionError):
        run_virtual(scenario)


def test_a_virtual_loop_has_no_threads() -> None:
    async def scenario() -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="no threads"):
        run_virtual(scenario)


def test_years_pass_at_once_and_a_seed_draws_the_order_of_one_instant() -> None:
    async def scenario() -> list[int]:
        rung: list[int] = []
        for number in range(20):
            virtual_loop().call_later(1.0, rung.append, number)
        await virtual_loop().advance(10 * 365 * 86_400.0)
        return rung

    orders = [run_virtual(scenario, seed=seed) for seed in (0, 0, 1, 1, 2)]
    assert orders[0] == orders[1]
    assert orders[2] == orders[3]
    assert len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == list(range(20)) for order in orders)
