"""Reschedule all schedules of a window that match: by an offset, or to one instant, a page at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.paging import WindowListing, no_cursor, seal
from scheduler_service.api.http.query import CursorText
from scheduler_service.api.http.route import CREATES, REPLAYED, Items, RequestContext, Route, json_response, keyed_of
from scheduler_service.api.rate_limit import RATE_HEADERS, RATED
from scheduler_service.api.resources.schedule_filters import (
    FILTERS,
    FilterCursor,
    FilterFields,
    as_query,
    cursor_fields,
    fits_window,
    window_of,
)
from scheduler_service.api.resources.schedules import SCHEDULES, state_of
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, MAX_DUE, ScheduleId, UnixMillis
from scheduler_service.domain.retry_rows import IN_DOUBT
from scheduler_service.domain.schedules import State
from scheduler_service.domain.spread import MAX_SPREAD_SECONDS
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.list_schedules import Position, Window
from scheduler_service.usecases.reschedule_schedule import Rescheduled, WindowReschedule
from scheduler_service.usecases.reschedule_window import MAX_RESCHEDULED, RescheduleOutcome, name_of
from scheduler_service.usecases.schedule_request import Instant, LocalTime, asked_instant

RESCHEDULED_SINCE: Final = "rescheduled-since"
_MOVE: Final = ("shift_seconds", "due", "delay_seconds", "window_seconds")


class WindowRescheduleRequest(FilterFields, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A window by due with the filters of a listing, and one of `shift_seconds`, `due` and `delay_seconds`. Every
    schedule in it that waits moves by `shift_seconds` (negative: earlier), or is due at `due` (RFC 3339 with an offset,
    or a local time) or `delay_seconds` from now; with `window_seconds`, at some instant less than this later. What
    would be due in the past is due now. `state` is scheduled or retrying; left out: both. Continue with the cursor
    alone."""

    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)
    shift_seconds: float | None = None
    due: Instant | LocalTime | None = None
    delay_seconds: float | None = None
    window_seconds: Annotated[int, Meta(ge=0, le=MAX_SPREAD_SECONDS)] | None = None
    cursor: CursorText | None = None


class RescheduleItemView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result for one schedule. `status`: 200 `rescheduled_to` is called instead, now or since this request was made
    first; 404 not found; 409 it stays: in flight, ended (`state` says how), in doubt (`reason`), rescheduled otherwise,
    to `rescheduled_to`, or made by another reschedule since this request began (`reason`: rescheduled-since); 422 it
    can't be due then (`reason`); 503 unknown, repeat the request."""

    schedule_id: UUID
    status: int
    state: str | None
    reason: str | None = None
    rescheduled_to: UUID | None = None


class RescheduleCursor(FilterCursor, frozen=True, tag="reschedule-window-1"):
    """Where a request continues: its name, its first instant, and where to it moves."""

    name: Annotated[str, Meta(max_length=32)]
    began_at: UnixMillis
    shift_ms: Annotated[int, Meta(ge=-MAX_DUE, le=MAX_DUE)] | None
    to: Annotated[int, Meta(ge=0, le=MAX_DUE)] | None
    window_seconds: Annotated[int, Meta(ge=0, le=MAX_SPREAD_SECONDS)]


_BODY: Final = Body(WindowRescheduleRequest)


def _no_default(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
    """`from` and `to` are required; where one is missing, that is the fault."""
    return (start or 0), (MAX_DUE if end is None else end)


_LISTING: Final = WindowListing(
    RescheduleCursor,
    start="The first due to move.",
    end="The first due not to move.",
    left_out=_no_default,
    longest_days=None,
    most=None,
    filters=FILTERS,
)


@dataclass(frozen=True, slots=True)
class AskedReschedule:
    """What to move where, from `position` on. `began_at` None: now, as it is the first request."""

    window: Window
    change: WindowReschedule
    position: Position | None
    began_at: UnixMillis | None


def read_request(
    client: Client, request: WindowRescheduleRequest, *, now: int, key: str | None = None
) -> AskedReschedule:
    """Raises Invalid with all faults."""
    fields = {name: value for name, value in msgspec.to_builtins(request).items() if value is not None}
    moves = {name: fields.pop(name) for name in _MOVE if name in fields}
    query, faults = as_query(fields), []
    if request.cursor is None:
        faults += [FieldError(f"/{name}", "is required") for name in ("from", "to") if name not in query]
    if any(State(text).ended for text in query.getall("state", ())):
        faults.append(FieldError("/state", "must be scheduled or retrying: what has ended can't be rescheduled"))
    try:
        asked = _LISTING.read(client.client_id, query, now=now, fits=fits_window)
    except Invalid as invalid:
        known = {fault.pointer for fault in faults}
        raise Invalid([*faults, *(fault for fault in invalid.errors if fault.pointer not in known)]) from None
    window = window_of(client.client_id, asked)
    cursor = asked.cursor
    if cursor is not None:
        faults += [FieldError(f"/{name}", "is in the cursor; leave it out") for name in moves]
        if (cursor.shift_ms is None) == (cursor.to is None):
            raise no_cursor()
        change = WindowReschedule(
            name=cursor.name,
            shift_ms=cursor.shift_ms,
            due=None if cursor.to is None else UnixMillis(cursor.to),
            window_seconds=cursor.window_seconds,
        )
        if faults:
            raise Invalid(faults)
        return AskedReschedule(window, change, cursor.position, cursor.began_at)
    change = _asked_reschedule(client, request, name_of(window, moves, key=key), faults, now=now)
    if faults:
        raise Invalid(faults)
    return AskedReschedule(window, change, None, None)


def _asked_reschedule(
    client: Client, request: WindowRescheduleRequest, name: str, faults: list[FieldError], *, now: int
) -> WindowReschedule:
    if request.shift_seconds is None:
        due = asked_instant(request, now=now, settings=client.settings, faults=faults)
        return WindowReschedule(name=name, due=due, window_seconds=request.window_seconds or 0)
    others = [field for field in _MOVE[1:] if getattr(request, field) is not None]
    faults += [FieldError(f"/{field}", "can't be given together with shift_seconds") for field in others]
    most = client.settings.horizon_days * DAY_MS // 1000
    shift_ms = round(request.shift_seconds * 1000) if abs(request.shift_seconds) <= most else 0
    if shift_ms == 0:
        faults.append(FieldError("/shift_seconds", f"must be from {-most} to {most}, and not 0"))
    return WindowReschedule(name=name, shift_ms=shift_ms)


def next_cursor(asked: AskedReschedule, began_at: UnixMillis, position: Position | None) -> str | None:
    if position is None:
        return None
    change = asked.change
    fields: dict[str, Any] = {
        "name": change.name,
        "began_at": began_at,
        "shift_ms": change.shift_ms,
        "to": change.due,
        "window_seconds": change.window_seconds,
    }
    return seal(asked.window.client_id, RescheduleCursor(**cursor_fields(asked.window, position), **fields))


def item_view(schedule_id: ScheduleId, outcome: RescheduleOutcome) -> RescheduleItemView:
    match outcome:
        case Rescheduled(new=new):
            return RescheduleItemView(
                schedule_id=schedule_id,
                status=200,
                state=State.CANCELLED.value,
                rescheduled_to=new.row.schedule_id,
            )
        case WasRescheduled(row=row):
            return RescheduleItemView(
                schedule_id=schedule_id, status=409, state=state_of(row), rescheduled_to=row.rescheduled_to
            )
        case InDoubt(row=row):
            return RescheduleItemView(schedule_id=schedule_id, status=409, state=state_of(row), reason=IN_DOUBT)
        case InFlight(row=row) | AlreadyFinished(row=row):
            return RescheduleItemView(schedule_id=schedule_id, status=409, state=state_of(row))
        case NoSuchSchedule():
            return RescheduleItemView(schedule_id=schedule_id, status=404, state=None)
        case Invalid():
            reason = "; ".join(fault.detail for fault in outcome.errors)
            return RescheduleItemView(schedule_id=schedule_id, status=422, state=None, reason=reason)
        case _:
            return RescheduleItemView(schedule_id=schedule_id, status=503, state=None)


async def reschedule_schedules(context: RequestContext) -> web.Response:
    client, window = context.client, context.services.schedules.reschedule_window
    context.services.schedules.create.admit(client)
    now = context.services.clock.wall_ms()

    def faults(wrong: WindowRescheduleRequest) -> Sequence[FieldError]:
        try:
            read_request(client, wrong, now=now)
        except Invalid as invalid:
            return invalid.errors
        return ()

    request = await context.body(_BODY, faults)
    # A cursor has what a key would tell.
    keyed = keyed_of(context, request) if request.cursor is None else None
    began = await window.known(keyed)
    replayed = began is not None
    asked = read_request(client, request, now=began or now, key=None if keyed is None else keyed.key)
    began_at = asked.began_at or began or await window.begin(keyed, at=now)
    found = await window.find(
        asked.window, asked.change, began_at=began_at, position=asked.position, has_read=context.has_read
    )
    headers: Mapping[str, str] = context.services.rate_limit.take(client, len(found.schedules))
    outcomes = await window.reschedule(client, found.schedules, asked.change)
    items = [item_view(schedule_id, outcomes[schedule_id]) for schedule_id in found.schedules]
    items += [
        RescheduleItemView(schedule_id=row.schedule_id, status=409, state=state_of(row), reason=RESCHEDULED_SINCE)
        for row in found.since
    ]
    context.record(start=asked.window.start, end=asked.window.end)
    context.record(asked=len(items), rescheduled=sum(item.status == 200 for item in items))
    cursor = next_cursor(asked, began_at, found.next)
    return json_response(Items(items, cursor), headers={**headers, **(REPLAYED if replayed else {})})


ROUTES = (
    Route(
        method="POST",
        path=SCHEDULES + ":reschedule",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=reschedule_schedules,
        summary=f"Reschedule all waiting schedules of a window that match, up to {MAX_RESCHEDULED} at a time: by an "
        "offset, or to one instant",
        request=WindowRescheduleRequest,
        response=Items[RescheduleItemView],
        headers=RATE_HEADERS,
        idempotent=True,
        problems=(*CREATES, *RATED),
        cost=5,
        reads_much=True,
    ),
)
