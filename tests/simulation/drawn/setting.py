"""The properties of a random world that stay the same during its run."""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from tests.simulation.loaded_store import Strength

NODES = ("a", "b", "c")
APIS = ("x", "y")
SERVERS = ("s", "t", "u")
"""The store's servers, each on a machine of its own."""


@dataclass(frozen=True)
class Setting:
    """`skew_ms`: the greatest error of hosts' clocks, either way. `skip_after_seconds`: the late policy of the client
    `hasty`. `hints_lost`, `hints_crowded`: probabilities for a hint. `short_days`: rows are kept for minutes, not for
    days. `strength`: the capacity of a store whose latency grows with its load; None: it has no limits. `servers_ms`:
    the error of each storage server's clock. `in_place`: every node knows of revisions. `destinations`: some callbacks
    name one. `overdue_per_second`: the overdue rate of the client `shop`.
    """

    nodes: int
    apis: int
    skew_ms: float
    skip_after_seconds: float
    hints_lost: float
    hints_crowded: float
    short_days: bool
    strength: Strength | None
    servers_ms: tuple[float, ...]
    in_place: bool
    destinations: bool
    overdue_per_second: float | None


SKIPS = (0.5, 2.0, 10.0, 30.0, 90.0)
SKEWS = (0.0, 50.0, 100.0, 450.0)
STRENGTHS = (None, None, None, Strength(), Strength(cores=1, request_ms=4.0, proposal_ms=12.0, row_ms=0.5))
OF_DESTINATIONS = 0.5
"""The share of runs whose callbacks name destinations. The others are the same as without destinations."""
OVERDUE_RATES = (None, None, 1.0, 5.0)
WRONG_MS = 600_000
"""The greatest error of a clock that is not disciplined, unlike those of most hosts."""
SHORT_DAY_MS = 8 * 60_000
SHORT_MARGIN_MS = 2 * 60_000
SHORT_ROUND_SECONDS = 60.0


def draw_setting(seed: int) -> Setting:
    rng = random.Random(f"setting {seed}")
    return Setting(
        nodes=1 + seed % len(NODES),
        apis=rng.choice((1, 2)),
        skew_ms=rng.choice(SKEWS),
        skip_after_seconds=rng.choice(SKIPS),
        hints_lost=rng.choice((0.0, 0.3, 0.6)),
        hints_crowded=rng.choice((0.0, 0.2)),
        short_days=rng.random() < 0.25,
        strength=rng.choice(STRENGTHS),
        servers_ms=_draw_servers(rng),
        in_place=rng.random() < 0.75,
        destinations=draws_destinations(seed),
        overdue_per_second=random.Random(f"overdue {seed}").choice(OVERDUE_RATES),
    )


def draws_destinations(seed: int) -> bool:
    return random.Random(f"destinations {seed}").random() < OF_DESTINATIONS


def _draw_servers(rng: random.Random) -> tuple[float, ...]:
    """Draw one or three servers, of which one may be wrong from the start."""
    wrong_ms = rng.choice((-1, 1)) * WRONG_MS * rng.random() if rng.random() < 0.2 else 0.0
    return rng.choice(((wrong_ms,), (0.0, wrong_ms, 0.0)))


@contextmanager
def small_scale(setting: Setting) -> Iterator[None]:
    """Make reconciliations read few rows at a time and, with short days, shorten the day for those that count in
    days.
    """
    usecases = "scheduler_service.usecases"
    with ExitStack() as patches:
        for name, rows in (("SLICE_ROWS", 4), ("POLLER_ROWS", 2), ("ROWS_BETWEEN_CHECKS", 3)):
            patches.enter_context(patch(f"{usecases}.reconcile.{name}", rows))
        if setting.short_days:
            for module in ("redeliver", "reschedule_schedule"):
                patches.enter_context(patch(f"{usecases}.{module}.DAY_MS", SHORT_DAY_MS))
            patches.enter_context(patch(f"{usecases}.redeliver.DELETION_MARGIN_MS", SHORT_MARGIN_MS))
            patches.enter_context(patch("poller_cluster.retention.DAY_MS", SHORT_DAY_MS))
            patches.enter_context(patch("poller_cluster.retention.SWEEP_EVERY_SECONDS", SHORT_ROUND_SECONDS))
        yield
