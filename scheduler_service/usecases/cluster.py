"""The operator's view of the cluster: nodes, pollers of a client, and drains of nodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from membership.identity import NodeId, NodeIncarnation
from membership.ports import LeaseRow, LeaseStore
from scheduler_service.domain.backlogs import oldest_of_each
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client, ClientState
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import Minute, Partition, PollerId, minute_of
from scheduler_service.domain.ports import ClientStore, NodePorts
from scheduler_service.domain.schedules import Unfinished
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import Member, MemberState, WatchMembers
from scheduler_service.usecases.open_minutes import READS_AT_ONCE, CountBudget, FindOpenMinutes
from scheduler_service.usecases.shared_looks import KeptLook

COUNT_KEPT_SECONDS = 2.0
MAX_ROWS_OF_MINUTE = 5_000
"""Rows read at most in one open minute of a poller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """`pollers`: all there are. `by_owner`: how many name each incarnation as their owner, ended ones included."""

    pollers: int
    by_owner: Mapping[NodeIncarnation, int]
    guaranteed_calls_per_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShown:
    """An incarnation and how many pollers it owns."""

    member: Member
    pollers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`owned`: pollers whose owner has not ended. `capacity_per_minute` is that of the live nodes. `not_calling`: a
    sentence for the operator on why no calls are made; None while calls are made, or the reason is not known yet."""

    nodes: Sequence[NodeShown]
    pollers: int
    owned: int
    guaranteed_calls_per_minute: int
    capacity_per_minute: int
    not_calling: str | None


def why_no_calls_are_made(nodes: Sequence[NodeShown]) -> str | None:
    """None where a node that beats owns pollers."""
    beating = [node for node in nodes if node.member.beats]
    if any(node.pollers for node in beating):
        return None
    if not beating:
        return "no node beats: start a node, or find out why running nodes do not reach storage"
    if all(node.member.state is MemberState.DRAINING for node in beating):
        return "all nodes are drained: undrain one with `minutehand nodes undrain NODE`, or start one"
    return "no node owns a poller: see the logs of the live nodes"


class ShowCluster:
    """Show the cluster: which nodes there are, how many pollers each owns, and what the quotas promise against what the
    nodes can send.

    Members come from the process's one reader of heartbeats. Owners are in the clients' leases, one read for each
    client; they are counted at most every two seconds and for at most a tenth of the time, however often the view is
    requested.

    Answers the operator. Concurrent callers share one count.
    """

    def __init__(self, *, members: WatchMembers, clients: ClientStore, leases: LeaseStore, clock: Clock) -> None:
        self._members = members
        self._clients = clients
        self._leases = leases
        self._ownership = KeptLook(self._count, least_seconds=COUNT_KEPT_SECONDS, clock=clock)

    async def __call__(self) -> Cluster:
        """Raises StoreUnavailable."""
        await self._members.known()
        ownership = await self._ownership()
        nodes = [
            NodeShown(member=member, pollers=0 if member.state.ended else ownership.by_owner.get(member.incarnation, 0))
            for member in self._members.members()
        ]
        return Cluster(
            nodes=nodes,
            pollers=ownership.pollers,
            owned=sum(node.pollers for node in nodes),
            guaranteed_calls_per_minute=ownership.guaranteed_calls_per_minute,
            capacity_per_minute=self._members.capacity_per_minute(),
            not_calling=why_no_calls_are_made(nodes) if self._members.settled and ownership.pollers else None,
        )

    async def _count(self) -> Ownership:
        clients = [one for one in await self._clients.list_clients() if one.state is not ClientState.DELETED]
        by_owner: Counter[NodeIncarnation | None] = Counter()
        for owners in await concurrently(self._owners, clients, width=READS_AT_ONCE):
            by_owner.update(owners)
        return Ownership(
            pollers=by_owner.total(),
            by_owner={incarnation: count for incarnation, count in by_owner.items() if incarnation is not None},
            guaranteed_calls_per_minute=GUARANTEED_CALLS_PER_MINUTE * sum(one.poller_quota for one in clients),
        )

    async def _owners(self, client: Client) -> Counter[NodeIncarnation | None]:
        rows = await self._leases.read_leases(client.client_id)
        return Counter(row.owner for row in rows if row.poller.poller_id < client.poller_ceiling)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerShown:
    """`watermark`: all minutes before it are settled. `open_minutes`: those with rows from there to the present one;
    `backlog`: the rows in them that are due and have no outcome. `cut`: there may be more of both.
    """

    poller_id: PollerId
    owner: NodeIncarnation | None
    epoch: int
    watermark: Minute
    lagging: bool
    open_minutes: int
    backlog: int
    cut: bool


class ShowPollers:
    """Show a client's pollers: the owner of each, how far it is settled, and what is open after that (`open_minutes`).

    The oldest minutes of every poller are counted first, and `cut` says that something was left out.

    Answers for one client at a time.
    """

    def __init__(self, *, members: WatchMembers, open_minutes: FindOpenMinutes, clock: Clock) -> None:
        self._members = members
        self._open_minutes = open_minutes
        self._clock = clock

    async def __call__(self, client: Client) -> Sequence[PollerShown]:
        """By poller_id. Raises StoreUnavailable."""
        await self._members.known()
        now = self._clock.wall_ms()
        rows = await self._open_minutes.leases(client)
        watermarks = {poller_id: self._open_minutes.watermark(row) for poller_id, row in rows.items()}
        found = await self._open_minutes.find(client.client_id, watermarks, present=minute_of(now))
        backlogs = {poller_id: _Backlog(cut=found.read_until < minute_of(now)) for poller_id in watermarks}
        counted = await self._open_minutes.count(
            [Partition(client.client_id, *one) for one in oldest_of_each(found.minutes)],
            CountBudget.of_clients(1),
            due_until=now,
            rows_of_minute=MAX_ROWS_OF_MINUTE,
        )
        for partition, unfinished in counted:
            backlogs[partition.poller_id].add(unfinished)
        return [
            _shown(row, watermarks[poller_id], found.minutes[poller_id], backlogs[poller_id])
            for poller_id, row in rows.items()
        ]


@dataclass(slots=True)
class _Backlog:
    cut: bool
    minutes: int = 0
    rows: int = 0

    def add(self, unfinished: Unfinished) -> None:
        self.minutes += 1
        self.rows += unfinished.rows
        self.cut = self.cut or unfinished.more


def _shown(row: LeaseRow, watermark: Minute, minutes: Sequence[Minute], backlog: _Backlog) -> PollerShown:
    return PollerShown(
        poller_id=PollerId(row.poller.poller_id),
        owner=row.owner,
        epoch=row.epoch,
        watermark=watermark,
        lagging=row.lagging,
        open_minutes=len(minutes),
        backlog=backlog.rows,
        cut=backlog.cut or backlog.minutes < len(minutes),
    )


class DrainNode:
    """Drain: ask a node to hand over all its pollers. It stays a member, as `draining`, until its process is stopped.

    The last node that takes pollers refuses, unless it is forced; the node decides that, because it sees the others'
    beats. Undrain reverts it. A node that is restarted is live again: an incarnation drains, not a node.

    Both address a node's newest incarnation, may be repeated, and return when the node has begun.
    """

    def __init__(self, *, members: WatchMembers, nodes: NodePorts) -> None:
        self._members = members
        self._nodes = nodes

    async def drain(self, node_id: NodeId, *, force: bool) -> Member:
        """Raises NotFound, Conflict, NodeUnreachable, StoreUnavailable."""
        newest = await self._newest(node_id)
        await self._nodes.drain(newest.incarnation, address=newest.heartbeat.address, force=force)
        return replace(newest, state=MemberState.DRAINING)

    async def undrain(self, node_id: NodeId) -> Member:
        """Raises NotFound, Conflict, NodeUnreachable, StoreUnavailable."""
        newest = await self._newest(node_id)
        await self._nodes.undrain(newest.incarnation, address=newest.heartbeat.address)
        return replace(newest, state=MemberState.LIVE)

    async def _newest(self, node_id: NodeId) -> Member:
        await self._members.known()
        incarnations = [member for member in self._members.members() if member.incarnation.node_id == node_id]
        if not incarnations:
            raise NotFound(f"there is no node {node_id[:128]!r}")
        newest = incarnations[-1]
        if newest.state.ended:
            raise NotFound(f"node {node_id!r} has ended ({newest.state}): it owns no pollers")
        return newest
