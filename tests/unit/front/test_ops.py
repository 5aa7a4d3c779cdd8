"""A node's own port: hints from callers with the token, health, metrics."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import aiohttp
import pytest
import structlog

from poller_cluster.ops.server import OpsServer, OpsSettings, StartingServer, advertised_address, listen
from scheduler_service.domain.ids import Partition, RowKey
from scheduler_service.runtime.health import Reason
from scheduler_service.runtime.listening import CannotListen
from scheduler_service.runtime.metrics import Metrics
from tests.support.nodes import UnaskedNode

TOKEN = "the-token-of-the-cluster"
ID = UUID("01a1fe8c-0f8a-8000-8c91-89a08db81829")
HINT = ["shop", 3, 29_421_210, 1_765_272_615_250, str(ID)]


@dataclass
class Ops(UnaskedNode):
    url: str = ""
    told: list[tuple[Partition, RowKey | None]] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)
    stalled: list[Reason] = field(default_factory=list)
    session: Any = None

    def hinted(self, hints: Sequence[tuple[Partition, RowKey | None]]) -> None:
        self.told += hints

    async def post(self, body: object, *, authorization: str | None = f"Bearer {TOKEN}") -> int:
        headers = {} if authorization is None else {"Authorization": authorization}
        data = body if isinstance(body, bytes) else None
        json = None if isinstance(body, bytes) else body
        async with self.session.post(f"{self.url}/hints", data=data, json=json, headers=headers) as answer:
            return int(answer.status)

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.url + path) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def ops() -> AsyncIterator[Ops]:
    found = Ops()
    listener = listen(OpsSettings())
    server = OpsServer(
        listener,
        node=found,
        token=TOKEN,
        unhealthy=lambda: found.stalled,
        unready=lambda: found.reasons,
        metrics=Metrics(program="node", version="1"),
    )
    found.url = f"http://{advertised_address(OpsSettings(), listener)}"
    await server.start()
    async with aiohttp.ClientSession() as found.session:
        yield found
    await server.stop()
    await server.stop()


async def test_hints_reach_the_node(ops: Ops) -> None:
    assert await ops.post({"hints": [HINT, HINT]}) == 204
    assert len(ops.told) == 2
    partition, key = ops.told[0]
    assert partition == ("shop", 3, 29_421_210)
    assert key == (1_765_272_615_250, ID)


async def test_minutes_with_more_rows_than_are_named_reach_the_node(ops: Ops) -> None:
    assert await ops.post({"hints": [HINT], "crowded": [["shop", 4, 29_421_210]]}) == 204
    assert sorted(ops.told)[1] == (("shop", 4, 29_421_210), None)
    assert len(ops.told) == 2


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", TOKEN, f"Basic {TOKEN}", "Bearer \u00e4", "Bearer "])
async def test_strangers_are_refused(ops: Ops, authorization: str | None) -> None:
    assert await ops.post({"hints": [HINT]}, authorization=authorization) == 401
    assert ops.told == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff",
        {"hints": 3},
        {"hints": [HINT[:4]]},
        {"hints": [[*HINT[:4], "no-id"]]},
        {"hints": [["shop", 5000, *HINT[2:]]]},
        {"hints": [["shop", 3, -1, *HINT[3:]]]},
        {"hints": [], "crowded": [["shop", 5000, 29_421_210]]},
        {"hints": [], "crowded": [["shop", 3]]},
    ],
)
async def test_what_is_no_hint_is_refused_whole(ops: Ops, body: object) -> None:
    assert await ops.post(body) == 400
    assert ops.told == []


async def test_health_and_metrics(ops: Ops) -> None:
    assert await ops.get("/readyz") == (200, '{"status": "ok", "reasons": []}')
    ops.reasons = [Reason("trust-lost", "its heartbeats are not confirmed"), Reason("draining", "so it is")]
    status, text = await ops.get("/readyz")
    assert status == 503
    assert json.loads(text) == {
        "status": "unavailable",
        "reasons": [
            {"reason": "trust-lost", "detail": "its heartbeats are not confirmed"},
            {"reason": "draining", "detail": "so it is"},
        ],
    }
    assert (await ops.get("/livez"))[0] == 200
    ops.stalled = [Reason("loop-stalled", "for long")]
    assert (await ops.get("/livez"))[0] == 503
    assert 'minutehand_build_info{program="node",version="1"} 1.0' in (await ops.get("/metrics"))[1]


async def test_before_there_is_a_node_its_port_says_that_it_lives_and_is_not_ready() -> None:
    listener = listen(OpsSettings())
    url = f"http://{advertised_address(OpsSettings(), listener)}"
    stalled: list[Reason] = []
    server = StartingServer(listener, unhealthy=lambda: stalled, unready=lambda: [Reason("starting", "waits")])
    await server.start()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/livez") as answer:
            assert answer.status == 200
        async with session.get(f"{url}/readyz") as answer:
            assert (answer.status, [one["reason"] for one in (await answer.json())["reasons"]]) == (503, ["starting"])
        stalled = [Reason("loop-stalled", "for long")]
        async with session.get(f"{url}/livez") as answer:
            assert answer.status == 503
    await server.stop()
    await server.stop()
    # Requests that arrive meanwhile wait for the one that follows.
    with socket.create_connection(listener.getsockname()[:2]):
        pass
    listener.close()


def test_a_busy_port_is_one_sentence() -> None:
    with listen(OpsSettings()) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            CannotListen, match=rf"can't listen on 127\.0\.0\.1:{port}: the port is in use; .* ops\.port"
        ):
            listen(OpsSettings(port=port))
    with pytest.raises(CannotListen, match="no address of this machine"):
        listen(OpsSettings(host="203.0.113.9"))


def test_the_advertised_address() -> None:
    with listen(OpsSettings()) as listener:
        port = listener.getsockname()[1]
        assert advertised_address(OpsSettings(), listener) == f"127.0.0.1:{port}"
        assert advertised_address(OpsSettings(advertised_host="node.example"), listener) == f"node.example:{port}"
        assert advertised_address(OpsSettings(advertised_host="::1"), listener) == f"[::1]:{port}"
    with listen(OpsSettings(host="0.0.0.0")) as everywhere:
        port = everywhere.getsockname()[1]
        assert advertised_address(OpsSettings(host="0.0.0.0"), everywhere) == f"{socket.gethostname()}:{port}"


@pytest.mark.parametrize(
    "request_",
    [
        "GET /{} HTTP/9.9\r\n\r\n",
        "{}\r\n\r\n",
        "GET / HTTP/1.1\r\nAuthorization : Bearer {}\r\n\r\n",
        "GET / HTTP/1.1\r\nAuthorization: Bearer {}\0\r\n\r\n",
        "POST /hints HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n",
    ],
)
async def test_what_can_not_be_read_is_neither_logged_nor_repeated(
    ops: Ops, request_: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    host, port = ops.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(request_.format(TOKEN).encode())
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert TOKEN.encode() not in answer
    assert TOKEN not in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_handler_that_crashes_is_logged_and_answered(ops: Ops, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "told", None)
    with structlog.testing.capture_logs() as said:
        assert await ops.post({"hints": [HINT]}) == 500
    assert [line["event"] for line in said] == ["ops-request-crashed"]
