"""Schedules by the client's own key: put, show, cancel."""

from typing import Final

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.preconditions import ETAG, precondition_of
from scheduler_service.api.http.route import CREATES, LOCATION, RequestContext, Route, json_response
from scheduler_service.api.minute_load import MINUTE_LOAD_HEADERS
from scheduler_service.api.once import ONCE, ONCE_HEADERS, ONCE_REFUSED, once_of, told
from scheduler_service.api.rate_limit import RATE_HEADERS, RATED
from scheduler_service.api.resources.schedule_views import schedule_view
from scheduler_service.api.resources.schedules import ONE, put_under_key, refused, state_of, tag_of
from scheduler_service.api.schemas import ScheduleView
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError, Invalid, NotFound
from scheduler_service.domain.schedule_keys import check_key
from scheduler_service.usecases.cancel_schedules import Cancelled, NoSuchSchedule
from scheduler_service.usecases.schedule_request import ScheduleRequest

_BY_KEY: Final = "/v1/clients/{client_id}/schedules/by-key/{schedule_key}"


def _key_of(context: RequestContext) -> str:
    """The key in the path. One that can't be put names nothing."""
    key = context.path("schedule_key")
    if check_key(key):
        raise _no_such_key()
    return key


def _no_such_key() -> NotFound:
    return NotFound("this client has no schedule under that key")


async def put_schedule(context: RequestContext) -> web.Response:
    client, create, key = context.client, context.services.schedules.create, context.path("schedule_key")
    create.admit(client)
    precondition, once = precondition_of(context.request), await once_of(context)
    rate = {**context.services.rate_limit.take(client), **told(context)}
    data = await context.read()
    request = ONE.decode(data, lambda wrong: _faults(context, wrong))
    if check_key(key) or request.key not in (None, key):
        raise Invalid(_faults(context, request))
    request = msgspec.structs.replace(request, key=key)
    return await put_under_key(context, request, data, headers=rate, once=once, precondition=precondition)


def _faults(context: RequestContext, request: ScheduleRequest) -> list[FieldError]:
    key = context.path("schedule_key")
    faults = check_key(key)
    if request.key not in (None, key):
        faults.append(FieldError("/key", "is another key than that of the path; leave it out"))
    judged = msgspec.structs.replace(request, key=key)
    return [*faults, *context.services.schedules.create.faults(context.client, judged)]


async def get_schedule_by_key(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    found = await context.services.schedules.by_key.show(client_id, _key_of(context))
    if found is None:
        raise _no_such_key()
    view = schedule_view(client_id, found.row, context.services.encryption, in_flight=found.in_flight)
    return json_response(view, headers=tag_of(found.row))


async def cancel_schedule_by_key(context: RequestContext) -> web.Response:
    client_id, key = context.client.client_id, _key_of(context)
    precondition = precondition_of(context.request)
    match await context.services.schedules.by_key.cancel(client_id, key, precondition=precondition):
        case Cancelled(row=row):
            context.record(schedule_id=str(row.schedule_id), state=state_of(row))
            view = schedule_view(client_id, row, context.services.encryption, in_flight=False)
            return json_response(view, headers=tag_of(row))
        case NoSuchSchedule():
            raise _no_such_key()
        case refusal:
            raise refused(refusal)


ROUTES = (
    Route(
        method="PUT",
        path=_BY_KEY,
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=put_schedule,
        summary="Create a schedule under the client's own key (201), or replace the one that waits under it (200): "
        "only the last one is called",
        request=ScheduleRequest,
        response=ScheduleView,
        status=201,
        query=(ONCE,),
        headers={**LOCATION, **ETAG, **RATE_HEADERS, **ONCE_HEADERS, **MINUTE_LOAD_HEADERS},
        others={200: ScheduleView},
        idempotent=True,
        conditional=True,
        problems=(*CREATES, *RATED, ONCE_REFUSED, "in-flight", "in-doubt", "older-nodes"),
        cost=1,
    ),
    Route(
        method="GET",
        path=_BY_KEY,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_schedule_by_key,
        summary="Look at the schedule that a key names",
        response=ScheduleView,
        headers=ETAG,
    ),
    Route(
        method="DELETE",
        path=_BY_KEY,
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=cancel_schedule_by_key,
        summary="Cancel the schedule that a key names",
        response=ScheduleView,
        headers=ETAG,
        conditional=True,
        problems=("in-flight", "already-finished"),
        cost=2,
    ),
)
