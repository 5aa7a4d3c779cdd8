"""The audit log."""

from collections.abc import Sequence
from typing import Any

import msgspec

from cql.connection import Connection
from scheduler_service.domain.audit_log import AuditEntry, EntryId, entry_id_before, first_entry_id, instant_of
from scheduler_service.domain.ids import DAY_MS, ClientId

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_target = msgspec.json.Decoder(dict[str, str]).decode
_decode_details = msgspec.json.Decoder(dict[str, str | int]).decode


class CqlAuditLogStore:
    """`domain.ports.AuditLogStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self, entry: AuditEntry) -> None:
        day, target = _day_of(entry.entry_id), _encode(entry.target).decode()
        values = (day, entry.entry_id, entry.actor, entry.key_id, entry.action, target, entry.request_id)
        await self._connection.write("audit_log.begin", (*values, entry.by_client))
        if entry.client_id is not None:
            await self._connection.write("audit_log_by_client.begin", (entry.client_id, *values, entry.by_client))

    async def end(self, entry: AuditEntry) -> None:
        day, values = _day_of(entry.entry_id), (entry.status, entry.problem, _encode(entry.details).decode())
        await self._connection.write("audit_log.end", (*values, day, entry.entry_id))
        if entry.client_id is not None:
            await self._connection.write("audit_log_by_client.end", (*values, entry.client_id, day, entry.entry_id))

    async def read_page(
        self, *, client_id: ClientId | None, first: EntryId, last: EntryId, limit: int
    ) -> Sequence[AuditEntry]:
        statement, whose = ("audit_log.read", ()) if client_id is None else ("audit_log_by_client.read", (client_id,))
        found: list[AuditEntry] = []
        while first <= last and len(found) < limit:
            day = _day_of(last)
            parameters = (*whose, day, max(first, first_entry_id(day)), last, limit - len(found))
            found += map(_entry, await self._connection.select(statement, parameters))
            if day == 0:
                break
            last = entry_id_before(first_entry_id(day))
        return found


def _day_of(entry_id: EntryId) -> int:
    return instant_of(entry_id) // DAY_MS * DAY_MS


def _entry(values: tuple[Any, ...]) -> AuditEntry:
    found = dict(zip(AuditEntry.__struct_fields__, values, strict=True))
    found["target"] = _decode_target(found["target"] or "{}")
    found["by_client"] = bool(found["by_client"])
    found["details"] = _decode_details(found["details"] or "{}")
    return AuditEntry(**{**found, "actor": found["actor"] or "", "action": found["action"] or ""})
