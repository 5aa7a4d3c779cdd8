"""What an API process shows of itself to Prometheus, beside what its requests count."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.metrics import NOT_SHOWN, Kind, Metric, Values
from scheduler_service.usecases.members import MemberState
from scheduler_service.usecases.watch_members import WatchMembers


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """`ended`: schedules that ended by this process's doing, by state. `hints_dropped`, `audit_findings`: see the
    metrics; None: not known."""

    members: WatchMembers
    clock: Clock
    ended: Mapping[str, int]
    hints_dropped: Callable[[], int]
    audit_findings: Callable[[], int | None]


def _members(shown: Shown) -> Mapping[str, int]:
    return {state.value: 0 for state in MemberState} | Counter(member.state.value for member in shown.members.members())


def _taking(shown: Shown) -> Values:
    """Not shown before it is known."""
    if not shown.members.settled:
        return NOT_SHOWN
    return sum(member.beats and member.state is MemberState.LIVE for member in shown.members.members())


def _audit_findings(shown: Shown) -> Values:
    """Without an audit there is nothing to be shown: 0 would say that the books balance."""
    found = shown.audit_findings()
    return NOT_SHOWN if found is None else found


METRICS: Final[tuple[Metric[Shown], ...]] = (
    Metric(
        "minutehand_schedules_total",
        Kind.COUNTER,
        "Schedules that ended, by how; one that is redelivered ends once more.",
        lambda shown: shown.ended,
        labels=("outcome",),
    ),
    Metric(
        "minutehand_hints_dropped_total",
        Kind.COUNTER,
        "Near-term rows that no poller was told of: the sweep of their minute finds them.",
        lambda shown: shown.hints_dropped(),
    ),
    Metric(
        "minutehand_audit_findings",
        Kind.GAUGE,
        "What audits of all clients' books found that must not be, the newest of each window; absent without any.",
        _audit_findings,
    ),
    Metric(
        "minutehand_clock_trusted",
        Kind.GAUGE,
        "1 unless the system's clock was stepped and it is not known yet which time is right.",
        lambda shown: shown.clock.wall_trusted(),
    ),
    Metric(
        "minutehand_clock_offset_seconds",
        Kind.GAUGE,
        "This process's wall clock against the members' median; positive is ahead. 0 while it is not known.",
        lambda shown: (shown.members.offset_ms or 0) / 1000.0,
    ),
    Metric(
        "minutehand_storage_clock_offset_seconds",
        Kind.GAUGE,
        "This process's wall clock against the median of Cassandra's servers, to a second or so; positive is ahead.",
        lambda shown: shown.members.servers.ahead_of_most_ms() / 1000.0,
    ),
    Metric(
        "minutehand_members",
        Kind.GAUGE,
        "Pollers' processes by state, as this process sees them. Those that ended are forgotten after a while.",
        _members,
        labels=("state",),
    ),
    Metric(
        "minutehand_nodes_taking",
        Kind.GAUGE,
        "Pollers' processes that beat and take pollers, as this API sees them; those that drain don't count. 0: nobody "
        "is called. Absent for the first seconds.",
        _taking,
    ),
)
"""What an API shows of its surroundings."""
