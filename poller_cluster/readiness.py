"""Why a node may not call anybody now, or is not to be counted on."""

from collections.abc import Sequence

from poller_cluster.node import Node
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.health import CLOCK_UNTRUSTED, DRAINING, STARTING, TRUST_LOST, Reason


def unready(node: Node, *, clock: Clock) -> Sequence[Reason]:
    """Empty when it is ready."""
    reasons = []
    if node.draining:
        reasons.append(Reason(DRAINING, "its lanes are being handed over, or are"))
    if not node.running:
        reasons.append(Reason(STARTING, "it is no member yet: storage does not answer, or its former process lives on"))
    elif not node.heartbeater.trusted():
        reasons.append(Reason(TRUST_LOST, "its heartbeats are not confirmed: storage does not answer"))
    if not clock.wall_trusted():
        reasons.append(Reason(CLOCK_UNTRUSTED, "the system's clock was stepped and does not agree with the others'"))
    return reasons
