"""Destinations: put, show, list, pause, resume, delete."""

import re
from typing import Final

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.preconditions import ETAG, etag_header, precondition_of
from scheduler_service.api.http.query import flag_parameter
from scheduler_service.api.http.route import (
    LOCATION,
    Items,
    NoRequest,
    RequestContext,
    Route,
    json_response,
    no_content,
)
from scheduler_service.api.resources.destination_views import DestinationView, destination_view
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.destinations import DESTINATION_PATTERN
from scheduler_service.domain.errors import FieldError, Invalid, NotFound
from scheduler_service.usecases.client_certificates import cost_of_key
from scheduler_service.usecases.destination_request import DestinationRequest
from scheduler_service.usecases.destinations import ShownDestination

_DESTINATIONS: Final = "/v1/clients/{client_id}/destinations"
_DESTINATION: Final = _DESTINATIONS + "/{destination}"
_NAME: Final = re.compile(DESTINATION_PATTERN.strip("^$"))
_BODY: Final = Body(DestinationRequest)
FORCE: Final = flag_parameter(
    "force", "Delete it even if crons or waiting schedules name it: their calls fail then, with a reason that says so."
)


async def put_destination(context: RequestContext) -> web.Response:
    client, destinations, name = context.client, context.services.destinations, _name(context)
    precondition = precondition_of(context.request)
    request = await context.body(_BODY, lambda wrong: _faults(context, wrong))
    if request.certificate is not None:
        context.spend(cost_of_key(request.certificate.key))
    document = destinations.draft(client, request)
    put = await destinations.put(client, name, document, precondition=precondition, has_read=context.has_read)
    context.record(revision=put.shown.stored.revision)
    headers = etag_header(put.shown.stored.revision)
    if not put.created:
        return json_response(destination_view(put.shown), headers=headers)
    headers["Location"] = f"/v1/clients/{client.client_id}/destinations/{name}"
    return json_response(destination_view(put.shown), status=201, headers=headers)


async def get_destination(context: RequestContext) -> web.Response:
    client_id, name = context.client.client_id, _name(context)
    shown = await context.services.destinations.one(client_id, name)
    figures = await context.services.cluster.destination_figures(client_id, name)
    return json_response(destination_view(shown, figures), headers=etag_header(shown.stored.revision))


async def list_destinations(context: RequestContext) -> web.Response:
    found = await context.services.destinations.all(context.client.client_id)
    context.has_read(len(found), sum(len(shown.stored.document) for shown in found))
    return json_response(Items([destination_view(shown) for shown in found]))


async def pause_destination(context: RequestContext) -> web.Response:
    name, precondition = _name(context), precondition_of(context.request)
    await context.no_body()
    paused = await context.services.destinations.pause(context.client.client_id, name, precondition=precondition)
    return _changed(context, paused)


async def resume_destination(context: RequestContext) -> web.Response:
    name, precondition = _name(context), precondition_of(context.request)
    await context.no_body()
    resumed = await context.services.destinations.resume(context.client.client_id, name, precondition=precondition)
    return _changed(context, resumed)


async def delete_destination(context: RequestContext) -> web.Response:
    name, faults = _name(context), list[FieldError]()
    force = FORCE.of(context.query(), faults) or False
    if faults:
        raise Invalid(faults)
    await context.services.destinations.delete(
        context.client, name, force=force, precondition=precondition_of(context.request), has_read=context.has_read
    )
    context.record(forced=str(force).lower())
    return no_content()


def _faults(context: RequestContext, request: DestinationRequest) -> list[FieldError]:
    if request.certificate is not None:
        context.spend(cost_of_key(request.certificate.key))
    try:
        context.services.destinations.draft(context.client, request)
    except Invalid as invalid:
        return invalid.errors
    return []


def _name(context: RequestContext) -> str:
    """The name in the path. A text that can't be a destination's name is 404."""
    name = context.path("destination")
    if _NAME.fullmatch(name) is None:
        raise NotFound(f"a destination's name matches {DESTINATION_PATTERN}: lower-case letters, digits, '.', '_', '-'")
    return name


def _changed(context: RequestContext, shown: ShownDestination) -> web.Response:
    context.record(revision=shown.stored.revision)
    return _shown(shown)


def _shown(shown: ShownDestination) -> web.Response:
    return json_response(destination_view(shown), headers=etag_header(shown.stored.revision))


ROUTES = (
    Route(
        method="PUT",
        path=_DESTINATION,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=put_destination,
        summary="Create a destination, or replace it as a whole: secrets must be sent again",
        request=DestinationRequest,
        response=DestinationView,
        status=201,
        headers={**LOCATION, **ETAG},
        others={200: DestinationView},
        conditional=True,
        problems=("too-many-destinations", "destinations-too-large", "older-nodes"),
        cost=5,
    ),
    Route(
        method="GET",
        path=_DESTINATION,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_destination,
        summary="Show a destination, without its secrets, and what becomes of its calls",
        response=DestinationView,
        headers=ETAG,
        problems=("secret-locked",),
        cost=2,
    ),
    Route(
        method="GET",
        path=_DESTINATIONS,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_destinations,
        summary="List destinations by name, without their secrets",
        response=Items[DestinationView],
        problems=("secret-locked",),
        cost=5,
        reads_much=True,
    ),
    Route(
        method="POST",
        path=_DESTINATION + ":pause",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=pause_destination,
        summary="Pause a destination: its calls wait until it is resumed",
        request=NoRequest,
        response=DestinationView,
        headers=ETAG,
        conditional=True,
        problems=("secret-locked",),
        cost=3,
    ),
    Route(
        method="POST",
        path=_DESTINATION + ":resume",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=resume_destination,
        summary="Resume a paused destination",
        request=NoRequest,
        response=DestinationView,
        headers=ETAG,
        conditional=True,
        problems=("secret-locked",),
        cost=3,
    ),
    Route(
        method="DELETE",
        path=_DESTINATION,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=delete_destination,
        summary="Delete a destination that no cron, subscription or waiting schedule names",
        query=(FORCE,),
        status=204,
        conditional=True,
        problems=("destination-in-use",),
        cost=5,
        reads_much=True,
    ),
)
