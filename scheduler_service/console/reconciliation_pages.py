"""Reconciliations of a client: begin one, what they do, how far they are, and stop them."""

from typing import Any, Final

from aiohttp import web

from scheduler_service.console.forms import given, instant_of
from scheduler_service.console.operations import OperationRefused
from scheduler_service.console.pages import Page

APPLIES_TO: Final = ("scheduled", "retrying", "delivered", "failed", "skipped", "cancelled")
FILTERS: Final = ("label", "cron_id", "destination", "host", "key_prefix")
RECONCILIATIONS_A_PAGE: Final = 50


async def list_reconciliations(page: Page) -> web.Response:
    return await _reconciliations(page)


async def _reconciliations(page: Page, *, error: OperationRefused | None = None) -> web.Response:
    path, cursor = f"{page.client()}/reconciliations", page.query.get("cursor")
    listed = await page.get(path, limit=RECONCILIATIONS_A_PAGE, cursor=cursor)
    return page.render(
        "reconciliations.html",
        listed=listed,
        error=error,
        values=page.form,
        states=APPLIES_TO,
        once=page.once(),
    )


async def begin_reconciliation(page: Page) -> web.Response:
    """Sent twice, a form begins one: it has an idempotency key of its own."""
    form = page.form
    asked: dict[str, Any] = given(form, ("action", *FILTERS))
    asked |= {name: instant_of(text) for name, text in given(form, ("from", "to")).items()}
    asked["states"] = [state for state in APPLIES_TO if f"state.{state}" in form]
    headers = {"Idempotency-Key": once} if (once := form.get("once", "")) else {}
    try:
        begun = await page.send("POST", f"{page.client()}/reconciliations", asked, headers=headers)
    except OperationRefused as error:
        if error.status == 403:
            raise
        return await _reconciliations(page, error=error)
    return page.done(f"{page.home()}/reconciliations/{begun['reconciliation_id']}", "It has begun: nodes work on it.")


async def show_reconciliation(page: Page) -> web.Response:
    path = page.operation("reconciliations", "reconciliation_id")
    found = await page.get(path)
    schedules = await page.get(f"{path}/schedules", limit=RECONCILIATIONS_A_PAGE, cursor=page.query.get("cursor"))
    return page.render("reconciliation.html", found=found, schedules=schedules)


async def stop_reconciliation(page: Page) -> web.Response:
    named = ("reconciliations", "reconciliation_id")
    await page.send("POST", page.operation(*named) + ":stop")
    return page.done(page.address(*named), "It is stopped: what it has done stays done.")
