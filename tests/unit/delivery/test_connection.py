"""Connections on real sockets: what they ask of the system, and one whose receiver reads nothing while TLS has much to
send."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from poller_cluster.delivery.answer import Answer
from poller_cluster.delivery.connection import KEEP_ALIVE, Connection, probes
from poller_cluster.delivery.pool import PoolKey
from poller_cluster.delivery.target import Target
from tests.support.turns import until

REQUEST = bytes(range(256)) * 10_000
UPDATE = b"u" * 27


class Tls:
    """TLS that has new keys to send each time something arrives."""

    ended = False

    def __init__(self) -> None:
        self.said = 0

    def seal(self, data: bytes) -> bytes:
        return data

    def open(self, data: bytes) -> bytes:
        return b""

    def take(self) -> bytes:
        self.said += 1
        return UPDATE


class Events:
    def __init__(self) -> None:
        self.lost = 0
        self.connected = False

    def on_connected(self, connection: Any, error: OSError | None) -> None:
        self.connected = error is None

    def on_lost(self, connection: Any) -> None:
        self.lost += 1
        connection.close()


@pytest.fixture
def peer() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def connection_on(sock: socket.socket, events: Any, *, address: str = "192.0.2.1", port: int = 443) -> Connection[Any]:
    return Connection(
        events=events,
        loop=asyncio.get_running_loop(),
        sock=sock,
        key=PoolKey("shop", Target("https", "h", port, None), address),
        attempt=None,
        opened_at=0.0,
        answer=Answer(response_bytes=10_000, framing_bytes=10_000, excerpt_bytes=10),
    )


def secured(ours: socket.socket, events: Any) -> Connection[Any]:
    connection = connection_on(ours, events)
    connection.tls = Tls()  # type: ignore[assignment]
    asyncio.get_running_loop().add_reader(ours.fileno(), connection._read)
    return connection


async def test_the_system_asks_whether_a_silent_receiver_is_there() -> None:
    """A machine that vanishes is noticed within two minutes, and one that is silent for a minute costs no call."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours, events = socket.socket(), Events()
        connection = connection_on(ours, events, address="127.0.0.1", port=listener.getsockname()[1])
        connection.connect()
        await until(lambda: events.connected)
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
        here = [(getattr(socket, name), value) for name, value in KEEP_ALIVE if hasattr(socket, name)]
        assert [(option, ours.getsockopt(socket.IPPROTO_TCP, option)) for option, _ in here] == here
        connection.close()
    idle, _, interval, probes = (value for _, value in KEEP_ALIVE)
    assert idle < 60 <= interval * probes
    assert idle + interval * probes < 120


@pytest.mark.parametrize("systems", [set(), {"TCP_KEEPALIVE"}], ids=["none", "macos"])
def test_a_system_without_these_options_needs_none(systems: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, _ in KEEP_ALIVE:
        monkeypatch.delattr(socket, name, raising=False)
        if name in systems:
            monkeypatch.setattr(socket, name, 16, raising=False)
    assert probes() == tuple((16, 30) for _ in systems)


async def make_it_say(connection: Any, theirs: socket.socket, times: int) -> None:
    for said in range(connection.tls.said + 1, connection.tls.said + 1 + times):
        theirs.send(b"x")
        await until(lambda said=said: connection.tls.said == said)  # type: ignore[misc]


async def test_what_tls_says_follows_what_was_sent_before(peer: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = peer
    events = Events()
    connection = secured(ours, events)
    connection.send(REQUEST)
    assert connection.sending
    await make_it_say(connection, theirs, 1_024 // len(UPDATE))
    came = b""
    while len(came) < len(REQUEST) + 37 * len(UPDATE):
        came += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 1_000_000), 2)
    assert came == REQUEST + 37 * UPDATE
    await until(lambda: not connection.sending)
    assert events.lost == 0
    connection.close()


async def test_a_receiver_that_reads_nothing_may_not_make_it_say_much(
    peer: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = peer
    events = Events()
    connection = secured(ours, events)
    connection.send(REQUEST)
    await make_it_say(connection, theirs, 1_024 // len(UPDATE))
    assert events.lost == 0
    await make_it_say(connection, theirs, 1)
    assert events.lost == 1
    assert connection.closed


async def test_a_send_is_refused_while_another_is_unfinished(peer: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = peer
    connection = secured(ours, Events())
    connection.send(REQUEST)
    came = theirs.recv(1_000_000)  # there is room now, but the loop has had no turn to write the rest
    with pytest.raises(BlockingIOError):
        connection.send(b"another")
    while connection.sending or len(came) < len(REQUEST):
        came += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 1_000_000), 2)
    assert came == REQUEST
    with pytest.raises(BlockingIOError):
        theirs.recv(1)
    assert connection.requests == 1
    connection.close()
