"""Calls to nodes and receivers."""

from collections.abc import Sequence
from typing import Protocol

from membership.identity import NodeIncarnation
from scheduler_service.domain.call_figures import CallFigures
from scheduler_service.domain.destination_figures import NodeFigures
from scheduler_service.domain.ids import ClientId, Partition, RowKey
from scheduler_service.domain.trial_calls import Exchange, Preview, TrialCall


class HintSender(Protocol):
    """Tells the owner of a poller about near rows that it may not have read. Best effort, coalesced, never raises."""

    def hint(self, partition: Partition, key: RowKey) -> None: ...


class NodePorts(Protocol):
    """Requests to a node on its own port, authenticated by the cluster's token."""

    async def drain(self, incarnation: NodeIncarnation, *, address: str, force: bool) -> None:
        """Begin to hand over every poller. Repeatable. Raises Conflict if no other node takes pollers, unless forced;
        NodeUnreachable if this very incarnation did not accept the command."""

    async def undrain(self, incarnation: NodeIncarnation, *, address: str) -> None:
        """Take pollers again. Repeatable. Raises Conflict if the node is being stopped, NodeUnreachable."""

    async def destination_figures(
        self, incarnation: NodeIncarnation, client_id: ClientId, name: str, *, address: str
    ) -> NodeFigures:
        """What became of a destination's calls there. Raises NodeUnreachable."""

    async def call_figures(self, incarnation: NodeIncarnation, *, address: str) -> CallFigures:
        """What was called there within the last minute. Raises NodeUnreachable."""

    async def held_back(
        self, incarnation: NodeIncarnation, client_ids: Sequence[ClientId], *, address: str
    ) -> Sequence[ClientId]:
        """Those of these clients, a hundred at most, with a receiver that this node holds back because it only failed.
        Raises NodeUnreachable."""


class TrialCaller(Protocol):
    """Makes calls that belong to no schedule, to show what a receiver answers."""

    async def call(self, trial_call: TrialCall) -> Exchange:
        """Send it once, as the client's schedules are sent, and wait for the end; any behaviour of the receiver is a
        result. Raises TooManyTrialCalls; Overloaded if too many of all clients are under way."""

    def preview(self, trial_call: TrialCall) -> Preview | None:
        """The request that it would send, without the header that marks trial calls. None: it would send none, because
        the row can't be decoded. Nothing is sent."""
