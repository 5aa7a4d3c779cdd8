"""Schedules: create one or many, show one, cancel one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec
from aiohttp import web

from membership.errors import MinutehandError
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.preconditions import ETAG, etag_header, precondition_of
from scheduler_service.api.http.route import (
    CREATES,
    IDEMPOTENCY_KEY,
    LOCATION,
    REPLAYED,
    RequestContext,
    Route,
    json_response,
    key_of,
    keyed_of,
)
from scheduler_service.api.minute_load import MINUTE_LOAD_HEADERS, fullest_load, minute_load
from scheduler_service.api.once import ONCE, ONCE_HEADERS, ONCE_REFUSED, ids_of, once_of, told
from scheduler_service.api.pieces import LARGE
from scheduler_service.api.problems import MAX_FAULTS, problem_of
from scheduler_service.api.rate_limit import RATE_HEADERS, RATED
from scheduler_service.api.resources.schedule_views import created_schedule_view, schedule_view
from scheduler_service.api.schemas import (
    MAX_BATCH,
    MAX_BATCH_FAULTS,
    BatchEnvelope,
    BatchItemView,
    BatchRequest,
    BatchView,
    ScheduleView,
)
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.errors import Conflict, FieldError, Invalid, NotFound
from scheduler_service.domain.ids import ScheduleId, is_schedule_id
from scheduler_service.domain.once import Once
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.domain.revisions import entity_tag
from scheduler_service.domain.schedules import Definition, Row, State
from scheduler_service.usecases.cancel_schedules import (
    AlreadyFinished,
    Cancelled,
    InDoubt,
    InFlight,
    NoSuchSchedule,
    WasRescheduled,
)
from scheduler_service.usecases.create_schedules import PIECE, Created
from scheduler_service.usecases.idempotency import Made
from scheduler_service.usecases.resolve_schedule import Resolved
from scheduler_service.usecases.schedule_keys import Put, PutResult, Unchanged
from scheduler_service.usecases.schedule_request import ScheduleRequest

SCHEDULES: Final = "/v1/clients/{client_id}/schedules"
ONE = Body(ScheduleRequest)
_BATCH = Body(BatchRequest)
_ENVELOPE = Body(BatchEnvelope)


async def create_schedule(context: RequestContext) -> web.Response:
    client, create = context.client, context.services.schedules.create
    create.admit(client)
    once = await once_of(context)
    rate = {**context.services.rate_limit.take(client), **told(context)}
    if IDEMPOTENCY_KEY in context.request.headers:
        return await _create_under_key(context, rate)
    data = await context.read()
    request = ONE.decode(data, lambda wrong: create.faults(client, wrong))
    if request.key is not None:
        return await put_under_key(context, request, data, once=once, headers=rate)
    definition = await create.one(client, request, once=ids_of(context, once, data))
    context.record(schedule_id=str(definition.schedule_id))
    load = minute_load(context.services, client, definition.due)
    headers = {**location_of(client, definition.schedule_id), **rate, **load}
    return json_response(created_schedule_view(definition, context.services.encryption), status=201, headers=headers)


async def _create_under_key(context: RequestContext, rate: Mapping[str, str]) -> web.Response:
    client, create = context.client, context.services.schedules.create
    data = await context.read()
    key_of(context)
    request = ONE.decode(data, lambda wrong: create.faults(client, wrong))
    if request.key is not None:
        return await put_under_key(context, request, data, headers=rate)
    keyed = keyed_of(context, request)
    assert keyed is not None
    once = await context.services.schedules.idempotently.create(client, [request], keyed)
    (made,) = once.items
    if isinstance(made, MinutehandError):
        raise made
    context.record(schedule_id=str(made.schedule_id if isinstance(made, Definition) else made.row.schedule_id))
    if isinstance(made, Definition):
        load = minute_load(context.services, client, made.due)
        headers = {**location_of(client, made.schedule_id), **rate, **load}
        return json_response(created_schedule_view(made, context.services.encryption), status=201, headers=headers)
    view = schedule_view(client.client_id, made.row, context.services.encryption, in_flight=made.in_flight)
    return json_response(view, headers={**REPLAYED, **rate})


async def put_under_key(
    context: RequestContext,
    request: ScheduleRequest,
    data: bytes,
    *,
    headers: Mapping[str, str],
    once: Once | None = None,
    precondition: Precondition = NO_PRECONDITION,
) -> web.Response:
    """Put a schedule under the client's own key, and answer. `data`: the body that `request` was decoded from."""
    client, services = context.client, context.services.schedules
    keyed, replayed = keyed_of(context, request), False
    if keyed is not None:
        result, replayed = await services.idempotently.put(client, request, keyed, precondition=precondition)
    else:
        ids = ids_of(context, once, data)
        chosen = None if ids is None else await services.create.chosen(client, request, ids)
        result = await services.by_key.put(client, request, precondition=precondition, chosen=chosen)
    made = _made(result)
    if isinstance(made, MinutehandError):
        raise made
    schedule_id = made.schedule_id if isinstance(made, Definition) else made.row.schedule_id
    context.record(schedule_id=str(schedule_id))
    again = REPLAYED if replayed else {}
    tag = etag_header(schedule_id) if isinstance(made, Definition) else tag_of(made.row)
    headers = {**headers, **location_of(client, schedule_id), **tag, **again}
    if isinstance(made, Definition):
        status = 200 if replayed or (isinstance(result, Put) and result.replaced) else 201
        view = created_schedule_view(made, context.services.encryption)
        load = minute_load(context.services, client, made.due)
        return json_response(view, status=status, headers={**headers, **load})
    view = schedule_view(client.client_id, made.row, context.services.encryption, in_flight=made.in_flight)
    return json_response(view, headers=headers)


def _made(result: Created | PutResult) -> Made:
    match result:
        case Put(definition=definition):
            return definition
        case Unchanged(present=present):
            return present
        case InFlight() | InDoubt():
            return refused(result)
        case _:
            return result


def _without_key(request: ScheduleRequest | Invalid) -> ScheduleRequest | Invalid:
    if isinstance(request, Invalid) or request.key is None:
        return request
    return Invalid([FieldError("/key", "can't be given in a batch under an Idempotency-Key: put it alone, or without")])


async def create_batch(context: RequestContext) -> web.Response:
    client, create = context.client, context.services.schedules.create
    create.admit(client)
    once, header = await once_of(context), told(context)
    data = await context.read()
    key_of(context)
    batch = _BATCH.decode_if_right(data)
    unread = _ENVELOPE.decode(data).items if batch is None else ()
    # An invalid or long batch is counted by its envelope, so that one beyond the rate is refused undecoded.
    rate = {**context.services.rate_limit.take(client, len(unread if batch is None else batch.items)), **header}
    requests = await _items(context, unread) if batch is None else batch.items
    if IDEMPOTENCY_KEY in context.request.headers:
        # Items that can't be decoded count byte for byte.
        asked = (bytes(unread[at]) if isinstance(one, Invalid) else one for at, one in enumerate(requests))
        keyed = keyed_of(context, *asked)
        assert keyed is not None
        requests = [_without_key(request) for request in requests]
        kept = await context.services.schedules.idempotently.create(client, requests, keyed)
        context.record(created=_created(kept.items))
        view = await _batch_view(context, kept.items)
        load = _load_of(context, kept.items)
        return json_response(view, headers={**rate, **load, **(REPLAYED if kept.replayed else {})})
    ids = ids_of(context, once, data)
    if any(isinstance(request, ScheduleRequest) and request.key is not None for request in requests):
        created = [_made(answer) for answer in await context.services.schedules.by_key.many(client, requests, once=ids)]
    else:
        created = [*await create.many(client, requests, once=ids)]
    context.record(created=_created(created))
    return json_response(await _batch_view(context, created), headers={**rate, **_load_of(context, created)})


def _load_of(context: RequestContext, made: Iterable[Made]) -> Mapping[str, str]:
    dues = (one.due for one in made if isinstance(one, Definition))
    return fullest_load(context.services, context.client, dues)


async def get_schedule(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    resolved = await context.services.schedules.resolve(
        client_id, schedule_id_of(context), consistency=context.client.settings.read_consistency
    )
    if resolved is None:
        raise no_such_schedule()
    return json_response(
        schedule_view(client_id, resolved.row, context.services.encryption, in_flight=resolved.in_flight),
        headers=tag_of(resolved.row),
    )


async def cancel_schedule(context: RequestContext) -> web.Response:
    client_id, precondition = context.client.client_id, precondition_of(context.request)
    match await context.services.schedules.cancel.one(client_id, schedule_id_of(context), precondition=precondition):
        case Cancelled(row=row):
            context.record(state=state_of(row))
            view = schedule_view(client_id, row, context.services.encryption, in_flight=False)
            return json_response(view, headers=tag_of(row))
        case refusal:
            raise refused(refusal)


async def _items(context: RequestContext, items: Sequence[msgspec.Raw]) -> list[ScheduleRequest | Invalid]:
    """The items, decoded in pieces; item by item where a piece is not all valid. Yields to other requests between."""
    listing = _Listing()
    requests: list[ScheduleRequest | Invalid] = []
    for start in range(0, len(items), PIECE):
        if start:
            await context.services.clock.sleep(0)
        piece = items[start : start + PIECE]
        if (together := ONE.decode_together(piece)) is not None:
            requests += together
            continue
        for item in piece:
            if len(item) > LARGE:
                await context.services.clock.sleep(0)
            request = _item(context, item, most=listing.most)
            if isinstance(request, Invalid):
                listing.listed(request.errors)
            requests.append(request)
    return requests


def _item(context: RequestContext, item: msgspec.Raw, *, most: int) -> ScheduleRequest | Invalid:
    client, create = context.client, context.services.schedules.create
    try:
        return ONE.decode(bytes(item), lambda wrong: create.faults(client, wrong), most=most)
    except Invalid as invalid:
        return invalid


def _created(items: Sequence[Made]) -> int:
    return sum(not isinstance(item, MinutehandError) for item in items)


class _Listing:
    """How many faults an item of a batch may still list. Each lists its first."""

    def __init__(self) -> None:
        self._left = MAX_BATCH_FAULTS

    @property
    def most(self) -> int:
        return max(min(self._left, MAX_FAULTS), 1)

    def listed(self, faults: Sequence[object]) -> None:
        self._left -= len(faults)


async def _batch_view(context: RequestContext, items: Sequence[Made]) -> BatchView:
    listing, encryption = _Listing(), context.services.encryption
    views: list[BatchItemView] = []
    for start in range(0, len(items), PIECE):
        if start:
            await context.services.clock.sleep(0)
        views += [
            BatchItemView(201, schedule=created_schedule_view(item, encryption))
            if isinstance(item, Definition)
            else _item_view(context, item, listing)
            for item in items[start : start + PIECE]
        ]
    return BatchView(views)


def _item_view(context: RequestContext, item: Resolved | MinutehandError, listing: _Listing) -> BatchItemView:
    if isinstance(item, Resolved):
        view = schedule_view(context.client.client_id, item.row, context.services.encryption, in_flight=item.in_flight)
        return BatchItemView(201, schedule=view)
    problem = problem_of(item, request_id=context.request_id, most=listing.most)
    listing.listed(problem.errors)
    return BatchItemView(problem.status, problem=problem)


def schedule_id_of(context: RequestContext) -> ScheduleId:
    """The id in the path. A text that can't be a schedule's id is 404, like an unknown one."""
    text = context.path("schedule_id")
    try:
        value = UUID(text)
    except ValueError:
        raise no_such_schedule() from None
    if str(value) != text.lower() or not is_schedule_id(value):
        raise no_such_schedule()
    return ScheduleId(value)


def location_of(client: Client, schedule_id: UUID) -> dict[str, str]:
    """The Location header of a schedule."""
    return {"Location": f"/v1/clients/{client.client_id}/schedules/{schedule_id}"}


def tag_of(row: Row) -> dict[str, str]:
    """The ETag header of a schedule, which changes when it is updated."""
    return etag_header(entity_tag(row.schedule_id, row.revision))


def no_such_schedule() -> NotFound:
    return NotFound("this client has no schedule of that id")


def refused(why: InFlight | InDoubt | WasRescheduled | AlreadyFinished | NoSuchSchedule) -> Conflict | NotFound:
    """The error for a schedule that could be neither cancelled nor rescheduled."""
    match why:
        case InFlight(row=row):
            detail = "a node has claimed it and may be calling right now"
            if row.shown_state is State.AWAITING:
                detail = "its receiver has taken the call, and is at work or has said that it is done"
            return Conflict("in-flight", detail, state=state_of(row))
        case InDoubt(row=row):
            return Conflict("in-doubt", "it may have been called, and will be called again", state=state_of(row))
        case WasRescheduled(row=row):
            detail = f"it was rescheduled: {row.rescheduled_to} is called instead"
            return Conflict("rescheduled", detail, state=state_of(row), rescheduled_to=row.rescheduled_to)
        case AlreadyFinished(row=row):
            return Conflict("already-finished", f"it has already ended: {state_of(row)}", state=state_of(row))
        case NoSuchSchedule():
            return no_such_schedule()


def state_of(row: Row) -> str:
    return row.shown_state.value


CREATE = Route(
    method="POST",
    path=SCHEDULES,
    access=Access.CLIENT,
    scope=Scope.WRITE,
    handler=create_schedule,
    summary="Create a schedule",
    request=ScheduleRequest,
    response=ScheduleView,
    status=201,
    query=(ONCE,),
    headers={**LOCATION, **RATE_HEADERS, **ONCE_HEADERS, **MINUTE_LOAD_HEADERS},
    others={200: ScheduleView},
    idempotent=True,
    problems=(*CREATES, *RATED, ONCE_REFUSED, "older-nodes"),
    cost=0,
)
"""`api.plain_creates` answers most of its requests."""

ROUTES = (
    CREATE,
    Route(
        method="GET",
        path=SCHEDULES + "/{schedule_id}",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_schedule,
        summary="Show a schedule",
        response=ScheduleView,
        headers=ETAG,
    ),
    Route(
        method="DELETE",
        path=SCHEDULES + "/{schedule_id}",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=cancel_schedule,
        summary="Cancel a schedule: once this is answered 200, the receiver is not called. With reason in-doubt it may "
        "have been called before",
        response=ScheduleView,
        headers=ETAG,
        conditional=True,
        problems=("in-flight", "rescheduled", "already-finished"),
        cost=2,
    ),
    Route(
        method="POST",
        path=SCHEDULES + ":batch",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=create_batch,
        summary=f"Create up to {MAX_BATCH} schedules independently",
        request=BatchRequest,
        response=BatchView,
        query=(ONCE,),
        headers={**RATE_HEADERS, **ONCE_HEADERS, **MINUTE_LOAD_HEADERS},
        idempotent=True,
        problems=(*CREATES, *RATED, ONCE_REFUSED, "older-nodes"),
        cost=0,
    ),
)
