"""The reconciliations of all clients that run."""

from typing import Final

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.paging import Cursor, Listing, seal
from scheduler_service.api.http.query import CursorText
from scheduler_service.api.http.route import RequestContext, Route, json_response
from scheduler_service.api.resources.reconciliations import (
    MAX_RECONCILIATIONS,
    ReconciliationView,
    reconciliation_view,
)
from scheduler_service.domain.minute_loads import ALL_CLIENTS
from scheduler_service.domain.reconciliations import ReconciliationId


class _Cursor(Cursor, frozen=True, tag="under-way-1"):
    after: ReconciliationId


_LISTING: Final = Listing(_Cursor, most=MAX_RECONCILIATIONS, default=20)
UNDER_WAY_PARAMETERS: Final = _LISTING.parameters


class ReconciliationsUnderWayView(msgspec.Struct, frozen=True, kw_only=True):
    """The reconciliations of all clients that run, as of some seconds ago."""

    items: list[ReconciliationView]
    """The oldest first."""
    left_out: int
    """How many more may run: too many have begun lately for one look, or they can't be read."""
    next_cursor: CursorText | None = None


async def list_reconciliations_under_way(context: RequestContext) -> web.Response:
    cursor, limit = _LISTING.read(ALL_CLIENTS, context.query())
    found = await context.services.reconciliations.under_way(
        after=None if cursor is None else cursor.after, limit=limit
    )
    view = ReconciliationsUnderWayView(
        items=[reconciliation_view(one) for one in found.items],
        left_out=found.left_out,
        next_cursor=seal(ALL_CLIENTS, _Cursor(found.items[-1].reconciliation_id)) if found.more else None,
    )
    return json_response(view)


ROUTES = (
    Route(
        method="GET",
        path="/v1/cluster/reconciliations",
        access=Access.ADMIN,
        handler=list_reconciliations_under_way,
        summary="List the reconciliations of all clients that run, the oldest first",
        query=UNDER_WAY_PARAMETERS,
        response=ReconciliationsUnderWayView,
        cost=20,
        reads_much=True,
    ),
)
