"""Rows that may not be claimed now: held until there is room, or deferred without having been claimed."""

from collections.abc import Mapping, Sized

from msgspec.structs import replace

from poller_cluster.dispatch.outcome import defer
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.rows import Again, Hold, PendingRow, Verdict, WaitQueue
from poller_cluster.minute.steps import Phase, SweepPage, Wait, WriteBalance
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.ids import MAX_DUE, key_of
from scheduler_service.domain.schedules import Outcome, Row, State, SweptRow
from tests.unit.poller_cluster.builders import (
    EDITS,
    EPOCH,
    PARTITION,
    PREFETCH,
    SWEEP,
    advance,
    apply,
    at,
    claim,
    expect,
    header_expected_by,
    ids,
    opened_by,
    outcome,
    page,
    read,
    rejected,
    retry_row_key,
    row,
    swept,
    with_state,
)

QUEUE: WaitQueue = ("host", "slow")
DEFERRED = outcome(State.RETRYING, attempts=0, next_attempt_at=at(300), reason="receiver-open")


class Judge:
    """Gives the verdicts that a test sets, and records what it is told."""

    def __init__(self) -> None:
        self.verdicts: dict[Row, Verdict] = {}
        self.free = 0
        self.waits = True
        self.due_by = MAX_DUE
        self.told: list[tuple[str, object]] = []
        self.held: list[int] = []

    def begin(self, held: Mapping[WaitQueue, Sized]) -> None:
        self.held.append(sum(map(len, held.values())))

    def judge(self, entry: PendingRow, now: int) -> Verdict:
        return self.verdicts.get(entry.row)

    def end_of_word(self, entry: PendingRow, now: int) -> Outcome | None:
        return None

    def again(self, queue: WaitQueue, first: PendingRow, now: int) -> Again:
        self.told.append(("again", first.row))
        return Again(self.free, self.due_by)

    def read(self, row: Row) -> None:
        self.told.append(("read", row))

    def swept(self, row: SweptRow) -> None:
        self.told.append(("swept", row))

    def recorded(self, row: Row, outcome: Outcome) -> None:
        self.told.append(("recorded", outcome.state))

    def waits_for_others(self) -> bool:
        return self.waits

    def wants_whole_read(self) -> bool:
        return False

    def whole_read(self) -> None:
        self.told.append(("whole", None))


def hold(one: Row) -> Hold:
    return Hold(QUEUE, key_of(one.schedule_id))


def judged(judge: Judge, *rows: Row) -> PollerMinute:
    minute = PollerMinute(partition=PARTITION, epoch=EPOCH, settings=MinuteSettings(), admission=judge)
    read(minute, *rows)
    return minute


def test_a_held_row_lets_the_others_pass_and_goes_when_there_is_room() -> None:
    judge, slow, quick = Judge(), row(1, 1), row(2, 2)
    judge.verdicts[slow] = hold(slow)
    minute = judged(judge, slow, quick)
    assert [each.row for each in claim(minute, 0)] == [quick]
    assert isinstance(expect(Wait, minute, 3), Wait)
    judge.free = 1
    judge.verdicts.clear()
    assert [each.row for each in claim(minute, 3)] == [slow]
    assert minute.rows.held == {}


def test_no_more_go_than_there_is_room_for_the_first_in_the_queue_first() -> None:
    judge, rows = Judge(), [row(3 - number, number) for number in range(3)]
    judge.verdicts = {each: hold(each) for each in rows}
    minute = judged(judge, *rows)
    expect(Wait, minute, 2)
    judge.free, judge.verdicts = 2, {}
    assert [each.row for each in claim(minute, 3)] == [rows[2], rows[1]]
    assert judge.held[-1] == 1


def test_a_row_held_for_its_host_is_judged_again_when_it_is_due() -> None:
    """Passing time causes no notification."""
    judge, later, last = Judge(), row(3, 1), row(4, 2)
    judge.verdicts = {each: hold(each) for each in (later, last)}
    minute = judged(judge, later, last)
    assert expect(Wait, minute, 2).until == at(3)
    judge.free, judge.due_by, judge.verdicts = 2, at(3), {}
    assert [each.row for each in claim(minute, 3)] == [later]
    assert expect(Wait, minute, 3).until == at(4)


def test_held_rows_keep_their_minute_open() -> None:
    judge, slow = Judge(), row(1)
    judge.verdicts[slow] = hold(slow)
    minute = judged(judge, slow)
    expect(Wait, minute, 2)
    read(minute, slow, seconds=SWEEP)
    expect(Wait, minute, SWEEP)
    assert minute.phase is Phase.SWEEPING


def test_a_row_that_is_deferred_is_recorded_without_having_been_claimed() -> None:
    judge, dead, fine = Judge(), row(1, 1), row(2, 2)
    judge.verdicts[dead] = DEFERRED
    minute = judged(judge, dead, fine)
    written = apply(minute, 0)
    assert written.in_flight == ids(fine)
    assert [(write.key, write.outcome) for write in written.writes] == [(dead.key, DEFERRED)]
    (follow_up,) = minute.follow_ups.take()
    assert follow_up.outcome == DEFERRED
    assert ("recorded", State.RETRYING) in judge.told


def test_a_minute_of_rows_deferred_settles() -> None:
    judge, dead = Judge(), row(1)
    judge.verdicts[dead] = DEFERRED
    minute = judged(judge, dead)
    apply(minute, 0)
    minute.follow_ups.acknowledged(minute.follow_ups.take()[0])
    read(minute, with_state(dead, State.RETRYING, next_attempt_at=at(300)), seconds=SWEEP)
    expect(WriteBalance, minute, SWEEP)
    assert minute.account.counts == {State.RETRYING: 1}


def test_a_row_cancelled_before_it_was_deferred_stays_cancelled() -> None:
    """The write tests that the row has no outcome once an external update is known."""
    judge, dead = Judge(), row(1)
    judge.verdicts[dead] = DEFERRED
    minute = judged(judge, dead)
    written = advance(minute, 0)
    minute.committed(rejected(header_expected_by(written, edits=EDITS)))
    written = advance(minute, 0)
    assert [write.expect_state for write in written.writes] == [State.SCHEDULED]
    minute.committed(rejected(header_expected_by(written, edits=EDITS), with_state(dead, State.CANCELLED)))
    apply(minute, 0)
    assert minute.follow_ups.take() == []


def test_admission_is_told_of_ordered_rows_and_the_last_page() -> None:
    judge, one = Judge(), replace(row(1), ordering_key="cart")
    minute = PollerMinute(partition=PARTITION, epoch=EPOCH, settings=MinuteSettings(), admission=judge)
    read(minute, row(0.5), one, more=True)
    assert judge.told == [("read", one)]
    read(minute, seconds=PREFETCH)
    assert judge.told == [("read", one), ("whole", None)]


def test_admission_is_told_of_ordered_rows_ended_by_others() -> None:
    judge, ordered, other = Judge(), replace(row(1), ordering_key="cart"), row(2)
    judge.verdicts |= {ordered: hold(ordered), other: hold(other)}
    minute = judged(judge, ordered, other)
    expect(Wait, minute, 0)
    expect(SweepPage, minute, SWEEP)
    read(minute, with_state(ordered, State.CANCELLED), with_state(other, State.CANCELLED), seconds=SWEEP)
    assert [told for what, told in judge.told if what == "swept"] == [swept(with_state(ordered, State.CANCELLED))]


def test_admission_is_told_of_originals() -> None:
    judge, original = Judge(), row(-120)
    retry = retry_row_key(1, original)
    minute = judged(judge, retry)
    minute.step(at(0), 10)
    pointing = with_state(original, State.RETRYING, next_attempt_at=at(1))
    minute.rows_checked([retry], {retry.schedule_id: pointing}, {})
    assert ("read", pointing) in judge.told


def test_a_deferred_row_keeps_the_result_of_its_last_attempt() -> None:
    original = row(-120)
    retry = retry_row_key(1, original)
    minute = judged(Judge(), retry)
    minute.step(at(0), 10)
    pointing = with_state(original, State.RETRYING, next_attempt_at=at(1), first_attempt_at=at(-120), last_status=503)
    minute.rows_checked([retry], {retry.schedule_id: pointing}, {})
    (claimed,) = claim(minute, 0)
    found = defer(claimed, at=at(300), in_doubt=False, reason="receiver-open")
    assert (found.attempts, found.first_attempt_at, found.last_status) == (1, at(-120), 503)


def test_what_a_newer_read_replaces_is_judged_again() -> None:
    """A partition that an older owner had opened is read again after the open."""
    judge, slow = Judge(), row(1)
    judge.verdicts[slow] = hold(slow)
    minute = judged(judge, slow)
    expect(Wait, minute, 2)
    minute._read_again()
    assert minute.rows.held == {}
    minute.page_read(page(slow, header=opened_by(EPOCH)), trusted=True)
    judge.verdicts.clear()
    assert [each.row for each in claim(minute, 3)] == [slow]


def test_a_minute_whose_rows_all_wait_for_their_keys_is_at_rest_and_one_that_waits_for_room_is_not() -> None:
    judge, behind, slow = Judge(), row(1, 1), row(2, 2)
    judge.verdicts[behind] = Hold(("key", "cart"), key_of(behind.schedule_id))
    judge.verdicts[slow] = hold(slow)
    minute = judged(judge, behind, slow)
    expect(Wait, minute, 3)
    assert not minute.at_rest
    minute.rows.forget(slow.key)
    assert minute.at_rest
    judge.waits = False
    assert not minute.at_rest
