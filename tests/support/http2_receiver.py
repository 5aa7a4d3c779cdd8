"""A receiver that speaks HTTP/2 over TLS and answers a stream when the test says so."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings


@dataclass(eq=False, slots=True, kw_only=True)
class Stream:
    """A request and its progress: `headers` as received, names in lower case, pseudo-headers first.

    `connection` counts the receiver's connections from 1, `number` is the stream's id on its connection.
    `reset_by_caller`: the caller reset the stream.
    """

    number: int
    connection: int
    headers: tuple[tuple[str, str], ...]
    body: bytearray = field(default_factory=bytearray)
    reset_by_caller: bool = False
    session: "Session"

    def values(self, name: str) -> list[str]:
        return [value for given, value in self.headers if given == name]

    @property
    def target(self) -> str:
        return self.values(":path")[0]

    def answer(self, status: int = 200, body: bytes = b"", *, ends: bool = True) -> None:
        """Send as much of a large body as the caller's windows admit. Unless it `ends`, the stream stays open for
        more.
        """
        self.session.answer(self, status, body, ends=ends)

    def reset(self, code: ErrorCodes = ErrorCodes.CANCEL) -> None:
        """Reset this stream without an answer."""
        self.session.reset(self, code)


Behaviour = Callable[[Stream], None]


def answered(stream: Stream) -> None:
    """Answers 200 at once."""
    stream.answer(200, b"ok")


def held(stream: Stream) -> None:
    """Gives no answer until the test does."""


@dataclass(slots=True)
class _Unsent:
    data: bytes
    ends: bool


class Session(asyncio.Protocol):
    """One connection."""

    def __init__(self, receiver: "Http2Receiver") -> None:
        self._receiver = receiver
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._streams: dict[int, Stream] = {}
        self._unsent: dict[int, _Unsent] = {}
        self._last: int | None = None
        self._transport: asyncio.Transport
        self.number = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._receiver.handshakes += 1
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            transport.abort()
            return
        most = {SettingCodes.MAX_CONCURRENT_STREAMS: self._receiver.max_streams}
        self._h2.local_settings = Settings(client=False, initial_values=most)
        self._h2.initiate_connection()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        if self.number:
            self._receiver.left(self)

    def data_received(self, data: bytes) -> None:
        if not self.number:
            self.number = self._receiver.joined(self)
        for event in self._h2.receive_data(data):
            self._handle(event)
        self._send_unsent()
        self._flush()

    def _handle(self, event: Event) -> None:
        match event:
            case RequestReceived(stream_id=int(number), headers=list(headers)):
                pairs = tuple((str(name), str(value)) for name, value in headers)
                self._streams[number] = Stream(number=number, connection=self.number, headers=pairs, session=self)
            case DataReceived(stream_id=int(number), data=bytes(data), flow_controlled_length=int(length)):
                self._h2.acknowledge_received_data(length, number)
                self._streams[number].body += data
            case StreamEnded(stream_id=int(number)) if self._last is None or number <= self._last:
                self._receiver.arrived(self._streams[number])
            case StreamReset(stream_id=int(number)):
                self._unsent.pop(number, None)
                self._streams[number].reset_by_caller = True
                self._receiver.changed()
            case _:
                pass

    def answer(self, stream: Stream, status: int, body: bytes, *, ends: bool) -> None:
        self._h2.send_headers(stream.number, [(":status", str(status))], end_stream=ends and not body)
        if body:
            self._unsent[stream.number] = _Unsent(body, ends)
            self._send_unsent()
        self._flush()

    def reset(self, stream: Stream, code: ErrorCodes) -> None:
        self._h2.reset_stream(stream.number, code)
        self._flush()

    def go_away(self, *, last: int, code: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Send GOAWAY: streams above `last` were not and will not be processed; those up to it can still be
        answered.
        """
        # After GOAWAY the library considers the connection closed, and would send no more answers.
        self._last = last
        before = self._h2.state_machine.state
        self._h2.close_connection(code, last_stream_id=last)
        self._h2.state_machine.state = before
        self._flush()

    def close(self) -> None:
        """Close the connection, with the streams open on it."""
        self._transport.abort()

    def _send_unsent(self) -> None:
        for number, unsent in list(self._unsent.items()):
            while unsent.data and (sendable := self._sendable(number)):
                piece, unsent.data = unsent.data[:sendable], unsent.data[sendable:]
                self._h2.send_data(number, piece, end_stream=unsent.ends and not unsent.data)
            if not unsent.data:
                del self._unsent[number]

    def _sendable(self, number: int) -> int:
        return min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)

    def _flush(self) -> None:
        if data := self._h2.data_to_send():
            self._transport.write(data)


class Http2Receiver:
    """Listens on a free port of 127.0.0.1 and offers only `h2` by ALPN.

    `script` maps targets to behaviours; others are answered 200. `streams` are the requests in the order in which they
    were complete; `handshakes` counts connections made, `connections` those that were used (a connection that the
    caller closes after a handshake that only told it of `h2` is not). An async context manager; leaving it closes every
    connection.
    """

    def __init__(self, *, tls: ssl.SSLContext, max_streams: int = 1000) -> None:
        self.script: dict[str, Behaviour] = {}
        self.streams: list[Stream] = []
        self.sessions: list[Session] = []
        self.max_streams = max_streams
        self.connections = 0
        self.handshakes = 0
        self.port = 0
        self._tls = tls
        self._tls.set_alpn_protocols(["h2"])
        self._changed = asyncio.Event()

    def url(self, target: str = "/") -> str:
        return f"https://127.0.0.1:{self.port}{target}"

    async def __aenter__(self) -> "Http2Receiver":
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Session(self), "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for session in self.sessions:
            session.close()
        await self.until(lambda: not self.sessions)
        await self._server.wait_closed()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; it is checked at every event of this receiver."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def came(self, count: int) -> None:
        """Wait until this many requests have arrived in total."""
        await self.until(lambda: len(self.streams) >= count)

    def changed(self) -> None:
        self._changed.set()

    def joined(self, session: Session) -> int:
        self.sessions.append(session)
        self.connections += 1
        self.changed()
        return self.connections

    def left(self, session: Session) -> None:
        self.sessions.remove(session)
        self.changed()

    def arrived(self, stream: Stream) -> None:
        self.streams.append(stream)
        self.script.get(stream.target, answered)(stream)
        self.changed()
