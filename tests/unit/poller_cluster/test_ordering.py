"""The order of the rows of an ordering key, and when it is forgotten."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.minute import ordering
from poller_cluster.minute.ordering import OrderingKeys
from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.options import Redelivery, ScheduleOptions, encode_options, run_key
from scheduler_service.domain.schedules import Row, State
from tests.unit.poller_cluster.builders import at, outcome, retry_row_key, row, with_state

KEY = "order-17"


class Poller:
    def __init__(self) -> None:
        self.changes = 0
        self.wanted = 0
        self.keys = OrderingKeys(on_change=self._changed, on_wanted=self._wanted)

    def _changed(self) -> None:
        self.changes += 1

    def _wanted(self) -> None:
        self.wanted += 1

    def rank(self, one: Row) -> int:
        return self.keys.rank(KEY, one.schedule_id)


def keyed(seconds: float, number: int = 0, key: str | None = KEY) -> Row:
    return row(seconds, number, ordering_key=key)


@pytest.fixture
def poller() -> Poller:
    return Poller()


def test_the_earliest_due_goes_first_however_they_are_read(poller: Poller) -> None:
    first, second, third = keyed(1), keyed(2), keyed(3)
    for each in (third, first, second):
        poller.keys.read(each)
    assert [poller.rank(each) for each in (first, second, third)] == [0, 1, 2]
    poller.keys.recorded(first, outcome())
    assert [poller.rank(each) for each in (second, third)] == [0, 1]
    assert poller.changes == 2, "somebody came before the head, and the head left"


def test_keys_and_rows_without_one_do_not_mind_each_other(poller: Poller) -> None:
    poller.keys.read(keyed(1, key="another"))
    poller.keys.read(keyed(1, key=None))
    assert poller.rank(keyed(2)) == 0


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.SKIPPED, State.CANCELLED])
def test_every_end_lets_the_next_one_go(poller: Poller, state: State) -> None:
    first, second = keyed(1), keyed(2)
    poller.keys.read(first)
    poller.keys.read(second)
    poller.keys.read(with_state(first, state))
    assert poller.rank(second) == 0


def test_a_retried_head_keeps_its_place_until_its_retry_row_has_ended(poller: Poller) -> None:
    first, second = keyed(1), keyed(2)
    poller.keys.read(first)
    poller.keys.read(second)
    poller.keys.recorded(first, outcome(State.RETRYING, next_attempt_at=at(300)))
    assert poller.rank(second) == 1
    assert poller.keys.head_at(KEY) == at(300)
    poller.keys.recorded(retry_row_key(300, first), outcome())
    assert poller.rank(second) == 0


def test_a_page_read_before_the_end_does_not_bring_a_row_back(poller: Poller) -> None:
    first = keyed(1)
    poller.keys.read(first)
    poller.keys.recorded(first, outcome())
    poller.keys.read(with_state(first, State.RETRYING, next_attempt_at=at(300)))
    assert poller.rank(keyed(2)) == 0


def test_retry_rows_that_their_original_no_longer_names_say_nothing(poller: Poller) -> None:
    first = keyed(1)
    poller.keys.read(first)
    stale = with_state(retry_row_key(5, first), State.CANCELLED, reason="superseded")
    poller.keys.read(stale)
    poller.keys.recorded(retry_row_key(5, first), outcome(State.CANCELLED, reason="superseded"))
    assert poller.rank(keyed(2)) == 1


def test_pointers_without_a_definition_have_no_key(poller: Poller) -> None:
    poller.keys.read(msgspec.structs.replace(keyed(1), created_at=None))
    assert poller.rank(keyed(2)) == 0


def test_overdue_heads_are_named_where_a_row_waits(poller: Poller) -> None:
    poller.keys.read(keyed(1))
    assert poller.keys.overdue(at(1_000), limit=10) == []
    poller.keys.read(keyed(2))
    assert poller.keys.overdue(at(60), limit=10) == []
    assert poller.keys.overdue(at(1_000), limit=10) == [(KEY, keyed(1).schedule_id)]


def test_it_requests_the_order_once_and_admits_no_row_before(poller: Poller) -> None:
    poller.keys.changed()
    assert poller.changes == 0
    poller.keys.want()
    poller.keys.want()
    assert poller.wanted == 1
    poller.keys.changed()
    assert poller.changes == 1


def test_lines_are_bounded(poller: Poller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "QUEUED_IDS", 3)
    for number in range(5):
        poller.keys.read(keyed(number))
    assert poller.rank(keyed(9)) == 3
    poller.keys.recorded(keyed(0), outcome())
    poller.keys.read(keyed(4))
    assert poller.rank(keyed(9)) == 3


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["read", "retry", "end"])), max_size=60))
def test_the_queue_of_a_key_holds_its_unfinished_rows(events: list[tuple[int, str]]) -> None:
    poller, waiting, over = Poller(), set[ScheduleId](), set[ScheduleId]()
    rows = [keyed(number) for number in range(9)]
    for number, event in events:
        one = rows[number]
        if event == "end":
            poller.keys.recorded(one, outcome())
            over.add(one.schedule_id)
            waiting.discard(one.schedule_id)
        else:
            if event == "read":
                poller.keys.read(one)
            else:
                poller.keys.recorded(one, outcome(State.RETRYING, next_attempt_at=at(100 + number)))
            waiting |= {one.schedule_id} - over
        for each in rows:
            assert poller.rank(each) == sum(other < each.schedule_id for other in waiting)


def test_a_redelivery_is_not_in_the_queue(poller: Poller) -> None:
    first, second = keyed(1), keyed(2)
    poller.keys.read(second)
    again = msgspec.structs.replace(with_state(first, State.RETRYING), redelivered_at=at(50), next_attempt_at=at(50))
    poller.keys.read(again)
    assert poller.rank(second) == 0


RUNS = run_key("nightly")


def ahead(poller: Poller, one: Row) -> int:
    return poller.keys.ahead(RUNS, one.schedule_id)


def first(poller: Poller, one: Row) -> ScheduleId | None:
    return next(iter(poller.keys.runs_ahead(RUNS, one.schedule_id, limit=1)), None)


def test_a_run_that_has_started_holds_off_all_others_until_it_ends(poller: Poller) -> None:
    earlier, started, later = (keyed(seconds, key=RUNS) for seconds in (1, 2, 3))
    for each in (started, later):
        poller.keys.read(each)
    poller.keys.started(RUNS, started.schedule_id, at(2), calling=True)
    poller.keys.read(earlier)
    assert [ahead(poller, each) for each in (earlier, started, later)] == [1, 0, 2]
    assert poller.keys.calling(RUNS)
    assert first(poller, later) == started.schedule_id, "the one that started first"
    poller.keys.recorded(started, outcome(State.RETRYING, next_attempt_at=at(60)))
    assert not poller.keys.calling(RUNS)
    assert (ahead(poller, earlier), poller.keys.head_at(RUNS)) == (1, at(60))
    before = poller.changes
    poller.keys.recorded(started, outcome())
    assert poller.changes > before, "those that wait are judged again"
    assert [ahead(poller, each) for each in (earlier, later)] == [0, 1]


def test_a_new_owner_finds_the_run_that_has_started(poller: Poller) -> None:
    waiting, tried = keyed(1, key=RUNS), keyed(2, key=RUNS)
    poller.keys.read(waiting)
    poller.keys.read(with_state(tried, State.RETRYING, attempts=2, next_attempt_at=at(60)))
    assert first(poller, waiting) == tried.schedule_id
    assert ahead(poller, waiting) == 1
    deferred = Poller()
    deferred.keys.read(waiting)
    deferred.keys.read(with_state(tried, State.RETRYING, attempts=0, next_attempt_at=at(60)))
    assert first(deferred, tried) == waiting.schedule_id, "a run that was only deferred has not started"
    assert ahead(deferred, waiting) == 0


def test_a_holder_that_was_cancelled_elsewhere_is_looked_up(poller: Poller) -> None:
    run = keyed(1, key=RUNS)
    poller.keys.read(run)
    poller.keys.started(RUNS, run.schedule_id, at(1), calling=True)
    assert poller.keys.overdue(at(30), limit=9) == []
    assert poller.keys.overdue(at(62), limit=9) == [(RUNS, run.schedule_id)]
    poller.keys.read(with_state(run, State.CANCELLED))
    assert first(poller, keyed(2, key=RUNS)) is None
    assert poller.keys.overdue(at(62), limit=9) == []


def redelivered(run: Row, seconds: float, **columns: Any) -> Row:
    """The original of a run that was redelivered at this second."""
    columns = {"attempts": 1, "redelivered_after": 1, "next_attempt_at": at(seconds), **columns}
    return with_state(run, State.RETRYING, redelivered_at=at(seconds), **columns)


def its_retry_row(run: Row, seconds: float) -> Row:
    options = encode_options(ScheduleOptions(redelivery=Redelivery(at(seconds), 1)))
    return retry_row_key(seconds, run, options=options)


def test_a_page_that_was_read_before_a_redelivery_ends_nothing(poller: Poller) -> None:
    run, later = keyed(1, key=RUNS), keyed(50, key=RUNS)
    poller.keys.read(with_state(run, State.DELIVERED))
    poller.keys.read(its_retry_row(run, 40))
    poller.keys.started(RUNS, run.schedule_id, at(40), calling=True)
    poller.keys.read(later)
    poller.keys.read(with_state(run, State.DELIVERED))
    poller.keys.found_ended(RUNS, run.schedule_id)
    poller.keys.found_ended(RUNS, run.schedule_id, redelivered_at=0)
    assert (ahead(poller, run), ahead(poller, later)) == (0, 1)
    poller.keys.found_ended(RUNS, run.schedule_id, redelivered_at=at(40))
    assert ahead(poller, later) == 0


def test_a_redelivered_run_that_is_found_in_doubt_holds_the_key_although_it_had_ended(poller: Poller) -> None:
    """A new owner reads the retry row that delivered it, then that of the redelivery."""
    run, later = keyed(1, key=RUNS), keyed(50, key=RUNS)
    poller.keys.read(redelivered(run, 40))
    poller.keys.read(with_state(retry_row_key(20, run), State.DELIVERED))
    poller.keys.read(its_retry_row(run, 40))
    poller.keys.started(RUNS, run.schedule_id, at(40))
    poller.keys.read(later)
    assert (ahead(poller, run), ahead(poller, later)) == (0, 1)


def test_a_run_in_doubt_holds_the_key_behind_one_whose_end_is_not_carried_yet(poller: Poller) -> None:
    delivered, doubted, earlier = (keyed(seconds, key=RUNS) for seconds in (1, 30, 20))
    poller.keys.read(with_state(delivered, State.RETRYING, attempts=1, next_attempt_at=at(10)))
    poller.keys.read(doubted)
    poller.keys.started(RUNS, doubted.schedule_id, at(30))
    poller.keys.read(with_state(retry_row_key(10, delivered), State.DELIVERED))
    poller.keys.read(earlier)
    assert (ahead(poller, doubted), ahead(poller, earlier)) == (0, 1)


def test_the_runs_before_another_one_are_those_that_started_then_those_that_wait(poller: Poller) -> None:
    waiting, started, last = (keyed(seconds, key=RUNS) for seconds in (1, 2, 3))
    for each in (waiting, started, last):
        poller.keys.read(each)
    poller.keys.started(RUNS, started.schedule_id, at(2))
    found = poller.keys.runs_ahead(RUNS, last.schedule_id, limit=2)
    assert found == [started.schedule_id, waiting.schedule_id]
    assert poller.keys.runs_ahead(RUNS, started.schedule_id, limit=2) == []


def test_rows_that_await_a_word_take_no_more_memory_than_those_that_are_queued(
    poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receivers may take a week, and any number of keys may wait for them."""
    monkeypatch.setattr(ordering, "QUEUED_IDS", 3)
    waiting = [
        with_state(
            keyed(number, number, key=f"order-{number}"), State.RETRYING, reason="awaiting", next_attempt_at=at(99)
        )
        for number in range(10)
    ]
    for each in waiting:
        poller.keys.read(each)
    assert [poller.keys.awaiting(f"order-{number}") for number in range(10)] == [True] * 3 + [False] * 7
    assert len(poller.keys._awaiting) == 3
    for each in waiting:
        poller.keys.recorded(each, outcome())
    assert not poller.keys._awaiting
