"""What an API process shows of its clock to Prometheus, beside what its requests count."""

from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.metrics import Metrics
from scheduler_service.usecases.watch_members import WatchMembers


def show_clock(members: WatchMembers, *, clock: Clock, metrics: Metrics) -> None:
    """Register the clock's gauges. Once per process."""
    metrics.gauge(
        "minutehand_clock_trusted",
        "1 unless the system's clock was stepped and it is not known yet which time is right.",
        lambda: clock.wall_trusted(),
    )
    metrics.gauge(
        "minutehand_clock_offset_seconds",
        "This process's wall clock against the pollers' median; positive is ahead. 0 while it is not known.",
        lambda: (members.offset_ms or 0) / 1000.0,
    )
