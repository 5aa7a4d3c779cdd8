"""Hints from APIs and nodes to the nodes that own the pollers, about rows that are due soon or may have been
cancelled."""

import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from membership.identity import NodeId, PollerKey
from membership.rendezvous import hint_for
from scheduler_service.domain.ids import Partition, RowKey
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.runtime.logging import get_logger
from scheduler_service.usecases.members import HintTargets, node_headers, url_of

PATH = "/hints"
MAX_HINTS = 1000
"""The most rows in one request, and the most partitions."""
FOLLOW_SECONDS = 0.1
"""How often owners are checked while hints may have to be repeated and nothing is created."""
_log = get_logger("minutehand.api")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class HintSettings:
    """How near-term creates are announced to the nodes. Raises ValueError for values that can't work."""

    delay_seconds: float = 0.005
    """Seconds for which hints are gathered before they are sent. Longer: fewer requests, and calls due at once are that
    much later."""
    queue_rows: int = 20_000
    """Rows that may be queued for one node. Beyond that only their partitions are queued, up to the same number: the
    owner reads those minutes again, which takes seconds."""
    timeout_seconds: float = 1.0
    """Seconds that a node may take to accept hints before they are dropped."""
    repeat_seconds: float = 5.0
    """Hints up to this age in seconds are repeated to a poller's new owner. If it is shorter than the delay with which
    an API process sees a change that the nodes have seen, calls are late when nodes come and go; longer costs memory,
    `queue_rows` hints at most."""

    def __post_init__(self) -> None:
        if not self.delay_seconds >= 0:
            raise ValueError("delay_seconds: must not be negative")
        for name in ("queue_rows", "timeout_seconds", "repeat_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be above 0")


class KnowsTargets(Protocol):
    """Knows the nodes that hints go to (`usecases.members`)."""

    @property
    def targets(self) -> HintTargets:
        """The same object until the targets change, so that a change is found by identity."""


@dataclass(slots=True)
class _Told:
    """A hint, and the node it was sent to last."""

    at: float
    owner: NodeId | None
    partition: Partition
    key: RowKey | None


class _Queue:
    """The hints for one node: rows, and partitions with more rows than are named."""

    __slots__ = ("crowded", "rows")

    def __init__(self) -> None:
        self.rows: deque[tuple[Partition, RowKey]] = deque()
        self.crowded: dict[Partition, None] = {}

    def __bool__(self) -> bool:
        return bool(self.rows or self.crowded)

    def take(self) -> tuple[list[tuple[Partition, RowKey]], list[Partition]]:
        """Remove and answer what fits in one request."""
        crowded = list(islice(self.crowded, MAX_HINTS))
        for partition in crowded:
            del self.crowded[partition]
        return [self.rows.popleft() for _ in range(min(len(self.rows), MAX_HINTS))], crowded


class HintForwarder:
    """Tells nodes about rows that are due so soon that their owner may have read the minute already.

        create --hint--> gathered for 5 ms --by poller's owner--> one queue a node --> POST http://NODE/hints

    Hints are best effort: without one a row is found by its minute's sweep, late but never lost. So callers never wait
    or see an error, and memory is bounded. If rows do not fit in a queue, or a node does not accept them within a
    second, only their partition is sent, once, and the owner reads it again; if that fails too, the hint is dropped.

    A hint goes to the node that rendezvous hashing prefers for the poller among live nodes that do not drain, as this
    process's reader of heartbeats sees them (`usecases.members`). Members may see a change of nodes one read earlier. A
    new owner reads the poller's minutes at once, and misses rows that are created afterwards while their hints still go
    to the old owner. So when a poller's owner changes, the hints of the last seconds are repeated to the new one.

    A `HintSender` and a `Service`.
    """

    def __init__(
        self,
        *,
        members: KnowsTargets,
        clock: Clock,
        settings: HintSettings,
        token: str,
        on_dropped: Callable[[int], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`tls`: how nodes that speak TLS are checked. None: against the system's authorities."""
        self._tls: ssl.SSLContext | bool = tls or True
        self._members = members
        self._clock = clock
        self._settings = settings
        self._token = token
        self._on_dropped = on_dropped
        self._tasks = Tasks(_crashed)
        self._gathered: dict[tuple[Partition, RowKey | None], None] = {}
        self._gathering = False
        self._targets = HintTargets()
        self._owners: dict[PollerKey, NodeId | None] = {}
        self._queues: dict[str, _Queue] = {}
        self._told: deque[_Told] = deque(maxlen=settings.queue_rows)
        self._following = False
        self._session: ClientSession | None = None

    async def start(self) -> None:
        self._session = ClientSession(
            connector=TCPConnector(limit=0, keepalive_timeout=60, ssl=self._tls),
            timeout=ClientTimeout(total=self._settings.timeout_seconds),
            trust_env=False,
        )

    async def stop(self) -> None:
        session, self._session = self._session, None
        await self._tasks.close()
        if session is not None:
            await session.close()

    def hint(self, partition: Partition, key: RowKey) -> None:
        if self._session is None:
            return
        bound = self._settings.queue_rows
        # Beyond the bound only partitions are gathered, which many rows share.
        told: RowKey | None = key if len(self._gathered) < bound else None
        if len(self._gathered) >= 2 * bound and (partition, told) not in self._gathered:
            self._on_dropped(1)
            return
        self._gathered[partition, told] = None
        if not self._gathering:
            self._gathering = True
            self._clock.call_later(self._settings.delay_seconds, self._distribute)

    def _distribute(self) -> None:
        gathered, self._gathered, self._gathering = self._gathered, {}, False
        if self._session is None:
            return
        self._follow_owners()
        now, dropped = self._clock.monotonic(), 0
        for partition, key in gathered:
            owner = self._owner(PollerKey(partition.client_id, partition.poller_id))
            self._told.append(_Told(now, owner, partition, key))
            dropped += not self._tell(owner, partition, key)
        if dropped:
            self._on_dropped(dropped)
        if not self._following:
            self._following = True
            self._clock.call_later(FOLLOW_SECONDS, self._follow)

    def _follow(self) -> None:
        """Check the owners again, as long as there are hints that a new owner would have to be sent."""
        self._following = False
        if self._session is None:
            return
        self._follow_owners()
        if self._told:
            self._following = True
            self._clock.call_later(FOLLOW_SECONDS, self._follow)

    def _follow_owners(self) -> None:
        since = self._clock.monotonic() - self._settings.repeat_seconds
        while self._told and self._told[0].at < since:
            self._told.popleft()
        if self._targets is self._members.targets:
            return
        self._targets = self._members.targets
        self._owners.clear()
        for told in self._told:
            owner = self._owner(PollerKey(told.partition.client_id, told.partition.poller_id))
            if owner != told.owner:
                told.owner = owner
                self._tell(owner, told.partition, told.key)

    def _tell(self, owner: NodeId | None, partition: Partition, key: RowKey | None) -> bool:
        """Queue the hint. False: it is dropped, as there is no node or the queue is full of partitions too."""
        if owner is None:
            return False
        address = self._targets.addresses[owner]
        queue = self._queues.get(address)
        if queue is None:
            queue = self._queues[address] = _Queue()
            self._tasks.spawn(self._send(address, queue), name=f"hints.{owner}")
        bound = self._settings.queue_rows
        if key is not None and len(queue.rows) < bound:
            queue.rows.append((partition, key))
        elif len(queue.crowded) < bound or partition in queue.crowded:
            queue.crowded[partition] = None
        else:
            return False
        return True

    def _owner(self, poller: PollerKey) -> NodeId | None:
        try:
            return self._owners[poller]
        except KeyError:
            if len(self._owners) >= self._settings.queue_rows:
                self._owners.clear()
            owner = self._owners[poller] = hint_for(poller, self._targets.weights)
            return owner

    async def _send(self, address: str, queue: _Queue) -> None:
        """Empty one node's queue, request by request. Rows that the node does not accept are sent once more, as
        partitions; after that they are dropped."""
        try:
            while queue and self._session is not None:
                rows, crowded = queue.take()
                named = [(*partition, key.due, key.schedule_id) for partition, key in rows]
                told = _encode({"hints": named, "crowded": crowded})
                try:
                    headers = node_headers(self._token)
                    async with self._session.post(f"{url_of(address)}{PATH}", data=told, headers=headers) as answer:
                        taken = answer.status < 300
                except (ClientError, TimeoutError, OSError, ValueError):
                    taken = False
                if not taken:
                    # A crowded partition that fails is not tried again, unless a row of the same request names it.
                    again = {partition for partition, _ in rows}
                    queue.crowded.update(dict.fromkeys(again))
                    if forgotten := len(set(crowded) - again):
                        self._on_dropped(forgotten)
        finally:
            del self._queues[address]


def _crashed(name: str, error: BaseException) -> None:
    _log.error("hints-crashed", task=name, exc_info=error)
