"""The routes of BigBen's API: decode, call use cases, answer in its words."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from membership.errors import MinutehandError
from scheduler_service.api.bigben.answers import (
    answer_late,
    answer_remove,
    answer_upsert,
    error_of,
    refusal,
    shown_event,
    status_code,
)
from scheduler_service.api.bigben.events import (
    PAYLOAD_ONLY,
    Event,
    EventRequest,
    EventResponse,
    callback_to,
    full_event,
    key_of,
    named,
    read_event,
    schedule_of,
)
from scheduler_service.api.bigben.processors import MAX_NAME, ProcessorConfig, destination_name, read_config, registered
from scheduler_service.api.bigben.settings import BigBenSettings
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.query import text_parameter
from scheduler_service.api.http.route import RequestContext, Route, json_response
from scheduler_service.api.http.wire import Wire
from scheduler_service.api.pieces import LARGE
from scheduler_service.api.problems import MAX_FAULTS, Refusal
from scheduler_service.api.rate_limit import RATED
from scheduler_service.api.resources.schedule_views import callback_view
from scheduler_service.api.schemas import MAX_BATCH, MAX_BATCH_FAULTS
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import FieldError, Invalid, NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.options import NO_OPTIONS
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.cancel_schedules import CancelResult
from scheduler_service.usecases.create_schedules import PIECE
from scheduler_service.usecases.schedule_request import ScheduleRequest

PREFIX: Final = "/bigben"
RESERVED: Final = 0.25
"""Of a request's time: no further events are begun in it. PIECE of them take a fraction of that."""
REMOVE_COST: Final = 2
"""Units of the request budget that one removal takes, as a cancel by key does."""
_EVENT: Final = Body(EventRequest)
_CONFIG: Final = Body(ProcessorConfig)
_ID: Final = text_parameter("id", "The event's id.")
_TENANT: Final = text_parameter("tenant", "The event's tenant.")
_split: Final = msgspec.json.Decoder(Annotated[list[msgspec.Raw], Meta(max_length=MAX_BATCH)]).decode


def wire(settings: BigBenSettings) -> Wire | None:
    """The wire as it is configured; None: it is off."""
    if settings.client is None:
        return None
    keyless = None if settings.keyless is None else Scope(settings.keyless)
    return Wire(
        name="bigben",
        prefix=PREFIX,
        client_id=ClientId(settings.client),
        keyless=keyless,
        open_to_network=settings.open_to_network,
        refusal=refusal,
    )


class _Echo(msgspec.Struct, frozen=True, rename="camel"):
    """What can be repeated of an event that can't be read."""

    id: Any = None
    event_time: Any = None
    tenant: Any = None


async def schedule_events(context: RequestContext) -> web.Response:
    """Each event is done by itself. Those of one id are done in their order. The ones for which the request's time does
    not suffice are answered as errors, so that those which were done are known."""
    client, services = context.client, context.services
    read = await _events(context, _items(await context.read()))
    events = [one for one in read if isinstance(one, Event)]
    removals = sum(one.request.mode == "REMOVE" for one in events)
    if removals < len(read):
        # Events that can't be read count too: they have been judged.
        services.schedules.create.admit(client)
        services.rate_limit.take(client, len(read) - removals)
    context.spend(REMOVE_COST * removals)
    answers = [one if isinstance(one, EventResponse) else one.answer() for one in read]
    for together in _rounds(read):
        if _out_of_time(context):
            done = [(position, answer_late(event)) for position, event in together]
        else:
            done = await _do(context, together)
        for position, answer in done:
            answers[position] = answer
    context.record(events=len(events))
    return json_response(answers, status=status_code(answers))


def _items(data: bytes) -> Sequence[msgspec.Raw]:
    """Raises Refusal (malformed) and Invalid."""
    try:
        data.decode()
        items: list[msgspec.Raw] = _split(data)
    except UnicodeDecodeError:
        raise Refusal("malformed", "the body is not UTF-8") from None
    except msgspec.ValidationError:
        raise Invalid([FieldError("", f"must be an array of at most {MAX_BATCH} events")]) from None
    except (msgspec.DecodeError, RecursionError):
        raise Refusal("malformed", "the body is not valid JSON") from None
    return items


async def _events(context: RequestContext, items: Sequence[msgspec.Raw]) -> list[Event | EventResponse]:
    """The events, and the answers to those that can't be read: MAX_BATCH_FAULTS together, and the first of each. Yields
    to other requests between pieces."""
    left = MAX_BATCH_FAULTS
    clock = context.services.clock
    now, read = clock.wall_ms(), list[Event | EventResponse]()
    for start in range(0, len(items), PIECE):
        if start:
            await clock.sleep(0)
        piece = items[start : start + PIECE]
        if (together := _EVENT.decode_together(piece)) is not None:
            read += [read_event(asked, now=now) for asked in together]
            continue
        for item in piece:
            if len(item) > LARGE:
                await clock.sleep(0)
            try:
                read.append(read_event(_EVENT.decode(bytes(item), most=max(min(left, MAX_FAULTS), 1)), now=now))
            except MinutehandError as error:
                read.append(_unread(item, error))
                left -= len(error.errors) if isinstance(error, Invalid) else 1
    return read


def _unread(item: msgspec.Raw, error: MinutehandError) -> EventResponse:
    status, why = error_of(error)
    echo = _Echo()
    if len(item) <= LARGE:
        with suppress(msgspec.DecodeError, RecursionError):
            echo = msgspec.json.decode(item, type=_Echo)
    return EventResponse(
        id=_text(echo.id),
        event_time=_text(echo.event_time),
        tenant=_text(echo.tenant),
        event_status=status,
        error=why,
    )


def _text(value: object) -> str | None:
    return value[:MAX_NAME] if isinstance(value, str) else None


def _rounds(read: Sequence[Event | EventResponse]) -> Iterator[list[tuple[int, Event]]]:
    """The events with their positions, in rounds of up to PIECE that can be done at once: in each, all of one id are
    put, or all are removed."""
    together: list[tuple[int, Event]] = []
    modes: dict[str, str] = {}
    for position, event in enumerate(read):
        if isinstance(event, EventResponse):
            continue
        if modes.setdefault(event.key, event.request.mode) != event.request.mode or len(together) == PIECE:
            yield together
            together, modes = [], {event.key: event.request.mode}
        together.append((position, event))
    if together:
        yield together


def _out_of_time(context: RequestContext) -> bool:
    left = context.deadline.at - context.services.clock.monotonic()
    return left < RESERVED * context.settings.request_timeout_seconds


async def _do(context: RequestContext, together: Sequence[tuple[int, Event]]) -> list[tuple[int, EventResponse]]:
    puts = [one for one in together if one[1].request.mode == "UPSERT"]
    removals = [one for one in together if one[1].request.mode == "REMOVE"]
    answers = await _put(context, puts) if puts else []
    return answers + list(await concurrently(lambda one: _remove(context, *one), removals))


async def _put(context: RequestContext, puts: Sequence[tuple[int, Event]]) -> list[tuple[int, EventResponse]]:
    client, schedules, clock = context.client, context.services.schedules, context.services.clock
    now, accept_past_ms = clock.wall_ms(), client.settings.accept_past_seconds * 1000
    asked = [schedule_of(event, now=now, accept_past_ms=accept_past_ms) for _, event in puts]
    await schedules.create.look_up(client, asked)
    requests: list[ScheduleRequest | Invalid] = [
        Invalid([*event.faults, *_others(event, schedules.create.faults(client, request))]) if event.faults else request
        for request, (_, event) in zip(asked, puts, strict=True)
    ]
    results = await schedules.by_key.many(client, requests)
    return [
        (position, answer_upsert(event, result, now=now))
        for (position, event), result in zip(puts, results, strict=True)
    ]


def _others(event: Event, faults: Sequence[FieldError]) -> list[FieldError]:
    """The faults of a schedule that do not follow from those of its event."""
    known = {fault.pointer for fault in event.faults}
    return [fault for fault in faults if not (fault.pointer == "/callback/destination" and "/tenant" in known)]


async def _remove(context: RequestContext, position: int, event: Event) -> tuple[int, EventResponse]:
    result: CancelResult | MinutehandError
    if event.faults:
        result = Invalid(list(event.faults))
    else:
        try:
            result = await context.services.schedules.by_key.cancel(context.client.client_id, event.key)
        except MinutehandError as error:
            result = error
    return position, answer_remove(event, result)


async def find_event(context: RequestContext) -> web.Response:
    return json_response((await _found(context))[0])


async def dry_run_event(context: RequestContext) -> web.Response:
    """Send an event to its receiver now, by a schedule beside its own, which stays as it is."""
    await context.no_body()
    client, create = context.client, context.services.schedules.create
    create.admit(client)
    context.services.rate_limit.take(client)
    event, body = await _found(context)
    tenant, now = event.tenant or "", context.services.clock.wall_ms()
    whole = event.delivery_option != PAYLOAD_ONLY
    callback = full_event(event, triggered_at=now) if whole else callback_to(tenant, event.id or "", body)
    made = await create.one(client, ScheduleRequest(callback=callback, delay_seconds=0, label=tenant))
    context.record(schedule_id=str(made.schedule_id))
    return json_response(event)


async def _found(context: RequestContext) -> tuple[EventResponse, str]:
    """The event that the query names, and the body that its receiver gets. Raises Invalid, NotFound."""
    query, client_id = context.query(), context.client.client_id
    faults: list[FieldError] = []
    event_id, tenant = _ID.of(query, faults), _TENANT.of(query, faults)
    if faults:
        raise Invalid(faults)
    event_id, tenant = named(event_id, tenant)
    found = await context.services.schedules.by_key.show(client_id, key_of(tenant, event_id))
    if found is not None:
        view = callback_view(client_id, found.row, context.services.encryption, NO_OPTIONS)
        body = view.body if isinstance(view.body, str) else ""
        event = shown_event(event_id, tenant, found.row, body, in_flight=found.in_flight)
        if event is not None:
            return event, body
    raise NotFound("there is no such event")


async def register_tenant(context: RequestContext) -> web.Response:
    client, destinations = context.client, context.services.destinations
    settings = context.settings.bigben
    config = await context.body(_CONFIG, lambda wrong: _config_faults(wrong, settings))
    tenant, request = read_config(config, settings)
    name = destination_name(tenant)
    put = await destinations.put(client, name, destinations.draft(client, request), has_read=context.has_read)
    context.record(tenant=tenant, destination=name, revision=put.shown.stored.revision)
    return await list_tenants(context)


def _config_faults(config: ProcessorConfig, settings: BigBenSettings) -> list[FieldError]:
    try:
        read_config(config, settings)
    except Invalid as invalid:
        return invalid.errors
    return []


async def list_tenants(context: RequestContext) -> web.Response:
    found = await context.services.destinations.all(context.client.client_id)
    context.has_read(len(found), sum(len(shown.stored.document) for shown in found))
    return json_response(registered(found, context.settings.bigben))


async def show_cluster(context: RequestContext) -> web.Response:
    """One member, the master. Nodes have equal rights here and are shown to administrators only."""
    return json_response({"minutehand": "Master"})


async def ping(context: RequestContext) -> web.Response:
    return json_response({"status": "OK"})


ROUTES: Final = (
    Route(
        method="POST",
        path=PREFIX + "/events/schedule",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=schedule_events,
        summary=f"Put or remove up to {MAX_BATCH} events",
        problems=RATED,
        cost=0,
    ),
    Route(
        method="GET",
        path=PREFIX + "/events/find",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=find_event,
        summary="Show an event",
        query=(_ID, _TENANT),
    ),
    Route(
        method="POST",
        path=PREFIX + "/events/dryrun",
        access=Access.CLIENT,
        scope=Scope.WRITE,
        handler=dry_run_event,
        summary="Send an event to its receiver now, and leave it as it is",
        query=(_ID, _TENANT),
        problems=RATED,
        cost=2,
    ),
    Route(
        method="POST",
        path=PREFIX + "/events/tenant/register",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=register_tenant,
        summary="Say where a tenant's events go",
        cost=5,
    ),
    Route(
        method="GET",
        path=PREFIX + "/events/tenants",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_tenants,
        summary="List the tenants",
        cost=5,
        reads_much=True,
    ),
    Route(
        method="GET",
        path=PREFIX + "/events/cluster",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=show_cluster,
        summary="Show the cluster",
    ),
    Route(method="GET", path=PREFIX + "/ping", access=Access.OPEN, handler=ping, summary="Whether the API answers"),
)
