"""Limits of each receiver host: how hosts are named, how many rows at once, how many a second, and which are
forgotten.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poller_cluster.dispatch.receivers import DUE, LATER, SOON, Receiver, Receivers, name_of, origin_of
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.clients import ClientSettings, HostLimit
from scheduler_service.domain.ids import ClientId
from tests.unit.poller_cluster.claimed import result

SHOP, OTHER = ClientId("shop"), ClientId("other")


class Known:
    """Receivers with a client's settings, and a record of the clients that were told of room."""

    def __init__(self, *, max_in_flight: int = 100, share: float = 1.0, **settings: Any) -> None:
        self.told: list[ClientId] = []
        self.all: Receivers[int] = Receivers(ReceiverSettings(**settings), on_free=self.told.append)
        self.settings = ClientSettings(max_in_flight=max_in_flight)
        self.share = share

    def limit(self, **limits: HostLimit) -> "Known":
        hosts = {name.replace("_", "."): limit for name, limit in limits.items()}
        self.settings = ClientSettings(max_in_flight=self.settings.max_in_flight, hosts=hosts)
        return self

    def of(self, url: str = "https://a.example/x", client_id: ClientId = SHOP) -> Receiver[int]:
        return self.all.of(client_id, url, self.settings, share=self.share)


def claim(receiver: Receiver[int], count: int) -> None:
    receiver.outstanding += count


@pytest.mark.parametrize(
    ("url", "listed", "name"),
    [
        ("https://a.example/x?y=//z", {}, "a.example"),
        ("https://A.Example:443/x", {}, "a.example"),
        ("https://a.example?x=1", {}, "a.example"),
        ("https://a.example#x", {}, "a.example"),
        ("https://user:pass@a.example/", {}, "a.example"),
        ("https://a.example:8443/", {}, "a.example:8443"),
        ("http://a.example:443/", {}, "a.example:443"),
        ("https://a.example:8443/", {"a.example"}, "a.example"),
        ("https://a.example:8443/", {"a.example", "a.example:8443"}, "a.example:8443"),
        ("https://a.example/", {"a.example", "a.example:443"}, "a.example:443"),
        ("http://[::1]:8080/", {}, "[::1]:8080"),
        ("http://[::1]/", {}, "[::1]"),
        ("http://[::1]:8080/", {"[::1]"}, "[::1]"),
        ("", {}, ""),
    ],
)
def test_a_receiver_is_named_as_the_settings_name_it(url: str, listed: set[str], name: str) -> None:
    assert name_of(origin_of(url), dict.fromkeys(listed, HostLimit())) == name


@given(st.text())
def test_any_text_is_the_url_of_some_receiver(url: str) -> None:
    name_of(origin_of(url), {})


def test_one_host_leaves_room_for_others() -> None:
    assert Known(max_in_flight=100).of().headroom() == 80
    assert Known(max_in_flight=2).of().headroom() == 2
    assert Known(max_in_flight=1).of().headroom() == 1
    assert Known(max_in_flight=100, receiver_share=0.25).of().headroom() == 25


@pytest.mark.parametrize(
    ("asked", "share", "headroom"), [(10, 1.0, 10), (10, 0.5, 5), (10, 0.01, 1), (500, 1.0, 100), (3, 1 / 3, 1)]
)
def test_a_limit_of_the_client_is_parted_by_pollers(asked: int, share: float, headroom: int) -> None:
    known = Known(share=share).limit(a_example=HostLimit(max_in_flight=asked))
    assert known.of().headroom() == headroom


def test_more_may_be_claimed_for_a_host_than_be_called_at_once_unless_the_client_says_so() -> None:
    """A claim is made for many rows at once; connections to one host have a cost of their own."""
    known = Known(max_in_flight=100, receiver_connections=3)
    host = known.of()
    assert host.headroom() == 80
    for _ in range(3):
        assert host.delay(0.0) == 0.0
        host.started()
    assert host.delay(0.0) is None
    known.limit(a_example=HostLimit(max_in_flight=5))
    assert known.of().delay(0.0) == 0.0


@pytest.mark.parametrize(
    ("limit", "due", "soon", "later"), [(1, 1, 0, 0), (2, 2, 1, 1), (3, 3, 2, 1), (4, 4, 3, 2), (100, 100, 75, 50)]
)
def test_rows_that_are_not_due_leave_room_for_those_that_are(limit: int, due: int, soon: int, later: int) -> None:
    host = Known().limit(a_example=HostLimit(max_in_flight=limit)).of()
    assert [host.headroom(part) for part in (DUE, SOON, LATER)] == [due, soon, later]
    claim(host, 1)
    assert host.headroom(SOON) == soon - 1


def test_rows_not_yet_due_leave_a_part_of_the_rate() -> None:
    host = Known().limit(a_example=HostLimit(max_per_second=8)).of()
    assert [host.headroom(part) for part in (DUE, SOON, LATER)] == [8, 6, 4]


def test_rows_refused_before_their_due_are_notified_of_room_for_such_rows() -> None:
    """Not at each call that ends, because a notification makes all pollers of the client look."""
    known = Known().limit(a_example=HostLimit(max_in_flight=40))
    host = known.of()
    claim(host, 30)
    host.refuse(SOON)
    for _ in range(9):
        host.released()
    assert known.told == []
    host.released()
    assert (host.headroom(SOON), known.told) == (10, [SHOP])
    claim(host, 20)
    host.refuse(SOON)
    host.refuse(DUE)
    host.refuse(SOON)
    for _ in range(10):
        host.released()
    assert known.told == [SHOP, SHOP], "a row that is due waits for less"


def test_rows_being_claimed_take_room_and_giving_them_back_tells() -> None:
    """Several minutes claim for one host at the same time."""
    known = Known(max_in_flight=10)
    host = known.of()
    host.reserved += 8
    assert host.headroom() == 0
    host.refuse()
    host.outstanding += 4
    host.claimed(4)
    assert (host.headroom(), known.told) == (0, [])
    host.claimed(4)
    assert (host.headroom(), known.told) == (4, [SHOP])


def test_ports_share_the_limit_of_their_host() -> None:
    known = Known().limit(a_example=HostLimit(max_in_flight=1))
    assert known.of("https://a.example:8443/") is known.of("http://a.example/")
    assert known.of("https://a.example/") is not known.of("https://a.example/", OTHER)


def test_spellings_of_a_host_take_bounded_memory() -> None:
    known = Known(receivers_per_client=8).limit(a_example=HostLimit(max_in_flight=1))
    (one,) = {known.of(f"https://a.example:{port}/") for port in range(1, 1_000)}
    assert one.name == "a.example"
    assert len(known.all._clients[SHOP].aliases) <= 16


def test_changed_settings_and_shares_count_at_once() -> None:
    known = Known()
    first = known.of()
    claim(first, 3)
    known.limit(a_example=HostLimit(max_in_flight=5))
    assert known.of() is first
    assert first.headroom() == 2
    known.share = 0.2
    assert known.of().headroom() == 1 - 3


def test_attempts_under_way_are_bounded() -> None:
    one = Known().limit(a_example=HostLimit(max_in_flight=2)).of()
    for _ in range(2):
        assert one.delay(0.0) == 0.0
        one.started()
    assert one.delay(0.0) is None
    one.ended(result(), generation=0, now=1.0)
    assert one.delay(1.0) == 0.0


@given(
    rate=st.floats(0.5, 5_000),
    steps=st.lists(st.floats(0, 3), min_size=1, max_size=12),
)
def test_no_second_starts_more_than_the_rate(rate: float, steps: list[float]) -> None:
    """Except for the tenth that may be saved up, and the one that may always start."""
    one = Known(max_in_flight=10_000).limit(a_example=HostLimit(max_per_second=rate)).of()
    now, starts = 0.0, []
    for step in steps:
        now += step
        for _ in range(20):
            delay = one.delay(now)
            assert delay is not None
            if delay > 0:
                break
            one.started()
            one.ended(result(), generation=0, now=now)
            starts.append(now)
    for start in starts:
        within = sum(start <= each < start + 1 for each in starts)
        assert within <= rate + max(rate * 0.1, 1) + 1e-6


def test_it_says_when_the_rate_lets_the_next_one_start() -> None:
    one = Known().limit(a_example=HostLimit(max_per_second=4)).of()
    one.started()
    assert one.delay(0.0) == 0.0
    one.started()
    assert one.delay(0.0) == pytest.approx(0.25)
    assert one.delay(0.25) == 0.0


def test_rows_of_a_limited_rate_are_not_claimed_long_before_they_may_start() -> None:
    one = Known().limit(a_example=HostLimit(max_per_second=5)).of()
    assert one.headroom() == 5
    claim(one, 5)
    assert one.headroom() == 0
    one.started()
    assert one.headroom() == 1


def test_a_refused_client_is_notified_once_of_room() -> None:
    known = Known().limit(a_example=HostLimit(max_in_flight=8))
    one = known.of()
    claim(one, 8)
    one.refuse()
    one.released()
    assert known.told == []
    one.released()
    assert known.told == [SHOP]
    one.released()
    assert known.told == [SHOP]


@pytest.mark.parametrize("limit", [HostLimit(max_in_flight=1), HostLimit(max_per_second=0.1)])
def test_the_last_row_that_ends_tells_in_any_case(limit: HostLimit) -> None:
    known = Known().limit(a_example=limit)
    one = known.of()
    claim(one, 2)
    one.refuse()
    one.released()
    one.released()
    assert known.told == [SHOP]


def test_a_raised_limit_is_notified_with_the_next_end() -> None:
    known = Known(max_in_flight=10)
    one = known.of()
    claim(one, 8)
    assert one.headroom() == 0
    one.refuse()
    known.settings = ClientSettings(max_in_flight=100)
    known.of()
    one.released()
    assert known.told == [SHOP]


def test_a_started_attempt_tells_of_the_room_that_its_rate_gives() -> None:
    """Due rows are looked at when they are told of room; the attempt itself may take long."""
    known = Known().limit(a_example=HostLimit(max_per_second=1))
    one = known.of()
    claim(one, 1)
    assert one.headroom() == 0
    one.refuse()
    one.started()
    assert known.told == [SHOP]


def test_hosts_of_which_rows_were_refused_before_their_due_are_forgotten() -> None:
    """With a limit of one, no room is given before the due, so no waiter is notified of such room."""
    known = Known(max_in_flight=1, receivers_per_client=10)
    for number in range(100):
        one = known.of(f"https://{number}.example/x")
        assert one.headroom(LATER) == 0
        one.refuse(LATER)
    assert len(list(known.all.all())) <= 10


def test_an_open_breaker_holds_back_and_lets_few_try() -> None:
    known = Known(breaker_failures=2, breaker_open_seconds=10, breaker_probes=2)
    one = known.of()
    one.refuse()
    for _ in range(2):
        one.ended(result(503), generation=one.started(), now=0.0)
    assert known.told == [SHOP]
    assert one.held_back(0.0, 9.9)
    assert not one.held_back(0.0, 10.0)
    assert one.headroom() == 2
    one.started()
    generation = one.started()
    assert one.delay(10.0) is None
    assert one.ended(result(), generation=generation, now=11.0)
    assert one.headroom() == 80


def test_the_ones_longest_unused_are_forgotten_first_but_never_those_in_use() -> None:
    known = Known(receivers_per_client=8, breaker_failures=1)
    ended, busy = known.of("https://bad/"), known.of("https://busy/")
    ended.ended(result(503), generation=ended.started(), now=0.0)
    claim(busy, 1)
    for number in range(100):
        known.of(f"https://h{number}/")
        assert len(list(known.all.all())) <= 9
        assert len(known.all._clients[SHOP].aliases) <= 16
    assert known.of("https://busy/") is busy
    assert known.of("https://bad/") is ended
