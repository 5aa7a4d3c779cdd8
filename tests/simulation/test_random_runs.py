"""Random runs by seed. A failure prints the seed and the shortest list of operations that still fails.

`MINUTEHAND_SEEDS=FIRST:LAST` selects other seeds than the usual ones.
"""

import os

import pytest

from tests.simulation.drawn.operations import draw
from tests.simulation.drawn.run import COUNT, run, shrink


def seeds() -> range:
    first, _, last = os.environ.get("MINUTEHAND_SEEDS", "1:80").partition(":")
    return range(int(first), int(last or first) + 1)


@pytest.mark.parametrize("seed", seeds())
def test_whatever_happens_the_promises_hold(seed: int) -> None:
    operations = draw(seed, COUNT)
    try:
        run(seed, operations=operations)
    except Exception as error:
        shortest = "\n".join(map(str, shrink(seed, operations)))
        pytest.fail(f"seed {seed}: {error!r}\n{error}\nshortest list of operations that fails:\n{shortest}")


@pytest.mark.parametrize("seed", [2, 3, 1004])
def test_one_seed_is_one_run(seed: int) -> None:
    assert run(seed).trace == run(seed).trace
