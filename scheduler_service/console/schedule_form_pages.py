"""The forms that create a schedule and change one that waits."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from scheduler_service.console.contents import SHOW_CONTENT, masked
from scheduler_service.console.forms import KEPT, METHOD_CHOICES, callback_fields
from scheduler_service.console.operations import OperationRefused
from scheduler_service.console.pages import Page
from scheduler_service.console.schedule_forms import (
    schedule_fields,
    schedule_request,
    unread_due,
    update_request,
    when_of,
)
from scheduler_service.domain.crons.zones import zone_names
from scheduler_service.domain.errors import FieldError
from scheduler_service.domain.instants import LAST_INSTANT, format_instant
from scheduler_service.usecases.schedule_request import LocalTime, named_instant


async def new_schedule(page: Page) -> web.Response:
    names = await _destinations(page)  # also refuses those who have no business here
    values = {"due": "in 1 min", "timezone": "UTC", "callback.destination": page.query.get("destination", "")}
    return _form(page, values, names, present=None)


async def create_schedule(page: Page) -> web.Response:
    """Sent twice, a form creates one schedule: it has an idempotency key of its own."""
    names = await _destinations(page)
    if page.form.get("act") == "preview":
        return _form(page, page.form, names, present=None)
    body, faults = schedule_request(page.form)
    once = page.form.get("once", "")
    headers = {"Idempotency-Key": once} if once else {}
    made = await page.ask("POST", f"{page.client()}/schedules", body, faults, headers=headers)
    if isinstance(made, OperationRefused):
        return _form(page, page.form, names, present=None, error=made)
    return page.done(f"{page.home()}/schedules/{made['schedule_id']}", "It is created.")


async def edit_schedule(page: Page) -> web.Response:
    path = page.operation("schedules", "schedule_id")
    present = await page.get(path)
    values = {**schedule_fields(present), "callback": KEPT, "tag": page.operations.tags.get(path, "")}
    return _form(page, values, await _destinations(page), present=present)


async def update_schedule(page: Page) -> web.StreamResponse:
    path = page.operation("schedules", "schedule_id")
    present = await page.get(path, shown=False)
    names = await _destinations(page)
    if page.form.get("act") == "show":

        async def show(page: Page) -> web.Response:
            values = {**page.form, **callback_fields(present["callback"]), "callback": ""}
            return _form(page, values, names, present=present)

        return await page.under_audit(SHOW_CONTENT, show)
    if page.form.get("act") == "preview":
        return _form(page, page.form, names, present=present)
    patch, faults = update_request(page.form, present)
    precondition = {"If-Match": tag} if (tag := page.form.get("tag", "")) else {}
    changed = await page.ask("PATCH", path, patch, faults, headers=precondition)
    if isinstance(changed, OperationRefused):
        return _form(page, page.form, names, present=present, error=changed)
    moved = changed["schedule_id"] != present["schedule_id"]
    said = "It is changed, and goes on under a new id: this one." if moved else "It is changed."
    return page.done(f"{page.home()}/schedules/{changed['schedule_id']}", said)


def _form(
    page: Page,
    values: Mapping[str, str],
    names: list[str],
    *,
    present: Mapping[str, Any] | None,
    error: OperationRefused | None = None,
) -> web.Response:
    at, wrong = due_of(values, page.now_ms)
    return page.render(
        "schedule_form.html",
        values=values,
        present=present,
        error=error,
        at=at,
        wrong=wrong,
        zones=sorted(zone_names()),
        methods=METHOD_CHOICES,
        destinations=names,
        kept=values.get("callback") == KEPT and present is not None,
        sent=None if present is None else masked(present["callback"]),
        once=page.once(),
    )


def due_of(form: Mapping[str, str], now_ms: int) -> tuple[str | None, str | None]:
    """The instant that the form asks for, for its preview; or what is wrong with it. Pure."""
    when = when_of(form)
    if "delay_seconds" in when:
        due = now_ms + round(when["delay_seconds"] * 1000)
        return _shown(due)
    if "due" not in when:
        return None, None
    if (unread := unread_due(when)) is not None:
        return None, unread
    faults: list[FieldError] = []
    named = when["due"]
    instant = named_instant(LocalTime(**named) if isinstance(named, dict) else named, faults)
    return (None, "; ".join(fault.detail for fault in faults)) if instant is None else _shown(instant)


def _shown(instant: int) -> tuple[str | None, str | None]:
    if 0 <= instant <= LAST_INSTANT:
        return format_instant(instant), None
    return None, "must be from 1970 to the end of the year 9998"


async def _destinations(page: Page) -> list[str]:
    listed = await page.get(f"{page.client()}/destinations", shown=False)
    return [one["name"] for one in listed["items"]]
