from collections.abc import AsyncIterator

import pytest

from tests.support.api import ApiHarness
from tests.support.browser import Browser
from tests.unit.console.world import World


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


@pytest.fixture
async def key(api: ApiHarness) -> str:
    """The key of the client `shop`, which may write."""
    return await api.register("shop")


@pytest.fixture
async def manager(api: ApiHarness, key: str) -> AsyncIterator[Browser]:
    """Logged in with a key of `shop` that may manage."""
    made = await api.send("POST", "/v1/clients/shop/keys", json={"scope": "manage", "name": "manager"})
    async with browser_of(api) as browser:
        await browser.log_in(made.json["key"])
        yield browser


@pytest.fixture
async def reader(api: ApiHarness, key: str) -> AsyncIterator[Browser]:
    """Logged in with a key of `shop` that may only read."""
    made = await api.send("POST", "/v1/clients/shop/keys", json={"scope": "read"})
    async with browser_of(api) as browser:
        await browser.log_in(made.json["key"])
        yield browser


def browser_of(api: ApiHarness) -> Browser:
    assert api.server is not None
    assert api.server.port is not None
    return Browser(api.server.port)


@pytest.fixture
async def world(api: ApiHarness) -> World:
    made = World(api)
    await made.make()
    return made
