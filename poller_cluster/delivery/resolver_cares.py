"""DNS look-ups by c-ares on the event loop, without threads: no look-up waits for another.

The system's configuration applies: the order of `hosts:` in nsswitch.conf as far as c-ares knows it (files, dns), hosts
files, and the name servers, search domains and `ndots` of resolv.conf, but not its time-outs. So names are completed by
search domains as in other programs: in a Kubernetes pod (`ndots:5`) a service's short name is found, and a name with
fewer than five dots costs one query for each search domain first unless it ends in a dot. Addresses come sorted by RFC
6724, both families in turns.

A c-ares channel is replaced after `CHANNEL_SECONDS` or `CHANNEL_NAMES` look-ups. That picks up changes of resolv.conf,
and bounds the cache of c-ares itself.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import pycares
from pycares import errno as ares

from poller_cluster.delivery.resolver import Answer, Failure

CHANNEL_SECONDS = 30.0
CHANNEL_NAMES = 2_000
QUERY_TRIES = 2
ADDRESSES_A_FAMILY = 8
_NO_ADDRESS = frozenset({ares.ARES_ENODATA, ares.ARES_ENOTFOUND, ares.ARES_EBADNAME, ares.ARES_ENONAME})

OnAnswer = Callable[[Answer], None]


class _Channel:
    """A c-ares channel with its sockets on the loop and one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, nameservers: Sequence[str], try_seconds: float) -> None:
        self.born = loop.time()
        self.names = 0
        self.under_way = 0
        self.retired = False
        self._loop = loop
        self._closed = False
        self._readers: set[int] = set()
        self._writers: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._channel = pycares.Channel(
            timeout=try_seconds, tries=QUERY_TRIES, servers=list(nameservers) or None, sock_state_cb=self._watch
        )

    def look_up(self, host: str, on_answer: OnAnswer) -> None:
        self.names += 1
        self.under_way += 1
        try:
            self._channel.getaddrinfo(host, None, type=socket.SOCK_STREAM, callback=partial(self._answered, on_answer))
        except (UnicodeError, ValueError, pycares.AresError):
            self._answered(on_answer, None, ares.ARES_EBADNAME)
        self._set_timer()

    def _answered(self, on_answer: OnAnswer, result: Any, error: int | None) -> None:
        """Called by c-ares, perhaps from within `look_up`."""
        self.under_way -= 1
        if not self._closed:
            self._loop.call_soon(self._tell, on_answer, _answer(result, error))
            if self.retired and not self.under_way:
                self._loop.call_soon(self.close)

    def _tell(self, on_answer: OnAnswer, answer: Answer) -> None:
        if not self._closed:
            on_answer(answer)

    def _watch(self, descriptor: int, readable: bool, writable: bool) -> None:
        if readable and not self._closed and descriptor not in self._readers:
            self._loop.add_reader(descriptor, self._ready, descriptor, pycares.ARES_SOCKET_BAD)
            self._readers.add(descriptor)
        elif not readable and descriptor in self._readers:
            self._loop.remove_reader(descriptor)
            self._readers.discard(descriptor)
        if writable and not self._closed and descriptor not in self._writers:
            self._loop.add_writer(descriptor, self._ready, pycares.ARES_SOCKET_BAD, descriptor)
            self._writers.add(descriptor)
        elif not writable and descriptor in self._writers:
            self._loop.remove_writer(descriptor)
            self._writers.discard(descriptor)

    def _ready(self, readable: int, writable: int) -> None:
        if not self._closed:
            self._channel.process_fd(readable, writable)
            self._set_timer()

    def _set_timer(self) -> None:
        if self._closed or not self.under_way:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return
        seconds: float = self._channel.timeout()  # type: ignore[no-untyped-call]
        due = self._loop.time() + max(seconds, 0.001)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._rang)

    def _rang(self) -> None:
        self._timer = None
        self._ready(pycares.ARES_SOCKET_BAD, pycares.ARES_SOCKET_BAD)

    def retire(self) -> None:
        """Take no more look-ups; close when those under way are over."""
        self.retired = True
        if not self.under_way:
            self.close()

    def close(self) -> None:
        """End all look-ups without calling back. c-ares closes its sockets here; pycares frees the channel on another
        thread."""
        if self._closed:
            return
        self._closed = True
        self._channel.cancel()
        for descriptor in [*self._readers, *self._writers]:
            self._watch(descriptor, False, False)
        self._set_timer()
        self._channel.close()


class CaresLookUp:
    """The `LookUp` of one event loop; has to be closed. `seconds` bounds each look-up approximately; `nameservers`
    replace the system's if there are any; without `cache`, c-ares caches nothing either."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, nameservers: Sequence[str], seconds: float, cache: bool
    ) -> None:
        self._loop = loop
        self._nameservers = nameservers
        self._names = CHANNEL_NAMES if cache else 1
        # c-ares doubles the time-out for the second try: 1/3 + 2/3 of `seconds`.
        self._try_seconds = max(seconds / 3, 0.1)
        self._channel: _Channel | None = None
        self._retired: list[_Channel] = []
        self._closed = False

    def __call__(self, host: str, on_answer: OnAnswer) -> None:
        try:
            channel = self._usable_channel()
        except (pycares.AresError, OSError, RuntimeError):
            # The process lacks resources for a channel (memory, a thread). The contract still requires an answer.
            self._loop.call_soon(self._tell_failure, on_answer)
        else:
            channel.look_up(host, on_answer)

    def _tell_failure(self, on_answer: OnAnswer) -> None:
        if not self._closed:
            on_answer(Answer((), failure="no-answer"))

    def _usable_channel(self) -> _Channel:
        channel = self._channel
        if channel is None or channel.names >= self._names or self._loop.time() >= channel.born + CHANNEL_SECONDS:
            if channel is not None:
                channel.retire()
                self._retired = [each for each in (*self._retired, channel) if each.under_way]
                self._channel = None
            channel = self._channel = _Channel(self._loop, nameservers=self._nameservers, try_seconds=self._try_seconds)
        return channel

    def close(self) -> None:
        """End all look-ups without calling back."""
        self._closed = True
        for channel in self._retired:
            channel.close()
        if self._channel is not None:
            self._channel.close()


def _answer(result: Any, error: int | None) -> Answer:
    nodes = () if result is None else result.nodes
    if not nodes:
        failure: Failure = "no-address" if error is None or error in _NO_ADDRESS else "no-answer"
        return Answer((), failure=failure)
    addresses = tuple(dict.fromkeys(_text(node.addr[0]) for node in nodes))
    return Answer(in_turns(addresses), float(min(node.ttl for node in nodes)))


def in_turns(addresses: Sequence[str]) -> tuple[str, ...]:
    """Interleave the families, that of the first address first, and keep the order within each. Each family is cut to
    its first addresses, because every attempt looks through all of them."""
    first = [each for each in addresses if (":" in each) is (":" in addresses[0])][:ADDRESSES_A_FAMILY]
    other = [each for each in addresses if (":" in each) is not (":" in addresses[0])][:ADDRESSES_A_FAMILY]
    return tuple(each for pair in zip_longest(first, other) for each in pair if each is not None)


def _text(address: Any) -> str:
    return address.decode() if isinstance(address, bytes) else str(address)
