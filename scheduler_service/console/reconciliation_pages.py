"""Reconciliations of a client: what they do, how far they are, and stopping them."""

from typing import Final

from aiohttp import web

from scheduler_service.console.pages import Page

RECONCILIATIONS_A_PAGE: Final = 50


async def list_reconciliations(page: Page) -> web.Response:
    listed = await page.get(
        f"{page.client()}/reconciliations", limit=RECONCILIATIONS_A_PAGE, cursor=page.query.get("cursor")
    )
    return page.render("reconciliations.html", listed=listed)


async def show_reconciliation(page: Page) -> web.Response:
    path = _operation(page)
    found = await page.get(path)
    schedules = await page.get(f"{path}/schedules", limit=RECONCILIATIONS_A_PAGE, cursor=page.query.get("cursor"))
    return page.render("reconciliation.html", found=found, schedules=schedules)


async def stop_reconciliation(page: Page) -> web.Response:
    await page.send("POST", f"{_operation(page)}:stop")
    at = page.address("reconciliations", "reconciliation_id")
    return page.done(at, "It is stopped: what it has done stays done.")


def _operation(page: Page) -> str:
    return page.operation("reconciliations", "reconciliation_id")
