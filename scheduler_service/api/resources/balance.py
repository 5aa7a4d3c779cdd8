"""The balances of a client's minutes."""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.paging import WindowCursor, WindowListing, seal
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response
from scheduler_service.api.schemas import BalanceView, LatenessView
from scheduler_service.domain.books import LATENESS_BOUNDS_MS, Tally
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import (
    DAY_MS,
    HOUR_MS,
    MAX_DUE,
    ClientId,
    Minute,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    minute_of,
    minute_start,
)
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.balance import MinuteBooks, Position

PARTITIONS_PER_UNIT: Final = 4
ROWS_PER_UNIT: Final = 250
"""Rows of unsettled minutes, whose counts are not stored and come from their rows."""

MAX_WINDOW_MINUTES: Final = 1440
Count = Annotated[int, Meta(ge=0, le=1 << 40)]


class _Counted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    counts: dict[State, Count]
    lateness: Annotated[
        list[Count], Meta(min_length=len(LATENESS_BOUNDS_MS) + 1, max_length=len(LATENESS_BOUNDS_MS) + 1)
    ]
    max_lateness_ms: Count


class _Cursor(WindowCursor, frozen=True, tag="balance-1"):
    minute: Minute
    poller_id: PollerId
    due: UnixMillis | None
    schedule_id: ScheduleId | None
    counted: _Counted | None


def _left_out(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
    first = max(now - HOUR_MS, 0) if start is None else start
    if end is None:
        end = UnixMillis(min(now if now > first else first + HOUR_MS, first + DAY_MS, MAX_DUE))
    return first, end


_LISTING: Final = WindowListing(
    _Cursor,
    start="The first instant whose minute is shown. Left out: an hour ago.",
    end="The first instant whose minute is not shown, at most 24 hours after `from`; cut minutes are counted whole. "
    "Left out: now or, if that is not later, an hour after `from`.",
    left_out=_left_out,
    longest_days=1,
    most=MAX_WINDOW_MINUTES,
)
BALANCE_PARAMETERS: Final = _LISTING.parameters


class BalanceQuery(NamedTuple):
    """At most `limit` minutes of those that [start, end) touches, from `position` on."""

    start: UnixMillis
    end: UnixMillis
    position: Position
    limit: int

    @property
    def last(self) -> Minute:
        return minute_of(self.end - 1)


def read_balance(client_id: ClientId, query: Mapping[str, str], *, now: int) -> BalanceQuery:
    """Raises Invalid."""
    asked = _LISTING.read(client_id, query, now=now, fits=_fits)
    position = Position(minute_of(asked.start)) if asked.cursor is None else _position(asked.cursor)
    return BalanceQuery(asked.start, asked.end, position, asked.limit)


def balance_cursor(client_id: ClientId, asked: BalanceQuery, position: Position | None) -> str | None:
    if position is None:
        return None
    tally = position.tally
    # A page may end within a minute: the cursor then carries what the minute's rows have counted so far.
    counted = _Counted(tally.counts, tally.lateness, tally.max_lateness_ms) if tally.counts else None
    due, schedule_id = position.after if position.after is not None else (None, None)
    cursor = _Cursor(asked.start, asked.end, position.minute, position.poller_id, due, schedule_id, counted)
    return seal(client_id, cursor)


def balance_view(books: MinuteBooks) -> BalanceView:
    tally = books.tally
    return BalanceView(
        minute=format_instant(minute_start(books.minute)),
        accepted=tally.accepted,
        delivered=tally.of(State.DELIVERED),
        failed=tally.of(State.FAILED),
        cancelled=tally.of(State.CANCELLED),
        skipped=tally.of(State.SKIPPED),
        open=tally.open,
        lateness=_lateness(tally),
    )


def _lateness(tally: Tally) -> LatenessView | None:
    p50, p99 = tally.lateness_ms(0.50), tally.lateness_ms(0.99)
    if p50 is None or p99 is None:
        return None
    return LatenessView(p50_seconds=p50 / 1000, p99_seconds=p99 / 1000, max_seconds=tally.max_lateness_ms / 1000)


def _fits(cursor: _Cursor) -> bool:
    within = minute_of(cursor.start) <= cursor.minute <= minute_of(cursor.end - 1)
    return within and (cursor.due is None) is (cursor.schedule_id is None)


def _position(cursor: _Cursor) -> Position:
    tally = Tally()
    if cursor.counted is not None:
        tally.counts = dict(cursor.counted.counts)
        tally.lateness = list(cursor.counted.lateness)
        tally.max_lateness_ms = cursor.counted.max_lateness_ms
    after = None
    if cursor.due is not None and cursor.schedule_id is not None:
        after = RowKey(cursor.due, cursor.schedule_id)
    return Position(cursor.minute, cursor.poller_id, after, tally)


async def get_balance(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    asked = read_balance(client_id, context.query(), now=context.services.clock.wall_ms())
    books = await context.services.books.balance(client_id, position=asked.position, last=asked.last, limit=asked.limit)
    looked = books.looked
    context.spend(looked.hours + looked.partitions / PARTITIONS_PER_UNIT + looked.rows / ROWS_PER_UNIT)
    cursor = balance_cursor(client_id, asked, books.next)
    return json_response(Items([balance_view(minute) for minute in books.minutes], cursor))


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/balance",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_balance,
        summary="Show what was accepted for each minute, and with what outcomes, within a window of 24 hours",
        query=BALANCE_PARAMETERS,
        response=Items[BalanceView],
        cost=2,
        reads_much=True,
    ),
)
