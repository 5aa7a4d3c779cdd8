import pytest

from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import CheckRows, Wait, WriteBalance
from scheduler_service.domain.copies import SUPERSEDED
from scheduler_service.domain.schedules import Outcome, Row, State
from tests.unit.poller_cluster.builders import (
    EPOCH,
    SWEEP,
    advance,
    apply,
    at,
    claim,
    copy_row,
    expect,
    ids,
    opened_by,
    outcome,
    read,
    reading,
    row,
    step,
    with_state,
)

FIRST = at(-119)


def original(next_at: float | None = 20, state: State = State.RETRYING) -> Row:
    """A call of two minutes ago, pointing to its copy."""
    pointed = None if next_at is None else at(next_at)
    return with_state(row(-120), state, attempts=1, first_attempt_at=FIRST, next_attempt_at=pointed)


COPY = copy_row(20, original())


def checked(found: Row | None) -> PollerMinute:
    """A machine that has looked up the original of its only copy."""
    minute = reading(COPY)
    asked = expect(CheckRows, minute, 15).rows
    minute.rows_checked(asked, {} if found is None else {found.schedule_id: found}, {})
    return minute


def test_copies_are_checked_when_they_may_be_claimed() -> None:
    minute = reading(COPY)
    assert step(minute, 14) == Wait(at(19))
    assert step(minute, 15) == CheckRows((COPY,))
    assert step(minute, 25) == CheckRows((COPY,))


def test_an_unchecked_copy_is_not_claimed_with_others() -> None:
    call = row(20, 1)
    minute = reading(call, COPY)
    assert apply(minute, 19).in_flight == ids(call)
    asked = expect(CheckRows, minute, 19).rows
    minute.rows_checked(asked, {COPY.schedule_id: original()}, {})
    assert apply(minute, 19).in_flight == ids(call, COPY)


def test_a_copy_that_its_original_names_is_claimed_as_a_later_attempt() -> None:
    claims = claim(checked(original()), 19)
    assert [(each.row, each.first_attempt_at, each.redelivery) for each in claims] == [(COPY, FIRST, False)]


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
def test_a_copy_that_its_original_does_not_name_is_dropped(found: Row | None, state: State) -> None:
    minute = checked(found)
    written = apply(minute, 15)
    dropped = Outcome(state=state, reason=SUPERSEDED, attempts=1)
    assert [(write.key, write.outcome) for write in written.writes] == [(COPY.key, dropped)]
    assert written.in_flight == frozenset()
    assert minute.take_claims() == []
    assert len(minute.rows) == 0


@pytest.mark.parametrize("found", [None, original(None, State.FAILED), original(None, State.CANCELLED)])
def test_a_dropped_copy_owes_nobody_anything(found: Row | None) -> None:
    minute = checked(found)
    apply(minute, 15)
    assert minute.debts.take() == []


def test_the_copy_that_the_original_names_instead_is_placed() -> None:
    minute = checked(original(next_at=30))
    (owed,) = minute.debts.take()
    assert owed.key == original().key
    assert owed.definition.partition.minute < minute.partition.minute
    assert (owed.outcome.state, owed.outcome.next_attempt_at) == (State.RETRYING, at(30))
    apply(minute, 15)
    read(minute, with_state(COPY, State.CANCELLED, reason=SUPERSEDED), seconds=SWEEP, header=opened_by(EPOCH))
    assert step(minute, SWEEP) == Wait(None)
    minute.debts.paid(owed)
    assert step(minute, SWEEP) == WriteBalance()


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.RETRYING])
def test_a_copy_owes_its_end_to_its_original(state: State) -> None:
    minute = checked(original())
    claim(minute, 19)
    minute.attempt_ended(COPY.key, outcome(state), now=at(20))
    apply(minute, 20)
    (owed,) = minute.debts.take()
    assert (owed.key, owed.outcome.state) == (COPY.key, state)
    assert minute.debts.take() == []


def test_copies_are_not_counted() -> None:
    minute = checked(original())
    claim(minute, 19)
    read(minute, COPY, seconds=SWEEP, header=opened_by(EPOCH, COPY))
    minute.attempt_ended(COPY.key, outcome(), now=at(SWEEP))
    apply(minute, SWEEP)
    assert minute.account.accepted == 0


def test_a_copy_that_ended_while_it_was_looked_up_is_left_alone() -> None:
    minute = reading(COPY)
    asked = expect(CheckRows, minute, 15).rows
    minute.rows_checked(asked, {COPY.schedule_id: original()}, {})
    apply(minute, 19)
    minute.rows_checked(asked, {}, {})
    minute.attempt_ended(COPY.key, outcome(), now=at(20))
    assert [write.outcome.state for write in advance(minute, 20).writes] == [State.DELIVERED]
