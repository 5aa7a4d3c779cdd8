from membership.conditional import APPLIED
from poller_cluster.minute.steps import Phase, ReadHinted, ReadPage, RecheckRows, Stop, Wait, WriteBalance
from scheduler_service.domain.schedules import PartitionHeader, State
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
    header_expected_by,
    ids,
    machine,
    opened_by,
    outcome,
    read,
    reading,
    rejected,
    row,
    step,
    with_state,
)


def test_an_unread_minute_drains_at_once() -> None:
    minute = machine()
    minute.draining = True
    assert step(minute, -5) == Stop()
    assert minute.phase is Phase.DRAINED


def test_a_draining_minute_claims_nothing_and_reads_nothing() -> None:
    minute = machine()
    read(minute, row(10), more=True)
    minute.hint([row(11, 1).key])
    minute.draining = True
    assert step(minute, 9) == Stop()
    assert minute.phase is Phase.DRAINED


def test_unclaimed_rows_leave_in_flight_before_the_drain_ends() -> None:
    started, waiting = row(10, 1), row(10, 2)
    minute = reading(started, waiting)
    claim(minute, 9)
    minute.draining = True
    minute.unclaimed(waiting.key)
    assert apply(minute, 10).in_flight == ids(started)
    assert step(minute, 10) == Wait(None)
    minute.attempt_ended(started.key, outcome(), now=at(11))
    recorded = apply(minute, 11)
    assert recorded.in_flight == frozenset()
    assert [write.key for write in recorded.writes] == [started.key]
    assert step(minute, 11) == Stop()
    assert minute.phase is Phase.DRAINED


def test_what_is_given_back_while_a_commit_is_out_needs_one_of_its_own() -> None:
    first, second = row(10, 1), row(16, 2)
    minute = reading(first, second)
    claim(minute, 9)
    assert advance(minute, 15).in_flight == ids(first, second)
    minute.unclaimed(first.key)
    minute.draining = True
    minute.committed(APPLIED)
    minute.take_claims()
    assert apply(minute, 15).in_flight == ids(second)


def test_a_rejected_release_is_written_again() -> None:
    started, waiting = row(10, 1), row(10, 2)
    minute = reading(started, waiting, header=PartitionHeader(edits=EDITS))
    claim(minute, 9)
    minute.draining = True
    minute.unclaimed(waiting.key)
    first = advance(minute, 10)
    minute.committed(rejected(header_expected_by(first, started, waiting, edits=OTHER_EDITS)))
    again = advance(minute, 10)
    assert (again.in_flight, again.edits_known) == (ids(started), False)


def test_a_row_given_back_is_claimed_again() -> None:
    soon = row(10)
    minute = reading(soon)
    claim(minute, 9)
    minute.unclaimed(soon.key)
    assert minute.rows.claimed_count == 0
    assert [each.row for each in claim(minute, 9)] == [soon]


def test_a_row_that_ended_is_not_given_back() -> None:
    soon = row(10)
    minute = reading(soon)
    claim(minute, 9)
    minute.attempt_ended(soon.key, outcome(), now=at(10))
    minute.unclaimed(soon.key)
    assert [write.key for write in apply(minute, 10).writes] == [soon.key]
    assert minute.rows.claimed_count == 0


def test_a_drain_waits_for_follow_ups() -> None:
    failing = row(10)
    minute = reading(failing)
    claim(minute, 9)
    minute.draining = True
    minute.attempt_ended(failing.key, outcome(State.RETRYING, next_attempt_at=at(90)), now=at(10))
    apply(minute, 10)
    (follow_up,) = minute.follow_ups.take()
    assert step(minute, 10) == Wait(None)
    minute.follow_ups.acknowledged(follow_up)
    assert step(minute, 10) == Stop()


def test_a_drain_records_without_waiting_for_company() -> None:
    ended, slow = row(10, 1), row(10, 2)
    minute = reading(ended, slow)
    claim(minute, 9)
    minute.draining = True
    minute.attempt_ended(ended.key, outcome(), now=at(10))
    assert advance(minute, 10).in_flight == ids(slow)


def test_a_drain_waits_for_the_answer_and_the_recheck_of_its_last_claim() -> None:
    soon = row(10)
    minute = reading(soon, header=PartitionHeader(edits=EDITS))
    minute.committed(rejected(header_expected_by(advance(minute, 9), edits=OTHER_EDITS)))
    advance(minute, 9)
    minute.draining = True
    minute.committed(APPLIED)
    assert step(minute, 9) == RecheckRows((soon.key,))
    minute.rechecked(by_key(soon))
    minute.take_claims()
    minute.unclaimed(soon.key)
    assert apply(minute, 9).in_flight == frozenset()
    assert step(minute, 9) == Stop()


def test_a_drain_taken_back_goes_on() -> None:
    started, later = row(10, 1), row(30, 2)
    minute = reading(started, later)
    claim(minute, 9)
    minute.draining = True
    assert step(minute, 29) == Wait(None)
    minute.draining = False
    assert advance(minute, 29).in_flight == ids(started, later)


def test_a_hinted_row_is_read_and_fired() -> None:
    hinted = row(30)
    minute = reading()
    minute.hint([hinted.key])
    assert step(minute, 10) == ReadHinted((hinted.key,))
    minute.hinted_read([hinted.key], by_key(hinted), trusted=True)
    assert step(minute, 10) == Wait(at(29))
    assert [each.row for each in claim(minute, 29)] == [hinted]


def test_a_hint_of_a_row_that_is_known_costs_nothing() -> None:
    known = row(30)
    minute = reading(known)
    minute.hint([known.key])
    assert step(minute, 10) == Wait(at(29))


def test_a_hint_that_finds_nothing_to_fire_is_left_to_the_sweep() -> None:
    missing, ended, pointer = row(30, 1), row(31, 2, state=State.CANCELLED.value), row(32, 3, created_at=None)
    minute = reading()
    keys = [each.key for each in (missing, ended, pointer)]
    minute.hint(keys)
    assert step(minute, 10) == ReadHinted(tuple(keys))
    minute.hinted_read(keys, by_key(ended, pointer), trusted=True)
    assert step(minute, 10) == Wait(at(SWEEP))
    assert len(minute.rows) == 0


def test_a_hint_read_without_trust_is_read_again() -> None:
    hinted = row(30)
    minute = reading()
    minute.hint([hinted.key])
    minute.hinted_read([hinted.key], by_key(hinted), trusted=False)
    assert step(minute, 10) == ReadHinted((hinted.key,))


def test_a_row_hinted_to_a_swept_minute_is_fired_and_counted_before_it_settles() -> None:
    hinted = row(59)
    minute = reading()
    read(minute, seconds=SWEEP)
    minute.hint([hinted.key])
    assert step(minute, SWEEP) == ReadHinted((hinted.key,))
    minute.hinted_read([hinted.key], by_key(hinted), trusted=True)
    claim(minute, SWEEP)
    minute.attempt_ended(hinted.key, outcome(), now=at(SWEEP))
    apply(minute, SWEEP)
    assert minute.account.counts == {State.DELIVERED: 1}
    assert step(minute, SWEEP) == WriteBalance()


def test_a_hinted_row_recorded_before_the_sweep_is_counted_by_it_alone() -> None:
    hinted = row(30)
    minute = reading()
    minute.hint([hinted.key])
    minute.hinted_read([hinted.key], by_key(hinted), trusted=True)
    claim(minute, 29)
    minute.attempt_ended(hinted.key, outcome(), now=at(30))
    apply(minute, 30)
    read(minute, with_state(hinted, State.DELIVERED), seconds=SWEEP, header=opened_by(EPOCH))
    assert minute.account.counts == {State.DELIVERED: 1}


def test_a_minute_that_is_over_ignores_hints() -> None:
    minute = machine()
    minute.phase = Phase.LOST
    minute.hint([row(30).key])
    minute.phase = Phase.READING
    assert step(minute, 10) == ReadPage(None)
    read(minute, seconds=10)
    assert step(minute, 10) == Wait(at(SWEEP))
