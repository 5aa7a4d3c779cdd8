"""Tells the nodes about rows that are due so soon that their owner may have read the minute already.

    create --hint--> gathered for 5 ms --by lane's owner--> one queue a node --> POST http://NODE/hints

Best effort, all of it: without a hint a row is found by its minute's sweep, late but never lost. So nothing here waits,
raises, or grows: what does not fit in a queue is dropped, what a node does not take within a second is forgotten.

Whom to tell: the node that the lane is hinted to (rendezvous over live nodes that do not drain), read from the
heartbeats at most once a second. A life counts as live when its beat was seen to advance within the last seconds; until
any was, all that claim to be. While a lane moves, the old owner may be told in vain: the new one reads that minute
itself.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import structlog
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from membership.identity import Lane, Life, NodeId
from membership.ports import Heartbeat, MemberStore, NodeState
from membership.rendezvous import hint_for
from scheduler_service.domain.errors import StoreUnavailable
from scheduler_service.domain.ids import Partition, RowKey
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks

PATH = "/hints"
MAX_HINTS = 1000
"""Hints in one request."""
SILENT_SECONDS = 6.0
"""A life whose beat did not advance for this long is told nothing."""
_log = structlog.get_logger("minutehand.api")
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class HintSettings:
    """How near-term creates are announced to the pollers. Raises ValueError for values that can't work."""

    delay_seconds: float = 0.005
    """How long hints gather before they are sent. Longer: fewer requests, and calls due at once are that much later."""
    queue_rows: int = 20_000
    """Hints that may wait for one node. What comes on top is dropped: such rows are found by their minute's sweep."""
    timeout_seconds: float = 1.0
    """How long a node may take to accept hints before they are forgotten."""
    members_seconds: float = 1.0
    """How old the picture of the nodes may be. Longer: fewer reads, and hints go astray longer when nodes change."""

    def __post_init__(self) -> None:
        for name in ("delay_seconds", "members_seconds"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}: must not be negative")
        for name in ("queue_rows", "timeout_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be above 0")


class LiveNodes:
    """Which nodes live and where they listen, as far as reads of the heartbeats tell. Pure."""

    def __init__(self) -> None:
        self._beats: dict[Life, tuple[int, float | None]] = {}
        self.addresses: Mapping[NodeId, str] = {}
        self.weights: Mapping[NodeId, float] = {}

    def observed(self, heartbeats: Sequence[Heartbeat], *, at: float) -> bool:
        """A read that returned at `at` (monotonic). True when the nodes, their weights or addresses changed."""
        self._beats = {beat.life: self._advanced(beat, at) for beat in heartbeats}
        newest: dict[NodeId, Heartbeat] = {}
        for beat in sorted(heartbeats, key=lambda one: one.life):
            newest[beat.life.node_id] = beat
        candidates = [beat for beat in newest.values() if beat.state is NodeState.LIVE]
        moving = [beat for beat in candidates if self._moving(beat.life, at)]
        if not any(advanced for _, advanced in self._beats.values()):
            moving = candidates
        addresses = {beat.life.node_id: beat.address for beat in moving}
        weights = {beat.life.node_id: beat.weight for beat in moving}
        changed = addresses != self.addresses or weights != self.weights
        self.addresses, self.weights = addresses, weights
        return changed

    def _advanced(self, heartbeat: Heartbeat, at: float) -> tuple[int, float | None]:
        """The beat, and when it was last seen to advance."""
        known = self._beats.get(heartbeat.life)
        if known is None:
            return heartbeat.beat, None
        return (heartbeat.beat, at) if heartbeat.beat > known[0] else known

    def _moving(self, life: Life, at: float) -> bool:
        advanced = self._beats[life][1]
        return advanced is not None and at - advanced <= SILENT_SECONDS


class HintForwarder:
    """A `HintSender` and a `Service`."""

    def __init__(
        self,
        *,
        members: MemberStore,
        clock: Clock,
        settings: HintSettings,
        token: str,
        on_dropped: Callable[[int], None],
    ) -> None:
        self._members = members
        self._clock = clock
        self._settings = settings
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._on_dropped = on_dropped
        self._tasks = Tasks(_crashed)
        self._gathered: dict[tuple[Partition, RowKey], None] = {}
        self._gathering = False
        self._nodes = LiveNodes()
        self._read_at = float("-inf")
        self._owners: dict[Lane, NodeId | None] = {}
        self._queues: dict[str, deque[tuple[object, ...]]] = {}
        self._session: ClientSession | None = None

    async def start(self) -> None:
        self._session = ClientSession(
            connector=TCPConnector(limit=0, keepalive_timeout=60),
            timeout=ClientTimeout(total=self._settings.timeout_seconds),
            headers=self._headers,
            trust_env=False,
        )
        self._gathering = True
        self._tasks.spawn(self._refresh(), name="hints.members")

    async def stop(self) -> None:
        session, self._session = self._session, None
        await self._tasks.close()
        if session is not None:
            await session.close()

    def hint(self, partition: Partition, key: RowKey) -> None:
        if self._session is None:
            return
        if len(self._gathered) >= self._settings.queue_rows:
            self._on_dropped(1)
            return
        self._gathered[partition, key] = None
        if not self._gathering:
            self._gathering = True
            self._clock.call_later(self._settings.delay_seconds, self._hand_over)

    def _hand_over(self) -> None:
        if self._session is None:
            return
        if self._clock.monotonic() - self._read_at < self._settings.members_seconds:
            self._distribute()
        else:
            self._tasks.spawn(self._refresh(), name="hints.members")

    async def _refresh(self) -> None:
        """Look at the members, then distribute; without an answer the last picture is as good as any."""
        try:
            heartbeats = await self._members.read_heartbeats()
            self._read_at = self._clock.monotonic()
            if self._nodes.observed(heartbeats, at=self._read_at):
                self._owners.clear()
        except StoreUnavailable:
            self._read_at = self._clock.monotonic()
        finally:
            self._distribute()

    def _distribute(self) -> None:
        gathered, self._gathered, self._gathering = self._gathered, {}, False
        dropped = 0
        for partition, key in gathered:
            node = self._owner(Lane(partition.client_id, partition.poller_id))
            if node is None:
                dropped += 1
                continue
            address = self._nodes.addresses[node]
            queue = self._queues.get(address)
            if queue is None:
                queue = self._queues[address] = deque()
                self._tasks.spawn(self._send(address, queue), name=f"hints.{node}")
            if len(queue) >= self._settings.queue_rows:
                dropped += 1
                continue
            queue.append((partition.client_id, partition.poller_id, partition.minute, key.due, key.schedule_id))
        if dropped:
            self._on_dropped(dropped)

    def _owner(self, lane: Lane) -> NodeId | None:
        try:
            return self._owners[lane]
        except KeyError:
            if len(self._owners) >= self._settings.queue_rows:
                self._owners.clear()
            owner = self._owners[lane] = hint_for(lane, self._nodes.weights)
            return owner

    async def _send(self, address: str, queue: deque[tuple[object, ...]]) -> None:
        """Empty one node's queue, request by request; what a node does not take is forgotten."""
        try:
            while queue and self._session is not None:
                hints = [queue.popleft() for _ in range(min(len(queue), MAX_HINTS))]
                try:
                    async with self._session.post(f"http://{address}{PATH}", data=_encode({"hints": hints})) as answer:
                        taken = answer.status < 300
                except (ClientError, TimeoutError, OSError, ValueError):
                    taken = False
                if not taken:
                    self._on_dropped(len(hints))
        finally:
            del self._queues[address]


def _crashed(name: str, error: BaseException) -> None:
    _log.error("hints-crashed", task=name, exc_info=error)
