"""How many long calls a client and a node have room for, who is told of room, and when deferred rows come back."""

from dataclasses import replace

import pytest

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.long_calls import MOST_WORTH_TELLING, LongCalls
from poller_cluster.dispatch.receivers import DUE, LATER
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.ids import ClientId, RowKey
from scheduler_service.domain.options import ScheduleOptions, encode_options
from tests.unit.poller_cluster.claimed import RowOwner, claim, client, result

SHOP, OTHER = ClientId("shop"), ClientId("other")
LONG = encode_options(ScheduleOptions(timeout_seconds=600.0))
SHORT = encode_options(ScheduleOptions(timeout_seconds=60.0))


class Owner(RowOwner):
    """Remembers which of its calls are under way."""

    def __init__(self, client_id: str = "shop") -> None:
        super().__init__(client_id)
        self.under_way: set[RowKey] = set()

    def long_call(self, key: RowKey, *, under_way: bool) -> None:
        (self.under_way.add if under_way else self.under_way.remove)(key)


def bounded(client_id: str = "shop", *, longest: float, timeout_seconds: float = 30.0) -> ServedClient:
    """A client whose operator lets calls take so many seconds."""
    return replace(client(client_id, timeout_seconds=timeout_seconds), longest_attempt_seconds=longest)


class Node:
    """The long calls of a node whose engine has `capacity` places, half of them for long calls."""

    def __init__(self, capacity: int = 100) -> None:
        self.told: list[ClientId] = []
        self.capacity = capacity
        self.calls = LongCalls(ReceiverSettings(), capacity=lambda: self.capacity, on_free=self.told.append)

    def enter(self, client_id: str = "shop", *, options: str = LONG, longest: float = 600.0) -> Job:
        one = claim(options=options)
        job = Job(Owner(client_id), one, one.row.due, False)
        self.calls.enter(job, bounded(client_id, longest=longest))
        return job


@pytest.mark.parametrize(
    ("options", "of_client", "longest", "is_long"),
    [
        (LONG, 30.0, 600.0, True),
        (SHORT, 600.0, 600.0, False),
        ("{}", 61.0, 600.0, True),
        ("{}", 60.0, 600.0, False),
        (LONG, 600.0, 60.0, False),
    ],
)
def test_the_time_out_that_counts_says_whether_a_call_is_long(
    options: str, of_client: float, longest: float, is_long: bool
) -> None:
    calls = Node().calls
    served = bounded(timeout_seconds=of_client, longest=longest)
    assert calls.possible(served) is (longest > 60)
    assert calls.includes(claim(options=options).row, served) is is_long


def test_only_long_calls_take_places() -> None:
    node = Node()
    assert [node.enter(options=options).long for options in (SHORT, LONG, "{}")] == [False, True, False]
    assert node.calls.taken == 1


def test_a_client_has_half_of_its_limit_and_one_at_least() -> None:
    calls = Node().calls
    assert [calls.places(limit) for limit in (1, 2, 3, 4, 100)] == [1, 1, 1, 2, 50]


def test_rows_that_are_not_due_have_a_part_of_the_clients_places() -> None:
    node = Node()
    assert (node.calls.headroom(SHOP, 20, DUE), node.calls.headroom(SHOP, 20, LATER)) == (10, 5)
    for _ in range(5):
        node.enter()
    assert (node.calls.headroom(SHOP, 20, DUE), node.calls.headroom(SHOP, 20, LATER)) == (5, 0)
    assert node.calls.headroom(SHOP, 1) < 0


def test_one_client_leaves_a_third_of_the_nodes_places_to_the_others() -> None:
    node = Node(60)
    while node.calls.headroom(SHOP, 1_000) > 0:
        node.enter()
    assert node.calls.taken == 20
    assert node.calls.headroom(OTHER, 1_000) == 10
    while node.calls.headroom(OTHER, 1_000) > 0:
        node.enter("other")
    assert node.calls.taken == 27


def test_a_claim_under_way_has_its_room() -> None:
    node = Node()
    node.calls.reserve(SHOP, 3)
    assert (node.calls.taken, node.calls.headroom(SHOP, 8)) == (3, 1)
    node.calls.reserve(SHOP, -3)
    assert (node.calls.taken, node.calls.headroom(SHOP, 8)) == (0, 4)


def test_a_row_gives_its_place_back_once() -> None:
    node = Node()
    job = node.enter()
    for _ in range(2):
        node.calls.leave(job)
        assert (node.calls.taken, job.long) == (0, False)


def test_its_owner_knows_of_a_call_while_it_is_under_way() -> None:
    node = Node()
    long, short = node.enter(), node.enter(options=SHORT)
    for job in (long, short):
        node.calls.started(job)
    assert long.owner.under_way == {long.claim.row.key}
    node.calls.ended(long, result())
    assert (long.owner.under_way, short.owner.under_way) == (set(), set())
    assert node.calls.taken == 1


def test_who_was_refused_is_told_of_room_once() -> None:
    node = Node()
    jobs = [node.enter() for _ in range(2)]
    node.calls.refuse(SHOP, 4)
    node.calls.leave(jobs[0])
    assert node.told == [SHOP]
    node.calls.leave(jobs[1])
    assert node.told == [SHOP]


def test_of_many_places_room_is_told_of_when_there_is_enough() -> None:
    node = Node(1_000)
    jobs = [node.enter() for _ in range(100)]
    node.calls.refuse(SHOP, 200)
    for job in jobs[: MOST_WORTH_TELLING - 1]:
        node.calls.leave(job)
    assert node.told == []
    node.calls.leave(jobs[MOST_WORTH_TELLING])
    assert node.told == [SHOP]


def test_a_place_that_another_client_leaves_is_told_of() -> None:
    node = Node(2)
    job = node.enter("other")
    assert node.calls.headroom(SHOP, 100) == 0
    node.calls.refuse(SHOP, 100)
    node.calls.leave(job)
    assert node.told == [SHOP]


def test_deferred_rows_come_back_as_far_apart_as_calls_end() -> None:
    node = Node()
    apart = [node.calls.defer(SHOP, 12, now=1_000.0, least=10.0, most=600.0) for _ in range(4)]
    assert apart == [10.0, 20.0, 30.0, 40.0]  # six places, and a minute for each call as long as none has ended
    job = node.enter()
    node.calls.started(job)
    node.calls.ended(job, result(duration_seconds=300.0))
    apart = [node.calls.defer(SHOP, 12, now=1_000.0, least=10.0, most=600.0) for _ in range(3)]
    assert apart == [50.0, 100.0, 150.0]


def test_an_attempt_of_which_nothing_was_sent_says_nothing_of_how_long_calls_take() -> None:
    node = Node()
    job = node.enter()
    node.calls.started(job)
    node.calls.ended(job, result(None, error="connect-refused", nothing_sent=True, duration_seconds=0.0))
    assert [node.calls.defer(SHOP, 12, now=0.0, least=10.0, most=600.0) for _ in range(2)] == [10.0, 20.0]


def test_a_deferred_row_comes_back_within_its_bounds() -> None:
    node = Node()
    apart = [node.calls.defer(SHOP, 1, now=0.0, least=10.0, most=100.0) for _ in range(5)]
    assert apart == [10.0, 70.0, 100.0, 100.0, 100.0]
    assert node.calls.defer(SHOP, 1, now=5_000.0, least=10.0, most=100.0) == 10.0


def test_a_client_that_is_served_no_more_is_forgotten_once_its_calls_have_ended() -> None:
    node = Node()
    job = node.enter()
    node.calls.defer(SHOP, 1, now=0.0, least=10.0, most=100.0)
    node.calls.forget(SHOP)
    assert node.calls.headroom(SHOP, 2) == 0
    assert node.calls.defer(SHOP, 1, now=0.0, least=10.0, most=100.0) > 10.0
    node.calls.leave(job)
    node.calls.forget(SHOP)
    assert node.calls.defer(SHOP, 1, now=0.0, least=10.0, most=100.0) == 10.0
