"""The pages behind the types of problem documents."""

from aiohttp import web

from scheduler_service.api.auth import Access
from scheduler_service.api.problems import KINDS
from scheduler_service.api.route import SERVER, Call, Route
from scheduler_service.domain.errors import NotFound


async def get_problem(call: Call) -> web.Response:
    kind = KINDS.get(call.path("kind"))
    if kind is None:
        raise NotFound(f"there is no such problem; known are {', '.join(KINDS)}")
    return web.Response(text=f"{kind.title}\n\nHTTP status {kind.status}. {kind.advice}\n", headers=SERVER)


ROUTES = (
    Route(
        method="GET",
        path="/problems/{kind}",
        access=Access.ANY,
        handler=get_problem,
        summary="What a type of problem means and what to do about it",
    ),
)
