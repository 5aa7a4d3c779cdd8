"""Where pollers resume whose marks were recorded by a clock that was ahead."""

from collections.abc import Sequence

import pytest

from membership.clocks import CLOCKS_APART_MS
from membership.identity import PollerKey
from poller_cluster.clock_correction import REWALK_MINUTES, ClockCorrection
from scheduler_service.domain.ids import MINUTE_MS, minute_of, minute_start
from tests.support.api import NOW, ManualClock

GRACE_MS = 10_000
POLLER = PollerKey("shop", 0)
HERE = minute_of(NOW)


class SteppedClock(ManualClock):
    step_ms = 0

    def wall_ms(self) -> int:
        return self.now + self.step_ms


class Stopped:
    def clock_corrected(self) -> None:
        pass


class Bench:
    """`after_ms`: time since the grace of the present minute began."""

    def __init__(self, *, after_ms: int = 0) -> None:
        self.clock = SteppedClock()
        self.clock.now = minute_start(HERE) + GRACE_MS + after_ms
        self.again: list[tuple[PollerKey, int]] = []
        self.leases = {POLLER: 1}
        self.ahead_ms = 0
        self.clock_correction = ClockCorrection(
            clock=self.clock,
            grace_ms=GRACE_MS,
            ahead_of_servers_ms=lambda: self.ahead_ms,
            leases=lambda: self.leases,
            pollers=Stopped(),
            start_again=lambda poller, epoch: self.again.append((poller, epoch)),
        )

    def credible(self, *marks: int) -> Sequence[int]:
        """The credible mark, relative to the present minute."""
        return [self.clock_correction.credible(POLLER, HERE + mark) - HERE for mark in marks]


def test_minutes_that_are_over_are_believed() -> None:
    assert Bench().credible(-1_000, -1, 0) == [-1_000, -1, 0]


@pytest.mark.parametrize(("left_ms", "start"), [(CLOCKS_APART_MS, 0), (CLOCKS_APART_MS + 1, -REWALK_MINUTES)])
def test_a_mark_recorded_before_the_grace_makes_its_poller_read_again(left_ms: int, start: int) -> None:
    bench = Bench(after_ms=MINUTE_MS - left_ms)
    assert bench.credible(1) == [start]
    assert bench.credible(2) == [-REWALK_MINUTES]


def test_the_servers_time_counts_where_this_clock_is_far_ahead_of_it() -> None:
    bench = Bench(after_ms=30_000)
    bench.ahead_ms = MINUTE_MS
    assert bench.credible(-2, -1, 0) == [-2, -1, -1 - REWALK_MINUTES]


def test_after_a_step_back_a_poller_begins_where_this_incarnation_began_until_it_is_granted_again() -> None:
    bench = Bench()
    bench.clock.step_ms = -5 * MINUTE_MS
    bench.clock_correction.step_accepted(-5 * MINUTE_MS)
    assert bench.again == [(POLLER, 1)]
    assert bench.credible(-3, -10) == [-6, -10]
    bench.clock_correction.granted(POLLER, 2, HERE - 6)
    assert bench.credible(-5) == [-5]


def test_a_poller_that_went_to_another_node_is_taken_where_that_left_it() -> None:
    bench = Bench()
    bench.clock.step_ms = -5 * MINUTE_MS
    bench.clock_correction.step_accepted(-5 * MINUTE_MS)
    bench.clock_correction.gone(POLLER)
    bench.clock.now += 10_000 * MINUTE_MS
    assert bench.credible(9_990) == [9_990]
