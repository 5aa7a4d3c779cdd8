"""What the listing of audits takes as query parameters, and the cursor that it goes on with."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from scheduler_service.api.cursor import seal, unseal
from scheduler_service.api.parameters import CURSOR, limit_parameter
from scheduler_service.domain.audits import AuditId
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId

MAX_AUDITS: Final = 100
"""Each of them may show a hundred findings."""
DEFAULT_AUDITS: Final = 20
_LIMIT: Final = limit_parameter(MAX_AUDITS, default=DEFAULT_AUDITS)
AUDIT_PARAMETERS: Final = (_LIMIT, CURSOR)

_LISTING: Final = "audits-1"
"""What this listing's cursors begin with; the number is that of their form."""


class _Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    listing: Literal["audits-1"]
    audit_id: AuditId


_decode = msgspec.msgpack.Decoder(_Cursor).decode


class AuditsAsked(NamedTuple):
    """How many at most, behind which (None: from the newest on)."""

    after: AuditId | None
    limit: int


def read_audit_listing(client_id: ClientId, query: Mapping[str, str]) -> AuditsAsked:
    """Raises Invalid."""
    faults: list[FieldError] = []
    limit = _LIMIT.of(query, faults) or DEFAULT_AUDITS
    after = None
    if "cursor" in query:
        try:
            after = unseal(client_id, query["cursor"], decode=_decode).audit_id
        except Invalid as invalid:
            faults += invalid.errors
    if faults:
        raise Invalid(faults)
    return AuditsAsked(after, limit)


def audit_cursor(client_id: ClientId, following: AuditId | None) -> str | None:
    """`following`: the one to go on behind; None: there are no more."""
    return None if following is None else seal(client_id, _Cursor(_LISTING, following))
