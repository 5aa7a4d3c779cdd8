"""What the listing of audits takes as query parameters, and the cursor that it goes on with."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from scheduler_service.api.http.paging import Cursor, Listing, seal
from scheduler_service.domain.audits import AuditId
from scheduler_service.domain.ids import ClientId

MAX_AUDITS: Final = 100
"""Each of them may show a hundred findings."""
DEFAULT_AUDITS: Final = 20


class _Cursor(Cursor, frozen=True, tag="audits-1"):
    audit_id: AuditId


_LISTING: Final = Listing(_Cursor, most=MAX_AUDITS, default=DEFAULT_AUDITS)
AUDIT_PARAMETERS: Final = _LISTING.parameters


class AuditsAsked(NamedTuple):
    """How many at most, behind which (None: from the newest on)."""

    after: AuditId | None
    limit: int


def read_audit_listing(client_id: ClientId, query: Mapping[str, str]) -> AuditsAsked:
    """Raises Invalid."""
    cursor, limit = _LISTING.read(client_id, query)
    return AuditsAsked(None if cursor is None else cursor.audit_id, limit)


def audit_cursor(client_id: ClientId, following: AuditId | None) -> str | None:
    """`following`: the one to go on behind; None: there are no more."""
    return None if following is None else seal(client_id, _Cursor(following))
