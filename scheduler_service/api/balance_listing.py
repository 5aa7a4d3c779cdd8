"""What the books of minutes take as query parameters, the cursor that they go on with, and how they are shown."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from scheduler_service.api.cursor import disagreeing, no_cursor, seal, unseal
from scheduler_service.api.listing import MAX_WINDOW_MS
from scheduler_service.api.parameters import CURSOR, DEFAULT_LIMIT, instant_parameter, limit_parameter
from scheduler_service.api.schemas import BalanceView, LatenessView
from scheduler_service.domain.books import LATENESS_BOUNDS_MS, Tally
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import (
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
from scheduler_service.usecases.show_balance import MinuteBooks, Position

MAX_MINUTES: Final = 1440
_FROM: Final = instant_parameter("from", "The first instant whose minute is shown. Left out: an hour ago.")
_TO: Final = instant_parameter(
    "to",
    "The first instant whose minute is not shown, at most 24 hours after `from`; cut minutes are counted whole. "
    "Left out: now or, if that is not later, an hour after `from`.",
)
_LIMIT: Final = limit_parameter(MAX_MINUTES)
BALANCE_PARAMETERS: Final = (_FROM, _TO, _LIMIT, CURSOR)

_LISTING: Final = "balance-1"
"""What this listing's cursors begin with; the number is that of their form."""

Count = Annotated[int, Meta(ge=0, le=1 << 40)]


class _Counted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    counts: dict[State, Count]
    lateness: Annotated[
        list[Count], Meta(min_length=len(LATENESS_BOUNDS_MS) + 1, max_length=len(LATENESS_BOUNDS_MS) + 1)
    ]
    max_lateness_ms: Count


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    listing: Literal["balance-1"]
    start: UnixMillis
    end: UnixMillis
    minute: Minute
    poller_id: PollerId
    due: UnixMillis | None
    schedule_id: ScheduleId | None
    counted: _Counted | None


_decode = msgspec.msgpack.Decoder(_Cursor).decode


class BalanceAsked(NamedTuple):
    """The minutes that [start, end) touches, from `position` on, and how many at most."""

    start: UnixMillis
    end: UnixMillis
    position: Position
    limit: int

    @property
    def last(self) -> Minute:
        return minute_of(self.end - 1)


def read_balance(client_id: ClientId, query: Mapping[str, str], *, now: int) -> BalanceAsked:
    """`from` defaults to an hour ago; `to` is excluded and defaults to now or, if that is not later, to an hour after
    `from`. Minutes that they cut are counted whole. A cursor carries the window that it came from. Raises Invalid.
    """
    faults: list[FieldError] = []
    limit = _LIMIT.of(query, faults) or DEFAULT_LIMIT
    start, end = _FROM.of(query, faults), _TO.of(query, faults)
    if "cursor" in query:
        try:
            cursor = unseal(client_id, query["cursor"], decode=_decode)
            position = _position(cursor)
        except Invalid as invalid:
            raise Invalid([*faults, *invalid.errors]) from None
        faults += disagreeing((("from", start, cursor.start), ("to", end, cursor.end)))
        if faults:
            raise Invalid(faults)
        return BalanceAsked(cursor.start, cursor.end, position, limit)
    first = UnixMillis(max(now - HOUR_MS, 0)) if start is None else start
    last = (
        UnixMillis(min(now if now > first else first + HOUR_MS, first + MAX_WINDOW_MS, MAX_DUE)) if end is None else end
    )
    if not faults and not first < last:
        faults.append(FieldError("/to", "must be after from"))
    elif not faults and last - first > MAX_WINDOW_MS:
        faults.append(FieldError("/to", "is more than 24 hours after from; ask for one day at a time"))
    if faults:
        raise Invalid(faults)
    return BalanceAsked(first, last, Position(minute_of(first)), limit)


def balance_cursor(client_id: ClientId, asked: BalanceAsked, position: Position | None) -> str | None:
    if position is None:
        return None
    tally = position.tally
    counted = _Counted(tally.counts, tally.lateness, tally.max_lateness_ms) if tally.counts else None
    due, schedule_id = position.after if position.after is not None else (None, None)
    cursor = _Cursor(_LISTING, asked.start, asked.end, position.minute, position.poller_id, due, schedule_id, counted)
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


def _position(cursor: _Cursor) -> Position:
    window = 0 <= cursor.start < cursor.end <= min(cursor.start + MAX_WINDOW_MS, MAX_DUE)
    within = window and minute_of(cursor.start) <= cursor.minute <= minute_of(cursor.end - 1)
    if not within or (cursor.due is None) is not (cursor.schedule_id is None):
        raise no_cursor()
    tally = Tally()
    if cursor.counted is not None:
        tally.counts = dict(cursor.counted.counts)
        tally.lateness = list(cursor.counted.lateness)
        tally.max_lateness_ms = cursor.counted.max_lateness_ms
    after = None
    if cursor.due is not None and cursor.schedule_id is not None:
        after = RowKey(cursor.due, cursor.schedule_id)
    return Position(cursor.minute, cursor.poller_id, after, tally)
