"""A receiver that speaks HTTP/1.1 by hand, so that tests can make it misbehave in any way."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRequest:
    """A request as received: header names as written, in order. `connection` counts the receiver's connections from 1,
    `position` the requests on this connection from 1.
    """

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int
    position: int

    def values(self, name: str) -> list[str]:
        return [value for given, value in self.headers if given.lower() == name.lower()]


Answer = Callable[[RawRequest, asyncio.StreamWriter], Awaitable[None]]


def answering(status: int, body: bytes = b"", *, headers: tuple[str, ...] = (), reason: str = "Whatever") -> Answer:
    """Answers at once."""

    async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        lines = [f"HTTP/1.1 {status} {reason}", *headers, f"Content-Length: {len(body)}", "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)

    return answer


def writing(*pieces: bytes, then: Answer | None = None) -> Answer:
    """Writes raw bytes, then follows another behaviour if one is given."""

    async def answer(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if then is not None:
            await then(request, writer)

    return answer


async def hanging(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """Never answers."""
    await asyncio.Event().wait()


async def closing(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """Closes the connection in good order."""
    writer.close()


async def resetting(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """Closes the connection with a TCP reset."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def flooding(request: RawRequest, writer: asyncio.StreamWriter) -> None:
    """Answers 200 with a body that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        await writer.drain()


class RawReceiver:
    """Listens on a free port of a loopback address. `script` maps targets to behaviours; others are answered 200.

    An async context manager; leaving it ends every connection.
    """

    def __init__(self, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.script: dict[str, Answer] = {}
        self.requests: list[RawRequest] = []
        self.connections = 0
        self.port = 0
        self._host = host
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, target: str = "/", *, host: str | None = None) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{host or self._host}:{self.port}{target}"

    async def __aenter__(self) -> "RawReceiver":
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def idle(self) -> None:
        """Wait until every connection is closed."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        position = 0
        try:
            while not writer.is_closing():
                position += 1
                request = await self._read(reader, number, position)
                self.requests.append(request)
                await self.script.get(request.target, answering(200, b"ok"))(request, writer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _read(self, reader: asyncio.StreamReader, connection: int, position: int) -> RawRequest:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        headers = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
        return RawRequest(
            method=method,
            target=target,
            headers=headers,
            body=await reader.readexactly(length),
            connection=connection,
            position=position,
        )
