"""How many bytes came on each connection for the requests under way on it, whatever HTTP makes of them.

libcurl bounds headers and tells of a body's bytes, but it reads chunk extensions, trailers and frames of unknown kinds
for as long as they come. So bytes are counted where they arrive: before libcurl reads from a socket, by what the system
holds for it.

    opened --> begun (a request is written) --> events, counted from the third on --> ended
                   ^________________________________________________________________|

An event is one report that the socket can be read. libcurl reads `MOST_AN_EVENT` of it at most, so the first events of
a request may pass uncounted, and short answers, which are nearly all, cost no system call.

With HTTP/2 several requests are under way on a connection: each adds its allowance, and takes what is left of it with
it, so a long busy connection saves none.
"""

import fcntl
import os
import socket
import sys
import termios
from typing import Final, NamedTuple

UNCOUNTED_EVENTS: Final = 2
MOST_AN_EVENT: Final = 360_448
_NOTHING: Final = bytes(4)


class Ends(NamedTuple):
    """A connection's name. The system gives one local port to several connections that lead to different places."""

    local: str
    local_port: int
    remote: str
    remote_port: int


class Inflow:
    """One connection's."""

    __slots__ = ("allowed", "descriptor", "events", "name", "received", "requests")

    def __init__(self, descriptor: int, name: Ends) -> None:
        self.descriptor = descriptor
        self.name = name
        self.requests = 0
        self.events = 0
        self.received = 0
        self.allowed = 0


class Inflows:
    """Of all connections of one engine. `answer_bytes` is what a request allows."""

    def __init__(self, answer_bytes: int) -> None:
        self._answer_bytes = answer_bytes
        self._by_descriptor: dict[int, Inflow] = {}
        self._by_name: dict[Ends, Inflow] = {}

    def opened(self, descriptor: int) -> None:
        """A new socket; whatever had this descriptor before is closed."""
        before = self._by_descriptor.pop(descriptor, None)
        if before is not None and self._by_name.get(before.name) is before:
            del self._by_name[before.name]

    def begun(self, name: Ends, opened: list[int]) -> Inflow | None:
        """A request is written on this connection, which may be one of the sockets just opened. None: the connection
        is not known."""
        inflow = self._by_name.get(name)
        for descriptor in opened:
            if _ends(descriptor) == name:
                inflow = self._added(descriptor, name)
        if inflow is None:
            return None
        if inflow.requests == 0:
            inflow.received = inflow.allowed = 0
        inflow.requests += 1
        inflow.allowed += self._answer_bytes
        inflow.events = 0
        return inflow

    def _added(self, descriptor: int, name: Ends) -> Inflow:
        known = self._by_descriptor.get(descriptor)
        if known is not None and known.name == name:
            return known
        inflow = self._by_descriptor[descriptor] = self._by_name[name] = Inflow(descriptor, name)
        return inflow

    def ended(self, inflow: Inflow) -> None:
        """One of its requests is over."""
        inflow.requests -= 1
        inflow.allowed = min(inflow.allowed, inflow.received + inflow.requests * self._answer_bytes)

    def overrun(self, descriptor: int) -> Inflow | None:
        """The socket is about to be read. The connection, if more came than its requests allow."""
        inflow = self._by_descriptor.get(descriptor)
        if inflow is None or not inflow.requests:
            return None
        inflow.events += 1
        if inflow.events > UNCOUNTED_EVENTS:
            inflow.received += min(_unread(descriptor), MOST_AN_EVENT)
            if inflow.received > inflow.allowed:
                return inflow
        return None


def shut(inflow: Inflow) -> None:
    """Let nothing more come. The descriptor stays libcurl's, who finds the connection ended."""
    try:
        with socket.socket(fileno=os.dup(inflow.descriptor)) as ours:
            ours.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _unread(descriptor: int) -> int:
    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, _NOTHING), sys.byteorder)
    except OSError:
        return 0


def _ends(descriptor: int) -> Ends | None:
    try:
        theirs = socket.socket(fileno=descriptor)
    except OSError:
        return None
    try:
        (local, local_port, *_), (remote, remote_port, *_) = theirs.getsockname(), theirs.getpeername()
    except OSError:
        return None
    finally:
        theirs.detach()
    return Ends(_unscoped(local), local_port, _unscoped(remote), remote_port)


def _unscoped(address: str) -> str:
    """As libcurl writes it: without the interface of a link-local address."""
    return address.partition("%")[0]
