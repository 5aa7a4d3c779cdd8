"""Drain: ask a node to hand over all its lanes. It stays a member, as `draining`, until its process is stopped.

The last node that takes lanes refuses, unless it is forced: the node judges that, which sees the others' beats.
Undrain takes it back. A node that is started again is live in any case: what drains is a life, not a name.
"""

from dataclasses import replace

from membership.identity import NodeId
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ports import NodePorts
from scheduler_service.usecases.members import Member, MemberState
from scheduler_service.usecases.watch_members import WatchMembers


class DrainNode:
    """Tells a node's newest life. Both may be repeated, and return when the node has begun."""

    def __init__(self, *, members: WatchMembers, nodes: NodePorts) -> None:
        self._members = members
        self._nodes = nodes

    async def drain(self, node_id: NodeId, *, force: bool) -> Member:
        """Raises NotFound, Conflict, NodeUnreachable, StoreUnavailable."""
        newest = await self._newest(node_id)
        await self._nodes.drain(newest.life, address=newest.heartbeat.address, force=force)
        return replace(newest, state=MemberState.DRAINING)

    async def undrain(self, node_id: NodeId) -> Member:
        """Raises NotFound, Conflict, NodeUnreachable, StoreUnavailable."""
        newest = await self._newest(node_id)
        await self._nodes.undrain(newest.life, address=newest.heartbeat.address)
        return replace(newest, state=MemberState.LIVE)

    async def _newest(self, node_id: NodeId) -> Member:
        await self._members.known()
        lives = [member for member in self._members.members() if member.life.node_id == node_id]
        if not lives:
            raise NotFound(f"there is no node {node_id[:128]!r}")
        newest = lives[-1]
        if newest.state.ended:
            raise NotFound(f"node {node_id!r} has ended ({newest.state}): it owns no pollers")
        return newest
