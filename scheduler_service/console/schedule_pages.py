"""A client's schedules: find them, see what became of one and why, call it again, cancel or reschedule it."""

from typing import Any, Final

from aiohttp import web

from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page

FILTERS: Final = ("from", "to", "state", "label", "cron_id", "destination", "host", "key_prefix")
STATES: Final = ("scheduled", "retrying", "awaiting", "delivered", "failed", "cancelled", "skipped", "rescheduled")
PER_PAGE: Final = 50


async def list_schedules(page: Page) -> web.Response:
    """By filters, by id, or by the client's own key: one field finds each."""
    client, query = page.client(), page.query
    if sought := query.get("q", "").strip():
        return await _find(page, sought)
    given: dict[str, Any] = {name: query.get(name) for name in FILTERS}
    listed: Any = {"items": [], "next_cursor": None}
    error = None
    try:
        listed = await page.get(f"{client}/schedules", given, limit=PER_PAGE, cursor=query.get("cursor"))
    except OperationRefused as refused:
        if refused.status >= 500:
            raise
        error = refused
    return page.render(
        "schedules.html",
        status=error.status if error else 200,
        listed=listed,
        error=error,
        filters={name: given[name] or "" for name in FILTERS},
        states=STATES,
    )


async def _find(page: Page, sought: str) -> web.Response:
    client, at = page.client(), f"/console/clients/{part(page.context.path('client_id'))}/schedules"
    for path in (f"{client}/schedules/{part(sought)}", f"{client}/schedules/by-key/{part(sought)}"):
        try:
            found = await page.get(path)
        except OperationRefused as refused:
            if refused.status not in (400, 404, 422):
                raise
        else:
            return web.Response(status=303, headers={"Location": f"{at}/{found['schedule_id']}"})
    return page.render("not_found.html", status=404, sought=sought)


async def show_schedule(page: Page) -> web.Response:
    path = f"{page.client()}/schedules/{part(page.context.path('schedule_id'))}"
    schedule = await page.get(path)
    story = await page.get(f"{path}:explain")
    attempts = await page.get(f"{path}/attempts")
    return page.render("schedule.html", schedule=schedule, story=story, attempts=attempts["items"])


async def change_schedule(page: Page) -> web.Response:
    schedule_id = page.context.path("schedule_id")
    path = f"{page.client()}/schedules/{part(schedule_id)}"
    at = f"/console/clients/{part(page.context.path('client_id'))}/schedules/{part(schedule_id)}"
    match page.form.get("act"):
        case "cancel":
            await page.send("DELETE", path)
            return page.done(at, "It is cancelled: it will not be called.")
        case "redeliver":
            await page.send("POST", f"{path}:redeliver")
            return page.done(at, "It is called again.")
        case "run":
            await page.send("POST", f"{path}:run")
            return page.done(at, "It is called now.")
        case "reschedule":
            moved = await page.send("POST", f"{path}:reschedule", {"due": page.form.get("due", "")})
            return page.done(f"{at.rpartition('/')[0]}/{moved['schedule_id']}", "It is called at the new time.")
        case _:
            return page.render("not_found.html", status=404, sought=page.form.get("act", ""))
