"""Administrators' own keys, each with a name. The configured administrator makes and revokes them."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import Call, Route, answer, no_content
from scheduler_service.api.page import Items
from scheduler_service.api.resources.schedule_views import admin_key_view, new_admin_key_view
from scheduler_service.api.schemas import AdminKeyRequest, AdminKeyView, NewAdminKeyView

_KEYS = "/v1/admin-keys"
_BODY = Body(AdminKeyRequest)


async def create_admin_key(call: Call) -> web.Response:
    request = await call.body(_BODY)
    new = await call.services.keys.create(request.name, admin=True)
    call.log("admin-key-created", name=request.name, key_id=new.key.key_id)
    return answer(new_admin_key_view(new), status=201)


async def list_admin_keys(call: Call) -> web.Response:
    return answer(Items([admin_key_view(key) for key in await call.services.keys.of_administrators()]))


async def revoke_admin_key(call: Call) -> web.Response:
    key = await call.services.keys.revoke(call.path("key_id"), client_id=None)
    call.log("admin-key-revoked", name=key.owner, key_id=key.key_id)
    return no_content()


ROUTES = (
    Route(
        method="POST",
        path=_KEYS,
        access=Access.CONFIGURED_ADMIN,
        handler=create_admin_key,
        summary="Make a key for an administrator; it is shown this once",
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
