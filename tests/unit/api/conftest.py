from collections.abc import AsyncIterator

import pytest

from tests.support.api import ApiHarness


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


@pytest.fixture
async def key(api: ApiHarness) -> str:
    """The key of the client `shop`, which has three nodes."""
    return await api.register("shop")
