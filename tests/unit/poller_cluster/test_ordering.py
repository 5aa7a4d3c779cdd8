"""Who stands before whom in the line of an ordering key, and what is forgotten."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.minute import ordering
from poller_cluster.minute.ordering import OrderingKeys
from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.schedules import Row, State
from tests.unit.poller_cluster.builders import at, copy_row, outcome, row, with_state

KEY = "order-17"


class Lane:
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
def lane() -> Lane:
    return Lane()


def test_the_earliest_due_goes_first_however_they_are_read(lane: Lane) -> None:
    first, second, third = keyed(1), keyed(2), keyed(3)
    for each in (third, first, second):
        lane.keys.read(each)
    assert [lane.rank(each) for each in (first, second, third)] == [0, 1, 2]
    lane.keys.recorded(first, outcome())
    assert [lane.rank(each) for each in (second, third)] == [0, 1]
    assert lane.changes == 2, "somebody came before the head, and the head left"


def test_keys_and_rows_without_one_do_not_mind_each_other(lane: Lane) -> None:
    lane.keys.read(keyed(1, key="another"))
    lane.keys.read(keyed(1, key=None))
    assert lane.rank(keyed(2)) == 0


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.SKIPPED, State.CANCELLED])
def test_every_end_lets_the_next_one_go(lane: Lane, state: State) -> None:
    first, second = keyed(1), keyed(2)
    lane.keys.read(first)
    lane.keys.read(second)
    lane.keys.read(with_state(first, state))
    assert lane.rank(second) == 0


def test_a_retried_head_keeps_its_place_until_its_copy_has_ended(lane: Lane) -> None:
    first, second = keyed(1), keyed(2)
    lane.keys.read(first)
    lane.keys.read(second)
    lane.keys.recorded(first, outcome(State.RETRYING, next_attempt_at=at(300)))
    assert lane.rank(second) == 1
    assert lane.keys.head_at(KEY) == at(300)
    lane.keys.recorded(copy_row(300, first), outcome())
    assert lane.rank(second) == 0


def test_a_page_read_before_the_end_does_not_bring_a_row_back(lane: Lane) -> None:
    first = keyed(1)
    lane.keys.read(first)
    lane.keys.recorded(first, outcome())
    lane.keys.read(with_state(first, State.RETRYING, next_attempt_at=at(300)))
    assert lane.rank(keyed(2)) == 0


def test_copies_that_their_original_no_longer_names_say_nothing(lane: Lane) -> None:
    first = keyed(1)
    lane.keys.read(first)
    stale = with_state(copy_row(5, first), State.CANCELLED, reason="superseded")
    lane.keys.read(stale)
    lane.keys.recorded(copy_row(5, first), outcome(State.CANCELLED, reason="superseded"))
    assert lane.rank(keyed(2)) == 1


def test_pointers_without_a_definition_are_nobodys_key(lane: Lane) -> None:
    lane.keys.read(msgspec.structs.replace(keyed(1), created_at=None))
    assert lane.rank(keyed(2)) == 0


def test_heads_that_should_have_come_long_ago_are_named_where_somebody_waits(lane: Lane) -> None:
    lane.keys.read(keyed(1))
    assert lane.keys.overdue(at(1_000), limit=10) == []
    lane.keys.read(keyed(2))
    assert lane.keys.overdue(at(60), limit=10) == []
    assert lane.keys.overdue(at(1_000), limit=10) == [(KEY, keyed(1).schedule_id)]


def test_it_asks_once_for_what_there_is_to_know_and_tells_nobody_before(lane: Lane) -> None:
    lane.keys.changed()
    assert lane.changes == 0
    lane.keys.want()
    lane.keys.want()
    assert lane.wanted == 1
    lane.keys.changed()
    assert lane.changes == 1


def test_lines_are_bounded(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "LINE_IDS", 3)
    for number in range(5):
        lane.keys.read(keyed(number))
    assert lane.rank(keyed(9)) == 3
    lane.keys.recorded(keyed(0), outcome())
    lane.keys.read(keyed(4))
    assert lane.rank(keyed(9)) == 3


@given(st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["read", "retry", "end"])), max_size=60))
def test_a_line_is_what_was_seen_and_has_not_ended(events: list[tuple[int, str]]) -> None:
    lane, waiting, over = Lane(), set[ScheduleId](), set[ScheduleId]()
    rows = [keyed(number) for number in range(9)]
    for number, event in events:
        one = rows[number]
        if event == "end":
            lane.keys.recorded(one, outcome())
            over.add(one.schedule_id)
            waiting.discard(one.schedule_id)
        else:
            if event == "read":
                lane.keys.read(one)
            else:
                lane.keys.recorded(one, outcome(State.RETRYING, next_attempt_at=at(100 + number)))
            waiting |= {one.schedule_id} - over
        for each in rows:
            assert lane.rank(each) == sum(other < each.schedule_id for other in waiting)


def test_a_redelivery_is_not_in_line(lane: Lane) -> None:
    first, second = keyed(1), keyed(2)
    lane.keys.read(second)
    again = msgspec.structs.replace(with_state(first, State.RETRYING), redelivered_at=at(50), next_attempt_at=at(50))
    lane.keys.read(again)
    assert lane.rank(second) == 0
