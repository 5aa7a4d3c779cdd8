"""The wrapper around every handler: request id, key, time limit, refusals, metrics. There is no middleware.

    request id -> key -> may this key use this route -> does the client exist -> handler -> answer, or a problem

Every error ends here as a problem document; no message of storage, a driver or Python reaches the caller.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web
from multidict import MultiMapping

from membership.errors import MinutehandError, StoreUnavailable
from scheduler_service.api.health import ApiHealth
from scheduler_service.api.http.auth import Access, authorize
from scheduler_service.api.http.preconditions import refuse_preconditions
from scheduler_service.api.http.route import (
    SERVER,
    Documents,
    Handler,
    RequestContext,
    Route,
    json_body,
    operation_id,
)
from scheduler_service.api.http.timeouts import Deadlines
from scheduler_service.api.http.wire import Wire, WireForm
from scheduler_service.api.metrics import ApiMetrics
from scheduler_service.api.problems import CONTENT_TYPE, Problem, Refusal, internal_problem, problem_of
from scheduler_service.api.request_budget import ANSWER_BYTES_PER_UNIT, too_many
from scheduler_service.api.services import ApiServices
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.audit_log import AuditEntry
from scheduler_service.domain.clients import CLIENT_ID_PATTERN, Scope
from scheduler_service.domain.errors import NotFound, Overloaded, SecretLocked
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.traces import TRACEPARENT, TRACESTATE
from scheduler_service.domain.trial_calls import TrialCallsFull
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import PageMaker
from scheduler_service.usecases.authenticate import Principal
from scheduler_service.usecases.clients import refuse_built_in

REQUEST_ID = "X-Request-Id"
_SANE_ID = re.compile(r"[\x21-\x7e]{1,128}")
_CLIENT_ID = re.compile(r"\$?" + CLIENT_ID_PATTERN.strip("^$"))
_PROBLEM_HEADERS = {"Content-Type": CONTENT_TYPE, **SERVER}
_log = get_logger("minutehand.api")

PRINCIPAL: Final = web.RequestKey("principal", Principal)
"""Who sends a request that this process makes itself, for a session of the console; nothing from outside sets it."""

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The collaborators that all endpoints of an application share."""

    services: ApiServices
    settings: ApiSettings
    metrics: ApiMetrics
    deadlines: Deadlines
    documents: Documents
    exposition: PageMaker


class HasHeaders(Protocol):
    """A request, or a parsed message that has become none yet."""

    @property
    def headers(self) -> MultiMapping[str]: ...


def request_id_of(request: HasHeaders, services: ApiServices) -> str:
    """The caller's id if it is safe in a header and a log line, else a new one."""
    given = request.headers.get(REQUEST_ID)
    if given is not None and _SANE_ID.fullmatch(given):
        return given
    return f"{services.randomness.bits(96):024x}"


def trace_headers(request: HasHeaders) -> tuple[str | None, str | None]:
    """The caller's `traceparent` and `tracestate`."""
    headers = request.headers
    parents = headers.getall(TRACEPARENT, ())
    # W3C lets a list of several lines be one, and a second parent make both invalid.
    return (parents[0], ",".join(headers.getall(TRACESTATE, ()))) if len(parents) == 1 else (None, None)


def problem_response(
    problem: Problem, *, error: Exception | None = None, retry_after: int = 1, wire: WireForm | None = None
) -> web.Response:
    """`wire`: the one whose form the answer has; None: that of a problem document."""
    headers = {**_PROBLEM_HEADERS, REQUEST_ID: problem.request_id}
    if problem.status == 503:
        headers["Retry-After"] = str(retry_after)
    elif problem.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="minutehand"'
    if isinstance(error, Refusal):
        headers.update(error.headers)
    if wire is not None:
        status, body = wire.refusal(problem, error)
        encoded = body if isinstance(body, bytes) else json_body(body)
        return web.Response(body=encoded, status=status, headers={**headers, **wire.headers})
    return web.Response(body=json_body(problem), status=problem.status, headers=headers)


def endpoint(route: Route, around: Surroundings, wire: WireForm | None = None) -> Endpoint:
    """The aiohttp handler of a route. `wire`: the one that it belongs to."""
    services, settings = around.services, around.settings
    series = around.metrics.route(route.method, route.path)
    # Who uses an open route is known to its handler only.
    handler = audited(route) if route.changes and route.access is not Access.OPEN else route.handler
    deadlines, health = around.deadlines, services.health
    storage = health.storage
    monotonic, exposition, documents = services.clock.monotonic, around.exposition, around.documents
    costs = route.cost > 0 and route.access is not Access.OPEN
    traces = services.traces if route.changes else None
    touches_storage = route.access in (Access.CLIENT, Access.ADMIN, Access.CONFIGURED_ADMIN)

    async def handle(request: web.Request) -> web.StreamResponse:
        began = monotonic()
        deadline = deadlines.begin(began)
        context = RequestContext(
            request,
            route=route,
            request_id=request_id_of(request, services),
            services=services,
            settings=settings,
            exposition=exposition,
            documents=documents,
            deadline=deadline,
        )
        traced = None if traces is None else traces.begin(*trace_headers(request))
        try:
            await _admit(context, route, wire if isinstance(wire, Wire) else None)
            response: web.StreamResponse = await (_in_turn(context, handler) if route.reads_much else handler(context))
            response.headers[REQUEST_ID] = context.request_id
            if costs:
                context.spend((response.content_length or 0) / ANSWER_BYTES_PER_UNIT)
            if touches_storage and storage.doubted:
                storage.worked()
        except asyncio.CancelledError:
            # Cancelled by its own deadline, it is answered; cancelled from outside, it must stay cancelled.
            if not deadline.expired or deadline.task is None:
                raise
            # The connection's task goes on to its next request, so the cancellation must not stay pending on it.
            deadline.task.uncancel()
            too_late = _too_slow(context)
            response = refused(too_late, request_id=context.request_id, settings=settings, health=health, wire=wire)
        except MinutehandError as error:
            response = refused(error, request_id=context.request_id, settings=settings, health=health, wire=wire)
        except (ConnectionError, web.HTTPException):
            # The peer has left (see `Connection.handle_error`), or aiohttp answers by itself.
            raise
        except Exception as error:
            response = crashed(error, route, request_id=context.request_id, wire=wire)
        finally:
            deadline.disarm()
            context.release()
            if traced is not None:
                traced.leave()
        if health.stopping:
            response.force_close()
        series.answered(response.status, monotonic() - began)
        if traced is not None:
            traced.end(status=response.status)
        return response

    return handle


def not_found(around: Surroundings, wire: WireForm | None = None) -> Endpoint:
    """The endpoint for paths without a route; for those of a wire below its prefix."""
    detail = "there is no such path; " + ("the paths begin with /v1" if wire is None else f"{wire.name} has no other")

    async def handle(request: web.Request) -> web.Response:
        problem = problem_of(NotFound(detail), request_id=request_id_of(request, around.services))
        return problem_response(problem, wire=wire)

    return handle


def moved(path: str, location: str, around: Surroundings) -> Endpoint:
    """The endpoint for a path that people type instead of `location`, which is relative to it."""
    series, monotonic = around.metrics.route("GET", path), around.services.clock.monotonic

    async def handle(request: web.Request) -> web.Response:
        began = monotonic()
        headers = {"Location": location, REQUEST_ID: request_id_of(request, around.services), **SERVER}
        response = web.Response(status=308, headers=headers)
        if around.services.health.stopping:
            response.force_close()
        series.answered(response.status, monotonic() - began)
        return response

    return handle


def method_not_allowed(around: Surroundings, allowed: str, wire: WireForm | None = None) -> Endpoint:
    """The endpoint for methods that a path does not have. `allowed`: the value of the Allow header."""

    async def handle(request: web.Request) -> web.Response:
        error = Refusal("method-not-allowed", f"this path allows {allowed}", headers={"Allow": allowed})
        problem = problem_of(error, request_id=request_id_of(request, around.services))
        return problem_response(problem, error=error, wire=wire)

    return handle


async def _admit(context: RequestContext, route: Route, wire: Wire | None) -> None:
    """Check the key, its budget, the client in the path, or of the wire, and the names of the query parameters.

    Raises Unauthenticated, Refusal, Forbidden, NotFound, Conflict for built-in clients, Invalid, StoreUnavailable.
    """
    if route.access is Access.OPEN:
        return
    services, request = context.services, context.request
    if wire is None:
        known = request.get(PRINCIPAL)
        context.principal = known or await services.authenticate(request.headers.get("Authorization"))
        client_id = request.match_info.get("client_id")
    else:
        context.principal = await wire.principal(request, authenticate=services.authenticate, catalog=services.catalog)
        client_id = wire.client_id
    if route.cost:
        services.request_budget.take(context.principal, route.cost)
    authorize(route.access, route.scope, context.principal, client_id)
    if context.principal.client is not None:
        # `authorize` has compared it with the client in the path.
        context.admitted = context.principal.client
        if route.scope is Scope.MANAGE and route.changes:
            services.request_budget.take_change(context.admitted.client_id)
    elif wire is not None:
        context.admitted = await wire.client(services.catalog)
    elif route.access is Access.CLIENT and client_id is not None:
        if _CLIENT_ID.fullmatch(client_id) is None:
            raise NotFound(f"there is no client {client_id[:128]!r}")
        context.admitted = await services.catalog.client(ClientId(client_id))
        if route.changes:
            refuse_built_in(context.admitted)
    if request.rel_url.raw_query_string:
        context.query()
    if not route.conditional and not route.reads:
        refuse_preconditions(request)


async def _in_turn(context: RequestContext, handler: Handler) -> web.StreamResponse:
    """Handle it when its caller has a free turn. Raises Refusal if earlier requests have used up the budget."""
    assert context.principal is not None
    context.queued = True
    async with context.services.request_budget.turn(context.principal):
        context.queued = False
        return await handler(context)


def _too_slow(context: RequestContext) -> MinutehandError:
    if context.queued:
        return too_many("earlier requests of this connection are still under way", 1)
    if context.reading:
        return Refusal("request-timeout", "the body did not arrive in time", headers={"Connection": "close"})
    return too_slow()


def too_slow() -> MinutehandError:
    """The error of a request that timed out where only storage can have held it up."""
    return StoreUnavailable("no answer within the request's time-out")


def refused(
    error: MinutehandError, *, request_id: str, settings: ApiSettings, health: ApiHealth, wire: WireForm | None = None
) -> web.Response:
    """The answer to a request that failed. `health` hears of storage failures and of shedding, the log of the rest that
    an operator must know."""
    if isinstance(error, Overloaded):
        if not isinstance(error, TrialCallsFull):
            health.shedding.refused()
    elif isinstance(error, StoreUnavailable):
        health.storage.failed(str(error))
    elif isinstance(error, SecretLocked):
        _log.error("secret-locked", request_id=request_id, reason=str(error))
    problem = problem_of(error, request_id=request_id)
    if problem.status == 500:
        _log.error("request-failed", request_id=request_id, error=type(error).__name__)
    return problem_response(problem, error=error, retry_after=settings.retry_after_seconds, wire=wire)


def crashed(error: Exception, route: Route, *, request_id: str, wire: WireForm | None = None) -> web.Response:
    """The answer to a request whose handler raised an unhandled exception, which is logged."""
    _log.error("request-crashed", route=f"{route.method} {route.path}", request_id=request_id, exc_info=error)
    return problem_response(internal_problem(request_id=request_id), wire=wire)


def audited(route: Route) -> Handler:
    """The handler of a route that changes something, with an audit log entry begun before it and ended after it.

    Every use of such a route by an administrator is recorded, also on a client's own routes; uses by a client's key are
    where they need the scope `manage` or the route says so (`Route.recorded`). The route table decides which routes
    these are (`Route.changes`), so that no handler can forget it. A handler reports what it did by
    `RequestContext.record` or `RequestContext.log`: those ids become the entry's details. `usecases.audit_log` states
    the guarantees.
    """
    action, handler = operation_id(route), route.handler

    async def handle(context: RequestContext) -> web.StreamResponse:
        assert context.principal is not None
        if context.principal.client_id is not None and route.scope is not Scope.MANAGE and not route.recorded:
            return await handler(context)
        target = {**context.request.match_info}
        if context.admitted is not None:
            # It is not in the paths of a wire.
            target["client_id"] = context.admitted.client_id
        return await under_audit(context, action=action, target=target, handler=handler)

    return handle


async def under_audit(
    context: RequestContext, *, action: str, target: Mapping[str, str], handler: Handler
) -> web.StreamResponse:
    """What `handler` answers, with an audit log entry about `target` begun before it and ended after it."""
    assert context.principal is not None
    entry = await context.services.audit_log.begin(
        context.principal, action=action, target=target, request_id=context.request_id
    )
    try:
        response = await handler(context)
    except MinutehandError as error:
        await _refused(context, entry, problem_of(error, request_id=context.request_id))
        raise
    except Exception:
        await _refused(context, entry, internal_problem(request_id=context.request_id))
        raise
    await _end(context, entry, status=response.status, problem=None)
    return response


async def _refused(context: RequestContext, entry: AuditEntry, problem: Problem) -> None:
    await _end(context, entry, status=problem.status, problem=problem.type.rpartition("/")[2])


async def _end(context: RequestContext, entry: AuditEntry, *, status: int, problem: str | None) -> None:
    if not await context.services.audit_log.end(entry, status=status, problem=problem, details=context.recorded):
        _log.error(
            "audit-end-unrecorded",
            entry_id=str(entry.entry_id),
            operation=entry.action,
            by=entry.actor,
            request_id=entry.request_id,
            status=status,
        )
