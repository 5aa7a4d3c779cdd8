"""Reports of finished work: usage by day, audits, archived days, bulk loads."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec

from cql.connection import Connection, Parameters, without_rows
from cql.cron_rows import months
from membership.conditional import Answer, Applied, Rejected, Unknown
from scheduler_service.domain.archives import ArchivedDay, RunId
from scheduler_service.domain.audits import Audit, AuditCounts, AuditFinding, AuditId
from scheduler_service.domain.bulk_loads import BulkLoad, BulkState
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.usage import DayUsage, FailingHost, HourUsage, Used
from scheduler_service.runtime.concurrently import concurrently

_COLUMNS = ("client_id", "day", "complete", "counted_at", "failing_hosts", "hours", *Used.__struct_fields__)
_hosts = msgspec.json.Decoder(tuple[FailingHost, ...]).decode
_hours = msgspec.json.Decoder(tuple[HourUsage, ...]).decode

_NEWEST = UUID(int=(1 << 128) - 1)

_ARCHIVED_COLUMNS = ArchivedDay.__struct_fields__


class CqlUsageStore:
    """`domain.ports.UsageStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[DayUsage]:
        answers = await concurrently(
            lambda month: self._connection.select("usage_by_day.read", (client_id, month, first, last)),
            months(first, last),
        )
        return [_day(values) for rows in answers for values in rows]


def _day(values: tuple[Any, ...]) -> DayUsage:
    found = dict(zip(_COLUMNS, values, strict=True))
    hosts, hours = _hosts(found.pop("failing_hosts") or "[]"), _hours(found.pop("hours") or "[]")
    return DayUsage(failing_hosts=hosts, hours=hours, **found)


class _Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The column `report`."""

    counts: AuditCounts = AuditCounts()
    findings: dict[str, int] = {}
    shown: tuple[AuditFinding, ...] = ()
    repaired: dict[str, int] = {}
    left_out: tuple[str, ...] = ()
    told: bool = False


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


class CqlArchiveStore:
    """`domain.ports.ArchiveStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, client_id: ClientId, *, first: UnixMillis, last: UnixMillis) -> Sequence[ArchivedDay]:
        rows = await self._connection.select("archived_days.read", (client_id, first, last))
        return [ArchivedDay(**dict(zip(_ARCHIVED_COLUMNS, values, strict=True))) for values in rows]

    async def read_run(self, client_id: ClientId) -> RunId | None:
        for _, run in await self._connection.select("archived_days.run", (client_id,), serial=True):
            return RunId(int=run.int) if run is not None else None
        return None

    async def take(self, client_id: ClientId, run: RunId | None, *, expected: RunId | None) -> Answer[None]:
        return await self._write("archived_days.take", (run, client_id, expected))

    async def mark(self, day: ArchivedDay, *, run: RunId) -> Answer[None]:
        values = (day.as_of, day.rows, day.digest, day.place, day.past_retention, day.stale)
        return await self._write("archived_days.mark", (*values, day.client_id, day.day, run))

    async def mark_stale(self, day: ArchivedDay) -> Answer[None]:
        return await self._write("archived_days.mark_stale", (day.client_id, day.day, day.as_of))

    async def _write(self, name: str, parameters: Parameters) -> Answer[None]:
        return without_rows(await self._connection.conditional(((name, parameters),)))


class CqlBulkLoadStore:
    """Bulk loads by client and name. Only the Spark job uses them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def begin(self, load: BulkLoad) -> Answer[BulkLoad]:
        """Insert it if it was never begun. Rejected(the load as first begun, with the state of its last run)."""
        parameters = (load.client_id, load.load_id, load.key_column, load.pollers, load.started_at)
        match await self._connection.conditional((("bulk_loads.begin", parameters),)):
            case Applied() as answer:
                await self.note(load.client_id, load.load_id, state=load.state, at=load.state_at)
                return answer
            case Unknown() as answer:
                return answer
            case Rejected():
                met = await self.read(load.client_id, load.load_id)
                return Unknown("the load can't be read") if met is None else Rejected(met)

    async def note(self, client_id: ClientId, load_id: str, *, state: BulkState, at: UnixMillis) -> None:
        """Store the state of the latest run of a load. Raises StoreUnavailable."""
        await self._connection.write("bulk_loads.note", (state.value, at, client_id, load_id))

    async def read(self, client_id: ClientId, load_id: str) -> BulkLoad | None:
        """Serial. None: it was never begun. Raises StoreUnavailable."""
        rows = await self._connection.select("bulk_loads.read", (client_id, load_id), serial=True)
        for key_column, pollers, started_at, state, state_at in rows:
            if started_at is None:
                return None
            return BulkLoad(
                client_id=client_id,
                load_id=load_id,
                key_column=key_column,
                pollers=pollers,
                started_at=started_at,
                state=BulkState(state or BulkState.RUNNING),
                state_at=state_at or started_at,
            )
        return None
