"""Bytes of a connection and what its requests allow."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from poller_cluster.delivery.inflow import UNCOUNTED_EVENTS, Ends, Inflow, Inflows, shut

ALLOWED = 1_000


def ends(connection: socket.socket) -> Ends:
    """As libcurl tells them."""
    return Ends(*connection.getsockname()[:2], *connection.getpeername()[:2])


class Bench:
    """One end is libcurl's, the other the receiver's."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.ours = socket.create_connection(server.getsockname())
            self.theirs, _ = server.accept()
        self.descriptor = self.ours.fileno()
        self.name = ends(self.ours)
        self.inflows = Inflows(ALLOWED)
        self.inflows.opened(self.descriptor)

    def begun(self) -> Inflow:
        inflow = self.inflows.begun(self.name, [self.descriptor])
        assert inflow is not None
        return inflow

    def came(self, size: int) -> bool:
        """Whether that was too much."""
        self.theirs.sendall(bytes(size))
        self.ours.recv(size, socket.MSG_PEEK | socket.MSG_WAITALL)
        over = self.inflows.overrun(self.descriptor)
        self.ours.recv(size, socket.MSG_WAITALL)
        return over is not None

    def skip(self) -> None:
        for _ in range(UNCOUNTED_EVENTS):
            assert not self.came(10)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.ours.close()
    made.theirs.close()


def test_more_than_a_request_allows(bench: Bench) -> None:
    bench.begun()
    bench.skip()
    assert [bench.came(400) for _ in range(3)] == [False, False, True]


def test_every_request_on_a_kept_connection_starts_afresh(bench: Bench) -> None:
    for _ in range(5):
        inflow = bench.begun()
        bench.skip()
        assert not bench.came(900)
        bench.inflows.ended(inflow)
    assert not bench.came(5_000), "nobody's"


def test_requests_at_a_time_allow_more_and_take_what_is_left_with_them(bench: Bench) -> None:
    inflows = [bench.begun() for _ in range(3)]
    bench.skip()
    assert not bench.came(2_500)
    bench.inflows.ended(inflows[0])
    bench.inflows.ended(inflows[1])
    assert bench.came(600)


def test_a_new_socket_under_an_old_number_is_another_connection(bench: Bench) -> None:
    before = bench.begun()
    bench.inflows.opened(bench.descriptor)
    assert bench.begun() is not before
    assert bench.inflows.begun(bench.name._replace(local_port=1), []) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_connections_of_one_local_port_to_two_receivers_are_two(host: str) -> None:
    inflows, port = Inflows(ALLOWED), 0
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as opened:
        ours: list[socket.socket] = []
        for _ in range(2):
            server = opened.enter_context(socket.create_server((host, 0), family=family))
            one = opened.enter_context(socket.socket(family))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind((host, port))
            port = one.getsockname()[1]
            one.connect(server.getsockname())
            inflows.opened(one.fileno())
            ours.append(one)
        descriptors = [one.fileno() for one in ours]
        # Both are among the sockets that were opened, as where a receiver's first address does not answer.
        begun = [inflows.begun(ends(one), descriptors) for one in ours]
        again = [inflows.begun(ends(one), []) for one in ours]
        assert [inflow and inflow.descriptor for inflow in begun] == descriptors
        assert [inflow and inflow.descriptor for inflow in again] == descriptors


def test_a_shut_connection_ends_and_keeps_its_descriptor(bench: Bench) -> None:
    shut(bench.begun())
    assert bench.ours.recv(1) == b""
    assert bench.ours.fileno() == bench.descriptor
