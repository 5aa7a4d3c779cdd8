"""What probes and monitoring ask. Open to everybody, and cheap however often it is asked."""

from aiohttp import web
from prometheus_client import generate_latest

from scheduler_service.api.auth import Access
from scheduler_service.api.route import SERVER, Call, Route, answer
from scheduler_service.api.schemas import ReadyView
from scheduler_service.runtime.metrics import CONTENT_TYPE

_LIVE = ReadyView("ok")


async def livez(call: Call) -> web.Response:
    """The loop turns. Never asks storage: restarting this process would not bring that back."""
    return answer(_LIVE)


async def readyz(call: Call) -> web.Response:
    if await call.services.probe_storage():
        return answer(_LIVE)
    return answer(ReadyView("unavailable", ["storage is not reachable"]), status=503)


async def metrics(call: Call) -> web.Response:
    return web.Response(body=generate_latest(call.registry), headers={"Content-Type": CONTENT_TYPE, **SERVER})


ROUTES = (
    Route(
        method="GET",
        path="/livez",
        access=Access.OPEN,
        handler=livez,
        summary="Whether this process is alive",
        response=ReadyView,
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
        summary="Metrics for Prometheus",
        media=(CONTENT_TYPE,),
    ),
)
