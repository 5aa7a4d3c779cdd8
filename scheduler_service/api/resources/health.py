"""Probes and metrics. They need no key, and are cheap however often they are requested."""

from collections.abc import Sequence

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import SERVER, RequestContext, Route, json_response
from scheduler_service.api.schemas import ReadyView, ReasonView
from scheduler_service.domain.errors import NotFound
from scheduler_service.runtime.health import Reason, status_code
from scheduler_service.runtime.metrics import CONTENT_TYPE


async def livez(context: RequestContext) -> web.Response:
    """Whether the event loop runs. It never asks storage: restarting this process would not repair that."""
    return _health(context.services.health.heartbeat.reasons())


async def readyz(context: RequestContext) -> web.Response:
    return _health(await context.services.health.unready())


def _health(reasons: Sequence[Reason]) -> web.Response:
    told = [ReasonView(reason=one.reason, detail=one.detail) for one in reasons]
    return json_response(ReadyView("unavailable" if told else "ok", told), status=status_code(reasons))


async def metrics(context: RequestContext) -> web.Response:
    if context.settings.metrics_port is not None:
        raise NotFound("metrics are served on a separate port")
    return web.Response(body=await context.exposition.page(), headers={"Content-Type": CONTENT_TYPE, **SERVER})


ROUTES = (
    Route(
        method="GET",
        path="/livez",
        access=Access.OPEN,
        handler=livez,
        summary="Whether this process is live, and if not, why (503)",
        response=ReadyView,
        others={503: ReadyView},
    ),
    Route(
        method="GET",
        path="/readyz",
        access=Access.OPEN,
        handler=readyz,
        summary="Whether this process can do its work, and if not, why (503)",
        response=ReadyView,
        others={503: ReadyView},
    ),
    Route(
        method="GET",
        path="/metrics",
        access=Access.OPEN,
        handler=metrics,
        summary="Metrics for Prometheus, unless the operator serves them on a separate port",
        media=(CONTENT_TYPE,),
        problems=("not-found",),
    ),
)
