"""The secrets that a client's callbacks are signed with."""

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response, no_content
from scheduler_service.api.schemas import NewSecretView, SecretRequest, SecretView
from scheduler_service.domain.clients import Scope, SigningSecret
from scheduler_service.domain.instants import format_instant, format_instant_or_none
from scheduler_service.usecases.signing_secrets import NewSecret, public_key_text

_BODY = Body(SecretRequest)
_SECRETS = "/v1/clients/{client_id}/signing-secrets"


def secret_view(secret: SigningSecret) -> SecretView:
    return SecretView(
        secret_id=secret.secret_id,
        scheme=secret.scheme.value,
        public_key=None if secret.public_key is None else public_key_text(secret.public_key),
        created_at=format_instant(secret.created_at),
        expires_at=format_instant_or_none(secret.expires_at),
    )


def new_secret_view(new: NewSecret) -> NewSecretView:
    return NewSecretView(
        secret_id=new.secret.secret_id,
        scheme=new.secret.scheme.value,
        secret=new.text,
        created_at=format_instant(new.secret.created_at),
    )


async def create_secret(context: RequestContext) -> web.Response:
    asked = await context.body_or(_BODY, SecretRequest())
    client = context.client
    new = await context.services.signing_secrets.create(client.client_id, asked.scheme)
    secret = new.secret
    context.log(
        "signing-secret-created", client_id=client.client_id, secret_id=secret.secret_id, scheme=secret.scheme.value
    )
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
        request=SecretRequest,
        body_optional=True,
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
