"""Which minutes are counted again, when, and under which epoch."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from membership.errors import StoreUnavailable
from poller_cluster import bookkeeping
from poller_cluster.bookkeeping import REST, WAIT_SECONDS, Recounts
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId
from tests.simulation.sim_clock import SimClock
from tests.support.node_parts import node_runtime
from tests.support.virtual_loop import run_virtual


def partition(number: int) -> Partition:
    return Partition(ClientId("shop"), PollerId(0), Minute(number))


class Bench:
    """Counts take `seconds`, and fail where the test says so."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.clock = SimClock()
        self.counted: list[tuple[float, int, int]] = []
        self.failing: set[int] = set()
        self.broken: set[int] = set()
        self.faults: list[BaseException] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._seconds = seconds
        count: Any = self._count
        self.recounts = Recounts(
            count=count,
            runtime=node_runtime(self.clock, spawn=self._spawn, on_fault=lambda name, error: self.faults.append(error)),
        )

    async def _count(self, where: Partition, *, epoch: int, turn: object) -> None:
        await self.clock.sleep(self._seconds)
        self.counted.append((asyncio.get_running_loop().time(), where.minute, epoch))
        if where.minute in self.broken:
            raise ValueError("unheard of")
        if where.minute in self.failing:
            raise StoreUnavailable("away")

    def _spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def done(self) -> None:
        await asyncio.gather(*self.tasks)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_virtual(scenario)


def test_changes_of_one_minute_share_a_count_under_the_highest_epoch() -> None:
    async def scenario() -> None:
        bench = Bench()
        for epoch in (3, 4, 3):
            bench.recounts.ask(partition(1), epoch)
        bench.recounts.ask(partition(2), 3)
        await bench.done()
        assert [(minute, epoch) for _, minute, epoch in bench.counted] == [(1, 4), (2, 3)]
        assert bench.counted[0][0] == pytest.approx(WAIT_SECONDS)
        bench.recounts.ask(partition(1), 4)
        await bench.done()
        assert len(bench.counted) == 3

    run(scenario)


def test_a_change_during_a_count_is_counted_again() -> None:
    async def scenario() -> None:
        bench = Bench(seconds=1.0)
        bench.recounts.ask(partition(1), 3)
        await bench.clock.sleep(WAIT_SECONDS + 0.5)
        bench.recounts.ask(partition(1), 3)
        await bench.done()
        (first, *_), (second, *_) = bench.counted
        assert second - first == pytest.approx(REST + WAIT_SECONDS + 1.0)

    run(scenario)


def test_a_count_that_fails_is_left_to_others_and_the_next_is_made() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.failing = {1}
        for number in (1, 2):
            bench.recounts.ask(partition(number), 3)
        await bench.done()
        assert [minute for _, minute, _ in bench.counted] == [1, 2]

    run(scenario)


def test_more_minutes_than_there_is_room_for_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookkeeping, "MINUTES_WAITING", 2)

    async def scenario() -> None:
        bench = Bench()
        for number in (1, 2, 3, 1):
            bench.recounts.ask(partition(number), number)
        await bench.done()
        assert [minute for _, minute, _ in bench.counted] == [1, 2]

    run(scenario)


def test_a_minute_that_cannot_be_counted_does_not_end_the_node() -> None:
    async def scenario() -> None:
        bench = Bench()
        bench.broken = {1}
        for number in (1, 2):
            bench.recounts.ask(partition(number), 3)
        await bench.done()
        assert [minute for _, minute, _ in bench.counted] == [1, 2]
        assert [str(error) for error in bench.faults] == ["unheard of"]

    run(scenario)
