"""Connections over HTTP/2: which are used again, how they end, and receivers that misuse them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from poller_cluster.delivery import http2_connection, http2_session
from poller_cluster.delivery.answer import Answer
from poller_cluster.delivery.connection import Connection
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.http2_connection import Http2Connection
from poller_cluster.delivery.http2_stream import Stream
from poller_cluster.delivery.outcome import because
from poller_cluster.delivery.pool import PoolKey
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.target import Target
from scheduler_service.runtime.clock import SystemClock
from tests.support.certificates import Authority
from tests.support.delivery import LONG_SECONDS, LOOPBACK, Trust, attempt, begin, engines, post
from tests.support.http2_frames import PING, data, frame, frames_of, head, settings
from tests.support.http2_receiver import Http2Receiver, Session, held
from tests.support.turns import until

PINGS = frame(PING, 0, 0, b"12345678") * 300


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
async def receiver(authority: Authority) -> AsyncIterator[Http2Receiver]:
    async with Http2Receiver(tls=authority.server_context("127.0.0.1")) as made:
        made.script["/held"] = held
        yield made


@pytest.fixture
async def engine(authority: Authority, receiver: Http2Receiver) -> AsyncIterator[DeliveryEngine]:
    async with engines() as make:
        yield await make(ca_file=str(authority.bundle))


async def held_attempts(engine: DeliveryEngine, receiver: Http2Receiver, count: int, **differing: Any) -> list[Any]:
    before = len(receiver.streams)
    attempts = [begin(engine, post(receiver.url("/held"), **differing)) for _ in range(count)]
    await asyncio.wait_for(receiver.came(before + count), LONG_SECONDS)
    return attempts


async def endings(attempts: list[Any]) -> list[tuple[int | None, str | None, bool]]:
    results = await asyncio.wait_for(asyncio.gather(*attempts), LONG_SECONDS)
    return [(result.status, result.error, result.nothing_sent) for result in results]


def write(session: Session, raw: bytes) -> None:
    session._transport.write(raw)


class ShiftedClock(SystemClock):
    shift = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.shift


class TestKept:
    async def test_only_so_many(self, authority: Authority, receiver: Http2Receiver) -> None:
        async with engines() as make:
            engine = await make(ca_file=str(authority.bundle), max_idle_connections=20)
            for client in ("one", "two", "three", "one", "three"):
                assert (await attempt(engine, post(receiver.url(), client_id=client))).succeeded
            assert len(engine._http2._pool) == 2
            assert [stream.connection for stream in receiver.streams] == [1, 2, 3, 4, 3]

    async def test_not_beyond_their_lifetime(self, authority: Authority, receiver: Http2Receiver) -> None:
        clock = ShiftedClock()
        settings = DeliverySettings(ca_file=str(authority.bundle), connection_lifetime_seconds=60, idle_seconds=30)
        engine = DeliveryEngine(clock=clock, policy=LOOPBACK, settings=settings)
        await engine.start()
        (waiting,) = await held_attempts(engine, receiver, 1, timeout_seconds=500)
        clock.shift = 61.0
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert [stream.connection for stream in receiver.streams] == [1, 2]
        receiver.streams[0].answer()
        assert await endings([waiting]) == [(200, None, False)]
        await asyncio.wait_for(receiver.until(lambda: len(receiver.sessions) == 1), LONG_SECONDS)
        clock.shift = 92.0
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.streams[-1].connection == 3
        await engine.stop(0)

    async def test_those_unused_for_long_are_closed(self, authority: Authority, receiver: Http2Receiver) -> None:
        clock = ShiftedClock()
        engine = DeliveryEngine(clock=clock, policy=LOOPBACK, settings=DeliverySettings(ca_file=str(authority.bundle)))
        await engine.start()
        assert (await attempt(engine, post(receiver.url()))).succeeded
        engine._http2._close_outdated()
        assert len(engine._http2._pool) == 1
        clock.shift = 31.0
        engine._http2._close_outdated()
        assert engine._http2._receivers == {}
        await asyncio.wait_for(receiver.until(lambda: not receiver.sessions), LONG_SECONDS)
        await engine.stop(0)

    async def test_only_for_an_address_that_the_name_has_now(
        self, engine: DeliveryEngine, receiver: Http2Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        monkeypatch.setattr(engine._naming, "find", lambda *_: ("127.0.0.2",))
        assert await endings([begin(engine, post(receiver.url()))]) == [(None, "connect-refused", True)]

    async def test_none_by_an_engine_that_observes(self, authority: Authority, receiver: Http2Receiver) -> None:
        receiver.script["/no"] = lambda stream: stream.answer(500, b"not today")
        engine = DeliveryEngine(
            clock=SystemClock(),
            policy=LOOPBACK,
            settings=DeliverySettings(ca_file=str(authority.bundle)),
            observe=True,
        )
        await engine.start()
        result = await attempt(engine, post(receiver.url("/no")))
        seen = result.observation
        assert seen is not None
        assert (seen.http_version, result.status, result.excerpt) == ("2", 500, "not today")
        assert seen.headers == receiver.streams[0].headers
        assert ("x-one", "1") in seen.headers
        assert seen.connected_to == f"127.0.0.1:{receiver.port}" == seen.addresses[0]
        assert seen.connected_seconds is not None
        assert seen.secured_seconds is not None
        assert seen.first_byte_seconds is not None
        assert 0 < seen.connected_seconds < seen.secured_seconds < seen.first_byte_seconds
        result = await attempt(engine, post(receiver.url()))
        assert result.observation is not None
        assert (receiver.handshakes, result.excerpt) == (2, "ok")
        await asyncio.gather(*(attempt(engine, post(receiver.url())) for _ in range(3)))
        assert receiver.handshakes == 5
        await asyncio.wait_for(receiver.until(lambda: not receiver.sessions), LONG_SECONDS)
        await engine.stop(0)


class TestLost:
    async def test_a_kept_one_is_replaced_once(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        receiver.script["/x"] = lambda stream: stream.session.close()
        assert await endings([begin(engine, post(receiver.url("/x")))]) == [(None, "reset", False)]
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]

    async def test_a_fresh_one_is_not(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        receiver.script["/x"] = lambda stream: stream.session.close()
        assert await endings([begin(engine, post(receiver.url("/x")))]) == [(None, "reset", False)]
        assert len(receiver.streams) == 1

    async def test_no_request_is_repeated_twice(
        self, engine: DeliveryEngine, receiver: Http2Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also where the connection of the repeat has brought an answer meanwhile."""
        request = http2_session.Session.request

        def on_kept(of: Any, stream: Stream[Any], **given: Any) -> None:
            request(of, stream, **given)
            stream.on_kept = True

        monkeypatch.setattr(http2_session.Session, "request", on_kept)
        receiver.script["/x"] = lambda stream: stream.session.close()
        assert await endings([begin(engine, post(receiver.url("/x")))]) == [(None, "reset", False)]
        assert len(receiver.streams) == 2

    async def test_not_for_what_may_be_sent_once(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        receiver.script["/x"] = lambda stream: stream.session.close()
        once = begin(engine, post(receiver.url("/x"), at_most_once=True))
        assert await endings([once]) == [(None, "reset", False)]
        assert len(receiver.streams) == 2

    async def test_what_may_be_sent_once_is_not_written_to_one_that_ended(
        self, engine: DeliveryEngine, receiver: Http2Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also where the loop does not know of it yet. A fresh connection is not asked: settings may be there."""
        monkeypatch.setattr(Http2Connection, "looks_alive", lambda _: False)
        assert (await attempt(engine, post(receiver.url(), at_most_once=True))).succeeded
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert (await attempt(engine, post(receiver.url(), at_most_once=True))).succeeded
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]

    async def test_not_where_an_answer_had_begun(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        one, two = await held_attempts(engine, receiver, 2)
        receiver.script.clear()
        receiver.streams[1].answer(500, b"begun", ends=False)
        await until(lambda: any(stream.status for _, stream in engine._http2._under_way.values()))
        receiver.sessions[0].close()
        first = await asyncio.wait_for(one, LONG_SECONDS)
        assert (first.status, first.detail, first.excerpt) == (500, "the answer broke off", "begun")
        assert await endings([two]) == [(200, None, False)]
        assert len(receiver.streams) == 4

    async def test_repeats_use_no_connection_that_may_be_lost_as_well(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        """Of two, one makes a connection, and the other waits for that also where an older one has room."""
        receiver.max_streams = 2
        for count in (3, 4):
            attempts = await held_attempts(engine, receiver, count)
            if count == 3:
                for stream in receiver.streams:
                    stream.answer()
                await endings(attempts)
        shares = {number: [s for s in receiver.streams[3:] if s.connection == number] for number in (1, 2)}
        assert [len(share) for share in shares.values()] == [2, 2]
        receiver.script.clear()
        next(session for session in receiver.sessions if session.number == 1).close()
        await until(lambda: any(each.waiting for each in engine._http2._receivers.values()))
        for stream in shares[2]:
            stream.answer()
        assert await endings(attempts) == [(200, None, False)] * 4
        assert {stream.connection for stream in receiver.streams[7:]} == {3}

    async def test_writes_that_fail_before_anything_has_left(
        self, engine: DeliveryEngine, receiver: Http2Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        send, fails = Http2Connection.send, [True, False, True]

        def failing(connection: Http2Connection[Any]) -> None:
            if fails and fails.pop(0):
                raise BrokenPipeError
            send(connection)

        monkeypatch.setattr(Http2Connection, "send", failing)
        assert await endings([begin(engine, post(receiver.url()))]) == [(None, "reset", True)]
        assert await endings([begin(engine, post(receiver.url()))]) == [(200, None, False)]
        assert await endings([begin(engine, post(receiver.url(), at_most_once=True))]) == [(200, None, False)]
        assert [stream.connection for stream in receiver.streams] == [1, 2]

    async def test_one_on_which_nothing_comes_any_more(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert (await attempt(engine, post(receiver.url("/held"), timeout_seconds=0.2))).error == "timeout"
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]

    async def test_one_that_brought_something_meanwhile(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        slow = begin(engine, post(receiver.url("/held"), timeout_seconds=0.5))
        await asyncio.wait_for(receiver.came(1), LONG_SECONDS)
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert (await asyncio.wait_for(slow, LONG_SECONDS)).error == "timeout"
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 1


class TestMisuse:
    async def test_one_that_refused_a_stream_is_left_alone(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        receiver.max_streams = 1
        (waiting,) = await held_attempts(engine, receiver, 1)
        receiver.streams[0].reset(ErrorCodes.REFUSED_STREAM)
        await asyncio.wait_for(receiver.came(2), LONG_SECONDS)
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert [stream.connection for stream in receiver.streams] == [1, 2, 3]
        receiver.streams[1].answer()
        assert await endings([waiting]) == [(200, None, False)]

    async def test_a_violation_ends_all_that_is_under_way(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        attempts = await held_attempts(engine, receiver, 3)
        write(receiver.sessions[0], b"nonsense" * 10)
        assert await endings(attempts) == [(None, "bad-response", False)] * 3
        assert len(receiver.streams) == 4
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 2

    async def test_a_flood_with_the_answer(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        def answer_and_flood(stream: Any) -> None:
            stream.answer(500, b"why")
            write(stream.session, PINGS)

        receiver.script["/x"] = answer_and_flood
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.excerpt) == (500, "why")
        await asyncio.wait_for(receiver.until(lambda: not receiver.sessions), LONG_SECONDS)

    async def test_a_flood_on_an_idle_connection(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        write(receiver.sessions[0], PINGS[:170])
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 1
        write(receiver.sessions[0], PINGS)
        await asyncio.wait_for(receiver.until(lambda: not receiver.sessions), LONG_SECONDS)
        assert engine._http2._receivers == {}
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 2

    async def test_an_answer_that_takes_too_long(self, authority: Authority, receiver: Http2Receiver) -> None:
        async with engines() as make:
            engine = await make(ca_file=str(authority.bundle), answer_seconds=0.1)
            (other,) = await held_attempts(engine, receiver, 1)
            receiver.script["/slow"] = lambda stream: stream.answer(500, b"begun", ends=False)
            result = await attempt(engine, post(receiver.url("/slow")))
            assert (result.status, result.excerpt, result.detail) == (500, "begun", "")
            await asyncio.wait_for(receiver.until(lambda: receiver.streams[1].reset_by_caller), LONG_SECONDS)
            receiver.streams[0].answer()
            assert await endings([other]) == [(200, None, False)]

    async def test_a_body_that_is_not_read(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        (other,) = await held_attempts(engine, receiver, 1)
        window = receiver.sessions[0]._h2
        window.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 0})
        receiver.sessions[0]._flush()
        (connection,) = (each for receiver in engine._http2._receivers.values() for each in receiver.connections)
        await until(lambda: connection.session._h2.remote_settings.initial_window_size == 0)
        big = begin(engine, post(receiver.url(), b"x" * 1_000, timeout_seconds=0.3))
        assert await endings([big]) == [(None, "timeout", False)]
        receiver.streams[0].answer()
        assert await endings([other]) == [(200, None, False)]
        assert (await attempt(engine, post(receiver.url(), b""))).succeeded

    async def test_large_bodies_at_a_time(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        bodies = [bytes((number,)) * 1_000_000 for number in range(3)]
        attempts = [begin(engine, post(receiver.url(), body)) for body in bodies]
        assert await endings(attempts) == [(200, None, False)] * 3
        assert sorted(bytes(stream.body) for stream in receiver.streams) == bodies

    async def test_a_receiver_that_says_nothing(self, authority: Authority) -> None:
        """Those that wait for its settings wait no longer than for a connection."""
        context = authority.server_context("127.0.0.1")
        context.set_alpn_protocols(["h2"])
        came: list[bytes] = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while piece := await reader.read(65_536):
                came.append(piece)
            writer.close()

        server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with engines() as make:
            engine = await make(ca_file=str(authority.bundle), connect_timeout_seconds=0.3)
            attempts = [begin(engine, post(url, timeout_seconds=1.0)) for _ in range(5)]
            assert await endings(attempts[1:]) == [(None, "timeout", True)] * 4
            assert not attempts[0].done()
            assert await endings(attempts[:1]) == [(None, "timeout", False)]
            assert sum(piece.count(b"PRI * HTTP/2.0") for piece in came) == 1
            assert engine._http2._receivers == {}
        server.close()

    async def test_one_that_ends_before_it_is_written(
        self, engine: DeliveryEngine, receiver: Http2Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        (connection,) = engine._http2._pool.take_all()
        write, written = engine._http2._write_queued, asyncio.Event()

        def overdue(of: Http2Connection[Any]) -> None:
            engine._fail(of.queued[0], because("stopped"))
            write(of)
            written.set()

        monkeypatch.setattr(engine._http2, "_write_queued", overdue)
        trusted = Trust(1)
        ended = begin(engine, post(receiver.url()), trusted)
        await asyncio.wait_for(written.wait(), LONG_SECONDS)
        assert await endings([ended]) == [(None, "stopped", True)]
        assert (trusted.left, connection.session.streams, connection.queued) == (0, {}, [])

    async def test_trust_lost_while_waiting(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        trusted = Trust(2)
        attempts = [begin(engine, post(receiver.url("/held")))]
        attempts += [begin(engine, post(receiver.url()), Trust(1)) for _ in range(3)]
        assert await endings(attempts[1:]) == [(None, "not-trusted", True)] * 3
        assert (await attempt(engine, post(receiver.url()), trusted)).succeeded
        assert trusted.left == 0
        assert len(receiver.streams) == 2


UPDATE = b"u" * 27


class Tls:
    """Passes all but `x` on, and has something to say each time that comes. `along`: what came with the handshake;
    `around`: what is left out of each piece."""

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


class Owner:
    def __init__(self) -> None:
        self.heard = self.lost = 0

    def on_heard(self, connection: Any, heard: list[Any]) -> None:
        self.heard += 1

    def on_lost(self, connection: Any) -> None:
        self.lost += 1
        connection.close()


class TestSocket:
    """A connection whose other end is in the test's hands."""

    @pytest.fixture
    def peer(self) -> Iterator[tuple[socket.socket, socket.socket]]:
        ours, theirs = socket.socketpair()
        for one in (ours, theirs):
            one.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        with ours, theirs:
            yield ours, theirs

    def connection(self, ours: socket.socket, owner: Owner) -> Http2Connection[str]:
        made: Connection[str] = Connection(
            owner=owner,  # type: ignore[arg-type]
            loop=asyncio.get_running_loop(),
            sock=ours,
            key=PoolKey("shop", Target("https", "h", 443, None), "192.0.2.1"),
            attempt="an attempt",
            opened_at=0.0,
            answer=Answer(response_bytes=10_000, framing_bytes=10_000, excerpt_bytes=10),
        )
        made.tls = Tls()  # type: ignore[assignment]
        return Http2Connection(owner=owner, loop=asyncio.get_running_loop(), made=made)

    async def tell(self, connection: Http2Connection[str], theirs: socket.socket, raw: bytes, times: int = 1) -> None:
        tls: Any = connection._tls
        for _ in range(times):
            opened = tls.opened + theirs.send(raw)
            await until(lambda opened=opened: tls.opened >= opened)  # type: ignore[misc]

    async def begun(self, connection: Http2Connection[str], theirs: socket.socket, body: bytes) -> Stream[str]:
        await self.tell(connection, theirs, settings(initial_window_size=10_000_000))
        await self.tell(connection, theirs, frame(0x8, 0, 0, (10_000_000).to_bytes(4, "big")))
        stream = Stream("a", response_bytes=10, framing_bytes=10_000, excerpt_bytes=1, observed=False)
        connection.begin(stream, method="POST", block=b"\x83", body=body)
        connection.send()
        return stream

    @pytest.mark.parametrize("retired", [False, True])
    async def test_a_body_goes_as_it_is_read(self, peer: tuple[socket.socket, socket.socket], retired: bool) -> None:
        ours, theirs = peer
        owner = Owner()
        connection = self.connection(ours, owner)
        body = bytes(range(256)) * 20_000
        await self.begun(connection, theirs, body)
        assert connection._unsent
        assert not connection.has_room
        assert len(connection._unsent) < 70_000
        connection.retired = retired
        came = b""
        while len(came) < len(body) or connection._unsent or connection.session._unsent:
            came += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(theirs, 1_000_000), 2)
        assert b"".join(each.payload for each in frames_of(came) if each.kind == 0) == body
        assert connection.has_room is not retired
        connection.close()

    async def test_it_goes_on_where_all_was_sent(self, peer: tuple[socket.socket, socket.socket]) -> None:
        """No window that opens and no room in the socket tells of it."""
        ours, theirs = peer
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1_000_000)
        connection = self.connection(ours, Owner())
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
        owner = Owner()
        connection = self.connection(ours, owner)
        await self.begun(connection, theirs, b"x" * 100_000)
        monkeypatch.setattr(Http2Connection, "_write_bodies", failing)
        reported: list[type[BaseException]] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(type(context["exception"])))
        while not owner.lost:
            await asyncio.wait_for(loop.sock_recv(theirs, 1_000_000), 2)
            await asyncio.sleep(0)
        assert (owner.lost, reported) == (1, [LookupError])

    async def test_a_receiver_that_reads_nothing_may_not_make_it_say_much(
        self, peer: tuple[socket.socket, socket.socket]
    ) -> None:
        ours, theirs = peer
        owner = Owner()
        connection = self.connection(ours, owner)
        await self.begun(connection, theirs, b"x" * 5_000_000)
        assert connection._unsent
        before = len(connection._unsent)
        await self.tell(connection, theirs, b"x", 8_192 // len(UPDATE))
        assert (owner.lost, len(connection._unsent)) == (0, before + 8_192 // len(UPDATE) * len(UPDATE))
        await self.tell(connection, theirs, b"x")
        assert (owner.lost, connection.closed) == (1, True)

    async def test_tls_that_brings_nothing(
        self, peer: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Tls, "says", b"")
        ours, theirs = peer
        owner = Owner()
        connection = self.connection(ours, owner)
        await self.tell(connection, theirs, settings())
        await self.tell(connection, theirs, b"x" * 8_192, 8)
        assert owner.lost == 0
        await self.tell(connection, theirs, b"x")
        assert owner.lost == 1

    async def test_tls_around_small_frames(
        self, peer: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A record that holds one small frame is larger than that by far, over however many answers."""
        monkeypatch.setattr(http2_connection, "_SEALED_BYTES", 1_000)
        ours, theirs = peer
        owner = Owner()
        connection = self.connection(ours, owner)
        stream = await self.begun(connection, theirs, b"")
        await self.tell(connection, theirs, head(stream.number))
        tls: Any = connection._tls
        tls.around = b"x" * 60
        await self.tell(connection, theirs, data(stream.number, b"") + tls.around, 30)
        assert owner.lost == 0
        await self.tell(connection, theirs, b"x" * 1_001)
        assert owner.lost == 1

    async def test_what_of_the_handshake_is_yet_to_be_sent(self, peer: tuple[socket.socket, socket.socket]) -> None:
        ours, theirs = peer
        loop = asyncio.get_running_loop()
        first: Connection[str] = Connection(
            owner=Owner(),  # type: ignore[arg-type]
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

    async def test_settings_that_came_along_with_the_handshake(self, peer: tuple[socket.socket, socket.socket]) -> None:
        connection = self.connection(peer[0], Owner())
        tls: Any = connection._tls
        tls.along = settings(max_concurrent_streams=7)
        await until(lambda: connection.session.most_streams == 7)
        connection.close()

    async def test_whether_it_looks_alive(self, peer: tuple[socket.socket, socket.socket]) -> None:
        ours, theirs = peer
        connection = self.connection(ours, Owner())
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
