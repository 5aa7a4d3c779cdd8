"""Backfill a cron: the fires of a range of its past that were not made."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.paging import Cursor, Listing, no_cursor, seal
from scheduler_service.api.http.query import CursorText
from scheduler_service.api.http.route import CREATES, Items, RequestContext, Route, json_response
from scheduler_service.api.rate_limit import RATE_HEADERS, RATED
from scheduler_service.api.resources.cron_views import EXPIRED
from scheduler_service.api.resources.crons import CRON, cron_id_of
from scheduler_service.api.schemas import Instant as ShownInstant
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, MAX_DUE, CronId, UnixMillis
from scheduler_service.domain.instants import format_instant, format_instant_or_none, read_instant, window_faults
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.backfill_crons import FIRES_AT_ONCE, Backfilled
from scheduler_service.usecases.schedule_request import Instant

COST_OF_FIRE: Final = 8.0
"""Units of one fire that is placed and redelivered."""


class BackfillRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fires of the present rule with from <= nominal instant < to, RFC 3339; `to` left out: now. `dry_run`: only
    say which would be made. Continue with the cursor beside the same fields."""

    start: Instant = msgspec.field(name="from")
    end: Instant | None = msgspec.field(name="to", default=None)
    dry_run: bool = False
    cursor: CursorText | None = None


class BackfillItemView(msgspec.Struct, frozen=True, kw_only=True):
    """One fire. `status`: 202 it is called at `due`, in a dry run it would be; 409 it is left as it is, because it was
    made, waits or was cancelled (`state` and `reason` say so); 404 it is not kept any more; 503 unknown, repeat the
    request. `schedule_id`: its schedule; in a dry run that which it would have."""

    nominal_due: ShownInstant
    status: int
    schedule_id: UUID
    due: ShownInstant | None
    state: Annotated[str, Meta(extra_json_schema={"enum": [*State, EXPIRED]})] | None
    reason: str | None = None


class _BackfillCursor(Cursor, frozen=True, tag="backfill-1"):
    cron_id: CronId
    after: Annotated[UnixMillis, Meta(ge=0, le=MAX_DUE)]
    called_until: Annotated[UnixMillis, Meta(ge=0, le=MAX_DUE)]


_REQUEST: Final = Body(BackfillRequest)
_LISTING: Final = Listing(_BackfillCursor, most=FIRES_AT_ONCE)


def read_range(request: BackfillRequest, *, now: int) -> tuple[UnixMillis, UnixMillis]:
    """Raises Invalid with every fault."""
    faults: list[FieldError] = []
    start = read_instant(request.start, "/from", faults)
    end = read_instant(request.end, "/to", faults) if request.end is not None else UnixMillis(now)
    if start is not None and end is not None:
        faults += window_faults(start, end, longest_days=None)
    if faults or start is None or end is None:
        raise Invalid(faults)
    return start, end


def item_view(one: Backfilled, *, dry_run: bool) -> BackfillItemView:
    row = one.row
    if one.at is not None:
        status, state = 202, None if dry_run else State.RETRYING.value
    elif one.error is not None:
        status, state = 503, None
    elif row is None:
        status, state = 404, EXPIRED
    else:
        status, state = 409, row.shown_state.value
    return BackfillItemView(
        nominal_due=format_instant(one.nominal_due),
        status=status,
        schedule_id=one.schedule_id,
        due=format_instant_or_none(one.at),
        state=state,
        reason=None if row is None or one.at is not None else row.reason,
    )


async def backfill_cron(context: RequestContext) -> web.Response:
    client, cron_id, services = context.client, cron_id_of(context), context.services
    services.crons.request.admit(client)
    now = services.clock.wall_ms()

    def faults(wrong: BackfillRequest) -> Sequence[FieldError]:
        try:
            read_range(wrong, now=now)
        except Invalid as invalid:
            return invalid.errors
        return ()

    request = await context.body(_REQUEST, faults)
    start, end = read_range(request, now=now)
    begin, called_from = start, None
    if request.cursor is not None:
        cursor, _ = _LISTING.read(client.client_id, {"cursor": request.cursor})
        if cursor is None or cursor.cron_id != cron_id or not start <= cursor.after < end:
            raise no_cursor()
        begin, called_from = UnixMillis(cursor.after + 1), UnixMillis(min(cursor.called_until, now + DAY_MS))
    headers: Mapping[str, str] = services.rate_limit.take(client, 0)

    def take(calls: int) -> None:
        nonlocal headers
        headers = services.rate_limit.take(client, calls)

    page = await services.crons.backfill(
        client, cron_id, start=begin, end=end, dry_run=request.dry_run, called_from=called_from, take=take
    )
    called = sum(one.at is not None for one in page.items)
    context.record(start=start, end=end, dry_run=int(request.dry_run), fires=len(page.items), called=called)
    context.spend(len(page.items) if request.dry_run else COST_OF_FIRE * len(page.items))
    following = None
    if page.next is not None:
        following = seal(client.client_id, _BackfillCursor(cron_id, page.next, page.called_until))
    views = [item_view(one, dry_run=request.dry_run) for one in page.items]
    return json_response(Items(views, following), headers=headers)


ROUTES = (
    Route(
        method="POST",
        path=CRON + ":backfill",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=backfill_cron,
        summary=f"Make the fires of a range of a cron's past that were not made, up to {FIRES_AT_ONCE} at a time; a "
        "dry run says which ones",
        request=BackfillRequest,
        response=Items[BackfillItemView],
        headers=RATE_HEADERS,
        problems=(*CREATES, *RATED),
        cost=5,
        reads_much=True,
    ),
)
