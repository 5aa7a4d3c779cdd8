"""Chooses which kept connections to reuse and which to close. It only decides; the caller closes them.

A pool holds one client's connections over one channel to one address for one scheme, host and port. The newest is used
first, so that the others grow old and are closed. Connections are bounded in number, per pool and over all (the one
unused for the longest time is evicted), in idle time and in age.
"""

from itertools import takewhile
from typing import Generic, NamedTuple, Protocol, TypeVar

from poller_cluster.delivery.channel import Channel
from poller_cluster.delivery.target import Target


class PoolKey(NamedTuple):
    """`target` is the receiver's. `address` is that of the channel's proxy, if it has one."""

    client_id: str
    target: Target
    address: str
    channel: Channel | None = None

    @property
    def port(self) -> int:
        """The port that the connection is to."""
        channel = self.channel
        return self.target.port if channel is None or channel.peer is None else channel.peer.target.port


class Kept(Protocol):
    key: PoolKey
    opened_at: float
    idle_since: float


T = TypeVar("T", bound=Kept)


class Pool(Generic[T]):
    """`most` connections over all, `most_each` per pool. Instants are monotonic seconds."""

    def __init__(self, *, most: int, most_each: int, idle_seconds: float, lifetime_seconds: float) -> None:
        self._most = most
        self._most_each = most_each
        self._idle_seconds = idle_seconds
        self._lifetime_seconds = lifetime_seconds
        self._idle: dict[T, None] = {}
        self._pools: dict[PoolKey, dict[T, None]] = {}

    def __len__(self) -> int:
        return len(self._idle)

    def __contains__(self, connection: T) -> bool:
        return connection in self._idle

    def take(self, key: PoolKey, now: float) -> T | None:
        """Remove and return the newest usable connection."""
        pool = self._pools.get(key)
        if not pool:
            return None
        # Dicts keep insertion order: from the end on, connections have been idle for longer and longer.
        for connection in reversed(pool):
            if now - connection.idle_since >= self._idle_seconds:
                return None
            if now - connection.opened_at < self._lifetime_seconds:
                del self._idle[connection], pool[connection]
                return connection
        return None

    def outdated(self, now: float) -> list[T]:
        """Remove and return those idle for too long, for the caller to close. Empty pools are dropped."""
        outdated = list(takewhile(lambda each: now - each.idle_since >= self._idle_seconds, self._idle))
        for connection in outdated:
            self.drop(connection)
        for key in [key for key, pool in self._pools.items() if not pool]:
            del self._pools[key]
        return outdated

    def take_all(self) -> list[T]:
        """Remove and return all, for the caller to close."""
        kept = list(self._idle)
        self._idle.clear()
        self._pools.clear()
        return kept

    def put(self, connection: T, now: float) -> T | None:
        """Keep a connection whose request is over. Returns the one to close instead, possibly itself."""
        if now - connection.opened_at >= self._lifetime_seconds or not self._most_each:
            return connection
        connection.idle_since = now
        pool = self._pools.get(connection.key)
        if pool is None:
            pool = self._pools[connection.key] = {}
        elif len(pool) >= self._most_each:
            return connection
        pool[connection] = None
        self._idle[connection] = None
        if len(self._idle) > self._most:
            oldest = next(iter(self._idle))
            self.drop(oldest)
            return oldest
        return None

    def drop(self, connection: T) -> None:
        """Remove it, if it is kept."""
        if connection in self._idle:
            del self._idle[connection]
            del self._pools[connection.key][connection]
