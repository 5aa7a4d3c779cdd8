"""Crons: put, show, list, pause, resume, trigger, delete; the runs of one; the preview of a rule."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.paging import Cursor, LeftOut, Listing, WindowCursor, WindowListing, seal
from scheduler_service.api.http.preconditions import ETAG, etag_header, precondition_of
from scheduler_service.api.http.query import choice_parameter
from scheduler_service.api.http.route import (
    CREATES,
    LOCATION,
    REPLAYED,
    Items,
    NoRequest,
    RequestContext,
    Route,
    json_response,
    keyed_of,
)
from scheduler_service.api.rate_limit import RATE_HEADERS, RATED
from scheduler_service.api.resources.cron_views import CronView, PreviewView, RunView, cron_view, preview_view, run_view
from scheduler_service.api.resources.schedule_views import created_schedule_view, schedule_view
from scheduler_service.api.resources.schedules import location_of
from scheduler_service.api.schemas import ScheduleView
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.crons import SEARCHED_MS
from scheduler_service.domain.crons.compound import takes_long
from scheduler_service.domain.crons.row import CRON_ID_PATTERN, Cron
from scheduler_service.domain.errors import FieldError, Invalid, NotFound
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, UnixMillis
from scheduler_service.domain.schedules import Definition
from scheduler_service.usecases.cron_request import CronRequest, PauseRequest, PreviewRequest, preview
from scheduler_service.usecases.resolve_schedule import Resolved

CRONS = "/v1/clients/{client_id}/crons"
CRON = CRONS + "/{cron_id}"
_ID = re.compile(CRON_ID_PATTERN.strip("^$"))
_REQUEST = Body(CronRequest)
_PREVIEW = Body(PreviewRequest)
_PAUSE = Body(PauseRequest)

MAX_CRONS = 200
"""Each cron is read with its body, and its next fires are computed."""
MAX_RUNS = 500
"""Each run of a page costs a read of its schedule."""
MAX_DAYS = 31
NEWEST_DAYS = 30


class _CronCursor(Cursor, frozen=True, tag="crons-1"):
    after: CronId


class RunCursor(WindowCursor, frozen=True, tag="runs-1"):
    cron_id: CronId
    after: UnixMillis
    order: str | None = None


_ORDERS: Final = ("oldest", "newest")


def _order(text: str) -> str:
    if text not in _ORDERS:
        raise ValueError
    return text


def _runs_left_out(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
    first = max(now - DAY_MS, 0) if start is None else start
    return first, min(max(first, now) + DAY_MS, first + MAX_DAYS * DAY_MS) if end is None else end


def _newest_left_out(start: UnixMillis | None, end: UnixMillis | None, now: int) -> tuple[int, int]:
    if end is not None:
        last: int = end
    elif start is None:
        last = now + 1
    else:
        last = start + DAY_MS if start > now else min(now + 1, start + MAX_DAYS * DAY_MS)
    return max(last - NEWEST_DAYS * DAY_MS, 0) if start is None else start, last


def _runs_listing(left_out: LeftOut) -> WindowListing[RunCursor]:
    return WindowListing(
        RunCursor,
        start=f"The first nominal instant to list. Left out: a day ago; with `order` newest, {NEWEST_DAYS} days before "
        "`to`.",
        end=f"The first nominal instant not to list, at most {MAX_DAYS} days after `from` and five years ahead. Left "
        "out: a day after now or, if that is later, after `from`; with `order` newest, now, unless `from` is later.",
        left_out=left_out,
        longest_days=MAX_DAYS,
        most=MAX_RUNS,
        filters=(
            choice_parameter(
                "order",
                "`oldest`: by nominal instant, planned fires included. `newest`: the other way round, only runs that "
                "have a schedule, of those to come only what is before a given `to`. Left out: `oldest`.",
                _order,
                _ORDERS,
            ),
        ),
    )


_CRON_LISTING: Final = Listing(_CronCursor, most=MAX_CRONS)
_RUNS: Final = _runs_listing(_runs_left_out)
_NEWEST_RUNS: Final = _runs_listing(_newest_left_out)
"""Alike but for what is left out: a list that begins with its end must not begin with what is still to come."""
CRON_PARAMETERS: Final = _CRON_LISTING.parameters
RUN_PARAMETERS: Final = _RUNS.parameters


class CronsQuery(NamedTuple):
    """At most `limit` crons after `after` (None: from the first on)."""

    after: CronId | None
    limit: int


class RunsQuery(NamedTuple):
    """At most `limit` runs with start <= nominal instant < end: from `begin` on, or with order newest those before it,
    the last ones first."""

    start: UnixMillis
    end: UnixMillis
    begin: UnixMillis
    limit: int
    order: str | None = None

    @property
    def newest_first(self) -> bool:
        return self.order == "newest"


def read_cron_listing(client_id: ClientId, query: Mapping[str, str]) -> CronsQuery:
    """Raises Invalid."""
    cursor, limit = _CRON_LISTING.read(client_id, query)
    return CronsQuery(None if cursor is None else cursor.after, limit)


def cron_cursor(client_id: ClientId, after: CronId | None) -> str | None:
    return None if after is None else seal(client_id, _CronCursor(after))


def read_run_listing(client_id: ClientId, cron_id: CronId, query: Mapping[str, str], *, now: int) -> RunsQuery:
    """Raises Invalid."""

    def fits(cursor: RunCursor) -> bool:
        # A day more than now allows: the process that made the cursor may have had a clock ahead of this one.
        searched = cursor.end <= now + SEARCHED_MS + DAY_MS
        return searched and cursor.cron_id == cron_id and cursor.start - 1 <= cursor.after < cursor.end

    listing = _NEWEST_RUNS if query.get("order") == "newest" else _RUNS
    asked = listing.read(client_id, query, now=now, fits=fits)
    order = asked.filters["order"]
    newest = order == "newest"
    if asked.cursor is not None:
        after = asked.cursor.after
        return RunsQuery(asked.start, asked.end, after if newest else UnixMillis(after + 1), asked.limit, order)
    if asked.end > now + SEARCHED_MS:
        raise Invalid([FieldError("/to", "is more than five years ahead")])
    return RunsQuery(asked.start, asked.end, asked.end if newest else asked.start, asked.limit, order)


def run_cursor(client_id: ClientId, cron_id: CronId, asked: RunsQuery, after: UnixMillis | None) -> str | None:
    if after is None:
        return None
    return seal(client_id, RunCursor(asked.start, asked.end, cron_id, after, asked.order))


async def put_cron(context: RequestContext) -> web.Response:
    client, crons, cron_id = context.client, context.services.crons.request, cron_id_of(context)
    crons.admit(client)
    precondition = precondition_of(context.request)
    rate = context.services.rate_limit.take(client)
    request = await context.body(_REQUEST, lambda wrong: crons.faults(client, wrong))
    changed = await crons.put(client, cron_id, request, has_read=context.has_read, precondition=precondition)
    context.record(revision=changed.cron.revision)
    view = cron_view(changed.cron, client, context.services.encryption, now=context.services.clock.wall_ms())
    headers = {**etag_header(changed.cron.revision), **rate}
    if not changed.created:
        return json_response(view, headers=headers)
    headers["Location"] = f"/v1/clients/{client.client_id}/crons/{cron_id}"
    return json_response(view, status=201, headers=headers)


async def get_cron(context: RequestContext) -> web.Response:
    return _shown(context, await context.services.crons.show.one(context.client.client_id, cron_id_of(context)))


async def list_crons(context: RequestContext) -> web.Response:
    client = context.client
    asked = read_cron_listing(client.client_id, context.query())
    page = await context.services.crons.show.page(
        client.client_id, after=asked.after, limit=asked.limit, has_read=context.has_read
    )
    now = context.services.clock.wall_ms()
    views = []
    for cron in page.items:
        if takes_long(cron.expression):
            await context.services.clock.sleep(0)
        views.append(cron_view(cron, client, context.services.encryption, now=now))
    return json_response(Items(views, cron_cursor(client.client_id, page.next)))


async def delete_cron(context: RequestContext) -> web.Response:
    client_id, cron_id, precondition = context.client.client_id, cron_id_of(context), precondition_of(context.request)
    return _changed(context, await context.services.crons.change.delete(client_id, cron_id, precondition=precondition))


async def pause_cron(context: RequestContext) -> web.Response:
    client_id, cron_id, precondition = context.client.client_id, cron_id_of(context), precondition_of(context.request)
    note = (await context.body_or(_PAUSE, PauseRequest())).note
    pause = context.services.crons.change.pause
    cron = await pause(client_id, cron_id, note=note, precondition=precondition)
    if note is not None:
        context.record(note=note)
    return _changed(context, cron)


async def resume_cron(context: RequestContext) -> web.Response:
    client, cron_id, precondition = context.client, cron_id_of(context), precondition_of(context.request)
    await context.no_body()
    return _changed(context, await context.services.crons.request.resume(client, cron_id, precondition=precondition))


async def trigger_cron(context: RequestContext) -> web.Response:
    client, cron_id = context.client, cron_id_of(context)
    await context.no_body()
    encryption = context.services.encryption
    context.services.crons.request.admit(client)
    rate = context.services.rate_limit.take(client)
    keyed = keyed_of(context)
    if keyed is None:
        made: Definition | Resolved = await context.services.crons.trigger(client, cron_id)
    else:
        made = await context.services.schedules.idempotently.trigger(client, cron_id, keyed)
    schedule_id = made.schedule_id if isinstance(made, Definition) else made.row.schedule_id
    context.record(schedule_id=str(schedule_id))
    headers = {**location_of(client, schedule_id), **rate}
    if isinstance(made, Definition):
        return json_response(created_schedule_view(made, encryption), status=201, headers=headers)
    view = schedule_view(client.client_id, made.row, encryption, in_flight=made.in_flight)
    return json_response(view, headers={**REPLAYED, **headers})


async def list_runs(context: RequestContext) -> web.Response:
    client, cron_id = context.client, cron_id_of(context)
    query = context.query()
    asked = read_run_listing(client.client_id, cron_id, query, now=context.services.clock.wall_ms())
    show = context.services.crons.show
    if asked.newest_first:
        page = await show.newest_runs(client, cron_id, start=asked.start, end=asked.begin, limit=asked.limit)
    else:
        page = await show.runs(client, cron_id, start=asked.begin, end=asked.end, limit=asked.limit)
    views = [run_view(run) for run in page.items]
    return json_response(Items(views, run_cursor(client.client_id, cron_id, asked, page.next)))


async def preview_cron(context: RequestContext) -> web.Response:
    now = context.services.clock.wall_ms()

    def faults(wrong: PreviewRequest) -> list[FieldError]:
        try:
            preview(wrong, now=now)
        except Invalid as invalid:
            return invalid.errors
        return []

    return json_response(preview_view(preview(await context.body(_PREVIEW, faults), now=now)))


def cron_id_of(context: RequestContext) -> CronId:
    """The id in the path. A text that can't be a cron's id is 404."""
    text = context.path("cron_id")
    if _ID.fullmatch(text) is None:
        raise NotFound(f"a cron's id matches {CRON_ID_PATTERN}: lower-case letters, digits, '.', '_' and '-'")
    return CronId(text)


def _changed(context: RequestContext, cron: Cron) -> web.Response:
    context.record(revision=cron.revision)
    return _shown(context, cron)


def _shown(context: RequestContext, cron: Cron) -> web.Response:
    view = cron_view(cron, context.client, context.services.encryption, now=context.services.clock.wall_ms())
    return json_response(view, headers=etag_header(cron.revision))


ROUTES = (
    Route(
        method="PUT",
        path=CRON,
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=put_cron,
        summary="Create a cron, or replace its rule and callback",
        request=CronRequest,
        response=CronView,
        status=201,
        headers={**LOCATION, **ETAG, **RATE_HEADERS},
        others={200: CronView},
        conditional=True,
        problems=(*CREATES, *RATED, "too-many-crons", "older-nodes"),
        cost=5,
    ),
    Route(
        method="GET",
        path=CRON,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_cron,
        summary="Show a cron and its next fires",
        response=CronView,
        headers=ETAG,
    ),
    Route(
        method="DELETE",
        path=CRON,
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=delete_cron,
        summary="Delete a cron: it stops firing, and its runs stay readable",
        response=CronView,
        headers=ETAG,
        conditional=True,
        cost=4,
    ),
    Route(
        method="GET",
        path=CRONS,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_crons,
        summary="List crons by id",
        query=CRON_PARAMETERS,
        response=Items[CronView],
        cost=2,
        reads_much=True,
    ),
    Route(
        method="POST",
        path=CRON + ":pause",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=pause_cron,
        summary="Pause a cron until it is resumed, with a note that says why",
        request=PauseRequest,
        body_optional=True,
        response=CronView,
        headers=ETAG,
        conditional=True,
        problems=("cron-finished",),
        cost=3,
        recorded=True,
    ),
    Route(
        method="POST",
        path=CRON + ":resume",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=resume_cron,
        summary="Resume a paused cron from now on; missed fires are not made up for",
        request=NoRequest,
        response=CronView,
        headers=ETAG,
        conditional=True,
        problems=CREATES,
        cost=3,
        recorded=True,
    ),
    Route(
        method="POST",
        path=CRON + ":trigger",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=trigger_cron,
        summary="Run a cron once, now, besides its rule",
        request=NoRequest,
        response=ScheduleView,
        status=201,
        headers={**LOCATION, **RATE_HEADERS},
        others={200: ScheduleView},
        idempotent=True,
        problems=(*CREATES, *RATED, "cron-changed"),
        cost=0,
    ),
    Route(
        method="GET",
        path=CRON + "/runs",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_runs,
        summary="List past and planned runs of a cron, within a window of 31 days, or the newest first",
        query=RUN_PARAMETERS,
        response=Items[RunView],
        cost=5,
        reads_much=True,
    ),
    Route(
        method="POST",
        path="/v1/crons:preview",
        access=Access.ANY,
        handler=preview_cron,
        summary="Preview a rule: its words and its next fires",
        request=PreviewRequest,
        response=PreviewView,
        dry_run=True,
        cost=3,
    ),
)
