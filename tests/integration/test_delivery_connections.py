"""Kept connections that end at the wrong moment, and receivers that violate the protocol on them."""

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from poller_cluster.delivery.connection import Connection
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.result import AttemptResult
from tests.support.certificates import Authority
from tests.support.delivery import EngineMaker, Trust, attempt, begin, post
from tests.support.raw_receiver import RawReceiver, RawRequest, answering, closing, writing
from tests.support.turns import until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LARGE = b"x" * 20_000_000


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
async def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RawReceiver]:
    tls = Authority(tmp_path).server_context("127.0.0.1") if request.param else None
    async with RawReceiver(tls=tls) as running:
        yield running


@pytest.fixture
async def engine(make_engine: EngineMaker, tmp_path: Path, receiver: RawReceiver) -> DeliveryEngine:
    bundle = tmp_path / "authority.pem"
    return await make_engine(ca_file=str(bundle) if bundle.exists() else None)


class TestUnasked:
    async def test_bytes_after_the_end_of_an_answer(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        """The bytes belong to no request."""
        receiver.script["/x"] = writing(OK + b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
        for number in range(1, 4):
            assert (await attempt(engine, post(receiver.url("/x")))).status == 200
            assert receiver.connections == number

    @pytest.mark.parametrize("late", [b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", b"\r\n", b"x"])
    async def test_bytes_on_an_idle_connection_close_it(
        self, engine: DeliveryEngine, receiver: RawReceiver, late: bytes
    ) -> None:
        go_on = asyncio.Event()

        async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
            writer.write(OK)
            await go_on.wait()
            writer.write(late)

        receiver.script["/x"] = answer
        assert (await attempt(engine, post(receiver.url("/x")))).succeeded
        assert len(engine._pool) == 1
        go_on.set()
        await until(lambda: not len(engine._pool))
        await receiver.idle()
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 2

    async def test_an_idle_connection_that_its_receiver_closes_is_closed(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        receiver.script["/x"] = writing(OK, then=closing)
        assert (await attempt(engine, post(receiver.url("/x")))).succeeded
        await until(lambda: not len(engine._pool))


async def test_idle_connections_hold_nothing_of_what_was_received(
    engine: DeliveryEngine, receiver: RawReceiver
) -> None:
    receiver.script["/x"] = writing(b"HTTP/1.1 500 No\r\nContent-Length: 3\r\nX: " + b"x" * 100_000 + b"\r\n\r\nwhy")
    result = await attempt(engine, post(receiver.url("/x")))
    assert (result.status, result.excerpt) == (500, "why")
    (idle,) = engine._pool.take_all()
    assert (idle.answer.fields(), idle.answer.excerpt) == ([], "")
    idle.close()


class TestTooEarly:
    """Receivers that answer before they have read the request, or do not read it."""

    @pytest.fixture
    async def listen(self) -> AsyncIterator[Callable[..., Awaitable[str]]]:
        """Start a server that calls `serve` for each connection and reads nothing; returns its URL."""
        async with contextlib.AsyncExitStack() as opened:

            async def start(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> str:
                async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                        await serve(reader, writer)
                    writer.transport.abort()

                server = await opened.enter_async_context(await asyncio.start_server(one, "127.0.0.1", 0, limit=1024))
                return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"

            yield start

    async def test_an_answer_before_the_end_of_the_request_counts(
        self, make_engine: EngineMaker, listen: Callable[..., Awaitable[str]]
    ) -> None:
        engine = await make_engine()

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nwhy")
            await writer.drain()
            await gone.wait()

        gone = asyncio.Event()
        result = await attempt(engine, post(await listen(refuse), LARGE))
        assert (result.status, result.excerpt, result.detail) == (413, "why", "")
        assert len(engine._pool) == 0, "the rest of the request would be read as another one"
        gone.set()

    async def test_a_receiver_that_reads_nothing_is_waited_for_no_longer_than_others(
        self, make_engine: EngineMaker, listen: Callable[..., Awaitable[str]]
    ) -> None:
        engine = await make_engine()

        async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await gone.wait()

        gone = asyncio.Event()
        result = await attempt(engine, post(await listen(ignore), LARGE, timeout_seconds=0.25))
        assert (result.error, result.nothing_sent, result.detail) == ("timeout", False, "no answer within 0.25 s")
        assert result.duration_seconds < 3
        gone.set()

    async def test_a_receiver_that_reads_slowly_gets_everything(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        assert (await attempt(engine, post(receiver.url(), LARGE, timeout_seconds=60))).succeeded
        assert receiver.requests[0].body == LARGE
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 1


class TestEnds:
    async def test_a_body_that_ends_with_its_connection(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/x"] = writing(b"HTTP/1.1 500 No\r\n\r\nbecause", then=closing)
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.excerpt, result.detail) == (500, "because", "")

    async def test_a_receiver_that_closes_its_half_first(self, make_engine: EngineMaker) -> None:
        engine = await make_engine()

        async def half(request: RawRequest, writer: asyncio.StreamWriter) -> None:
            writer.write_eof()
            await asyncio.Event().wait()

        async with RawReceiver() as receiver:
            receiver.script["/x"] = half
            receiver.script["/y"] = writing(OK, then=half)
            result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=60))
            assert (result.error, result.nothing_sent) == ("reset", False)
            assert (await attempt(engine, post(receiver.url("/y"), timeout_seconds=60))).succeeded
            await until(lambda: not len(engine._pool))

    async def test_trailers_that_drip_are_cut_off(
        self, make_engine: EngineMaker, receiver: RawReceiver, tmp_path: Path
    ) -> None:
        bundle = tmp_path / "authority.pem"
        engine = await make_engine(ca_file=str(bundle) if bundle.exists() else None, answer_seconds=0.1)

        async def drip(request: RawRequest, writer: asyncio.StreamWriter) -> None:
            writer.write(CHUNKED.replace(b"200", b"500") + b"1\r\na\r\n0\r\n")
            while not writer.is_closing():
                writer.write(b"X: 1\r\n")
                await asyncio.sleep(0.02)

        receiver.script["/x"] = drip
        result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=60))
        assert (result.status, result.excerpt, result.detail) == (500, "a", "")
        assert 0.1 <= result.duration_seconds < 3

    async def test_connections_are_closed_where_a_receiver_says_so(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        receiver.script["/x"] = answering(200, headers=("Connection: close",))
        receiver.script["/y"] = writing(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
        for target in ("/x", "/y"):
            assert (await attempt(engine, post(receiver.url(target)))).succeeded
            assert len(engine._pool) == 0
        await receiver.idle()

    async def test_old_connections_are_closed(self, make_engine: EngineMaker) -> None:
        engine = await make_engine(idle_seconds=0)
        async with RawReceiver() as receiver:
            for number in range(1, 3):
                assert (await attempt(engine, post(receiver.url()))).succeeded
                assert receiver.connections == number
            engine._close_outdated()
            assert len(engine._pool) == 0
            await receiver.idle()


class Listener:
    """A receiver that acts within one turn of the loop, so that the system has its data before the engine can
    notice.
    """

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}/"

    async def answer(self, accepted: socket.socket | None = None) -> socket.socket:
        loop = asyncio.get_running_loop()
        if accepted is None:
            accepted, _ = await loop.sock_accept(self.server)
        assert (await loop.sock_recv(accepted, 65_536)).startswith(b"POST ")
        await loop.sock_sendall(accepted, OK)
        return accepted


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.server.close()


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("at_most_once", [False, True])
async def test_a_connection_that_ended_a_moment_ago_is_replaced(
    make_engine: EngineMaker, listener: Listener, reset: bool, at_most_once: bool
) -> None:
    """Even for a request that may not be repeated, since nothing of it has been sent."""
    engine = await make_engine()
    first = begin(engine, post(listener.url))
    accepted = await listener.answer()
    assert (await first).succeeded
    if reset:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    accepted.close()
    second = begin(engine, post(listener.url, at_most_once=at_most_once))
    (await listener.answer()).close()
    assert (await second).succeeded


async def test_earlier_bytes_are_no_answer_to_an_unrepeatable_request(
    make_engine: EngineMaker, listener: Listener
) -> None:
    engine = await make_engine()
    first = begin(engine, post(listener.url))
    accepted = await listener.answer()
    assert (await first).succeeded
    accepted.send(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
    second = begin(engine, post(listener.url, at_most_once=True))
    (await listener.answer()).close()
    assert (await second).succeeded
    accepted.close()


async def test_a_connection_whose_tls_has_ended_is_not_used_again(
    make_engine: EngineMaker, listener: Listener, tmp_path: Path
) -> None:
    """The receiver ends TLS in the packet that ends its answer, and leaves the socket open."""
    loop, authority = asyncio.get_running_loop(), Authority(tmp_path)
    engine = await make_engine(ca_file=str(authority.bundle))
    context = authority.server_context("127.0.0.1")
    accepted: list[socket.socket] = []

    async def serve() -> None:
        one, _ = await loop.sock_accept(listener.server)
        accepted.append(one)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)
        asked = b""
        while not asked:
            incoming.write(await loop.sock_recv(one, 65_536))
            with contextlib.suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                asked = tls.read()
            if not asked:
                await loop.sock_sendall(one, outgoing.read())
        tls.write(OK)
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.unwrap()
        await loop.sock_sendall(one, outgoing.read())

    url, second = listener.url.replace("http:", "https:"), loop.create_future()

    def on_done(result: AttemptResult) -> None:
        assert result.succeeded
        engine.start_attempt(post(url, at_most_once=True), second.set_result, may_start=lambda: True)

    engine.start_attempt(post(url), on_done, may_start=lambda: True)
    await serve()
    await asyncio.wait_for(serve(), 10)
    assert (await second).succeeded
    for one in accepted:
        one.close()


async def test_a_repeat_has_a_time_for_connecting_of_its_own_and_ends_with_the_request_s(
    make_engine: EngineMaker, listener: Listener
) -> None:
    engine = await make_engine(connect_timeout_seconds=0.1)
    first = begin(engine, post(listener.url))
    accepted = await listener.answer()
    assert (await first).succeeded
    second = begin(engine, post(listener.url, timeout_seconds=0.6))
    await asyncio.get_running_loop().sock_recv(accepted, 65_536)
    await asyncio.sleep(0.2)
    accepted.close()
    result = await second
    assert (result.error, result.nothing_sent, result.detail) == ("timeout", False, "no answer within 0.6 s")
    assert result.duration_seconds >= 0.6


async def test_a_repeat_may_take_its_time_to_connect(
    make_engine: EngineMaker, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, loop = await make_engine(connect_timeout_seconds=0.4), asyncio.get_running_loop()
    first = begin(engine, post(listener.url))
    accepted = await listener.answer()
    assert (await first).succeeded
    second = begin(engine, post(listener.url))
    await loop.sock_recv(accepted, 65_536)
    connected = Connection._connected

    def late(connection: Connection[Any]) -> None:
        loop.remove_writer(connection.descriptor)
        loop.call_later(0.15, lambda: connection.closed or connected(connection))

    monkeypatch.setattr(Connection, "_connected", late)
    await asyncio.sleep(0.5)
    accepted.close()
    answered = loop.create_task(listener.answer())
    assert (await second).succeeded
    (await answered).close()


async def test_another_address_is_tried_beside_one_that_does_not_answer(make_engine: EngineMaker) -> None:
    engine = await make_engine()
    async with RawReceiver() as receiver:
        with socket.create_server(("::1", receiver.port), family=socket.AF_INET6, backlog=0) as full:
            fillers = [socket.socket(socket.AF_INET6) for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
            result = await attempt(engine, post(receiver.url(host="localhost")))
            for filler in fillers:
                filler.close()
        assert result.succeeded
        assert 0.2 < result.duration_seconds < 2


@pytest.mark.parametrize("code", [errno.EADDRNOTAVAIL, errno.ENETUNREACH, errno.EHOSTUNREACH])
async def test_an_address_that_cannot_be_connected_to(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    engine = await make_engine()

    def fail(connection: object) -> None:
        raise OSError(code, "")

    monkeypatch.setattr(Connection, "connect", fail)
    result = await attempt(engine, post("http://127.0.0.1:1/"))
    assert (result.error, result.nothing_sent, result.final) == ("connect-failed", True, False)
    assert result.detail == f"could not connect: {os.strerror(code)}"


async def test_connections_are_each_client_s_own(make_engine: EngineMaker) -> None:
    engine = await make_engine()
    async with RawReceiver() as receiver:
        for client in ("a", "b", "a", "b"):
            assert (await attempt(engine, post(receiver.url(), client_id=client))).succeeded
        assert receiver.connections == 2


async def test_a_handshake_that_never_ends(make_engine: EngineMaker) -> None:
    engine = await make_engine(connect_timeout_seconds=0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        result = await attempt(engine, post(f"https://127.0.0.1:{silent.getsockname()[1]}/"))
    assert (result.error, result.nothing_sent, result.detail) == ("timeout", True, "no connection within 0.2 s")


async def test_trust_is_asked_right_before_the_request_leaves(engine: DeliveryEngine, receiver: RawReceiver) -> None:
    """On a fresh connection trust is checked three times: at the start, for the socket, and before the request is
    sent.
    """
    for yes, requests in ((2, 0), (3, 1)):
        result = await attempt(engine, post(receiver.url()), Trust(yes))
        assert (result.succeeded, len(receiver.requests)) == (bool(requests), requests)
