"""Further operations on existing schedules: list attempts, redeliver, update, run, reschedule, cancel many."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.preconditions import ETAG, precondition_of
from scheduler_service.api.http.query import CursorText
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
from scheduler_service.api.resources.schedule_filters import FilterFields, as_query
from scheduler_service.api.resources.schedule_listings import MAX_LIMIT, Query, read_listing, schedule_cursor
from scheduler_service.api.resources.schedule_views import AttemptView, attempt_view, request_view, schedule_view
from scheduler_service.api.resources.schedules import (
    SCHEDULES,
    location_of,
    no_such_schedule,
    refused,
    schedule_id_of,
    state_of,
    tag_of,
)
from scheduler_service.api.schemas import CallbackView, ScheduleView
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import Conflict, FieldError, Invalid
from scheduler_service.domain.ids import ClientId, ScheduleId, is_schedule_id
from scheduler_service.domain.reconciliations import HANDLED, Action
from scheduler_service.domain.schedules import State
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    BeingRetried,
    Cancelled,
    CancelOutcome,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.redeliver import (
    EndedOtherwise,
    RedeliveredBefore,
    Redelivering,
    StillOpen,
    WasCancelled,
)
from scheduler_service.usecases.reschedule_schedule import (
    Change,
    Rescheduled,
    RescheduleRequest,
    Unchanged,
    Updated,
)
from scheduler_service.usecases.schedule_update import UpdateRequest

_SCHEDULE = SCHEDULES + "/{schedule_id}"
_CHANGES: Final = (*CREATES, *RATED, "in-flight", "in-doubt", "rescheduled", "already-finished")
"""How a change of a waiting schedule is refused."""
CANCELS_PER_UNIT: Final = 3
"""If each is in a partition of its own; within few partitions a cancel costs a third of that."""

MAX_CANCELS = 1000


class CancelRequest(FilterFields, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Either ids, or a window by due with the filters of a listing: then every schedule in it that has not ended is
    cancelled, except those rescheduled to an instant outside the window. A cursor contains its window. `state` is
    scheduled or retrying; left out: both. A list of states or labels means any of them."""

    schedule_ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_CANCELS)] | None = None
    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)
    cursor: CursorText | None = None


_CANCEL = Body(CancelRequest)
_RESCHEDULE = Body(RescheduleRequest)
_UPDATE = Body(UpdateRequest)
_NOW: Final = RescheduleRequest(delay_seconds=0)


class CancelItemView(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result for one schedule. `status`: 200 cancelled; 404 not found; 409 in flight, or ended otherwise (`state`
    says how); 503 unknown, retry.

    `reason` in-doubt with 200: it is not called again, and may have been called before. `rescheduled_to` with 409: the
    schedule that is called instead of a cancelled one; this request does not cancel it.
    """

    schedule_id: str
    status: int
    state: str | None
    reason: str | None = None
    rescheduled_to: UUID | None = None


def read_cancel(client_id: ClientId, request: CancelRequest, *, now: int) -> Query | None:
    """The window to cancel; None: the request gives ids. Raises Invalid."""
    query = as_query({name: value for name, value in msgspec.to_builtins(request).items() if name != "schedule_ids"})
    if request.schedule_ids is not None:
        faults = [FieldError(f"/{name}", "can't be given together with schedule_ids") for name in dict.fromkeys(query)]
        if faults:
            raise Invalid(faults)
        return None
    faults = [
        FieldError(f"/{name}", "is required without schedule_ids")
        for name in ("from", "to")
        if name not in query and "cursor" not in query
    ]
    if any(State(text).ended for text in query.getall("state", ())):
        faults.append(FieldError("/state", "must be scheduled or retrying: what has ended can't be cancelled"))
    try:
        asked = read_listing(client_id, query, now=now)
    except Invalid as invalid:
        known = {fault.pointer for fault in faults}
        raise Invalid([*faults, *(fault for fault in invalid.errors if fault.pointer not in known)]) from None
    if faults:
        raise Invalid(faults)
    states = asked.window.filter.states or HANDLED[Action.CANCEL]
    filter_ = msgspec.structs.replace(asked.window.filter, states=states)
    return asked._replace(window=replace(asked.window, filter=filter_), limit=MAX_LIMIT)


def _cancel_faults(client_id: ClientId, request: CancelRequest, *, now: int) -> Sequence[FieldError]:
    try:
        read_cancel(client_id, request, now=now)
    except Invalid as invalid:
        return invalid.errors
    return ()


def known_ids(texts: Sequence[str]) -> dict[str, ScheduleId]:
    """The texts that can be schedules' ids, parsed."""
    found: dict[str, ScheduleId] = {}
    for text in texts:
        try:
            value = UUID(text)
        except ValueError:
            continue
        if str(value) == text.lower() and is_schedule_id(value):
            found[text] = ScheduleId(value)
    return found


def cancel_item(
    text: str, schedule_id: ScheduleId | None, outcomes: Mapping[ScheduleId, CancelOutcome]
) -> CancelItemView:
    match NoSuchSchedule() if schedule_id is None else outcomes[schedule_id]:
        case Cancelled(row=row):
            return CancelItemView(text, 200, State.CANCELLED.value, reason=row.reason)
        case WasRescheduled(row=row):
            return CancelItemView(text, 409, State.CANCELLED.value, rescheduled_to=row.rescheduled_to)
        case InFlight(row=row) | InDoubt(row=row) | AlreadyFinished(row=row) | BeingRetried(row=row):
            return CancelItemView(text, 409, row.shown_state.value)
        case NoSuchSchedule():
            return CancelItemView(text, 404, None)
        case _:
            return CancelItemView(text, 503, None)


async def list_attempts(context: RequestContext) -> web.Response:
    attempts = await context.services.schedules.attempts(context.client.client_id, schedule_id_of(context))
    return json_response(Items([attempt_view(attempt) for attempt in attempts]))


async def cancel_schedules(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    now = context.services.clock.wall_ms()
    request = await context.body(_CANCEL, lambda wrong: _cancel_faults(client_id, wrong, now=now))
    asked = read_cancel(client_id, request, now=now)
    cursor = None
    if asked is None:
        texts: Sequence[str] = request.schedule_ids or ()
    else:
        found = await context.services.schedules.list.lean(
            asked.window, limit=asked.limit, position=asked.position, has_read=context.has_read
        )
        texts = [str(listed.row.schedule_id) for listed in found.items if not listed.row.ended]
        context.record(start=asked.window.start, end=asked.window.end)
        cursor = schedule_cursor(asked.window, found.next)
    ids = known_ids(texts)
    context.spend(len(ids) / CANCELS_PER_UNIT)
    retrying = asked is None or bool({State.RETRYING, State.AWAITING}.intersection(asked.window.filter.states))
    outcomes = await context.services.schedules.cancel.many(client_id, list(ids.values()), retrying=retrying)
    items = [cancel_item(text, ids.get(text), outcomes) for text in texts]
    context.record(asked=len(items), cancelled=sum(item.status == 200 for item in items))
    return json_response(Items(items, cursor))


async def redeliver_schedule(context: RequestContext) -> web.Response:
    client, schedule_id = context.client, schedule_id_of(context)
    context.services.schedules.create.admit(client)
    await context.no_body()
    keyed, replayed = keyed_of(context), False
    if keyed is None:
        result = await context.services.schedules.redeliver(client, schedule_id)
    else:
        result, replayed = await context.services.schedules.idempotently.redeliver(client, schedule_id, keyed)
    match result:
        case Redelivering(row=row):
            context.record(state=state_of(row))
            view = schedule_view(client.client_id, row, context.services.encryption, in_flight=False)
            return json_response(view, headers=REPLAYED) if replayed else json_response(view, status=202)
        case StillOpen(row=row) | EndedOtherwise(row=row) | RedeliveredBefore(row=row):
            raise Conflict("already-open", f"it has not ended: {state_of(row)}", state=state_of(row))
        case WasCancelled(row=row) if row.rescheduled_to is not None:
            raise refused(WasRescheduled(row))
        case WasCancelled(row=row):
            raise Conflict("cancelled", "it was cancelled, which is final", state=state_of(row))
        case NoSuchSchedule():
            raise no_such_schedule()


async def reschedule_schedule(context: RequestContext) -> web.Response:
    return await _change(context, _RESCHEDULE, status=201)


async def update_schedule(context: RequestContext) -> web.Response:
    return await _change(context, _UPDATE, status=200)


async def run_schedule(context: RequestContext) -> web.Response:
    """The same as a reschedule to now: repeated, it is recognised, so that the schedule is called once."""
    return await _change(context, None, status=201)


async def preview_schedule(context: RequestContext) -> web.Response:
    client, services = context.client, context.services
    await context.no_body()
    known = await services.schedules.resolve(client.client_id, schedule_id_of(context))
    if known is None:
        raise no_such_schedule()
    context.record(state=state_of(known.row))
    if known.row.rescheduled_to is not None:
        raise refused(WasRescheduled(known.row))
    preview = await services.send_trial_call.preview(client, known.row)
    if preview is None:
        raise Conflict("undecodable", "what is stored of this schedule can't be read, so its call would fail")
    return json_response(request_view(preview))


async def _change(context: RequestContext, body: Body[Any] | None, *, status: int) -> web.Response:
    """`body` None: the request has none, and asks for a call now."""
    client, schedule_id, reschedule = context.client, schedule_id_of(context), context.services.schedules.reschedule
    context.services.schedules.create.admit(client)
    precondition = precondition_of(context.request)
    rate = context.services.rate_limit.take(client)
    if body is None:
        await context.no_body()
        request: Change = _NOW
    else:
        request = body.decode(await context.read(), lambda wrong: reschedule.faults(client, wrong))
    keyed, replayed = keyed_of(context, request), False
    if keyed is None:
        result = await reschedule(client, schedule_id, request, precondition=precondition)
    else:
        result, replayed = await context.services.schedules.idempotently.reschedule(
            client, schedule_id, request, keyed, precondition=precondition
        )
    match result:
        case Rescheduled(new=new):
            context.record(schedule_id=str(new.row.schedule_id))
            view = schedule_view(client.client_id, new.row, context.services.encryption, in_flight=new.in_flight)
            headers = {**location_of(client, new.row.schedule_id), **tag_of(new.row), **rate}
            if replayed:
                return json_response(view, headers={**REPLAYED, **headers})
            return json_response(view, status=status, headers=headers)
        case Updated(present=present) | Unchanged(present=present):
            context.record(schedule_id=str(schedule_id))
            view = schedule_view(
                client.client_id, present.row, context.services.encryption, in_flight=present.in_flight
            )
            again = REPLAYED if replayed else {}
            return json_response(
                view, headers={**location_of(client, schedule_id), **tag_of(present.row), **rate, **again}
            )
        case refusal:
            raise refused(refusal)


ROUTES = (
    Route(
        method="PATCH",
        path=_SCHEDULE,
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=update_schedule,
        summary="Change a waiting schedule. It keeps its id; only one that moves, or that was tried or deferred, and a "
        "cron's run go on under the id of their successor, which is answered",
        request=UpdateRequest,
        response=ScheduleView,
        headers={**LOCATION, **ETAG, **RATE_HEADERS},
        idempotent=True,
        conditional=True,
        problems=(*_CHANGES, "secret-locked", "older-nodes"),
        cost=0,
    ),
    Route(
        method="POST",
        path=_SCHEDULE + ":run",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=run_schedule,
        summary="Call a waiting schedule now, instead of at its due",
        request=NoRequest,
        response=ScheduleView,
        status=201,
        headers={**LOCATION, **ETAG, **RATE_HEADERS},
        others={200: ScheduleView},
        idempotent=True,
        conditional=True,
        problems=_CHANGES,
        cost=0,
    ),
    Route(
        method="POST",
        path=_SCHEDULE + ":preview",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=preview_schedule,
        summary="Show the signed request that a call of this schedule would make now; nothing is sent",
        request=NoRequest,
        response=CallbackView,
        problems=("rescheduled", "secret-locked", "undecodable", "destination-deleted"),
    ),
    Route(
        method="POST",
        path=_SCHEDULE + ":reschedule",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=reschedule_schedule,
        summary="Cancel a schedule and create it again at another instant, as one call",
        request=RescheduleRequest,
        response=ScheduleView,
        status=201,
        headers={**LOCATION, **ETAG, **RATE_HEADERS},
        others={200: ScheduleView},
        idempotent=True,
        conditional=True,
        problems=_CHANGES,
        cost=0,
    ),
    Route(
        method="POST",
        path=SCHEDULES + ":cancel",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=cancel_schedules,
        summary=f"Cancel up to {MAX_CANCELS} schedules independently: by id, or all of a window",
        request=CancelRequest,
        response=Items[CancelItemView],
        cost=5,
        reads_much=True,
    ),
    Route(
        method="POST",
        path=_SCHEDULE + ":redeliver",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=redeliver_schedule,
        summary="Redeliver a schedule that was delivered or skipped, or has failed",
        request=NoRequest,
        response=ScheduleView,
        status=202,
        others={200: ScheduleView},
        idempotent=True,
        problems=(*CREATES, "already-open", "cancelled", "rescheduled"),
        cost=2,
    ),
    Route(
        method="GET",
        path=_SCHEDULE + "/attempts",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_attempts,
        summary="List every attempt of a schedule",
        response=Items[AttemptView],
        cost=2,
    ),
)
