"""Every planted bug is found by a scenario that passes without it."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.simulation import test_reconciliations as scenarios
from tests.simulation.reconciliation_plants import RECONCILIATION_PLANTS
from tests.simulation.reconciliations import small_slices

INTERRUPTED = scenarios.test_every_step_is_interrupted
FINDERS: dict[str, Callable[[], None]] = {
    "no_redelivered_at_check": partial(INTERRUPTED, scenarios.PROGRESS, "crash-before"),
    "progress_without_version": partial(scenarios.test_what_is_stopped_stays_so_and_counts_what_was_done, 0, False),
    "slots_for_everybody": scenarios.test_never_more_run_than_a_client_has_slots,
    "pointers_are_not_completed": partial(INTERRUPTED, scenarios.COPIES, "crash-before"),
    "progress_before_what_was_done": partial(INTERRUPTED, scenarios.HANDLED, "crash-before"),
    "what_was_done_before_is_not_counted": partial(INTERRUPTED, scenarios.PROGRESS, "crash-before"),
}


@pytest.mark.parametrize("plant", RECONCILIATION_PLANTS)
def test_a_planted_bug_is_found(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_slices(monkeypatch)
    RECONCILIATION_PLANTS[plant](monkeypatch)
    with pytest.raises(AssertionError):
        FINDERS[plant]()
