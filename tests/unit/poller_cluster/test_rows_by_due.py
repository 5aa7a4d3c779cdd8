"""Claimed rows until they are due: in order over all runs, and taken back completely."""

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.ready_rows import ClientRows, RowsByDue
from scheduler_service.domain.ids import ClientId
from tests.support.api import NOW
from tests.unit.poller_cluster.claimed import RowOwner, claim

RUNS = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=5), min_size=1, max_size=5)


def jobs(owner: RowOwner, dues: list[int]) -> list[Job]:
    return [Job(owner, one, one.row.due) for due in dues for one in [claim(due=NOW + due)]]


def dues(taken: list[Job]) -> list[int]:
    return [job.due - NOW for job in taken]


@given(RUNS, st.lists(st.integers(0, 25), max_size=5).map(sorted))
def test_rows_come_in_order_of_due_and_none_before_it(runs: list[list[int]], instants: list[int]) -> None:
    rows, left = RowsByDue(), sorted(due for run in runs for due in run)
    for run in runs:
        rows.add(jobs(RowOwner(), run))
    for instant in instants:
        assert rows.first() == (NOW + left[0] if left else None)
        assert dues(list(rows.take(NOW + instant))) == [due for due in left if due <= instant]
        left = [due for due in left if due > instant]


@given(RUNS)
def test_adding_says_whether_the_next_row_of_all_is_among_those_added(runs: list[list[int]]) -> None:
    rows, first = RowsByDue(), 100
    for run in runs:
        assert rows.add(jobs(RowOwner(), run)) == (min(run) < first)
        first = min(first, *run)


@given(RUNS, st.integers(0, 20))
def test_an_owner_takes_back_its_own_rows_that_are_not_due_yet(runs: list[list[int]], due: int) -> None:
    rows, owners = RowsByDue(), [RowOwner() for _ in runs]
    for owner, run in zip(owners, runs, strict=True):
        rows.add(jobs(owner, run))
    list(rows.take(NOW + due))
    for owner, run in zip(owners, runs, strict=True):
        assert dues(rows.withdraw(owner)) == sorted(each for each in run if each > due)
        assert rows.withdraw(owner) == []
    assert rows.first() is None


def test_a_client_waiting_for_room_is_notified_once_when_there_is_enough() -> None:
    client = ClientRows(ClientId("shop"), [deque(), deque()])
    client.outstanding = 100
    assert not client.gained_headroom(), "nobody wanted any"
    client.want_headroom(tell_at=88)
    client.reserved, client.outstanding = 6, 83
    assert not client.gained_headroom()
    client.reserved = 5
    assert client.gained_headroom()
    assert not client.gained_headroom()
