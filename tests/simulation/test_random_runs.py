"""Random runs by seed. A failure prints the seed and the shortest list of operations that still fails.

`MINUTEHAND_SEEDS=FIRST:LAST` runs others than the usual ones.
"""

import os

import pytest

from tests.simulation.random_run import draw, run, shrink
from tests.simulation.world import Violation


def seeds() -> range:
    first, _, last = os.environ.get("MINUTEHAND_SEEDS", "1:40").partition(":")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("seed", seeds())
def test_whatever_happens_the_promises_hold(seed: int) -> None:
    operations = draw(seed, 40)
    try:
        run(seed, operations=operations)
    except Violation as violation:
        shortest = "\n".join(map(str, shrink(seed, operations)))
        pytest.fail(f"seed {seed}: {violation}\nshortest list of operations that fails:\n{shortest}")
