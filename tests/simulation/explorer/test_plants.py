"""Each planted mistake is found."""

import dataclasses

import pytest

from tests.simulation.explorer.plants import PLANTS
from tests.simulation.explorer.scene import Scene
from tests.simulation.explorer.search import Found, explore, walk

WITHOUT_END = Scene(crash=False, writer_crash=False, losses=0, ticks=0)
"""A create, a cancel, and a first incarnation that may lose trust and go on; the minute does not end."""
WITHOUT_CANCEL = dataclasses.replace(WITHOUT_END, cancel=False, ticks=1)
"""The same with an end of the minute, and no cancel."""
UPDATED = dataclasses.replace(WITHOUT_CANCEL, update=True, zombie=False, ticks=0)
"""A create and its update against one owner; the minute does not end."""
FOUND_IN = {
    "a commit ignores external updates": (WITHOUT_END, 1),
    "an external update ignores the version": (WITHOUT_END, 2),
    "prefetch kept over an open": (WITHOUT_END, 2),
    "recovery ignores what is in flight": (WITHOUT_END, 1),
    "no late rule": (WITHOUT_CANCEL, 1),
    "late rule ignores what is in flight": (WITHOUT_CANCEL, 3),
    "late rule trusts a stale claim": (WITHOUT_CANCEL, 1),
    "an update ignores what is in flight": (UPDATED, 2),
    "an update does not know its own": (dataclasses.replace(UPDATED, losses=1), 2),
    "the claimed are rechecked for outcomes": (UPDATED, 2),
    "the deferred are rechecked for outcomes": (dataclasses.replace(UPDATED, defers=True), 2),
    "what is held stays as first read": (dataclasses.replace(UPDATED, ticks=1, headroom=0), 2),
    "a requeue has the content of the create": (dataclasses.replace(UPDATED, ticks=1), 3),
    "a requeue ignores revisions": (dataclasses.replace(UPDATED, ticks=1), 3),
}
"""Per plant: a scene that finds it, and the switches that this takes."""


def test_every_plant_is_looked_for() -> None:
    assert FOUND_IN.keys() == PLANTS.keys()


@pytest.mark.parametrize("plant", FOUND_IN)
def test_the_explorer_finds_each_planted_mistake(plant: str) -> None:
    scene, switches = FOUND_IN[plant]
    with pytest.raises(Found) as found:
        explore(dataclasses.replace(scene, plant=PLANTS[plant]), states=20_000, switches=switches)
    assert len(found.value.trail) > 5


def test_a_walk_finds_a_plant_and_the_same_seed_the_same_way() -> None:
    assert first_find("an external update ignores the version") == first_find("an external update ignores the version")


def first_find(plant: str) -> tuple[str, ...]:
    scene = dataclasses.replace(WITHOUT_END, plant=PLANTS[plant])
    for seed in range(200):
        try:
            walk(scene, seed=seed)
        except Found as found:
            return found.trail
    raise AssertionError("not found")
