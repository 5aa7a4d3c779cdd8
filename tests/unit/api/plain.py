"""Plain creates as bytes over a socket, and an API whose storage holds them back."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler_service.api.app import PLAIN_CREATES
from scheduler_service.api.http.connections import Connection
from scheduler_service.api.plain_creates import PlainCreates
from tests.support.api import ApiHarness, schedule
from tests.support.turns import until
from tests.unit.cql.gate import Gate

SCHEDULES = "/v1/clients/shop/schedules"


def create(key: str, body: bytes, *lines: str, path: str = SCHEDULES, version: str = "1.1") -> bytes:
    """A request as bytes. A line that begins with a dash removes the header of that name."""
    given = {
        "Host": "api",
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    more = [line for line in lines if not line.startswith("-")]
    kept = [f"{name}: {value}" for name, value in given.items() if f"-{name}" not in lines]
    return "\r\n".join([f"POST {path} HTTP/{version}", *kept, *more, "", ""]).encode() + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[bytes, dict[str, str], bytes]:
    """Status line, headers, body."""
    head = await reader.readuntil(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    return status.encode(), headers, await reader.readexactly(int(headers["Content-Length"]))


def plain_creates_of(api: ApiHarness) -> PlainCreates:
    assert api.server is not None
    return api.server._app[PLAIN_CREATES]


async def warm(api: ApiHarness, key: str) -> None:
    """Make a request, so that the process has cached the key."""
    assert (await api.send("GET", f"{SCHEDULES}/none", key=key)).status == 404


@dataclass(slots=True)
class Held:
    """An API whose storage holds rows back until released, and a connection to it."""

    api: ApiHarness
    gate: Gate
    key: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    plain: PlainCreates
    begun: int = 0
    alike: int = 0
    judged: int = 0

    @classmethod
    @asynccontextmanager
    async def open(cls) -> "AsyncIterator[Held]":
        gate = Gate()
        async with ApiHarness(connection=gate) as api:
            key = await api.register("shop")
            await warm(api, key)
            assert api.server is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port)
            world = cls(api, gate, key, reader, writer, plain_creates_of(api))
            begin, begin_alike = world.plain.begin, world.plain.begin_alike

            def counted(*arguments: Any) -> bool:
                world.judged += 1
                taken = begin(*arguments)
                world.begun += taken
                return taken

            def counted_alike(*arguments: Any) -> bool | None:
                taken = begin_alike(*arguments)
                world.judged += taken is not None
                world.begun += taken is True
                world.alike += taken is True
                return taken

            world.plain.begin = counted  # type: ignore[method-assign, assignment]
            world.plain.begin_alike = counted_alike  # type: ignore[method-assign, assignment]
            yield world
            world.release()
            world.writer.close()

    async def ask(self, *pieces: bytes) -> bytes:
        """Send a request in pieces, each once the one before was parsed; returns the status."""
        for piece in pieces[:-1]:
            await self.parsed(piece)
        self.writer.write(pieces[-1])
        return (await read_answer(self.reader))[0].split(b" ")[1]

    async def parsed(self, piece: bytes) -> None:
        """Send an incomplete request and wait until it is parsed."""
        assert self.api.server is not None
        assert self.api.server._kept is not None
        spent: list[bytes] = []
        parsing = self.api.server._kept.parsing
        spend = parsing.spend

        def told(parse: Callable[[bytes], None], data: bytes) -> None:
            spend(parse, data)
            spent.append(data)

        parsing.spend = told  # type: ignore[method-assign]
        self.writer.write(piece)
        await until(lambda: spent == [piece])
        parsing.spend = spend  # type: ignore[method-assign]

    async def send(self, *, delay_seconds: float = 90) -> None:
        """Send one plain create, which waits for storage."""
        begun, self.gate.hold = self.begun, True
        body = msgspec.json.encode(schedule(delay_seconds=delay_seconds))
        self.writer.write(create(self.key, body))
        await until(lambda: bool(self.gate.held))
        assert self.begun == begun + 1

    def release(self) -> None:
        self.gate.hold = False
        for held in self.gate.held:
            if not held.done():
                held.set_result(None)
        self.gate.held.clear()


def connection_of(held: Held) -> Connection:
    """The API's end of the connection."""
    assert held.api.server is not None
    assert held.api.server._kept is not None
    (connection,) = [one for one in held.api.server._kept._open if one._parked is not None]
    return connection
