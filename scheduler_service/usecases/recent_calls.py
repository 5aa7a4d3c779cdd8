"""Show: what the nodes have called within the last minute.

The nodes are asked (`asked_nodes`); a silent one is named instead. Concurrent callers share one answer, which is kept
for two seconds.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from membership.identity import NodeId
from scheduler_service.domain.call_figures import CallFigures, merged
from scheduler_service.domain.ports import NodePorts
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.asked_nodes import ask_nodes
from scheduler_service.usecases.members import Member, WatchMembers
from scheduler_service.usecases.shared_looks import KeptLook

CALLS_KEPT_SECONDS: Final = 2.0


class RecentCallsShown(NamedTuple):
    """The figures of all nodes that answered, and the nodes that did not."""

    figures: CallFigures
    silent: Sequence[NodeId]


class ShowRecentCalls:
    """Answers the operator."""

    def __init__(self, *, members: WatchMembers, nodes: NodePorts, clock: Clock) -> None:
        self._members = members
        self._nodes = nodes
        self._look = KeptLook(self._ask_all, least_seconds=CALLS_KEPT_SECONDS, clock=clock)

    async def __call__(self) -> RecentCallsShown:
        """Raises StoreUnavailable if the members are not known yet."""
        await self._members.known()
        return await self._look()

    async def _ask_all(self) -> RecentCallsShown:
        answers, silent = await ask_nodes(self._members, self._ask)
        return RecentCallsShown(merged(answers), silent)

    async def _ask(self, member: Member) -> CallFigures:
        return await self._nodes.call_figures(member.incarnation, address=member.heartbeat.address)
