"""An HTTP/2 connection to a receiver: the socket and the TLS of a `Connection` that chose `h2`, and its session.

    Connection --hand_over--> begin, begin, send ... --on_heard--> ... --on_lost: it ended, broke, or has to be closed

As over HTTP/1.1 it uses a raw socket: requests are written at once, or nothing of them has left and nothing will. So no
request is begun while bytes are unsent, and those are bounded: a piece of a body is written when all before it has
left, and at most `_BEHIND_BYTES` of the frames that the protocol requires wait for a receiver that reads nothing.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from poller_cluster.delivery.connection import Connection, receive
from poller_cluster.delivery.http2.session import FRAME_COST, Session
from poller_cluster.delivery.http2.stream import Stream

A = TypeVar("A")

_BODIES_AT_ONCE: Final = 65_536
_BEHIND_BYTES: Final = 8_192
"""Bound on acknowledgements, resets and window updates, encrypted, that wait behind unsent bytes."""
_SEALED_BYTES: Final = 65_536
"""Bound on bytes of TLS that carry no HTTP/2: keys, tickets, padding, incomplete records. Each frame gives `FRAME_COST`
back, which is more than the overhead of a record that carries it alone."""


def is_writable(descriptor: int) -> bool:
    """Whether a good part of the socket's send buffer is free (the system's threshold for POLLOUT)."""
    asked = select.poll()
    asked.register(descriptor, select.POLLOUT)
    return bool(asked.poll(0))


class Http2Events(Protocol):
    """Receives the events of connections, called by the loop: never from within a call to a connection."""

    def on_heard(self, connection: Any, heard: list[Any]) -> None:
        """Bytes were read, or all unsent bytes have left. `heard`: the streams that changed."""

    def on_lost(self, connection: Any) -> None:
        """The connection ended, or must not be used any more. May be called more than once."""


class Http2Connection(Generic[A]):
    """`queued`: attempts whose requests are written in this turn of the loop or the next. `heard`: how often HTTP/2
    bytes were read. `retired`: no request may be begun on it any more."""

    __slots__ = (
        "_behind",
        "_descriptor",
        "_events",
        "_full",
        "_loop",
        "_sealed",
        "_sock",
        "_tls",
        "_unsent",
        "closed",
        "heard",
        "idle_since",
        "key",
        "opened_at",
        "queued",
        "retired",
        "session",
    )

    def __init__(
        self,
        *,
        events: Http2Events,
        loop: asyncio.AbstractEventLoop,
        made: Connection[A],
    ) -> None:
        """`made` has completed its handshake; this connection takes its socket over."""
        assert made.tls is not None
        self._events = events
        self._loop = loop
        self._tls = made.tls
        self.key = made.key
        self.opened_at = self.idle_since = made.opened_at
        self._sock, unsent = made.hand_over()
        self._descriptor = self._sock.fileno()
        self._unsent = bytearray()
        self._behind = self._sealed = 0
        self.queued: list[A] = []
        self.heard = 0
        self.retired = self.closed = self._full = False
        self.session: Session[A] = Session()
        if unsent:
            self._unsent += unsent
            self._watch_writable()
        self._watch_readable()
        # The receiver's SETTINGS may have been read together with the end of the handshake, and wait within TLS.
        loop.call_soon(self._guard, self._hear, b"")

    @property
    def is_open(self) -> bool:
        """Whether requests may be begun now."""
        session = self.session
        unfit = self.retired or self.closed or session.going or session.broken
        return not (unfit or self._full or self._unsent)

    @property
    def headroom(self) -> int:
        """How many more requests may be queued."""
        return self.session.most_streams - len(self.session.streams) - len(self.queued) if self.is_open else 0

    @property
    def has_headroom(self) -> bool:
        """Whether one more request may be queued."""
        return self.headroom > 0

    def check_headroom(self) -> None:
        """If the send buffer is full, admit no new request until it is not: a write that fails would cost all requests
        under way."""
        if self.is_open and self.session.streams and not is_writable(self._descriptor):
            self._full = True
            self._watch_writable()

    def begin(self, stream: Stream[A], *, method: str, block: bytes, body: bytes) -> None:
        """Prepare a request; the connection must be open, and `send` must follow in the same turn of the loop."""
        stream.heard_at_start = self.heard
        self.session.request(stream, method=method, block=block, body=body)

    def send(self) -> None:
        """Write the requests that were begun. If it raises, nothing of them has left, and the connection has to be
        closed at once: the session has counted them as sent."""
        self._write_bodies()
        self._send(self._tls.seal(self.session.take()))

    def leave(self, stream: Stream[A]) -> None:
        """The attempt of this stream has ended; reset the stream if it has not."""
        if not self.closed and self.session.leave(stream):
            self._flush()

    def looks_alive(self) -> bool:
        """Whether the socket reports no end of the connection and, if nothing is under way, no unsolicited byte."""
        if self.closed:
            return False
        try:
            begins = self._sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return bool(begins and self.session.streams)

    def _write_bodies(self) -> None:
        if self.session.write_bodies(_BODIES_AT_ONCE):
            self._watch_writable()

    def _flush(self) -> None:
        """Send what the session and TLS have produced, after what is still unsent."""
        said = self.session.take()
        try:
            data = self._tls.seal(said) if said else self._tls.take()
        except ssl.SSLError:
            self.retired = True
            self._loop.call_soon(self._events.on_lost, self)
            return
        if not data:
            return
        if self._unsent:
            self._unsent += data
            self._behind += len(data)
            return
        try:
            self._send(data)
        except (BlockingIOError, InterruptedError):
            self._unsent += data
            self._watch_writable()
        except OSError:
            self.retired = True

    def _send(self, data: bytes) -> None:
        sent = self._sock.send(data)
        if sent < len(data):
            self._unsent += data[sent:]
            self._watch_writable()

    def _watch_readable(self) -> None:
        self._loop.add_reader(self._descriptor, self._guard, self._read)

    def _watch_writable(self) -> None:
        self._loop.add_writer(self._descriptor, self._guard, self._send_more)

    def _guard(self, step: Callable[..., None], *given: bytes) -> None:
        """Run a callback of the loop. A bug in it costs this connection only."""
        try:
            step(*given)
        except Exception as error:
            self._loop.call_exception_handler({"message": "a connection over HTTP/2 failed", "exception": error})
            self._events.on_lost(self)

    def _send_more(self) -> None:
        self._full = False
        try:
            if self._unsent:
                del self._unsent[: self._sock.send(self._unsent)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # The receiver reads no more, but it may have answered: the reader reports the end of the connection.
            self._unsent.clear()
            self._loop.remove_writer(self._descriptor)
            self.retired = True
            return
        if not self._unsent:
            self._behind = 0
            self._loop.remove_writer(self._descriptor)
            if not self.session.broken:
                self._write_bodies()
                self._flush()
            self._events.on_heard(self, [])

    def _read(self) -> None:
        data = receive(self._sock)
        if not data:
            if data is not None:
                self._events.on_lost(self)
            return
        self._hear(data)

    def _hear(self, data: bytes) -> None:
        if self.closed:
            return
        try:
            opened = self._tls.open(data)
        except ssl.SSLError:
            self._events.on_lost(self)
            return
        self.heard += bool(opened)
        # A byte of HTTP/2 counts twice: once for itself, once for a byte of overhead that it makes up for.
        self._sealed += len(data) - 2 * len(opened)
        self._take_in(opened)

    def _take_in(self, opened: bytes) -> None:
        """Process input, only as much in this turn of the loop as the session admits; nothing is read meanwhile."""
        if self.closed:
            return
        session = self.session
        frames, was_behind = session.frames, session.behind
        heard = session.receive(opened)
        self._sealed = max(self._sealed - FRAME_COST * (session.frames - frames), 0)
        if not session.broken and not self._unsent:
            self._write_bodies()
        self._flush()
        self._events.on_heard(self, heard)
        if self.closed:
            return
        if self._behind > _BEHIND_BYTES or self._sealed > _SEALED_BYTES:
            session.broken = True
        if session.broken or (self._tls.ended and not session.behind):
            self._events.on_lost(self)
        elif session.behind:
            self._loop.call_soon(self._guard, self._take_in, b"")
            if not was_behind:
                self._loop.remove_reader(self._descriptor)
        elif was_behind:
            self._watch_readable()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self._descriptor)
            self._loop.remove_writer(self._descriptor)
            self._sock.close()
            self._unsent.clear()
