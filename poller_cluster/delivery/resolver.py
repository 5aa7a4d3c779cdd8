"""Resolves names to addresses fairly: no client can use up the look-ups that others need.

    find(client, host) --cached--> the addresses, at once
         |--the client is looking it up already--> waits for the same look-up
         |--room in the client's share--> look-up under way --answer--> cached, passed to all that wait
         `--no room--> waits until one of the client's look-ups has ended

Addresses are not judged here but when they are connected to (`target.judge_socket_address`).

A client has `names_per_client` look-ups under way at most, and never more than are still free of `names_at_once`. The
last eighth (`RESERVE`) is for clients that have none under way. So a client always finds one free, however many
unanswered names others have, unless more clients than that eighth have such names at the same time. Each client has a
cache of its own: a client with many names evicts only its own.

An address is cached for its record's TTL, between `SHORTEST_SECONDS` and `cache_seconds`; the absence of an address for
`NO_ADDRESS_SECONDS`, the absence of an answer for `NO_ANSWER_SECONDS`. Expired addresses are looked up again, and used
for `stale_seconds` more if no answer comes within `GRACE_SECONDS`: calls to a receiver go on while its name servers do
not answer. An answer that the name has no address takes effect at once. With `cache_seconds` 0 nothing is cached.

The state machine is pure but for its callbacks; `resolver_cares` asks the name servers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple, Protocol

RESERVE = 1 / 8
SHORTEST_SECONDS = 1.0
NO_ADDRESS_SECONDS = 5.0
NO_ANSWER_SECONDS = 1.0
GRACE_SECONDS = 0.25
REMEMBERED_IN_ALL = 50_000
"""Cached names of all clients; beyond that, the client that was cached first loses all of its names."""

Failure = Literal["no-address", "no-answer"]


class Answer(NamedTuple):
    """The result of one look-up. `seconds` is the TTL of the addresses."""

    addresses: tuple[str, ...]
    seconds: float = 0.0
    failure: Failure | None = None


class Found(NamedTuple):
    """Addresses in the order to try them, or why there are none."""

    addresses: tuple[str, ...]
    failure: Failure | None = None


OnFound = Callable[[Found], None]
Later = Callable[[float, Callable[[], None]], object]
"""Calls back after a number of seconds."""


class LookUp(Protocol):
    """Asks the name servers, with its own time-out. `on_answer` is called once, never from within the call. Must not
    raise: a name counts as being looked up until its answer comes."""

    def __call__(self, host: str, on_answer: Callable[[Answer], None]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverBounds:
    cache_seconds: float
    stale_seconds: float
    names_at_once: int
    names_per_client: int
    remembered_per_client: int


class _Known(NamedTuple):
    found: Found
    fresh_until: float
    usable_until: float


class _Query:
    """A look-up, queued or (since `began`) under way, and those that wait for it."""

    __slots__ = ("began", "host", "share", "waiting")

    def __init__(self, share: "_Share", host: str) -> None:
        self.share = share
        self.host = host
        self.waiting: dict[Waiting, None] = {}
        self.began: float | None = None


class _Share:
    """The cache and the look-ups of one client."""

    __slots__ = ("asked", "client", "known", "queue", "under_way")

    def __init__(self, client: str) -> None:
        self.client = client
        self.known: dict[str, _Known] = {}
        self.asked: dict[str, _Query] = {}
        self.queue: dict[str, _Query] = {}
        self.under_way = 0


class Waiting:
    """A handle on one wait for a name, for `Resolver.give_up`."""

    __slots__ = ("asked", "on_found")

    def __init__(self, asked: _Query, on_found: OnFound) -> None:
        self.asked = asked
        self.on_found = on_found


class Resolver:
    """See the module. All calls must come from one event loop."""

    def __init__(
        self,
        *,
        look_up: LookUp,
        now: Callable[[], float],
        later: Later,
        bounds: ResolverBounds,
    ) -> None:
        self._look_up = look_up
        self._now = now
        self._later = later
        self._bounds = bounds
        self._shares: dict[str, _Share] = {}
        self._queued: dict[_Share, None] = {}
        self._under_way = 0
        self._remembered = 0

    @property
    def under_way(self) -> int:
        """Look-ups that the name servers have not answered yet."""
        return self._under_way

    def known(self, client: str, host: str) -> Found | None:
        """The cached result, if it has not expired."""
        share = self._shares.get(client)
        known = None if share is None else share.known.get(host)
        return known.found if known is not None and self._now() < known.fresh_until else None

    def find(self, client: str, host: str, on_found: OnFound) -> Found | Waiting:
        """The cached result, or a handle on the wait for it: `on_found` is then called once, unless the wait is given
        up before."""
        now = self._now()
        share = self._shares.get(client)
        if share is None:
            share = self._shares[client] = _Share(client)
        known = share.known.get(host)
        if known is not None and now < known.fresh_until:
            return known.found
        asked = share.asked.get(host)
        usable = known is not None and now < known.usable_until
        if asked is None:
            asked = share.asked[host] = share.queue[host] = _Query(share, host)
            if usable:
                self._later(GRACE_SECONDS, lambda: self._tell_stale(share, host))
            self._queued[share] = None
            self._go_on(share)
        elif known is not None and usable and asked.began is not None and now >= asked.began + GRACE_SECONDS:
            return known.found
        waiting = Waiting(asked, on_found)
        asked.waiting[waiting] = None
        return waiting

    def give_up(self, waiting: Waiting) -> None:
        """End a wait; its `on_found` is not called. A look-up that has begun goes on, because its answer is cached."""
        asked = waiting.asked
        asked.waiting.pop(waiting, None)
        if not asked.waiting and asked.began is None:
            share = asked.share
            share.queue.pop(asked.host, None)
            share.asked.pop(asked.host, None)
            self._tidy(share)

    def _may_begin(self, share: _Share) -> bool:
        bounds = self._bounds
        free = bounds.names_at_once - self._under_way
        if share.under_way == 0:
            return free > 0
        return share.under_way < min(bounds.names_per_client, free - bounds.names_at_once * RESERVE)

    def _go_on(self, share: _Share) -> None:
        while share.queue and self._may_begin(share):
            host = next(iter(share.queue))
            asked = share.queue.pop(host)
            asked.began = self._now()
            share.under_way += 1
            self._under_way += 1
            self._look_up(host, partial(self._answered, asked))
        if not share.queue:
            self._queued.pop(share, None)

    def _answered(self, asked: _Query, answer: Answer) -> None:
        share = asked.share
        share.under_way -= 1
        self._under_way -= 1
        share.asked.pop(asked.host, None)
        found = self._remember(share, asked.host, answer)
        for waiting in asked.waiting:
            waiting.on_found(found)
        self._go_on(share)
        # What this look-up has freed of `names_at_once` may be for other clients.
        for other in list(self._queued):
            self._go_on(other)
        self._tidy(share)

    def _remember(self, share: _Share, host: str, answer: Answer) -> Found:
        now, bounds = self._now(), self._bounds
        before = share.known.pop(host, None)
        self._remembered -= before is not None
        found, usable_until = Found(answer.addresses, answer.failure), 0.0
        if answer.failure is None:
            seconds = max(answer.seconds, SHORTEST_SECONDS)
            usable_until = now + min(seconds, bounds.cache_seconds) + bounds.stale_seconds
        elif answer.failure == "no-address":
            seconds = NO_ADDRESS_SECONDS
        else:
            seconds = NO_ANSWER_SECONDS
            if before is not None and now < before.usable_until:
                found, usable_until = before.found, before.usable_until
        if bounds.cache_seconds > 0:
            share.known[host] = _Known(found, now + min(seconds, bounds.cache_seconds), usable_until)
            self._remembered += 1
            if len(share.known) > bounds.remembered_per_client:
                self._forget(share, 1)
            while self._remembered > REMEMBERED_IN_ALL:
                first = next(each for each in self._shares.values() if each.known)
                self._forget(first, len(first.known))
        return found

    def _forget(self, share: _Share, names: int) -> None:
        for host in list(islice(share.known, names)):
            del share.known[host]
            self._remembered -= 1
        self._tidy(share)

    def _tell_stale(self, share: _Share, host: str) -> None:
        """The answer is late: those that wait go on with the expired addresses."""
        asked, known = share.asked.get(host), share.known.get(host)
        if asked is None or known is None or self._now() >= known.usable_until:
            return
        waiting, asked.waiting = asked.waiting, {}
        for each in waiting:
            each.on_found(known.found)

    def _tidy(self, share: _Share) -> None:
        if not (share.known or share.asked):
            self._queued.pop(share, None)
            self._shares.pop(share.client, None)
