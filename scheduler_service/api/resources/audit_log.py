"""The audit log: who did what as an administrator, or as a client about itself, and when; and what nodes decided."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.paging import WindowCursor, WindowListing, seal, until_now
from scheduler_service.api.http.route import Items, RequestContext, Route, json_response
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.audit_log import AuditEntry, EntryId, instant_of
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.instants import format_instant

MAX_DAYS: Final = 31
MAX_ENTRIES: Final = 1000
_NOBODYS: Final = ClientId("*")
"""The key of cursors of the whole log, which belong to no client: no client id can be `*`."""
_SOME_ADMINISTRATOR: Final = "administrator"


class AuditEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """An action of an administrator, with `by_client` of a client about itself, or of a node by itself, such as the
    pause of a cron whose runs fail. `actor` is the administrator's name, the client's, or `$system`: then `details`
    name the node, and `request_id` is empty. A client sees administrators without their names and keys. `key_id` is
    null for the configured key and for nodes; `action` is an operation of this API or, of the console, show_content;
    `target` the names in its path, `details` the ids of what it made or changed.

    `result`: done; refused (nothing was changed); or unknown (it may have been done). `status` null: no answer was
    recorded.
    """

    entry_id: UUID
    at: Instant
    actor: str
    key_id: str | None
    by_client: bool
    action: str
    client_id: str | None
    target: Mapping[str, str]
    request_id: str
    result: Literal["done", "refused", "unknown"]
    status: int | None
    problem: str | None
    details: Mapping[str, str | int]


class EntryCursor(WindowCursor, frozen=True, tag="audit-log-1"):
    entry_id: EntryId


_LISTING: Final = WindowListing(
    EntryCursor,
    start="The first instant to list. Left out: 24 hours before `to`.",
    end=f"The first instant not to list, at most {MAX_DAYS} days after `from`. Left out: now or, if that is earlier, "
    f"{MAX_DAYS} days after `from`.",
    left_out=until_now(longest_days=MAX_DAYS),
    longest_days=MAX_DAYS,
    most=MAX_ENTRIES,
)
AUDIT_LOG_PARAMETERS: Final = _LISTING.parameters


class AuditLogQuery(NamedTuple):
    """At most `limit` entries with start <= at < end, older than `after` (None: from the newest on)."""

    start: UnixMillis
    end: UnixMillis
    after: EntryId | None
    limit: int


def read_audit_log_listing(query: Mapping[str, str], *, now: int, whose: ClientId = _NOBODYS) -> AuditLogQuery:
    """Raises Invalid."""

    def fits(cursor: EntryCursor) -> bool:
        return cursor.start <= instant_of(cursor.entry_id) < cursor.end

    asked = _LISTING.read(whose, query, now=now, fits=fits)
    after = None if asked.cursor is None else asked.cursor.entry_id
    return AuditLogQuery(asked.start, asked.end, after, asked.limit)


def audit_log_cursor(asked: AuditLogQuery, following: EntryId | None, *, whose: ClientId = _NOBODYS) -> str | None:
    if following is None:
        return None
    return seal(whose, EntryCursor(asked.start, asked.end, following))


def audit_entry_view(entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(
        entry_id=entry.entry_id,
        at=format_instant(entry.at),
        actor=entry.actor,
        key_id=entry.key_id,
        by_client=entry.by_client,
        action=entry.action,
        client_id=entry.client_id,
        target=entry.target,
        request_id=entry.request_id,
        result=_result(entry.status),
        status=entry.status,
        problem=entry.problem,
        details=entry.details,
    )


def _for_clients(entry: AuditEntry) -> AuditEntry:
    """The entry as a client may see it: who administers is the operator's business."""
    if entry.by_client or entry.by_system:
        return entry
    return msgspec.structs.replace(entry, actor=_SOME_ADMINISTRATOR, key_id=None)


def _result(status: int | None) -> Literal["done", "refused", "unknown"]:
    if status is None or status >= 500:
        return "unknown"
    return "done" if status < 400 else "refused"


async def list_audit_log(context: RequestContext) -> web.Response:
    asked = read_audit_log_listing(context.query(), now=context.services.clock.wall_ms())
    page = await context.services.audit_log.page(
        None, start=asked.start, end=asked.end, after=asked.after, limit=asked.limit
    )
    return json_response(Items([audit_entry_view(entry) for entry in page.items], audit_log_cursor(asked, page.next)))


async def list_client_audit_log(context: RequestContext) -> web.Response:
    client_id = context.client.client_id
    asked = read_audit_log_listing(context.query(), now=context.services.clock.wall_ms(), whose=client_id)
    page = await context.services.audit_log.page(
        client_id, start=asked.start, end=asked.end, after=asked.after, limit=asked.limit
    )
    assert context.principal is not None
    entries = page.items if context.principal.client_id is None else map(_for_clients, page.items)
    cursor = audit_log_cursor(asked, page.next, whose=client_id)
    return json_response(Items([audit_entry_view(entry) for entry in entries], cursor))


ROUTES = (
    Route(
        method="GET",
        path="/v1/audit-log",
        access=Access.ADMIN,
        handler=list_audit_log,
        summary=f"List what administrators did, and clients about themselves, newest first, within {MAX_DAYS} days",
        query=AUDIT_LOG_PARAMETERS,
        response=Items[AuditEntryView],
        cost=5,
    ),
    Route(
        method="GET",
        path="/v1/clients/{client_id}/audit-log",
        access=Access.CLIENT,
        scope=Scope.MANAGE,
        handler=list_client_audit_log,
        summary=f"List what was done to a client, newest first, within {MAX_DAYS} days",
        query=AUDIT_LOG_PARAMETERS,
        response=Items[AuditEntryView],
        cost=5,
    ),
)
