"""What a node shows of itself to Prometheus, beside what its parts count."""

from membership.ports import NodeState
from poller_cluster.node import Node
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.metrics import Metrics


def show_node(node: Node, *, clock: Clock, metrics: Metrics) -> None:
    """Register the node's gauges. Once per process."""
    members = node.heartbeater
    metrics.gauge("minutehand_leases_held", "Pollers that this node owns.", lambda: len(node.keeper.leases()))
    metrics.gauge("minutehand_trusted", "1 while this node may make calls.", lambda: members.trusted())
    metrics.counter(
        "minutehand_over_quota_total",
        "Calls beyond the thousand a minute that a poller guarantees: made after everybody's guaranteed ones.",
        lambda: node.dispatcher.over_quota,
    )
    metrics.counter(
        "minutehand_attempts_unrecorded_total",
        "Failed attempts of which no record could be kept.",
        lambda: node.books.unrecorded,
    )
    metrics.counter(
        "minutehand_crons_expanded_total",
        "Times that a cron was looked at and its next fires placed.",
        lambda: node.crons.expand.crons_expanded,
    )
    metrics.counter(
        "minutehand_cron_fires_placed_total",
        "Fires of crons that became schedules.",
        lambda: node.crons.expand.children_placed,
    )
    metrics.counter(
        "minutehand_crons_forgotten_total",
        "Crons that nothing had woken and the search for such found. Not 0: wake-ups are late, or get lost.",
        lambda: node.crons.search.found,
    )
    metrics.gauge(
        "minutehand_reconciliations_working",
        "Reconciliations that this node works on now.",
        lambda: node.reconciler.working,
    )
    metrics.counter(
        "minutehand_reconciliations_finished_total",
        "Reconciliations that this node brought to the end of their windows.",
        lambda: node.reconciler.finished,
    )
    metrics.counter(
        "minutehand_reconciled_rows_total",
        "Schedules that reconciliations looked after: redelivered, cancelled, or counted.",
        lambda: node.reconciler.rows,
    )
    metrics.gauge(
        "minutehand_destinations_open",
        "Receiver hosts that are left alone because they keep failing, each client's counted by itself.",
        lambda: node.dispatcher.destinations_open(),
    )
    metrics.gauge(
        "minutehand_clock_trusted",
        "1 unless the system's clock was stepped and it is not known yet which time is right.",
        lambda: clock.wall_trusted(),
    )
    metrics.gauge(
        "minutehand_clock_offset_seconds",
        "This node's wall clock against the members' median; positive is ahead. 0 while it is not known.",
        lambda: members.view.offset_ms / 1000.0,
    )
    metrics.gauge_by(
        "minutehand_members",
        "Processes that are or were members, as this node sees them. Those that ended are forgotten after a while.",
        "state",
        {
            "live": lambda: _present(node, NodeState.LIVE),
            "draining": lambda: _present(node, NodeState.DRAINING),
            "left": lambda: _left(node),
            "dead": lambda: len(members.view.free & members.view.heartbeats.keys()) - _left(node),
        },
    )


def _present(node: Node, state: NodeState) -> int:
    return sum(heartbeat.state is state for heartbeat in node.heartbeater.view.members)


def _left(node: Node) -> int:
    return sum(heartbeat.state is NodeState.LEFT for heartbeat in node.heartbeater.view.heartbeats.values())
