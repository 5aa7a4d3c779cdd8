from membership.conditional import APPLIED
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import ReadHinted, RecheckRows, Wait, WriteBalance
from scheduler_service.domain.schedules import PartitionHeader, Row, State
from tests.unit.poller_cluster.builders import (
    EDITS,
    EPOCH,
    OTHER_EDITS,
    SWEEP,
    advance,
    apply,
    at,
    by_key,
    claim,
    expect,
    header_expected_by,
    ids,
    opened_by,
    outcome,
    read,
    reading,
    rejected,
    row,
    step,
    with_state,
)


def edited_before_the_claim(*rows: Row) -> PollerMinute:
    """A machine whose claim was rejected because only `edits` had changed."""
    minute = reading(*rows, header=PartitionHeader(edits=EDITS))
    written = advance(minute, 9)
    minute.committed(rejected(header_expected_by(written, edits=OTHER_EDITS)))
    return minute


def test_moved_edits_make_the_commit_go_without_their_test() -> None:
    soon = row(10)
    minute = edited_before_the_claim(soon)
    again = advance(minute, 9)
    assert not again.edits_known
    assert (again.in_flight, again.expect_epoch, again.version) == (ids(soon), None, None)


def test_rows_claimed_without_the_test_are_read_again_before_they_are_handed_out() -> None:
    soon = row(10)
    minute = edited_before_the_claim(soon)
    apply(minute, 9)
    assert minute.take_claims() == []
    assert minute.claims_under_way == 1
    assert step(minute, 9) == RecheckRows((soon.key,))
    minute.rechecked(by_key(soon))
    assert [each.row for each in minute.take_claims()] == [soon]
    assert minute.claims_under_way == 0


def test_a_row_edited_during_its_claim_is_not_sent_and_leaves_in_flight() -> None:
    kept, cancelled, gone = row(10, 1), row(10, 2), row(10, 3)
    minute = edited_before_the_claim(kept, cancelled, gone)
    assert apply(minute, 9).in_flight == ids(kept, cancelled, gone)
    minute.rechecked(by_key(kept, with_state(cancelled, State.CANCELLED)))
    assert [each.row for each in minute.take_claims()] == [kept]
    assert cancelled.key not in minute.rows
    assert gone.key not in minute.rows
    released = advance(minute, 9)
    assert (released.in_flight, released.writes) == (ids(kept), ())


def test_outcomes_test_their_rows_while_edits_are_unknown() -> None:
    soon = row(10)
    minute = edited_before_the_claim(soon)
    apply(minute, 9)
    minute.rechecked(by_key(soon))
    minute.attempt_ended(soon.key, outcome(), now=at(10))
    written = advance(minute, 10)
    assert not written.edits_known
    assert [write.expect_state for write in written.writes] == [State.SCHEDULED]


def test_an_outcome_already_on_its_way_tests_its_row_in_the_fallback() -> None:
    soon = row(10)
    minute = reading(soon, header=PartitionHeader(edits=EDITS))
    claim(minute, 9)
    minute.attempt_ended(soon.key, outcome(), now=at(10))
    first = advance(minute, 10)
    assert [write.expect_state for write in first.writes] == [None]
    minute.committed(rejected(header_expected_by(first, soon, edits=OTHER_EDITS)))
    second = advance(minute, 10)
    assert [write.expect_state for write in second.writes] == [State.SCHEDULED]
    minute.committed(APPLIED)
    assert len(minute.rows) == 0


def test_an_outcome_is_never_written_over_one_that_an_external_update_made() -> None:
    edited, other = row(10, 1), row(10, 2)
    minute = edited_before_the_claim(edited, other)
    apply(minute, 9)
    minute.rechecked(by_key(edited, other))
    for each in (edited, other):
        minute.attempt_ended(each.key, outcome(), now=at(10))
    written = advance(minute, 10)
    met = header_expected_by(written, edited, other, edits=OTHER_EDITS)
    minute.committed(rejected(met, with_state(edited, State.CANCELLED), other))
    again = advance(minute, 10)
    assert [write.key for write in again.writes] == [other.key]
    assert again.in_flight == frozenset()
    assert edited.key not in minute.rows


def test_a_claim_is_not_lost_when_an_outcome_beside_it_is_void() -> None:
    edited, later = row(10, 1), row(16, 2)
    minute = edited_before_the_claim(edited, later)
    apply(minute, 9)
    minute.rechecked(by_key(edited))
    minute.attempt_ended(edited.key, outcome(), now=at(10))
    written = advance(minute, 15)
    assert written.in_flight == ids(later)
    met = header_expected_by(written, edited, edits=OTHER_EDITS)
    minute.committed(rejected(met, with_state(edited, State.CANCELLED)))
    again = advance(minute, 15)
    assert (again.in_flight, again.writes) == (ids(later), ())


def test_only_a_whole_read_makes_edits_known_again() -> None:
    soon, last = row(10, 1), row(69, 2)
    minute = edited_before_the_claim(soon, last)
    apply(minute, 9)
    minute.rechecked(by_key(soon))
    minute.hint([row(30, 9).key])
    expect(ReadHinted, minute, 9)
    minute.hinted_read([row(30, 9).key], {}, trusted=True)
    minute.attempt_ended(soon.key, outcome(), now=at(10))
    assert not apply(minute, 11).edits_known
    delivered = with_state(soon, State.DELIVERED)
    minute.attempt_ended(last.key, outcome(), now=at(69))
    assert not apply(minute, 69.5, headroom=0).edits_known
    minute.rechecked(by_key(with_state(last, State.DELIVERED)))
    read(minute, delivered, seconds=SWEEP, header=opened_by(EPOCH, version=3, edits=OTHER_EDITS), more=True)
    read(minute, row(59, 3), seconds=SWEEP, header=opened_by(EPOCH, version=3, edits=EDITS))
    written = advance(minute, SWEEP)
    assert (written.edits_known, written.edits) == (True, OTHER_EDITS)


def test_edits_known_are_those_of_the_first_page() -> None:
    soon, other = row(10, 1), row(11, 2)
    minute = reading(soon, other, header=PartitionHeader(edits=EDITS), seconds=-5)
    assert advance(minute, 9).edits == EDITS
    minute.committed(APPLIED)
    for each in (soon, other):
        minute.attempt_ended(each.key, outcome(), now=at(11))
    apply(minute, 11.5)
    late = row(59, 3)
    done = with_state(soon, State.DELIVERED)
    read(minute, done, seconds=SWEEP, header=opened_by(EPOCH, version=2, edits=EDITS), more=True)
    read(minute, late, seconds=SWEEP, header=opened_by(EPOCH, version=2, edits=OTHER_EDITS))
    assert advance(minute, SWEEP).edits == EDITS


def test_a_row_edited_behind_the_sweep_is_read_and_counted_once() -> None:
    soon = row(10)
    minute = reading(soon, header=PartitionHeader(edits=EDITS))
    claim(minute, 9)
    read(minute, soon, seconds=SWEEP, header=opened_by(EPOCH, soon, edits=EDITS))
    minute.attempt_ended(soon.key, outcome(), now=at(SWEEP))
    met = header_expected_by(advance(minute, SWEEP), soon, edits=OTHER_EDITS)
    minute.committed(rejected(met))
    advance(minute, SWEEP)
    minute.committed(rejected(met, with_state(soon, State.CANCELLED)))
    assert apply(minute, SWEEP).in_flight == frozenset()
    assert step(minute, SWEEP) == ReadHinted((soon.key,))
    minute.hinted_read([soon.key], by_key(with_state(soon, State.CANCELLED)), trusted=True)
    assert minute.account.counts == {State.CANCELLED: 1}
    assert step(minute, SWEEP) == WriteBalance()


def test_a_row_edited_before_the_sweep_is_left_for_it_to_count() -> None:
    soon = row(10)
    minute = edited_before_the_claim(soon)
    apply(minute, 9)
    cancelled = with_state(soon, State.CANCELLED)
    minute.rechecked(by_key(cancelled))
    apply(minute, 9)
    expect(ReadHinted, minute, 9)
    minute.hinted_read([soon.key], by_key(cancelled), trusted=True)
    assert step(minute, 9) == Wait(at(SWEEP))
    read(minute, cancelled, seconds=SWEEP, header=opened_by(EPOCH, version=2, edits=OTHER_EDITS))
    assert minute.account.counts == {State.CANCELLED: 1}
    assert step(minute, SWEEP) == WriteBalance()
