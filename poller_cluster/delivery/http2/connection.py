"""An HTTP/2 connection to a receiver: the socket and the TLS of a `Connection` that chose `h2`, and its session.

    Connection --hand_over--> begin, begin, send ... --on_heard--> ... --on_lost: it ended, broke, or has to be closed

As over HTTP/1.1 the socket is the engine's own: requests are written at once, or nothing of them has left and nothing
will. So none is begun while something is still unsent, and what is unsent is bounded: pieces of bodies are written when
all before them has left, and of what the protocol makes us say to a receiver that reads nothing, `_BEHIND_BYTES`.
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
"""Acknowledgements, resets and new windows, sealed, that may wait behind what was sent before them."""
_SEALED_BYTES: Final = 65_536
"""What TLS may bring without bringing as much of HTTP/2: keys, tickets, padding, records that are not complete. Each
frame gives `FRAME_COST` back, which is more than the record costs that it may come in alone."""


def is_writable(descriptor: int) -> bool:
    """Whether the system has room for a good part of a socket's buffer."""
    asked = select.poll()
    asked.register(descriptor, select.POLLOUT)
    return bool(asked.poll(0))


class Owner(Protocol):
    """Hears what happens to connections, from the loop: never from within a call to one."""

    def on_heard(self, connection: Any, heard: list[Any]) -> None:
        """Something came, or what was unsent has left; `heard`: the streams of which more is known."""

    def on_lost(self, connection: Any) -> None:
        """Nothing more comes, or the connection must not be used any more. May be called more than once."""


class Http2Connection(Generic[A]):
    """`queued`: whose requests are to be written in this turn of the loop or the next. `heard`: how often something
    of HTTP/2 came. `retired`: no request may be begun on it any more."""

    __slots__ = (
        "_behind",
        "_descriptor",
        "_full",
        "_loop",
        "_owner",
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
        owner: Owner,
        loop: asyncio.AbstractEventLoop,
        made: Connection[A],
    ) -> None:
        """`made` is secured; its socket is this connection's from here on."""
        assert made.tls is not None
        self._owner = owner
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
        # The receiver's settings may have come along with the end of the handshake.
        loop.call_soon(self._guard, self._hear, b"")

    @property
    def is_open(self) -> bool:
        """Whether requests may be begun now."""
        session = self.session
        unfit = self.retired or self.closed or session.going or session.broken
        return not (unfit or self._full or self._unsent)

    @property
    def room(self) -> int:
        """How many may be, beside those that are queued."""
        return self.session.most_streams - len(self.session.streams) - len(self.queued) if self.is_open else 0

    @property
    def has_room(self) -> bool:
        """Whether one more may be."""
        return self.room > 0

    def look_for_room(self) -> None:
        """Where the system takes nothing more of what is under way, no request may be begun until it does: a write that
        fails would cost all of them."""
        if self.is_open and self.session.streams and not is_writable(self._descriptor):
            self._full = True
            self._watch_writable()

    def begin(self, stream: Stream[A], *, method: str, block: bytes, body: bytes) -> None:
        """Prepare a request, where it is open; `send` follows in the same turn."""
        stream.heard_at_start = self.heard
        self.session.request(stream, method=method, block=block, body=body)

    def send(self) -> None:
        """Write the requests that were begun. Where it raises nothing of them has left, and the connection has to be
        closed at once."""
        self._write_bodies()
        self._send(self._tls.seal(self.session.take()))

    def leave(self, stream: Stream[A]) -> None:
        """Nobody waits for it any more."""
        if not self.closed and self.session.leave(stream):
            self._flush()

    def looks_alive(self) -> bool:
        """Whether the system knows of no end of the connection and, where nothing is under way, of no byte."""
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
        """Send what the session and TLS have to say, behind what was not sent yet."""
        said = self.session.take()
        try:
            data = self._tls.seal(said) if said else self._tls.take()
        except ssl.SSLError:
            self.retired = True
            self._loop.call_soon(self._owner.on_lost, self)
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
        """Take a step that the loop asks for. An error in it costs this connection, and nothing beside it."""
        try:
            step(*given)
        except Exception as error:
            self._loop.call_exception_handler({"message": "a connection over HTTP/2 failed", "exception": error})
            self._owner.on_lost(self)

    def _send_more(self) -> None:
        self._full = False
        try:
            if self._unsent:
                del self._unsent[: self._sock.send(self._unsent)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # The receiver reads no more; it may have answered, and the end of the connection is told by reading.
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
            self._owner.on_heard(self, [])

    def _read(self) -> None:
        data = receive(self._sock)
        if not data:
            if data is not None:
                self._owner.on_lost(self)
            return
        self._hear(data)

    def _hear(self, data: bytes) -> None:
        if self.closed:
            return
        try:
            opened = self._tls.open(data)
        except ssl.SSLError:
            self._owner.on_lost(self)
            return
        self.heard += bool(opened)
        self._sealed += len(data) - 2 * len(opened)
        self._take_in(opened)

    def _take_in(self, opened: bytes) -> None:
        """What came, and no more of it in this turn of the loop than the session takes; nothing is read meanwhile."""
        if self.closed:
            return
        session = self.session
        frames, was_behind = session.frames, session.behind
        heard = session.receive(opened)
        self._sealed = max(self._sealed - FRAME_COST * (session.frames - frames), 0)
        if not session.broken and not self._unsent:
            self._write_bodies()
        self._flush()
        self._owner.on_heard(self, heard)
        if self.closed:
            return
        if self._behind > _BEHIND_BYTES or self._sealed > _SEALED_BYTES:
            session.broken = True
        if session.broken or (self._tls.ended and not session.behind):
            self._owner.on_lost(self)
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
