"""Clients: register, change, show, suspend, resume, pause, delete."""

import re

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body, token
from scheduler_service.api.http.preconditions import ETAG, etag_header, precondition_of
from scheduler_service.api.http.route import (
    LOCATION,
    Items,
    NoRequest,
    RequestContext,
    Route,
    json_response,
    no_content,
)
from scheduler_service.api.resources.signing_secrets import new_secret_view
from scheduler_service.api.schemas import ClientRequest, ClientView, NewClientView
from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import (
    CLIENT_ID_PATTERN,
    GUARANTEED_CALLS_PER_MINUTE,
    Client,
    ClientSettings,
    OwnSettings,
    Scope,
    is_client_id,
)
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.instants import format_instant

_BODY = Body(ClientRequest)
_OWN = Body(OwnSettings)
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9._-]{0,252})|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?")


def client_view(client: Client, bounds: ClientBounds) -> ClientView:
    return ClientView(
        client_id=client.client_id,
        poller_quota=client.poller_quota,
        poller_ceiling=client.poller_ceiling,
        guaranteed_calls_per_minute=client.poller_quota * GUARANTEED_CALLS_PER_MINUTE,
        state=client.state.value,
        paused=client.paused,
        settings=bounds.effective(client),
        stored_settings=client.settings,
        revision=client.revision,
        created_at=format_instant(client.created_at),
    )


async def put_client(context: RequestContext) -> web.Response:
    client_id = context.client_id
    named_wrong, precondition = _id_faults(client_id), precondition_of(context.request)
    request = await context.body(_BODY, lambda wrong: [*named_wrong, *_rules(context, wrong)])
    if faults := [*named_wrong, *_rules(context, request)]:
        raise Invalid(faults)
    registered = await context.services.clients.register(
        client_id, poller_quota=request.poller_quota, settings=request.settings, precondition=precondition
    )
    client, secret = registered
    ids: dict[str, str | int] = {"poller_quota": client.poller_quota, "revision": client.revision}
    headers = etag_header(client.revision)
    if secret is None:
        context.log("client-changed", client_id=client_id, **ids)
        return json_response(_view(context, client), headers=headers)
    context.log("client-registered", client_id=client_id, **ids, secret_id=secret.secret.secret_id)
    view = NewClientView(**msgspec.structs.asdict(_view(context, client)), signing_secret=new_secret_view(secret))
    headers["Location"] = f"/v1/clients/{client_id}"
    return json_response(view, status=201, headers=headers)


async def list_clients(context: RequestContext) -> web.Response:
    return json_response(Items([_view(context, client) for client in await context.services.clients.show.all()]))


async def get_client(context: RequestContext) -> web.Response:
    client = await context.services.clients.show.one(context.client_id)
    return _shown(context, client)


async def suspend_client(context: RequestContext) -> web.Response:
    precondition = precondition_of(context.request)
    await context.no_body()
    client = await context.services.clients.suspend(context.client_id, precondition=precondition)
    context.log("client-suspended", client_id=client.client_id, revision=client.revision)
    return _shown(context, client)


async def resume_client(context: RequestContext) -> web.Response:
    precondition = precondition_of(context.request)
    await context.no_body()
    client = await context.services.clients.resume(context.client_id, precondition=precondition)
    context.log("client-resumed", client_id=client.client_id, revision=client.revision)
    return _shown(context, client)


async def change_settings(context: RequestContext) -> web.Response:
    precondition = precondition_of(context.request)
    wanted = await context.body(_OWN, lambda wrong: _own_faults(context, wrong))
    if faults := _own_faults(context, wanted):
        raise Invalid(faults)
    client = await context.services.clients.change_own_settings(context.client_id, wanted, precondition=precondition)
    context.log("client-settings-changed", client_id=client.client_id, revision=client.revision)
    return _shown(context, client)


async def pause_client(context: RequestContext) -> web.Response:
    precondition = precondition_of(context.request)
    await context.no_body()
    client = await context.services.clients.pause(context.client_id, precondition=precondition)
    context.log("client-paused", client_id=client.client_id, revision=client.revision)
    return _shown(context, client)


async def unpause_client(context: RequestContext) -> web.Response:
    precondition = precondition_of(context.request)
    await context.no_body()
    client = await context.services.clients.unpause(context.client_id, precondition=precondition)
    context.log("client-unpaused", client_id=client.client_id, revision=client.revision)
    return _shown(context, client)


async def delete_client(context: RequestContext) -> web.Response:
    await context.services.clients.delete(context.client_id, precondition=precondition_of(context.request))
    context.log("client-deleted", client_id=context.client_id)
    return no_content()


def _id_faults(client_id: str) -> list[FieldError]:
    # An id with "$" is a built-in client's: an administrator may change its quota.
    if client_id.startswith("$") or is_client_id(client_id) is not None:
        return []
    detail = f"a client's id must match {CLIENT_ID_PATTERN}: lower-case letters, digits, '.', '_' and '-'"
    return [FieldError("", detail)]


def _shown(context: RequestContext, client: Client) -> web.Response:
    return json_response(_view(context, client), headers=etag_header(client.revision))


def _view(context: RequestContext, client: Client) -> ClientView:
    return client_view(client, context.settings.clients)


def _rules(context: RequestContext, request: ClientRequest) -> list[FieldError]:
    return [] if request.settings is None else _settings_faults(context, request.settings, at="/settings")


def _own_faults(context: RequestContext, wanted: OwnSettings) -> list[FieldError]:
    # Over the defaults, which have no fault: what was stored before is judged no more.
    return _settings_faults(context, wanted.over(ClientSettings()), at="")


def _settings_faults(context: RequestContext, settings: ClientSettings, *, at: str) -> list[FieldError]:
    """The rules of settings that types can't express. `at`: where the body has the settings."""
    faults = [
        FieldError(f"{at}/hosts/{token(host)}", "must be a host in lower case, without scheme and path")
        for host in settings.hosts
        if not _HOST.fullmatch(host)
    ]
    if settings.retry.base_seconds > settings.retry.cap_seconds:
        faults.append(FieldError(f"{at}/retry/base_seconds", "must not be above cap_seconds"))
    return faults + context.settings.clients.faults(settings, at=at)


ROUTES = (
    Route(
        method="PUT",
        path="/v1/clients/{client_id}",
        access=Access.ADMIN,
        handler=put_client,
        summary="Register a client, whose signing secret is shown this once, or replace its quota and settings",
        request=ClientRequest,
        response=NewClientView,
        status=201,
        headers={**LOCATION, **ETAG},
        others={200: ClientView},
        conditional=True,
        problems=("client-deleted", "older-nodes", "feed-in-use"),
    ),
    Route(
        method="GET",
        path="/v1/clients",
        access=Access.ADMIN,
        handler=list_clients,
        summary="List clients",
        response=Items[ClientView],
        cost=5,
    ),
    Route(
        method="GET",
        path="/v1/clients/{client_id}",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=get_client,
        summary="Show a client",
        response=ClientView,
        headers=ETAG,
    ),
    Route(
        method="DELETE",
        path="/v1/clients/{client_id}",
        access=Access.ADMIN,
        handler=delete_client,
        summary="Delete a suspended client",
        status=204,
        conditional=True,
        problems=("not-suspended", "built-in-client"),
    ),
    Route(
        method="POST",
        path="/v1/clients/{client_id}:suspend",
        access=Access.ADMIN,
        handler=suspend_client,
        summary="Suspend a client: its calls wait, and its creates are refused",
        request=NoRequest,
        response=ClientView,
        headers=ETAG,
        conditional=True,
        problems=("built-in-client",),
    ),
    Route(
        method="POST",
        path="/v1/clients/{client_id}:resume",
        access=Access.ADMIN,
        handler=resume_client,
        summary="Resume a suspended client",
        request=NoRequest,
        response=ClientView,
        headers=ETAG,
        conditional=True,
        problems=("built-in-client",),
    ),
    Route(
        method="PATCH",
        path="/v1/clients/{client_id}/settings",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=change_settings,
        summary="Change those settings that are a client's own",
        request=OwnSettings,
        response=ClientView,
        headers=ETAG,
        conditional=True,
        problems=("older-nodes", "feed-in-use"),
    ),
    Route(
        method="POST",
        path="/v1/clients/{client_id}:pause",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=pause_client,
        summary="Hold a client's calls and crons; creates are accepted",
        request=NoRequest,
        response=ClientView,
        headers=ETAG,
        conditional=True,
    ),
    Route(
        method="POST",
        path="/v1/clients/{client_id}:unpause",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=unpause_client,
        summary="Let a paused client go on",
        request=NoRequest,
        response=ClientView,
        headers=ETAG,
        conditional=True,
    ),
)
