"""Cancel or reschedule all schedules of a window that filters find: first how many there are, then page after page."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from scheduler_service.console.forms import given, instant_of, number_of
from scheduler_service.console.operations import OperationRefused
from scheduler_service.console.pages import Page
from scheduler_service.console.schedule_forms import span_of, when_of
from scheduler_service.console.schedule_pages import FILTERS
from scheduler_service.domain.ids import DAY_MS
from scheduler_service.domain.instants import format_instant

WAITING: Final = ("scheduled", "retrying")
_DONE: Final[Mapping[str, str]] = {"cancel": "cancelled", "reschedule": "rescheduled"}


async def show_window(page: Page) -> web.Response:
    return await _window(page, {name: page.query.get(name, "").strip() for name in FILTERS})


async def _window(
    page: Page, filters: Mapping[str, str], *, error: OperationRefused | None = None, after: str = "", act: str = ""
) -> web.Response:
    """`after`: the cursor from which `act` goes on. What is counted is what waits; the acts leave out what is being
    called."""
    now = page.now_ms
    # The count of one state: a filter names one, and what waits has two.
    states = [filters["state"]] if filters["state"] else list(WAITING)
    chosen = {**filters, "from": filters["from"] or format_instant(now)}
    chosen["to"] = filters["to"] or format_instant(now + DAY_MS)
    counted = None
    try:
        counted = await page.get(f"{page.client()}/schedules:count", {**given(chosen, FILTERS), "state": states})
    except OperationRefused as refused:
        error = error or refused
    return page.render(
        "window.html",
        chosen=chosen,
        counted=counted,
        error=error,
        states=WAITING,
        after=after or page.query.get("cursor", ""),
        act=act or page.query.get("act", ""),
        values=page.form,
    )


async def act_on_window(page: Page) -> web.Response:
    form, at = page.form, f"{page.home()}/schedules:window"
    filters = {name: form.get(name, "").strip() for name in FILTERS}
    match act := form.get("act", ""):
        case "cancel":
            asked: dict[str, Any] = {}
        case "reschedule":
            asked = moved_by(form)
        case _:
            return page.not_found(act)
    cursor = form.get("cursor", "")
    body: dict[str, Any] = {"cursor": cursor} if cursor else {**window_of(filters), **asked}
    try:
        answer = await page.send("POST", f"{page.client()}/schedules:{act}", body)
    except OperationRefused as refused:
        return await _window(page, filters, error=refused, after=cursor, act=act)
    where = given(filters, FILTERS)
    if answer["next_cursor"]:
        where |= {"act": act, "cursor": answer["next_cursor"]}
    return page.done(f"{at}?{urlencode(where)}", said_of(act, answer))


def window_of(filters: Mapping[str, str]) -> dict[str, str]:
    """The fields of a request that are filled in. Pure."""
    found = given(filters, FILTERS)
    return found | {name: instant_of(found[name]) for name in ("from", "to") if name in found}


def moved_by(form: Mapping[str, str]) -> dict[str, Any]:
    """`+2 h` and `-30 min` move each by so much; anything else is an instant for all. Pure."""
    text = form.get("due", "").strip()
    if text[:1] in ("+", "-", "−") and (seconds := span_of(text[1:])) is not None:
        return {"shift_seconds": seconds if text[0] == "+" else -seconds}
    spread = given(form, ("window_seconds",))
    return when_of(form) | {name: number_of(value) for name, value in spread.items()}


def said_of(act: str, answer: Mapping[str, Any]) -> str:
    """How many it was, and what was left. Pure."""
    items = answer["items"]
    count = sum(one["status"] == 200 for one in items)
    said = f"{count:,} of {len(items):,} {'is' if count == 1 else 'are'} {_DONE[act]}."
    if count < len(items):
        said += " The others are being called, have ended, or can't be moved there."
    return said + (" More are left: go on below." if answer["next_cursor"] else "")
