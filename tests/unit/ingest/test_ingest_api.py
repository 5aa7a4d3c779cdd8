"""What answers mean for records, where they are not the API's, or ask for names that look like steps of a path."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
from aiohttp import web

from minutehand.ingest.api import IngestApi, Later
from minutehand.ingest.records import Record
from tests.support.api import ApiHarness, ManualClock, SeededRandomness
from tests.unit.ingest.test_partition import DUE, scene
from tests.unit.ingest.test_records import document


@pytest.fixture
async def proxy() -> AsyncIterator[IngestApi]:
    """A proxy that has no API to ask for a moment."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=404, text="default backend - 404")

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with IngestApi(url, "k", "shop", clock=ManualClock(), randomness=SeededRandomness()) as api:
            yield api
    finally:
        await runner.cleanup()


async def test_a_404_that_is_not_the_apis_says_nothing_of_a_schedule(proxy: IngestApi) -> None:
    """Taken for the API's, it would have a batch made twice."""
    with pytest.raises(Later):
        await proxy.exists(uuid4())
    with pytest.raises(Later):
        await proxy.named("k")


@pytest.mark.parametrize("key", [".", "..", "a/../b", "?", "#", "%2e%2e", "%", "+", "a;b"])
async def test_a_cancel_reaches_the_key_that_a_put_took(key: str) -> None:
    async with ApiHarness() as harness:
        world = await scene(harness)
        put = Record("t", 0, 0, None, key.encode(), document(op="put", due=DUE, label="x"))
        await world.handle([put])
        await world.handle([put, Record("t", 0, 1, None, key.encode(), None)])
        assert await world.made() == {("x", "cancelled"): 1}
