"""An HTTP/1.1 connection to a receiver: a socket on the loop, TLS, and the answer to the request under way on it.

    connect --on_connected--> [tunnel --on_tunnelled-->] [secure --on_secured-->] send --on_answer ...--> send ...
       `------------------------- on_lost: the receiver ended it, or it broke --------------------------'

It decides nothing and reports events to its owner. It uses a raw socket instead of a transport of the loop, so that it
knows what has left: `send` writes at once, right after the owner asked whether it may, or raises and nothing has left.
There is no task and no future per connection or request.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from typing import Any, Final, Generic, Protocol, TypeVar

from poller_cluster.delivery.answer import Answer
from poller_cluster.delivery.channel import tunnel_failure
from poller_cluster.delivery.pool import PoolKey
from poller_cluster.delivery.tls import Tls

A = TypeVar("A")

_READ = 65_536
_BEHIND_BYTES: Final = 1_024
"""Bound on TLS's own messages (key updates and answers to them) that wait behind unsent bytes."""

KEEP_ALIVE: Final = (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))
"""Options of TCP: seconds, and at last a number of probes. The system asks a receiver that has sent nothing for thirty
seconds whether it is there, and gives up after a minute without an answer. A machine that vanishes says nothing, and a
call may wait for ten minutes. Networks that drop connections on which nothing is said for a minute keep these, and
interruptions of up to a minute end no call. On macOS the first option has the second name. Bytes that the receiver has
not acknowledged are sent again by the system's own rule, which is longer."""


def probes() -> tuple[tuple[int, int], ...]:
    """Those of `KEEP_ALIVE` that this system has: numbers of options, and their values."""
    return tuple((getattr(socket, name), value) for name, value in KEEP_ALIVE if hasattr(socket, name))


_PROBES: Final = probes()


def receive(sock: socket.socket) -> bytes | None:
    """The bytes available: b"" if the connection ended or broke, None if there are none yet."""
    try:
        return sock.recv(_READ)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


class ConnectionEvents(Protocol):
    """Receives the events of connections, called by the loop: never from within a call to a connection."""

    def on_connected(self, connection: Any, error: OSError | None) -> None:
        """TCP is connected, or failed with `error`."""

    def on_tunnelled(self, connection: Any, failure: str) -> None:
        """The forward proxy has opened the tunnel (""), or has not, for the reason that `failure` says."""

    def on_secured(self, connection: Any, error: Exception | None) -> None:
        """The TLS handshake is complete, or failed with `error`."""

    def on_answer(self, connection: Any) -> None:
        """More of the answer came, or unsolicited bytes."""

    def on_lost(self, connection: Any) -> None:
        """The connection ended or broke; nothing more will be read."""


class Connection(Generic[A]):
    """`attempt`: the one whose request is under way, or that waits for the connection. `requests`: how many were sent.
    `ending`: the receiver closed its side, or makes TLS answer much while it reads nothing."""

    __slots__ = (
        "_behind",
        "_events",
        "_loop",
        "_sock",
        "_unsent",
        "answer",
        "attempt",
        "closed",
        "descriptor",
        "ending",
        "idle_since",
        "key",
        "opened_at",
        "requests",
        "tls",
    )

    def __init__(
        self,
        *,
        events: ConnectionEvents,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        key: PoolKey,
        attempt: A,
        opened_at: float,
        answer: Answer,
    ) -> None:
        """The connection takes ownership of `sock`."""
        self._events = events
        self._loop = loop
        self._sock = sock
        self._unsent: memoryview | None = None
        self._behind = bytearray()
        self.descriptor = sock.fileno()
        self.key = key
        self.attempt: A | None = attempt
        self.answer = answer
        self.tls: Tls | None = None
        self.opened_at = self.idle_since = opened_at
        self.requests = 0
        self.closed = self.ending = False

    def connect(self) -> None:
        """Begin to connect; `on_connected` follows. Raises OSError if it fails at once."""
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _PROBES:
            self._sock.setsockopt(socket.IPPROTO_TCP, option, value)
        with contextlib.suppress(BlockingIOError):
            self._sock.connect((self.key.address, self.key.port))
        self._loop.add_writer(self.descriptor, self._connected)

    def _connected(self) -> None:
        code = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code:
            self._loop.add_reader(self.descriptor, self._read)
        self._loop.remove_writer(self.descriptor)
        self._events.on_connected(self, OSError(code, errno.errorcode.get(code, "")) if code else None)

    def tunnel(self, head: bytes) -> None:
        """Ask the forward proxy for a tunnel with this request; `on_tunnelled` follows."""
        self._loop.add_reader(self.descriptor, self._hear_proxy, bytearray())
        with contextlib.suppress(OSError):  # a broken connection is seen by the reader
            self._sock.send(head)

    def _hear_proxy(self, answer: bytearray) -> None:
        data = receive(self._sock)
        if data is None:
            return
        answer += data
        failure = tunnel_failure(bytes(answer)) if data else "the forward proxy closed the connection"
        if failure is not None:
            self._events.on_tunnelled(self, failure)

    def secure(self, tls: Tls) -> None:
        """Begin the handshake; `on_secured` follows."""
        self.tls = tls
        self._loop.add_reader(self.descriptor, self._shake_hands)
        tls.shake_hands(b"")
        self._pass_on(tls)

    def _shake_hands(self) -> None:
        tls = self.tls
        assert tls is not None
        try:
            data = self._sock.recv(_READ)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._events.on_secured(self, error)
            return
        failure: Exception | None = None
        if not data or not self.answer.count(len(data)):
            failure = ConnectionError("the connection was closed during the TLS handshake")
        else:
            try:
                if not tls.shake_hands(data):
                    self._pass_on(tls)
                    return
            except ssl.SSLError as error:
                failure = error
        self._pass_on(tls)
        if failure is None:
            self._loop.add_reader(self.descriptor, self._read)
        self._events.on_secured(self, failure)

    def send(self, data: bytes) -> None:
        """Write a request. Raises OSError if nothing of it has left; then no part of it is written later either."""
        if self._unsent is not None:
            raise BlockingIOError
        if self.tls is not None:
            data = self.tls.seal(data)
        sent = self._sock.send(data)
        self.requests += 1
        if sent < len(data):
            self._unsent = memoryview(data)[sent:]
            self._loop.add_writer(self.descriptor, self._send_more)

    def _send_more(self) -> None:
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            # The receiver reads no more, but it may have answered: the reader reports the end of the connection.
            self._unsent = self._unsent[:0]
            self._loop.remove_writer(self.descriptor)
            return
        if not self._unsent and self._behind:
            self._unsent, self._behind = memoryview(self._behind), bytearray()
        elif not self._unsent:
            self._loop.remove_writer(self.descriptor)
            self._unsent = None

    def _pass_on(self, tls: Tls) -> None:
        """Send TLS's own messages (handshake, alerts, key updates), after what is still unsent."""
        data = tls.take()
        if not data:
            return
        if self._unsent is not None:
            self._behind += data
            self.ending = self.ending or len(self._behind) > _BEHIND_BYTES
            return
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return
        if sent < len(data):
            self._unsent = memoryview(data)[sent:]
            self._loop.add_writer(self.descriptor, self._send_more)

    @property
    def sending(self) -> bool:
        """Whether a part of the request is still unsent."""
        return self._unsent is not None

    def looks_alive(self) -> bool:
        """Whether the socket reports neither an end of the connection nor unsolicited bytes."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False
        return False

    def _read(self) -> None:
        data = receive(self._sock)
        if not data:
            if data is not None:
                self._events.on_lost(self)
            return
        answer, tls = self.answer, self.tls
        within = answer.count(len(data))
        if tls is not None:
            try:
                data = tls.open(data)
            except ssl.SSLError:
                self._events.on_lost(self)
                return
            self.ending = self.ending or tls.ended
            self._pass_on(tls)
        if data and answer.end is None:
            answer.feed(data)
        if data or not within:
            self._events.on_answer(self)
        if self.ending and not self.closed:
            self._events.on_lost(self)

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """Give the socket and the bytes still unsent to another owner; this connection is closed."""
        self.closed = True
        self._loop.remove_reader(self.descriptor)
        self._loop.remove_writer(self.descriptor)
        unsent = b"".join((self._unsent or b"", self._behind))
        self._unsent = self.attempt = None
        self.answer.close()
        return self._sock, unsent

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._loop.remove_reader(self.descriptor)
            self._loop.remove_writer(self.descriptor)
            self._sock.close()
            self._unsent = self.attempt = None
            self.answer.close()
