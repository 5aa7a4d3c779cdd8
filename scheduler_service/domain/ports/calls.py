"""Calls to nodes and receivers."""

from typing import Protocol

from membership.identity import NodeIncarnation
from scheduler_service.domain.ids import (
    Partition,
    RowKey,
)
from scheduler_service.domain.trial_calls import Exchange, TrialCall


class HintSender(Protocol):
    """Tells the owner of a poller about near-term rows it has not read. Best effort, coalesced, never raises."""

    def hint(self, partition: Partition, key: RowKey) -> None: ...


class NodePorts(Protocol):
    """What a node may be told on its own port, by who knows the cluster's token."""

    async def drain(self, incarnation: NodeIncarnation, *, address: str, force: bool) -> None:
        """Begin to hand over every poller. Repeatable. Raises Conflict where no other node takes pollers, unless
        forced; NodeUnreachable where exactly this incarnation did not take it."""

    async def undrain(self, incarnation: NodeIncarnation, *, address: str) -> None:
        """Take pollers again. Repeatable. Raises Conflict where the node is being stopped, NodeUnreachable."""


class TrialCaller(Protocol):
    """Makes calls that are no schedule's, for somebody to look at."""

    async def call(self, trial_call: TrialCall) -> Exchange:
        """Send it once, as the client's schedules are sent, and wait for the end; whatever the receiver does is an
        answer. Raises TooManyTrialCalls; Overloaded where too many of all clients are under way."""
