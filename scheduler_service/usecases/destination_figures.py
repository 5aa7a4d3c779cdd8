"""Show: the figures of a destination's calls in the last hour, as the present nodes have counted them.

The nodes are asked (`asked_nodes`); a silent one is named instead. The counts of a node are lost when it ends; the
books have the outcome of each schedule, for as long as they are kept.
"""

from collections.abc import Sequence
from typing import NamedTuple

from membership.identity import NodeId
from scheduler_service.domain.destination_figures import NodeFigures, merged
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import NodePorts
from scheduler_service.usecases.asked_nodes import ask_nodes
from scheduler_service.usecases.members import Member, WatchMembers


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

        async def ask(member: Member) -> NodeFigures:
            address = member.heartbeat.address
            return await self._nodes.destination_figures(member.incarnation, client_id, name, address=address)

        answers, silent = await ask_nodes(self._members, ask)
        return DestinationFigures(merged(answers), silent)
