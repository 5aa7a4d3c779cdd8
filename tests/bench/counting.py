"""Measures what the metrics on the path of every call and every request cost: CPU microseconds each.

python -m tests.bench.counting
"""

import timeit
from collections.abc import Callable
from typing import Any

from cql.metrics import MeasuredConnection, RequestCounts
from membership.conditional import APPLIED
from poller_cluster.counters import CallCounts
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.metrics import Distribution
from tests.unit.poller_cluster.claimed import result
from tests.unit.poller_cluster.test_call_counts import SHOP, job

TIMES, ROUNDS = 2_000, 15


def main() -> None:
    counts, one, ended, outcome = CallCounts(), job(), result(), Outcome(state=State.DELIVERED)
    distribution = Distribution((0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0))
    plain: Any = _Instant()
    measured = MeasuredConnection(plain, counts=RequestCounts(), monotonic=SystemClock().monotonic)
    asked = _microseconds(lambda: _ask(measured)) - _microseconds(lambda: _ask(plain))
    for what, cost in {
        "an observation in a histogram": _microseconds(lambda: distribution.observe(0.07)),
        "an attempt, all its metrics": _microseconds(lambda: counts.attempt_made(one, ended)),
        "an outcome": _microseconds(lambda: counts.recorded(SHOP, one.claim.row, outcome)),
        "a request to Cassandra, beside the request": asked,
    }.items():
        print(f"{cost:6.2f} us  {what}")


class _Instant:
    async def conditional(self, items: Any) -> Any:
        return APPLIED


def _ask(connection: Any) -> None:
    try:
        connection.conditional([("schedules.commit", ())]).send(None)
    except StopIteration:
        return


def _microseconds(work: Callable[[], object]) -> float:
    """The best of many rounds, because load on the machine only adds to the figure."""
    return min(timeit.repeat(work, number=TIMES, repeat=ROUNDS)) / TIMES * 1e6


if __name__ == "__main__":
    main()
