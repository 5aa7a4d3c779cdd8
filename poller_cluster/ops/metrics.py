"""The metrics of a node, for Prometheus."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from membership.ports import NodeState
from poller_cluster.node import Node
from scheduler_service.runtime.busiest import OTHER
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.metrics import Kind, Metric, Metrics
from scheduler_service.runtime.process_metrics import process_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedElsewhere:
    """Counts of schedules that were ended by others than their owner: by state, and the skipped ones by reason."""

    ended: Mapping[str, int]
    skipped: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A node, and other sources of its metrics."""

    node: Node
    clock: Clock
    attempts_in_flight: Callable[[], int]
    hints_dropped: Callable[[], int]
    ended: EndedElsewhere


def show_node(
    node: Node,
    *,
    clock: Clock,
    metrics: Metrics,
    attempts_in_flight: Callable[[], int],
    hints_dropped: Callable[[], int],
    ended: EndedElsewhere,
) -> None:
    """Register the node's metrics. Once per process."""
    shown = Shown(
        node=node, clock=clock, attempts_in_flight=attempts_in_flight, hints_dropped=hints_dropped, ended=ended
    )
    metrics.show(METRICS, of=shown)


def _members(shown: Shown) -> Mapping[str, int]:
    view = shown.node.membership_agent.view
    present = Counter(heartbeat.state for heartbeat in view.members)
    left = sum(heartbeat.state is NodeState.LEFT for heartbeat in view.heartbeats.values())
    return {
        "live": present[NodeState.LIVE],
        "draining": present[NodeState.DRAINING],
        "left": left,
        "dead": len(view.free & view.heartbeats.keys()) - left,
    }


def _together(ours: Mapping[str, int], elsewhere: Mapping[str, int]) -> Mapping[str, int]:
    return {name: ours.get(name, 0) + elsewhere.get(name, 0) for name in {**ours, **elsewhere}}


def _client_backlog(shown: Shown) -> Mapping[str, float]:
    clients = shown.node.books.counts.clients
    rows = {OTHER: 0}
    for client_id, count in shown.node.backlog.rows_by_client().items():
        label = clients.label(client_id)
        rows[label] = rows.get(label, 0) + count
    return rows


def _clients(shown: Shown, field: str) -> Mapping[str, float]:
    counted = shown.node.books.counts.clients.shown(shown.clock.monotonic())
    return {label: getattr(counts, field) for label, counts in counted.items()}


METRICS: Final[tuple[Metric[Shown], ...]] = (
    Metric(
        "minutehand_fire_lateness_seconds",
        Kind.HISTOGRAM,
        "Seconds from a call's due to the start of its first attempt. `share`: guaranteed, beyond the guarantee of its "
        "poller, or deferred (the breaker was open, the ordering key was busy, or it was created too late).",
        lambda shown: shown.node.books.counts.lateness,
        labels=("share",),
    ),
    Metric(
        "minutehand_skipped_total",
        Kind.COUNTER,
        "Schedules that ended as skipped, by reason: `late` by their client's late policy, `missed` fires of crons.",
        lambda shown: _together(shown.node.books.counts.skipped, shown.ended.skipped),
        labels=("reason",),
    ),
    Metric(
        "minutehand_events_appended_total",
        Kind.COUNTER,
        "Events that were appended to the feeds of clients.",
        lambda shown: shown.node.books.counts.events,
    ),
    Metric(
        "minutehand_attempts_total",
        Kind.COUNTER,
        "Attempts that ended, by the kind of what was called (`http`, or a kind of target) and by class of result.",
        lambda shown: shown.node.books.counts.attempts,
        labels=("kind", "code_class"),
    ),
    Metric(
        "minutehand_attempt_duration_seconds",
        Kind.HISTOGRAM,
        "Seconds from an attempt's start to its end, by the kind of what was called.",
        lambda shown: shown.node.books.counts.durations,
        labels=("kind",),
    ),
    Metric(
        "minutehand_attempts_in_flight",
        Kind.GAUGE,
        "Attempts that this node is making now.",
        lambda shown: shown.attempts_in_flight(),
    ),
    Metric(
        "minutehand_client_fires_total",
        Kind.COUNTER,
        "First attempts by client; the busiest clients (node.named_clients) by name, the others as `other`.",
        lambda shown: _clients(shown, "fires"),
        labels=("client",),
    ),
    Metric(
        "minutehand_client_lateness_seconds_total",
        Kind.COUNTER,
        "Sum of the lateness of first attempts by client, with the labels of minutehand_client_fires_total.",
        lambda shown: _clients(shown, "lateness_seconds"),
        labels=("client",),
    ),
    Metric(
        "minutehand_client_backlog_rows",
        Kind.GAUGE,
        "Rows in memory that are due and have no outcome, by client, with the labels of minutehand_client_fires_total.",
        _client_backlog,
        labels=("client",),
    ),
    Metric(
        "minutehand_backlog_rows",
        Kind.GAUGE,
        "Rows in memory that are due and have no outcome, without those of suspended clients.",
        lambda shown: shown.node.backlog.rows(),
    ),
    Metric(
        "minutehand_oldest_due_age_seconds",
        Kind.GAUGE,
        "Seconds since the due of the oldest row that is due and has no outcome, or since the oldest minute that "
        "recovery has not read; 0 if there is neither.",
        lambda shown: shown.node.backlog.oldest_age_seconds(),
    ),
    Metric(
        "minutehand_over_quota_rows_total",
        Kind.COUNTER,
        "Calls beyond the 1,000 a minute that their poller guarantees; they are made after all guaranteed ones.",
        lambda shown: shown.node.dispatcher.over_quota,
    ),
    Metric(
        "minutehand_leases_held",
        Kind.GAUGE,
        "Pollers that this node owns.",
        lambda shown: len(shown.node.balancer.leases()),
    ),
    Metric(
        "minutehand_pollers",
        Kind.GAUGE,
        "Pollers of all clients that this node knows of, its own or not. If minutehand_leases_held of all nodes "
        "adds up to less, some pollers have no owner.",
        lambda shown: shown.node.balancer.known,
    ),
    Metric(
        "minutehand_lease_takeovers_total",
        Kind.COUNTER,
        "Pollers taken over from nodes that died, or stopped before they had released them.",
        lambda shown: shown.node.balancer.takeovers,
    ),
    Metric(
        "minutehand_fenced_writes_total",
        Kind.COUNTER,
        "Conditional writes rejected because another node owned the poller by then.",
        lambda shown: shown.node.books.counts.fenced,
    ),
    Metric(
        "minutehand_in_doubt_total",
        Kind.COUNTER,
        "Rows found that an earlier owner may have called: called again, or failed for at-most-once clients.",
        lambda shown: shown.node.books.counts.in_doubt,
    ),
    Metric(
        "minutehand_trusted",
        Kind.GAUGE,
        "1 while this node's heartbeats are confirmed, so that it may make calls; else 0.",
        lambda shown: shown.node.membership_agent.trusted(),
    ),
    Metric(
        "minutehand_clients_locked",
        Kind.GAUGE,
        "Clients whose calls wait because the key ring lacks the key of a signing secret.",
        lambda shown: shown.node.clients.locked,
    ),
    Metric(
        "minutehand_attempts_unrecorded_total",
        Kind.COUNTER,
        "Attempts whose record could not be stored.",
        lambda shown: shown.node.books.unrecorded,
    ),
    Metric(
        "minutehand_crons_expanded_total",
        Kind.COUNTER,
        "Expansions of crons: the next fires were placed.",
        lambda shown: shown.node.crons.expand.crons_expanded,
    ),
    Metric(
        "minutehand_cron_fires_placed_total",
        Kind.COUNTER,
        "Fires of crons that were placed as schedules.",
        lambda shown: shown.node.crons.expand.children_placed,
    ),
    Metric(
        "minutehand_crons_forgotten_total",
        Kind.COUNTER,
        "Crons whose wake-up was missing, found by the overdue scan. Above 0: wake-ups are late, or were lost.",
        lambda shown: shown.node.crons.overdue_scan.found,
    ),
    Metric(
        "minutehand_overdue_calls_total",
        Kind.COUNTER,
        "Overdue calls that were made under an overdue rate.",
        lambda shown: shown.node.dispatcher.overdue_calls.started_calls,
    ),
    Metric(
        "minutehand_overdue_rows_held",
        Kind.GAUGE,
        "Overdue rows in memory that an overdue rate holds back now, about. More wait in minutes not yet begun.",
        lambda shown: shown.node.dispatcher.overdue_calls.held,
    ),
    Metric(
        "minutehand_reconciliations_working",
        Kind.GAUGE,
        "Reconciliations that this node works on now.",
        lambda shown: shown.node.reconciler.working,
    ),
    Metric(
        "minutehand_reconciliations_finished_total",
        Kind.COUNTER,
        "Reconciliations that this node finished.",
        lambda shown: shown.node.reconciler.finished,
    ),
    Metric(
        "minutehand_reconciled_rows_total",
        Kind.COUNTER,
        "Schedules that reconciliations redelivered, cancelled or counted.",
        lambda shown: shown.node.reconciler.rows,
    ),
    Metric(
        "minutehand_background_slots",
        Kind.GAUGE,
        "Storage requests that the background budget (recovery, recounts, searches, retention) allows at once. Fewer "
        "while storage is slow or does not answer.",
        lambda shown: shown.node.budget.pace.size,
    ),
    Metric(
        "minutehand_background_pause_seconds",
        Kind.GAUGE,
        "Approximate pause between two requests of the background budget; above 0 while storage leaves requests "
        "unanswered.",
        lambda shown: shown.node.budget.pace.pause_seconds,
    ),
    Metric(
        "minutehand_background_waiting",
        Kind.GAUGE,
        "Requests that wait for the background budget.",
        lambda shown: shown.node.budget.slots.waiting,
    ),
    Metric(
        "minutehand_background_shrunk_total",
        Kind.COUNTER,
        "Times that the background budget was lowered because storage was slow or did not answer.",
        lambda shown: shown.node.budget.pace.shrunk,
    ),
    Metric(
        "minutehand_receivers_open",
        Kind.GAUGE,
        "Receivers (one host as one client calls it) whose breaker is open.",
        lambda shown: shown.node.dispatcher.held_back().total(),
    ),
    Metric(
        "minutehand_flow_keys_held_back",
        Kind.GAUGE,
        "Flow keys whose rows wait in memory for their rate or parallelism.",
        lambda shown: shown.node.dispatcher.flows.held_back(),
    ),
    Metric(
        "minutehand_flow_deferred_total",
        Kind.COUNTER,
        "Times that a due row was deferred for its flow key: by the key's `limits`, or because its client has too many "
        "`keys` in use at a time.",
        lambda shown: shown.node.dispatcher.flows.deferred,
        labels=("reason",),
    ),
    Metric(
        "minutehand_token_fetches_total",
        Kind.COUNTER,
        "Fetches of destinations' tokens that ended, by result: `granted`, or why there is none, as in the log's lines "
        "`token-unavailable`.",
        lambda shown: shown.node.books.counts.token_fetches,
        labels=("result",),
    ),
    *process_metrics(
        ended=lambda shown: _together(shown.node.books.counts.outcomes, shown.ended.ended),
        hints_dropped=lambda shown: shown.hints_dropped(),
        clock_trusted=lambda shown: shown.clock.wall_trusted(),
        clock_offset_ms=lambda shown: shown.node.membership_agent.view.offset_ms,
        storage_clock_offset_ms=lambda shown: shown.node.membership_agent.servers.ahead_of_most_ms(),
        members=_members,
    ),
)
"""The metrics of a node, besides those of `cql`."""
