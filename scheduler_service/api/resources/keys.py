"""Bearer keys of clients."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response, no_content
from scheduler_service.api.schemas import KeyRequest, KeyView, NewKeyView
from scheduler_service.domain.clients import ApiKey, Scope
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.instants import format_instant, format_instant_or_none, read_instant
from scheduler_service.usecases.keys import NewKey

_BODY = Body(KeyRequest)
_KEYS = "/v1/clients/{client_id}/keys"


def key_view(key: ApiKey) -> KeyView:
    return KeyView(
        key_id=key.key_id,
        name=key.name,
        scope=key.scope.value,
        created_at=format_instant(key.created_at),
        expires_at=format_instant_or_none(key.expires_at),
        last_used_at=format_instant_or_none(key.last_used_at),
        revoked_at=format_instant_or_none(key.revoked_at),
    )


def new_key_view(new: NewKey) -> NewKeyView:
    key = new.key
    return NewKeyView(
        key_id=key.key_id,
        key=new.text,
        name=key.name,
        scope=key.scope.value,
        created_at=format_instant(key.created_at),
        expires_at=format_instant_or_none(key.expires_at),
    )


async def create_key(context: RequestContext) -> web.Response:
    asked = await context.body_or(_BODY, KeyRequest())
    client = context.client
    faults: list[FieldError] = []
    expires_at = read_instant(asked.expires_at, "/expires_at", faults)
    if faults:
        raise Invalid(faults)
    maker = context.principal
    new = await context.services.keys.create(
        client.client_id,
        scope=asked.scope,
        name=asked.name,
        expires_at=expires_at,
        makers_expiry=None if maker is None else maker.expires_at,
    )
    context.log("key-created", client_id=client.client_id, key_id=new.key.key_id, scope=new.key.scope.value)
    return json_response(new_key_view(new), status=201)


async def list_keys(context: RequestContext) -> web.Response:
    keys = await context.services.keys.of_client(context.client.client_id)
    context.has_read(len(keys), 0)
    return json_response(Items([key_view(key) for key in keys]))


async def revoke_key(context: RequestContext) -> web.Response:
    client = context.client
    key = await context.services.keys.revoke(context.path("key_id"), client_id=client.client_id)
    context.log("key-revoked", client_id=client.client_id, key_id=key.key_id)
    return no_content()


ROUTES = (
    Route(
        method="POST",
        path=_KEYS,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=create_key,
        summary="Make a key for a client; it is shown only once, and expires no later than the key that makes it",
        request=KeyRequest,
        body_optional=True,
        response=NewKeyView,
        status=201,
        cost=10,
        problems=("too-many-keys",),
    ),
    Route(
        method="GET",
        path=_KEYS,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=list_keys,
        summary="List a client's keys, without their secrets; the last 100 that ended, for 90 days",
        response=Items[KeyView],
        cost=10,
    ),
    Route(
        method="DELETE",
        path=_KEYS + "/{key_id}",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=revoke_key,
        summary="Revoke a client's key",
        status=204,
    ),
)
