"""What an operator should hear of a node and of those it sees: one line a change of state, looked for once a second.

    node-joined, node-draining, node-left, node-dead    another life, as this node sees it
    leases-changed                                      how many lanes were taken and given up, and are held now
    trust-lost                                          nobody may be called; `membership` says when it comes back

Lives that are there when a node starts are nothing new.
"""

from collections.abc import Mapping, Set

from membership.identity import Life
from membership.ports import NodeState
from membership.view import MembersView
from poller_cluster.node import Node
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger

LOOK_SECONDS = 1.0
_log = get_logger("minutehand.poller")


class NodeNews:
    """Compares what is with what was."""

    def __init__(self, *, node: Node, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._lives: Mapping[Life, NodeState] | None = None
        self._leases: Set[object] = frozenset()
        self._trusted = False

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Tell what changed since the last look."""
        members, me = self._node.heartbeater, self._node.life
        self._tell_lives(members.view, me)
        self._tell_leases()
        trusted = members.trusted()
        if self._trusted and not trusted and members.over is None:
            _log.warning("trust-lost", life=str(me))
        self._trusted = trusted

    def _tell_lives(self, view: MembersView, me: Life) -> None:
        if view.read_at == float("-inf"):
            return
        known = self._lives
        now = {one.life: one.state for one in view.members if one.life != me}
        self._lives = now
        if known is None:
            return
        for life, state in now.items():
            if life not in known:
                heartbeat = view.heartbeats[life]
                _log.info("node-joined", node=str(life), address=heartbeat.address, version=heartbeat.version)
            if state is NodeState.DRAINING and known.get(life) is not NodeState.DRAINING:
                _log.info("node-draining", node=str(life))
        for life in known.keys() - now.keys():
            last = view.heartbeats.get(life)
            if last is not None and last.state is NodeState.LEFT:
                _log.info("node-left", node=str(life))
            else:
                _log.warning("node-dead", node=str(life))

    def _tell_leases(self) -> None:
        before, now = self._leases, self._node.keeper.leases().keys()
        taken, gone = len(now - before), len(before - now)
        if taken or gone:
            self._leases = frozenset(now)
            _log.info("leases-changed", taken=taken, given_up=gone, held=len(now))
