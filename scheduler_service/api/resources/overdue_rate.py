"""The overdue rate of all clients together."""

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import RequestContext, Route, json_response, no_content
from scheduler_service.domain.overdue_rates import OverdueRate


class OverdueRateRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast overdue calls of all clients are made."""

    overdue_per_second: OverdueRate
    """Calls a second, over all nodes, of those that are more than a minute late."""


class OverdueRateView(msgspec.Struct, frozen=True, kw_only=True):
    """How fast overdue calls of all clients are made. A client's own rate holds beside it."""

    overdue_per_second: float | None
    """Calls a second, over all nodes, of those that are more than a minute late; null: as fast as limits permit."""


_BODY = Body(OverdueRateRequest)


async def get_overdue_rate(context: RequestContext) -> web.Response:
    return json_response(OverdueRateView(overdue_per_second=await context.services.cluster.overdue_rate.show()))


async def put_overdue_rate(context: RequestContext) -> web.Response:
    request = await context.body(_BODY)
    await context.services.cluster.overdue_rate.set(request.overdue_per_second)
    context.log("overdue-rate-changed", overdue_per_second=str(request.overdue_per_second))
    return json_response(OverdueRateView(overdue_per_second=request.overdue_per_second))


async def delete_overdue_rate(context: RequestContext) -> web.Response:
    await context.services.cluster.overdue_rate.remove()
    context.log("overdue-rate-changed", overdue_per_second="unlimited")
    return no_content()


ROUTES = (
    Route(
        method="GET",
        path="/v1/cluster/overdue-rate",
        access=Access.ADMIN,
        handler=get_overdue_rate,
        summary="Show how fast overdue calls of all clients are made",
        response=OverdueRateView,
    ),
    Route(
        method="PUT",
        path="/v1/cluster/overdue-rate",
        access=Access.ADMIN,
        handler=put_overdue_rate,
        summary="Limit how fast overdue calls of all clients are made",
        request=OverdueRateRequest,
        response=OverdueRateView,
        problems=("older-nodes",),
    ),
    Route(
        method="DELETE",
        path="/v1/cluster/overdue-rate",
        access=Access.ADMIN,
        handler=delete_overdue_rate,
        summary="Let overdue calls be made as fast as limits permit",
        status=204,
    ),
)
