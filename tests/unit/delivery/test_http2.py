"""HTTP/2 where a receiver offers it: attempts are streams of one connection, and each ends on its own."""

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator
from hashlib import sha1
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from h2.errors import ErrorCodes

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.headers import callback_headers
from poller_cluster.delivery.result import AttemptResult
from tests.support.certificates import Authority
from tests.support.delivery import LONG_SECONDS, Trust, attempt, begin, engines, post
from tests.support.http2_receiver import Http2Receiver, Stream, held
from tests.support.raw_receiver import RawReceiver, hanging
from tests.support.turns import until

RESPONSE_BYTES = 65_536


async def all_of(attempts: list[asyncio.Future[AttemptResult]]) -> list[AttemptResult]:
    return await asyncio.wait_for(asyncio.gather(*attempts), LONG_SECONDS)


async def hold(
    engine: DeliveryEngine, receiver: Http2Receiver, count: int, **differing: Any
) -> list[asyncio.Future[AttemptResult]]:
    """Start attempts that the receiver leaves unanswered, in the order of `receiver.streams`."""
    attempts = []
    for _ in range(count):
        attempts.append(begin(engine, post(receiver.url("/held"), **differing)))
        await asyncio.wait_for(receiver.came(len(attempts)), LONG_SECONDS)
    return attempts


def ending(result: AttemptResult) -> tuple[int | None, str | None, bool]:
    return (result.status, result.error, result.nothing_sent)


async def test_everything_of_a_request_arrives(engine: DeliveryEngine, receiver: Http2Receiver) -> None:
    headers = callback_headers(
        (("Content-Type", "application/json"), ("X-Case", "As Given"), ("X-Empty", "")),
        timestamp=1_795_253_400,
        signature="v1,c2lnbmF0dXJl",
        client_id="shop",
        schedule_id="01a1fe7b-0a24-8000-81b0-6435e6edef00",
        cron_id="nightly",
        due_ms=1_795_253_400_000,
        attempt=3,
        fence=7,
        in_doubt=True,
        user_agent="Minutehand/1",
    )
    body = bytes(range(256)) * 1_000
    assert (await attempt(engine, post(receiver.url("/a/../b?c=%20"), body, headers=headers))).succeeded
    (stream,) = receiver.streams
    pseudo = {
        ":method": "POST",
        ":scheme": "https",
        ":path": "/a/../b?c=%20",
        ":authority": f"127.0.0.1:{receiver.port}",
    }
    assert dict(stream.headers[:4]) == pseudo
    sent = {name.lower(): value for name, value in headers}
    assert dict(stream.headers[4:]) == {**sent, "content-length": str(len(body))}
    assert bytes(stream.body) == body


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_other_methods(engine: DeliveryEngine, receiver: Http2Receiver, method: str) -> None:
    receiver.script["/x"] = lambda stream: stream.answer(204)
    assert (await attempt(engine, post(receiver.url("/x"), b"", method=method))).status == 204
    assert receiver.streams[0].values(":method") == [method]


@pytest.mark.parametrize("name", ["Keep-Alive", "Proxy-Connection", "HTTP2-Settings", "Content_Length"])
async def test_headers_of_an_http1_connection_are_refused(
    engine: DeliveryEngine, receiver: Http2Receiver, name: str
) -> None:
    assert (await attempt(engine, post(receiver.url()))).succeeded
    result = await attempt(engine, post(receiver.url(), headers=((name, "5"),)))
    assert (result.status, result.error, result.final) == (None, "bad-request", True)
    assert len(receiver.streams) == 1


async def test_attempts_one_after_another_share_a_connection(engine: DeliveryEngine, receiver: Http2Receiver) -> None:
    for _ in range(20):
        assert (await attempt(engine, post(receiver.url()))).succeeded
    assert receiver.connections == 1


async def test_many_at_once_share_a_connection(engine: DeliveryEngine, receiver: Http2Receiver) -> None:
    assert (await attempt(engine, post(receiver.url()))).succeeded
    attempts = [begin(engine, post(receiver.url("/held"), b"%d" % number)) for number in range(50)]
    await asyncio.wait_for(receiver.came(51), LONG_SECONDS)
    streams = receiver.streams[1:]
    assert sorted(int(stream.body) for stream in streams) == list(range(50))
    for stream in reversed(streams):
        stream.answer(500, bytes(stream.body))
    assert [result.excerpt for result in await all_of(attempts)] == [str(number) for number in range(50)]
    assert receiver.connections == 1


async def test_the_first_to_a_receiver_share_the_connection_that_is_made(
    engine: DeliveryEngine, receiver: Http2Receiver
) -> None:
    first = begin(engine, post(receiver.url("/held")))
    others = await all_of([begin(engine, post(receiver.url())) for _ in range(50)])
    assert [result.status for result in others] == [200] * 50
    assert not first.done()
    assert (receiver.handshakes, receiver.connections) == (1, 1)


async def test_clients_share_no_connection(engine: DeliveryEngine, receiver: Http2Receiver) -> None:
    for client in ("shop", "bank", "shop", "bank"):
        assert (await attempt(engine, post(receiver.url(), client_id=client))).succeeded
    assert [stream.connection for stream in receiver.streams] == [1, 2, 1, 2]


async def test_a_receiver_that_admits_few_streams(engine: DeliveryEngine, authority: Authority) -> None:
    async with Http2Receiver(tls=authority.server_context("127.0.0.1"), max_streams=5) as receiver:
        receiver.script["/held"] = held
        assert (await attempt(engine, post(receiver.url()))).succeeded
        attempts = [begin(engine, post(receiver.url("/held"))) for _ in range(20)]
        await asyncio.wait_for(receiver.came(21), LONG_SECONDS)
        shares = Counter(stream.connection for stream in receiver.streams[1:])
        assert max(shares.values()) == 5
        for stream in receiver.streams[1:]:
            stream.answer()
        assert [result.status for result in await all_of(attempts)] == [200] * 20
        await engine.stop()


async def test_a_receiver_that_offers_only_http_1(engine: DeliveryEngine, authority: Authority) -> None:
    context = authority.server_context("127.0.0.1")
    context.set_alpn_protocols(["http/1.1"])
    async with RawReceiver(tls=context) as receiver:
        receiver.script["/hanging"] = hanging
        first = begin(engine, post(receiver.url("/hanging")))
        results = await all_of([begin(engine, post(receiver.url())) for _ in range(10)])
        assert [result.status for result in results] == [200] * 10
        answered = [request for request in receiver.requests if request.target == "/"]
        assert [request.values("X-One") for request in answered] == [["1"]] * 10
        assert not first.done()
        await engine.stop(0)


class TestOneStreamsFate:
    """A failure of one attempt does not affect the others on its connection."""

    async def unharmed(
        self, receiver: Http2Receiver, others: list[asyncio.Future[AttemptResult]], streams: list[Stream]
    ) -> None:
        assert not any(other.done() for other in others)
        for stream in streams:
            stream.answer()
        assert [result.status for result in await all_of(others)] == [200] * len(others)
        assert receiver.connections == 1

    @pytest.mark.parametrize("code", [ErrorCodes.CANCEL, ErrorCodes.INTERNAL_ERROR, ErrorCodes.NO_ERROR])
    async def test_a_reset(self, engine: DeliveryEngine, receiver: Http2Receiver, code: ErrorCodes) -> None:
        first, second, third = await hold(engine, receiver, 3)
        receiver.streams[1].reset(code)
        result = await asyncio.wait_for(second, LONG_SECONDS)
        assert ending(result) == (None, "reset", False)
        await self.unharmed(receiver, [first, third], [receiver.streams[0], receiver.streams[2]])

    async def test_a_time_out(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        others = await hold(engine, receiver, 2)
        result = await attempt(engine, post(receiver.url("/held"), timeout_seconds=0.5))
        assert ending(result) == (None, "timeout", False)
        await asyncio.wait_for(receiver.until(lambda: receiver.streams[2].reset_by_caller), LONG_SECONDS)
        await self.unharmed(receiver, others, receiver.streams[:2])

    async def test_trust_lost_in_the_last_instant(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        others = await hold(engine, receiver, 2)
        result = await attempt(engine, post(receiver.url("/held")), Trust(1))
        assert ending(result) == (None, "not-trusted", True)
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert len(receiver.streams) == 3
        await self.unharmed(receiver, others, receiver.streams[:2])

    async def test_an_answer_that_is_too_long(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        receiver.script["/long"] = lambda stream: stream.answer(500, b"x" * 2 * RESPONSE_BYTES, ends=False)
        receiver.script["/full"] = lambda stream: stream.answer(500, b"y" * RESPONSE_BYTES)
        others = await hold(engine, receiver, 2)
        long, full = await all_of([begin(engine, post(receiver.url(target))) for target in ("/long", "/full")])
        assert (long.status, long.excerpt, long.detail) == (500, "x" * 1024, "")
        assert (full.status, full.excerpt, full.detail) == (500, "y" * 1024, "")
        await asyncio.wait_for(
            receiver.until(lambda: [one.target for one in receiver.streams if one.reset_by_caller] == ["/long"]),
            LONG_SECONDS,
        )
        await self.unharmed(receiver, others, receiver.streams[:2])


class TestTrust:
    async def test_trust_is_checked_for_each_stream_of_a_fresh_connection(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        trusted = True
        attempts = [begin(engine, post(receiver.url("/held")), lambda: trusted) for _ in range(20)]
        trusted = False
        assert [ending(result) for result in await all_of(attempts)] == [(None, "not-trusted", True)] * 20
        assert receiver.streams == []

    async def test_nothing_is_sent_for_those_without(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        attempts = [begin(engine, post(receiver.url(f"/{n}")), Trust(1 + n % 2)) for n in range(40)]
        results = await all_of(attempts)
        assert [ending(result) for result in results[::2]] == [(None, "not-trusted", True)] * 20
        assert [ending(result) for result in results[1::2]] == [(200, None, False)] * 20
        assert sorted(stream.target for stream in receiver.streams[1:]) == sorted(f"/{n}" for n in range(1, 40, 2))
        assert receiver.connections == 1


class TestGoingAway:
    async def test_what_was_taken_is_answered_and_the_next_goes_elsewhere(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        attempts = await hold(engine, receiver, 2)
        receiver.sessions[0].go_away(last=receiver.streams[1].number)
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]
        for stream in receiver.streams[:2]:
            stream.answer()
        assert [result.status for result in await all_of(attempts)] == [200, 200]

    async def test_what_was_not_taken_is_repeated_elsewhere(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        attempts = await hold(engine, receiver, 2)
        receiver.script["/held"] = lambda stream: stream.answer()
        receiver.sessions[0].go_away(last=receiver.streams[0].number)
        assert (await asyncio.wait_for(attempts[1], LONG_SECONDS)).succeeded
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]
        receiver.streams[0].answer()
        assert (await asyncio.wait_for(attempts[0], LONG_SECONDS)).succeeded

    async def test_a_receiver_that_refuses_every_stream(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        asked = 0

        def trusted() -> bool:
            nonlocal asked
            asked += 1
            return True

        receiver.script["/refused"] = lambda stream: stream.reset(ErrorCodes.REFUSED_STREAM)
        result = await attempt(engine, post(receiver.url("/refused")), trusted)
        assert ending(result) == (None, "reset", False)
        assert len(receiver.streams) == 6
        assert asked == 1 + receiver.connections + len(receiver.streams)

    @pytest.mark.parametrize("refuse", ["go-away", "refused-stream"])
    async def test_a_refused_stream_at_most_once_is_repeated(
        self, engine: DeliveryEngine, receiver: Http2Receiver, refuse: str
    ) -> None:
        """The receiver says that it did not process the request."""
        (first,) = await hold(engine, receiver, 1)
        once = begin(engine, post(receiver.url("/held"), at_most_once=True))
        await asyncio.wait_for(receiver.came(2), LONG_SECONDS)
        if refuse == "go-away":
            receiver.sessions[0].go_away(last=receiver.streams[0].number)
        else:
            receiver.streams[1].reset(ErrorCodes.REFUSED_STREAM)
        await asyncio.wait_for(receiver.came(3), LONG_SECONDS)
        assert [stream.connection for stream in receiver.streams] == [1, 1, 2]
        receiver.streams[2].answer()
        assert (await asyncio.wait_for(once, LONG_SECONDS)).succeeded
        receiver.streams[0].answer()
        assert (await asyncio.wait_for(first, LONG_SECONDS)).succeeded

    async def test_a_refused_stream_is_not_repeated_once_an_answer_began(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        def answer_and_refuse(stream: Stream) -> None:
            stream.answer(500, b"x", ends=False)
            stream.reset(ErrorCodes.REFUSED_STREAM)

        receiver.script["/x"] = answer_and_refuse
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.detail, len(receiver.streams)) == (500, "the answer broke off", 1)

    async def test_a_repeat_needs_trust_and_is_not_said_to_be_unsent(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        assert (await attempt(engine, post(receiver.url()))).succeeded
        refused = begin(engine, post(receiver.url("/held")), Trust(2))
        await asyncio.wait_for(receiver.came(2), LONG_SECONDS)
        receiver.streams[1].reset(ErrorCodes.REFUSED_STREAM)
        assert ending(await asyncio.wait_for(refused, LONG_SECONDS)) == (None, "not-trusted", False)
        assert len(receiver.streams) == 2

    async def test_a_connection_that_breaks(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        attempts = await hold(engine, receiver, 10)
        receiver.script.clear()
        receiver.sessions[0].close()
        results = [ending(result) for result in await all_of(attempts)]
        assert set(results) <= {(None, "reset", False), (200, None, False)}
        assert len(receiver.streams) == 10 + results.count((200, None, False))
        assert (await attempt(engine, post(receiver.url()))).succeeded

    async def test_a_connection_that_breaks_under_at_most_once(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        attempts = await hold(engine, receiver, 10, at_most_once=True)
        receiver.script.clear()
        receiver.sessions[0].close()
        assert [ending(result) for result in await all_of(attempts)] == [(None, "reset", False)] * 10
        assert len(receiver.streams) == 10


class TestAuthorities:
    """A receiver is trusted by the same authorities, whichever protocol it speaks."""

    @pytest.fixture(params=["HTTP/1.1", "HTTP/2"])
    async def url(self, authority: Authority, request: pytest.FixtureRequest) -> AsyncIterator[str]:
        kind = Http2Receiver if request.param == "HTTP/2" else RawReceiver
        async with kind(tls=authority.server_context("127.0.0.1")) as receiver:
            yield receiver.url()

    @pytest.mark.parametrize("where", ["file", "directory"])
    async def test_without_a_file_of_its_own_openssl_s(
        self, url: str, authority: Authority, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        directory = hashed(authority, tmp_path / "hashed")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.bundle if where == "file" else tmp_path / "none"))
        monkeypatch.setenv("SSL_CERT_DIR", str(directory if where == "directory" else tmp_path / "none"))
        async with engines() as make:
            engine = await make()
            assert (await attempt(engine, post(url))).status == 200

    async def test_a_configured_authority_replaces_the_systems(
        self, url: str, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.bundle))
        monkeypatch.setenv("SSL_CERT_DIR", str(hashed(authority, tmp_path / "hashed")))
        (tmp_path / "other").mkdir()
        async with engines() as make:
            engine = await make(ca_file=str(Authority(tmp_path / "other").bundle))
            attempts = [begin(engine, post(url)) for _ in range(3)]
            assert [ending(result) for result in await all_of(attempts)] == [(None, "tls-failed", True)] * 3


def hashed(authority: Authority, directory: Path) -> Path:
    """A directory in which OpenSSL finds the authority, by the hash of its name in lower case."""
    certificate = authority.bundle.read_bytes()
    (name,) = x509.load_pem_x509_certificate(certificate).subject
    lower = x509.Name([x509.NameAttribute(name.oid, str(name.value).lower())]).public_bytes()
    digest = sha1(lower[2:], usedforsecurity=False).digest()
    directory.mkdir()
    (directory / f"{int.from_bytes(digest[:4], 'little'):08x}.0").write_bytes(certificate)
    return directory


class TestWhoSpeaksIt:
    async def test_the_connection_that_chose_it_is_used(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        (first,) = await hold(engine, receiver, 1)
        for _ in range(3):
            assert (await attempt(engine, post(receiver.url()))).succeeded
        receiver.streams[0].answer()
        assert (await asyncio.wait_for(first, LONG_SECONDS)).succeeded
        assert (receiver.handshakes, receiver.connections, len(receiver.streams)) == (1, 1, 4)

    async def test_none_waits_for_a_receiver_that_is_known_to_speak_http_1_1(
        self, engine: DeliveryEngine, authority: Authority
    ) -> None:
        async with RawReceiver(tls=authority.server_context("127.0.0.1")) as receiver:
            assert (await attempt(engine, post(receiver.url()))).succeeded
            receiver.script["/hanging"] = hanging
            attempts = [begin(engine, post(receiver.url("/hanging"), timeout_seconds=0.5)) for _ in range(5)]
            waiting: list[int] = []
            await until(lambda: waiting.append(len(engine._http2._receivers)) or len(receiver.requests) == 6)  # type: ignore[func-returns-value]
            assert max(waiting) == 0
            assert [result.error for result in await all_of(attempts)] == ["timeout"] * 5

    async def test_waiting_attempts_fail_when_no_connection_can_be_made(self, engine: DeliveryEngine) -> None:
        with socket.create_server(("127.0.0.1", 0)) as unused:
            port = unused.getsockname()[1]
        attempts = [begin(engine, post(f"https://127.0.0.1:{port}/")) for _ in range(5)]
        assert [ending(result) for result in await all_of(attempts)] == [(None, "connect-refused", True)] * 5
        assert engine._http2._receivers == {}

    async def test_none_waits_longer_than_connecting_may_take(self, engine: DeliveryEngine) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"https://127.0.0.1:{silent.getsockname()[1]}/"
            attempts = [begin(engine, post(url, timeout_seconds=0.4)) for _ in range(5)]
            assert [ending(result) for result in await all_of(attempts)] == [(None, "timeout", True)] * 5
        assert engine._http2._receivers == {}

    async def test_a_stop_ends_what_is_under_way_and_what_waits(
        self, engine: DeliveryEngine, receiver: Http2Receiver
    ) -> None:
        waiting = begin(engine, post(receiver.url("/held")))
        await asyncio.wait_for(receiver.came(1), LONG_SECONDS)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            others = [begin(engine, post(f"https://127.0.0.1:{silent.getsockname()[1]}/")) for _ in range(3)]
            await until(lambda: any(each.waiting for each in engine._http2._receivers.values()))
            await engine.stop(0)
        assert (waiting.result().error, waiting.result().nothing_sent) == ("stopped", False)
        assert [ending(other.result()) for other in others] == [(None, "stopped", True)] * 3
        assert engine.in_flight == 0

    async def test_nothing_is_sent_after_trust_is_lost(self, engine: DeliveryEngine, receiver: Http2Receiver) -> None:
        for yes in (1, 2):
            result = await attempt(engine, post(receiver.url()), Trust(yes))
            assert (result.error, result.nothing_sent) == ("not-trusted", True)
        assert receiver.streams == []
        # Its connection stays usable for others, which need one check less.
        assert (await attempt(engine, post(receiver.url()), Trust(2))).succeeded
        assert receiver.handshakes == 1
