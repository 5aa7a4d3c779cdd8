"""What a node has called within the last minute."""

import asyncio

import pytest

from poller_cluster.counters import GUARANTEED, CallCounts
from poller_cluster.recent_calls import COPIED_EVERY_SECONDS, COPIES, RecentCalls
from scheduler_service.domain.call_figures import LATENESS_BOUNDS
from tests.support.api import ManualClock


class SteppingClock(ManualClock):
    """Its sleeps end when the test has moved it."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.turns.clear()
        await self.turns.wait()

    async def step(self, seconds: float) -> None:
        self.advance(seconds)
        self.turns.set()
        for _ in range(3):
            await asyncio.sleep(0)


def call(counts: CallCounts, client_id: str, late: float) -> None:
    counts.lateness[GUARANTEED].observe(late)
    client = counts.clients.account(client_id)
    client.fires += 1
    client.lateness_seconds += late
    client.failed_attempts += late > 0.1
    counts.outcomes["delivered"] += 1


async def test_only_the_last_minute_is_counted() -> None:
    clock, counts = SteppingClock(), CallCounts()
    recent = RecentCalls(counts=counts, clock=clock)
    running = asyncio.ensure_future(recent.run())
    await asyncio.sleep(0)
    for _ in range(100):
        call(counts, "old", 0.02)
    for _ in range(COPIES + 1):
        await clock.step(COPIED_EVERY_SECONDS)
    assert recent.figures().calls == 0
    for _ in range(30):
        call(counts, "shop", 0.2)
    figures = recent.figures()
    assert figures.calls == 30
    assert figures.lateness[LATENESS_BOUNDS.index(0.25)] == 30
    assert figures.per_second == pytest.approx(30 / (COPIED_EVERY_SECONDS * (COPIES - 1)))
    assert figures.ends["delivered"] == 30
    assert figures.clients["shop"].calls == 30
    assert figures.clients["shop"].late_seconds == pytest.approx(6.0)
    assert figures.clients["shop"].failed_attempts == 30
    assert figures.clients["old"].calls == 0
    running.cancel()
