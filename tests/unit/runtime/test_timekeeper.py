"""What a step of the system's clock is taken for: the members judge, and where there are none, time."""

import pytest
from structlog.testing import capture_logs

from scheduler_service.runtime.clock import WallDiscipline
from scheduler_service.runtime.timekeeper import ALONE_BELIEVES_AFTER_SECONDS, Timekeeper
from tests.support.api import ManualClock

STEP_MS = 60_000


class SteppedClock(ManualClock):
    """A machine whose system clock is `stepped_ms` away from where it was."""

    def __init__(self) -> None:
        super().__init__()
        self.stepped_ms = 0
        self.wall = WallDiscipline(system_ms=self.now, monotonic=self.monotonic())

    def discipline(self) -> WallDiscipline:
        self.wall.observe(system_ms=self.now + self.stepped_ms, monotonic=self.monotonic())
        return self.wall

    def wall_ms(self) -> int:
        return self.wall.wall_ms(self.monotonic())

    def wall_trusted(self) -> bool:
        return not self.wall.doubtful


class Machine:
    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.offset_ms: int | None = 0
        self.alone = False
        self.keeper = Timekeeper(clock=self.clock, offset_ms=lambda: self.offset_ms, alone=lambda: self.alone)

    def looks(self, seconds: int) -> None:
        for _ in range(seconds):
            self.keeper.look()
            self.clock.advance(1.0)

    def ahead_ms(self) -> int:
        """Of the time that it had before the step."""
        return self.clock.wall_ms() - self.clock.now


def test_a_clock_that_goes_right_is_not_spoken_of() -> None:
    machine = Machine()
    with capture_logs() as said:
        machine.looks(30)
    assert (said, machine.clock.wall_trusted(), machine.ahead_ms()) == ([], True, 0)


def test_a_step_away_from_the_members_is_refused() -> None:
    machine = Machine()
    machine.clock.stepped_ms = STEP_MS
    with capture_logs() as said:
        machine.looks(30)
    assert machine.clock.wall_trusted()
    assert machine.ahead_ms() == 0
    assert [(line["event"], line.get("verdict")) for line in said] == [
        ("clock-stepped", None),
        ("clock-step-judged", "refused"),
    ]


def test_a_step_towards_the_members_is_accepted() -> None:
    machine = Machine()
    machine.clock.stepped_ms, machine.offset_ms = -STEP_MS, STEP_MS + 100
    machine.looks(2)
    assert machine.clock.wall_trusted()
    assert machine.ahead_ms() == pytest.approx(-STEP_MS, abs=100)


@pytest.mark.parametrize("offset_ms", [None, STEP_MS // 2])
def test_a_step_that_the_members_do_not_explain_stays_in_doubt_until_it_is_undone(offset_ms: int | None) -> None:
    machine = Machine()
    machine.clock.stepped_ms, machine.offset_ms = STEP_MS, offset_ms
    with capture_logs() as said:
        machine.looks(60)
        assert not machine.clock.wall_trusted()
        assert machine.ahead_ms() == 0
        machine.clock.stepped_ms = 0
        machine.looks(2)
    assert machine.clock.wall_trusted()
    assert [line.get("verdict") for line in said] == [None, "back by itself"]


def test_where_nobody_can_be_asked_a_step_that_lasts_is_believed() -> None:
    machine = Machine()
    machine.alone, machine.offset_ms = True, None
    machine.clock.stepped_ms = STEP_MS
    machine.looks(int(ALONE_BELIEVES_AFTER_SECONDS))
    assert not machine.clock.wall_trusted()
    machine.looks(2)
    assert machine.clock.wall_trusted()
    assert machine.ahead_ms() == pytest.approx(STEP_MS, abs=100)
