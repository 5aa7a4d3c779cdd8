"""Find: clients some of whose receivers get no calls, because they only failed, as the present nodes say.

An open breaker is known to its node alone. Each is asked for many clients at once (`asked_nodes`); a silent one is
passed over.
"""

from collections.abc import Sequence

from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import NodePorts
from scheduler_service.usecases.asked_nodes import ask_nodes
from scheduler_service.usecases.members import Member, WatchMembers


class FindHeldBack:
    """Asks once for all clients that are named, at most `NodePorts.held_back` takes."""

    def __init__(self, *, members: WatchMembers, nodes: NodePorts) -> None:
        self._members = members
        self._nodes = nodes

    async def __call__(self, client_ids: Sequence[ClientId]) -> set[ClientId]:
        """Those of them that have such a receiver."""

        async def ask(member: Member) -> Sequence[ClientId]:
            return await self._nodes.held_back(member.incarnation, client_ids, address=member.heartbeat.address)

        if not client_ids:
            return set()
        answers, _ = await ask_nodes(self._members, ask)
        return {client_id for answer in answers for client_id in answer}
