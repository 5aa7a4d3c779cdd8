from collections.abc import AsyncIterator

import pytest

from tests.support.api import ApiHarness


@pytest.fixture
async def world() -> AsyncIterator[ApiHarness]:
    """Use cases over a store in memory; nothing listens."""
    harness = ApiHarness()
    yield harness
    await harness.storage.close()
