"""Administrators' keys, each with a name. Only the configured administrator makes and revokes them."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response, no_content
from scheduler_service.api.schemas import AdminKeyRequest, AdminKeyView, NewAdminKeyView
from scheduler_service.domain.clients import ApiKey
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.usecases.keys import NewKey

_KEYS = "/v1/admin-keys"
_BODY = Body(AdminKeyRequest)


def admin_key_view(key: ApiKey) -> AdminKeyView:
    return AdminKeyView(
        key_id=key.key_id,
        name=key.owner,
        created_at=format_instant(key.created_at),
        revoked_at=format_instant_or_none(key.revoked_at),
    )


def new_admin_key_view(new: NewKey) -> NewAdminKeyView:
    return NewAdminKeyView(
        key_id=new.key.key_id, name=new.key.owner, key=new.text, created_at=format_instant(new.key.created_at)
    )


async def create_admin_key(context: RequestContext) -> web.Response:
    request = await context.body(_BODY)
    new = await context.services.keys.create(request.name, admin=True)
    context.log("admin-key-created", name=request.name, key_id=new.key.key_id)
    return json_response(new_admin_key_view(new), status=201)


async def list_admin_keys(context: RequestContext) -> web.Response:
    keys = await context.services.keys.of_administrators()
    context.has_read(len(keys), 0)
    return json_response(Items([admin_key_view(key) for key in keys]))


async def revoke_admin_key(context: RequestContext) -> web.Response:
    key = await context.services.keys.revoke(context.path("key_id"), client_id=None)
    context.log("admin-key-revoked", name=key.owner, key_id=key.key_id)
    return no_content()


ROUTES = (
    Route(
        method="POST",
        path=_KEYS,
        access=Access.CONFIGURED_ADMIN,
        handler=create_admin_key,
        summary="Make a key for an administrator; it is shown only once",
        request=AdminKeyRequest,
        response=NewAdminKeyView,
        status=201,
    ),
    Route(
        method="GET",
        path=_KEYS,
        access=Access.ADMIN,
        handler=list_admin_keys,
        summary="List administrators' keys, without their secrets",
        response=Items[AdminKeyView],
    ),
    Route(
        method="DELETE",
        path=_KEYS + "/{key_id}",
        access=Access.CONFIGURED_ADMIN,
        handler=revoke_admin_key,
        summary="Revoke an administrator's key",
        status=204,
    ),
)
