"""Whether a step of the system's clock is believed: the members decide, or without members storage's servers."""

from collections.abc import MutableMapping, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from membership.clocks import Witness
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from scheduler_service.runtime.clock import WallDiscipline
from scheduler_service.runtime.timekeeper import BELIEVED_AFTER_SECONDS, FRESH_BEATS, Timekeeper
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

    def system_ms(self) -> int:
        return self.now + self.stepped_ms

    def wall_trusted(self) -> bool:
        return not self.wall.doubtful


class Machine:
    """`others`: by how much this machine's clock was ahead of theirs before any step, and by how much they stepped.
    `servers`: the same for servers that have answered since.
    """

    def __init__(self, *others: tuple[int, int], servers: Sequence[int] = ()) -> None:
        self.clock = SteppedClock()
        self.others = list(others)
        self.servers = list(servers)
        self.beats = self.seconds = 0
        self.accepted: list[int] = []
        self.balancer = Timekeeper(
            clock=self.clock,
            witnesses=self.witnesses,
            alone=lambda: not self.others,
            servers=self.ahead_of_servers,
            accepted=self.accepted.append,
        )

    def ahead_of_servers(self, since: float) -> list[int]:
        assert since >= self.clock.monotonic() - self.seconds, "older answers of servers must not count"
        return [self.ahead_ms() + ahead for ahead in self.servers]

    def witnesses(self) -> list[Witness]:
        own = self.ahead_ms()
        return [
            Witness(NodeIncarnation(NodeId(f"n{number}"), IncarnationNumber(1)), self.beats, own + ahead, step)
            for number, (ahead, step) in enumerate(self.others)
        ]

    def looks(self, seconds: int) -> None:
        self.seconds += seconds
        for _ in range(seconds):
            self.balancer.look()
            self.clock.advance(1.0)
            self.beats += 1

    def ahead_ms(self) -> int:
        """How far the accepted time is ahead of the time before the step."""
        return self.clock.wall_ms() - self.clock.now


def verdicts(said: list[MutableMapping[str, Any]]) -> list[str | None]:
    return [line.get("verdict") for line in said]


def test_a_clock_that_goes_right_is_not_spoken_of() -> None:
    machine = Machine((0, 0))
    with capture_logs() as said:
        machine.looks(30)
    assert (said, machine.clock.wall_trusted(), machine.ahead_ms()) == ([], True, 0)


@pytest.mark.parametrize(
    "others",
    [
        [(0, 0)],
        [(900, 0), (-900, 0)],
        [(0, 0), (0, STEP_MS), (0, STEP_MS)],
        [(0, 0), (0, 0), (STEP_MS, 0)],
    ],
    ids=["of one", "within the permitted second", "of who was not stepped too", "of most"],
)
def test_a_step_away_from_the_members_is_refused(others: list[tuple[int, int]]) -> None:
    machine = Machine(*others)
    machine.clock.stepped_ms = STEP_MS
    with capture_logs() as said:
        machine.looks(30)
    assert machine.clock.wall_trusted()
    assert machine.ahead_ms() == 0
    assert verdicts(said) == [None, "refused"]


@pytest.mark.parametrize("others", [[(STEP_MS + 100, 0)], [(STEP_MS, 0), (0, -STEP_MS), (0, -STEP_MS)]])
def test_a_step_towards_the_members_is_accepted(others: list[tuple[int, int]]) -> None:
    """Even towards the only one that was right, while the others, wrong like this one, are set right with it."""
    machine = Machine(*others)
    machine.clock.stepped_ms = -STEP_MS
    machine.looks(FRESH_BEATS + 1)
    assert machine.clock.wall_trusted()
    assert machine.accepted == [-STEP_MS]
    assert machine.ahead_ms() == pytest.approx(-STEP_MS, abs=100)


@pytest.mark.parametrize(
    ("others", "step_ms", "ahead_ms"),
    [
        ([(200, 0), (1_000, 0)], -600, -600),
        ([(-1_000, 0), (-200, 0)], 600, 0),
        ([(-460, 0), (460, 0)], 900, 0),
        ([(-300, 0)], 600, 0),
    ],
)
def test_a_small_step_between_members_that_differ_as_clocks_may_is_judged_by_the_middle_one(
    others: list[tuple[int, int]], step_ms: int, ahead_ms: int
) -> None:
    machine = Machine(*others)
    machine.clock.stepped_ms = step_ms
    machine.looks(FRESH_BEATS + 1)
    assert machine.clock.wall_trusted()
    assert machine.ahead_ms() == pytest.approx(ahead_ms, abs=100)


def test_no_member_judges_a_step_before_its_next_heartbeat() -> None:
    """The row read last was written before its machine was stepped as well."""
    machine = Machine((0, 0), servers=[STEP_MS])
    machine.clock.stepped_ms = -STEP_MS
    machine.looks(FRESH_BEATS)
    assert not machine.clock.wall_trusted()
    machine.others = [(0, -STEP_MS)]
    machine.looks(int(BELIEVED_AFTER_SECONDS) + 2)
    assert machine.accepted == [-STEP_MS]


@pytest.mark.parametrize("step_ms", [STEP_MS, -STEP_MS])
def test_a_step_of_all_machines_is_believed_when_it_lasts(step_ms: int) -> None:
    machine = Machine((100, step_ms), (-100, step_ms), servers=[-step_ms])
    machine.clock.stepped_ms = step_ms
    machine.looks(int(BELIEVED_AFTER_SECONDS))
    assert not machine.clock.wall_trusted()
    machine.looks(FRESH_BEATS + 1)
    assert machine.clock.wall_trusted()
    assert machine.ahead_ms() == step_ms


def test_machines_that_are_set_right_one_after_the_other_are_believed_when_the_last_one_is() -> None:
    machine = Machine((0, 0), (0, 0), servers=[STEP_MS])
    machine.clock.stepped_ms = -STEP_MS
    machine.looks(30)
    assert machine.ahead_ms() == 0
    machine.others = [(0, -STEP_MS), (0, 0)]
    machine.looks(30)
    assert machine.ahead_ms() == 0
    machine.others = [(0, -STEP_MS), (0, -STEP_MS)]
    machine.looks(int(BELIEVED_AFTER_SECONDS) + 2)
    assert machine.accepted == [-STEP_MS]


@pytest.mark.parametrize(
    "others", [[(STEP_MS // 2, 0)], [(STEP_MS // 2, STEP_MS // 2 + 5_000)], [(0, 0), (-STEP_MS, 0)]]
)
def test_a_step_that_the_members_do_not_explain_stays_in_doubt_until_it_is_undone(
    others: list[tuple[int, int]],
) -> None:
    machine = Machine(*others)
    machine.clock.stepped_ms = STEP_MS
    with capture_logs() as said:
        machine.looks(60)
        assert not machine.clock.wall_trusted()
        assert machine.ahead_ms() == 0
        machine.clock.stepped_ms = 0
        machine.looks(2)
    assert machine.clock.wall_trusted()
    assert verdicts(said) == [None, "back by itself"]


OTHERS = pytest.mark.parametrize("others", [0, 2], ids=["a lone member", "stepped with all others"])


def alone(others: int, step_ms: int, *servers: int) -> Machine:
    machine = Machine(*[(0, step_ms)] * others, servers=servers)
    machine.clock.stepped_ms = step_ms
    return machine


@OTHERS
@pytest.mark.parametrize("step_ms", [STEP_MS, -STEP_MS])
def test_a_step_away_from_the_servers_is_refused(others: int, step_ms: int) -> None:
    for servers in ([0], [4_000], [-4_000], [0, -step_ms, 0]):
        machine = alone(others, step_ms, *servers)
        with capture_logs() as said:
            machine.looks(60)
        assert machine.clock.wall_trusted()
        assert machine.ahead_ms() == 0
        assert verdicts(said) == [None, "refused"]


@OTHERS
@pytest.mark.parametrize("step_ms", [STEP_MS, -STEP_MS])
def test_a_step_towards_the_servers_is_believed_when_it_lasts(others: int, step_ms: int) -> None:
    """They were right, or they share the host and were stepped as well; the clock can't tell which."""
    for servers in ([-step_ms], [4_000 - step_ms], [-4_000 - step_ms], [0, -step_ms, -step_ms]):
        machine = alone(others, step_ms, *servers)
        machine.looks(int(BELIEVED_AFTER_SECONDS))
        assert not machine.clock.wall_trusted()
        machine.looks(FRESH_BEATS + 1)
        assert machine.clock.wall_trusted()
        assert machine.accepted == [step_ms]


@OTHERS
def test_while_no_server_tells_a_step_stays_in_doubt(others: int) -> None:
    machine = alone(others, STEP_MS)
    machine.looks(60)
    assert not machine.clock.wall_trusted()
    machine.servers = [0]
    machine.looks(2)
    assert machine.clock.wall_trusted()
    assert machine.ahead_ms() == 0


def test_a_step_that_the_servers_follow_later_is_believed_then() -> None:
    machine = alone(0, STEP_MS, 0)
    machine.looks(30)
    assert machine.ahead_ms() == 0
    machine.servers = [-STEP_MS]
    machine.looks(int(BELIEVED_AFTER_SECONDS) + 2)
    assert machine.accepted == [STEP_MS]
