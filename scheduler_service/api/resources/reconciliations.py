"""Reconciliations: create, show, list and stop them."""

from collections.abc import Mapping
from typing import Annotated, Final, NamedTuple
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.paging import Cursor, Listing, no_cursor, seal
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
from scheduler_service.api.schemas import Instant, ScheduleStateName
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError, Invalid, NotFound
from scheduler_service.domain.ids import HOUR_MS, MAX_DUE, ClientId, RowKey, ScheduleId, UnixMillis, minute_start
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.reconciliations import (
    Action,
    ReconciledSchedule,
    Reconciliation,
    ReconciliationId,
    ReconciliationState,
    Seen,
)
from scheduler_service.domain.schedule_filters import ScheduleFilter
from scheduler_service.usecases.reconciliations import ReconciliationRequest

_RECONCILIATIONS = "/v1/clients/{client_id}/reconciliations"
_RECONCILIATION = _RECONCILIATIONS + "/{reconciliation_id}"
_REQUEST = Body(ReconciliationRequest)

MAX_RECONCILIATIONS: Final = 100
MAX_RECONCILED: Final = 1_000


class ReconciliationProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the window was examined: all minutes before `through`, and a part of that one."""

    minutes_done: int
    minutes_total: int
    through: Instant


class ReconciledHour(msgspec.Struct, frozen=True, kw_only=True):
    """How many of the schedules seen are due in one hour."""

    hour: Instant
    schedules: int


class FilterView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The filters that were given."""

    label: list[str] = []
    cron_id: str | None = None
    destination: str | None = None
    host: str | None = None
    key_prefix: str | None = None


class ReconciliationView(msgspec.Struct, frozen=True, kw_only=True):
    """One action on all schedules due from `from` to before `to` that are in one of `states` and match all `filters`,
    each examined once.

    `seen` counts the matching schedules so far by the state in which they were found, `outcomes` the same ones by
    result. counted: the action was report. redelivered, cancelled, skipped: by this reconciliation or by another one
    since. open: it had been redelivered otherwise and has not ended. in-flight: a node had claimed it. changed: its
    state had changed. gone: it was deleted. refused: it can't be handled.

    Of a report, and of one that skips, `hours` counts the same schedules by the hour of their due, and `samples` are
    the first of them.
    """

    reconciliation_id: UUID
    client_id: str
    action: Annotated[str, Meta(extra_json_schema={"enum": list(Action)})]
    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    states: list[ScheduleStateName]
    filters: FilterView
    state: Annotated[str, Meta(extra_json_schema={"enum": list(ReconciliationState)})]
    progress: ReconciliationProgress
    seen: dict[str, int]
    outcomes: Annotated[dict[str, int], Meta(extra_json_schema={"propertyNames": {"enum": list(Seen)}})]
    hours: list[ReconciledHour]
    samples: list[UUID]
    created_at: Instant
    created_by: str
    updated_at: Instant


class ReconciledScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """What a reconciliation did to one schedule, in the words of its `outcomes`. `reason`, where it left it alone: the
    state that it was in, `rescheduled`, `in-doubt`, or what made it impossible."""

    schedule_id: UUID
    due: Instant
    outcome: Annotated[str, Meta(extra_json_schema={"enum": list(Seen)})]
    reason: str | None


class _Cursor(Cursor, frozen=True, tag="reconciliations-1"):
    before: UUID


class ReconciledCursor(Cursor, frozen=True, tag="reconciled-1"):
    reconciliation_id: UUID
    outcome: Seen | None
    due: Annotated[int, Meta(ge=0, le=MAX_DUE)]
    schedule_id: ScheduleId


_LISTING: Final = Listing(_Cursor, most=MAX_RECONCILIATIONS)
RECONCILIATION_PARAMETERS: Final = _LISTING.parameters
_RECONCILED: Final = Listing(ReconciledCursor, most=MAX_RECONCILED)
_OUTCOME: Final = choice_parameter("outcome", "List only schedules with this outcome.", Seen, list(Seen))
RECONCILED_PARAMETERS: Final = (_OUTCOME, *_RECONCILED.parameters)


class ReconciliationsQuery(NamedTuple):
    """At most `limit` reconciliations older than `before` (None: from the newest on)."""

    before: ReconciliationId | None
    limit: int


def read_reconciliation_listing(client_id: ClientId, query: Mapping[str, str]) -> ReconciliationsQuery:
    """Raises Invalid."""
    cursor, limit = _LISTING.read(client_id, query)
    return ReconciliationsQuery(None if cursor is None else ReconciliationId(cursor.before), limit)


class ReconciledQuery(NamedTuple):
    """At most `limit` schedules with this outcome (None: any) after `after` (None: from the first on)."""

    outcome: Seen | None
    after: RowKey | None
    limit: int


def read_reconciled_listing(
    client_id: ClientId, reconciliation_id: ReconciliationId, query: Mapping[str, str]
) -> ReconciledQuery:
    """Raises Invalid."""
    faults: list[FieldError] = []
    outcome = _OUTCOME.of(query, faults)
    try:
        cursor, limit = _RECONCILED.read(client_id, query)
    except Invalid as invalid:
        raise Invalid([*faults, *invalid.errors]) from None
    if faults:
        raise Invalid(faults)
    if cursor is None:
        return ReconciledQuery(outcome, None, limit)
    if cursor.reconciliation_id != reconciliation_id:
        raise no_cursor()
    if outcome not in (None, cursor.outcome):
        raise Invalid([FieldError("/outcome", "differs from the list that the cursor continues; leave it out")])
    return ReconciledQuery(cursor.outcome, RowKey(UnixMillis(cursor.due), cursor.schedule_id), limit)


def reconciled_cursor(
    client_id: ClientId, reconciliation_id: ReconciliationId, asked: ReconciledQuery, following: RowKey | None
) -> str | None:
    if following is None:
        return None
    return seal(client_id, ReconciledCursor(reconciliation_id, asked.outcome, following.due, following.schedule_id))


def reconciled_schedule_view(handled: ReconciledSchedule) -> ReconciledScheduleView:
    return ReconciledScheduleView(
        schedule_id=handled.schedule_id,
        due=format_instant(handled.due),
        outcome=handled.outcome.value,
        reason=handled.reason,
    )


def reconciliation_cursor(client_id: ClientId, before: ReconciliationId | None) -> str | None:
    return None if before is None else seal(client_id, _Cursor(before))


def reconciliation_view(reconciliation: Reconciliation) -> ReconciliationView:
    progress = reconciliation.progress
    through = min(minute_start(progress.minute), reconciliation.end)
    return ReconciliationView(
        reconciliation_id=reconciliation.reconciliation_id,
        client_id=reconciliation.client_id,
        action=reconciliation.action.value,
        start=format_instant(reconciliation.start),
        end=format_instant(reconciliation.end),
        states=[state.value for state in reconciliation.states],
        filters=_filter_view(reconciliation.filter),
        state=reconciliation.state.value,
        progress=ReconciliationProgress(
            minutes_done=reconciliation.minutes_done,
            minutes_total=reconciliation.minutes_total,
            through=format_instant(through),
        ),
        seen={state.value: count for state, count in progress.seen.items()},
        outcomes={outcome.value: count for outcome, count in progress.outcomes.items()},
        hours=[
            ReconciledHour(hour=format_instant(hour * HOUR_MS), schedules=count)
            for hour, count in sorted(progress.hours.items())
        ],
        samples=list(progress.samples),
        created_at=format_instant(reconciliation.created_at),
        created_by=reconciliation.created_by,
        updated_at=format_instant(reconciliation.updated_at),
    )


def _filter_view(filter_: ScheduleFilter) -> FilterView:
    return FilterView(
        label=list(filter_.labels),
        cron_id=filter_.cron_id,
        destination=filter_.destination,
        host=filter_.host,
        key_prefix=filter_.key_prefix,
    )


async def create_reconciliation(context: RequestContext) -> web.Response:
    client, requests = context.client, context.services.reconciliations.request
    requests.admit(client)
    data = await context.read()
    request, replayed = _REQUEST.decode(data, requests.faults), False
    keyed = keyed_of(context, request)
    created_by = context.principal.name if context.principal is not None else client.client_id
    if keyed is None:
        made = await requests.create(client, request, reconciliation_id=requests.new_id(), created_by=created_by)
    else:
        made, replayed = await requests.create_once(client, request, keyed, created_by=created_by)
    context.record(reconciliation_id=str(made.reconciliation_id))
    if replayed:
        return json_response(reconciliation_view(made), headers=REPLAYED)
    location = f"/v1/clients/{client.client_id}/reconciliations/{made.reconciliation_id}"
    return json_response(reconciliation_view(made), status=202, headers={"Location": location})


async def get_reconciliation(context: RequestContext) -> web.Response:
    found = await context.services.reconciliations.show.one(context.client.client_id, _reconciliation_id(context))
    return json_response(reconciliation_view(found))


async def list_reconciliations(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    asked = read_reconciliation_listing(client_id, context.query())
    page = await context.services.reconciliations.show.page(client_id, before=asked.before, limit=asked.limit)
    views = [reconciliation_view(one) for one in page.items]
    return json_response(Items(views, reconciliation_cursor(client_id, page.next)))


async def list_reconciled_schedules(context: RequestContext) -> web.Response:
    client_id, reconciliation_id = context.client.client_id, _reconciliation_id(context)
    asked = read_reconciled_listing(client_id, reconciliation_id, context.query())
    page = await context.services.reconciliations.show.schedules(
        client_id,
        reconciliation_id,
        after=asked.after,
        limit=asked.limit,
        outcome=asked.outcome,
        has_read=context.has_read,
    )
    cursor = reconciled_cursor(client_id, reconciliation_id, asked, page.next)
    return json_response(Items([reconciled_schedule_view(one) for one in page.items], cursor))


async def stop_reconciliation(context: RequestContext) -> web.Response:
    reconciliation_id = _reconciliation_id(context)
    await context.no_body()
    stopped = await context.services.reconciliations.request.stop(context.client.client_id, reconciliation_id)
    context.record(state=stopped.state)
    return json_response(reconciliation_view(stopped))


def _reconciliation_id(context: RequestContext) -> ReconciliationId:
    """The id in the path. A text that is no UUID is 404, like an unknown id."""
    text = context.path("reconciliation_id")
    try:
        value = UUID(text)
    except ValueError:
        value = None
    if value is None or str(value) != text.lower():
        raise NotFound("this client has no reconciliation of that id")
    return ReconciliationId(value)


ROUTES = (
    Route(
        method="POST",
        path=_RECONCILIATIONS,
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=create_reconciliation,
        summary="Count, redeliver, cancel or skip all schedules of a window that match, in the background",
        request=ReconciliationRequest,
        response=ReconciliationView,
        status=202,
        headers=LOCATION,
        others={200: ReconciliationView},
        idempotent=True,
        problems=(*CREATES, "too-many-reconciliations"),
        cost=10,
    ),
    Route(
        method="GET",
        path=_RECONCILIATION,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_reconciliation,
        summary="Show a reconciliation: its progress and its results",
        response=ReconciliationView,
    ),
    Route(
        method="GET",
        path=_RECONCILIATIONS,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_reconciliations,
        summary="List reconciliations, newest first",
        query=RECONCILIATION_PARAMETERS,
        response=Items[ReconciliationView],
        cost=2,
    ),
    Route(
        method="GET",
        path=_RECONCILIATION + "/schedules",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_reconciled_schedules,
        summary="List the schedules that a reconciliation redelivered, cancelled or skipped, and those that it left "
        "alone, with the reason; a report does nothing, and lists none",
        query=RECONCILED_PARAMETERS,
        response=Items[ReconciledScheduleView],
        cost=4,
        reads_much=True,
    ),
    Route(
        method="POST",
        path=_RECONCILIATION + ":stop",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=stop_reconciliation,
        summary="Stop a reconciliation; what it has done is not undone",
        request=NoRequest,
        response=ReconciliationView,
        problems=("reconciliation-finished",),
    ),
)
