"""HTTP/2 connections: which are reused, how they end, and receivers that violate the protocol."""

import asyncio
from typing import Any

import pytest
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.http2 import connection as http2_connection
from poller_cluster.delivery.http2 import session as http2_session
from poller_cluster.delivery.http2.connection import Http2Connection
from poller_cluster.delivery.http2.stream import Stream
from poller_cluster.delivery.result import because
from poller_cluster.delivery.settings import DeliverySettings
from scheduler_service.runtime.clock import SystemClock
from tests.support.certificates import Authority
from tests.support.delivery import LONG_SECONDS, LOOPBACK, Trust, attempt, begin, engines, post
from tests.support.http2_frames import PING, frame
from tests.support.http2_receiver import Http2Receiver, Session
from tests.support.turns import until

PINGS = frame(PING, 0, 0, b"12345678") * 300


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
    async def test_idle_connections_are_bounded_over_all_clients(
        self, authority: Authority, receiver: Http2Receiver
    ) -> None:
        async with engines() as make:
            engine = await make(ca_file=str(authority.bundle), max_idle_connections=20)
            for client in ("one", "two", "three", "one", "three"):
                assert (await attempt(engine, post(receiver.url(), client_id=client))).succeeded
            assert len(engine._http2._pool) == 2
            assert [stream.connection for stream in receiver.streams] == [1, 2, 3, 4, 3]

    async def test_a_connection_is_not_reused_beyond_its_lifetime(
        self, authority: Authority, receiver: Http2Receiver
    ) -> None:
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

    async def test_long_unused_connections_are_closed(self, authority: Authority, receiver: Http2Receiver) -> None:
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
        """Even if the repeat's connection has delivered an answer in between."""
        request = http2_session.Session.request

        def on_kept(of: Any, stream: Stream[Any], **given: Any) -> None:
            request(of, stream, **given)
            stream.on_kept = True

        monkeypatch.setattr(http2_session.Session, "request", on_kept)
        receiver.script["/x"] = lambda stream: stream.session.close()
        assert await endings([begin(engine, post(receiver.url("/x")))]) == [(None, "reset", False)]
        assert len(receiver.streams) == 2

    async def test_a_lost_attempt_at_most_once_is_not_repeated(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        receiver.script["/x"] = lambda stream: stream.session.close()
        once = begin(engine, post(receiver.url("/x"), at_most_once=True))
        assert await endings([once]) == [(None, "reset", False)]
        assert len(receiver.streams) == 2

    async def test_what_may_be_sent_once_is_not_written_to_one_that_ended(
        self, engine: DeliveryEngine, receiver: Http2Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Even if the loop does not know of the end yet. A fresh connection is not checked: it may have settings to
        read.
        """
        monkeypatch.setattr(Http2Connection, "looks_alive", lambda _: False)
        assert (await attempt(engine, post(receiver.url(), at_most_once=True))).succeeded
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert (await attempt(engine, post(receiver.url(), at_most_once=True))).succeeded
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]

    async def test_a_lost_attempt_is_not_repeated_once_an_answer_began(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
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
        """Of two repeats, one opens a connection and the other waits for it, even if a connection has room that is
        newer than the requests but older than the loss.
        """
        receiver.max_streams = 2
        assert (await attempt(engine, post(receiver.url()))).succeeded
        attempts = await held_attempts(engine, receiver, 4)
        shares = {number: [s for s in receiver.streams[1:] if s.connection == number] for number in (1, 2)}
        assert [len(share) for share in shares.values()] == [2, 2]
        receiver.script.clear()
        next(session for session in receiver.sessions if session.number == 1).close()
        await until(lambda: any(each.waiting for each in engine._http2._receivers.values()))
        for stream in shares[2]:
            stream.answer()
        assert await endings(attempts) == [(200, None, False)] * 4
        assert {stream.connection for stream in receiver.streams[5:]} == {3}

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

    async def test_a_connection_that_answered_meanwhile_is_kept_after_a_time_out(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        slow = begin(engine, post(receiver.url("/held"), timeout_seconds=0.5))
        await asyncio.wait_for(receiver.came(1), LONG_SECONDS)
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert (await asyncio.wait_for(slow, LONG_SECONDS)).error == "timeout"
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 1


class TestMisuse:
    async def test_a_slow_receiver_loses_no_request(
        self, engine: DeliveryEngine, receiver: Http2Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = [True, False]
        assert (await attempt(engine, post(receiver.url()))).succeeded
        (waiting,) = await held_attempts(engine, receiver, 1)
        monkeypatch.setattr(http2_connection, "is_writable", lambda _: not asked or asked.pop())
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert asked == [True]
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]
        receiver.streams[1].answer()
        assert await endings([waiting]) == [(200, None, False)]
        assert len(receiver.streams) == 3

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
        """Attempts wait for its settings no longer than for a connection."""
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

    async def test_an_attempt_that_ends_before_it_is_written_sends_nothing(
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
