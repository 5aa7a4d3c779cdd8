"""Names of nodes, of their incarnations, and of the pollers that they hold leases on. Pure."""

from collections.abc import Iterable
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", str)
IncarnationNumber = NewType("IncarnationNumber", int)
"""Grows with every start of a node's process: Unix milliseconds of the start, raised above any earlier one."""


class NodeIncarnation(NamedTuple):
    """One run of one node's process. Ordered by node, then by age."""

    node_id: NodeId
    number: IncarnationNumber

    def __str__(self) -> str:
        return f"{self.node_id}@{self.number}"


class PollerKey(NamedTuple):
    """One poller of one client: what a lease is held on. It has no other meaning in this room."""

    client_id: str
    poller_id: int

    def __str__(self) -> str:
        return f"{self.client_id}/{self.poller_id}"


def next_incarnation(node_id: NodeId, *, known: Iterable[NodeIncarnation], wall_ms: int) -> IncarnationNumber:
    """The incarnation of a process that starts now: the time, raised above every known incarnation of its node."""
    return IncarnationNumber(
        max([wall_ms, *(incarnation.number + 1 for incarnation in known if incarnation.node_id == node_id)])
    )
