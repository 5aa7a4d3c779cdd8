"""Planted bugs that the scenes of destinations must find."""

import pytest

from tests.simulation import destination_plants as plants
from tests.simulation import destination_scenes as scenes
from tests.simulation.plants import Plant
from tests.simulation.world import Scene, Violation, simulate


@pytest.mark.parametrize(
    ("plant", "scene"),
    [
        (plants.pauses_hold_claims_alone, lambda world: scenes.paused_after_the_claim(world, dies=False)),
        (plants.pauses_hold_claims_alone, lambda world: scenes.paused_after_the_claim(world, dies=True)),
        (plants.destinations_are_opened_once, lambda world: scenes.changed_between_claim_and_call(world, dies=False)),
        (plants.each_row_has_a_look_of_its_own, lambda world: scenes.resumed(world, dies=False)),
        (plants.looks_come_hours_apart, lambda world: scenes.paused_after_the_claim(world, dies=False)),
        (plants.what_is_unknown_is_gone, scenes.named_at_once),
        (plants.an_outage_leaves_no_doubt, lambda world: scenes.paused_while_nodes_are_cut_off(world, seconds=60)),
        (plants.a_deletion_is_not_heard_of, lambda world: scenes.deleted(world, dies=False)),
    ],
)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, scene: Scene) -> None:
    plant(monkeypatch)
    with pytest.raises((Violation, AssertionError)):
        simulate(scene)
