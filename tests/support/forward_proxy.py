"""A forward proxy on loopback: tunnels for CONNECT, whole URLs for http. It knows where each name leads."""

import asyncio
import contextlib
from dataclasses import dataclass, field


@dataclass(slots=True)
class Heard:
    """The head of a request to the proxy: `first` is its first line. Header names in lower case."""

    first: str
    headers: dict[str, str] = field(default_factory=dict)


class ForwardProxy:
    """Listens on a free port of 127.0.0.1. Every name leads to 127.0.0.1. `refusal`: what it writes to each CONNECT
    instead of opening a tunnel; then it closes the connection unless the bytes are none. An async context manager."""

    def __init__(self) -> None:
        self.heard: list[Heard] = []
        self.refusal: bytes | None = None
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def __aenter__(self) -> "ForwardProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._proxy(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        self.heard.append(Heard(first, {name.lower(): value.strip() for name, _, value in pairs}))
        method, target, _ = first.split(" ")
        if method != "CONNECT":
            authority, _, path = target.removeprefix("http://").partition("/")
            theirs, out = await asyncio.open_connection("127.0.0.1", int(authority.rpartition(":")[2]))
            kept = [line for line in lines if not line.lower().startswith("proxy-")]
            out.write("\r\n".join([f"{method} /{path} HTTP/1.1", *kept, "", ""]).encode("ascii"))
        elif self.refusal is not None:
            writer.write(self.refusal)
            await writer.drain()
            if not self.refusal:
                await asyncio.Event().wait()
            return
        else:
            theirs, out = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_pass_on(reader, out), _pass_on(theirs, writer))
        finally:
            out.transport.abort()
            with contextlib.suppress(OSError):
                await out.wait_closed()


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
        sink.close()
