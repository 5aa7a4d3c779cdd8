"""A client's dead letters: find them, and redeliver or acknowledge the selected ones, or all that filters find."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from aiohttp import web

from scheduler_service.console.forms import given, instant_of
from scheduler_service.console.operations import OperationRefused
from scheduler_service.console.pages import Page
from scheduler_service.domain.ids import DAY_MS, HOUR_MS, MINUTE_MS
from scheduler_service.domain.instants import format_instant

FILTERS: Final = ("from", "to", "host", "destination", "status", "reason", "error", "label")
"""Those that the list has and the acts on all."""
WINDOW: Final = ("from", "to")
ACKNOWLEDGED: Final = ("false", "true", "any")
RECENT: Final = (("5 minutes", 5 * MINUTE_MS), ("hour", HOUR_MS), ("24 hours", DAY_MS))
"""Windows that are chosen by a click: a list begins at the start of its window."""
PER_PAGE: Final = 50
LETTERS_AT_ONCE: Final = 1000
"""Letters that one press of a button reaches."""


class Act(NamedTuple):
    """What a button does. `counts`: the field of the answer that says how many."""

    operation: str
    counts: str
    done: str


ACTS: Final[Mapping[str, Act]] = {
    "redeliver": Act("redeliver", "redelivered", "called again"),
    "acknowledge": Act("acknowledge", "acknowledged", "acknowledged"),
}


async def list_dead_letters(page: Page) -> web.Response:
    query = page.query
    filters: dict[str, Any] = {name: query.get(name, "").strip() for name in FILTERS}
    filters |= {name: instant_of(filters[name]) for name in WINDOW}
    window = window_of(filters, page.now_ms)
    acknowledged = query.get("acknowledged", "false")
    listed: Any = {"items": [], "next_cursor": None}
    error = None
    try:
        listed = await page.get(
            f"{page.client()}/dead-letters",
            limit=PER_PAGE,
            cursor=query.get("cursor"),
            acknowledged=acknowledged,
            **{**filters, **window},
        )
    except OperationRefused as refused:
        error = refused
    chosen: dict[str, str] = {**filters, **window}
    kept = {**given(filters, [name for name in FILTERS if name not in WINDOW]), "acknowledged": acknowledged}
    return page.render(
        "dead_letters.html",
        listed=listed,
        error=error,
        filters=filters,
        chosen=chosen,
        recent=[(text, urlencode({"from": _since(page, age), **kept})) for text, age in RECENT],
        acknowledged=acknowledged,
        choices=ACKNOWLEDGED,
        at_once=LETTERS_AT_ONCE,
        next_page=urlencode(
            {**given(chosen, FILTERS), "acknowledged": acknowledged, "cursor": listed["next_cursor"] or ""}
        ),
    )


def _since(page: Page, age_ms: int) -> str:
    return format_instant(page.now_ms - age_ms)


async def act_on_dead_letters(page: Page) -> web.Response:
    form = page.form
    verb, _, which = form.get("act", "").partition("-")
    if (act := ACTS.get(verb)) is None or which not in ("selected", "all"):
        return page.not_found(form.get("act", ""))
    filters = given(form, FILTERS)
    back = f"{page.home()}/dead-letters?{urlencode(given(form, [name for name in FILTERS if name not in WINDOW]))}"
    if which == "all":
        body: dict[str, Any] = {**filters, "limit": LETTERS_AT_ONCE}
    elif letters := form.get("letter", "").split():
        body = {"letter_ids": letters}
    else:
        return page.done(back, "Nothing was selected.")
    answer = await page.send("POST", f"{page.client()}/dead-letters:{act.operation}", body)
    return page.done(back, said_of(act, answer))


def window_of(filters: Mapping[str, str], now_ms: int) -> dict[str, str]:
    """The last 24 hours where nothing else is asked for: so that what is done to all is done to those that were listed,
    and not to those that failed since. Pure."""
    if filters["from"] or filters["to"]:
        return {}
    return {"from": format_instant(now_ms + 1 - DAY_MS), "to": format_instant(now_ms + 1)}


def said_of(act: Act, answer: Mapping[str, Any]) -> str:
    """How many it was, and what was left out. Pure."""
    count, asked = answer[act.counts], len(answer["items"])
    said = f"{count:,} of {asked:,} {'is' if count == 1 else 'are'} {act.done}."
    if count < asked:
        said += " The others were deleted, or changed meanwhile."
    return said + (" More are left: do it again." if answer["next_cursor"] else "")
