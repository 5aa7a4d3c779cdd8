"""The public keys that receivers check `v1a` signatures by: for everybody, since receivers have no key of this API."""

import re

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response
from scheduler_service.api.request_budget import TOO_MANY
from scheduler_service.api.schemas import PublicKeyView
from scheduler_service.domain.clients import CLIENT_ID_PATTERN
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.instants import format_instant
from scheduler_service.usecases.signing_secrets import public_key_text

_CACHE = {"Cache-Control": "public, max-age=60"}
_CLIENT_ID = re.compile(CLIENT_ID_PATTERN)


async def list_public_keys(context: RequestContext) -> web.Response:
    signer = context.path("signer")
    if _CLIENT_ID.fullmatch(signer) is None:
        raise NotFound(f"{signer[:128]!r} can't be a client's id")
    budget, address = context.services.request_budget, context.request.remote or "unknown"
    pairs = await context.services.public_keys(ClientId(signer), before_reading=lambda: budget.take_open_read(address))
    views = [
        PublicKeyView(
            secret_id=pair.secret_id,
            public_key=public_key_text(pair.public_key),
            created_at=format_instant(pair.created_at),
        )
        for pair in pairs
        if pair.public_key is not None
    ]
    return json_response(Items(views), headers=_CACHE)


ROUTES = (
    Route(
        method="GET",
        path="/v1/public-keys/{signer}",
        access=Access.OPEN,
        handler=list_public_keys,
        summary="List the public keys of a client's active key pairs, for receivers",
        response=Items[PublicKeyView],
        headers={"Cache-Control": "For how long receivers may keep the answer."},
        problems=(TOO_MANY, "storage-unavailable", "overloaded"),
    ),
)
