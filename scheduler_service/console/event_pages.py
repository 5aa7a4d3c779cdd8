"""A client's feed: what became of its schedules, as it happens."""

from typing import Any, Final

from aiohttp import web

from scheduler_service.console.operations import OperationRefused
from scheduler_service.console.pages import Page
from scheduler_service.domain.events import EventType
from scheduler_service.domain.ids import MINUTE_MS
from scheduler_service.domain.instants import format_instant

EVENTS_SHOWN: Final = 200
SHOWN_MS: Final = 10 * MINUTE_MS


async def show_events(page: Page) -> web.Response:
    """Those of the last ten minutes, the newest first. `static/console.js` adds those that follow."""
    since = format_instant(page.now_ms - SHOWN_MS)
    feed: Any = {"events": [], "cursor": None, "more": False}
    off = False
    try:
        feed = await page.get(f"{page.client()}/events", since=since, limit=EVENTS_SHOWN)
    except OperationRefused as refused:
        if refused.kind != "no-feed":
            raise
        off = True
    return page.render(
        "events.html",
        events=list(reversed(feed["events"])),
        cursor=feed["cursor"],
        off=off,
        types=list(EventType),
    )


async def switch_feed_on(page: Page) -> web.Response:
    await page.send("PATCH", f"{page.client()}/settings", {"event_feed": True})
    return page.done(page.context.request.path, "Its events are kept from now on.")


async def stream_events(page: Page) -> web.StreamResponse:
    """Server-sent events, from a cursor on, until the session ends."""
    page.context.deadline.disarm()
    request = page.context.request
    query = request.rel_url.raw_query_string
    last = request.headers.get("Last-Event-ID")
    headers = {"Accept": "text/event-stream", **({} if last is None else {"Last-Event-ID": last})}
    path = f"{page.client()}/events{'?' + query if query else ''}"
    return await page.operations.stream(path, headers=headers, still=page.still_good)
