"""A client's events of the last minutes, whatever they say."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler_service.api.resources.events import STREAM_SECONDS
from scheduler_service.domain.events import Block
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.unit.api.test_events import feed, tell
from tests.unit.console.conftest import browser_of
from tests.unit.console.test_login import Wire, form_token


@pytest.fixture
async def wire(api: ApiHarness) -> AsyncIterator[Wire]:
    one = Wire(api)
    yield one
    await one.close()


async def test_events_are_shown_that_have_no_key_no_status_and_no_reason(api: ApiHarness) -> None:
    await feed(api)
    await tell(api, Block("0000", 7, 0), 0, [1, 2])
    api.clock.advance(60)
    async with browser_of(api) as browser:
        await browser.log_in(ADMIN_KEY)
        shown = await browser.open("/console/clients/shop/events")
    assert shown.status == 200
    assert shown.text.count("schedule.delivered") == 2


async def test_who_asks_for_the_head_of_a_stream_gets_no_events(api: ApiHarness, wire: Wire) -> None:
    await feed(api)
    await tell(api, Block("0000", 7, 0), 0, [1, 2])
    cookie = await wire.session(ADMIN_KEY)
    host, _, port = wire.host.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = "/console/clients/shop/events/stream?after=earliest"
    writer.write(f"HEAD {path} HTTP/1.1\r\nHost: {wire.host}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert (head.startswith(b"HTTP/1.1 200 "), body) == (True, b"")


@pytest.mark.parametrize("ending", ["logout", "revoked", "expired"])
async def test_a_stream_ends_within_seconds_of_its_session(api: ApiHarness, wire: Wire, ending: str) -> None:
    await feed(api)
    made = await api.send("POST", "/v1/clients/shop/keys", json={"scope": "read", "expires_at": "2026-11-21T09:31:00Z"})
    cookie = await wire.session(made.json["key"])
    token = form_token(await wire.send("GET", "/console/clients/shop/events", cookie=cookie))
    begun, pass_time = api.clock.monotonic(), api.clock.sleep

    async def sleep_and_end(seconds: float) -> None:
        await pass_time(seconds)
        if ending == "logout" and api.clock.monotonic() == begun + seconds:
            await wire.send("POST", "/console/logout", cookie=cookie, form={"form_token": token})
        elif ending == "revoked" and api.clock.monotonic() == begun + seconds:
            await api.send("DELETE", f"/v1/clients/shop/keys/{made.json['key_id']}")

    api.clock.sleep = sleep_and_end  # type: ignore[method-assign]
    if ending == "expired":
        api.clock.advance(55)
        begun += 55
    answer = await wire.send("GET", "/console/clients/shop/events/stream", cookie=cookie)
    assert answer.status == 200
    assert answer.text.startswith("id: ")
    assert api.clock.monotonic() - begun < 12
    again = await wire.send("GET", "/console/clients/shop/events/stream", cookie=cookie)
    assert again.status == 303


async def test_a_stream_goes_on_while_its_session_is_good(api: ApiHarness, wire: Wire) -> None:
    await feed(api)
    begun = api.clock.monotonic()
    await wire.send("GET", "/console/clients/shop/events/stream", cookie=await wire.session())
    assert api.clock.monotonic() - begun >= STREAM_SECONDS
