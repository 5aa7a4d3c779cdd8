"""Show: what the nodes have called within the last minute.

Every node that beats is asked on its own port, many at once; one that does not answer in time is named instead.
Concurrent callers share one answer, which is kept for two seconds.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from membership.identity import NodeId
from scheduler_service.domain.call_figures import CallFigures, merged
from scheduler_service.domain.errors import NodeUnreachable
from scheduler_service.domain.ports import NodePorts
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.destination_figures import ASKED_AT_ONCE
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
        asked = [member for member in self._members.members() if member.beats]
        answers = await concurrently(self._ask, asked, width=ASKED_AT_ONCE)
        return RecentCallsShown(
            merged(answer for answer in answers if answer is not None),
            [member.incarnation.node_id for member, answer in zip(asked, answers, strict=True) if answer is None],
        )

    async def _ask(self, member: Member) -> CallFigures | None:
        try:
            return await self._nodes.call_figures(member.incarnation, address=member.heartbeat.address)
        except NodeUnreachable:
            return None
