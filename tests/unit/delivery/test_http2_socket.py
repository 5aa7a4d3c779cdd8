"""An HTTP/2 connection whose other end the test controls, over a TLS that passes bytes on unchanged."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from poller_cluster.delivery.answer import Answer
from poller_cluster.delivery.connection import Connection
from poller_cluster.delivery.http2 import connection as http2_connection
from poller_cluster.delivery.http2.connection import Http2Connection
from poller_cluster.delivery.http2.stream import Stream
from poller_cluster.delivery.pool import PoolKey
from poller_cluster.delivery.target import Target
from tests.support.http2_frames import data, frame, frames_of, head, settings
from tests.support.turns import until

UPDATE = b"u" * 27


class Tls:
    """Passes on all bytes except `x`, and has an update to send each time that arrives. `along`: data that arrived with
    the handshake; `around`: what is removed from each piece.
    """

    ended = False
    says = UPDATE

    def __init__(self) -> None:
        self._said = b""
        self.opened = 0
        self.along = self.around = b""

    def seal(self, data: bytes) -> bytes:
        return data

    def open(self, data: bytes) -> bytes:
        self.opened += len(data)
        data, self.along = self.along + data.removesuffix(self.around), b""
        if data.strip(b"x"):
            return data
        self._said = self.says if data else b""
        return b""

    def take(self) -> bytes:
        said, self._said = self._said, b""
        return said


class Events:
    def __init__(self) -> None:
        self.heard = self.lost = 0

    def on_heard(self, connection: Any, heard: list[Any]) -> None:
        self.heard += 1

    def on_lost(self, connection: Any) -> None:
        self.lost += 1
        connection.close()


class TestSocket:
    """A connection whose other end the test controls."""

    @pytest.fixture
    def peer(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        ours, theirs = socket.socketpair()
        for one in (ours, theirs):
            one.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        with ours, theirs:
            yield ours, theirs

    def connection(self, ours: socket.socket, events: Events) -> Http2Connection[str]:
        made: Connection[str] = Connection(
            events=events,  # type: ignore[arg-type]
            loop=asyncio.get_running_loop(),
            sock=ours,
            key=PoolKey("shop", Target("https", "h", 443, None), "192.0.2.1"),
            attempt="an attempt",
            opened_at=0.0,
            answer=Answer(response_bytes=10_000, framing_bytes=10_000, excerpt_bytes=10),
        )
        made.tls = Tls()  # type: ignore[assignment]
        return Http2Connection(events=events, loop=asyncio.get_running_loop(), made=made)

    async def tell(self, connection: Http2Connection[str], theirs: socket.socket, raw: bytes, times: int = 1) -> None:
        tls: Any = connection._tls
        for _ in range(times):
            opened = tls.opened + theirs.send(raw)
            await until(lambda opened=opened: tls.opened >= opened)  # type: ignore[misc]

    async def begun(self, connection: Http2Connection[str], theirs: socket.socket, body: bytes) -> Stream[str]:
        await self.tell(connection, theirs, settings(initial_window_size=10_000_000))
        await self.tell(connection, theirs, frame(0x8, 0, 0, (10_000_000).to_bytes(4, "big")))
        stream = Stream("a", response_bytes=10, framing_bytes=500_000, excerpt_bytes=1, observed=False)
        connection.begin(stream, method="POST", block=b"\x83", body=body)
        connection.send()
        return stream

    @pytest.mark.parametrize("retired", [False, True])
    async def test_a_body_goes_as_it_is_read(self, peer: tuple[socket.socket, socket.socket], retired: bool) -> None:
        ours, theirs = peer
        events = Events()
        connection = self.connection(ours, events)
        body = bytes(range(256)) * 20_000
        await self.begun(connection, theirs, body)
        assert connection._unsent
        assert not connection.has_headroom
        assert len(connection._unsent) < 70_000
        connection.retired = retired
        came = b""
        while len(came) < len(body) or connection._unsent or connection.session._unsent:
            came += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 1_000_000), 2)
        assert b"".join(each.payload for each in frames_of(came) if each.kind == 0) == body
        assert connection.has_headroom is not retired
        connection.close()

    async def test_a_connection_with_nothing_unsent_goes_on(self, peer: tuple[socket.socket, socket.socket]) -> None:
        """Neither a window update nor room in the socket reports it."""
        ours, theirs = peer
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
        connection = self.connection(ours, Events())
        await self.begun(connection, theirs, b"x" * 100_000)
        assert not connection._unsent
        came = b""
        while sum(len(each.payload) for each in frames_of(came) if each.kind == 0) < 100_000:
            came += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 1_000_000), 2)
        connection.close()

    async def test_an_error_while_a_body_goes(
        self, peer: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def failing(*_: object) -> None:
            raise LookupError

        ours, theirs = peer
        events = Events()
        connection = self.connection(ours, events)
        await self.begun(connection, theirs, b"x" * 100_000)
        monkeypatch.setattr(Http2Connection, "_write_bodies", failing)
        reported: list[type[BaseException]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(type(context["exception"])))
        while not events.lost:
            await asyncio.wait_for(loop.sock_recv(theirs, 1_000_000), 2)
            await asyncio.sleep(0)
        assert (events.lost, reported) == (1, [LookupError])

    async def test_a_connection_with_a_full_send_buffer_takes_no_request(
        self, peer: tuple[socket.socket, socket.socket]
    ) -> None:
        """No request begins on it until the receiver has read some of what was sent."""
        ours, theirs = peer
        events = Events()
        connection = self.connection(ours, events)
        await self.begun(connection, theirs, b"")
        connection.check_headroom()
        assert connection.has_headroom
        with contextlib.suppress(BlockingIOError):
            while True:
                ours.send(b"z" * 1_000)
        assert connection.has_headroom
        connection.check_headroom()
        heard = events.heard
        await asyncio.sleep(0)
        assert (connection.has_headroom, events.heard) == (False, heard)
        theirs.recv(1_000_000)
        await until(lambda: events.heard > heard)
        assert connection.has_headroom
        connection.close()

    async def test_a_receiver_that_reads_nothing_may_not_make_it_say_much(
        self, peer: tuple[socket.socket, socket.socket]
    ) -> None:
        ours, theirs = peer
        events = Events()
        connection = self.connection(ours, events)
        await self.begun(connection, theirs, b"x" * 5_000_000)
        assert connection._unsent
        before = len(connection._unsent)
        await self.tell(connection, theirs, b"x", 8_192 // len(UPDATE))
        assert (events.lost, len(connection._unsent)) == (0, before + 8_192 // len(UPDATE) * len(UPDATE))
        await self.tell(connection, theirs, b"x")
        assert (events.lost, connection.closed) == (1, True)

    async def test_tls_that_brings_nothing(
        self, peer: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Tls, "says", b"")
        ours, theirs = peer
        events = Events()
        connection = self.connection(ours, events)
        await self.tell(connection, theirs, settings())
        await self.tell(connection, theirs, b"x" * 8_192, 8)
        assert events.lost == 0
        await self.tell(connection, theirs, b"x")
        assert events.lost == 1

    async def test_tls_around_small_frames(
        self, peer: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A TLS record is much larger than the small frame in it, over any number of answers."""
        monkeypatch.setattr(http2_connection, "_SEALED_BYTES", 1_000)
        ours, theirs = peer
        events = Events()
        connection = self.connection(ours, events)
        stream = await self.begun(connection, theirs, b"")
        await self.tell(connection, theirs, head(stream.number))
        tls: Any = connection._tls
        tls.around = b"x" * 60
        await self.tell(connection, theirs, data(stream.number, b"") + tls.around, 30)
        assert events.lost == 0
        await self.tell(connection, theirs, b"x" * 1_001)
        assert events.lost == 1

    @pytest.mark.parametrize("then", ["more", "end", "end of TLS"])
    async def test_what_is_long_to_read(
        self, peer: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, then: str
    ) -> None:
        """The loop goes on, and later bytes are read when all before them have been handled."""
        ours, theirs = peer
        events = Events()
        connection = self.connection(ours, events)
        stream = await self.begun(connection, theirs, b"")
        loop, session, turns = asyncio.get_running_loop(), connection.session, [0]
        before, read = session.frames, set()
        tls: Any = connection._tls

        def look() -> None:
            if session.frames > turns[-1]:
                turns.append(session.frames)
            if session.behind:
                read.add(tls.opened)
            if not events.lost and len(turns) < 100:
                loop.call_soon(look)

        look()
        theirs.send(head(stream.number) + data(stream.number) * 1_000 + data(stream.number, b"x", ends=True))
        if then == "more":
            await until(lambda: session.behind)
            theirs.send(b"nonsense" * 10)
        elif then == "end":
            theirs.close()
        else:
            monkeypatch.setattr(Tls, "ended", True)
        await until(lambda: events.lost > 0)
        assert (stream.status, stream.end, session.frames - before) == (200, "complete", 1_002)
        assert max(after - sooner for sooner, after in pairwise(turns[1:])) <= 256
        assert (session.broken, len(read)) == (then == "more", 1)

    async def test_unsent_bytes_of_the_handshake_are_sent_first(
        self, peer: tuple[socket.socket, socket.socket]
    ) -> None:
        ours, theirs = peer
        loop = asyncio.get_running_loop()
        first: Connection[str] = Connection(
            events=Events(),  # type: ignore[arg-type]
            loop=loop,
            sock=ours,
            key=PoolKey("shop", Target("https", "h", 443, None), "192.0.2.1"),
            attempt="an attempt",
            opened_at=0.0,
            answer=Answer(response_bytes=10_000, framing_bytes=10_000, excerpt_bytes=10),
        )
        first.send(b"y" * 100_000)
        assert first.sending
        sock, unsent = first.hand_over()
        assert (sock, loop.remove_reader(sock), loop.remove_writer(sock), first.closed) == (ours, False, False, True)
        assert theirs.recv(100_000) + unsent == b"y" * 100_000

    async def test_settings_received_with_the_handshake(self, peer: tuple[socket.socket, socket.socket]) -> None:
        connection = self.connection(peer[0], Events())
        tls: Any = connection._tls
        tls.along = settings(max_concurrent_streams=7)
        await until(lambda: connection.session.most_streams == 7)
        connection.close()

    async def test_a_connection_looks_alive_until_unexpected_bytes_or_its_end(
        self, peer: tuple[socket.socket, socket.socket]
    ) -> None:
        ours, theirs = peer
        connection = self.connection(ours, Events())
        assert connection.looks_alive()
        theirs.send(b"x")
        assert not connection.looks_alive()
        await self.tell(connection, theirs, b"x")
        assert connection.looks_alive()
        await self.begun(connection, theirs, b"")
        theirs.send(b"x")
        assert connection.looks_alive()
        await self.tell(connection, theirs, b"x")
        theirs.close()
        assert not connection.looks_alive()
        connection.close()
        assert not connection.looks_alive()
