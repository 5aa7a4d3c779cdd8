"""Runs of a cron keep to their policy in every order of steps; without any one of the rules they do not."""

import pytest

from tests.models.overlaps import BUFFER_ALL, BUFFER_ONE, CANCEL_OTHER, POLICIES, SKIP, Model

TWO = "two are under way"
SKIPPED = "a run is skipped for nothing"
FAULTS = [("late", "death", "cancel"), ("death", "redelivery"), ("back", "loss", "cancel")]
PLANTS = {
    "unheld": (SKIP, ("late",), TWO),
    "unclaimed": (BUFFER_ALL, ("late",), TWO),
    "undoubted": (CANCEL_OTHER, ("death", "redelivery"), TWO),
    "hasty": (SKIP, ("death",), TWO),
    "early": (SKIP, (), SKIPPED),
    "stale": (BUFFER_ONE, ("cancel",), SKIPPED),
    "single": (BUFFER_ALL, ("death", "redelivery"), TWO),
    "lifeless": (BUFFER_ALL, ("page", "redelivery"), TWO),
    "newer": (CANCEL_OTHER, (), "a later run is cancelled"),
    "unlooked": (BUFFER_ALL, ("cancel",), "1 waits for ever"),
    "unwaited": (BUFFER_ALL, ("redelivery",), TWO),
    "dropping": (BUFFER_ALL, (), "a run is skipped under buffer_all"),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("faults", FAULTS, ids=" ".join)
def test_two_runs_keep_to_their_policy(policy: str, faults: tuple[str, ...]) -> None:
    states, violation = Model(policy, faults).walk()
    assert violation is None
    assert states > 1_000


@pytest.mark.parametrize("policy", [SKIP, BUFFER_ALL])
def test_a_late_page_ends_no_later_delivery(policy: str) -> None:
    states, violation = Model(policy, ("page", "redelivery")).walk()
    assert violation is None
    assert states > 10_000


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("faults", [(), ("late",)], ids=["no fault", "late"])
def test_three_runs_keep_to_their_policy(policy: str, faults: tuple[str, ...]) -> None:
    _, violation = Model(policy, faults, runs=3).walk()
    assert violation is None


def test_of_three_runs_one_that_was_cancelled_costs_no_other() -> None:
    states, violation = Model(BUFFER_ONE, ("cancel",), runs=3).walk()
    assert violation is None
    assert states > 5_000


@pytest.mark.parametrize("plant", PLANTS)
def test_each_rule_is_needed(plant: str) -> None:
    policy, faults, wrong = PLANTS[plant]
    _, violation = Model(policy, faults, [plant], runs=3 if policy == BUFFER_ONE else 2).walk()
    assert violation is not None
    assert violation[-1] == wrong
