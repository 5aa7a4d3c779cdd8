"""The protocol holds in every state within these bounds, and along these walks."""

import dataclasses
import random

import pytest

from tests.simulation.explorer.scene import Scene
from tests.simulation.explorer.search import explore, walk

CALM = Scene(crash=False, zombie=False, writer_crash=False, losses=0, ticks=1)
"""One create, one cancel, one owner, and the end of the minute at any time."""

BOUNDED = {
    "create and cancel against the owner": (CALM, 2),
    "an incarnation without trust, before the minute ends": (dataclasses.replace(CALM, zombie=True, ticks=0), 3),
    "any incarnation, before the minute ends": (
        dataclasses.replace(CALM, crash=True, zombie=True, losses=1, ticks=0),
        1,
    ),
    "an answer is lost": (dataclasses.replace(CALM, losses=1), 1),
    "the owner crashes": (dataclasses.replace(CALM, crash=True, cancel=False, writer_crash=True), 1),
    "the owner loses trust and goes on": (dataclasses.replace(CALM, zombie=True, cancel=False), 0),
    "the first attempt fails": (dataclasses.replace(CALM, fails=1, cancel=False), 2),
    "two rows, a page each": (dataclasses.replace(CALM, creates=2, page_rows=1, ticks=0), 0),
    "delivered again": (dataclasses.replace(CALM, redeliver=True, cancel=False), 1),
    "updated": (dataclasses.replace(CALM, update=True, cancel=False), 2),
    "updated, an answer is lost": (dataclasses.replace(CALM, update=True, cancel=False, losses=1), 1),
    "updated, the owner crashes": (dataclasses.replace(CALM, update=True, cancel=False, crash=True, ticks=0), 1),
    "updated and deferred": (dataclasses.replace(CALM, update=True, cancel=False, defers=True), 1),
    "updated and cancelled": (dataclasses.replace(CALM, update=True, ticks=0), 2),
    "handed over": (dataclasses.replace(CALM, hand_over=True, cancel=False), 1),
}
"""Scenes, and the number of switches between their actors."""


@pytest.mark.parametrize("name", BOUNDED)
def test_every_state_within_bounds_holds(name: str) -> None:
    scene, switches = BOUNDED[name]
    explored = explore(scene, states=20_000, switches=switches)
    assert explored.complete, explored


def drawn(seed: int) -> Scene:
    """A random scene."""
    draw = random.Random(seed)

    def often(chance: float) -> bool:
        return draw.random() < chance

    return Scene(
        creates=draw.choice([1, 1, 2, 3]),
        cancel=often(0.7),
        redeliver=often(0.3),
        update=often(0.5),
        defers=often(0.2),
        fails=draw.choice([0, 0, 1, 2]),
        crash=often(0.6),
        zombie=often(0.6),
        hand_over=often(0.3),
        writer_crash=often(0.5),
        losses=draw.choice([0, 1, 3]),
        ticks=draw.choice([1, 2, 3]),
        zombie_reads=often(0.5),
        split=often(0.7),
        page_rows=draw.choice([1, 2, 1000]),
        headroom=draw.choice([1, 2, 10]),
        same_minute_retry=often(0.5),
    )


@pytest.mark.parametrize("decade", range(8))
def test_random_walks_through_random_scenes_hold(decade: int) -> None:
    for seed in range(decade * 60, decade * 60 + 60):
        walk(drawn(seed), seed=seed, faults=(0.05, 0.15, 0.4)[seed % 3])
