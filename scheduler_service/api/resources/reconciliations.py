"""Reconciliations: ask for one, look at it, list them, stop one."""

from uuid import UUID

from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body
from scheduler_service.api.http.route import CREATES, LOCATION, Call, Route, answer
from scheduler_service.api.idempotency import REPLAYED, keyed_of
from scheduler_service.api.page import Items
from scheduler_service.api.reconciliation_views import (
    RECONCILIATION_PARAMETERS,
    ReconciliationView,
    read_reconciliation_listing,
    reconciliation_cursor,
    reconciliation_view,
)
from scheduler_service.api.schemas import NoRequest
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.reconciliations import ReconciliationId
from scheduler_service.usecases.reconciliations import ReconciliationRequest

_RECONCILIATIONS = "/v1/clients/{client_id}/reconciliations"
_RECONCILIATION = _RECONCILIATIONS + "/{reconciliation_id}"
_REQUEST = Body(ReconciliationRequest)


async def create_reconciliation(call: Call) -> web.Response:
    client, requests = call.tenant, call.services.request_reconciliations
    requests.admit(client)
    data = await call.read()
    request, keyed, replayed = _REQUEST.decode(data, requests.faults), keyed_of(call, data), False
    created_by = call.principal.name if call.principal is not None else client.client_id
    if keyed is None:
        made = await requests.create(client, request, reconciliation_id=requests.new_id(), created_by=created_by)
    else:
        made, replayed = await requests.create_once(client, request, keyed, created_by=created_by)
    call.record(reconciliation_id=str(made.reconciliation_id))
    if replayed:
        return answer(reconciliation_view(made), headers=REPLAYED)
    location = f"/v1/clients/{client.client_id}/reconciliations/{made.reconciliation_id}"
    return answer(reconciliation_view(made), status=202, headers={"Location": location})


async def get_reconciliation(call: Call) -> web.Response:
    found = await call.services.show_reconciliations.one(call.tenant.client_id, _reconciliation_id(call))
    return answer(reconciliation_view(found))


async def list_reconciliations(call: Call) -> web.Response:
    client_id = call.tenant.client_id
    asked = read_reconciliation_listing(client_id, call.query())
    page = await call.services.show_reconciliations.page(client_id, before=asked.before, limit=asked.limit)
    views = [reconciliation_view(one) for one in page.items]
    return answer(Items(views, reconciliation_cursor(client_id, page.next)))


async def stop_reconciliation(call: Call) -> web.Response:
    reconciliation_id = _reconciliation_id(call)
    await call.no_body()
    stopped = await call.services.request_reconciliations.stop(call.tenant.client_id, reconciliation_id)
    call.record(state=stopped.state)
    return answer(reconciliation_view(stopped))


def _reconciliation_id(call: Call) -> ReconciliationId:
    """The id in the path. One that can't be ours names nothing."""
    text = call.path("reconciliation_id")
    try:
        value = UUID(text)
    except ValueError:
        value = None
    if value is None or str(value) != text.lower():
        raise NotFound("this client has no reconciliation of that id")
    return ReconciliationId(value)


ROUTES = (
    Route(
        method="POST",
        path=_RECONCILIATIONS,
        access=Access.CLIENT,
        handler=create_reconciliation,
        summary="Count, call again or cancel all schedules of a window that are in certain states, little by little",
        request=ReconciliationRequest,
        response=ReconciliationView,
        status=202,
        headers=LOCATION,
        others={200: ReconciliationView},
        idempotent=True,
        problems=(*CREATES, "too-many-reconciliations"),
        cost=10,
    ),
    Route(
        method="GET",
        path=_RECONCILIATION,
        access=Access.CLIENT,
        handler=get_reconciliation,
        summary="Look at a reconciliation: how far it has come, and what became of what it was about",
        response=ReconciliationView,
    ),
    Route(
        method="GET",
        path=_RECONCILIATIONS,
        access=Access.CLIENT,
        handler=list_reconciliations,
        summary="List reconciliations, the newest first",
        query=RECONCILIATION_PARAMETERS,
        response=Items[ReconciliationView],
        cost=2,
    ),
    Route(
        method="POST",
        path=_RECONCILIATION + ":stop",
        access=Access.CLIENT,
        handler=stop_reconciliation,
        summary="End a reconciliation where it is; what it has done stays done",
        request=NoRequest,
        response=ReconciliationView,
        problems=("reconciliation-finished",),
    ),
)
