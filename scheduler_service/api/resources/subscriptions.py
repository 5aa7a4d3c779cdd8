"""Subscriptions: put, show, list, delete."""

import re
from typing import Final

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.preconditions import ETAG, etag_header, precondition_of
from scheduler_service.api.http.route import LOCATION, Items, RequestContext, Route, json_response, no_content
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import CronId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.notices import ON
from scheduler_service.domain.subscriptions import SUBSCRIPTION_PATTERN
from scheduler_service.usecases.subscriptions import ShownSubscription, SubscriptionRequest

_SUBSCRIPTIONS: Final = "/v1/clients/{client_id}/subscriptions"
_SUBSCRIPTION: Final = _SUBSCRIPTIONS + "/{subscription}"
_NAME: Final = re.compile(SUBSCRIPTION_PATTERN.strip("^$"))
_BODY: Final = Body(SubscriptionRequest)


class EventFilterView(msgspec.Struct, frozen=True, kw_only=True):
    """Only events that match all that is not null."""

    label: str | None
    key_prefix: str | None
    cron_id: CronId | None
    destination: str | None


class SubscriptionView(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription. `events` empty: all types. `changed_at`: when this `revision` was made."""

    name: str
    client_id: str
    destination: str
    events: tuple[str, ...]
    filter: EventFilterView
    enabled: bool
    revision: int
    created_at: Instant
    changed_at: Instant


async def put_subscription(context: RequestContext) -> web.Response:
    client_id, name, precondition = context.client.client_id, _name(context), precondition_of(context.request)
    request = await context.body(_BODY)
    put = await context.services.subscriptions.put(client_id, name, request, precondition=precondition)
    context.record(revision=put.shown.stored.revision)
    headers = etag_header(put.shown.stored.revision)
    if not put.created:
        return json_response(_view(put.shown), headers=headers)
    headers["Location"] = f"/v1/clients/{client_id}/subscriptions/{name}"
    return json_response(_view(put.shown), status=201, headers=headers)


async def get_subscription(context: RequestContext) -> web.Response:
    shown = await context.services.subscriptions.one(context.client.client_id, _name(context))
    return json_response(_view(shown), headers=etag_header(shown.stored.revision))


async def list_subscriptions(context: RequestContext) -> web.Response:
    found = await context.services.subscriptions.all(context.client.client_id)
    return json_response(Items([_view(shown) for shown in found]))


async def delete_subscription(context: RequestContext) -> web.Response:
    name, precondition = _name(context), precondition_of(context.request)
    await context.services.subscriptions.delete(context.client.client_id, name, precondition=precondition)
    context.record(deleted=name)
    return no_content()


def _name(context: RequestContext) -> str:
    """The name in the path. A text that can't be a subscription's name is 404."""
    name = context.path("subscription")
    if _NAME.fullmatch(name) is None or name.startswith(ON):
        raise NotFound(f"a subscription's name matches {SUBSCRIPTION_PATTERN}, and does not begin with {ON}")
    return name


def _view(shown: ShownSubscription) -> SubscriptionView:
    stored, document = shown
    asked = document.filter
    return SubscriptionView(
        name=stored.name,
        client_id=stored.client_id,
        destination=document.destination,
        events=document.events,
        filter=EventFilterView(
            label=asked.label, key_prefix=asked.key_prefix, cron_id=asked.cron_id, destination=asked.destination
        ),
        enabled=document.enabled,
        revision=stored.revision,
        created_at=format_instant(stored.created_at),
        changed_at=format_instant(stored.changed_at),
    )


ROUTES = (
    Route(
        method="PUT",
        path=_SUBSCRIPTION,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=put_subscription,
        summary="Create a subscription, or replace it as a whole",
        request=SubscriptionRequest,
        response=SubscriptionView,
        status=201,
        headers={**LOCATION, **ETAG},
        others={200: SubscriptionView},
        conditional=True,
        problems=("too-many-subscriptions", "older-nodes"),
        cost=4,
    ),
    Route(
        method="GET",
        path=_SUBSCRIPTION,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=get_subscription,
        summary="Show a subscription",
        response=SubscriptionView,
        headers=ETAG,
        cost=2,
    ),
    Route(
        method="GET",
        path=_SUBSCRIPTIONS,
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_subscriptions,
        summary="List subscriptions by name",
        response=Items[SubscriptionView],
        cost=3,
    ),
    Route(
        method="DELETE",
        path=_SUBSCRIPTION,
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=delete_subscription,
        summary="Delete a subscription: what was not sent yet is not sent any more",
        status=204,
        conditional=True,
        cost=3,
    ),
)
