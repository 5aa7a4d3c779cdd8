"""Several processes of one program under one command: what all of them need is looked at once, then they are run."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from cql.settings import StorageSettings
from cql.storage import open_storage
from minutehand.processes.health import HealthSettings, answering_for
from minutehand.processes.workers import Work, run_workers

ENDING_SECONDS = 10.0
"""What the end of a process may take beside what it has to finish."""


def arguments_of(program: str, config: Path | None, *more: str) -> list[str]:
    """The command of one of several processes."""
    given = [] if config is None else ["--config", str(config)]
    return [program, *given, "--processes", "1", *more]


def run_several(
    works: Sequence[Work], *, storage: StorageSettings, health: HealthSettings, finishing_seconds: float
) -> None:
    """Until SIGTERM or SIGINT. Raises MinutehandError where storage or the health's port is not as they need it, and
    WorkersFailed."""
    asyncio.run(_check(storage))
    with answering_for(works, health) as told:
        run_workers(told, grace_seconds=finishing_seconds + ENDING_SECONDS)


async def _check(storage: StorageSettings) -> None:
    """What keeps every process from starting is better said once."""
    await (await open_storage(storage)).close()
