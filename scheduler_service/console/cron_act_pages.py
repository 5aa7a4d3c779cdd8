"""Acts on crons that are looked at first: make missed fires of a range, and pause or resume all with a label."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from scheduler_service.console.forms import given, instant_of
from scheduler_service.console.operations import OperationRefused
from scheduler_service.console.pages import Page

_VERBS: Final[Mapping[str, str]] = {"pause": "paused", "resume": "resumed"}


async def show_backfill(page: Page) -> web.Response:
    return await _backfill(page, page.query)


async def _backfill(
    page: Page, values: Mapping[str, str], *, previewed: Any = None, error: OperationRefused | None = None
) -> web.Response:
    cron = await page.get(page.operation("crons", "cron_id"))
    return page.render(
        "cron_backfill.html",
        cron=cron,
        values=values,
        previewed=previewed,
        error=error,
    )


async def backfill_cron(page: Page) -> web.Response:
    """A preview is the API's dry run of the same request."""
    form, path = page.form, page.operation("crons", "cron_id") + ":backfill"
    asked: dict[str, Any] = {name: instant_of(text) for name, text in given(form, ("from", "to")).items()}
    if cursor := form.get("cursor", ""):
        asked["cursor"] = cursor
    try:
        if form.get("act") != "backfill":
            return await _backfill(page, form, previewed=await page.send("POST", path, {**asked, "dry_run": True}))
        answer = await page.send("POST", path, asked)
    except OperationRefused as error:
        return await _backfill(page, form, error=error)
    at = page.address("crons", "cron_id")
    if answer["next_cursor"]:
        at += ":backfill?" + urlencode({**given(form, ("from", "to")), "cursor": answer["next_cursor"]})
    return page.done(at, said_of_backfill(answer))


def said_of_backfill(answer: Mapping[str, Any]) -> str:
    """Pure."""
    items = answer["items"]
    made = sum(one["status"] == 202 for one in items)
    said = f"{made:,} of {len(items):,} fires {'is' if made == 1 else 'are'} made now."
    if made < len(items):
        said += " The others were made before, wait, or are not kept any more."
    return said + (" More are left: go on below." if answer["next_cursor"] else "")


async def show_labelled(page: Page) -> web.Response:
    await page.get(f"{page.client()}/crons", limit=1, shown=False)  # refused where this caller has no business
    return _labelled(page, page.query)


def _labelled(
    page: Page,
    values: Mapping[str, str],
    *,
    verb: str = "pause",
    previewed: Any = None,
    error: OperationRefused | None = None,
) -> web.Response:
    return page.render(
        "crons_labelled.html",
        values=values,
        verb=verb,
        previewed=previewed,
        error=error,
    )


async def change_labelled(page: Page) -> web.Response:
    """Acts `look-VERB` and `VERB`: which crons it would be, and do it."""
    form, act = page.form, page.form.get("act", "")
    verb = act.removeprefix("look-")
    if verb not in _VERBS:
        return page.not_found(act)
    await page.get(f"{page.client()}/crons", limit=1, shown=False)
    asked: dict[str, Any] = given(form, ("label", "note", "cursor"))
    asked["dry_run"] = act != verb
    path = f"{page.client()}/crons:{verb}"
    try:
        answer = await page.send("POST", path, asked)
    except OperationRefused as error:
        return _labelled(page, form, verb=verb, error=error)
    if asked["dry_run"]:
        return _labelled(page, form, verb=verb, previewed=answer)
    if answer["next_cursor"]:
        where = urlencode({**given(form, ("label", "note")), "cursor": answer["next_cursor"]})
        return page.done(f"{page.home()}/crons:labelled?{where}", said_of_change(verb, answer))
    return page.done(f"{page.home()}/crons", said_of_change(verb, answer))


def said_of_change(verb: str, answer: Mapping[str, Any]) -> str:
    """Pure."""
    items = answer["items"]
    changed = sum(one["changed"] and one["status"] == 200 for one in items)
    said = f"{changed:,} of {len(items):,} crons {'is' if changed == 1 else 'are'} {_VERBS[verb]}."
    if changed < len(items):
        said += " The others were so before, have finished, or were deleted meanwhile."
    return said + (" More are left: look at the next ones." if answer["next_cursor"] else "")
