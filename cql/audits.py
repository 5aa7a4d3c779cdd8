"""Reports of audits."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from cql.connection import Connection
from scheduler_service.domain.audits import Audit, AuditCounts, AuditFinding, AuditId
from scheduler_service.domain.ids import ClientId, UnixMillis

_NEWEST = UUID(int=(1 << 128) - 1)


class _Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The column `report`."""

    counts: AuditCounts = AuditCounts()
    findings: dict[str, int] = {}
    shown: tuple[AuditFinding, ...] = ()
    repaired: dict[str, int] = {}
    left_out: tuple[str, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Report).decode


class CqlAuditStore:
    """`domain.ports.AuditStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def insert(self, audit: Audit) -> None:
        report = _Report(**{name: getattr(audit, name) for name in _Report.__struct_fields__})
        parameters = (
            audit.client_id,
            audit.audit_id,
            audit.window_start,
            audit.window_end,
            _encode(report).decode(),
        )
        await self._connection.write("audits.insert", parameters)

    async def read_page(
        self, client_id: ClientId, *, after: AuditId | None = None, limit: int = 100
    ) -> Sequence[Audit]:
        rows = await self._connection.select("audits.read", (client_id, after or _NEWEST, limit))
        return [_audit(*values) for values in rows]


def _audit(client_id: ClientId, audit_id: AuditId, start: UnixMillis, end: UnixMillis, report: str) -> Audit:
    told = _decode(report)
    return Audit(
        client_id=client_id,
        audit_id=audit_id,
        window_start=start,
        window_end=end,
        **{name: getattr(told, name) for name in _Report.__struct_fields__},
    )
