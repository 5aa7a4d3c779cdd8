"""What an observer knows of the cluster after a read: an immutable value, replaced by the next one. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from membership.clocks import Witness
from membership.identity import NodeId, NodeIncarnation
from membership.ports import Heartbeat, NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersView:
    """`members`: the incarnations that are neither dead nor left, ordered. `free`: those whose leases any node may
    take."""

    read_at: float = float("-inf")
    """Monotonic instant at which the last read returned."""
    members: tuple[Heartbeat, ...] = ()
    free: frozenset[NodeIncarnation] = frozenset()
    heartbeats: Mapping[NodeIncarnation, Heartbeat] = field(default_factory=dict)
    """Every row that was read, ended incarnations included."""
    silence: Mapping[NodeIncarnation, float] = field(default_factory=dict)
    """Seconds since each incarnation that has not ended was seen to advance."""
    offset_ms: int = 0
    """The local wall clock minus the members' median, or minus that of all clocks if it is far from the servers'. 0
    while `offset_known` is False."""
    offset_known: bool = False
    """Whether enough beats were seen to know `offset_ms`."""
    ahead_at_most_ms: int | None = None
    """How far the local wall clock may be ahead of the members' median: calls delayed by that much are not early. None
    before another member's clock was seen."""

    witnesses: tuple[Witness, ...] = ()
    """The other members' clocks, as far as they are known."""

    def all_know(self, number: int) -> bool:
        """Whether every member's program can read storage format `number` (`Heartbeat.knows`)."""
        return bool(self.members) and all(heartbeat.knows >= number for heartbeat in self.members)

    def low_watermark_of(self, incarnation: NodeIncarnation) -> int | None:
        """The low watermark in the row of exactly this incarnation."""
        heartbeat = self.heartbeats.get(incarnation)
        return None if heartbeat is None else heartbeat.low_watermark

    def hint_weights(self, *, staying: NodeIncarnation | None = None) -> dict[NodeId, float]:
        """The nodes that pollers are hinted to: those whose newest incarnation is a member and not draining, or is
        `staying`."""
        newest = {heartbeat.incarnation.node_id: heartbeat for heartbeat in self.members}
        return {
            node: heartbeat.weight
            for node, heartbeat in newest.items()
            if heartbeat.state is NodeState.LIVE or heartbeat.incarnation == staying
        }
