import pytest

from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import CheckRows, Wait, WriteBalance
from scheduler_service.domain.retry_rows import SUPERSEDED
from scheduler_service.domain.schedules import Outcome, Row, State
from tests.unit.poller_cluster.builders import (
    EPOCH,
    SWEEP,
    advance,
    apply,
    at,
    claim,
    expect,
    ids,
    opened_by,
    outcome,
    read,
    reading,
    retry_row_key,
    row,
    step,
    with_state,
)

FIRST = at(-119)


def original(next_at: float | None = 20, state: State = State.RETRYING) -> Row:
    """A schedule of two minutes ago, pointing to its retry row."""
    pointed = None if next_at is None else at(next_at)
    return with_state(row(-120), state, attempts=1, first_attempt_at=FIRST, next_attempt_at=pointed)


RETRY_ROW = retry_row_key(20, original())


def checked(found: Row | None) -> PollerMinute:
    """A machine that has read the original of its only retry row."""
    minute = reading(RETRY_ROW)
    asked = expect(CheckRows, minute, 15).rows
    minute.rows_checked(asked, {} if found is None else {found.schedule_id: found}, {})
    return minute


def test_retry_rows_are_checked_when_they_may_be_claimed() -> None:
    minute = reading(RETRY_ROW)
    assert step(minute, 14) == Wait(at(19))
    assert step(minute, 15) == CheckRows((RETRY_ROW,))
    assert step(minute, 25) == CheckRows((RETRY_ROW,))


def test_an_unchecked_retry_row_is_not_claimed_with_others() -> None:
    call = row(20, 1)
    minute = reading(call, RETRY_ROW)
    assert apply(minute, 19).in_flight == ids(call)
    asked = expect(CheckRows, minute, 19).rows
    minute.rows_checked(asked, {RETRY_ROW.schedule_id: original()}, {})
    assert apply(minute, 19).in_flight == ids(call, RETRY_ROW)


def test_a_retry_row_that_its_original_names_is_claimed_as_a_later_attempt() -> None:
    claims = claim(checked(original()), 19)
    assert [(each.row, each.first_attempt_at, each.redelivery) for each in claims] == [(RETRY_ROW, FIRST, False)]


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (None, State.CANCELLED),
        (row(-120), State.CANCELLED),
        (original(next_at=30), State.CANCELLED),
        (original(None, State.CANCELLED), State.CANCELLED),
        (original(None, State.DELIVERED), State.DELIVERED),
        (original(None, State.FAILED), State.FAILED),
    ],
)
def test_a_retry_row_that_its_original_does_not_name_is_dropped(found: Row | None, state: State) -> None:
    minute = checked(found)
    written = apply(minute, 15)
    dropped = Outcome(state=state, reason=SUPERSEDED, attempts=1)
    assert [(write.key, write.outcome) for write in written.writes] == [(RETRY_ROW.key, dropped)]
    assert written.in_flight == frozenset()
    assert minute.take_claims() == []
    assert len(minute.rows) == 0


@pytest.mark.parametrize("found", [None, original(None, State.FAILED), original(None, State.CANCELLED)])
def test_a_dropped_retry_row_requires_nothing(found: Row | None) -> None:
    minute = checked(found)
    apply(minute, 15)
    assert minute.follow_ups.take() == []


def test_the_retry_row_that_the_original_names_instead_is_placed() -> None:
    minute = checked(original(next_at=30))
    (follow_up,) = minute.follow_ups.take()
    assert follow_up.key == original().key
    assert follow_up.definition.partition.minute < minute.partition.minute
    assert (follow_up.outcome.state, follow_up.outcome.next_attempt_at) == (State.RETRYING, at(30))
    apply(minute, 15)
    read(minute, with_state(RETRY_ROW, State.CANCELLED, reason=SUPERSEDED), seconds=SWEEP, header=opened_by(EPOCH))
    assert step(minute, SWEEP) == Wait(None)
    minute.follow_ups.acknowledged(follow_up)
    assert step(minute, SWEEP) == WriteBalance()


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.RETRYING])
def test_the_end_of_a_retry_row_is_carried_to_its_original(state: State) -> None:
    minute = checked(original())
    claim(minute, 19)
    minute.attempt_ended(RETRY_ROW.key, outcome(state), now=at(20))
    apply(minute, 20)
    (follow_up,) = minute.follow_ups.take()
    assert (follow_up.key, follow_up.outcome.state) == (RETRY_ROW.key, state)
    assert minute.follow_ups.take() == []


def test_retry_rows_are_not_counted() -> None:
    minute = checked(original())
    claim(minute, 19)
    read(minute, RETRY_ROW, seconds=SWEEP, header=opened_by(EPOCH, RETRY_ROW))
    minute.attempt_ended(RETRY_ROW.key, outcome(), now=at(SWEEP))
    apply(minute, SWEEP)
    assert minute.account.accepted == 0


def test_a_retry_row_that_ended_while_it_was_looked_up_is_left_alone() -> None:
    minute = reading(RETRY_ROW)
    asked = expect(CheckRows, minute, 15).rows
    minute.rows_checked(asked, {RETRY_ROW.schedule_id: original()}, {})
    apply(minute, 19)
    minute.rows_checked(asked, {}, {})
    minute.attempt_ended(RETRY_ROW.key, outcome(), now=at(20))
    assert [write.outcome.state for write in advance(minute, 20).writes] == [State.DELIVERED]
