"""A client's feed: what became of its schedules, as one answer or as a stream of server-sent events.

    GET .../events?after=CURSOR&wait_seconds=30      {"events": [...], "cursor": "...", "more": false}
    the same with Accept: text/event-stream          id: CURSOR, event: TYPE, data: {...}, and so on

A request that finds nothing looks again, with growing pauses, until its time is over or the process stops. A stream
ends after STREAM_SECONDS, and within seconds of the end of its key or session; its reader connects again by itself, and
says where it was (`Last-Event-ID`). One that does not read loses its connection (`http.connections`).
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from aiohttp import web

from membership.errors import StoreUnavailable
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.query import (
    CURSOR_PATTERN,
    MAX_CURSOR,
    CursorText,
    Parameter,
    instant_parameter,
    limit_parameter,
)
from scheduler_service.api.http.route import JSON, SERVER, RequestContext, Route, json_response
from scheduler_service.api.request_budget import too_many
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import Conflict, FieldError, Invalid
from scheduler_service.domain.event_cursors import FeedCursor, MovingCursor, decode_feed_cursor, encode_feed_cursor
from scheduler_service.domain.events import PlacedEvent
from scheduler_service.domain.ids import MAX_POLLERS, PollerId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.usecases.read_events import MAX_TRACKS, FeedPage, FeedRange

MAX_EVENTS: Final = 1000
MAX_WAIT_SECONDS: Final = 60
FIRST_LOOK_SECONDS: Final = 0.1
LAST_LOOKS_SECONDS: Final = 1.0
"""From one look to the next while there is nothing new."""
READS_PER_UNIT: Final = 4
"""Reads of storage by looks at a feed that cost one unit of the request budget."""
STREAM_SECONDS: Final = 300.0
JUDGED_EVERY_SECONDS: Final = 3.0
"""How often a stream asks whether its reader may still read."""
COMMENT_SECONDS: Final = 15.0
"""A stream without events sends a comment this often, so that proxies keep it open and a lost peer is noticed."""
EVENT_STREAM: Final = "text/event-stream"
LAST_EVENT_ID: Final = "Last-Event-ID"
Earliest: TypeAlias = Literal["earliest"]
EARLIEST: Final[Earliest] = "earliest"
_RANGE = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One event. `id` is the same however often the event is shown. `data` depends on the type; for the end of a
    schedule it has `due`, `attempts` and, where there are such, `label`, `key`, `cron_id`, `destination`,
    `last_status`, `last_error`, `reason`, `rescheduled_to`."""

    id: UUID
    type: str
    at: Instant
    schedule_id: UUID | None
    data: dict[str, Any]


class FeedView(msgspec.Struct, frozen=True, kw_only=True):
    """`cursor`: what to give as `after` next, also when there are no events. `more`: there are others already."""

    events: list[EventView]
    cursor: CursorText
    more: bool


def _after(text: str) -> FeedCursor | Earliest:
    if text == EARLIEST:
        return EARLIEST
    try:
        if len(text) > MAX_CURSOR or re.fullmatch(CURSOR_PATTERN, text) is None:
            raise ValueError
        return decode_feed_cursor(text)
    except ValueError:
        raise ValueError("must be a cursor of this feed, or earliest") from None


def _seconds(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= MAX_WAIT_SECONDS:
        return int(text)
    raise ValueError(f"must be an integer from 0 to {MAX_WAIT_SECONDS}")


def _pollers(text: str) -> FeedRange:
    found = _RANGE.fullmatch(text)
    if found is not None:
        first, last = int(found[1]), int(found[2] or found[1])
        if first <= last < MAX_POLLERS and last - first < MAX_TRACKS:
            return FeedRange(PollerId(first), PollerId(last))
    raise ValueError(f"must be a range of at most {MAX_TRACKS} pollers, such as 0-63")


_AFTER: Final = Parameter(
    name="after",
    sentence="A cursor: only what follows it. `earliest`: all that is kept. Left out: only what comes from now on.",
    schema={"type": "string", "maxLength": MAX_CURSOR},
    read=_after,
)
_SINCE: Final = instant_parameter(
    "since", "Instead of `after`: what was appended from this instant on. Some earlier events may come too."
)
_LIMIT: Final = limit_parameter(MAX_EVENTS)
_WAIT: Final = Parameter(
    name="wait_seconds",
    sentence="How long to wait for events if there are none yet.",
    schema={"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0},
    read=_seconds,
)
_POLLERS: Final = Parameter(
    name="pollers",
    sentence="The pollers whose events are read, for clients with more than 64: one reader for each range. Events that "
    "are not of a poller come with poller 0. Left out: 0-63.",
    schema={"type": "string", "pattern": "^[0-9]{1,4}(-[0-9]{1,4})?$"},
    read=_pollers,
)
EVENT_PARAMETERS: Final = (_AFTER, _SINCE, _LIMIT, _WAIT, _POLLERS)


class FeedQuery(NamedTuple):
    """`after` None: see `since`; both None: from now on."""

    after: FeedCursor | Earliest | None
    since: UnixMillis | None
    limit: int
    wait_seconds: int
    pollers: FeedRange


def read_feed_query(query: Mapping[str, str], *, last_event_id: str | None = None, ceiling: int) -> FeedQuery:
    """`last_event_id`: what a stream that was cut off gives again; it replaces `after` and `since`. `ceiling`: how many
    pollers the client has had. Raises Invalid."""
    faults: list[FieldError] = []
    after, since = _AFTER.of(query, faults), _SINCE.of(query, faults)
    limit, wait, pollers = _LIMIT.of(query, faults), _WAIT.of(query, faults), _POLLERS.of(query, faults)
    if last_event_id:
        after = _AFTER.of({_AFTER.name: last_event_id}, faults)
    elif after is not None and since is not None:
        faults.append(FieldError("/since", "can't be given together with after"))
    if faults:
        raise Invalid(faults)
    asked = pollers or FeedRange(PollerId(0), PollerId(MAX_TRACKS - 1))
    asked = FeedRange(asked.first, PollerId(max(asked.first, min(asked.last, ceiling - 1))))
    return FeedQuery(after, None if last_event_id else since, limit or 100, wait or 0, asked)


def event_view(placed: PlacedEvent) -> EventView:
    event = placed.event
    return EventView(
        id=event.event_id,
        type=event.type,
        at=format_instant(event.at),
        schedule_id=event.schedule_id,
        data=msgspec.json.decode(event.data),
    )


async def list_events(context: RequestContext) -> web.StreamResponse:
    client, services = context.client, context.services
    if not client.settings.event_feed:
        raise Conflict("no-feed", "this client has no feed of events: its setting event_feed is off")
    request = context.request
    streams = request.method == "GET" and EVENT_STREAM in request.headers.get("Accept", "")
    asked = read_feed_query(
        context.query(),
        last_event_id=request.headers.get(LAST_EVENT_ID) if streams else None,
        ceiling=client.poller_ceiling,
    )
    cursor = await _begin(context, asked)
    if not streams and not asked.wait_seconds:
        return _answer(await _look(context, asked, cursor))
    with services.events.waiting.place(client.client_id) as placed:
        if streams:
            if not placed:
                raise too_many("too many readers of events are connected", 5)
            return await _stream(context, asked, cursor)
        # A reader too many is answered at once, and comes again.
        wait_seconds = asked.wait_seconds if placed else 0
        context.deadline.disarm()
        return _answer(await _wait(context, asked, cursor, wait_seconds))


async def _begin(context: RequestContext, asked: FeedQuery) -> FeedCursor:
    read, client_id = context.services.events.read, context.client.client_id
    if isinstance(asked.after, FeedCursor):
        return asked.after
    if asked.after is not None:
        return read.earliest()
    if asked.since is not None:
        return await read.since(client_id, asked.pollers, asked.since)
    return await read.now(client_id, asked.pollers)


async def _look(context: RequestContext, asked: FeedQuery, cursor: FeedCursor, *, again: bool = False) -> FeedPage:
    page = await context.services.events.read.page(
        context.client.client_id, asked.pollers, cursor, limit=asked.limit, again=again
    )
    context.has_read(len(page.events), sum(placed.event.size for placed in page.events))
    context.spend(page.reads / READS_PER_UNIT)
    return page


async def _wait(
    context: RequestContext, asked: FeedQuery, cursor: FeedCursor, seconds: float, *, again: bool = False
) -> FeedPage:
    """The first page with events; after some seconds, or when the process stops, one without. `again`: the reader has
    looked from this cursor before."""
    services = context.services
    clock, pause = services.clock, FIRST_LOOK_SECONDS
    until = clock.monotonic() + seconds
    while True:
        page = await _look(context, asked, cursor, again=again)
        again = True
        left = until - clock.monotonic()
        if page.events or left <= 0 or services.health.stopping or _is_gone(context.request):
            return page
        cursor = page.cursor
        await clock.sleep(min(pause, left))
        pause = min(pause * 2, LAST_LOOKS_SECONDS)


def _is_gone(request: web.Request) -> bool:
    """Whether the reader has closed its connection: it must not keep its place."""
    return request.transport is None or request.transport.is_closing()


def _answer(page: FeedPage) -> web.Response:
    events = [event_view(placed) for placed in page.events]
    return json_response(FeedView(events=events, cursor=encode_feed_cursor(page.cursor), more=page.more))


async def _stream(context: RequestContext, asked: FeedQuery, cursor: FeedCursor) -> web.StreamResponse:
    context.deadline.disarm()
    services, clock = context.services, context.services.clock
    # A cursor that can't be read from is refused before the answer begins.
    page = await _look(context, asked, cursor)
    response = web.StreamResponse(
        headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no", **SERVER}
    )
    response.headers["X-Request-Id"] = context.request_id
    response.force_close()
    await response.prepare(context.request)
    # The first one tells where the stream begins, so that a reader that is cut off before any event misses none.
    await response.write(f"id: {encode_feed_cursor(cursor)}\nevent: begin\ndata: {{}}\n\n".encode())
    await response.write(b"".join(_lines(cursor, page)))
    cursor = page.cursor
    written = judged = clock.monotonic()
    until = written + STREAM_SECONDS
    while clock.monotonic() < until and not services.health.stopping and not _is_gone(context.request):
        try:
            if clock.monotonic() >= judged + JUDGED_EVERY_SECONDS:
                judged = clock.monotonic()
                if not await context.still_admitted():
                    break
            page = await _wait(context, asked, cursor, JUDGED_EVERY_SECONDS, again=True)
        except StoreUnavailable:
            await response.write(b": storage does not answer\n\n")
            await clock.sleep(LAST_LOOKS_SECONDS)
            continue
        except Conflict:
            # Its cursor has become too old. It is refused when it comes again with it.
            break
        cursor_before, cursor = cursor, page.cursor
        if page.events or clock.monotonic() >= written + COMMENT_SECONDS:
            written = clock.monotonic()
            await response.write(b"".join(_lines(cursor_before, page)) or b": nothing new\n\n")
    await response.write_eof()
    return response


def _lines(cursor: FeedCursor, page: FeedPage) -> list[bytes]:
    """The events of a page, each with the cursor behind it."""
    at = MovingCursor(FeedCursor(page.cursor.made_in, cursor.positions))
    lines = []
    for placed in page.events:
        at.move(placed.track, placed.position)
        data = msgspec.json.encode(event_view(placed))
        lines.append(b"id: %b\nevent: %b\ndata: %b\n\n" % (at.text(), placed.event.type.encode(), data))
    return lines


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/events",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_events,
        summary="Read what became of schedules, from a cursor on; waits for it if asked",
        query=EVENT_PARAMETERS,
        response=FeedView,
        media=(JSON, EVENT_STREAM),
        cost=5,
        problems=("no-feed", "cursor-expired"),
    ),
)
