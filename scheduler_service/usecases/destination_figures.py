"""Show: the figures of a destination's calls in the last hour, as the present nodes have counted them.

Every node that beats is asked on its own port, many at once; one that does not answer in time is named instead. The
counts of a node are lost when it ends; the books have the outcome of each schedule, for as long as they are kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

from membership.identity import NodeId
from scheduler_service.domain.destination_figures import NodeFigures, merged
from scheduler_service.domain.errors import NodeUnreachable
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import NodePorts
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import Member, WatchMembers

ASKED_AT_ONCE = 32


class DestinationFigures(NamedTuple):
    """The figures of all nodes that answered, and the nodes that did not."""

    figures: NodeFigures
    silent: Sequence[NodeId]


class ShowDestinationFigures:
    """Answers for one destination at a time. The caller checks that there is one."""

    def __init__(self, *, members: WatchMembers, nodes: NodePorts) -> None:
        self._members = members
        self._nodes = nodes

    async def __call__(self, client_id: ClientId, name: str) -> DestinationFigures:
        """Raises StoreUnavailable if the members are not known yet."""
        await self._members.known()
        asked = [member for member in self._members.members() if member.beats]

        async def ask(member: Member) -> NodeFigures | None:
            try:
                return await self._nodes.destination_figures(
                    member.incarnation, client_id, name, address=member.heartbeat.address
                )
            except NodeUnreachable:
                return None

        answers = await concurrently(ask, asked, width=ASKED_AT_ONCE)
        return DestinationFigures(
            merged(answer for answer in answers if answer is not None),
            [member.incarnation.node_id for member, answer in zip(asked, answers, strict=True) if answer is None],
        )
