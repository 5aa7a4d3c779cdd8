"""The engine against a receiver on loopback that answers or fails in every way."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.result import AttemptResult
from tests.support.delivery import CLOCK, EngineMaker, attempt, post, trusted
from tests.support.raw_receiver import Answer, RawReceiver, answering, closing, flooding, hanging, resetting, writing

SHORT_SECONDS = 0.25


class TestAnswers:
    async def test_success(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        before = CLOCK.wall_ms()
        result = await attempt(engine, post(receiver.url("/hook")))
        assert (result.status, result.error, result.succeeded) == (200, None, True)
        assert (result.excerpt, result.nothing_sent, result.final) == ("", False, False)
        assert before <= result.started_at_ms <= CLOCK.wall_ms()
        assert 0 < result.duration_seconds < 5
        assert engine.in_flight == 0

    @pytest.mark.parametrize("status", [201, 299, 301, 400, 404, 410, 500, 503, 999])
    async def test_any_final_status(self, engine: DeliveryEngine, receiver: RawReceiver, status: int) -> None:
        receiver.script["/x"] = answering(status, b"why \xff not")
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.error, result.nothing_sent) == (status, None, False)
        assert result.excerpt == ("" if status < 300 else "why \ufffd not")

    async def test_redirects_are_not_followed(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/from"] = answering(307, headers=(f"Location: {receiver.url('/to')}",))
        assert (await attempt(engine, post(receiver.url("/from")))).status == 307
        receiver.script["/bad"] = answering(302, headers=("Location: http://[nonsense",))
        assert (await attempt(engine, post(receiver.url("/bad")))).status == 302
        assert [request.target for request in receiver.requests] == ["/from", "/bad"]

    async def test_chunked_answers(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/x"] = writing(
            b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n"
        )
        assert (await attempt(engine, post(receiver.url("/x")))).excerpt == "abcde"

    async def test_an_answer_is_never_another_attempt_s(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/one"] = answering(500, b"of one client", headers=("Retry-After: 7",))
        receiver.script["/two"] = answering(500)
        assert (await attempt(engine, post(receiver.url("/one")))).excerpt == "of one client"
        second = await attempt(engine, post(receiver.url("/two")))
        assert (second.excerpt, second.retry_after_seconds) == ("", None)

    async def test_excerpts_are_short(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/x"] = answering(500, b"abcdefgh" * 4000)
        assert (await attempt(engine, post(receiver.url("/x")))).excerpt == "abcdefgh" * 128

    async def test_a_flood_is_cut_off_and_the_status_counts(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        receiver.script["/x"] = flooding
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.error) == (200, None)
        assert result.duration_seconds < 4

    async def test_a_status_counts_though_the_rest_never_comes(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        start = b"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nbecause"
        receiver.script["/stalls"] = writing(start, then=hanging)
        receiver.script["/breaks"] = writing(start, then=resetting)
        stalled = await attempt(engine, post(receiver.url("/stalls"), timeout_seconds=SHORT_SECONDS))
        broken = await attempt(engine, post(receiver.url("/breaks")))
        for result in (stalled, broken):
            assert (result.status, result.error, result.detail) == (500, None, "the answer broke off")
        assert stalled.excerpt == "because"

    async def test_interim_answers_are_not_final(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/ok"] = writing(b"HTTP/1.1 103 Early Hints\r\n\r\n", then=answering(204))
        receiver.script["/gone"] = writing(b"HTTP/1.1 103 Early Hints\r\n\r\n", then=closing)
        assert (await attempt(engine, post(receiver.url("/ok")))).status == 204
        gone = await attempt(engine, post(receiver.url("/gone")))
        assert (gone.status, gone.error, gone.nothing_sent) == (None, "reset", False)

    @pytest.mark.parametrize("size", [50_000, 2_000_000])
    async def test_huge_headers(self, engine: DeliveryEngine, receiver: RawReceiver, size: int) -> None:
        lines = tuple(f"X-{number}: {'v' * 1000}" for number in range(size // 1000))
        receiver.script["/x"] = answering(200, headers=lines)
        assert (await attempt(engine, post(receiver.url("/x")))).status == 200

    async def test_what_is_not_http(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/x"] = writing(b"SSH-2.0-OpenSSH_9.2\r\n", then=closing)
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.error, result.final, result.nothing_sent) == (None, "bad-response", False, False)

    @pytest.mark.parametrize(
        "line",
        [
            "HTTP/1.1 2000 X",
            "HTTP/1.1 20000",
            "HTTP/1.1 5000 X",
            "HTTP/2 5000 X",
            "http/1.1 500 X",
            "Http/1.1 200 OK",
            "HTTP/1.1 1000 X",
            "HTTP/1.1 20 X",
            "HTTP/1.1 000 X",
        ],
    )
    @pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n"], ids=["", "after-103"])
    async def test_a_status_has_three_digits_in_a_line_of_its_own(
        self, engine: DeliveryEngine, receiver: RawReceiver, line: str, interim: bytes
    ) -> None:
        receiver.script["/x"] = writing(interim + line.encode() + b"\r\nContent-Length: 3\r\n\r\nabc")
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.error, result.final, result.nothing_sent) == (None, "bad-response", False, False)
        assert result.detail == "the receiver's answer is not valid HTTP"
        assert (await attempt(engine, post(receiver.url("/hook")))).succeeded

    @pytest.mark.parametrize(
        "line", ["HTTP/1.1 200", "HTTP/1.0 200 OK", "HTTP/1.1 200 HTTP/1.1 500", "HTTP/1.1 200 2000"]
    )
    async def test_reasons_are_of_no_account(self, engine: DeliveryEngine, receiver: RawReceiver, line: str) -> None:
        trailers = b"Transfer-Encoding: chunked\r\n\r\n0\r\nhttp/1.1: 500\r\n\r\n"
        receiver.script["/x"] = writing(line.encode() + b"\r\n" + trailers)
        assert (await attempt(engine, post(receiver.url("/x")))).status == 200

    @pytest.mark.parametrize("after", [b"", b"x", b"x" * 200_000, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
    @pytest.mark.parametrize("then", [closing, hanging, flooding])
    async def test_another_protocol_is_no_answer(
        self, engine: DeliveryEngine, receiver: RawReceiver, after: bytes, then: Answer
    ) -> None:
        """It fails at once: the engine did not ask to switch protocols and waits for nothing more."""
        switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        receiver.script["/x"] = writing(switch + after, then=then)
        result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=60))
        assert (result.status, result.error, result.final, result.nothing_sent) == (None, "bad-response", False, False)

    async def test_retry_after_in_seconds_and_as_a_date(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        soon = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
        past = format_datetime(datetime.now(UTC) - timedelta(seconds=90), usegmt=True)
        asked: dict[str, float | None] = {}
        for value in ("120", soon, past, "nonsense", "-5", "0", str(10**12)):
            receiver.script["/x"] = answering(503, headers=(f"Retry-After: {value}",))
            asked[value] = (await attempt(engine, post(receiver.url("/x")))).retry_after_seconds
        assert asked.pop(soon) == pytest.approx(90, abs=3)
        assert asked == {"120": 120, past: None, "nonsense": None, "-5": None, "0": None, str(10**12): 21_600}


class TestFailures:
    async def test_time_out(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        receiver.script["/x"] = hanging
        result = await attempt(engine, post(receiver.url("/x"), timeout_seconds=SHORT_SECONDS))
        assert (result.status, result.error, result.nothing_sent) == (None, "timeout", False)
        assert SHORT_SECONDS * 0.9 <= result.duration_seconds < 3

    async def test_time_out_of_the_connection(self, make_engine: EngineMaker) -> None:
        engine = await make_engine(connect_timeout_seconds=SHORT_SECONDS)
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
            address = full.getsockname()
            fillers = [socket.socket() for _ in range(4)]
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(address)
            result = await attempt(engine, post(f"http://127.0.0.1:{address[1]}/"))
            for filler in fillers:
                filler.close()
        assert (result.error, result.nothing_sent) == ("timeout", True)
        assert result.detail == "no connection within 0.25 s"

    @pytest.mark.parametrize("behaviour", [resetting, closing])
    async def test_a_connection_that_breaks(
        self, engine: DeliveryEngine, receiver: RawReceiver, behaviour: Callable[..., Awaitable[None]]
    ) -> None:
        receiver.script["/x"] = behaviour
        result = await attempt(engine, post(receiver.url("/x")))
        assert (result.status, result.error, result.nothing_sent, result.final) == (None, "reset", False, False)

    async def test_a_refused_port(self, engine: DeliveryEngine) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        result = await attempt(engine, post(f"http://127.0.0.1:{port}/"))
        assert (result.error, result.nothing_sent, result.final) == ("connect-refused", True, False)

    async def test_a_name_that_does_not_resolve(self, engine: DeliveryEngine) -> None:
        result = await attempt(engine, post("http://nowhere.invalid/"))
        assert (result.error, result.nothing_sent, result.final) == ("resolve-failed", True, False)

    @pytest.mark.parametrize(
        "url", ["ftp://127.0.0.1/", "file:///etc/hostname", "http://", "http://user:password@127.0.0.1/", "http://a b/"]
    )
    async def test_urls_that_cannot_be_called(self, engine: DeliveryEngine, url: str) -> None:
        result = await attempt(engine, post(url))
        assert (result.error, result.nothing_sent, result.final) == ("bad-url", True, True)
        assert "password" not in result.detail

    @pytest.mark.parametrize(
        "differing",
        [
            {"headers": (("X", "a\r\nInjected: 1"),)},
            {"headers": (("X\n", "a"),)},
            {"headers": (("X", "ü"),)},
            {"method": "GET /other HTTP/1.1\r\nX:"},
            {"url": "http://bücher.example/"},
            {"url": "http://127.0.0.1/\0"},
        ],
    )
    async def test_requests_that_cannot_be_sent(
        self, engine: DeliveryEngine, receiver: RawReceiver, differing: dict[str, object]
    ) -> None:
        result = await attempt(engine, post(**({"url": receiver.url()} | differing)))  # type: ignore[arg-type]
        assert (result.error, result.nothing_sent, result.final) == ("bad-request", True, True)
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert len(receiver.requests) == 1

    async def test_a_listener_that_raises_stops_no_other(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        reported: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))

        def failing(result: AttemptResult) -> None:
            raise LookupError("a listener's mistake")

        engine.start_attempt(post(receiver.url()), failing, may_start=trusted)
        assert (await attempt(engine, post(receiver.url()))).succeeded
        assert [str(context["exception"]) for context in reported] == ["a listener's mistake"]

    async def test_no_descriptors_left(
        self, engine: DeliveryEngine, receiver: RawReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def exhausted(*_: object) -> socket.socket:
            raise OSError(24, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr("poller_cluster.delivery.engine.socket.socket", exhausted)
            result = await attempt(engine, post(receiver.url()))
        assert (result.error, result.nothing_sent, result.final) == ("internal", True, False)
        assert "Too many open files" in result.detail
