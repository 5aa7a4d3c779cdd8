"""The audit log: who did which administrator's action, and when."""

from aiohttp import web

from scheduler_service.api.audit_log_listing import (
    AUDIT_LOG_PARAMETERS,
    MAX_DAYS,
    AuditEntryView,
    audit_entry_view,
    audit_log_cursor,
    read_audit_log_listing,
)
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Call, Route, answer
from scheduler_service.api.page import Items


async def list_audit_log(call: Call) -> web.Response:
    asked = read_audit_log_listing(call.query(), now=call.services.clock.wall_ms())
    page = await call.services.audit_log.page(start=asked.start, end=asked.end, after=asked.after, limit=asked.limit)
    return answer(Items([audit_entry_view(entry) for entry in page.items], audit_log_cursor(asked, page.next)))


ROUTES = (
    Route(
        method="GET",
        path="/v1/audit-log",
        access=Access.ADMIN,
        handler=list_audit_log,
        summary=f"Who did which administrator's action, newest first, within a window of {MAX_DAYS} days",
        query=AUDIT_LOG_PARAMETERS,
        response=Items[AuditEntryView],
        cost=5,
    ),
)
