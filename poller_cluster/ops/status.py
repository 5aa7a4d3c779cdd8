"""A node's state: why it is not ready, and the log of its changes."""

from collections.abc import Mapping, Sequence, Set

from membership.identity import NodeIncarnation
from membership.ports import NodeState
from membership.view import MembersView
from poller_cluster.node import Node
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.health import CLOCK_UNTRUSTED, DRAINING, STARTING, TRUST_LOST, Reason
from scheduler_service.runtime.logging import get_logger

STATE_LOOK_SECONDS = 1.0
_log = get_logger("minutehand.node")


class StateChangeLog:
    """Logs one line for each change of state of a node and of the members that it sees, compared once a second.

        node-joined, node-draining, node-left, node-dead    another incarnation, as this node sees it
        leases-changed                                      how many pollers were taken and given up, and are held now
        trust-lost                                          no call may start; `membership` says when trust comes back

    Incarnations that are there when a node starts are not logged.
    """

    def __init__(self, *, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._incarnations: Mapping[NodeIncarnation, NodeState] | None = None
        self._leases: Set[object] = frozenset()
        self._trusted = False

    async def run(self) -> None:
        """Look once a second until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(STATE_LOOK_SECONDS)

    def look(self) -> None:
        """Log what has changed since the last look."""
        members, me = self._node.membership_agent, self._node.incarnation
        self._tell_incarnations(members.view, me)
        self._tell_leases()
        trusted = members.trusted()
        if self._trusted and not trusted and members.over is None:
            _log.warning("trust-lost", incarnation=str(me))
        self._trusted = trusted

    def _tell_incarnations(self, view: MembersView, me: NodeIncarnation) -> None:
        if view.read_at == float("-inf"):
            return
        known = self._incarnations
        now = {one.incarnation: one.state for one in view.members if one.incarnation != me}
        self._incarnations = now
        if known is None:
            return
        for incarnation, state in now.items():
            if incarnation not in known:
                heartbeat = view.heartbeats[incarnation]
                _log.info("node-joined", node=str(incarnation), address=heartbeat.address, version=heartbeat.version)
            if state is NodeState.DRAINING and known.get(incarnation) is not NodeState.DRAINING:
                _log.info("node-draining", node=str(incarnation))
        for incarnation in known.keys() - now.keys():
            last = view.heartbeats.get(incarnation)
            if last is not None and last.state is NodeState.LEFT:
                _log.info("node-left", node=str(incarnation))
            else:
                _log.warning("node-dead", node=str(incarnation))

    def _tell_leases(self) -> None:
        before, now = self._leases, self._node.balancer.leases().keys()
        taken, gone = len(now - before), len(before - now)
        if taken or gone:
            self._leases = frozenset(now)
            _log.info("leases-changed", taken=taken, given_up=gone, held=len(now))


def unready(node: Node, *, clock: Clock) -> Sequence[Reason]:
    """Why a node may not make calls now, or should not be relied on. Empty when it is ready."""
    reasons = []
    if node.draining:
        reasons.append(Reason(DRAINING, "it is draining, or has drained"))
    if not node.running:
        reasons.append(
            Reason(STARTING, "it is no member yet: storage does not answer, or its former process has not ended")
        )
    elif not node.membership_agent.trusted():
        reasons.append(Reason(TRUST_LOST, "its heartbeats are not confirmed: storage does not answer"))
    if not clock.wall_trusted():
        reasons.append(
            Reason(CLOCK_UNTRUSTED, "the machine's clock was stepped and does not agree with the other members'")
        )
    return reasons
