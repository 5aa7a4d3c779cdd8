"""Limits on calls for each client and receiver host: how many at a time, how many a second, and when none. Pure.

A receiver is named as the client's setting `hosts` names it: `host:port` if that is listed, else `host` if
that is listed (then all its ports share one limit), else as in the URL. A receiver without a limit of its own gets a
share of the client's (`receiver_share`), so that a hanging host leaves room for the others, over a bounded number of
connections (`receiver_connections`); the breaker (see `Breaker`) keeps calls away from a failing host.

The receiver of rows that name a destination is the destination, whatever its host: named `destination://NAME`, as no
host is, with the destination's own limits or else a share of the client's, and with a breaker of its own. The breaker
begins again when the destination gets another URL, certificate or proxy: what failed before says nothing of these.

The client's limits hold over all nodes: each node takes the share that corresponds to its pollers of the client's
quota, and at least one call at a time. So no coordination is needed, but a client whose load is in few pollers may stay
below its limit. Each node has its own breakers.

Rates are token buckets: `max_per_second` tokens a second, at most a tenth of a second's worth saved up (at least one
token), so in no second more than 1.1 times the limit starts.

    claim   headroom(part) > 0 else the row waits unclaimed; `on_free` says when to look again; see `part_for`
            held_back(due)     the breaker will be open then: requeued unclaimed, see `dispatch.outcome.defer`
    start   delay() == 0       else the job waits in `waiting`, behind jobs of its host only
    end     ended()

For each client a bounded number of receivers is remembered (`receivers_per_client`) besides those in use. Hosts
that did not fail are forgotten first, the least recently added first; a forgotten host starts again with a closed
breaker and a full bucket. Those of a client that has left this node are forgotten together (`dispatcher`).
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from functools import lru_cache
from typing import Generic, TypeVar

from poller_cluster.delivery.channel import Channel
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.destinations import NO_DESTINATIONS, Destinations
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.clients import ClientSettings, HostLimit
from scheduler_service.domain.destinations import names_destination, read_named_url
from scheduler_service.domain.ids import MAX_DUE, ClientId

SAVED_SECONDS = 0.1
"""How many seconds' worth of tokens may be saved up."""
CLAIMED_SECONDS = 1.0
"""Rows of a limited rate are claimed at most this far ahead; until then they can be cancelled."""
ROUNDING = 1e-6
"""Added before rounding down, so that a third of three is one."""
_NO_LIMIT = HostLimit()
_PORTS = {"http:": "80", "https:": "443"}

J = TypeVar("J")

_HOST_ERRORS = frozenset({
    "bad-response", "connect-failed", "connect-refused", "proxy-failed", "reset", "resolve-failed", "timeout",
    "tls-failed", "unavailable",
})  # fmt: skip
_TOO_MANY_REQUESTS = 429
_LARGEST_DOUBLING = 30

DUE, SOON, LATER = 1.0, 0.75, 0.5
"""The parts of a limit."""


class Health(Enum):
    """What one attempt shows of its host."""

    GOOD = "good"
    BAD = "bad"
    SILENT = "silent"


def health(result: AttemptResult) -> Health:
    """See `Breaker` for what counts as a failure."""
    if result.status is not None:
        bad = result.status >= 500 or result.status == _TOO_MANY_REQUESTS
        return Health.BAD if bad else Health.GOOD
    if result.error is None:
        return Health.GOOD
    return Health.BAD if result.error in _HOST_ERRORS else Health.SILENT


class Breaker:
    """The circuit breaker of one (client, host): keeps calls away from a failing host, and probes it with few. Pure.

        closed --failures in a row--> open --its time is over--> half-open --a success--> closed
                                       ^-----------a failure: twice as long-----'

    A failure is one that a gateway would ascribe to the host, not to the single request: no connection, no answer in
    time, an answer that is not HTTP, 5xx, 429, and a target that is away. Any other status, and any success, shows that
    the host works and resets the count. Envoy's outlier detection counts failures in a row too (`consecutive_5xx`, with
    the ejection time growing by the number of ejections); doubling the time is Nygard's circuit breaker with the usual
    exponential backoff ("Release It!", 2007). Attempts that this node ended (refused by policy, trust lost, engine
    stopped) count as neither.

    When a breaker opens, several attempts are under way; their results are not counted again: every attempt remembers
    the breaker's `generation`, which changes with each opening and closing.

    Every `now` is monotonic seconds.
    """

    __slots__ = ("_failures", "_opened", "_settings", "generation", "until")

    def __init__(self, settings: ReceiverSettings) -> None:
        self._settings = settings
        self._failures = 0
        self._opened = 0
        self.generation = 0
        self.until = 0.0
        """While open: when the host may be tried again."""

    def begin_again(self) -> None:
        """Close it. Attempts under way say nothing of the calls that begin from now on."""
        self._failures = self._opened = 0
        self.until = 0.0
        self.generation += 1

    @property
    def closed(self) -> bool:
        return self._opened == 0

    @property
    def spotless(self) -> bool:
        """Whether it is in its initial state, so that forgetting it loses nothing."""
        return self._opened == 0 and self._failures == 0

    def is_open(self, now: float) -> bool:
        """Whether no call may start; afterwards the breaker is half-open until an attempt has ended."""
        return self._opened > 0 and now < self.until

    @property
    def open_seconds(self) -> float:
        """How long this opening lasts in total."""
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
        # Calls that are made although it is open (`dispatch.outcome.until_open_again`) must not prolong it.
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
    """The part of a limit that may be taken when a row due in `due_in_ms` is claimed, that row included.

    A claimed row holds its room until it has been called. Pollers don't know of each other's rows: room that one takes
    for later is missing to another whose row is due now. With a limit of two to a host, and ten calls a second of 10 ms
    each over eight pollers, calls were 30 s late. So rows that are due may fill the whole limit, rows due within
    `lead_ms` three quarters of it, the others half; a limit of one gives nothing to rows that are not due."""
    if due_in_ms <= 0:
        return DUE
    return SOON if due_in_ms <= lead_ms else LATER


def longest_due_in(part: float, *, lead_ms: int) -> int:
    """The longest time before their due, in milliseconds, at which `part_for` gives rows this part."""
    if part == DUE:
        return 0
    return lead_ms if part == SOON else MAX_DUE


def due_within(part: float, *, lead_ms: int, ahead_ms: int) -> int:
    """How far ahead rows may be claimed if `part` of a limit is then taken: `ahead_ms` while there is room."""
    if part <= LATER:
        return ahead_ms
    return min(lead_ms, ahead_ms) if part <= SOON else 0


def share_of_limit(limit: int, share: float) -> int:
    """What one receiver may take of a client's limit; at least one."""
    return math.ceil(limit * share - ROUNDING)


class Receiver(Generic[J]):
    """One host or destination of one client. Every `now` is monotonic seconds. `waiting` holds jobs that are due.
    `destination`: the name of the destination that it is."""

    __slots__ = (
        "_at_once",
        "_filled_at",
        "_limit",
        "_on_free",
        "_rate",
        "_reached_by",
        "_refused",
        "_settings",
        "_tell_at",
        "_tokens",
        "breaker",
        "destination",
        "in_flight",
        "name",
        "outstanding",
        "reserved",
        "waiting",
    )

    def __init__(self, name: str, settings: ReceiverSettings, on_free: Callable[[], None]) -> None:
        self.name = name
        named = read_named_url(name)
        self.destination = None if named is None else named.name
        self._reached_by: tuple[str, Channel | None] | None = None
        self.breaker = Breaker(settings)
        self.waiting: deque[J] = deque()
        self.in_flight = 0
        self.outstanding = 0
        """Claimed rows: those in flight and those that wait to be."""
        self.reserved = 0
        """Rows whose claim is under way."""
        self._settings = settings
        self._on_free = on_free
        self._refused = 0.0
        self._tell_at = 0
        """If rows were refused: no room is reported while more than this many are taken. An upper bound, so that most
        ends skip the exact computation."""
        self._limit = self._at_once = 1
        self._rate: float | None = None
        self._tokens = 0.0
        self._filled_at = -math.inf

    def set_limits(self, asked: HostLimit, *, max_in_flight: int, share: float) -> None:
        """`max_in_flight` is the client's limit, `share` this node's share of the client."""
        own = max(int(max_in_flight * share + ROUNDING), 1)
        if asked.max_in_flight is None:
            self._limit = share_of_limit(own, self._settings.receiver_share)
            self._at_once = min(self._limit, self._settings.receiver_connections)
        else:
            self._limit = self._at_once = min(max(int(asked.max_in_flight * share + ROUNDING), 1), own)
        self._rate = None if asked.max_per_second is None else asked.max_per_second * share
        self._tell_at = own

    def reached_by(self, url: str, channel: Channel | None) -> None:
        """Its calls go there from now on."""
        known, self._reached_by = self._reached_by, (url, channel)
        if known is not None and known != (url, channel):
            self.breaker.begin_again()
            self._tell()

    # Claims.

    def held_back(self, now: float, due_in: float) -> bool:
        """Whether a row due in `due_in` seconds would find the breaker open."""
        return self.breaker.is_open(now + max(due_in, 0.0))

    def headroom(self, part: float = DUE) -> int:
        """How many more rows may be claimed up to this part of the limits. Rows of a limited rate are not claimed long
        before they may start."""
        taken = self.outstanding + self.reserved
        return min(int(self._parallel() * part) - taken, int(self._ahead() * part) - (taken - self.in_flight))

    def _ahead(self) -> int:
        """How many claimed rows may wait to start."""
        return self._limit if self._rate is None else max(math.ceil(self._rate * CLAIMED_SECONDS), 1)

    def _parallel(self) -> int:
        return self._limit if self.breaker.closed else min(self._settings.breaker_probes, self._limit)

    def refuse(self, part: float = DUE) -> None:
        """A row was not claimed for lack of room in this part of the limits: call `on_free` when there is some."""
        if int(min(self._limit, self._ahead()) * part) < 1:
            # There is never room before such rows are due, and at their due they are judged again anyway.
            return
        self._refused = max(self._refused, part)
        self._tell_at = int(self._limit * self._refused) - self._quarter()

    # Attempts.

    def delay(self, now: float) -> float | None:
        """Seconds until an attempt may start: 0 now, None if another must end first. The breaker must not be open."""
        if self.in_flight >= min(self._at_once, self._parallel()):
            return None
        if self._rate is None:
            return 0.0
        # At least one token, or a rate below 10 a second could never start a call.
        most = max(self._rate * SAVED_SECONDS, 1.0)
        if now > self._filled_at:
            self._tokens = min(self._tokens + (now - self._filled_at) * self._rate, most)
            self._filled_at = now
        return 0.0 if self._tokens >= 1.0 else (1.0 - self._tokens) / self._rate

    def started(self) -> int:
        """An attempt starts. Returns the breaker's generation, to be passed to `ended`."""
        self.in_flight += 1
        if self._rate is not None:
            self._tokens -= 1.0
            self._tell_of_headroom()
        return self.breaker.generation

    def ended(self, result: AttemptResult, *, generation: int, now: float) -> bool:
        """An attempt has ended. True if that opened or closed the breaker: waiting rows must be judged again."""
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
        self._tell_of_headroom()

    def claimed(self, rows: int) -> None:
        """The claim of `rows` rows is over: they are claimed, or wait again."""
        self.reserved -= rows
        self._tell_of_headroom()

    def _tell_of_headroom(self) -> None:
        if not self._refused or self.outstanding + self.reserved > self._tell_at:
            return
        if self.headroom(self._refused) >= self._quarter():
            self._tell()

    def _quarter(self) -> int:
        """The least room worth reporting: judging rows again has a cost, and the first poller takes all the room."""
        return max(min(self._parallel(), self._ahead()) // 4, 1)

    def _tell(self) -> None:
        if self._refused:
            self._refused = 0.0
            self._on_free()

    @property
    def in_use(self) -> bool:
        return self.has_rows or self._refused > 0

    @property
    def has_rows(self) -> bool:
        """Whether rows are claimed, or being claimed."""
        return self.outstanding > 0 or self.reserved > 0 or self.in_flight > 0


class _Client(Generic[J]):
    """The receivers of one client, under the settings and the share that they were made with."""

    __slots__ = ("aliases", "by_name", "destinations", "settings", "share")

    def __init__(self) -> None:
        self.settings: ClientSettings | None = None
        self.destinations = NO_DESTINATIONS
        self.share = 0.0
        self.by_name: dict[str, Receiver[J]] = {}
        self.aliases: dict[str, Receiver[J]] = {}


class Receivers(Generic[J]):
    """The receivers of all clients of a node. `on_free(client_id)`: unclaimed rows of that client may have room."""

    def __init__(self, settings: ReceiverSettings, *, on_free: Callable[[ClientId], None]) -> None:
        self._settings = settings
        self._on_free = on_free
        self._clients: dict[ClientId, _Client[J]] = {}

    def of(
        self,
        client_id: ClientId,
        url: str,
        settings: ClientSettings,
        *,
        share: float,
        destinations: Destinations = NO_DESTINATIONS,
    ) -> Receiver[J]:
        """The receiver of a row's URL. `settings` are effective; `share` is this node's share of the client's
        pollers."""
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = _Client()
        if client.settings is not settings or client.share != share or client.destinations is not destinations:
            self._follow(client, settings, share, destinations)
        origin = origin_of(url)
        found = client.aliases.get(origin)
        if found is None:
            found = self._remember(client_id, client, origin)
        return found

    def known(self, client_id: ClientId, name: str) -> Receiver[J] | None:
        client = self._clients.get(client_id)
        return None if client is None else client.by_name.get(name)

    def all(self) -> Iterator[tuple[ClientId, Receiver[J]]]:
        for client_id, client in self._clients.items():
            for receiver in client.by_name.values():
                yield client_id, receiver

    def forget(self, client_id: ClientId, *, now: float) -> bool:
        """Forget the receivers of a client. False: not yet, because one has rows or an open breaker."""
        client = self._clients.get(client_id)
        if client is None:
            return True
        if any(each.has_rows or each.breaker.is_open(now) for each in client.by_name.values()):
            return False
        del self._clients[client_id]
        return True

    def _follow(self, client: _Client[J], settings: ClientSettings, share: float, destinations: Destinations) -> None:
        # Names depend on what is listed. Receivers in use keep their counts under their old name.
        client.settings, client.share, client.destinations = settings, share, destinations
        client.aliases.clear()
        for receiver in client.by_name.values():
            self._limit(client, receiver)

    def _limit(self, client: _Client[J], receiver: Receiver[J]) -> None:
        assert client.settings is not None
        limit = client.settings.hosts.get(receiver.name, _NO_LIMIT)
        if receiver.destination is not None:
            known = client.destinations.get(receiver.destination)
            limit = _NO_LIMIT if known is None else known.limit
            if known is not None and known.locked is None:
                receiver.reached_by(known.url, known.channel)
        receiver.set_limits(
            limit,
            max_in_flight=client.settings.max_in_flight or 1,
            share=client.share,
        )

    def _remember(self, client_id: ClientId, client: _Client[J], origin: str) -> Receiver[J]:
        assert client.settings is not None
        name = name_of(origin, client.settings.hosts)
        found = client.by_name.pop(name, None)
        if found is None:
            self._forget_some(client)
            found = Receiver(name, self._settings, lambda: self._on_free(client_id))
            self._limit(client, found)
        if len(client.aliases) >= 2 * self._settings.receivers_per_client:
            client.aliases.clear()
        client.by_name[name] = client.aliases[origin] = found
        return found

    def _forget_some(self, client: _Client[J]) -> None:
        bound = self._settings.receivers_per_client
        if len(client.by_name) < bound:
            return
        # An eighth at once, so that the scan is rare however many hosts a client has.
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


def name_of(origin: str, listed: dict[str, HostLimit]) -> str:
    """How a client's settings name this origin; unlisted: the host, with the port unless it is the scheme's default. A
    destination has a name of its own, which no host can have."""
    if names_destination(origin):
        return origin
    host, port, usual = _split(origin)
    if f"{host}:{port}" in listed:
        return f"{host}:{port}"
    return host if usual or host in listed else f"{host}:{port}"


@lru_cache(maxsize=4096)
def _split(origin: str) -> tuple[str, str, bool]:
    """(host, port, whether the port is the scheme's default)."""
    scheme, _, authority = origin.lower().partition("//")
    authority = authority.rpartition("@")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or "]" in port:
        host, port = authority, ""
    own = _PORTS.get(scheme, "")
    return host, port or own, port in ("", own)
