"""Both ways of watching sockets keep the same contract."""

import socket
from collections.abc import Callable, Iterator

import pycurl
import pytest

from poller_cluster.delivery.readiness import EpollReadiness, Readiness, SelectorReadiness

KINDS: list[Callable[[], Readiness]] = [EpollReadiness, SelectorReadiness]


@pytest.fixture(params=KINDS)
def readiness(request: pytest.FixtureRequest) -> Iterator[Readiness]:
    made: Readiness = request.param()
    yield made
    made.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def test_tells_what_is_ready(readiness: Readiness, pair: tuple[socket.socket, socket.socket]) -> None:
    left, right = pair
    readiness.watch(left.fileno(), pycurl.POLL_IN)
    assert readiness.ready() == []
    right.send(b"x")
    assert readiness.ready() == [(left.fileno(), pycurl.CSELECT_IN)]
    readiness.watch(left.fileno(), pycurl.POLL_OUT)
    assert readiness.ready() == [(left.fileno(), pycurl.CSELECT_OUT)]
    readiness.watch(left.fileno(), pycurl.POLL_INOUT)
    assert readiness.ready() == [(left.fileno(), pycurl.CSELECT_IN | pycurl.CSELECT_OUT)]


def test_forgotten_ones_are_silent_until_watched_again(
    readiness: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    readiness.watch(left.fileno(), pycurl.POLL_IN)
    readiness.forget(left.fileno())
    right.send(b"x")
    assert readiness.ready() == []
    assert readiness.ready() == []
    readiness.watch(left.fileno(), pycurl.POLL_IN)
    assert readiness.ready() == [(left.fileno(), pycurl.CSELECT_IN)]


def test_a_forgotten_one_is_watched_again_before_it_turned_ready(
    readiness: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    readiness.watch(left.fileno(), pycurl.POLL_IN)
    readiness.forget(left.fileno())
    readiness.watch(left.fileno(), pycurl.POLL_IN)
    right.send(b"x")
    assert readiness.ready() == [(left.fileno(), pycurl.CSELECT_IN)]


def test_a_number_used_again_after_its_socket_was_closed(readiness: Readiness) -> None:
    first, peer = socket.socketpair()
    number = first.fileno()
    readiness.watch(number, pycurl.POLL_IN)
    readiness.forget(number)
    first.close()
    second, other = socket.socketpair()
    with peer, second, other:
        assert number in (second.fileno(), other.fileno())
        reader, writer = (second, other) if second.fileno() == number else (other, second)
        readiness.watch(number, pycurl.POLL_IN)
        writer.send(b"x")
        assert readiness.ready() == [(reader.fileno(), pycurl.CSELECT_IN)]


def test_forgetting_the_unknown_is_no_error(readiness: Readiness) -> None:
    readiness.forget(12345)


def test_is_itself_readable_while_something_is_ready(
    readiness: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    outer = SelectorReadiness()
    outer.watch(readiness.fileno(), pycurl.POLL_IN)
    readiness.watch(left.fileno(), pycurl.POLL_IN)
    assert outer.ready() == []
    right.send(b"x")
    assert outer.ready() == [(readiness.fileno(), pycurl.CSELECT_IN)]
    outer.close()


def test_a_forgotten_one_that_turned_ready_keeps_nobody_busy(
    readiness: Readiness, pair: tuple[socket.socket, socket.socket]
) -> None:
    left, right = pair
    outer = SelectorReadiness()
    outer.watch(readiness.fileno(), pycurl.POLL_IN)
    readiness.watch(left.fileno(), pycurl.POLL_IN)
    readiness.forget(left.fileno())
    right.close()
    assert readiness.ready() == []
    assert outer.ready() == []
    outer.close()
