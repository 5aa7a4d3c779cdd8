"""Schedules of a window: list them by due, count them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.paging import WindowListing, seal
from scheduler_service.api.http.query import CursorText
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response
from scheduler_service.api.resources.schedule_filters import (
    FILTERS,
    FilterCursor,
    cursor_fields,
    fits_window,
    window_of,
)
from scheduler_service.api.resources.schedule_views import schedule_view
from scheduler_service.api.resources.schedules import SCHEDULES
from scheduler_service.api.schemas import ScheduleView
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import DAY_MS, MAX_DUE, ClientId, UnixMillis
from scheduler_service.usecases.list_schedules import Position, Window

MAX_LIMIT: Final = 1000


class ScheduleCursor(FilterCursor, frozen=True, tag="schedules-2"):
    """Where a listing continues."""


class CountCursor(FilterCursor, frozen=True, tag="schedule-count-1"):
    """Where a count continues, and how many it has counted before."""

    counted: int


def _left_out(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
    first = now if start is None else start
    return first, min(first + DAY_MS, MAX_DUE) if end is None else end


_LISTING: Final = WindowListing(
    ScheduleCursor,
    start="The first due to list. Left out: now.",
    end="The first due not to list. Left out: 24 hours after `from`.",
    left_out=_left_out,
    longest_days=None,
    most=MAX_LIMIT,
    filters=FILTERS,
)
_COUNT: Final = WindowListing(
    CountCursor,
    start="The first due to count. Left out: now.",
    end="The first due not to count. Left out: 24 hours after `from`.",
    left_out=_left_out,
    longest_days=None,
    most=None,
    filters=FILTERS,
)
PARAMETERS: Final = _LISTING.parameters


class CountView(msgspec.Struct, frozen=True):
    """How many schedules there are. `next_cursor` null: in the whole window, as they were counted, while some of them
    may have changed. Else `count` is that of the part of the window before the cursor; asked with the cursor, the count
    goes on from there and includes it."""

    count: int
    next_cursor: CursorText | None


class Query(NamedTuple):
    """The window to list, the position to begin after (None: at its start), and the most items."""

    window: Window
    position: Position | None
    limit: int


def read_listing(client_id: ClientId, query: Mapping[str, str], *, now: int) -> Query:
    """The query of a listing of schedules, from its parameters or its cursor. Raises Invalid."""
    asked = _LISTING.read(client_id, query, now=now, fits=fits_window)
    window = window_of(client_id, asked)
    return Query(window, None if asked.cursor is None else asked.cursor.position, asked.limit)


def schedule_cursor(window: Window, position: Position | None) -> str | None:
    if position is None:
        return None
    return seal(window.client_id, ScheduleCursor(**cursor_fields(window, position)))


async def list_schedules(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    query = context.query()
    asked = read_listing(client_id, query, now=context.services.clock.wall_ms())
    found = await context.services.schedules.list(
        asked.window,
        limit=asked.limit,
        position=asked.position,
        consistency=context.client.settings.read_consistency,
        has_read=context.has_read,
    )
    encryption = context.services.encryption
    views = [schedule_view(client_id, listed.row, encryption, in_flight=listed.in_flight) for listed in found.items]
    cursor = schedule_cursor(asked.window, found.next)
    return json_response(Items(views, cursor))


async def count_schedules(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    asked = _COUNT.read(client_id, context.query(), now=context.services.clock.wall_ms(), fits=fits_window)
    window = window_of(client_id, asked)
    counted = await context.services.schedules.list.count(
        window,
        position=None if asked.cursor is None else asked.cursor.position,
        consistency=context.client.settings.read_consistency,
        has_read=context.has_read,
    )
    count = counted.count + (0 if asked.cursor is None else asked.cursor.counted)
    if counted.next is None:
        return json_response(CountView(count, None))
    cursor = CountCursor(**cursor_fields(window, counted.next), counted=count)
    return json_response(CountView(count, seal(client_id, cursor)))


ROUTES = (
    Route(
        method="GET",
        path=SCHEDULES,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_schedules,
        summary="List schedules by due, within a window",
        query=PARAMETERS,
        response=Items[ScheduleView],
        cost=10,
        reads_much=True,
    ),
    Route(
        method="GET",
        path=SCHEDULES + ":count",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=count_schedules,
        summary="Count schedules within a window, as far as one request goes",
        query=_COUNT.parameters,
        response=CountView,
        cost=20,
        reads_much=True,
    ),
)
