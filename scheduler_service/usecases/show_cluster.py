"""Show the cluster: who is there, who owns how much, and what the quotas promise against what the nodes can send.

Members come from the process's one reader of heartbeats. What they own stands in the clients' leases, one read a
client; that is counted at most every two seconds and for at most a tenth of the time, however often somebody looks.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from membership.identity import Life
from membership.ports import LeaseStore
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client, ClientState
from scheduler_service.domain.ports import ClientStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import Member, MemberState
from scheduler_service.usecases.watch_members import WatchMembers

CACHED_SECONDS = 2.0
CACHED_FACTOR = 10.0
"""A count that took long is kept for as many times that."""
READS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """`pollers`: all there are. `by_owner`: how many name each life as their owner, ended lives included."""

    pollers: int = 0
    by_owner: Mapping[Life, int] = field(default_factory=dict)
    guaranteed_calls_per_minute: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShown:
    """A life and how many pollers it owns."""

    member: Member
    pollers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`owned`: pollers whose owner has not ended. `capacity_per_minute` is that of the live nodes. `not_calling`: why
    nobody is called, a sentence for the operator; None while calls are made, or it is not known yet."""

    nodes: Sequence[NodeShown]
    pollers: int
    owned: int
    guaranteed_calls_per_minute: int
    capacity_per_minute: int
    not_calling: str | None


def why_nobody_calls(nodes: Sequence[NodeShown]) -> str | None:
    """None where a node that beats owns pollers."""
    beating = [node for node in nodes if node.member.beats]
    if any(node.pollers for node in beating):
        return None
    if not beating:
        return "no node beats: start a poller, or see why those that run do not reach storage"
    if all(node.member.state is MemberState.DRAINING for node in beating):
        return (
            "every node has handed over its pollers: take one back with `minutehand nodes undrain NODE`, or start one"
        )
    return "no node owns a poller: see the log of those that are live"


class ShowCluster:
    """Answers the operator. Concurrent callers share one count."""

    def __init__(self, *, members: WatchMembers, clients: ClientStore, leases: LeaseStore, clock: Clock) -> None:
        self._members = members
        self._clients = clients
        self._leases = leases
        self._clock = clock
        self._counting = asyncio.Lock()
        self._counted = Ownership()
        self._keep_until = float("-inf")

    async def __call__(self) -> Cluster:
        """Raises StoreUnavailable."""
        await self._members.known()
        ownership = await self._ownership()
        nodes = [
            NodeShown(member=member, pollers=0 if member.state.ended else ownership.by_owner.get(member.life, 0))
            for member in self._members.members()
        ]
        return Cluster(
            nodes=nodes,
            pollers=ownership.pollers,
            owned=sum(node.pollers for node in nodes),
            guaranteed_calls_per_minute=ownership.guaranteed_calls_per_minute,
            capacity_per_minute=sum(
                node.member.heartbeat.capacity_per_minute for node in nodes if node.member.state is MemberState.LIVE
            ),
            not_calling=why_nobody_calls(nodes) if self._members.settled and ownership.pollers else None,
        )

    async def _ownership(self) -> Ownership:
        async with self._counting:
            began = self._clock.monotonic()
            if began >= self._keep_until:
                self._counted = await self._count()
                ended = self._clock.monotonic()
                self._keep_until = ended + max(CACHED_SECONDS, CACHED_FACTOR * (ended - began))
            return self._counted

    async def _count(self) -> Ownership:
        clients = [one for one in await self._clients.list_clients() if one.state is not ClientState.DELETED]
        by_owner: Counter[Life | None] = Counter()
        for owners in await concurrently(self._owners, clients, width=READS_AT_ONCE):
            by_owner.update(owners)
        return Ownership(
            pollers=by_owner.total(),
            by_owner={life: count for life, count in by_owner.items() if life is not None},
            guaranteed_calls_per_minute=GUARANTEED_CALLS_PER_MINUTE * sum(one.poller_quota for one in clients),
        )

    async def _owners(self, client: Client) -> Counter[Life | None]:
        rows = await self._leases.read_leases(client.client_id)
        return Counter(row.owner for row in rows if row.lane.poller_id < client.poller_ceiling)
