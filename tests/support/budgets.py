"""Background budgets, for tests of the code that draws on one."""

from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.settings import BackgroundSettings
from scheduler_service.runtime.clock import Clock
from tests.support.api import SeededRandomness


def budget(clock: Clock, settings: BackgroundSettings | None = None, *, minutes_at_once: int = 4) -> BackgroundBudget:
    return BackgroundBudget(
        clock=clock,
        randomness=SeededRandomness(),
        settings=settings or BackgroundSettings(),
        minutes_at_once=minutes_at_once,
    )
