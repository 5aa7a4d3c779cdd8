"""Names of nodes, of their lives, and of the pollers that lives hold leases on. Pure."""

from collections.abc import Iterable
from typing import NamedTuple, NewType

NodeId = NewType("NodeId", str)
Incarnation = NewType("Incarnation", int)
"""Grows with every start of a node's process: Unix milliseconds of the start, raised above any earlier one."""


class Life(NamedTuple):
    """One run of one node's process. Ordered by node, then by age."""

    node_id: NodeId
    incarnation: Incarnation

    def __str__(self) -> str:
        return f"{self.node_id}@{self.incarnation}"


class PollerKey(NamedTuple):
    """What a lease is held on: one poller of one client. Membership gives it no other meaning."""

    client_id: str
    poller_id: int

    def __str__(self) -> str:
        return f"{self.client_id}/{self.poller_id}"


def next_incarnation(node_id: NodeId, *, known: Iterable[Life], wall_ms: int) -> Incarnation:
    """The incarnation for a process that starts now: the time, but above every life that its node ever had."""
    return Incarnation(max([wall_ms, *(life.incarnation + 1 for life in known if life.node_id == node_id)]))
