"""Apps: register, list, deactivate, activate; and the health check.

An app is a client: its partitions are the client's poller quota, and an app that is not active is a suspended client.
Registering one that exists sets its quota and state, and those settings that the configuration names. So all of that is
for operators; a client's key may look at its own app, if it may look at its client (`manage`).
"""

from typing import Final

from aiohttp import web

from scheduler_service.api.goscheduler.callers import Apps
from scheduler_service.api.goscheduler.envelope import (
    ACTIVATED,
    DEACTIVATED,
    INVALID,
    MADE,
    NOT_FOUND,
    WireRefusal,
    success,
)
from scheduler_service.api.goscheduler.operations import Operation, query_of
from scheduler_service.api.goscheduler.requests import AskedApp, read_app, settings_faults
from scheduler_service.api.goscheduler.views import app_view
from scheduler_service.api.http.endpoint import under_audit
from scheduler_service.api.http.route import RequestContext, json_response
from scheduler_service.domain.clients import Client, ClientSettings, ClientState, Scope
from scheduler_service.domain.errors import Invalid, NotFound, PreconditionFailed
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition

MAX_TURNS: Final = 5
"""Others may change the client meanwhile; then it is looked at again."""


async def goscheduler_register_app(context: RequestContext, apps: Apps) -> web.StreamResponse:
    asked = read_app(await context.read(typed=False))
    if not asked.app_id:
        raise WireRefusal(INVALID, "appId must not be empty")
    client_id = apps.client_id(asked.app_id)

    async def register(context: RequestContext) -> web.StreamResponse:
        view = app_view(asked.app_id, await _registered(context, client_id, asked))
        return json_response(success(view, code=MADE, count=1))

    return await under_audit(
        context, action=goscheduler_register_app.__name__, target={"client_id": client_id}, handler=register
    )


async def _registered(context: RequestContext, client_id: ClientId, asked: AskedApp) -> Client:
    limits = context.settings.goscheduler
    if faults := settings_faults(asked, bounds=context.settings.clients, most=limits.max_partitions):
        raise Invalid(faults)
    context.services.request_budget.take_change(client_id)
    for _ in range(MAX_TURNS):
        try:
            return await _put(context, client_id, asked, quota=asked.partitions or limits.default_partitions)
        except PreconditionFailed:
            continue
    return await _put(context, client_id, asked, quota=asked.partitions or limits.default_partitions)


async def _put(context: RequestContext, client_id: ClientId, asked: AskedApp, *, quota: int) -> Client:
    """Raises PreconditionFailed where the client was changed meanwhile: nobody's change is undone."""
    clients = context.services.clients
    try:
        known: Client | None = await clients.show.one(client_id)
    except NotFound:
        known = None
    settings = asked.over(ClientSettings() if known is None else known.settings)
    wanted = ClientState.ACTIVE if asked.active else ClientState.SUSPENDED
    if known is not None and (known.poller_quota, known.settings, known.state) == (quota, settings, wanted):
        # A change makes every process read its clients again, and this one is no change.
        return known
    precondition = NO_PRECONDITION if known is None else Precondition(matches=(str(known.revision),))
    registered = await clients.register(client_id, poller_quota=quota, settings=settings, precondition=precondition)
    client = registered.client
    if client.state is not wanted:
        client = await (clients.resume if asked.active else clients.suspend)(client_id)
    action = "client-changed" if registered.secret is None else "client-registered"
    context.log(action, client_id=client_id, poller_quota=quota, revision=client.revision)
    return client


async def goscheduler_list_apps(context: RequestContext, apps: Apps) -> web.StreamResponse:
    wanted = query_of(context).get("app_id", "")
    found = [(name, client) for name, client in await apps.registered() if wanted in ("", name)]
    if not found:
        raise WireRefusal(NOT_FOUND, "No app found")
    return json_response(success({"apps": [app_view(name, client) for name, client in found]}, count=len(found)))


async def goscheduler_deactivate_app(context: RequestContext, apps: Apps) -> web.StreamResponse:
    return await _moved(context, apps, action=goscheduler_deactivate_app.__name__, active=False)


async def goscheduler_activate_app(context: RequestContext, apps: Apps) -> web.StreamResponse:
    return await _moved(context, apps, action=goscheduler_activate_app.__name__, active=True)


async def _moved(context: RequestContext, apps: Apps, *, action: str, active: bool) -> web.StreamResponse:
    app_id = context.path("app_id")
    client = await apps.client(app_id)
    client_id, clients = client.client_id, context.services.clients

    async def move(context: RequestContext) -> web.StreamResponse:
        known = await clients.show.one(client_id)
        if (known.state is ClientState.ACTIVE) == active:
            word = "activated" if active else "deactivated"
            raise WireRefusal(ACTIVATED if active else DEACTIVATED, f"app {app_id} is already {word}")
        context.services.request_budget.take_change(client_id)
        changed = await (clients.resume if active else clients.suspend)(client_id)
        context.log("client-resumed" if active else "client-suspended", client_id=client_id, revision=changed.revision)
        return json_response(success({"appId": app_id, "Active": active}, code=MADE))

    return await under_audit(context, action=action, target={"client_id": client_id}, handler=move)


async def goscheduler_health(context: RequestContext, apps: Apps) -> web.StreamResponse:
    """That this process answers; `/readyz` says more."""
    return json_response({"status": "Success", "code": 200})


OPERATIONS = (
    Operation(
        methods=("GET", "POST", "PUT", "DELETE"),
        paths=("/healthcheck",),
        handler=goscheduler_health,
        scope=Scope.READ,
        cost=0,
    ),
    Operation(
        methods=("POST",),
        paths=("/apps", "/app"),
        handler=goscheduler_register_app,
        scope=None,
        cost=4,
        audited=True,
    ),
    Operation(methods=("GET",), paths=("/apps",), handler=goscheduler_list_apps, scope=Scope.MANAGE, cost=5),
    Operation(
        methods=("POST",),
        paths=("/apps/{app_id}/deactivate",),
        handler=goscheduler_deactivate_app,
        scope=None,
        cost=4,
        audited=True,
    ),
    Operation(
        methods=("POST",),
        paths=("/apps/{app_id}/activate",),
        handler=goscheduler_activate_app,
        scope=None,
        cost=4,
        audited=True,
    ),
)
