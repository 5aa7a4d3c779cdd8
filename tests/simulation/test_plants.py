"""A simulation that can't fail proves nothing: every planted bug is found, and without it the same case passes."""

from collections.abc import Callable, Iterator

import pytest

from tests.simulation import cases
from tests.simulation.drawn.run import run
from tests.simulation.plants import PLANTS
from tests.simulation.world import World, simulate

CASES = {
    "no_epoch_check": cases.a_zombie_records_after_the_takeover,
    "floor_over_a_lagging_lane": cases.a_lane_that_lags_behind_its_owners_floor,
    "balance_of_a_lower_epoch_wins": cases.a_zombie_writes_a_balance,
    "edit_without_version": cases.cancels_at_the_instant_of_the_claim,
}
SEEDS = range(1, 61)
"""Of the runs with these, at least one must find it; where no case was made for a plant, random runs must."""


def runs_of(plant: str) -> Iterator[Callable[[], World]]:
    case = CASES.get(plant)
    for seed in SEEDS:
        if case is None:
            yield lambda seed=seed: run(seed)  # type: ignore[misc]
        else:
            yield lambda seed=seed: simulate(case, seed=seed)  # type: ignore[misc]


def finds_a_violation(run: Callable[[], World]) -> bool:
    try:
        run()
    except AssertionError:  # a violation, or what the case itself expects
        return True
    return False


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[plant](monkeypatch)
    finder = next((run for run in runs_of(plant) if finds_a_violation(run)), None)
    assert finder is not None, "no run fails though the bug is there"
    monkeypatch.undo()
    finder()
