"""The requests on the wire, and the connections that carry them."""

import asyncio
import base64

import pytest

from minutehand.webhooks import verify
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.headers import callback_headers, sign
from tests.support.delivery import CLOCK, EngineMaker, attempt, post
from tests.support.raw_receiver import RawReceiver, closing, writing


class TestRequests:
    async def test_headers_and_bytes_as_given(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        given = (("content-type", "application/x-thing"), ("X-Empty", ""), ("accept", "a/b"), ("X-Last", "a:b; c\td"))
        body = bytes(range(256)) * 100
        await attempt(engine, post(receiver.url("/a/../b?c=%20d#e"), body, headers=given))
        (request,) = receiver.requests
        assert request.target == "/a/../b?c=%20d"
        assert request.body == body
        host = ("Host", f"127.0.0.1:{receiver.port}")
        assert request.headers == (host, *given[:-1], given[-1], ("Content-Length", str(len(body))))

    @pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PUT", "PATCH", "PROPFIND"])
    async def test_methods_without_a_body(self, engine: DeliveryEngine, receiver: RawReceiver, method: str) -> None:
        assert (await attempt(engine, post(receiver.url(), b"", method=method, headers=()))).status == 200
        (request,) = receiver.requests
        assert request.method == method
        length = ["0"] if method in {"POST", "PUT", "PATCH"} else []
        assert request.values("content-length") == length
        assert {name.lower() for name, _ in request.headers} - {"content-length"} == {"host"}

    async def test_one_handle_serves_any_sequence_of_methods(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        receiver.script["/head"] = writing(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        sequence = [
            ("POST", b"one"),
            ("GET", b""),
            ("POST", b""),
            ("HEAD", b""),
            ("PUT", b"x" * 100_000),
            ("HEAD", b""),
            ("GET", b""),
            ("DELETE", b"why"),
            ("PATCH", b"three"),
        ]
        for method, body in sequence:
            target = "/head" if method == "HEAD" else "/"
            assert (await attempt(engine, post(receiver.url(target), body, method=method))).status == 200
        assert [(request.method, request.body) for request in receiver.requests] == sequence
        assert receiver.connections == 1

    async def test_connections_are_kept(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        for _ in range(20):
            assert (await attempt(engine, post(receiver.url()))).succeeded
        assert receiver.connections == 1
        results = await asyncio.gather(*(attempt(engine, post(receiver.url())) for _ in range(50)))
        assert all(result.succeeded for result in results)
        assert len(receiver.requests) == 70
        assert receiver.connections <= 51

    async def test_a_kept_connection_found_closed_is_replaced(
        self, engine: DeliveryEngine, receiver: RawReceiver
    ) -> None:
        receiver.script["/x"] = writing(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", then=closing)
        for number in range(1, 4):
            assert (await attempt(engine, post(receiver.url("/x")))).succeeded
            assert receiver.connections == number

    async def test_no_proxy_from_the_environment(
        self, make_engine: EngineMaker, receiver: RawReceiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:1/")
        assert (await attempt(await make_engine(), post(receiver.url()))).succeeded

    async def test_a_signed_callback_verifies(self, engine: DeliveryEngine, receiver: RawReceiver) -> None:
        secret, body, now = b"s" * 32, b'{"order": 17}', CLOCK.wall_ms() // 1000
        headers = callback_headers(
            [("content-type", "application/json")],
            timestamp=now,
            signature=sign([secret], "schedule-1", now, body),
            client_id="shop",
            schedule_id="schedule-1",
            cron_id=None,
            due_ms=now * 1000,
            attempt=1,
            fence=4,
            in_doubt=True,
            user_agent="Minutehand/0.1.0",
        )
        await attempt(engine, post(receiver.url(), body, headers=headers))
        (request,) = receiver.requests
        callback = verify(request.body, dict(request.headers), "whsec_" + base64.b64encode(secret).decode())
        assert (callback.webhook_id, callback.attempt, callback.fence, callback.redelivery) == (
            "schedule-1",
            1,
            4,
            True,
        )
        assert request.values("user-agent") == ["Minutehand/0.1.0"]
