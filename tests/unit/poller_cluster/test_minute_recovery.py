import asyncio
from typing import cast

from poller_cluster.client_pollers import HeldPoller
from poller_cluster.minute.runner import MinuteRun
from poller_cluster.minute.steps import Phase
from poller_cluster.recovery import RecoveryRange, found, next_chunk
from scheduler_service.domain.ids import Minute, PollerId
from tests.unit.poller_cluster.builders import EPOCH, machine

HOUR = 60 * 480_000


class ScriptedRun:
    """Records a poller's calls to the run of one minute."""

    def __init__(self, phase: Phase = Phase.RUNNING) -> None:
        self.machine = machine()
        self.machine.phase = phase
        self.asked: list[str] = []

    def drain(self) -> None:
        self.asked.append("drain")

    def resume(self) -> None:
        self.asked.append("resume")

    def abandon(self) -> None:
        self.asked.append("abandon")


def recovery(at: int, to: int, poller: int = 1) -> RecoveryRange:
    return RecoveryRange(PollerId(poller), Minute(HOUR + at), Minute(HOUR + to))


def poller(at: int = 0, to: int = 0) -> HeldPoller:
    return HeldPoller(poller_id=PollerId(1), epoch=EPOCH, recovery=recovery(at, to))


def runs(work: HeldPoller, minute: int, run: ScriptedRun, *, task: bool = True) -> None:
    work.runs[Minute(HOUR + minute)] = cast(MinuteRun, run)
    if task:
        work.tasks[Minute(HOUR + minute)] = cast("asyncio.Task[object]", object())


def position(work: HeldPoller, swept: int) -> int:
    return work.position(Minute(HOUR + swept)) - HOUR


def test_a_chunk_goes_from_the_oldest_unread_minute_to_the_end_of_its_hour() -> None:
    assert next_chunk([recovery(30, 200), recovery(20, 40, 2)]) == (HOUR + 20, HOUR + 59)
    assert next_chunk([recovery(60, 200)]) == (HOUR + 60, HOUR + 119)


def test_the_last_chunk_ends_with_the_last_walk() -> None:
    assert next_chunk([recovery(10, 12), recovery(5, 25, 2)]) == (HOUR + 5, HOUR + 24)


def test_walks_that_are_done_need_no_chunk() -> None:
    assert next_chunk([]) is None
    assert next_chunk([recovery(10, 10), recovery(12, 11, 2)]) is None
    assert next_chunk([recovery(1, 1), recovery(10, 11, 2)]) == (HOUR + 10, HOUR + 10)


def test_minutes_are_found_oldest_first_within_each_poller_s_range() -> None:
    one, two = recovery(10, 20, 1), recovery(15, 30, 2)
    occupied = {
        Minute(HOUR + minute): [PollerId(number) for number in (3, 2, 1)] for minute in (30, 20, 15, 19, 9, 10, 14)
    }
    assert [(minute - HOUR, owner) for minute, owner in found([one, two], occupied)] == [
        (10, one),
        (14, one),
        (15, one),
        (15, two),
        (19, one),
        (19, two),
        (20, two),
    ]


def test_a_pollers_position_is_after_its_settled_minutes() -> None:
    work = poller()
    assert position(work, 9) == 10
    work.settled = {Minute(HOUR + 10), Minute(HOUR + 11), Minute(HOUR + 13)}
    assert position(work, 9) == 12
    assert work.knows(Minute(HOUR + 13))
    assert not work.knows(Minute(HOUR + 12))


def test_a_pollers_position_is_its_oldest_run_or_recovery() -> None:
    work = poller(3, 8)
    assert position(work, 9) == 3
    runs(work, 2, ScriptedRun())
    assert position(work, 9) == 2
    assert work.knows(Minute(HOUR + 2))
    work.recovery = recovery(8, 8)
    work.runs.clear()
    runs(work, 7, ScriptedRun())
    assert position(work, 9) == 7


def test_a_draining_poller_keeps_its_position() -> None:
    work, run = poller(), ScriptedRun()
    runs(work, 8, run)
    work.drain(Minute(HOUR + 9))
    assert (work.draining, run.asked) == (True, ["drain"])
    work.runs.clear()
    assert position(work, 30) == 8
    work.drain(Minute(HOUR + 30))
    assert position(work, 30) == 8


def test_a_poller_taken_back_recovers_what_it_has_not_settled() -> None:
    work = poller()
    unfinished, drained = ScriptedRun(), ScriptedRun(Phase.DRAINED)
    runs(work, 8, unfinished)
    runs(work, 9, drained, task=False)
    work.settled = {Minute(HOUR + 12), Minute(HOUR + 31)}
    work.drain(Minute(HOUR + 9))
    work.resume(passed=Minute(HOUR + 9), swept=Minute(HOUR + 30))
    assert (work.draining, work.entered) == (False, False)
    assert unfinished.asked == ["drain", "resume"]
    assert sorted(minute - HOUR for minute in work.runs) == [8]
    assert work.recovery == recovery(8, 31)
    assert work.settled == {Minute(HOUR + 31)}


def test_a_lost_poller_abandons_every_run() -> None:
    work, first, second = poller(), ScriptedRun(), ScriptedRun()
    runs(work, 8, first)
    runs(work, 9, second)
    work.abandon()
    assert (first.asked, second.asked) == (["abandon"], ["abandon"])
