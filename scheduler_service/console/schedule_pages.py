"""A client's schedules: find them, see what became of one and why, call it again, cancel or reschedule it."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from scheduler_service.console.contents import SHOW_CONTENT, masked, unmasked
from scheduler_service.console.forms import instant_of
from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page, redirect
from scheduler_service.domain.reasons import REASONS

FILTERS: Final = ("from", "to", "state", "label", "cron_id", "destination", "host", "key_prefix")
STATES: Final = ("scheduled", "retrying", "awaiting", "delivered", "failed", "cancelled", "skipped", "rescheduled")
SCHEDULES_A_PAGE: Final = 50


async def list_schedules(page: Page) -> web.Response:
    """By filters, by id, or by the client's own key: one field finds each."""
    client, query = page.client(), page.query
    if sought := query.get("q", "").strip():
        return await _find(page, sought)
    given: dict[str, Any] = {name: query.get(name) for name in FILTERS}
    given |= {name: instant_of(query.get(name, "")) for name in ("from", "to")}
    listed: Any = {"items": [], "next_cursor": None}
    error = None
    try:
        listed = await page.get(f"{client}/schedules", given, limit=SCHEDULES_A_PAGE, cursor=query.get("cursor"))
    except OperationRefused as refused:
        error = refused
    return page.render(
        "schedules.html",
        listed=listed,
        error=error,
        filters={name: given[name] or "" for name in FILTERS},
        states=STATES,
    )


async def _find(page: Page, sought: str) -> web.Response:
    client, at = page.client(), f"{page.home()}/schedules"
    for path in (f"{client}/schedules/{part(sought)}", f"{client}/schedules/by-key/{part(sought)}"):
        try:
            found = await page.get(path)
        except OperationRefused as refused:
            if refused.status not in (400, 404, 422):
                raise
        else:
            return redirect(f"{at}/{found['schedule_id']}")
    return page.not_found(sought)


async def show_schedule(page: Page) -> web.Response:
    return await _schedule(page)


async def _schedule(page: Page, *, sent: Any = None) -> web.Response:
    """`sent`: the request that a call makes, which was asked for; None: it is masked, and so are answers."""
    path = _operation(page)
    schedule = await page.get(path)
    story = await page.get(f"{path}:explain")
    attempts = await page.get(f"{path}/attempts")
    return page.render(
        "schedule.html",
        schedule=schedule,
        story=story,
        attempts=attempts["items"],
        hidden=any(has_answer(one) for one in attempts["items"]),
        sent=sent or masked(schedule["callback"]),
        shown=sent is not None,
        why=REASONS.get(schedule["reason"] or ""),
    )


def has_answer(attempt: Mapping[str, Any]) -> bool:
    """Whether a body of its receiver is kept: of its answer, or beside its word. Pure."""
    word = attempt["acknowledgement"]
    return bool(attempt["status"] and attempt["excerpt"]) or bool(word and word["data"] is not None)


async def _show_sent(page: Page) -> web.StreamResponse:
    """What is sent, in the clear but for the credentials that the API masks: as the signed request, if the caller may
    have that."""
    path = _operation(page)
    sent = (await page.get(path, shown=False))["callback"]

    async def show(page: Page) -> web.StreamResponse:
        preview = None
        if page.may("write"):
            with suppress(OperationRefused):
                preview = await page.send("POST", f"{path}:preview")
        return await _schedule(page, sent=unmasked(preview or sent))

    return await page.under_audit(SHOW_CONTENT, show)


async def change_schedule(page: Page) -> web.StreamResponse:
    path, schedules = _operation(page), f"{page.home()}/schedules"
    at = page.address("schedules", "schedule_id")
    match page.form.get("act"):
        case "show":
            return await _show_sent(page)
        case "cancel":
            await page.send("DELETE", path)
            return page.done(at, "It is cancelled: it will not be called.")
        case "redeliver":
            await page.send("POST", f"{path}:redeliver")
            return page.done(at, "It is called again.")
        case "run":
            moved = await page.send("POST", f"{path}:run")
            return page.done(f"{schedules}/{moved['schedule_id']}", "It is called now.")
        case "reschedule":
            moved = await page.send("POST", f"{path}:reschedule", {"due": instant_of(page.form.get("due", ""))})
            return page.done(f"{schedules}/{moved['schedule_id']}", "It is called at the new time.")
        case act:
            return page.not_found(act)


def _operation(page: Page) -> str:
    return page.operation("schedules", "schedule_id")
