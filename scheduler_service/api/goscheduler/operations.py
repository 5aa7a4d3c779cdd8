"""An operation of GoScheduler's wire, and what surrounds its handler.

    endpoint (`api.http.endpoint`): request id, time limit, metrics
        -> who calls, and is it permitted (`callers`) -> budget -> handler
    -> answer; or a problem, in GoScheduler's form (`envelope`)

To that endpoint all of them are open routes, because who may call is judged here.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from scheduler_service.api.goscheduler.callers import Apps
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import RequestContext, Route
from scheduler_service.api.request_budget import ANSWER_BYTES_PER_UNIT
from scheduler_service.domain.clients import Scope

PREFIX: Final = "/goscheduler"
SUMMARY: Final = "As GoScheduler has it"
Handler = Callable[[RequestContext, Apps], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operation:
    """`paths`: that of GoScheduler's program, then that of its README where it differs. `scope`: what a client's key
    needs; None: no client's key will do. `cost`, `reads_much`: as of `Route`. `audited`: the audit log has every use of
    it, by any caller; its handler sees to that."""

    methods: tuple[str, ...]
    paths: tuple[str, ...]
    handler: Handler
    scope: Scope | None
    cost: float = 1.0
    reads_much: bool = False
    audited: bool = False

    def routes(self) -> list[Route]:
        async def handle(context: RequestContext) -> web.StreamResponse:
            return await self._entered(context)

        return [
            Route(
                method=method, path=PREFIX + path, access=Access.OPEN, handler=handle, summary=SUMMARY, cost=self.cost
            )
            for path in self.paths
            for method in self.methods
        ]

    async def _entered(self, context: RequestContext) -> web.StreamResponse:
        services = context.services
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


def query_of(context: RequestContext) -> Mapping[str, str]:
    """The query parameters: known or not, and the first of repeated ones."""
    query = context.request.query
    return {name: query.getall(name)[0] for name in query}
