"""What audits of a client's books found."""

from aiohttp import web

from scheduler_service.api.audit_listing import AUDIT_PARAMETERS, audit_cursor, read_audit_listing
from scheduler_service.api.audit_views import AuditView, audit_view
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Call, Route, answer
from scheduler_service.api.page import Items


async def list_audits(call: Call) -> web.Response:
    client_id = call.tenant.client_id
    asked = read_audit_listing(client_id, call.query())
    page = await call.services.show_job_results.audits(client_id, after=asked.after, limit=asked.limit)
    return answer(Items([audit_view(audit) for audit in page.items], audit_cursor(client_id, page.next)))


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/audits",
        access=Access.CLIENT,
        handler=list_audits,
        summary="What audits of the client's books found, newest first",
        query=AUDIT_PARAMETERS,
        response=Items[AuditView],
        cost=5,
    ),
)
