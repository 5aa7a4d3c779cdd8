"""Which of libcurl's sockets are ready, seen by the event loop as one descriptor.

libcurl asks to watch and to forget its socket around every request, also on kept connections. Through the loop's own
`add_reader` and `remove_reader` that costs as much as the rest of the request; a nested epoll costs one system call
(36 against 20 us a request under uvloop, both included all the rest).
"""

import select
import selectors
from typing import Protocol

import pycurl

_READ = pycurl.POLL_IN
_WRITE = pycurl.POLL_OUT


class Readiness(Protocol):
    """A set of watched descriptors that is itself a descriptor, readable while any of them is ready."""

    def fileno(self) -> int: ...

    def watch(self, descriptor: int, interest: int) -> None:
        """Watch for POLL_IN, POLL_OUT or both; replaces an earlier interest."""

    def forget(self, descriptor: int) -> None:
        """No more interest. Called before the descriptor is closed; unknown ones are ignored."""

    def ready(self) -> list[tuple[int, int]]:
        """(descriptor, CSELECT_* bits) of some that are ready now; never waits."""

    def close(self) -> None: ...


def system_readiness() -> Readiness:
    """The best this system has: epoll on Linux, kqueue on the BSDs and macOS."""
    return EpollReadiness() if hasattr(select, "epoll") else SelectorReadiness()


class EpollReadiness:
    """Forgotten descriptors stay registered until they are watched again, closed (epoll then drops them by itself) or
    turn ready, which for an idle connection means that its peer has closed it."""

    __slots__ = ("_epoll", "_interest")

    _BATCH = 256
    _IDLE = 0

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._interest: dict[int, int] = {}

    def fileno(self) -> int:
        return self._epoll.fileno()

    def watch(self, descriptor: int, interest: int) -> None:
        events = (select.EPOLLIN if interest & _READ else 0) | (select.EPOLLOUT if interest & _WRITE else 0)
        if descriptor not in self._interest:
            self._epoll.register(descriptor, events)
        else:
            try:
                self._epoll.modify(descriptor, events)
            except FileNotFoundError:
                self._epoll.register(descriptor, events)
        self._interest[descriptor] = interest

    def forget(self, descriptor: int) -> None:
        if descriptor in self._interest:
            self._interest[descriptor] = self._IDLE

    def ready(self) -> list[tuple[int, int]]:
        found = []
        for descriptor, events in self._epoll.poll(0, self._BATCH):
            if self._interest.get(descriptor, self._IDLE) == self._IDLE:
                self._drop(descriptor)
                continue
            bits = pycurl.CSELECT_IN if events & (select.EPOLLIN | select.EPOLLHUP) else 0
            if events & select.EPOLLOUT:
                bits |= pycurl.CSELECT_OUT
            if events & select.EPOLLERR:
                bits |= pycurl.CSELECT_ERR
            found.append((descriptor, bits))
        return found

    def _drop(self, descriptor: int) -> None:
        self._interest.pop(descriptor, None)
        try:
            self._epoll.unregister(descriptor)
        except OSError:
            return

    def close(self) -> None:
        self._epoll.close()
        self._interest.clear()


class SelectorReadiness:
    """Over the standard library's selector, for systems without epoll."""

    __slots__ = ("_selector",)

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def fileno(self) -> int:
        return self._selector.fileno()

    def watch(self, descriptor: int, interest: int) -> None:
        events = (selectors.EVENT_READ if interest & _READ else 0) | (selectors.EVENT_WRITE if interest & _WRITE else 0)
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)

    def forget(self, descriptor: int) -> None:
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def ready(self) -> list[tuple[int, int]]:
        return [
            (
                key.fd,
                (pycurl.CSELECT_IN if events & selectors.EVENT_READ else 0)
                | (pycurl.CSELECT_OUT if events & selectors.EVENT_WRITE else 0),
            )
            for key, events in self._selector.select(0)
        ]

    def close(self) -> None:
        self._selector.close()
