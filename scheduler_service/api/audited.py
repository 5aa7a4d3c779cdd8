"""The audit log around the handlers of routes that change something: `usecases.audit_log` says what holds.

Every use of such a route by an administrator is recorded, also on a client's own routes; what a client's key does is
not. Which routes these are follows from the route table (`Route.changes`), so that no handler can forget it. A handler
says what it did by `Call.record` or `Call.log`: those ids are the entry's details.
"""

from aiohttp import web

from membership.errors import MinutehandError
from scheduler_service.api.http.route import Call, Handler, Route
from scheduler_service.api.openapi.document import operation_id
from scheduler_service.api.problems import Problem, internal_problem, problem_of
from scheduler_service.domain.audit_log import AuditEntry
from scheduler_service.runtime.logging import get_logger

_log = get_logger("minutehand.api")


def audited(route: Route) -> Handler:
    """The route's handler; for administrators with an entry begun before it and ended behind it."""
    action, handler = operation_id(route), route.handler

    async def handle(call: Call) -> web.Response:
        assert call.principal is not None
        if call.principal.client_id is not None:
            return await handler(call)
        entry = await call.services.audit_log.begin(
            call.principal, action=action, target=call.request.match_info, request_id=call.request_id
        )
        try:
            response = await handler(call)
        except MinutehandError as error:
            await _refused(call, entry, problem_of(error, request_id=call.request_id))
            raise
        except Exception:
            await _refused(call, entry, internal_problem(request_id=call.request_id))
            raise
        await _end(call, entry, status=response.status, problem=None)
        return response

    return handle


async def _refused(call: Call, entry: AuditEntry, problem: Problem) -> None:
    await _end(call, entry, status=problem.status, problem=problem.type.rpartition("/")[2])


async def _end(call: Call, entry: AuditEntry, *, status: int, problem: str | None) -> None:
    if not await call.services.audit_log.end(entry, status=status, problem=problem, details=call.recorded):
        _log.error(
            "audit-end-unrecorded",
            entry_id=str(entry.entry_id),
            operation=entry.action,
            by=entry.actor,
            request_id=entry.request_id,
            status=status,
        )
