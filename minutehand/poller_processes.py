"""Several poller processes on one machine, each a member of its own: what they are called, where they listen."""

import os
from collections.abc import Sequence
from pathlib import Path

from minutehand.config import Settings
from minutehand.processes.workers import Work
from minutehand.several_processes import arguments_of, run_several


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def poller_works(settings: Settings, *, node_id: str, processes: int, config: Path | None) -> Sequence[Work]:
    """NODE-0, NODE-1, ... A configured port is the first one's, the others listen on those above it."""
    first_port = settings.ops.port
    return [
        Work(
            name=(name := f"{node_id}-{number}"),
            arguments=arguments_of("poller", config, "--node-id", name),
            variables={} if first_port == 0 else {"MINUTEHAND_OPS_PORT": str(first_port + number)},
        )
        for number in range(processes)
    ]


def run_pollers(settings: Settings, *, node_id: str, processes: int, config: Path | None) -> None:
    """Until SIGTERM or SIGINT. Raises MinutehandError where storage is not as they need it, and WorkersFailed."""
    membership = settings.membership
    run_several(
        poller_works(settings, node_id=node_id, processes=processes, config=config),
        storage=settings.cassandra,
        health=settings.health,
        finishing_seconds=membership.drain_seconds + 2 * membership.leave_seconds + 2 * membership.send_margin_seconds,
    )
