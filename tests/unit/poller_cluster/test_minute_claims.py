from uuid import UUID

import pytest

from membership.conditional import APPLIED, Unknown
from poller_cluster.minute.steps import OpenPartition, Phase, ReadPage, Stop, Wait, WriteCommit
from scheduler_service.domain.schedules import PartitionHeader, State
from tests.unit.poller_cluster.builders import (
    EDITS,
    EPOCH,
    NEWER,
    OLDER,
    PARTITION,
    SWEEP,
    advance,
    apply,
    at,
    claim,
    ids,
    machine,
    opened_by,
    outcome,
    page,
    read,
    reading,
    rejected,
    row,
    step,
)


def test_reads_first_and_then_waits_for_its_earliest_row() -> None:
    minute = machine()
    assert step(minute, -5) == ReadPage(None)
    read(minute, row(20), row(10))
    assert minute.phase is Phase.RUNNING
    assert step(minute, -5) == Wait(at(9))
    assert step(minute, 8.999) == Wait(at(9))
    assert isinstance(step(minute, 9), WriteCommit)


def test_a_read_that_ended_without_trust_does_not_count() -> None:
    minute = machine()
    minute.page_read(page(row(0)), trusted=False)
    assert step(minute, -0.5) == ReadPage(None)
    assert len(minute.rows) == 0


def test_reads_on_behind_the_last_row() -> None:
    minute = machine()
    first, last = row(30), row(31)
    read(minute, first, last, more=True)
    assert step(minute, -5) == ReadPage(last.key)
    read(minute, row(32))
    assert step(minute, -5) == Wait(at(29))


def test_an_empty_minute_is_never_written() -> None:
    minute = reading()
    assert step(minute, -5) == Wait(at(SWEEP))


def test_a_claim_takes_everything_due_soon_and_nothing_later() -> None:
    soon, later, far = row(10), row(14), row(14.1)
    minute = reading(soon, later, far, header=PartitionHeader(edits=EDITS))
    written = advance(minute, 9)
    assert written.in_flight == ids(soon, later)
    assert (written.partition, written.epoch, written.expect_epoch) == (PARTITION, EPOCH, None)
    assert (written.version, written.edits, written.edits_known) == (None, EDITS, True)


def test_claims_the_earliest_that_there_is_room_for() -> None:
    rows = [row(10 + number, number) for number in range(3)]
    minute = reading(*rows)
    assert apply(minute, 9, headroom=2).in_flight == ids(*rows[:2])
    minute.take_claims()
    assert step(minute, 12, headroom=0) == Wait(at(SWEEP))
    assert apply(minute, 12, headroom=1).in_flight == ids(*rows)


def test_hands_out_nothing_before_the_commit_is_applied() -> None:
    soon = row(10)
    minute = reading(soon)
    advance(minute, 9)
    assert minute.take_claims() == []
    assert (minute.claims_under_way, minute.write_unanswered) == (1, True)
    minute.committed(Unknown("timed out"))
    assert minute.take_claims() == []
    minute.committed(APPLIED)
    assert [each.row for each in minute.take_claims()] == [soon]
    assert (minute.claims_under_way, minute.write_unanswered) == (0, False)
    assert minute.take_claims() == []


def test_one_commit_claims_and_records() -> None:
    first, second, third = row(10, 1), row(10, 2), row(16, 3)
    minute = reading(first, second, third)
    assert len(claim(minute, 9)) == 2
    minute.attempt_ended(first.key, outcome(), now=at(10))
    written = apply(minute, 15)
    assert written.in_flight == ids(second, third)
    assert [(write.key, write.outcome, write.expect_state) for write in written.writes] == [
        (first.key, outcome(), None)
    ]
    assert (written.expect_epoch, written.version) == (EPOCH, 1)
    assert first.key not in minute.rows


def test_an_outcome_waits_for_others_to_share_its_write() -> None:
    first, second = row(10, 1), row(10, 2)
    minute = reading(first, second)
    claim(minute, 9)
    minute.attempt_ended(first.key, outcome(), now=at(11))
    assert step(minute, 11.1) == Wait(at(11.5))
    assert [write.key for write in advance(minute, 11.5).writes] == [first.key]


def test_the_last_outcome_is_recorded_at_once() -> None:
    only = row(10)
    minute = reading(only)
    claim(minute, 9)
    minute.attempt_ended(only.key, outcome(), now=at(10))
    assert advance(minute, 10).in_flight == frozenset()


def test_a_commit_records_a_bounded_number_of_outcomes() -> None:
    rows = [row(10, number) for number in range(5)]
    minute = reading(*rows, record_rows=2)
    claim(minute, 9)
    for each in rows[:3]:
        minute.attempt_ended(each.key, outcome(), now=at(10))
    written = apply(minute, 10)
    assert [write.key for write in written.writes] == [each.key for each in rows[:2]]
    assert written.in_flight == ids(*rows[2:])
    assert step(minute, 10) == Wait(at(10.5))


def test_the_first_outcome_of_a_row_stays() -> None:
    only = row(10)
    minute = reading(only)
    claim(minute, 9)
    minute.attempt_ended(only.key, outcome(), now=at(10))
    minute.attempt_ended(only.key, outcome(State.FAILED), now=at(11))
    assert [write.outcome.state for write in advance(minute, 11).writes] == [State.DELIVERED]


def test_an_unknown_commit_is_repeated_word_for_word() -> None:
    first, second = row(10, 1), row(11, 2)
    minute = reading(first, second)
    claim(minute, 9, headroom=1)
    written = advance(minute, 10)
    minute.attempt_ended(first.key, outcome(), now=at(10.5))
    minute.unclaimed(first.key)
    minute.hint([row(30, 9).key])
    for seconds in (10.5, 40, SWEEP + 60):
        minute.committed(Unknown("timed out"))
        assert advance(minute, seconds) is written
    assert written.writes == ()


def test_draining_repeats_an_unknown_commit_first() -> None:
    minute = reading(row(10))
    written = advance(minute, 9)
    minute.draining = True
    minute.committed(Unknown("timed out"))
    assert advance(minute, 9) is written


@pytest.mark.parametrize("edits", [None, EDITS])
def test_a_rejection_that_shows_our_own_version_counts_as_applied(edits: UUID | None) -> None:
    soon = row(10)
    minute = reading(soon, header=opened_by(EPOCH, version=4))
    assert advance(minute, 9).version == 4
    minute.committed(rejected(opened_by(EPOCH, soon, version=5, edits=edits)))
    assert [each.row for each in minute.take_claims()] == [soon]
    minute.attempt_ended(soon.key, outcome(), now=at(10))
    assert advance(minute, 10).version == 5


@pytest.mark.parametrize("epoch", [NEWER, NEWER + 5])
def test_a_newer_epoch_takes_the_minute_away(epoch: int) -> None:
    minute = reading(row(10))
    advance(minute, 9)
    minute.committed(rejected(opened_by(epoch, version=1)))
    assert minute.phase is Phase.LOST
    assert minute.take_claims() == []
    assert step(minute, 10) == Stop()


def test_a_newer_epoch_in_a_read_takes_the_minute_away() -> None:
    minute = reading(row(10), header=opened_by(NEWER))
    assert minute.phase is Phase.LOST
    assert len(minute.rows) == 0
    minute.settled()
    assert minute.phase is Phase.LOST


def test_a_newer_epoch_in_the_sweep_takes_the_minute_away() -> None:
    minute = reading()
    read(minute, seconds=SWEEP, header=opened_by(NEWER))
    assert minute.phase is Phase.LOST


def test_another_version_than_known_means_reading_again() -> None:
    soon = row(10)
    minute = reading(soon)
    advance(minute, 9)
    minute.committed(rejected(opened_by(EPOCH, version=8)))
    assert minute.phase is Phase.READING
    assert minute.take_claims() == []
    read(minute, soon, header=opened_by(EPOCH, version=8), seconds=9)
    assert advance(minute, 9).version == 8


def test_a_partition_that_an_older_owner_opened_is_opened_first() -> None:
    minute = reading(row(10))
    assert advance(minute, 9).expect_epoch is None
    minute.committed(rejected(opened_by(OLDER, version=1)))
    assert minute.take_claims() == []
    assert len(minute.rows) == 0
    read(minute, row(10), header=opened_by(OLDER, version=1), seconds=9)
    assert step(minute, 9) == OpenPartition(OLDER)


def test_an_end_says_whether_the_next_step_may_be_another() -> None:
    """Most ends don't: the shell need not wake for each."""
    rows = [row(10, number) for number in range(6)]
    minute = reading(*rows, record_rows=4)
    claim(minute, 9)
    asked = [minute.attempt_ended(each.key, outcome(), now=at(10)) for each in rows[:4]]
    assert asked == [True, False, False, True]
    assert not minute.attempt_ended(rows[0].key, outcome(), now=at(10)), "it has ended before"
