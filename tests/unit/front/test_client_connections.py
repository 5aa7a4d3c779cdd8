"""Connections of the asynchronous SDK: kept, shared, bounded and closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest

from minutehand.client import AsyncMinutehand, Callback, MinutehandUnreachable
from minutehand.client._async.connections import AsyncConnections
from minutehand.client._requests import KEPT_SECONDS, MAX_CONNECTIONS
from tests.support.scripted_api import SCHEDULE, ScriptedRuntime

CALL = Callback(url="https://a.example/")
ANSWER = msgspec.json.encode(SCHEDULE)
AT_ONCE = 64


class Api:
    """Answers creates once `open` is set, and counts connections; the next `breaking` connections are closed instead.
    `full` is set when as many creates wait as there may be connections.
    """

    def __init__(self) -> None:
        self.connections = self._waiting = self.breaking = 0
        self.open, self.full = asyncio.Event(), asyncio.Event()
        self.open.set()
        self.handlers: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.handlers.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
                self._waiting += 1
                if self._waiting == MAX_CONNECTIONS:
                    self.full.set()
                await self.open.wait()
                self._waiting -= 1
                if self.breaking:
                    self.breaking -= 1
                    return
                writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[tuple[Api, AsyncMinutehand]]:
    api = Api()
    server = await asyncio.start_server(api.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with AsyncMinutehand(f"http://127.0.0.1:{port}", "key", **options) as sdk:
        yield api, sdk
    server.close()
    if api.handlers:
        await asyncio.wait(api.handlers)


async def create(sdk: AsyncMinutehand, count: int) -> None:
    await asyncio.gather(
        *(sdk.client("shop").schedules.create(CALL, delay_seconds=60, idempotency_key="k") for _ in range(count))
    )


async def test_creates_at_once_share_connections_that_are_kept() -> None:
    async with served() as (api, sdk):
        for _ in range(3):
            await create(sdk, AT_ONCE)
        assert api.connections == AT_ONCE
        await create(sdk, 1)
        assert api.connections == AT_ONCE


async def test_there_are_no_more_connections_than_so_many() -> None:
    async with served() as (api, sdk):
        await create(sdk, 3 * MAX_CONNECTIONS)
        assert api.connections == MAX_CONNECTIONS


async def test_a_create_that_gets_no_connection_in_time_was_not_sent() -> None:
    async with served(retries=0) as (api, sdk):
        api.open.clear()
        held = asyncio.create_task(create(sdk, MAX_CONNECTIONS))
        await api.full.wait()
        timeouts = sdk._sender._requests._timeout["timeout"]
        timeouts["pool"] = 0.05  # start only now, or a slow machine has no time to connect
        with pytest.raises(MinutehandUnreachable, match=r"all connections are in use, for more than 0\.05 s"):
            await create(sdk, 1)
        timeouts["pool"] = timeouts["read"]
        api.open.set()
        await held
        await create(sdk, 1)
        assert api.connections == MAX_CONNECTIONS


async def test_a_connection_that_breaks_is_made_again() -> None:
    async with served(retries=2) as (api, sdk):
        api.breaking = 1
        await create(sdk, 1)
        assert api.connections == 2


async def test_one_that_is_cancelled_leaves_its_place_to_others() -> None:
    async with served() as (api, sdk):
        api.open.clear()
        given_up = [asyncio.create_task(create(sdk, 1)) for _ in range(2 * MAX_CONNECTIONS)]
        await api.full.wait()
        for task in given_up:
            task.cancel()
        await asyncio.wait(given_up)
        api.open.set()
        await create(sdk, MAX_CONNECTIONS)


@pytest.mark.parametrize("warm", [False, True], ids=["new", "kept"])
async def test_one_that_is_cancelled_at_any_turn_leaves_a_connection_to_the_next(warm: bool) -> None:
    for turn in range(40):
        async with served(timeout_seconds=1, retries=0) as (_, sdk):
            if warm:
                await create(sdk, 1)
            task = asyncio.create_task(create(sdk, 1))
            for _ in range(turn):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            await create(sdk, 1)


async def test_closing_the_sdk_fails_requests_that_wait_for_a_connection() -> None:
    async with served() as (api, sdk):
        api.open.clear()
        under_way = [asyncio.create_task(create(sdk, 1)) for _ in range(MAX_CONNECTIONS)]
        await api.full.wait()
        waiting = asyncio.create_task(sdk.client("shop").schedules.create(CALL, delay_seconds=60))
        await asyncio.sleep(0)
        await sdk.close()
        api.open.set()
        with pytest.raises(RuntimeError, match="closed"):
            await waiting
        await asyncio.gather(*under_way)
        assert api.connections == MAX_CONNECTIONS


class Kept(httpx.AsyncBaseTransport):
    closed = broken = False

    async def aclose(self) -> None:
        self.closed = True
        if self.broken:
            raise OSError("the other end is gone")


async def test_unused_connections_are_closed() -> None:
    made: list[Kept] = []

    def make() -> Kept:
        made.append(Kept())
        return made[-1]

    runtime = ScriptedRuntime()
    connections = AsyncConnections(make, most=2, runtime=runtime)
    async with connections.one(within=1), connections.one(within=1):
        pass
    for _ in range(3):
        runtime.now += KEPT_SECONDS * 0.6
        async with connections.one(within=1) as used:
            pass
    first, second = made
    assert (first.closed, second.closed) == (used is not first, used is not second)
    async with connections.one(within=1) as used:
        await connections.close()
        assert isinstance(used, Kept)
        assert not used.closed
    assert used.closed


async def test_a_failed_close_raises_nothing() -> None:
    made: list[Kept] = []

    def make() -> Kept:
        made.append(Kept())
        made[-1].broken = True
        return made[-1]

    runtime = ScriptedRuntime()
    connections = AsyncConnections(make, most=3, runtime=runtime)
    async with connections.one(within=1), connections.one(within=1), connections.one(within=1):
        pass
    runtime.now += 2 * KEPT_SECONDS
    async with connections.one(within=1):
        pass
    await connections.close()
    assert [one.closed for one in made] == [True, True, True]


async def test_a_transport_that_cannot_be_made_takes_no_place() -> None:
    def fail() -> httpx.AsyncBaseTransport:
        raise OSError("no certificates")

    connections = AsyncConnections(fail, most=1, runtime=ScriptedRuntime())
    for _ in range(2):
        with pytest.raises(OSError, match="no certificates"):
            async with connections.one(within=0.1):
                raise AssertionError
