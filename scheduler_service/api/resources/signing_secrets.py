"""The secrets that a client's callbacks are signed with."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Items, NoRequest, RequestContext, Route, json_response, no_content
from scheduler_service.api.schemas import NewSecretView, SecretView
from scheduler_service.domain.clients import Scope, SigningSecret
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.usecases.signing_secrets import NewSecret

_SECRETS = "/v1/clients/{client_id}/signing-secrets"


def secret_view(secret: SigningSecret) -> SecretView:
    return SecretView(
        secret_id=secret.secret_id,
        created_at=format_instant(secret.created_at),
        expires_at=format_instant_or_none(secret.expires_at),
    )


def new_secret_view(new: NewSecret) -> NewSecretView:
    return NewSecretView(
        secret_id=new.secret.secret_id, secret=new.text, created_at=format_instant(new.secret.created_at)
    )


async def create_secret(context: RequestContext) -> web.Response:
    await context.no_body()
    client = context.client
    new = await context.services.signing_secrets.create(client.client_id)
    context.log("signing-secret-created", client_id=client.client_id, secret_id=new.secret.secret_id)
    return json_response(new_secret_view(new), status=201)


async def list_secrets(context: RequestContext) -> web.Response:
    client = context.client
    secrets = await context.services.signing_secrets.list(client.client_id)
    return json_response(Items([secret_view(secret) for secret in secrets]))


async def delete_secret(context: RequestContext) -> web.Response:
    client = context.client
    secret_id = context.path("secret_id")
    await context.services.signing_secrets.delete(client.client_id, secret_id)
    context.log("signing-secret-deleted", client_id=client.client_id, secret_id=secret_id)
    return no_content()


ROUTES = (
    Route(
        method="POST",
        path=_SECRETS,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=create_secret,
        summary="Make a signing secret for a client; it is shown only once",
        request=NoRequest,
        response=NewSecretView,
        status=201,
        problems=("too-many-secrets",),
    ),
    Route(
        method="GET",
        path=_SECRETS,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=list_secrets,
        summary="List a client's signing secrets, without the secrets",
        response=Items[SecretView],
    ),
    Route(
        method="DELETE",
        path=_SECRETS + "/{secret_id}",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=delete_secret,
        summary="Stop signing with a secret",
        status=204,
    ),
)
