"""An operation of GoScheduler's wire, and what surrounds its handler.

    endpoint (`api.http.endpoint`): request id, time limit, metrics
        -> who calls, and is it permitted (`callers`) -> budget -> handler
    -> answer; or a problem, which gets GoScheduler's form (`envelope`)

To that endpoint all of them are open routes, because who may call is judged here.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from membership.errors import MinutehandError
from scheduler_service.api.goscheduler.callers import Apps
from scheduler_service.api.goscheduler.envelope import WireRefusal, failure
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.endpoint import Endpoint, Surroundings, endpoint, refused
from scheduler_service.api.http.route import JSON, RequestContext, Route, json_body
from scheduler_service.api.problems import CONTENT_TYPE, Problem
from scheduler_service.api.request_budget import ANSWER_BYTES_PER_UNIT
from scheduler_service.domain.clients import Scope

PREFIX: Final = "/goscheduler"
SUMMARY: Final = "As GoScheduler has it"
Handler = Callable[[RequestContext, Apps], Awaitable[web.Response]]
ResponseT = TypeVar("ResponseT", bound=web.StreamResponse)
_decode_problem = msgspec.json.Decoder(Problem).decode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """`paths`: that of GoScheduler's program, then that of its README where it differs. `scope`: what a client's key
    needs. `cost`, `reads_much`: as of `Route`. `audited`: the audit log has every use of it, by any caller; its handler
    sees to that."""

    methods: tuple[str, ...]
    paths: tuple[str, ...]
    handler: Handler
    scope: Scope
    cost: float = 1.0
    reads_much: bool = False
    audited: bool = False

    def routes(self) -> list[Route]:
        async def handle(context: RequestContext) -> web.Response:
            return await self._entered(context)

        return [
            Route(
                method=method, path=PREFIX + path, access=Access.OPEN, handler=handle, summary=SUMMARY, cost=self.cost
            )
            for path in self.paths
            for method in self.methods
        ]

    async def _entered(self, context: RequestContext) -> web.Response:
        services = context.services
        try:
            principal, apps = await services.goscheduler_callers(context.request, self.scope)
            context.principal = principal
            if self.cost:
                services.request_budget.take(principal, self.cost)
            if self.reads_much:
                async with services.request_budget.turn(principal):
                    response = await self.handler(context, apps)
            else:
                response = await self.handler(context, apps)
            if self.cost:
                context.spend((response.content_length or 0) / ANSWER_BYTES_PER_UNIT)
            return response
        except MinutehandError as error:
            answer = refused(error, request_id=context.request_id, settings=context.settings, health=services.health)
            return _enveloped(answer, context.request, code=error.code if isinstance(error, WireRefusal) else None)


def goscheduler_endpoint(route: Route, around: Surroundings) -> Endpoint:
    """The aiohttp handler of a route of an operation: what ends beside it, such as a request that timed out, gets
    GoScheduler's form too."""
    handle = endpoint(route, around)

    async def enveloped(request: web.Request) -> web.StreamResponse:
        return _enveloped(await handle(request), request, code=None)

    return enveloped


def query_of(context: RequestContext) -> Mapping[str, str]:
    """The query parameters: known or not, and the first of repeated ones."""
    query = context.request.query
    return {name: query.getall(name)[0] for name in query}


def _enveloped(response: ResponseT, request: web.Request, *, code: int | None) -> ResponseT:
    if not isinstance(response, web.Response) or response.headers.get("Content-Type") != CONTENT_TYPE:
        return response
    assert isinstance(response.body, bytes)
    status, body = failure(_decode_problem(response.body), code=code, changes=request.method not in ("GET", "HEAD"))
    # The same answer, because it may say already that it is the last one of its connection.
    response.set_status(status)
    response.body = json_body(body)
    response.headers["Content-Type"] = JSON
    return response
