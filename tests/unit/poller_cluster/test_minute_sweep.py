import pytest

from poller_cluster.minute.machine import STRAYS_AT_ONCE, PollerMinute
from poller_cluster.minute.steps import (
    OpenPartition,
    Phase,
    ReadHinted,
    ReadPage,
    ReadStrays,
    Stop,
    SweepPage,
    Wait,
    WriteBalance,
)
from scheduler_service.domain.books import LATENESS_BOUNDS_MS, NO_STAMP, Stamp, Tally
from scheduler_service.domain.schedules import Row, State
from tests.unit.poller_cluster.builders import (
    EDITS,
    EPOCH,
    OLDER,
    SWEEP,
    advance,
    apply,
    at,
    by_key,
    claim,
    ids,
    machine,
    opened_by,
    outcome,
    read,
    reading,
    retry_row_key,
    row,
    step,
    swept_page,
    with_state,
)


def sweeping(*rows: Row) -> PollerMinute:
    """A machine that has seen nothing before its sweep, and finds these rows in it."""
    minute = reading()
    read(minute, *rows, seconds=SWEEP)
    return minute


def test_the_sweep_begins_only_after_the_grace() -> None:
    minute = reading()
    assert step(minute, SWEEP - 0.001) == Wait(at(SWEEP))
    before = minute.phase
    assert step(minute, SWEEP) == SweepPage(None)
    assert (before, minute.phase) == (Phase.RUNNING, Phase.SWEEPING)


def test_a_read_of_before_the_grace_does_not_settle() -> None:
    minute = reading(seconds=SWEEP - 1)
    assert step(minute, SWEEP - 0.5) == Wait(at(SWEEP))
    read(minute, seconds=SWEEP)
    assert step(minute, SWEEP) == WriteBalance()


def test_the_sweep_starts_over_where_the_first_read_was_not_done() -> None:
    minute = machine(window_rows=1)
    early = row(10)
    read(minute, early, more=True)
    claim(minute, 9)
    minute.attempt_ended(early.key, outcome(), now=at(10))
    apply(minute, 10)
    assert step(minute, SWEEP) == ReadPage(None, whole=True)


def test_a_late_minute_begins_with_its_sweep() -> None:
    minute = machine()
    delivered, late = with_state(row(10, 1), State.DELIVERED), row(11, 2)
    read(minute, delivered, late, seconds=3_600)
    assert minute.phase is Phase.SWEEPING
    assert minute.account.counts == {State.DELIVERED: 1}
    assert [each.row for each in claim(minute, 3_600)] == [late]
    minute.attempt_ended(late.key, outcome(), now=at(3_600))
    apply(minute, 3_600)
    assert minute.account.counts == {State.DELIVERED: 2}
    assert step(minute, 3_600) == WriteBalance()


def test_an_untrusted_sweep_does_not_settle() -> None:
    minute = reading()
    assert step(minute, SWEEP) == SweepPage(None)
    minute.page_swept(swept_page(), trusted=False)
    assert step(minute, SWEEP) == SweepPage(None)


def test_rows_found_late_are_fired() -> None:
    late = row(59)
    minute = sweeping(late)
    assert [each.row for each in claim(minute, SWEEP)] == [late]
    assert step(minute, SWEEP) == Wait(None)


def test_the_books_are_stamped_with_the_external_update_of_the_first_page_and_the_version_of_the_last_commit() -> None:
    slow = row(59)
    minute = reading(slow)
    claim(minute, 58)
    read(minute, slow, seconds=SWEEP, header=opened_by(EPOCH, slow, edits=EDITS))
    assert minute.account.stamp == Stamp(1, EDITS)
    minute.attempt_ended(slow.key, outcome(), now=at(80))
    apply(minute, 80)
    assert step(minute, 80) == WriteBalance()
    assert minute.account.stamp == Stamp(2, EDITS)


def test_a_row_in_flight_keeps_the_minute_open_until_it_is_recorded() -> None:
    slow = row(59)
    minute = reading(slow)
    claim(minute, 58)
    read(minute, slow, seconds=SWEEP, header=opened_by(EPOCH, slow))
    assert step(minute, SWEEP) == Wait(None)
    assert minute.account.accepted == 0
    minute.attempt_ended(slow.key, outcome(), now=at(80))
    advance(minute, 80)
    assert minute.account.accepted == 0
    apply(minute, 80)
    assert minute.account.counts == {State.DELIVERED: 1}
    assert step(minute, 80) == WriteBalance()


def test_settled_is_the_end() -> None:
    minute = sweeping()
    assert step(minute, SWEEP) == WriteBalance()
    assert step(minute, SWEEP) == WriteBalance()
    minute.settled()
    assert minute.phase is Phase.SETTLED
    assert step(minute, SWEEP) == Stop()


@pytest.mark.parametrize("state", [State.RETRYING, State.FAILED])
def test_the_minute_is_open_until_its_follow_ups_are_acknowledged(state: State) -> None:
    minute = sweeping(with_state(row(10), state, next_attempt_at=at(90)))
    (follow_up,) = minute.follow_ups.take()
    assert step(minute, SWEEP) == Wait(None)
    minute.follow_ups.acknowledged(follow_up)
    assert step(minute, SWEEP) == WriteBalance()


@pytest.mark.parametrize("state", [State.DELIVERED, State.CANCELLED, State.SKIPPED])
def test_a_call_with_another_end_requires_nothing(state: State) -> None:
    minute = sweeping(with_state(row(10), state))
    assert minute.follow_ups.take() == []
    assert step(minute, SWEEP) == WriteBalance()


def test_a_retry_row_found_ended_requires_its_follow_up_again() -> None:
    minute = sweeping(with_state(retry_row_key(10, row(-120)), State.CANCELLED))
    assert [follow_up.outcome.state for follow_up in minute.follow_ups.take()] == [State.CANCELLED]
    assert minute.account.accepted == 0


def test_what_this_incarnation_carried_out_is_not_required_again() -> None:
    failing = row(10)
    minute = reading(failing)
    claim(minute, 9)
    minute.attempt_ended(failing.key, outcome(State.FAILED), now=at(10))
    apply(minute, 10)
    (follow_up,) = minute.follow_ups.take()
    minute.follow_ups.acknowledged(follow_up)
    read(minute, with_state(failing, State.FAILED), seconds=SWEEP, header=opened_by(EPOCH))
    assert minute.follow_ups.take() == []
    assert step(minute, SWEEP) == WriteBalance()


def test_what_is_still_open_is_not_handed_out_twice() -> None:
    failing = row(10)
    minute = reading(failing)
    claim(minute, 9)
    minute.attempt_ended(failing.key, outcome(State.FAILED), now=at(10))
    apply(minute, 10)
    assert len(minute.follow_ups.take()) == 1
    read(minute, with_state(failing, State.FAILED), seconds=SWEEP, header=opened_by(EPOCH))
    assert minute.follow_ups.take() == []
    assert step(minute, SWEEP) == Wait(None)


def test_a_pointer_without_a_definition_is_its_writer_s_care() -> None:
    pointer = with_state(row(10, created_at=None), State.RETRYING, next_attempt_at=at(90))
    minute = sweeping(pointer)
    assert minute.account.accepted == 0
    assert minute.follow_ups.take() == []
    assert step(minute, SWEEP) == WriteBalance()


def test_a_minute_does_not_settle_before_an_announced_row_was_looked_up() -> None:
    announced = row(11, 1, created_at=None)
    minute = sweeping(announced)
    assert minute.account.accepted == 0
    assert minute.follow_ups.take_announced() == [announced]
    assert step(minute, SWEEP) == Wait(None)
    minute.follow_ups.looked_up(announced)
    assert step(minute, SWEEP) == WriteBalance()


def test_each_row_is_counted_once_whenever_it_was_recorded() -> None:
    before, seen, unseen = row(10, 1), row(20, 2), row(30, 3)
    minute = reading(before, seen, unseen)
    for seconds in (9, 19, 29):
        claim(minute, seconds)
    minute.attempt_ended(before.key, outcome(), now=at(30))
    apply(minute, 31)
    header = opened_by(EPOCH, seen, unseen, version=4)
    read(minute, with_state(before, State.DELIVERED), seen, seconds=SWEEP, header=header, more=True)
    assert minute.account.counts == {State.DELIVERED: 1}
    for each in (seen, unseen):
        minute.attempt_ended(each.key, outcome(), now=at(SWEEP))
    apply(minute, SWEEP)
    assert minute.account.counts == {State.DELIVERED: 2}
    read(minute, with_state(unseen, State.DELIVERED), seconds=SWEEP, header=header)
    assert minute.account.counts == {State.DELIVERED: 3}


def test_a_waiting_row_that_was_cancelled_is_dropped_and_counted() -> None:
    cancelled = row(59)
    minute = reading(cancelled)
    assert step(minute, SWEEP, headroom=0) == SweepPage(None)
    minute.page_swept(swept_page(with_state(cancelled, State.CANCELLED)), trusted=True)
    assert minute.account.counts == {State.CANCELLED: 1}
    assert step(minute, SWEEP) == WriteBalance()


def test_lateness_is_that_of_first_attempts_in_buckets() -> None:
    account = Tally()
    lateness = (-3, 0, 5, 6, 3_600_000, 3_600_001)
    for milliseconds in lateness:
        account.add(row(10), outcome(first_attempt_at=at(10) + milliseconds))
    account.add(row(10), outcome(State.CANCELLED))
    assert account.lateness == [3, 1, *[0] * (len(LATENESS_BOUNDS_MS) - 3), 1, 1]
    assert account.accepted == len(lateness) + 1
    account.begin(NO_STAMP)
    assert (account.accepted, sum(account.lateness)) == (0, 0)


def test_rows_in_memory_are_bounded() -> None:
    minute = machine(window_rows=2)
    first, second, third = (row(10 + number, number) for number in range(3))
    read(minute, first, second, more=True)
    assert step(minute, -5) == Wait(at(9))
    assert len(claim(minute, 9)) == 2
    assert step(minute, 9) == Wait(at(SWEEP))
    minute.attempt_ended(first.key, outcome(), now=at(10))
    assert apply(minute, 11).in_flight == ids(second)
    assert step(minute, 11) == ReadPage(second.key)
    read(minute, third, seconds=11)
    assert apply(minute, 11).in_flight == ids(second, third)


def test_the_sweep_too_reads_on_only_when_there_is_room() -> None:
    first, second = row(10, 1), row(11, 2)
    minute = machine(window_rows=1)
    read(minute, first, seconds=SWEEP, more=True)
    claim(minute, SWEEP)
    assert step(minute, SWEEP) == Wait(None)
    minute.attempt_ended(first.key, outcome(), now=at(SWEEP))
    apply(minute, SWEEP)
    assert step(minute, SWEEP) == ReadPage(first.key, whole=True)
    read(minute, second, seconds=SWEEP)
    assert len(claim(minute, SWEEP)) == 1


def test_a_full_window_puts_the_sweep_off_until_there_is_room() -> None:
    minute = machine(window_rows=1)
    read(minute, row(5), more=True)
    claim(minute, 5)
    assert step(minute, SWEEP) == step(minute, SWEEP) == Wait(None)


def test_a_sweep_reads_nothing_more_of_recorded_rows() -> None:
    """It also reads no more of rows that others ended and that require nothing, of pointers, and of rows still held."""
    ours, failed, cancelled, slow = row(10, 1), row(11, 2), row(12, 3), row(59, 4)
    minute = reading(ours, failed, cancelled, slow)
    claim(minute, 58)
    for each, state in ((ours, State.DELIVERED), (failed, State.FAILED), (cancelled, State.DELIVERED)):
        minute.attempt_ended(each.key, outcome(state), now=at(58))
    apply(minute, 59)
    assert step(minute, SWEEP) == SweepPage(None)
    pointer = with_state(row(13, 5, created_at=None), State.RETRYING, next_attempt_at=at(90))
    ended = with_state(ours, State.DELIVERED), with_state(failed, State.FAILED), with_state(cancelled, State.CANCELLED)
    minute.page_swept(swept_page(*ended, pointer, slow, header=opened_by(EPOCH, slow)), trusted=True)
    assert step(minute, SWEEP) == Wait(None)
    assert minute.account.counts == {State.DELIVERED: 1, State.FAILED: 1, State.CANCELLED: 1}


@pytest.mark.parametrize(
    "stray",
    [
        row(10),
        row(10, created_at=None, rescheduled_from=row(9).schedule_id),
        with_state(row(10), State.RETRYING, next_attempt_at=at(90)),
        with_state(row(10), State.FAILED),
        with_state(row(10), State.CANCELLED, rescheduled_to=row(20).schedule_id),
        with_state(retry_row_key(10, row(-120)), State.DELIVERED),
    ],
)
def test_a_scan_is_over_only_when_the_rows_with_follow_ups_are_read(stray: Row) -> None:
    minute = reading()
    assert step(minute, SWEEP) == SweepPage(None)
    minute.page_swept(swept_page(stray), trusted=True)
    assert minute.account.accepted == 0
    asked = ReadStrays((stray.key,))
    assert step(minute, SWEEP) == asked
    minute.strays_read(asked.keys, by_key(stray), trusted=False)
    assert step(minute, SWEEP) == asked
    minute.strays_read(asked.keys, by_key(stray), trusted=True)
    assert step(minute, SWEEP) != WriteBalance()


def test_strays_are_read_some_at_a_time_behind_what_is_to_be_called() -> None:
    """They are whole and may be large; an unanswered read of them delays no call."""
    strays = [row(number / 10, number + 1) for number in range(STRAYS_AT_ONCE + 1)]
    minute = reading()
    assert step(minute, SWEEP) == SweepPage(None)
    minute.page_swept(swept_page(*strays), trusted=True)
    first = ReadStrays(tuple(stray.key for stray in strays[:STRAYS_AT_ONCE]))
    assert step(minute, SWEEP) == first
    hinted = row(30, 900)
    minute.hint([hinted.key])
    assert step(minute, SWEEP) == ReadHinted((hinted.key,))
    minute.hinted_read([hinted.key], {}, trusted=True)
    assert step(minute, SWEEP) == first
    ended = [with_state(stray, State.CANCELLED) for stray in strays]
    minute.strays_read(first.keys, by_key(*ended[:STRAYS_AT_ONCE]), trusted=True)
    assert step(minute, SWEEP) == ReadStrays((strays[-1].key,))
    minute.strays_read([strays[-1].key], by_key(ended[-1]), trusted=True)
    assert step(minute, SWEEP) == WriteBalance()
    assert minute.account.counts == {State.CANCELLED: len(strays)}


def test_a_stray_in_doubt_stays_so() -> None:
    """An older owner has it in flight, which is known until the row has been read."""
    doubted = row(59)
    minute = reading()
    assert step(minute, SWEEP) == SweepPage(None)
    minute.page_swept(swept_page(doubted, header=opened_by(OLDER, doubted)), trusted=True)
    assert step(minute, SWEEP) == ReadStrays((doubted.key,))
    minute.strays_read([doubted.key], by_key(doubted), trusted=True)
    held = minute.rows.get(doubted.key)
    assert held is not None
    assert held.redelivery
    assert step(minute, SWEEP) == OpenPartition(OLDER)


def test_a_stray_recorded_before_its_read_is_counted_once() -> None:
    """An external update named it before it was read."""
    stray = row(59)
    minute = reading()
    minute.hint([stray.key])
    assert step(minute, SWEEP - 1, 0) != Wait(None)
    minute.hinted_read([stray.key], by_key(stray), trusted=True)
    claim(minute, SWEEP - 1)
    minute.attempt_ended(stray.key, outcome(), now=at(SWEEP - 1))
    expected = apply(minute, SWEEP - 1).writes
    assert [write.key for write in expected] == [stray.key]
    assert step(minute, SWEEP) == SweepPage(None)
    minute.page_swept(swept_page(with_state(stray, State.DELIVERED), header=opened_by(EPOCH)), trusted=True)
    assert minute.account.counts == {State.DELIVERED: 1}
    assert step(minute, SWEEP) == WriteBalance()


def test_a_waiting_row_that_turns_out_to_be_a_stray_is_not_claimed() -> None:
    slow, waiting = row(10), row(59)
    minute = reading(slow, waiting)
    claim(minute, 10)
    assert step(minute, SWEEP, headroom=0) == SweepPage(None)
    moved = with_state(waiting, State.CANCELLED, rescheduled_to=row(20).schedule_id)
    minute.page_swept(swept_page(slow, moved, header=opened_by(EPOCH, slow)), trusted=True)
    assert step(minute, SWEEP) == ReadStrays((waiting.key,))
    minute.strays_read([waiting.key], by_key(moved), trusted=True)
    assert minute.account.counts == {State.CANCELLED: 1}
    assert step(minute, SWEEP) == Wait(None)
