import pytest

from membership.conditional import APPLIED, Rejected, Unknown
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import OpenPartition, Phase, ReadHinted, ReadPage, Stop, SweepPage, Wait
from scheduler_service.domain.schedules import PartitionHeader, Row, State
from tests.unit.poller_cluster.builders import (
    EDITS,
    EPOCH,
    NEWER,
    OLDER,
    SWEEP,
    advance,
    apply,
    at,
    by_key,
    claim,
    expect,
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


def taken_over(*rows: Row, in_flight: tuple[Row, ...] = ()) -> PollerMinute:
    """A machine that has opened a partition of an older owner and read these rows since."""
    minute = reading(*rows, header=opened_by(OLDER, *in_flight, version=5))
    assert step(minute, -5) == OpenPartition(OLDER)
    minute.opened(APPLIED)
    read(minute, *rows, header=opened_by(EPOCH, *in_flight, version=6, edits=EDITS))
    return minute


def test_what_was_read_before_an_open_is_thrown_away() -> None:
    edited, kept = row(10, 1), row(10, 2)
    minute = reading(edited, kept, header=opened_by(OLDER, version=5))
    assert step(minute, 9) == OpenPartition(OLDER)
    minute.opened(APPLIED)
    assert len(minute.rows) == 0
    assert minute.phase is Phase.READING
    assert step(minute, 9) == ReadPage(None)
    read(minute, kept, header=opened_by(EPOCH, version=6, edits=EDITS), seconds=9)
    written = advance(minute, 9)
    assert written.in_flight == ids(kept)
    assert (written.expect_epoch, written.version, written.edits) == (EPOCH, 6, EDITS)


def test_a_partition_without_an_owner_is_opened_by_the_first_commit() -> None:
    minute = reading(row(10))
    assert advance(minute, 9).expect_epoch is None


def test_our_own_partition_is_not_opened_again() -> None:
    minute = reading(row(10), header=opened_by(EPOCH, version=5))
    assert advance(minute, 9).version == 5


def test_a_partition_without_open_rows_is_not_opened() -> None:
    minute = reading(header=opened_by(OLDER, version=5))
    assert step(minute, -5) == Wait(at(SWEEP))


def test_an_unknown_open_is_repeated_from_the_same_epoch() -> None:
    minute = reading(row(10), header=opened_by(OLDER))
    assert step(minute, 9) == OpenPartition(OLDER)
    minute.opened(Unknown("timed out"))
    assert minute.write_unanswered
    minute.draining = True
    assert step(minute, 9) == OpenPartition(OLDER)
    minute.opened(APPLIED)
    assert not minute.write_unanswered


def test_an_open_that_had_been_applied_before_its_answer_was_lost() -> None:
    soon = row(10)
    minute = reading(soon, header=opened_by(OLDER))
    step(minute, 9)
    minute.opened(Rejected(opened_by(EPOCH, version=1)))
    read(minute, soon, header=opened_by(EPOCH, version=1), seconds=9)
    assert advance(minute, 9).expect_epoch == EPOCH


def test_an_open_beaten_by_a_newer_epoch_loses_the_minute() -> None:
    minute = reading(row(10), header=opened_by(OLDER))
    step(minute, 9)
    minute.opened(Rejected(opened_by(NEWER)))
    assert minute.phase is Phase.LOST
    assert step(minute, 9) == Stop()


def test_an_open_beaten_by_another_old_one_is_tried_from_there() -> None:
    soon = row(10)
    minute = reading(soon, header=opened_by(OLDER))
    step(minute, 9)
    minute.opened(Rejected(opened_by(OLDER + 1)))
    read(minute, soon, header=opened_by(OLDER + 1), seconds=9)
    assert step(minute, 9) == OpenPartition(OLDER + 1)


def test_claims_in_doubt_say_that_they_may_be_repeated() -> None:
    doubted, fresh = row(10, 1), row(10, 2)
    minute = taken_over(doubted, fresh, in_flight=(doubted,))
    claims = {each.row.schedule_id: each.redelivery for each in claim(minute, 9)}
    assert claims == {doubted.schedule_id: True, fresh.schedule_id: False}


def test_ids_in_doubt_stay_in_flight_until_claimed_again_and_recorded() -> None:
    fresh, doubted = row(10, 1), row(40, 2)
    minute = taken_over(fresh, doubted, in_flight=(doubted,))
    assert apply(minute, 9).in_flight == ids(fresh, doubted)
    assert [each.row for each in minute.take_claims()] == [fresh]
    minute.attempt_ended(fresh.key, outcome(), now=at(10))
    assert apply(minute, 11).in_flight == ids(doubted)
    assert apply(minute, 39).in_flight == ids(doubted)
    assert [each.redelivery for each in minute.take_claims()] == [True]
    minute.attempt_ended(doubted.key, outcome(), now=at(40))
    assert apply(minute, 41).in_flight == frozenset()


def test_ids_in_doubt_stay_in_flight_before_their_page_is_read() -> None:
    soon, doubted = row(10, 1), row(40, 2)
    minute = reading(soon, header=opened_by(OLDER, doubted, version=5))
    step(minute, 9)
    minute.opened(APPLIED)
    header = opened_by(EPOCH, doubted, version=6)
    read(minute, soon, header=header, seconds=9, more=True)
    assert apply(minute, 9).in_flight == ids(soon, doubted)
    read(minute, doubted, header=header, seconds=9)
    assert [each.redelivery for each in claim(minute, 39)] == [False, True]


def test_ids_found_recorded_are_not_in_doubt() -> None:
    soon, recorded = row(10, 1), row(5, 2, state=State.DELIVERED.value)
    minute = taken_over(soon, recorded, in_flight=(recorded,))
    assert advance(minute, 9).in_flight == ids(soon)


def test_an_id_in_doubt_given_back_stays_in_flight() -> None:
    doubted, fresh = row(10, 1), row(10, 2)
    minute = taken_over(doubted, fresh, in_flight=(doubted,))
    claim(minute, 9)
    minute.unclaimed(doubted.key)
    minute.unclaimed(fresh.key)
    assert apply(minute, 9, headroom=0).in_flight == ids(doubted)


def test_an_id_in_doubt_given_back_before_the_minute_is_whole_read_stays_in_flight() -> None:
    doubted, later = row(10, 1), row(40, 2)
    minute = machine()
    header = opened_by(EPOCH, doubted)
    read(minute, doubted, header=header, more=True)
    claim(minute, 9)
    minute.unclaimed(doubted.key)
    assert apply(minute, 9, headroom=0).in_flight == ids(doubted)
    minute.page_read(page(later, header=header), trusted=True)
    assert apply(minute, 39).in_flight == ids(doubted, later)
    minute.attempt_ended(later.key, outcome(), now=at(40))
    minute.unclaimed(doubted.key)
    assert apply(minute, 41, headroom=0).in_flight == ids(doubted)


def test_a_hinted_row_may_be_in_doubt_too() -> None:
    soon, doubted = row(10, 1), row(12, 2)
    minute = machine()
    read(minute, soon, header=opened_by(EPOCH, doubted), more=True)
    minute.hint([doubted.key])
    assert step(minute, 1) == ReadHinted((doubted.key,))
    minute.hinted_read([doubted.key], by_key(doubted), trusted=True)
    assert [each.redelivery for each in claim(minute, 9)] == [False, True]


def test_our_own_claims_are_not_in_doubt_when_the_header_is_read_again() -> None:
    mine, other = row(10, 1), row(30, 2)
    minute = reading(mine, other)
    claim(minute, 9)
    advance(minute, 29)
    minute.committed(rejected(opened_by(EPOCH, mine, version=9)))
    read(minute, mine, seconds=29, header=opened_by(EPOCH, mine, version=9), more=True)
    minute.unclaimed(mine.key)
    assert apply(minute, 29, headroom=0).in_flight == frozenset()


@pytest.mark.parametrize("header", [PartitionHeader(), PartitionHeader(edits=EDITS)])
def test_a_partition_without_an_owner_has_nothing_in_doubt(header: PartitionHeader) -> None:
    minute = reading(row(10), header=header)
    assert [each.redelivery for each in claim(minute, 9)] == [False]


def test_a_sweep_knows_its_own_claims() -> None:
    mine = row(10)
    minute = reading(mine)
    claim(minute, 9)
    expect(SweepPage, minute, SWEEP)
    read(minute, mine, seconds=SWEEP, header=opened_by(EPOCH, mine))
    minute.unclaimed(mine.key)
    assert [each.redelivery for each in claim(minute, SWEEP)] == [False]
