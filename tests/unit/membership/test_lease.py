"""The lease of one poller: the transitions of the drawing, and the mistakes it must not make."""

from dataclasses import replace

import pytest

from membership.conditional import APPLIED, Rejected, Unknown
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from membership.lease import ImpossibleMove, Lease, Phase, start_of
from membership.ports import LeaseRow

POLLER = PollerKey("shop", 3)
ME = NodeIncarnation(NodeId("me"), IncarnationNumber(7))
OTHER = NodeIncarnation(NodeId("other"), IncarnationNumber(1))
LOST = Unknown("timed out")
LATER = 1_000
"""Every mark up to this one is credible."""


def row(owner: NodeIncarnation | None, epoch: int, watermark: int = 100, *, lagging: bool = True) -> LeaseRow:
    return LeaseRow(poller=POLLER, owner=owner, epoch=epoch, watermark=watermark, lagging=lagging)


FREE = row(None, 4)


def held(*, counted: bool = False) -> Lease:
    """Held under epoch 5 from mark 100 on; `counted` after its flag was cleared."""
    lease = Lease.take(FREE, incarnation=ME, start=100).answered(APPLIED)
    return lease.clear_lagging().answered(APPLIED) if counted else lease


def doubtful_clear() -> Lease:
    return held().clear_lagging().answered(LOST).drained(position=120, at_most=LATER)


def doubtful_release() -> Lease:
    return held(counted=True).drain().drained(position=120, at_most=LATER).answered(LOST)


class TestTaking:
    def test_a_take_adds_one_to_the_epoch_and_lags(self) -> None:
        lease = Lease.take(replace(FREE, lagging=False), incarnation=ME, start=130)
        assert lease.row == replace(FREE, lagging=False)
        assert lease.sent == row(ME, 5, 130)
        assert not lease.granted
        assert not lease.counted

    def test_it_is_granted_when_applied(self) -> None:
        lease = held()
        assert lease.phase is Phase.HELD
        assert lease.granted
        assert lease.row == row(ME, 5)

    def test_a_take_ends_when_another_node_was_faster(self) -> None:
        lease = Lease.take(FREE, incarnation=ME, start=100).answered(Rejected(row(OTHER, 5)))
        assert lease.phase is Phase.GONE

    def test_a_deleted_row_has_no_owner(self) -> None:
        assert Lease.take(FREE, incarnation=ME, start=100).answered(Rejected(None)).phase is Phase.GONE

    def test_an_unknown_take_that_was_applied_is_taken_again_under_a_new_epoch(self) -> None:
        lease = Lease.take(FREE, incarnation=ME, start=100).answered(LOST)
        assert lease.phase is Phase.DOUBTFUL
        lease = lease.read(row(ME, 5))
        assert lease.ours
        assert not lease.granted
        lease = lease.take_again(start=100, at_most=LATER)
        assert lease.sent == row(ME, 6)
        assert lease.answered(APPLIED).row.epoch == 6

    def test_an_unknown_take_stays_in_doubt_while_it_may_still_be_applied(self) -> None:
        lease = Lease.take(FREE, incarnation=ME, start=100).answered(LOST).read(FREE)
        assert lease.phase is Phase.DOUBTFUL
        assert lease.read(row(ME, 5)).ours, "it was applied after the read"
        assert lease.read(row(OTHER, 5)).phase is Phase.GONE, "the epoch has moved on"

    def test_an_unknown_take_is_tried_again_from_what_was_read(self) -> None:
        again = (
            Lease.take(FREE, incarnation=ME, start=100).answered(LOST).read(FREE).take_again(start=100, at_most=LATER)
        )
        assert again.row == FREE
        assert again.answered(APPLIED).phase is Phase.HELD
        rejected = again.answered(Rejected(row(ME, 5)))
        assert rejected.phase is Phase.DOUBTFUL, "the first one came late; its epoch is not acted under"
        assert rejected.take_again(start=100, at_most=LATER).sent == row(ME, 6)

    def test_a_rejected_second_try_does_not_end_the_doubt_of_the_first(self) -> None:
        again = (
            Lease.take(FREE, incarnation=ME, start=100).answered(LOST).read(FREE).take_again(start=100, at_most=LATER)
        )
        lease = again.answered(Rejected(replace(FREE, watermark=101)))
        assert lease.phase is Phase.DOUBTFUL
        assert lease.read(row(OTHER, 5)).phase is Phase.GONE

    def test_a_row_that_names_us_unexpectedly_is_in_doubt(self) -> None:
        lease = Lease.found(row(ME, 9, 140), incarnation=ME)
        assert not lease.granted
        assert lease.take_again(start=140, at_most=LATER).sent == row(ME, 10, 140)


class TestMarks:
    def test_from_the_start_of_a_clear_the_poller_counts(self) -> None:
        lease = held().clear_lagging()
        assert lease.counted
        assert lease.granted
        assert lease.sent == row(ME, 5, lagging=False)
        assert lease.answered(APPLIED).counted

    def test_setting_the_flag_writes_the_watermark_with_it_and_counts_until_confirmed(self) -> None:
        lease = held(counted=True).set_lagging(position=150, at_most=LATER)
        assert lease.sent == row(ME, 5, 150, lagging=True)
        assert lease.counted
        confirmed = lease.answered(APPLIED)
        assert not confirmed.counted
        assert confirmed.phase is Phase.HELD

    def test_an_unknown_set_goes_on_counting(self) -> None:
        lease = held(counted=True).set_lagging(position=150, at_most=LATER).answered(LOST)
        assert lease.phase is Phase.DRAINING
        assert lease.counted
        lease = lease.drained(position=151, at_most=LATER)
        assert lease.phase is Phase.DOUBTFUL
        assert lease.counted
        lease = lease.read(row(ME, 5, 150, lagging=True))
        assert lease.counted, "what a read shows is no confirmation"
        lease = lease.take_again(start=150, at_most=LATER)
        assert lease.sent == row(ME, 6, 151)
        assert lease.counted
        assert not lease.answered(APPLIED).counted

    @pytest.mark.parametrize("seen", [row(ME, 5, lagging=False), row(ME, 5, lagging=True)])
    def test_an_unknown_clear_is_settled_by_a_new_epoch_never_by_reading_or_repeating(self, seen: LeaseRow) -> None:
        lease = doubtful_clear().read(seen)
        assert lease.phase is Phase.DOUBTFUL
        assert lease.counted
        with pytest.raises(ImpossibleMove):
            lease.clear_lagging()
        assert lease.take_again(start=seen.watermark, at_most=LATER).sent == row(ME, 6, 120, lagging=True)

    def test_a_rejected_clear_of_our_own_lease_leaves_it_in_doubt(self) -> None:
        lease = held().clear_lagging().answered(Rejected(row(ME, 5, 99)))
        assert lease.phase is Phase.DRAINING
        assert lease.drained(position=120, at_most=LATER).phase is Phase.DOUBTFUL

    def test_a_mark_rejected_because_the_poller_is_anothers_ends_it(self) -> None:
        for lease in (held().clear_lagging(), held(counted=True).set_lagging(position=150, at_most=LATER)):
            ended = lease.answered(Rejected(row(OTHER, 6)))
            assert ended.phase is Phase.GONE
            assert not ended.counted

    def test_only_a_lagging_poller_is_cleared(self) -> None:
        with pytest.raises(ImpossibleMove):
            held(counted=True).clear_lagging()


class TestLettingGo:
    def test_a_release_writes_watermark_and_flag_with_it(self) -> None:
        lease = held(counted=True).drain()
        assert lease.granted, "what was started is still recorded"
        lease = lease.drained(position=170, at_most=LATER)
        assert lease.phase is Phase.RELEASING
        assert not lease.granted
        assert lease.sent == row(None, 5, 170, lagging=True)

    def test_it_counts_until_the_release_is_confirmed(self) -> None:
        lease = held(counted=True).drain().drained(position=170, at_most=LATER)
        assert lease.counted
        assert lease.answered(LOST).counted
        assert not lease.answered(APPLIED).counted
        assert not lease.answered(LOST).read(row(None, 5, 170)).counted

    def test_an_unknown_release_is_never_taken_back_under_its_epoch(self) -> None:
        lease = doubtful_release().read(row(ME, 5, lagging=False))
        assert lease.phase is Phase.DOUBTFUL
        assert not lease.granted
        assert lease.take_again(start=100, at_most=LATER).sent == row(ME, 6, 120)

    def test_an_unknown_release_is_released_again_when_the_poller_is_not_wanted(self) -> None:
        lease = doubtful_release().read(row(ME, 5, lagging=False)).release(at_most=LATER)
        assert lease.sent == row(None, 5, 120)
        assert lease.answered(Rejected(row(None, 5, 120))).phase is Phase.GONE, "the first one came late"

    def test_an_unknown_release_that_was_applied_is_over(self) -> None:
        assert doubtful_release().read(row(None, 5, 120)).phase is Phase.GONE
        assert doubtful_release().read(row(OTHER, 6, 120)).phase is Phase.GONE

    def test_what_is_not_ours_is_not_released(self) -> None:
        doubtful = Lease.take(FREE, incarnation=ME, start=100).answered(LOST).read(FREE)
        with pytest.raises(ImpossibleMove):
            doubtful.release(at_most=LATER)

    def test_a_suspected_poller_is_read_before_anything_else(self) -> None:
        lease = held().suspect()
        assert lease.phase is Phase.DRAINING
        assert lease.drained(position=120, at_most=LATER).phase is Phase.DOUBTFUL
        marking = held().clear_lagging().suspect()
        assert marking.phase is Phase.MARKING
        assert marking.answered(APPLIED).phase is Phase.DRAINING
        assert held().drain().suspect().drained(position=120, at_most=LATER).phase is Phase.DOUBTFUL


class TestStart:
    def test_a_lagging_poller_is_not_skipped_by_a_low_watermark(self) -> None:
        assert start_of(row(OTHER, 5, 100, lagging=True), owners_low_watermark=500) == 100

    def test_a_poller_that_counts_starts_from_the_later_of_watermark_and_low_watermark(self) -> None:
        counted = row(OTHER, 5, 100, lagging=False)
        assert start_of(counted, owners_low_watermark=500) == 500
        assert start_of(counted, owners_low_watermark=50) == 100

    def test_a_missing_low_watermark_is_the_watermark_and_never_now(self) -> None:
        assert start_of(row(OTHER, 5, 100, lagging=False), owners_low_watermark=None) == 100

    def test_a_take_is_conditional_on_the_whole_row(self) -> None:
        """If the owner had set its lagging flag after the row was read, the low watermark would not cover the
        poller.
        """
        read = row(OTHER, 5, 100, lagging=False)
        assert Lease.take(read, incarnation=ME, start=500).row == read


MOVES = {
    "take_again": lambda lease: lease.take_again(start=1, at_most=LATER),
    "set_lagging": lambda lease: lease.set_lagging(position=1, at_most=LATER),
    "clear_lagging": lambda lease: lease.clear_lagging(),
    "drain": lambda lease: lease.drain(),
    "drained": lambda lease: lease.drained(position=1, at_most=LATER),
    "release": lambda lease: lease.release(at_most=LATER),
    "answered": lambda lease: lease.answered(APPLIED),
    "read": lambda lease: lease.read(FREE),
    "suspect": lambda lease: lease.suspect(),
}
POSSIBLE = {
    Phase.TAKING: {"answered"},
    Phase.HELD: {"set_lagging", "clear_lagging", "drain", "suspect"},
    Phase.MARKING: {"answered", "suspect"},
    Phase.DRAINING: {"drained", "suspect"},
    Phase.RELEASING: {"answered"},
    Phase.DOUBTFUL: {"take_again", "release", "read"},
    Phase.GONE: set(),
}
IN_PHASE = {
    Phase.TAKING: Lease.take(FREE, incarnation=ME, start=100),
    Phase.HELD: held(),
    Phase.MARKING: held().clear_lagging(),
    Phase.DRAINING: held().drain(),
    Phase.RELEASING: held().drain().drained(position=100, at_most=LATER),
    Phase.DOUBTFUL: doubtful_release(),
    Phase.GONE: held().drain().drained(position=100, at_most=LATER).answered(APPLIED),
}


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("move", MOVES)
def test_there_are_no_moves_but_those_of_the_drawing(phase: Phase, move: str) -> None:
    lease = IN_PHASE[phase]
    assert lease.phase is phase
    if move in POSSIBLE[phase]:
        MOVES[move](lease)
    else:
        with pytest.raises(ImpossibleMove):
            MOVES[move](lease)
