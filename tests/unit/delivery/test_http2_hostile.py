"""Hostile HTTP/2 receivers: none may affect other attempts, or make its own attempt cost more than its limits."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.http2.connection import Http2Connection
from poller_cluster.delivery.http2.session import Session
from tests.support import http2_frames as h2
from tests.support.certificates import Authority
from tests.support.delivery import LONG_SECONDS, attempt, begin, post
from tests.support.http2_frames import PREFACE, Frame, data, frame, frames_of, head, settings
from tests.support.turns import measured_turns, until

Answers = Callable[["Receiver", Frame], None]
SPOILT_RECORD = b"\x17\x03\x03\x00\x20" + b"\x55" * 32


class Receiver(asyncio.Protocol):
    """Passes frames to the test as they arrive. TLS is done by hand, so that an invalid record can follow a valid
    one.
    """

    def __init__(self, context: ssl.SSLContext, answers: Answers, made: list["Receiver"], greeting: bytes) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._answers, self._greeting = answers, greeting
        self._secured = self._greeted = False
        self._came = b""
        self._transport: Any
        made.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def write(self, raw: bytes, sealed: bytes = b"") -> None:
        self._tls.write(raw)
        self._transport.write(self._outgoing.read() + sealed)

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        try:
            if not self._secured:
                self._tls.do_handshake()
                self._secured = True
                self.write(self._greeting)
            while True:
                self._came += self._tls.read(65_536)
        except ssl.SSLWantReadError:
            self._transport.write(self._outgoing.read())
        if not self._greeted and len(self._came) >= len(PREFACE):
            self._greeted, self._came = True, self._came[len(PREFACE) :]
        while self._greeted and len(self._came) >= (end := 9 + int.from_bytes(self._came[:3], "big")):
            whole, self._came = self._came[:end], self._came[end:]
            for each in frames_of(whole):
                self._answers(self, each)


@asynccontextmanager
async def receiving(
    authority: Authority, answers: Answers, greeting: bytes = settings()
) -> AsyncIterator[tuple[str, list[Receiver]]]:
    """A receiver's URL, and its connections so far."""
    context = authority.server_context("127.0.0.1")
    context.set_alpn_protocols(["h2"])
    made: list[Receiver] = []
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Receiver(context, answers, made, greeting), "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", made
    finally:
        server.close()


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """A receiver that never answers."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    server.close()


@pytest.fixture
async def reported() -> list[type[BaseException]]:
    """Collects the errors that the loop reports."""
    errors: list[type[BaseException]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(type(context["exception"])))
    return errors


async def errors_of(attempts: list[Any]) -> list[str | None]:
    return [result.error for result in await asyncio.wait_for(asyncio.gather(*attempts), LONG_SECONDS)]


def failing_at_first(method: Callable[[Any], Any], *, times: int) -> Callable[[Any], Any]:
    """Raises LookupError so many times before it does its work."""
    left = [True] * times

    def failing(of: Any) -> Any:
        if left:
            left.pop()
            raise LookupError
        return method(of)

    return failing


def answer(to: Receiver, came: Frame) -> None:
    if came.flags & h2.END_STREAM and came.kind in (h2.HEADERS, h2.DATA):
        to.write(head(came.stream, "204", ends=True))


class TestOneThatFails:
    """An error affects its own connection or attempt, and no others."""

    async def test_a_spoilt_record_behind_a_good_one(
        self, authority: Authority, engine: DeliveryEngine, silent: str, reported: list[type[BaseException]]
    ) -> None:
        def spoil(to: Receiver, came: Frame) -> None:
            if came.kind == h2.HEADERS:
                to.write(frame(h2.PING, 0, 0, b"12345678") + head(came.stream), SPOILT_RECORD)

        async with receiving(authority, spoil) as (url, _):
            others = [begin(engine, post(silent, timeout_seconds=0.3)) for _ in range(3)]
            result = await attempt(engine, post(url, b"", client_id="a", timeout_seconds=0.3))
            assert (result.status, result.error) == (200, None)
            assert await errors_of(others) == ["timeout"] * 3
        assert (engine.in_flight, engine._http2._receivers, reported) == (0, {}, [])

    async def test_tls_that_seals_nothing_more_while_one_is_given_up(
        self, authority: Authority, engine: DeliveryEngine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with receiving(authority, lambda to, came: None) as (url, made):
            first = begin(engine, post(url, b"", timeout_seconds=0.2))
            await until(lambda: any(each.session.settled for (each, _) in engine._http2._under_way.values()))
            second = begin(engine, post(url, b"", timeout_seconds=LONG_SECONDS))
            await until(lambda: len(engine._http2._under_way) == 2)
            ((connection, _), _) = engine._http2._under_way.values()

            def failing(data: bytes) -> bytes:
                raise ssl.SSLError

            class Failing:
                ended, take, open, seal = False, connection._tls.take, connection._tls.open, staticmethod(failing)

            monkeypatch.setattr(connection, "_tls", Failing())
            assert await errors_of([first, second]) == ["timeout", "reset"]
            assert (len(made), connection.closed) == (1, True)

    async def test_an_attempt_that_fails_when_it_is_due(
        self, engine: DeliveryEngine, silent: str, reported: list[type[BaseException]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine._http2, "leave", failing_at_first(engine._http2.leave, times=2))
        attempts = [begin(engine, post(silent, timeout_seconds=0.2)) for _ in range(3)]
        assert await errors_of(attempts) == ["internal", "timeout", "timeout"]
        assert (engine.in_flight, reported) == (0, [LookupError])

    async def test_an_attempt_that_fails_when_the_engine_stops(
        self, engine: DeliveryEngine, silent: str, reported: list[type[BaseException]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine._http2, "leave", failing_at_first(engine._http2.leave, times=1))
        attempts = [begin(engine, post(silent)) for _ in range(2)]
        await engine.stop(0)
        assert await errors_of(attempts) == ["internal", "stopped"]
        assert reported == [LookupError]

    @pytest.mark.parametrize("of", ["take", "write_bodies"])
    async def test_requests_that_fail_while_they_are_written(
        self,
        authority: Authority,
        engine: DeliveryEngine,
        reported: list[type[BaseException]],
        monkeypatch: pytest.MonkeyPatch,
        of: str,
    ) -> None:
        """None of them is sent later, and those under way get their end."""
        heads: list[int] = []

        def hold(to: Receiver, came: Frame) -> None:
            if came.kind == h2.HEADERS:
                heads.append(came.stream)

        def failing(*_: object) -> bytes:
            raise LookupError

        async with receiving(authority, hold) as (url, made):
            under_way = begin(engine, post(url, b""))
            await until(
                lambda: bool(heads) and all(each.session.settled for (each, _) in engine._http2._under_way.values())
            )
            with monkeypatch.context() as patched:
                patched.setattr(Session, of, failing)
                results = [begin(engine, post(url, b"")) for _ in range(2)]
                assert await errors_of([*results, under_way]) == ["internal", "internal", "reset"]
            assert [each.result().nothing_sent for each in results] == [True, True]
            assert (heads, engine._http2._receivers, len(made)) == ([1], {}, 1)
        assert reported == [LookupError] * 2

    @pytest.mark.parametrize("step", ["recv", "receive"])
    async def test_a_connection_that_fails_when_it_is_read(
        self,
        authority: Authority,
        engine: DeliveryEngine,
        reported: list[type[BaseException]],
        monkeypatch: pytest.MonkeyPatch,
        step: str,
    ) -> None:
        def failing(*_: object) -> None:
            raise LookupError

        async with receiving(authority, answer) as (url, _):
            monkeypatch.setattr(Http2Connection, "_hear" if step == "recv" else "_read", failing)
            assert await errors_of([begin(engine, post(url, b""))]) == ["reset"]
            assert engine._http2._receivers == {}
        assert reported == [LookupError]


class TestEarlyAnswers:
    async def test_an_early_answer_with_a_reset_keeps_the_connection(
        self, authority: Authority, engine: DeliveryEngine
    ) -> None:
        """The connection's window opens: it is usable for the next request, which is sent in its own turn."""
        big: list[int] = []
        heads: list[int] = []

        def answer_early(to: Receiver, came: Frame) -> None:
            if came.kind == h2.HEADERS:
                heads.append(came.stream)
            if came.kind == h2.DATA and came.stream == 3:
                big.append(len(came.payload))
                if sum(big) == 65_535:
                    opened = frame(h2.WINDOW_UPDATE, 0, 0, (65_535).to_bytes(4, "big"))
                    to.write(head(3, "413", ends=True) + frame(h2.RST_STREAM, 0, 3, bytes(4)) + opened)
            answer(to, came)

        async with receiving(authority, answer_early, settings(initial_window_size=1_000_000)) as (url, made):
            results = [await attempt(engine, post(url, body)) for body in (b"", b"x" * 200_000, b"")]
            assert [result.status for result in results] == [204, 413, 204]
            assert (heads, sum(big), len(made)) == ([1, 3, 5], 65_535, 1)


async def test_a_flood_for_each_of_many_attempts(authority: Authority, engine: DeliveryEngine) -> None:
    """The frames that a receiver may send for all of them together do not hold up the loop."""
    heads: list[int] = []

    def flood(to: Receiver, came: Frame) -> None:
        if came.kind != h2.HEADERS:
            return
        heads.append(came.stream)
        if len(heads) == 100:
            begins = b"".join(head(each, "500") + data(each, b"x") for each in heads)
            goes_on = b"".join(data(each) for each in heads) * 50
            to.write(begins + goes_on + b"".join(data(each, ends=True) for each in heads))

    async with receiving(authority, flood) as (url, made):
        with measured_turns() as turns:
            attempts = [begin(engine, post(url, b"")) for _ in range(100)]
            results = await asyncio.wait_for(asyncio.gather(*attempts), LONG_SECONDS)
        assert [(each.status, each.excerpt) for each in results] == [(500, "x")] * 100
        assert (len(made), turns.longest < 0.02) == (1, True)


@pytest.mark.parametrize("admitted", [0, 2])
async def test_room_that_is_taken_back_before_requests_are_written(
    authority: Authority, engine: DeliveryEngine, admitted: int
) -> None:
    """The requests go on another connection, and none of them fails."""
    heads: list[tuple[int, int]] = []

    def note(to: Receiver, came: Frame) -> None:
        if came.kind == h2.HEADERS:
            heads.append((made.index(to), came.stream))
        answer(to, came)

    async with receiving(authority, note) as (url, made):
        assert (await attempt(engine, post(url, b""))).status == 204
        attempts = [begin(engine, post(url, b"")) for _ in range(5)]
        ((connection,),) = (each.connections for each in engine._http2._receivers.values())
        queued: list[int] = []

        def lower() -> None:
            """Lower the limit in the turn in which they were queued, before the one in which they are written."""
            queued.append(len(connection.queued))
            connection.session.receive(settings(max_concurrent_streams=admitted))

        asyncio.get_running_loop().call_soon(lower)
        assert await errors_of(attempts) == [None] * 5
        assert queued == [5]
        assert heads[: 1 + admitted] == [(0, 1), (0, 3), (0, 5)][: 1 + admitted]
        assert (1, 1) in heads
