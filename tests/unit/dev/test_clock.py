"""The virtual clock: it stands, moves, follows, and lets timers run in order."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from minutehand.dev.clock import UPKEEP_SECONDS, Kind, RealWaits, VirtualClock
from minutehand.dev.loop import DevLoop
from tests.support.api import ManualClock

START_MS = 1_795_000_000_000


def run(scenario: Callable[[VirtualClock, ManualClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        real = ManualClock()
        await scenario(VirtualClock(start_ms=START_MS, real=real), real)

    with asyncio.Runner(loop_factory=DevLoop) as runner:
        runner.run(main())


async def turns() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, DevLoop)
    while not loop.idle:  # noqa: ASYNC110
        await asyncio.sleep(0)


def test_it_stands_while_real_time_passes() -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        real.advance(100)
        assert (clock.wall_ms(), clock.monotonic(), clock.following) == (START_MS, 0.0, False)

    run(scenario)


def test_timers_run_in_the_order_of_their_dues_when_it_is_moved_over_them() -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        rung: list[tuple[str, int]] = []
        for name, seconds in (("late", 3.0), ("early", 1.0), ("never", 9.0), ("middle", 2.0)):
            clock.call_later(seconds, lambda name=name: rung.append((name, clock.wall_ms())))  # type: ignore[misc]
        clock.call_later(1.5, lambda: rung.append(("cancelled", 0))).cancel()
        assert clock.next_at(Kind.WORK) == 1.0
        clock.move(5.0)
        await turns()
        assert rung == [("early", START_MS + 5000), ("middle", START_MS + 5000), ("late", START_MS + 5000)]
        assert clock.next_at(*Kind) == 9.0

    run(scenario)


def test_it_never_goes_back() -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        clock.move(5.0)
        clock.move(4.0)
        assert clock.monotonic() == 5.0

    run(scenario)


def test_it_follows_real_time_and_stands_again() -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        rung: list[float] = []
        clock.call_later(2.0, lambda: rung.append(clock.monotonic()))
        clock.follow()
        real.advance(1.0)
        await turns()
        assert rung == []
        real.advance(1.5)
        await turns()
        assert rung == [2.5]
        clock.freeze()
        real.advance(10)
        assert (clock.monotonic(), clock.following) == (2.5, False)

    run(scenario)


def test_a_sleeper_wakes_when_it_is_moved() -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        sleeper = asyncio.create_task(clock.sleep(60))
        await turns()
        clock.move(59.0)
        await turns()
        assert not sleeper.done()
        clock.move(60.0)
        await turns()
        assert sleeper.done()

    run(scenario)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("clients", Kind.UPKEEP),
        ("pollers shop", Kind.MINUTE),
        ("minute shop/0 1", Kind.WORK),
        ("dispatcher", Kind.WORK),
    ],
)
def test_whose_timer_it_is_is_told_by_the_task(name: str, kind: Kind) -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        task = asyncio.create_task(clock.sleep(1), name=name)
        await turns()
        assert [one for one in Kind if clock.next_at(one) is not None] == [kind]
        task.cancel()

    run(scenario)


def test_upkeep_runs_at_most_once_in_its_seconds_and_whenever_it_is_told() -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        looks: list[float] = []

        async def look() -> None:
            while True:
                looks.append(clock.monotonic())
                await clock.sleep(1)

        task = asyncio.create_task(look(), name="clients")
        await turns()
        for to in (5.0, 10.0, 5.0 + UPKEEP_SECONDS, 6.0 + UPKEEP_SECONDS):
            clock.move(to)
            await turns()
        assert looks == [0.0, 5.0, 5.0 + UPKEEP_SECONDS]
        clock.look_now()
        await turns()
        assert looks == [0.0, 5.0, 5.0 + UPKEEP_SECONDS, 6.0 + UPKEEP_SECONDS]
        task.cancel()

    run(scenario)


def test_real_waits_have_virtual_dates() -> None:
    async def scenario(clock: VirtualClock, real: ManualClock) -> None:
        waits, rung = RealWaits(clock, real), []
        waits.call_later(1.0, lambda: rung.append(waits.wall_ms()))
        clock.move(3600.0)
        await turns()
        assert rung == []
        real.advance(1.0)
        assert rung == [START_MS + 3_600_000]

    run(scenario)
