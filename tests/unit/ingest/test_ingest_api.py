"""What answers mean for records, where they are not the API's, or ask for names that look like steps of a path."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from aiohttp import web

from minutehand.ingest.api import IngestApi, Later
from minutehand.ingest.records import Record
from tests.support.api import NOW, ApiHarness, ManualClock, SeededRandomness
from tests.unit.ingest.test_partition import DUE, scene
from tests.unit.ingest.test_records import document


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    """The address of a server that answers everything so."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def asking(url: str) -> IngestApi:
    return IngestApi(url, "k", "shop", clock=ManualClock(), randomness=SeededRandomness())


@pytest.fixture
async def proxy() -> AsyncIterator[IngestApi]:
    """A proxy that has no API to ask for a moment."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=404, text="default backend - 404")

    async with serving(answer) as url, asking(url) as api:
        yield api


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


async def test_the_clients_settings_are_asked_for_again_after_a_while() -> None:
    async with ApiHarness() as harness:
        key, clock = await harness.register(settings={"retention_days": 3}), harness.clock
        assert harness.server is not None
        url = f"http://127.0.0.1:{harness.server.port}"
        async with IngestApi(url, key, "shop", clock=clock, randomness=SeededRandomness()) as api:
            assert await api.terms() == (60.0, 3)
            await harness.register(settings={"retention_days": 2, "accept_past_seconds": 0.5})
            assert await api.terms() == (60.0, 3)
            clock.advance(1)
            assert await api.terms(within_seconds=0.0) == (0.5, 2)


@pytest.mark.parametrize("told", [None, "accept_past_seconds=soon"])
async def test_an_api_that_does_not_tell_the_clients_settings_is_waited_for(told: str | None) -> None:
    async def answer(request: web.Request) -> web.Response:
        headers = {"Minutehand-Once": f"{NOW}.2"} | ({} if told is None else {"Minutehand-Client-Settings": told})
        problem = {"type": "/problems/once-refused", "title": "-", "status": 409}
        return web.json_response(problem, status=409, headers=headers, content_type="application/problem+json")

    async with serving(answer) as url, asking(url) as api:
        assert (await api.token())[1] == NOW + 1
        with pytest.raises(Later, match="accept_past_seconds and retention_days") as later:
            await api.terms()
        assert later.value.denied
