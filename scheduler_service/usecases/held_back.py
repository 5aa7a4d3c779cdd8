"""Find: clients some of whose receivers get no calls, because they only failed, as the present nodes say.

An open breaker is known to its node alone. Every node that beats is asked on its own port, for many clients at once;
one that does not answer in time, or is of a version before this, is passed over.
"""

from collections.abc import Sequence

from scheduler_service.domain.errors import NodeUnreachable
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.ports import NodePorts
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.destination_figures import ASKED_AT_ONCE
from scheduler_service.usecases.members import Member, WatchMembers


class FindHeldBack:
    """Asks once for all clients that are named, at most `NodePorts.held_back` takes."""

    def __init__(self, *, members: WatchMembers, nodes: NodePorts) -> None:
        self._members = members
        self._nodes = nodes

    async def __call__(self, client_ids: Sequence[ClientId]) -> set[ClientId]:
        """Those of them that have such a receiver."""

        async def ask(member: Member) -> Sequence[ClientId]:
            try:
                return await self._nodes.held_back(member.incarnation, client_ids, address=member.heartbeat.address)
            except NodeUnreachable:
                return ()

        if not client_ids:
            return set()
        asked = [member for member in self._members.members() if member.beats]
        answers = await concurrently(ask, asked, width=ASKED_AT_ONCE)
        return {client_id for answer in answers for client_id in answer}
