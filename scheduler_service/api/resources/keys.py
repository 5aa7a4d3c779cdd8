"""Bearer keys of clients."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Items, NoRequest, RequestContext, Route, json_response, no_content
from scheduler_service.api.schemas import KeyView, NewKeyView
from scheduler_service.domain.clients import ApiKey
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.usecases.clients import refuse_built_in
from scheduler_service.usecases.keys import NewKey

_KEYS = "/v1/clients/{client_id}/keys"


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        key_id=key.key_id, created_at=format_instant(key.created_at), revoked_at=format_instant_or_none(key.revoked_at)
    )


def new_key_view(new: NewKey) -> NewKeyView:
    return NewKeyView(key_id=new.key.key_id, key=new.text, created_at=format_instant(new.key.created_at))


async def create_key(context: RequestContext) -> web.Response:
    await context.no_body()
    client = await context.services.catalog.client(context.client_id)
    refuse_built_in(client)
    new = await context.services.keys.create(client.client_id)
    context.log("key-created", client_id=client.client_id, key_id=new.key.key_id)
    return json_response(new_key_view(new), status=201)


async def list_keys(context: RequestContext) -> web.Response:
    client = await context.services.catalog.client(context.client_id)
    return json_response(Items([key_view(key) for key in await context.services.keys.of_client(client.client_id)]))


async def revoke_key(context: RequestContext) -> web.Response:
    client = await context.services.catalog.client(context.client_id)
    key = await context.services.keys.revoke(context.path("key_id"), client_id=client.client_id)
    context.log("key-revoked", client_id=client.client_id, key_id=key.key_id)
    return no_content()


ROUTES = (
    Route(
        method="POST",
        path=_KEYS,
        access=Access.ADMIN,
        handler=create_key,
        summary="Make a key for a client; it is shown only once",
        request=NoRequest,
        response=NewKeyView,
        status=201,
        problems=("built-in-client",),
    ),
    Route(
        method="GET",
        path=_KEYS,
        access=Access.ADMIN,
        handler=list_keys,
        summary="List a client's keys, without their secrets",
        response=Items[KeyView],
    ),
    Route(
        method="DELETE",
        path=_KEYS + "/{key_id}",
        access=Access.ADMIN,
        handler=revoke_key,
        summary="Revoke a client's key",
        status=204,
    ),
)
