"""Where calls go: per client and receiver host, how many at a time, how many a second, and when not at all. Pure.

A destination is named as the client's setting `destinations` names it: `host:port` where that is listed, else `host`
(then all its ports share one limit), else whatever the URL says. What the client does not limit has a share of the
client's own limit (`destination_share`), so that one host that hangs leaves room for the others, and is called over
a bounded number of connections (`destination_connections`); the breaker (see `Breaker`) holds back what a failing host
would get.

The client's limits hold over all nodes: each node takes the part that its pollers are of the client's quota, and at
least one call at a time. So they are kept without asking anybody, and a client whose load sits in few pollers may stay
below its limit. Breakers are each node's own opinion.

Rates are token buckets: `max_per_second` tokens a second, at most a tenth of a second's worth saved up (one at least),
so in no second more than 1.1 times the limit starts.

    claim   room(part) > 0     else the row waits unclaimed; `on_free` tells when to look again; see `part_for`
            held_back(due)     open then: requeued unclaimed, see `dispatch.outcome.defer`
    start   delay() == 0       else the job waits in `waiting`, behind those of its host only
    end     ended()

Per client a bounded number of destinations is remembered (`destinations_per_client`) beside those in use. Hosts that
did not fail are forgotten first, of those the ones that were met longest ago; whoever is forgotten begins with a closed
breaker and a full bucket.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Generic, TypeVar

from poller_cluster.delivery.result import AttemptResult
from poller_cluster.settings import DestinationSettings
from scheduler_service.domain.clients import ClientSettings, DestinationLimit
from scheduler_service.domain.ids import MAX_DUE, ClientId

SAVED_SECONDS = 0.1
"""How much of a rate may be saved up."""
CLAIMED_SECONDS = 1.0
"""Rows of a limited rate are claimed this far ahead at most: until then a cancel is certain."""
ROUNDING = 1e-6
"""A third of three is one, whatever floating point says."""
_NO_LIMIT = DestinationLimit()
_PORTS = {"http:": "80", "https:": "443"}

J = TypeVar("J")

_HOST_ERRORS = frozenset(
    {"connect-failed", "connect-refused", "resolve-failed", "tls-failed", "timeout", "reset", "bad-response"}
)
_TOO_MANY_REQUESTS = 429
_LARGEST_DOUBLING = 30

DUE, SOON, LATER = 1.0, 0.75, 0.5
"""The parts of a limit."""


class Health(Enum):
    """What one attempt says of its host."""

    GOOD = "good"
    BAD = "bad"
    SILENT = "silent"


def health(result: AttemptResult) -> Health:
    """See `Breaker` for what counts as what."""
    if result.status is not None:
        bad = result.status >= 500 or result.status == _TOO_MANY_REQUESTS
        return Health.BAD if bad else Health.GOOD
    return Health.BAD if result.error in _HOST_ERRORS else Health.SILENT


class Breaker:
    """A breaker: keeps calls away from a host that does nothing but fail, and tries it again with few. Pure.

        closed --failures in a row--> open --its time is over--> half-open --a success--> closed
                                       ^-----------a failure: twice as long-----'

    What counts as a failure is what a gateway would call one of the host, not of the single request: no connection, no
    answer in time, an answer that is no HTTP, 5xx, and 429. Any other status shows that somebody is there and resets
    the count. Counting failures in a row is what Envoy's outlier detection does (`consecutive_5xx`, with the ejection
    time growing by the number of ejections); doubling the time is Nygard's circuit breaker with the field's usual
    backoff ("Release It!", 2007). Our own endings (refused by policy, trust lost, engine stopped) say nothing of the
    host.

    Several attempts are under way when a breaker opens; what they come to later is not counted again: every attempt
    remembers the breaker's `generation`, which changes with each opening and closing.

    Of one (client, host). Every `now` is monotonic seconds.
    """

    __slots__ = ("_failures", "_opened", "_settings", "generation", "until")

    def __init__(self, settings: DestinationSettings) -> None:
        self._settings = settings
        self._failures = 0
        self._opened = 0
        self.generation = 0
        self.until = 0.0
        """While open: when the host may be tried again."""

    @property
    def closed(self) -> bool:
        return self._opened == 0

    @property
    def spotless(self) -> bool:
        """Nothing would be forgotten with it."""
        return self._opened == 0 and self._failures == 0

    def is_open(self, now: float) -> bool:
        """Closed to everybody; afterwards it is half-open until somebody's attempt has ended."""
        return self._opened > 0 and now < self.until

    @property
    def open_seconds(self) -> float:
        """How long this opening lasts as a whole."""
        settings = self._settings
        doubled = settings.breaker_open_seconds * 2.0 ** min(max(self._opened - 1, 0), _LARGEST_DOUBLING)
        return min(settings.breaker_longest_seconds, doubled)

    def ended(self, came_to: Health, *, generation: int, now: float) -> bool:
        """An attempt begun under `generation` has ended. True when that opened or closed the breaker."""
        if generation != self.generation or came_to is Health.SILENT:
            return False
        if came_to is Health.GOOD:
            self._failures = 0
            changed, self._opened = self._opened > 0, 0
            self.generation += changed
            return changed
        if self.is_open(now):
            return False
        self._failures += 1
        if self._opened == 0 and self._failures < self._settings.breaker_failures:
            return False
        self._failures = 0
        self._opened += 1
        self.generation += 1
        self.until = now + self.open_seconds
        return True


def part_for(due_in_ms: int, *, lead_ms: int) -> float:
    """The part of a limit that a row may find taken up, itself included. Soon is within `lead_ms`.

    How much of a limit rows may take up before they are due. Pure.

    A claimed row holds its room until it has been called. Pollers don't know of each other's rows: what one of them
    claims for later is missing to another one whose row is due now. With a limit of two to a host, and over eight
    pollers ten calls a second that took 10 ms each, calls were 30 s late. So rows that are due may take up all of a
    limit, rows that soon will be three quarters of it, the others half; of a limit of one nothing is given to rows that
    are not due."""
    if due_in_ms <= 0:
        return DUE
    return SOON if due_in_ms <= lead_ms else LATER


def longest_due_in(part: float, *, lead_ms: int) -> int:
    """How long before their due, in milliseconds, rows may be for `part_for` to say this part."""
    if part == DUE:
        return 0
    return lead_ms if part == SOON else MAX_DUE


def due_within(part: float, *, lead_ms: int, ahead_ms: int) -> int:
    """How far ahead rows may be due that take up `part` of a limit; `ahead_ms` is what holds where there is room."""
    if part <= LATER:
        return ahead_ms
    return min(lead_ms, ahead_ms) if part <= SOON else 0


class Destination(Generic[J]):
    """One host of one client. Every `now` is monotonic seconds. `waiting` holds jobs that are due."""

    __slots__ = (
        "_at_once",
        "_filled_at",
        "_limit",
        "_on_free",
        "_rate",
        "_refused",
        "_settings",
        "_tell_at",
        "_tokens",
        "breaker",
        "in_flight",
        "name",
        "outstanding",
        "reserved",
        "waiting",
    )

    def __init__(self, name: str, settings: DestinationSettings, on_free: Callable[[], None]) -> None:
        self.name = name
        self.breaker = Breaker(settings)
        self.waiting: deque[J] = deque()
        self.in_flight = 0
        self.outstanding = 0
        """Claimed rows on their way: those in flight and those that wait for it."""
        self.reserved = 0
        """Rows that are being claimed."""
        self._settings = settings
        self._on_free = on_free
        self._refused = 0.0
        self._tell_at = 0
        """Where rows were refused: none may be claimed while more than so many are taken. An upper bound, so that most
        ends skip the exact question."""
        self._limit = self._at_once = 1
        self._rate: float | None = None
        self._tokens = 0.0
        self._filled_at = -math.inf

    def set_limits(self, asked: DestinationLimit, *, max_in_flight: int, share: float) -> None:
        """`max_in_flight` is the client's own, `share` this node's part of the client."""
        own = max(int(max_in_flight * share + ROUNDING), 1)
        if asked.max_in_flight is None:
            self._limit = math.ceil(own * self._settings.destination_share - ROUNDING)
            self._at_once = min(self._limit, self._settings.destination_connections)
        else:
            self._limit = self._at_once = min(max(int(asked.max_in_flight * share + ROUNDING), 1), own)
        self._rate = None if asked.max_per_second is None else asked.max_per_second * share
        self._tell_at = own

    # Claims.

    def held_back(self, now: float, due_in: float) -> bool:
        """Whether a row due in so many seconds would find the breaker open."""
        return self.breaker.is_open(now + max(due_in, 0.0))

    def room(self, part: float = DUE) -> int:
        """How many more rows may be claimed of those that may take up this part of the limits. Rows of a limited rate
        are not claimed long before they may start."""
        taken = self.outstanding + self.reserved
        return min(int(self._parallel() * part) - taken, int(self._ahead() * part) - (taken - self.in_flight))

    def _ahead(self) -> int:
        """How many rows may wait claimed."""
        return self._limit if self._rate is None else max(math.ceil(self._rate * CLAIMED_SECONDS), 1)

    def _parallel(self) -> int:
        return self._limit if self.breaker.closed else min(self._settings.breaker_probes, self._limit)

    def refuse(self, part: float = DUE) -> None:
        """A row that may take up this part of the limits was not claimed for want of room: tell when there is some."""
        if int(min(self._limit, self._ahead()) * part) < 1:
            # There never is any before they are due, and then they are looked at without being told.
            return
        self._refused = max(self._refused, part)
        self._tell_at = int(self._limit * self._refused) - self._quarter()

    # Attempts.

    def delay(self, now: float) -> float | None:
        """Seconds until an attempt may start: 0 now, None when another has to end first. Not asked while open."""
        if self.in_flight >= min(self._at_once, self._parallel()):
            return None
        if self._rate is None:
            return 0.0
        most = max(self._rate * SAVED_SECONDS, 1.0)
        if now > self._filled_at:
            self._tokens = min(self._tokens + (now - self._filled_at) * self._rate, most)
            self._filled_at = now
        return 0.0 if self._tokens >= 1.0 else (1.0 - self._tokens) / self._rate

    def started(self) -> int:
        """Answers the breaker's generation, to be given to `ended`."""
        self.in_flight += 1
        if self._rate is not None:
            self._tokens -= 1.0
            self._tell_of_room()
        return self.breaker.generation

    def ended(self, result: AttemptResult, *, generation: int, now: float) -> bool:
        """True when that opened or closed the breaker: whoever waits must be judged again."""
        self.in_flight -= 1
        if self.breaker.spotless and result.succeeded:
            return False
        changed = self.breaker.ended(health(result), generation=generation, now=now)
        if changed:
            self._tell()
        return changed

    def released(self) -> None:
        """A claimed row has ended or was given back."""
        self.outstanding -= 1
        self._tell_of_room()

    def claimed(self, rows: int) -> None:
        """So many rows that were being claimed are on their way, or wait again."""
        self.reserved -= rows
        self._tell_of_room()

    def _tell_of_room(self) -> None:
        taken = self.outstanding + self.reserved
        if not self._refused or taken > self._tell_at:
            return
        if self.room(self._refused) >= self._quarter() or (self._refused == DUE and taken == 0):
            self._tell()

    def _quarter(self) -> int:
        """Room worth telling of: looking again has a cost, and the first to look takes all there is."""
        return max(min(self._parallel(), self._ahead()) // 4, 1)

    def _tell(self) -> None:
        if self._refused:
            self._refused = 0.0
            self._on_free()

    @property
    def in_use(self) -> bool:
        return self.outstanding > 0 or self.reserved > 0 or self.in_flight > 0 or self._refused > 0


class _Client(Generic[J]):
    """The destinations of one client, under the settings and the share that they were made with."""

    __slots__ = ("aliases", "by_name", "settings", "share")

    def __init__(self) -> None:
        self.settings: ClientSettings | None = None
        self.share = 0.0
        self.by_name: dict[str, Destination[J]] = {}
        self.aliases: dict[str, Destination[J]] = {}


class Destinations(Generic[J]):
    """Those of all clients of a node. `on_free(client_id)`: rows of that client that wait unclaimed may be claimed."""

    def __init__(self, settings: DestinationSettings, *, on_free: Callable[[ClientId], None]) -> None:
        self._settings = settings
        self._on_free = on_free
        self._clients: dict[ClientId, _Client[J]] = {}

    def of(self, client_id: ClientId, url: str, settings: ClientSettings, *, share: float) -> Destination[J]:
        """The destination of a URL. `settings` are effective; `share` is this node's part of the client's pollers."""
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = _Client()
        if client.settings is not settings or client.share != share:
            self._follow(client, settings, share)
        origin = origin_of(url)
        found = client.aliases.get(origin)
        if found is None:
            found = self._remember(client_id, client, origin)
        return found

    def all(self) -> Iterator[tuple[ClientId, Destination[J]]]:
        for client_id, client in self._clients.items():
            for destination in client.by_name.values():
                yield client_id, destination

    def _follow(self, client: _Client[J], settings: ClientSettings, share: float) -> None:
        # Names depend on what is listed; those in use keep what they count under the name they have.
        client.settings, client.share = settings, share
        client.aliases.clear()
        for destination in client.by_name.values():
            self._limit(client, destination)

    def _limit(self, client: _Client[J], destination: Destination[J]) -> None:
        assert client.settings is not None
        destination.set_limits(
            client.settings.destinations.get(destination.name, _NO_LIMIT),
            max_in_flight=client.settings.max_in_flight or 1,
            share=client.share,
        )

    def _remember(self, client_id: ClientId, client: _Client[J], origin: str) -> Destination[J]:
        assert client.settings is not None
        name = name_of(origin, client.settings.destinations)
        found = client.by_name.pop(name, None)
        if found is None:
            self._forget_some(client)
            found = Destination(name, self._settings, lambda: self._on_free(client_id))
            self._limit(client, found)
        if len(client.aliases) >= 2 * self._settings.destinations_per_client:
            client.aliases.clear()
        client.by_name[name] = client.aliases[origin] = found
        return found

    def _forget_some(self, client: _Client[J]) -> None:
        bound = self._settings.destinations_per_client
        if len(client.by_name) < bound:
            return
        # A whole eighth at once: the scan is then rare however many hosts a client has.
        idle = [name for name, each in client.by_name.items() if not each.in_use]
        idle.sort(key=lambda name: not client.by_name[name].breaker.spotless)
        for name in idle[: max(bound // 8, 1)]:
            del client.by_name[name]
        client.aliases.clear()


def origin_of(url: str) -> str:
    """Scheme and authority of a URL, as it writes them."""
    start = url.find("//") + 2
    end = url.find("/", start)
    origin = url if end < 0 else url[:end]
    if "?" in origin or "#" in origin:
        origin = origin.partition("?")[0].partition("#")[0]
    return origin


def name_of(origin: str, listed: dict[str, DestinationLimit]) -> str:
    """How a client's settings name this origin; unlisted: the host, with its port unless that is the scheme's own."""
    host, port, usual = _split(origin)
    if f"{host}:{port}" in listed:
        return f"{host}:{port}"
    return host if usual or host in listed else f"{host}:{port}"


@lru_cache(maxsize=4096)
def _split(origin: str) -> tuple[str, str, bool]:
    """(host, port, whether the port is the scheme's own)."""
    scheme, _, authority = origin.lower().partition("//")
    authority = authority.rpartition("@")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host, port = authority, ""
    own = _PORTS.get(scheme, "")
    return host, port or own, port in ("", own)
