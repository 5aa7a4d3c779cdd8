"""Stages of long runs: a bound counts from the due, or from the act before the call had to arrive."""

from typing import Any
from uuid import UUID

import pytest

from tests.support.stages import Stage, Stages

PLANNED, DEATH = 2.0, 12.0
CALM, KILL, AFTER = 1_000.0, 1_100.0, 1_120.0


@pytest.fixture
def stages() -> Stages:
    """A calm, a kill that may delay calls by 12 s, a calm."""
    built = Stages()
    built.every = [
        Stage(name="calm", at_most_late=PLANNED, start=CALM, end=KILL),
        Stage(name="kill", at_most_late=DEATH, start=KILL, end=AFTER),
        Stage(name="after", at_most_late=PLANNED, start=AFTER),
    ]
    return built


def call(due: float, late: float) -> dict[str, Any]:
    return {
        "id": str(UUID(int=0)),
        "attempt": 1,
        "fence": 1,
        "due": due,
        "arrived": due + late,
        "redelivery": False,
    }


@pytest.mark.parametrize(
    ("due", "late"),
    [
        (CALM + 50.0, 1.9),
        (KILL - 0.1, 1.9),
        (KILL - 0.1, 12.0),
        (KILL - 1.9, 13.8),
        (KILL + 0.1, 11.9),
        (AFTER - 0.1, 11.9),
        (AFTER + 0.1, 1.9),
    ],
)
def test_a_call_within_the_bound_of_its_stage_is_in_time(stages: Stages, due: float, late: float) -> None:
    one = call(due, late)
    assert stages.faults([one], punctual={one["id"]}) == []


@pytest.mark.parametrize(
    ("due", "late", "name"),
    [
        (CALM + 50.0, 2.1, "calm"),
        (KILL - 2.1, 2.2, "calm"),
        (KILL - 0.1, 12.2, "calm"),
        (KILL + 0.1, 12.1, "kill"),
        (AFTER - 0.1, 12.1, "kill"),
        (AFTER + 0.1, 2.1, "after"),
    ],
)
def test_a_call_that_is_later_is_a_fault_of_the_stage_in_which_it_was_due(
    stages: Stages, due: float, late: float, name: str
) -> None:
    one = call(due, late)
    (fault,) = stages.faults([one], punctual={one["id"]})
    assert fault.startswith(f"{name}: ")
