"""The audits of a client's books and their findings."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.paging import Cursor, Listing, seal
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.audits import Audit, AuditCounts, AuditFinding, AuditId
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.instants import format_instant

MAX_AUDITS: Final = 100
"""Each audit may show a hundred findings."""
DEFAULT_AUDITS: Final = 20


class _Cursor(Cursor, frozen=True, tag="audits-1"):
    audit_id: AuditId


_LISTING: Final = Listing(_Cursor, most=MAX_AUDITS, default=DEFAULT_AUDITS)
AUDIT_PARAMETERS: Final = _LISTING.parameters


class AuditsQuery(NamedTuple):
    """At most `limit` audits older than `after` (None: from the newest on)."""

    after: AuditId | None
    limit: int


def read_audit_listing(client_id: ClientId, query: Mapping[str, str]) -> AuditsQuery:
    """Raises Invalid."""
    cursor, limit = _LISTING.read(client_id, query)
    return AuditsQuery(None if cursor is None else cursor.audit_id, limit)


def audit_cursor(client_id: ClientId, following: AuditId | None) -> str | None:
    """`following`: the audit after which the next page begins; None: there are no more."""
    return None if following is None else seal(client_id, _Cursor(following))


class AuditCountsView(msgspec.Struct, frozen=True, kw_only=True):
    """The schedules of the window, counted from their rows. accepted is the sum of the others, unless a finding
    explains the difference."""

    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int


class AuditFindingView(msgspec.Struct, frozen=True, kw_only=True):
    """One violation. Fields that do not apply are null: it may concern a poller's minute, or a cron."""

    kind: str
    detail: str
    poller_id: int | None
    minute: Instant | None
    due: Instant | None
    schedule_id: str | None


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """One audit of the window from `from` to before `to`. `findings` counts them by kind, `shown` has the first of
    them; `repaired` counts repairs; `left_out` says what was not examined."""

    audit_id: str
    audited_at: Instant
    start: Instant = msgspec.field(name="from")
    end: Instant = msgspec.field(name="to")
    counts: AuditCountsView
    findings: dict[str, int]
    shown: list[AuditFindingView]
    repaired: dict[str, int]
    left_out: list[str]


def audit_view(audit: Audit) -> AuditView:
    return AuditView(
        audit_id=str(audit.audit_id),
        audited_at=format_instant(audit.audited_at),
        start=format_instant(audit.window_start),
        end=format_instant(audit.window_end),
        counts=counts_view(audit.counts),
        findings=audit.findings,
        shown=[_finding(finding) for finding in audit.shown],
        repaired=audit.repaired,
        left_out=list(audit.left_out),
    )


def counts_view(counts: AuditCounts) -> AuditCountsView:
    return AuditCountsView(**msgspec.structs.asdict(counts))


def _finding(finding: AuditFinding) -> AuditFindingView:
    instants = {name: getattr(finding, name) for name in ("minute", "due")}
    told = {name: None if instant is None else format_instant(instant) for name, instant in instants.items()}
    return AuditFindingView(**{**msgspec.structs.asdict(finding), **told})


async def list_audits(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    asked = read_audit_listing(client_id, context.query())
    page = await context.services.books.audits(client_id, after=asked.after, limit=asked.limit)
    return json_response(Items([audit_view(audit) for audit in page.items], audit_cursor(client_id, page.next)))


ROUTES = (
    Route(
        method="GET",
        path="/v1/clients/{client_id}/audits",
        access=Access.CLIENT,
        scope=Scope.READ,
        handler=list_audits,
        summary="List audits of the client's books, newest first",
        query=AUDIT_PARAMETERS,
        response=Items[AuditView],
        cost=5,
    ),
)
