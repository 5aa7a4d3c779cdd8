"""What the audit log takes as query parameters, the cursor that it goes on with, and how entries are shown."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple
from uuid import UUID

import msgspec

from scheduler_service.api.cursor import disagreeing, is_window, no_cursor, seal, unseal
from scheduler_service.api.parameters import CURSOR, DEFAULT_LIMIT, instant_parameter, limit_parameter
from scheduler_service.api.schemas import Instant
from scheduler_service.domain.audit_log import AuditEntry, EntryId, instant_of
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import DAY_MS, ClientId, UnixMillis
from scheduler_service.domain.instants import format_instant

MAX_DAYS: Final = 31
MAX_ENTRIES: Final = 1000
MAX_WINDOW_MS: Final = MAX_DAYS * DAY_MS
_FROM: Final = instant_parameter("from", "The first instant to list. Left out: 24 hours before `to`.")
_TO: Final = instant_parameter(
    "to",
    f"The first instant not to list, at most {MAX_DAYS} days after `from`. Left out: now or, if that is earlier, "
    f"{MAX_DAYS} days after `from`.",
)
_LIMIT: Final = limit_parameter(MAX_ENTRIES)
AUDIT_LOG_PARAMETERS: Final = (_FROM, _TO, _LIMIT, CURSOR)

_LISTING: Final = "audit-log-1"
"""What this listing's cursors begin with; the number is that of their form."""
_NOBODYS: Final = ClientId("*")
"""The cursors are of no client: none can be called so."""


class AuditEntryView(msgspec.Struct, frozen=True, kw_only=True):
    """What an administrator did. `actor` is the administrator's name, `key_id` null for the key from configuration;
    `action` an operation of this API, `target` the names in its path, `details` the ids of what was done.

    `result`: done; refused, then nothing was changed; or unknown, then it may have been done. `status` null: no answer
    was recorded."""

    entry_id: UUID
    at: Instant
    actor: str
    key_id: str | None
    action: str
    client_id: str | None
    target: Mapping[str, str]
    request_id: str
    result: Literal["done", "refused", "unknown"]
    status: int | None
    problem: str | None
    details: Mapping[str, str | int]


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    listing: Literal["audit-log-1"]
    start: UnixMillis
    end: UnixMillis
    entry_id: EntryId


_decode = msgspec.msgpack.Decoder(_Cursor).decode


class AuditLogAsked(NamedTuple):
    """Entries with start <= at < end behind `after` (None: from the newest on), and how many at most."""

    start: UnixMillis
    end: UnixMillis
    after: EntryId | None
    limit: int


def read_audit_log_listing(query: Mapping[str, str], *, now: int) -> AuditLogAsked:
    """`from` is included and defaults to 24 hours before `to`; `to` is excluded and defaults to now or, if that is
    earlier, 31 days after `from`. A cursor carries the listing that it came from. Raises Invalid."""
    faults: list[FieldError] = []
    limit = _LIMIT.of(query, faults) or DEFAULT_LIMIT
    start, end = _FROM.of(query, faults), _TO.of(query, faults)
    if "cursor" in query:
        try:
            cursor = unseal(_NOBODYS, query["cursor"], decode=_decode)
            within = cursor.start <= instant_of(cursor.entry_id) < cursor.end
            if not within or not is_window(cursor.start, cursor.end, longest_ms=MAX_WINDOW_MS):
                raise no_cursor()
        except Invalid as invalid:
            raise Invalid([*faults, *invalid.errors]) from None
        faults += disagreeing((("from", start, cursor.start), ("to", end, cursor.end)))
        if faults:
            raise Invalid(faults)
        return AuditLogAsked(cursor.start, cursor.end, cursor.entry_id, limit)
    if faults:
        raise Invalid(faults)
    if end is None:
        # What was done this very millisecond is done.
        end = UnixMillis(now + 1 if start is None else max(start + 1, min(now + 1, start + MAX_WINDOW_MS)))
    first = UnixMillis(max(end - DAY_MS, 0)) if start is None else start
    if not first < end:
        raise Invalid([FieldError("/to", "must be after from")])
    if end - first > MAX_WINDOW_MS:
        raise Invalid([FieldError("/to", f"is more than {MAX_DAYS} days after from; take one month at a time")])
    return AuditLogAsked(first, end, None, limit)


def audit_log_cursor(asked: AuditLogAsked, following: EntryId | None) -> str | None:
    if following is None:
        return None
    return seal(_NOBODYS, _Cursor(_LISTING, asked.start, asked.end, following))


def audit_entry_view(entry: AuditEntry) -> AuditEntryView:
    named = entry.target.get("client_id")
    return AuditEntryView(
        entry_id=entry.entry_id,
        at=format_instant(entry.at),
        actor=entry.actor,
        key_id=entry.key_id,
        action=entry.action,
        client_id=named,
        target=entry.target,
        request_id=entry.request_id,
        result=_result(entry.status),
        status=entry.status,
        problem=entry.problem,
        details=entry.details,
    )


def _result(status: int | None) -> Literal["done", "refused", "unknown"]:
    if status is None or status >= 500:
        return "unknown"
    return "done" if status < 400 else "refused"
