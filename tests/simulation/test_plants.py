"""A simulation that can't fail proves nothing: every planted bug is found, and without it the same case passes."""

from collections.abc import Callable

import pytest

from tests.simulation import cases, random_run
from tests.simulation.plants import PLANTS
from tests.simulation.world import Violation, World, simulate

CASES = {
    "no_epoch_check": cases.a_zombie_records_after_the_takeover,
    "floor_over_a_lagging_lane": cases.a_lane_that_lags_behind_its_owners_floor,
    "edit_without_version": cases.cancels_at_the_instant_of_the_claim,
}
SEEDS = {
    "no_trust_check": 17,
    "death_without_the_conditional_write": 20,
    "no_sweep": 1,
    "advance_without_edits": 1,
    "copy_before_pointer": 2,
    "settle_before_the_grace": 3,
}
"""Random runs that find it; others do too."""


def run_of(plant: str) -> Callable[[], World]:
    if plant in CASES:
        return lambda: simulate(CASES[plant], seed=3)
    return lambda: random_run.run(SEEDS[plant])


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(plant)
    run()
    PLANTS[plant](monkeypatch)
    with pytest.raises(Violation):
        run()
