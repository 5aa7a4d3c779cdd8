"""The API on its socket: limits, time-outs, storage that does not answer, and bytes that are no request."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from membership.errors import StoreUnavailable
from scheduler_service.api.app import build_app
from scheduler_service.api.http.server import ApiServer
from scheduler_service.api.problems import KINDS
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.errors import ContentTooLarge, Overloaded
from scheduler_service.runtime.listening import CannotListen
from tests.support.api import ADMIN_KEY, ApiHarness, replace_insert, schedule

SCHEDULES = "/v1/clients/shop/schedules"


async def exchange(api: ApiHarness, data: bytes) -> tuple[bytes, dict[str, str], bytes]:
    """Send raw bytes; returns status line, headers and body of what is received before the connection closes."""
    assert api.server is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    body = await reader.readexactly(int(headers.get("Content-Length", "0")))
    writer.close()
    await writer.wait_closed()
    return status.encode(), headers, body


def raw(method: str, path: str, *headers: str, key: str = ADMIN_KEY) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: api", f"Authorization: Bearer {key}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def replace(monkeypatch: pytest.MonkeyPatch, store: object, method: str, function: Callable[..., Any]) -> None:
    monkeypatch.setattr(type(store), method, function)


async def test_an_announced_body_that_is_too_large_is_refused_unread(key: str, api: ApiHarness) -> None:
    head = raw("POST", SCHEDULES, "Content-Type: application/json", "Content-Length: 5000000", key=key)
    status, headers, body = await exchange(api, head)
    assert status.startswith(b"HTTP/1.1 413")
    assert headers["Content-Type"] == "application/problem+json"
    assert b"4194304" in body
    assert body.endswith(b"}\n")


async def test_a_body_that_grows_too_large_is_refused_while_read() -> None:
    async with ApiHarness(max_body_bytes=1_000) as api:
        key = await api.register()
        head = raw("POST", SCHEDULES, "Content-Type: application/json", "Transfer-Encoding: chunked", key=key)
        chunk = b"200\r\n" + b" " * 512 + b"\r\n"
        status, headers, _ = await exchange(api, head + chunk * 4 + b"0\r\n\r\n")
        assert status.startswith(b"HTTP/1.1 413")
        assert headers["Content-Type"] == "application/problem+json"


async def test_a_request_with_expect_is_refused_before_its_body(api: ApiHarness, key: str) -> None:
    head = raw(
        "POST", SCHEDULES, "Content-Type: application/json", "Content-Length: 5000000", "Expect: 100-continue", key=key
    )
    status, _, _ = await exchange(api, head)
    assert status.startswith(b"HTTP/1.1 413")
    head = raw("POST", SCHEDULES, "Content-Length: 10", "Expect: 100-continue", key="wrong")
    status, _, _ = await exchange(api, head)
    assert status.startswith(b"HTTP/1.1 401")


async def test_a_request_with_expect_gets_100_continue(api: ApiHarness, key: str) -> None:
    assert api.server is not None
    body = msgspec.json.encode(schedule())
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    writer.write(
        raw(
            "POST",
            SCHEDULES,
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Expect: 100-continue",
            key=key,
        )
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
    writer.write(body)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [("GET", "/docs/", 308), ("HEAD", "/docs/", 308), ("GET", "/docs", 200), ("GET", "/nowhere", 404)],
)
async def test_aiohttp_answers_no_expectation_by_itself(api: ApiHarness, method: str, path: str, expected: int) -> None:
    """It would answer 417, and name itself."""
    status, headers, _ = await exchange(api, raw(method, path, "Expect: foo"))
    assert status.startswith(f"HTTP/1.1 {expected} ".encode())
    assert headers["Server"] == "Minutehand"


async def test_a_redirect_is_counted(api: ApiHarness) -> None:
    await exchange(api, raw("GET", "/docs/"))
    page = await api.send("GET", "/metrics", key=None)
    assert 'minutehand_api_requests_total{method="GET",route="/docs/",status="308"} 1.0' in page.body.decode()


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"BREW /pot HTCPCP/1.0\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nbroken header\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
async def test_bytes_that_are_no_request(api: ApiHarness, data: bytes) -> None:
    with capture_logs() as logs:
        status, headers, body = await exchange(api, data + b"\r\n\r\n")
    assert b" 400 " in status
    assert headers["Content-Type"] == "application/problem+json"
    assert msgspec.json.decode(body)["type"] == "/problems/malformed"
    assert headers["X-Request-Id"]
    assert logs == []


async def test_storage_that_does_not_answer_is_503_in_time(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def hang(*arguments: object, **named: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    replace_insert(monkeypatch, api.storage.schedules, hang)
    sending = asyncio.ensure_future(api.send("POST", SCHEDULES, key=key, json=schedule()))
    health = asyncio.ensure_future(api.send("GET", "/livez"))
    assert (await health).status == 200
    await begun.wait()
    api.clock.advance(api.settings.request_timeout_seconds)
    reply = await sending
    assert reply.status == 503
    assert reply.headers["Retry-After"] == "1"
    assert reply.json["type"] == "/problems/storage-unavailable"


async def test_a_body_that_trickles_in_is_408_in_time(api: ApiHarness, key: str) -> None:
    assert api.server is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
    headers = ("Content-Type: application/json", "Content-Length: 100", "Expect: 100-continue")
    writer.write(raw("POST", SCHEDULES, *headers, key=key))
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"{")
    await writer.drain()
    api.clock.advance(api.settings.request_timeout_seconds)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408")
    assert b"Connection: close" in head
    writer.close()
    await writer.wait_closed()
    assert api.services is not None
    assert b"storage_available 1.0" in (await api.send("GET", "/metrics")).body


async def test_a_remembered_path_is_judged_again_for_each_request(api: ApiHarness, key: str) -> None:
    for given, status in ((key, 201), (None, 401), ("mh_nobody_x", 401), (key, 201)):
        reply = await api.send("POST", SCHEDULES, key=given, json=schedule())
        assert reply.status == status
    assert (await api.send("PUT", SCHEDULES, key=key)).status == 405
    assert (await api.send("POST", SCHEDULES + "?x=1", key=key, json=schedule())).status == 422
    assert (await api.send("POST", SCHEDULES.replace("shop", "other"), key=key, json=schedule())).status == 404


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (StoreUnavailable("NoHostAvailable: 10.1.2.3 said driver things"), 503, "storage-unavailable"),
        (Overloaded("queue of 20000 rows, driver things"), 503, "overloaded"),
        (ContentTooLarge("a row of 17 MB is larger than one request to the store may be"), 413, "content-too-large"),
        (RuntimeError("secret driver things"), 500, "internal"),
    ],
)
async def test_what_storage_says_is_translated(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, kind: str
) -> None:
    async def fail(*arguments: object, **named: object) -> None:
        raise error

    replace_insert(monkeypatch, api.storage.schedules, fail)
    for name in ("insert_many", "read_rows"):
        replace(monkeypatch, api.storage.schedules, name, fail)
    made = "01a1fe7b-0a24-8000-81b0-6435e6edef00"
    create, look = ("POST", SCHEDULES, schedule()), ("GET", f"{SCHEDULES}/{made}", None)
    for method, path, body in (create,) if isinstance(error, ContentTooLarge) else (create, look):
        with capture_logs():
            reply = await api.send(method, path, key=key, json=body)
        assert (reply.status, reply.json["type"]) == (status, f"/problems/{kind}")
        assert b"driver things" not in reply.body
        assert b"Traceback" not in reply.body
        assert ("Retry-After" in reply.headers) == (status == 503)
    with capture_logs():
        batch = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": [schedule()]})
    assert b"driver things" not in batch.body
    assert batch.status == (200 if status == 413 else status)
    if status == 413:
        assert batch.json["items"][0]["status"] == 413


async def test_losing_storage_and_its_return_are_each_logged_once(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*arguments: object, **named: object) -> None:
        raise StoreUnavailable("no answer")

    with capture_logs() as logs:
        with monkeypatch.context() as patched:
            replace_insert(patched, api.storage.schedules, lost)
            assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 503
            assert b"minutehand_api_storage_available 1.0" in (await api.send("GET", "/metrics")).body
            api.clock.advance(3)
            for _ in range(3):
                assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 503
            assert b"minutehand_api_storage_available 0.0" in (await api.send("GET", "/metrics")).body
        for _ in range(3):
            assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201
        assert b"minutehand_api_storage_available 1.0" in (await api.send("GET", "/metrics")).body
    assert [line["event"] for line in logs] == ["storage-lost", "storage-back"]


async def test_requests_are_counted_by_route(api: ApiHarness, key: str) -> None:
    await api.send("POST", SCHEDULES, key=key, json=schedule())
    await api.send("POST", SCHEDULES, key=key, json={})
    text = (await api.send("GET", "/metrics", key=None)).body.decode()
    route = 'method="POST",route="/v1/clients/{client_id}/schedules"'
    assert f'minutehand_api_requests_total{{{route},status="201"}} 1.0' in text
    assert f'minutehand_api_requests_total{{{route},status="422"}} 1.0' in text
    assert f"minutehand_api_request_duration_seconds_count{{{route}}} 2.0" in text
    assert "shop" not in text


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("abc-123", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("with space", False),
        ("h\u00e9", False),
    ],
)
async def test_request_ids(api: ApiHarness, given: str, kept: bool) -> None:
    for path in ("/livez", "/v1/clients/nobody", "/nowhere", "/v1/clients"):
        reply = await api.send("GET", path, headers={"X-Request-Id": given})
        assert (reply.headers["X-Request-Id"] == given) is kept
        assert reply.headers["X-Request-Id"]
        if reply.status == 404:
            assert reply.json["request_id"] == reply.headers["X-Request-Id"]


async def test_unknown_paths_and_methods(api: ApiHarness) -> None:
    for path in ("/v1", "/v1/clients/shop/", "/v1/clients/shop:fly", "/v2/clients", "/v1/clients//schedules"):
        reply = await api.send("GET", path)
        assert (reply.status, reply.json["type"]) == (404, "/problems/not-found")
    reply = await api.send("PATCH", "/v1/clients/shop")
    assert (reply.status, reply.json["type"]) == (405, "/problems/method-not-allowed")
    assert set(reply.headers["Allow"].split(", ")) == {"PUT", "GET", "HEAD", "DELETE"}
    assert (await api.send("HEAD", "/livez", key=None)).status == 200


async def test_every_kind_of_problem_has_its_page(api: ApiHarness) -> None:
    for kind, known in KINDS.items():
        reply = await api.send("GET", f"/problems/{kind}", key=None)
        assert reply.status == 200
        assert known.title in reply.body.decode()
    assert (await api.send("GET", "/problems/none-such", key=None)).status == 404


async def test_a_port_in_use_is_one_clear_sentence(api: ApiHarness) -> None:
    assert api.server is not None
    settings = ApiSettings(admin_key=ADMIN_KEY, port=api.server.port)
    app = build_app(services=api.services, settings=settings)
    second = ApiServer(app, services=api.services, settings=settings)
    with pytest.raises(CannotListen, match=f"{api.server.port}: the port is in use"):
        await second.start()
    await second.stop()


async def test_an_address_that_is_not_ours(api: ApiHarness) -> None:
    settings = ApiSettings(admin_key=ADMIN_KEY, port=0, host="192.0.2.1")
    server = ApiServer(build_app(services=api.services, settings=settings), services=api.services, settings=settings)
    with pytest.raises(CannotListen, match="no address of this machine"):
        await server.start()


async def test_stopping_lets_requests_end_and_leaves_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    before = asyncio.all_tasks()
    async with ApiHarness() as api:
        key = await api.register()
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def slow(*arguments: object, **named: object) -> None:
            begun.set()
            await may_end.wait()

        replace_insert(monkeypatch, api.storage.schedules, slow)
        sending = asyncio.ensure_future(api.send("POST", SCHEDULES, key=key, json=schedule()))
        await begun.wait()
        assert api.server is not None
        stopping = asyncio.ensure_future(api.server.stop())
        await asyncio.sleep(0)
        may_end.set()
        assert (await sending).status == 201
        await stopping
        await api.server.stop()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() - before == set()


@pytest.mark.parametrize(
    "wrong",
    [
        {"admin_key": "short"},
        {"admin_key": "with space in the key"},
        {"admin_key": "k\u00e9y" * 10},
        {"port": 65_536},
        {"request_timeout_seconds": 0},
        {"max_body_bytes": 0},
        {"shutdown_seconds": -1},
        {"shutdown_delay_seconds": -0.5},
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ApiSettings(**{"admin_key": ADMIN_KEY, **wrong})
