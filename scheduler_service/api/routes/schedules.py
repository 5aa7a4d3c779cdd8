"""Schedules: create one or many, look at one, cancel one, list by time."""

from collections.abc import Mapping
from uuid import UUID

import msgspec
from aiohttp import web

from scheduler_service.api.auth import Access
from scheduler_service.api.cursor import encode_cursor
from scheduler_service.api.decoding import Body
from scheduler_service.api.idempotency import IDEMPOTENCY_KEY, REPLAYED, keyed_of
from scheduler_service.api.listing import PARAMETERS, read_listing
from scheduler_service.api.page import Items
from scheduler_service.api.problems import problem_of
from scheduler_service.api.rate_limit import RATE_HEADERS, RATED
from scheduler_service.api.route import CREATES, LOCATION, Call, Route, answer
from scheduler_service.api.schemas import (
    MAX_BATCH,
    BatchEnvelope,
    BatchItemView,
    BatchRequest,
    BatchView,
    ScheduleView,
)
from scheduler_service.api.views import created_schedule_view, schedule_view
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import Conflict, Invalid, MinutehandError, NotFound
from scheduler_service.domain.ids import ScheduleId, is_schedule_id
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.usecases.ask_once import Made
from scheduler_service.usecases.edit_schedule import AlreadyFinished, Cancelled, InFlight, NoSuchSchedule, Resolved
from scheduler_service.usecases.schedule_request import ScheduleRequest

_SCHEDULES = "/v1/clients/{client_id}/schedules"
_ONE = Body(ScheduleRequest)
_BATCH = Body(BatchRequest)
_ENVELOPE = Body(BatchEnvelope)


async def create_schedule(call: Call) -> web.Response:
    client, create = call.tenant, call.services.create_schedules
    create.admit(client)
    rate = call.services.rate_limit.take(client)
    if IDEMPOTENCY_KEY in call.request.headers:
        return await _create_once(call, rate)
    request = await call.body(_ONE, lambda wrong: create.faults(client, wrong))
    definition = await create.one(client, request)
    headers = {**location_of(client, definition.schedule_id), **rate}
    return answer(created_schedule_view(definition), status=201, headers=headers)


async def _create_once(call: Call, rate: Mapping[str, str]) -> web.Response:
    client, create = call.tenant, call.services.create_schedules
    data = await call.read()
    keyed = keyed_of(call, data)
    assert keyed is not None
    request = _ONE.decode(data, lambda wrong: create.faults(client, wrong))
    once = await call.services.ask_once.create(client, [request], keyed)
    (made,) = once.items
    if isinstance(made, MinutehandError):
        raise made
    if isinstance(made, Definition):
        headers = {**location_of(client, made.schedule_id), **rate}
        return answer(created_schedule_view(made), status=201, headers=headers)
    view = schedule_view(client.client_id, made.row, in_flight=made.in_flight)
    return answer(view, headers={**REPLAYED, **rate})


async def create_batch(call: Call) -> web.Response:
    client, create = call.tenant, call.services.create_schedules
    create.admit(client)
    data = await call.read()
    keyed = keyed_of(call, data)
    batch = _BATCH.decode_if_right(data)
    requests: list[ScheduleRequest | Invalid] = []
    if batch is not None:
        requests.extend(batch.items)
    else:
        requests.extend(_item(call, item) for item in _ENVELOPE.decode(data).items)
    rate = call.services.rate_limit.take(client, len(requests))
    if keyed is not None:
        once = await call.services.ask_once.create(client, requests, keyed)
        view = BatchView([_item_view(call, item) for item in once.items])
        return answer(view, headers={**REPLAYED, **rate} if once.replayed else rate)
    created = await create.many(client, requests)
    return answer(BatchView([_item_view(call, item) for item in created]), headers=rate)


async def get_schedule(call: Call) -> web.Response:
    client_id = call.tenant.client_id
    resolved = await call.services.edit_schedule.resolve(
        client_id, schedule_id_of(call), consistency=call.tenant.settings.read_consistency
    )
    if resolved is None:
        raise no_such_schedule()
    return answer(schedule_view(client_id, resolved.row, in_flight=resolved.in_flight))


async def cancel_schedule(call: Call) -> web.Response:
    client_id = call.tenant.client_id
    match await call.services.edit_schedule.cancel(client_id, schedule_id_of(call)):
        case Cancelled(row=row):
            return answer(schedule_view(client_id, row, in_flight=False))
        case InFlight(row=row):
            raise Conflict("in-flight", "a poller has claimed it and may be calling right now", state=state_of(row))
        case AlreadyFinished(row=row):
            raise Conflict("already-finished", f"it has ended before: {state_of(row)}", state=state_of(row))
        case NoSuchSchedule():
            raise no_such_schedule()


async def list_schedules(call: Call) -> web.Response:
    client_id = call.tenant.client_id
    query = call.query()
    asked = read_listing(client_id, query, now=call.services.clock.wall_ms())
    found = await call.services.list_schedules(
        asked.window,
        limit=asked.limit,
        position=asked.position,
        consistency=call.tenant.settings.read_consistency,
    )
    views = [schedule_view(client_id, listed.row, in_flight=listed.in_flight) for listed in found.items]
    cursor = None if found.next is None else encode_cursor(asked.window, found.next)
    return answer(Items(views, cursor))


def _item(call: Call, item: msgspec.Raw) -> ScheduleRequest | Invalid:
    client, create = call.tenant, call.services.create_schedules
    try:
        return _ONE.decode(bytes(item), lambda wrong: create.faults(client, wrong))
    except Invalid as invalid:
        return invalid


def _item_view(call: Call, item: Made) -> BatchItemView:
    if isinstance(item, Definition):
        return BatchItemView(201, schedule=created_schedule_view(item))
    if isinstance(item, Resolved):
        view = schedule_view(call.tenant.client_id, item.row, in_flight=item.in_flight)
        return BatchItemView(201, schedule=view)
    problem = problem_of(item, request_id=call.request_id)
    return BatchItemView(problem.status, problem=problem)


def schedule_id_of(call: Call) -> ScheduleId:
    """The id in the path. One that can't be ours names nothing."""
    text = call.path("schedule_id")
    try:
        value = UUID(text)
    except ValueError:
        raise no_such_schedule() from None
    if str(value) != text.lower() or not is_schedule_id(value):
        raise no_such_schedule()
    return ScheduleId(value)


def location_of(client: Client, schedule_id: UUID) -> dict[str, str]:
    """The header that says where a schedule is."""
    return {"Location": f"/v1/clients/{client.client_id}/schedules/{schedule_id}"}


def no_such_schedule() -> NotFound:
    return NotFound("this client has no schedule of that id")


def state_of(row: Row) -> str:
    return row.state or State.SCHEDULED.value


ROUTES = (
    Route(
        method="POST",
        path=_SCHEDULES,
        access=Access.CLIENT,
        handler=create_schedule,
        summary="Create a schedule",
        request=ScheduleRequest,
        response=ScheduleView,
        status=201,
        headers={**LOCATION, **RATE_HEADERS},
        others={200: ScheduleView},
        idempotent=True,
        problems=(*CREATES, *RATED),
    ),
    Route(
        method="GET",
        path=_SCHEDULES + "/{schedule_id}",
        access=Access.CLIENT,
        handler=get_schedule,
        summary="Look at a schedule",
        response=ScheduleView,
    ),
    Route(
        method="DELETE",
        path=_SCHEDULES + "/{schedule_id}",
        access=Access.CLIENT,
        handler=cancel_schedule,
        summary="Cancel a schedule: once this is answered 200, the receiver is not called",
        response=ScheduleView,
        problems=("in-flight", "already-finished"),
    ),
    Route(
        method="POST",
        path=_SCHEDULES + ":batch",
        access=Access.CLIENT,
        handler=create_batch,
        summary=f"Create up to {MAX_BATCH} schedules, each for itself",
        request=BatchRequest,
        response=BatchView,
        headers=RATE_HEADERS,
        idempotent=True,
        problems=(*CREATES, *RATED),
    ),
    Route(
        method="GET",
        path=_SCHEDULES,
        access=Access.CLIENT,
        handler=list_schedules,
        summary="List schedules by due time, within a window of 24 hours",
        query=PARAMETERS,
        response=Items[ScheduleView],
    ),
)
