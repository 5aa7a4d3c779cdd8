"""The detector measures silence between reads, on the observer's clock alone."""

import pytest

from membership.conditional import APPLIED, Rejected, Unknown
from membership.detector import Detector
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation
from membership.ports import Heartbeat, IncarnationRecord, NodeState

A = NodeIncarnation(NodeId("a"), IncarnationNumber(1))
B = NodeIncarnation(NodeId("b"), IncarnationNumber(1))
ME = NodeIncarnation(NodeId("me"), IncarnationNumber(1))


def heartbeat(
    incarnation: NodeIncarnation, beat: int, *, state: NodeState = NodeState.LIVE, wall_ms: int = 0
) -> Heartbeat:
    return Heartbeat(
        incarnation=incarnation, beat=beat, state=state, address="", wall_ms=wall_ms, version="", low_watermark=None
    )


class Observing:
    """A detector with its reads: each takes 0.1 s by default."""

    def __init__(self) -> None:
        self.detector = Detector(me=ME, dead_after_seconds=6.0, gap_seconds=2.0)

    def read(self, begun: float, *beats: Heartbeat, returned: float | None = None) -> None:
        self.detector.observed(begun=begun, returned=begun + 0.1 if returned is None else returned, heartbeats=beats)

    def silence(self, first: float, last: float, *beats: Heartbeat, step: float = 1.0) -> None:
        """Reads from `first` up to but not including `last` that show the same."""
        instant = first
        while instant < last:
            self.read(instant, *beats)
            instant += step

    def record(self, incarnation: NodeIncarnation, renewals: int, at: float, *, alive: bool = True) -> None:
        self.detector.record_read(
            incarnation, IncarnationRecord(incarnation, alive=alive, renewals=renewals), returned=at
        )

    def declarable(self) -> list[tuple[NodeIncarnation, int]]:
        return self.detector.to_declare()


@pytest.fixture
def observing() -> Observing:
    """A's renewals are 3, and the read that returned at 0.1 was the last that saw it advance."""
    watcher = Observing()
    watcher.read(-1.0, heartbeat(A, 6))
    watcher.record(A, 3, -0.5)
    watcher.read(0.0, heartbeat(A, 7))
    return watcher


def test_silence_must_last_six_seconds_before_the_read_begins(observing: Observing) -> None:
    observing.silence(1.0, 6.0, heartbeat(A, 7))
    observing.read(6.0, heartbeat(A, 7), returned=6.5)
    assert observing.declarable() == []
    observing.read(6.6, heartbeat(A, 7))
    assert observing.declarable() == [(A, 3)]


def test_a_read_begun_before_the_end_of_the_span_decides_nothing_however_late_it_returns(observing: Observing) -> None:
    observing.silence(1.0, 6.0, heartbeat(A, 7))
    observing.read(6.05, heartbeat(A, 7), returned=7.0)
    assert observing.declarable() == []


def test_the_span_starts_when_the_read_returned_not_when_it_began(observing: Observing) -> None:
    observing.read(0.5, heartbeat(A, 8), returned=2.0)
    observing.silence(3.0, 8.0, heartbeat(A, 8))
    observing.read(7.9, heartbeat(A, 8))
    assert observing.declarable() == []
    observing.read(8.1, heartbeat(A, 8))
    assert observing.declarable() == [(A, 3)]


def test_an_advance_ends_the_silence(observing: Observing) -> None:
    observing.silence(1.0, 8.0, heartbeat(A, 7))
    assert observing.declarable()
    observing.read(8.0, heartbeat(A, 8))
    assert observing.declarable() == []


def test_an_older_beat_is_no_advance(observing: Observing) -> None:
    observing.silence(1.0, 8.0, heartbeat(A, 5))
    assert observing.declarable() == [(A, 3)]


def test_a_row_that_vanished_is_silence(observing: Observing) -> None:
    observing.silence(1.0, 8.0)
    assert observing.declarable() == [(A, 3)]


def test_renewals_read_within_the_span_start_it_again(observing: Observing) -> None:
    """A trust renewed just before the read may last for another four seconds."""
    observing.silence(1.0, 6.0, heartbeat(A, 7))
    observing.record(A, 4, 6.05)
    observing.silence(6.2, 12.0, heartbeat(A, 7))
    assert observing.declarable() == []
    observing.read(12.1, heartbeat(A, 7))
    assert observing.declarable() == [(A, 4)]


def test_equal_renewals_read_again_leave_the_span_alone(observing: Observing) -> None:
    observing.silence(1.0, 6.0, heartbeat(A, 7))
    observing.record(A, 3, 6.05)
    observing.read(6.2, heartbeat(A, 7))
    assert observing.declarable() == [(A, 3)]


def test_no_incarnation_is_declared_dead_before_its_record_was_read() -> None:
    observing = Observing()
    observing.silence(0.0, 20.0, heartbeat(B, 1))
    assert observing.declarable() == []
    assert observing.detector.to_read(older_than=0.0) == [B]
    observing.record(B, 0, 20.0)
    observing.silence(20.0, 26.0, heartbeat(B, 1))
    assert observing.declarable() == []
    observing.read(26.1, heartbeat(B, 1))
    assert observing.declarable() == [(B, 0)]


def test_an_incarnation_never_seen_to_advance_is_silent_since_it_was_first_seen() -> None:
    observing = Observing()
    observing.read(0.0, heartbeat(B, 900))
    observing.record(B, 0, 0.2)
    observing.silence(1.0, 6.2, heartbeat(B, 900))
    assert observing.declarable() == []
    observing.read(6.3, heartbeat(B, 900))
    assert observing.declarable() == [(B, 0)]


def test_an_incarnation_that_only_a_lease_names_is_judged_too() -> None:
    observing = Observing()
    observing.read(0.0)
    observing.detector.watch(B, now=0.5)
    observing.record(B, 2, 0.6)
    observing.silence(1.0, 7.0)
    assert observing.declarable() == []
    observing.read(7.0)
    assert observing.declarable() == [(B, 2)]


def test_a_rejected_declaration_starts_the_span_again_under_what_it_showed(observing: Observing) -> None:
    observing.silence(1.0, 8.0, heartbeat(A, 7))
    observing.detector.declared(A, Rejected(IncarnationRecord(A, alive=True, renewals=4)), returned=8.0)
    observing.silence(8.1, 14.0, heartbeat(A, 7))
    assert observing.declarable() == []
    observing.read(14.1, heartbeat(A, 7))
    assert observing.declarable() == [(A, 4)]


def test_a_rejection_starts_the_span_again_even_if_it_shows_nothing_new(observing: Observing) -> None:
    observing.silence(1.0, 8.0, heartbeat(A, 7))
    observing.record(A, 4, 7.5)
    observing.detector.declared(A, Rejected(IncarnationRecord(A, alive=True, renewals=4)), returned=9.0)
    observing.silence(8.1, 14.0, heartbeat(A, 7))
    observing.read(14.5, heartbeat(A, 7))
    assert observing.declarable() == []
    observing.read(15.1, heartbeat(A, 7))
    assert observing.declarable() == [(A, 4)]


def test_an_unknown_declaration_is_repeated_after_another_read(observing: Observing) -> None:
    observing.silence(1.0, 8.0, heartbeat(A, 7))
    observing.detector.declared(A, Unknown("timed out"), returned=8.0)
    assert observing.declarable() == []
    assert A not in observing.detector.free()
    observing.read(8.1, heartbeat(A, 7))
    assert observing.declarable() == [(A, 3)]


@pytest.mark.parametrize("gap", [2.0, 5.0, 3600.0])
def test_everyone_looks_dead_to_a_process_that_slept(observing: Observing, gap: float) -> None:
    """The observer was suspended, or the store was unavailable: earlier observations are discarded."""
    observing.read(1.0, heartbeat(A, 7))
    back = 1.1 + gap
    observing.read(back, heartbeat(A, 7))
    assert observing.declarable() == []
    observing.silence(back + 1.0, back + 6.0, heartbeat(A, 7))
    assert observing.declarable() == []
    observing.read(back + 6.2, heartbeat(A, 7))
    assert observing.declarable() == [(A, 3)]


def test_a_sleep_within_a_read_is_a_gap_too(observing: Observing) -> None:
    observing.silence(1.0, 7.0, heartbeat(A, 7))
    observing.read(6.5, heartbeat(A, 7), returned=60.0)
    assert observing.declarable() == []


def test_a_node_that_left_stays_free(observing: Observing) -> None:
    observing.read(1.0, heartbeat(A, 8, state=NodeState.LEFT))
    observing.silence(2.0, 20.0, heartbeat(A, 8, state=NodeState.LEFT))
    assert observing.detector.free() == {A}
    assert not observing.detector.is_member(A)
    assert observing.declarable() == []


@pytest.mark.parametrize("current", [IncarnationRecord(A, alive=False, renewals=3), None])
def test_who_was_declared_dead_by_another_is_free(observing: Observing, current: IncarnationRecord | None) -> None:
    observing.silence(1.0, 8.0, heartbeat(A, 7))
    observing.detector.declared(A, Rejected(current), returned=8.0)
    assert observing.detector.free() == {A}
    observing.read(9.0, heartbeat(A, 8))
    assert observing.detector.free() == {A}, "beats of a dead incarnation bring nothing back"


def test_who_is_declared_dead_is_free(observing: Observing) -> None:
    observing.silence(1.0, 8.0, heartbeat(A, 7))
    observing.detector.declared(A, APPLIED, returned=8.0)
    assert observing.detector.free() == {A}
    assert observing.detector.open_incarnations() == []


def test_the_observer_never_judges_itself() -> None:
    observing = Observing()
    observing.silence(0.0, 20.0, heartbeat(ME, 1))
    assert observing.declarable() == []
    assert observing.detector.to_read(older_than=100.0) == []
    assert observing.detector.is_member(ME)


def test_a_clock_an_hour_ahead_in_a_heartbeat_means_nothing_for_liveness() -> None:
    plain, ahead = Observing(), Observing()
    for watcher, wall_ms in ((plain, 0), (ahead, 3_600_000)):
        watcher.read(0.0, heartbeat(A, 1, wall_ms=wall_ms))
        watcher.record(A, 0, 0.2)
        watcher.silence(1.0, 6.3, heartbeat(A, 1, wall_ms=wall_ms))
    assert plain.declarable() == ahead.declarable()


def test_others_are_members_only_once_their_record_was_read() -> None:
    observing = Observing()
    observing.read(0.0, heartbeat(B, 1))
    assert not observing.detector.is_member(B)
    observing.record(B, 0, 0.2)
    assert observing.detector.is_member(B)


def test_records_are_read_again_oldest_first() -> None:
    observing = Observing()
    observing.read(0.0, heartbeat(A, 1), heartbeat(B, 1))
    observing.record(B, 0, 1.0)
    assert observing.detector.to_read(older_than=2.0) == [A, B]
    observing.record(A, 0, 3.0)
    assert observing.detector.to_read(older_than=2.0) == [B]
