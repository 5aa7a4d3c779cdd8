"""What every part of a node works with."""

from collections.abc import Callable
from dataclasses import dataclass

from membership.ports import Spawn
from poller_cluster.background_budget import BackgroundBudget
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRuntime:
    """The clock, the randomness, the tasks and the background budget of one node, and its trust.

    `trusted()`: whether this incarnation may act: it has trust, and has read its clients since it has it.
    `on_fault(name, error)` is told of unhandled exceptions in a piece of work that is retried or fails alone, while the
    node goes on."""

    clock: Clock
    randomness: Randomness
    spawn: Spawn
    budget: BackgroundBudget
    trusted: Callable[[], bool]
    on_fault: Callable[[str, BaseException], None]
