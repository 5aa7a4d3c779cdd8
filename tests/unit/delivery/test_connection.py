"""A connection whose receiver reads nothing while TLS has much to send."""

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from poller_cluster.delivery.answer import Answer
from poller_cluster.delivery.connection import Connection
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


def secured(ours: socket.socket, events: Any) -> Connection[Any]:
    loop = asyncio.get_running_loop()
    connection: Connection[Any] = Connection(
        events=events,
        loop=loop,
        sock=ours,
        key=PoolKey("shop", Target("https", "h", 443, None), "192.0.2.1"),
        attempt=None,
        opened_at=0.0,
        answer=Answer(response_bytes=10_000, framing_bytes=10_000, excerpt_bytes=10),
    )
    connection.tls = Tls()  # type: ignore[assignment]
    loop.add_reader(ours.fileno(), connection._read)
    return connection


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
