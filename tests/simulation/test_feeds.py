"""A reader of a client's feed misses no end, whatever becomes of owners and of their requests."""

import random
from collections.abc import Sequence

import pytest

from cql.connection import Item
from scheduler_service.domain.clients import ClientSettings, RetrySettings
from scheduler_service.domain.ids import minute_of, minute_start
from tests.simulation.cluster import SHOP, begin_load, owner_of, three_nodes
from tests.simulation.feeds import FEED_PLANTS, FeedReader
from tests.simulation.world import Violation, World, simulate

FEED = ClientSettings(event_feed=True, retry=RetrySettings(base_seconds=2.0))
OUTAGE_SECONDS = 20.0


def loses_events(chance: float, rng: random.Random, *ways: str) -> object:
    """A part of the requests about events end in one of these ways."""

    def hook(kind: str, items: Sequence[Item]) -> str | None:
        if kind != "write" or not items[0][0].startswith("event"):
            return None
        return rng.choice(ways) if rng.random() < chance else None

    return hook


async def troubled(world: World) -> None:
    """Takeovers from dead, frozen and leaving nodes, lost answers, an outage; cancels and retries all the while."""
    await three_nodes(world, settings=FEED)
    reader = FeedReader(world)
    rng = random.Random(world.rng.random())
    world.receiver.script = lambda call: 503 if call.attempt == 1 and call.due_ms % 5 == 0 else 200
    load = begin_load(world, seconds=150.0, per_second=3.0)
    for node in world.nodes.values():
        node.connection.plan.hook = loses_events(0.3, rng, "refuse", "lose", "late")  # type: ignore[assignment]
    await world.advance(20.0)
    for asked in [one for one in world.asked.values() if one.due > world.now_ms() + 5_000][:10]:
        await world.cancel(asked)
    killed = owner_of(world, 0)
    await world.kill(killed)
    await world.advance(15.0)
    world.add_node(killed)
    await world.advance(10.0)
    frozen = owner_of(world, 1)
    world.pause(frozen)
    await world.advance(14.0)
    world.resume(frozen)
    await world.advance(10.0)
    for number in range(8):
        asked = await world.create(SHOP, world.now_ms() + 90_000 + number * 1_000)
        await world.cancel(asked)
    # Over the instant at which a minute settles.
    await world.advance_to(minute_start(minute_of(world.now_ms()) + 1) - 5_000)
    for node in world.nodes.values():
        node.connection.plan.hook = loses_events(1.0, rng, "refuse")  # type: ignore[assignment]
    await world.advance(OUTAGE_SECONDS)
    killed = owner_of(world, 2)
    await world.kill(killed)
    world.add_node(killed)
    for node in world.nodes.values():
        node.connection.plan.hook = None
    await world.advance(20.0)
    await load
    await world.settle_down()
    await reader.check()
    late = FeedReader(world)
    await late.check(within=20.0)
    for one in (reader, late):
        await one.stop()
    assert len(reader.seen) > 200


@pytest.mark.parametrize("seed", [1, 2])
def test_a_reader_misses_no_end(seed: int) -> None:
    simulate(troubled, seed=seed)


@pytest.mark.parametrize("plant", FEED_PLANTS)
def test_a_planted_bug_is_found(monkeypatch: pytest.MonkeyPatch, plant: str) -> None:
    FEED_PLANTS[plant](monkeypatch)
    with pytest.raises(Violation, match="were not told"):
        simulate(troubled, seed=1)
