"""Setup shared by scenarios in which load makes the store slow."""

import asyncio
import random

from scheduler_service.domain.clients import ClientSettings
from tests.simulation.creates import CreateRecord
from tests.simulation.loaded_store import LoadedStore, Strength
from tests.simulation.world import World

QUIET = "quiet"


def load_store(world: World, *, seed: int = 7, strength: Strength | None = None) -> LoadedStore:
    """Put a store of this strength behind all processes. Call it before nodes are added."""
    store = LoadedStore(world.memory, rng=random.Random(seed), strength=strength)
    world.store = world.api_connection.inner = store
    return store


async def create_rows(
    world: World, client: str, count: int, *, first_ms: float, apart_ms: float, key: str | None = None
) -> list[CreateRecord]:
    """Rows of one client, created concurrently."""
    return await asyncio.gather(
        *(world.create(client, first_ms + apart_ms * number, ordering_key=key) for number in range(count))
    )


async def add_quiet_client(world: World) -> None:
    await world.add_client(QUIET, settings=ClientSettings())


async def create_quiet(world: World, *, first_ms: float, seconds: float, per_second: float = 2.0) -> list[CreateRecord]:
    """Calls of another client, at a steady rate."""
    return await create_rows(world, QUIET, round(seconds * per_second), first_ms=first_ms, apart_ms=1000.0 / per_second)


def lateness_ms(rows: list[CreateRecord], *, now_ms: float) -> list[float]:
    """Lateness of each schedule's first call, or its lateness by now, in order."""
    return sorted((asked.calls[0].at_ms if asked.calls else now_ms) - asked.due for asked in rows)
