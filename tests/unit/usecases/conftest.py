from collections.abc import AsyncIterator

import pytest

from tests.support.api import ApiHarness
from tests.unit.usecases.late_rows import LateWorld


@pytest.fixture
async def world() -> AsyncIterator[ApiHarness]:
    """Use cases over a store in memory; no port is open."""
    harness = ApiHarness()
    yield harness
    await harness.storage.close()


@pytest.fixture
async def late() -> AsyncIterator[LateWorld]:
    """Rows that are acknowledged late, over a store in memory."""
    world = LateWorld()
    yield world
    await world.storage.close()
