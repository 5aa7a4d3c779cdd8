"""The newest audit of each client's books."""

from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.paging import Cursor, Listing, seal
from scheduler_service.api.http.query import CursorText
from scheduler_service.api.http.route import RequestContext, Route, json_response
from scheduler_service.api.resources.audits import DEFAULT_AUDITS, MAX_AUDITS, AuditCountsView, counts_view
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.audits import Audit
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.minute_loads import ALL_CLIENTS
from scheduler_service.usecases.latest_audits import audit_rank


class _Cursor(Cursor, frozen=True, tag="latest-audits-1"):
    findings: Annotated[int, Meta(ge=0)]
    client_id: ClientId


_LISTING: Final = Listing(_Cursor, most=MAX_AUDITS, default=DEFAULT_AUDITS)
LATEST_AUDITS_PARAMETERS: Final = _LISTING.parameters


class LatestAuditView(msgspec.Struct, frozen=True, kw_only=True):
    """A client's newest audit, of the window from `from` to before `to`. `findings` counts them by kind; the client's
    own list of audits shows them. `repaired` counts repairs; `left_out` says what was not examined."""

    client_id: str
    audit_id: str
    audited_at: Instant
    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    counts: AuditCountsView
    findings: dict[str, int]
    repaired: dict[str, int]
    left_out: list[str]


class LatestAuditsView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest audit of each client, as of some seconds ago."""

    items: list[LatestAuditView]
    """Those with most findings first."""
    clients: int
    """How many have an audit."""
    clients_unaudited: int
    """How many have none: they are new, or had no schedules."""
    clients_left_out: int
    """How many were not looked at: there are too many, and these have the last ids."""
    findings_standing: int | None
    """Findings of runs over all clients that no newer run over the same window supersedes, also where the newest audit
    found nothing; null: there was no such run."""
    next_cursor: CursorText | None = None


def latest_audit_view(audit: Audit) -> LatestAuditView:
    return LatestAuditView(
        client_id=audit.client_id,
        audit_id=str(audit.audit_id),
        audited_at=format_instant(audit.audited_at),
        start=format_instant(audit.window_start),
        end=format_instant(audit.window_end),
        counts=counts_view(audit.counts),
        findings=audit.findings,
        repaired=audit.repaired,
        left_out=list(audit.left_out),
    )


async def list_latest_audits(context: RequestContext) -> web.Response:
    cursor, limit = _LISTING.read(ALL_CLIENTS, context.query())
    after = None if cursor is None else (cursor.findings, cursor.client_id)
    found = await context.services.books.latest_audits(after=after, limit=limit)
    following = None
    if found.more:
        findings, client_id = audit_rank(found.items[-1])
        following = seal(ALL_CLIENTS, _Cursor(-findings, client_id))
    view = LatestAuditsView(
        items=[latest_audit_view(one) for one in found.items],
        clients=found.clients,
        clients_unaudited=found.unaudited,
        clients_left_out=found.left_out,
        findings_standing=found.standing,
        next_cursor=following,
    )
    return json_response(view)


ROUTES = (
    Route(
        method="GET",
        path="/v1/cluster/audits",
        access=Access.ADMIN,
        handler=list_latest_audits,
        summary="List the newest audit of each client's books, those with most findings first",
        query=LATEST_AUDITS_PARAMETERS,
        response=LatestAuditsView,
        cost=20,
        reads_much=True,
    ),
)
