"""A client's crons: when they fire, as a list and a calendar, what became of their runs, pause, run now, create and
change them with a preview of their rule."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, get_args

from aiohttp import web

from scheduler_service.console.calendar import Fire, Month, first_of, month_of, window_of
from scheduler_service.console.contents import SHOW_CONTENT, masked, unmasked
from scheduler_service.console.cron_forms import cron_fields, cron_request, rule_request
from scheduler_service.console.forms import KEPT, METHOD_CHOICES, callback_fields
from scheduler_service.console.operations import OperationRefused, part
from scheduler_service.console.pages import Page
from scheduler_service.console.rendering import zone_of
from scheduler_service.domain.crons import Dialect
from scheduler_service.domain.crons.dst import Fold, Gap
from scheduler_service.domain.crons.row import Overlap
from scheduler_service.domain.crons.zones import zone_names

PER_PAGE: Final = 50
RUNS_SHOWN: Final = 50
IN_CALENDAR: Final = 500
"""Runs of a cron in a month's calendar: as many as one request lists."""
CRONS_IN_CALENDAR: Final = 20
PREVIEWED: Final = 10
_INSTANT: Final = "%Y-%m-%dT%H:%M:%SZ"
_OPTIONS: Final[Mapping[str, Any]] = {
    "dialects": get_args(Dialect),
    "overlaps": get_args(Overlap),
    "gaps": get_args(Gap),
    "folds": get_args(Fold),
    "methods": METHOD_CHOICES,
}


async def list_crons(page: Page) -> web.Response:
    listed = await page.get(f"{page.client()}/crons", limit=PER_PAGE, cursor=page.query.get("cursor"))
    return page.render("crons.html", crons=listed["items"], next_cursor=listed["next_cursor"])


async def show_calendar(page: Page) -> web.Response:
    """The fires of the first crons in one month, by days in UTC."""
    listed = await page.get(f"{page.client()}/crons", limit=CRONS_IN_CALENDAR)
    first = first_of(page.query.get("month"), page.now.date())
    start, end = window_of(first, UTC)

    async def fires(cron: Any) -> tuple[list[Fire], bool]:
        return await _fires(page, cron["cron_id"], start, end, text=cron["cron_id"])

    found = await asyncio.gather(*(fires(cron) for cron in listed["items"]))
    month = month_of(first, [fire for some, _ in found for fire in some], zone=UTC, today=page.now.date(), most=5)
    cut = listed["next_cursor"] is not None or any(more for _, more in found)
    return page.render("cron_calendar.html", month=month, cut=cut, most=CRONS_IN_CALENDAR, runs=IN_CALENDAR)


async def show_cron(page: Page) -> web.Response:
    return await _cron(page)


async def _cron(page: Page, *, shown: bool = False) -> web.Response:
    """`shown`: what is called was asked for; else it is masked."""
    path = _operation(page)
    cron = await page.get(path)
    newest = await page.get(f"{path}/runs", order="newest", limit=RUNS_SHOWN)
    month, cut = await _month(page, cron)
    return page.render(
        "cron.html",
        cron=cron,
        runs=newest["items"],
        month=month,
        cut=cut,
        most=IN_CALENDAR,
        sent=(unmasked if shown else masked)(cron["callback"]),
        shown=shown,
    )


async def _month(page: Page, cron: Mapping[str, Any]) -> tuple[Month, bool]:
    zone = zone_of(cron["timezone"])
    today = page.now.astimezone(zone).date()
    first = first_of(page.query.get("month"), today)
    fires, cut = await _fires(page, cron["cron_id"], *window_of(first, zone))
    return month_of(first, fires, zone=zone, today=today), cut


async def _fires(
    page: Page, cron_id: str, start: datetime, end: datetime, *, text: str | None = None
) -> tuple[list[Fire], bool]:
    """The fires of a window, and whether there are more than are answered. A month too far ahead has none."""
    path = f"{page.client()}/crons/{part(cron_id)}/runs"
    try:
        window = {"from": start.strftime(_INSTANT), "to": end.strftime(_INSTANT)}
        listed = await page.get(path, window, limit=IN_CALENDAR, shown=text is None)
    except OperationRefused as refused:
        if refused.status != 422:
            raise
        return [], False
    fires = [
        Fire(
            datetime.fromisoformat(run["nominal_due"]),
            run["state"],
            None if run["schedule_id"] is None else f"{page.home()}/schedules/{run['schedule_id']}",
            text,
        )
        for run in listed["items"]
    ]
    return fires, listed["next_cursor"] is not None


async def change_cron(page: Page) -> web.StreamResponse:
    path, at = _operation(page), page.address("crons", "cron_id")
    match page.form.get("act"):
        case "show":
            await page.get(path, shown=False)
            return await page.under_audit(SHOW_CONTENT, lambda page: _cron(page, shown=True))
        case "pause":
            note = page.form.get("note", "").strip()
            await page.send("POST", f"{path}:pause", {"note": note} if note else None)
            return page.done(at, "It is paused: it does not fire until it is resumed.")
        case "resume":
            await page.send("POST", f"{path}:resume")
            return page.done(at, "It is resumed, and fires by its rule from now on.")
        case "trigger":
            run = await page.send("POST", f"{path}:trigger")
            return page.done(f"{page.home()}/schedules/{run['schedule_id']}", "The cron is run once, now: this is it.")
        case "delete":
            await page.send("DELETE", path)
            return page.done(f"{page.home()}/crons", "It is deleted: it fires no more, and its runs stay readable.")
        case act:
            return page.not_found(act)


async def new_cron(page: Page) -> web.Response:
    await page.get(f"{page.client()}/crons", limit=1, shown=False)  # refused where this caller has no business
    return await _form(page, {"timezone": "UTC", "dialect": "cronie", "expression": "0 9 * * 1-5"}, present=None)


async def create_cron(page: Page) -> web.Response:
    await page.get(f"{page.client()}/crons", limit=1, shown=False)
    cron_id = page.form.get("cron_id", "").strip()
    return await _save(page, cron_id, present=None, precondition={"If-None-Match": "*"})


async def edit_cron(page: Page) -> web.Response:
    present = await page.get(_operation(page))
    return await _form(page, {**cron_fields(present), "callback": KEPT}, present=present)


async def replace_cron(page: Page) -> web.StreamResponse:
    present = await page.get(_operation(page), shown=False)
    if page.form.get("act") == "show":

        async def show(page: Page) -> web.Response:
            values = {**page.form, **callback_fields(present["callback"]), "callback": ""}
            return await _form(page, values, present=present)

        return await page.under_audit(SHOW_CONTENT, show)
    precondition = {"If-Match": f'"{page.form.get("revision", "")}"'}
    return await _save(page, present["cron_id"], present=present, precondition=precondition)


async def _save(
    page: Page, cron_id: str, *, present: Mapping[str, Any] | None, precondition: Mapping[str, str]
) -> web.Response:
    if page.form.get("act") == "preview":
        return await _form(page, page.form, present=present, preview=True)
    body, faults = cron_request(page.form, present)
    if not cron_id:
        faults["/cron_id"] = "is required"
    error = await page.put(f"{page.client()}/crons/{part(cron_id)}", body, faults, precondition=precondition)
    if error is not None:
        return await _form(page, page.form, present=present, error=error)
    at = f"{page.home()}/crons/{part(cron_id)}"
    return page.done(at, "It is created." if present is None else "It is changed.")


async def _form(
    page: Page,
    values: Mapping[str, str],
    *,
    present: Mapping[str, Any] | None,
    error: OperationRefused | None = None,
    preview: bool = False,
) -> web.Response:
    """With a preview of the rule, if that is asked for or there is a rule."""
    previewed, wrong = None, None
    if preview or (error is None and values.get("expression")):
        try:
            asked = {**rule_request(values), "count": PREVIEWED}
            previewed = await page.send("POST", "/v1/crons:preview", asked)
        except OperationRefused as refused:
            wrong = refused
    return page.render(
        "cron_form.html",
        values=values,
        present=present,
        error=error,
        previewed=previewed,
        wrong=wrong,
        zones=sorted(zone_names()),
        kept=values.get("callback") == KEPT and present is not None,
        sent=None if present is None else masked(present["callback"]),
        **_OPTIONS,
    )


def _operation(page: Page) -> str:
    return page.operation("crons", "cron_id")
