"""Takes the pictures of the console for README and the documents: `make screenshots` writes docs/images.

The API is in memory and its clock stands still, so the pictures change with the pages only.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.async_api import async_playwright

from scheduler_service.domain.call_figures import LATENESS_BOUNDS, CallFigures, ClientCalls
from tests.support.api import ADMIN_KEY, ApiHarness, callback, cron
from tests.support.chromium import CHROMIUM, DESK, FLAGS, PHONE, Screen
from tests.support.nodes import Nodes
from tests.support.outcomes import attempted, created, gave_up

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
_BATCH: Final = 12
_CALLS: Final = CallFigures(
    per_second=602.0,
    lateness=(21_000, 11_500, 3_300, 320) + (0,) * (len(LATENESS_BOUNDS) - 3),
    ends={"delivered": 36_050, "failed": 70},
    clients={
        "shop": ClientCalls(25_300, 210.0, 180),
        "newsletter": ClientCalls(9_800, 85.0),
        "billing": ClientCalls(1_020, 9.0, 12),
    },
)
"""Of a node in the last minute."""


class Picture(NamedTuple):
    """`path`: with the schedule that failed as `{failed}`."""

    name: str
    path: str
    screen: Screen = DESK


PICTURES: Final = (
    Picture("console-cluster", "/console/cluster"),
    Picture("console-schedule", "/console/clients/shop/schedules/{failed}"),
    Picture("console-schedule-phone", "/console/clients/shop/schedules/{failed}", PHONE),
    Picture("console-dead-letters", "/console/clients/shop/dead-letters"),
    Picture("console-calendar", "/console/clients/shop/crons:calendar"),
)


@asynccontextmanager
async def furnished() -> AsyncIterator[tuple[ApiHarness, str]]:
    """An API in which something has happened, and the id of a schedule that failed."""
    async with ApiHarness() as api:
        await api.add_built_in_clients()
        key = await api.register("shop")
        for name in ("billing", "newsletter"):
            await api.register(name)
        nodes = Nodes(api)
        beating = [await nodes.add(name, capacity_per_minute=60_000) for name in ("node-a", "node-b")]
        for client in await api.storage.clients.list_clients():
            for lease in await api.storage.leases.read_leases(client.client_id):
                await nodes.own(lease.poller, beating[lease.poller.poller_id % len(beating)])
        for node in beating:
            api.nodes.calls[node.node_id] = _CALLS
        orders = {"url": "https://orders.example.com/hooks", "max_per_second": 50}
        await api.send("PUT", "/v1/clients/shop/destinations/orders", key=ADMIN_KEY, json=orders)
        failed = ""
        for number in range(_BATCH):
            url = "https://orders.example.com/hooks/paid"
            fails = number % 4 == 0
            one = await created(
                api,
                key,
                label="order-paid",
                callback=callback(url=url, body='{"order": 4711}'),
                delay_seconds=90 if fails else 3_600 * number,
            )
            if fails:
                api.clock.advance(90)
                await attempted(api, one, 1, excerpt='{"error": "the stock is being counted"}', duration_ms=1_240)
                await gave_up(api, one)
                failed = str(one)
        await nodes.beat(*beating, seconds=3)
        yield api, failed


async def add_crons(api: ApiHarness) -> None:
    """Last: no node of this API expands them, so they would be overdue on the other pictures."""
    for name, expression in (("nightly-invoices", "30 2 * * *"), ("week-report", "0 9 * * MON")):
        await api.send("PUT", f"/v1/clients/shop/crons/{name}", json=cron(expression=expression))


async def take(directory: Path) -> list[Path]:
    """Writes all pictures; returns their files."""
    written = []
    async with furnished() as (api, failed), async_playwright() as driver:
        assert api.server is not None
        base = f"http://127.0.0.1:{api.server.port}"
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for picture in PICTURES:
            if picture == PICTURES[-1]:
                await add_crons(api)
            viewport = {"width": picture.screen.width, "height": 800}
            page = await browser.new_page(color_scheme=picture.screen.scheme, viewport=viewport)  # type: ignore[arg-type]
            await page.goto(base + "/console/login")
            await page.get_by_label("Key", exact=True).fill(ADMIN_KEY)
            await page.get_by_role("button", name="Log in").click()
            await page.wait_for_url("**/console/cluster")
            await page.goto(base + picture.path.format(failed=failed))
            written.append(directory / f"{picture.name}.png")
            await page.screenshot(path=written[-1])
            await page.close()
        await browser.close()
    return written


if __name__ == "__main__":
    IMAGES.mkdir(parents=True, exist_ok=True)
    for file in asyncio.run(take(IMAGES)):
        print(f"{file.relative_to(IMAGES.parents[1])}: {file.stat().st_size:,} bytes")
