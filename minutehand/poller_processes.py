"""Several poller processes on one machine, each a member of its own: what they are called, where they listen."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from cql.storage import open_storage
from minutehand.config import Settings
from minutehand.local.workers import Work, run_workers

ENDING_SECONDS = 10.0
"""What the end of a process may take beside handing over and leaving."""


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def poller_works(settings: Settings, *, node_id: str, processes: int, config: Path | None) -> Sequence[Work]:
    """NODE-0, NODE-1, ... A configured port is the first one's, the others listen on those above it."""
    first_port = settings.ops.port
    given = [] if config is None else ["--config", str(config)]
    return [
        Work(
            name=(name := f"{node_id}-{number}"),
            arguments=["poller", *given, "--processes", "1", "--node-id", name],
            variables={} if first_port == 0 else {"MINUTEHAND_OPS_PORT": str(first_port + number)},
        )
        for number in range(processes)
    ]


def run_pollers(settings: Settings, *, node_id: str, processes: int, config: Path | None) -> None:
    """Until SIGTERM or SIGINT. Raises MinutehandError where storage is not as they need it, and WorkersFailed."""
    asyncio.run(_check_storage(settings))
    membership = settings.membership
    run_workers(
        poller_works(settings, node_id=node_id, processes=processes, config=config),
        grace_seconds=membership.drain_seconds
        + 2 * membership.leave_seconds
        + 2 * membership.send_margin_seconds
        + ENDING_SECONDS,
    )


async def _check_storage(settings: Settings) -> None:
    """What keeps every process from starting is better said once."""
    await (await open_storage(settings.cassandra)).close()
