"""The metrics that API processes and nodes have in common: one name and meaning, read from either."""

from collections.abc import Callable, Mapping

from scheduler_service.runtime.metrics import Kind, Metric, T


def process_metrics(
    *,
    ended: Callable[[T], Mapping[str, int]],
    hints_dropped: Callable[[T], int],
    clock_trusted: Callable[[T], bool],
    clock_offset_ms: Callable[[T], float],
    storage_clock_offset_ms: Callable[[T], float],
    members: Callable[[T], Mapping[str, int]],
) -> tuple[Metric[T], ...]:
    """`ended`: schedules by outcome. Offsets are positive if this process is ahead. `members`: nodes by state."""
    return (
        Metric(
            "minutehand_schedules_total",
            Kind.COUNTER,
            "Schedules that ended, by outcome; a redelivered schedule counts again when it ends again.",
            ended,
            labels=("outcome",),
        ),
        Metric(
            "minutehand_hints_dropped_total",
            Kind.COUNTER,
            "Rows due soon whose hint reached no node: they are found, late, by the sweep of their minute.",
            hints_dropped,
        ),
        Metric(
            "minutehand_clock_trusted",
            Kind.GAUGE,
            "1; 0 while this machine's clock has been stepped and it is not yet known which time is right.",
            clock_trusted,
        ),
        Metric(
            "minutehand_clock_offset_seconds",
            Kind.GAUGE,
            "This process's wall clock minus the members' median; 0 while that is unknown.",
            lambda shown: clock_offset_ms(shown) / 1000.0,
        ),
        Metric(
            "minutehand_storage_clock_offset_seconds",
            Kind.GAUGE,
            "This process's wall clock minus the median of Cassandra's servers, accurate to about a second.",
            lambda shown: storage_clock_offset_ms(shown) / 1000.0,
        ),
        Metric(
            "minutehand_members",
            Kind.GAUGE,
            "Nodes by state, as this process sees them. Nodes that ended are dropped after a while.",
            members,
            labels=("state",),
        ),
    )
