"""The tables `reconciliations` and `reconciliation_slots`, what was done to each schedule, and the change count of new
requests.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec

from cql.connection import UNSET, Connection, Item, Parameters, without_rows
from cql.decoding import UndecodableRow, decode_enum, decode_json, undecodable
from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId, Minute, RowKey, minute_of, minute_start
from scheduler_service.domain.reconciliations import (
    SLOT_BUCKETS,
    Action,
    Progress,
    ReconciledSchedule,
    Reconciliation,
    ReconciliationId,
    ReconciliationState,
    Seen,
    Slot,
    done_as,
)
from scheduler_service.domain.schedule_filters import EVERY, ScheduleFilter
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.concurrently import concurrently

_CATALOG = "reconciliations"
_LOWEST_ID = UUID(int=0)
_HIGHEST_ID = UUID(int=(1 << 128) - 1)
_TABLE = "reconciliations"
_FILTERED = " filtered"
"""Ends the stored action where there is a filter: a program that can't read the filter does not know the action, and
does nothing."""
_NULLABLE = frozenset(("filter", "state", "version", "progress", "updated_at"))
_COLUMNS = (
    *("client_id", "reconciliation_id", "action", "start", "end", "states", "filter"),
    *("created_at", "created_by"),
    *("state", "version", "progress", "updated_at"),
)


class CqlReconciliationStore:
    """`domain.ports.ReconciliationStore` over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def insert(self, reconciliation: Reconciliation) -> None:
        await self._connection.write("reconciliations.insert", _asked(reconciliation))
        try:
            await self._connection.write("catalog.bump", (_CATALOG,))
        except StoreUnavailable:
            # The request is stored; without the signal it is found later.
            return

    async def read(
        self, client_id: ClientId, reconciliation_id: ReconciliationId, *, serial: bool = False
    ) -> Reconciliation | None:
        parameters = (client_id, reconciliation_id)
        for values in await self._connection.select("reconciliations.read", parameters, serial=serial):
            return _reconciliation(values)
        return None

    async def read_newest(
        self, client_id: ClientId, *, before: ReconciliationId | None = None, limit: int = 100
    ) -> Sequence[Reconciliation]:
        found: list[Reconciliation] = []
        last = _HIGHEST_ID if before is None else UUID(int=before.int - 1)
        while (missing := limit - len(found)) > 0:
            rows = await self._connection.select("reconciliations.read_newest", (client_id, _LOWEST_ID, last, missing))
            for values in rows:
                try:
                    one = _reconciliation(values)
                except UndecodableRow:
                    continue
                if one is not None:
                    found.append(one)
            if len(rows) < missing:
                break
            last = UUID(int=rows[-1][1].int - 1)
        return found

    async def write(
        self, reconciliation: Reconciliation, *, expected_version: int | None
    ) -> Answer[Reconciliation | None]:
        parameters = (
            reconciliation.state.value,
            reconciliation.version,
            msgspec.json.encode(reconciliation.progress).decode(),
            reconciliation.updated_at,
            reconciliation.client_id,
            reconciliation.reconciliation_id,
            expected_version,
        )
        match await self._connection.conditional((("reconciliations.write", parameters),)):
            case Rejected():
                try:
                    current = await self.read(reconciliation.client_id, reconciliation.reconciliation_id, serial=True)
                except StoreUnavailable as error:
                    return Unknown(str(error))
                return Rejected(current)
            case Applied() | Unknown() as answer:
                return answer

    async def write_reconciled(self, reconciliation: Reconciliation, handled: Sequence[ReconciledSchedule]) -> None:
        of = (reconciliation.client_id, reconciliation.reconciliation_id)
        done = done_as(reconciliation.action)
        minutes: dict[int, list[Item]] = {}
        for one in handled:
            start = minute_start(minute_of(one.due))
            # A reason belongs to its outcome: where there is none, that of another try must not stay.
            left = (UNSET, one.outcome.value, one.reason)
            result = (one.outcome.value, UNSET, UNSET) if one.outcome is done else left
            row = (*of, start, one.due, one.schedule_id, *result)
            minutes.setdefault(start, []).append(("reconciled_schedules.insert", row))
        if not minutes:
            return
        await self._connection.write_batch([("reconciled_minutes.insert", (*of, start)) for start in minutes])
        await concurrently(self._connection.write_batch, minutes.values())

    async def reconciled_minutes(
        self, client_id: ClientId, reconciliation_id: ReconciliationId, *, first: Minute, last: Minute, limit: int
    ) -> Sequence[Minute]:
        parameters = (client_id, reconciliation_id, minute_start(first), minute_start(last), limit)
        return [minute_of(start) for (start,) in await self._connection.select("reconciled_minutes.read", parameters)]

    async def read_reconciled(
        self,
        client_id: ClientId,
        reconciliation_id: ReconciliationId,
        minute: Minute,
        *,
        after: RowKey | None = None,
        limit: int = 100,
    ) -> Sequence[ReconciledSchedule]:
        behind = (0, _LOWEST_ID) if after is None else after
        parameters = (client_id, reconciliation_id, minute_start(minute), *behind, limit)
        found: list[ReconciledSchedule] = []
        for due, schedule_id, done, left_as, reason in await self._connection.select(
            "reconciled_schedules.read", parameters
        ):
            key = f"{client_id}/{reconciliation_id}/{schedule_id}"
            outcome = decode_enum(done or left_as, Seen, table="reconciled_schedules", key=key)
            found.append(ReconciledSchedule(due, schedule_id, outcome, reason if done is None else None))
        return found

    async def read_slots(self, client_id: ClientId) -> Mapping[int, ReconciliationId]:
        parameters = (_bucket(client_id), client_id)
        return dict(await self._connection.select("reconciliation_slots.read", parameters, serial=True))

    async def take_slot(self, slot: Slot, *, expected: ReconciliationId | None) -> Answer[None]:
        parameters = (slot.holder, _bucket(slot.client_id), slot.client_id, slot.number, expected)
        return without_rows(await self._connection.conditional((("reconciliation_slots.take", parameters),)))

    async def list_slots(self, bucket: int) -> Sequence[Slot]:
        return [Slot(*values) for values in await self._connection.select("reconciliation_slots.list", (bucket,))]

    async def changes(self) -> int:
        for (changes,) in await self._connection.select("catalog.read", (_CATALOG,)):
            return int(changes)
        return 0


def _bucket(client_id: ClientId) -> int:
    return hashlib.blake2b(client_id.encode(), digest_size=1).digest()[0] % SLOT_BUCKETS


def _asked(reconciliation: Reconciliation) -> Parameters:
    return (
        reconciliation.client_id,
        reconciliation.reconciliation_id,
        reconciliation.action.value + ("" if reconciliation.filter == EVERY else _FILTERED),
        reconciliation.start,
        reconciliation.end,
        msgspec.json.encode(reconciliation.states).decode(),
        UNSET if reconciliation.filter == EVERY else msgspec.json.encode(reconciliation.filter).decode(),
        reconciliation.created_at,
        reconciliation.created_by,
    )


def _reconciliation(values: Sequence[Any]) -> Reconciliation | None:
    """None: the row has only its conditional columns, the insert is missing or expired. Raises UndecodableRow."""
    columns = dict(zip(_COLUMNS, values, strict=True))
    key = f"{columns['client_id']}/{columns['reconciliation_id']}"
    if columns["created_at"] is None:
        return None
    if missing := [name for name, value in columns.items() if value is None and name not in _NULLABLE]:
        raise undecodable(f"null: {', '.join(missing)}", table=_TABLE, key=key)
    filtered = columns["action"].endswith(_FILTERED)
    columns["action"] = decode_enum(columns["action"].removesuffix(_FILTERED), Action, table=_TABLE, key=key)
    columns["states"] = decode_json(columns["states"], tuple[State, ...], table=_TABLE, key=key)
    if filtered:
        columns["filter"] = decode_json(columns["filter"] or "", ScheduleFilter, table=_TABLE, key=key)
    else:
        columns["filter"] = EVERY
    columns["state"] = decode_enum(
        columns["state"] or ReconciliationState.RUNNING, ReconciliationState, table=_TABLE, key=key
    )
    if columns["progress"] is None:
        columns["progress"] = Progress(minute=minute_of(columns["start"]))
    else:
        columns["progress"] = decode_json(columns["progress"], Progress, table=_TABLE, key=key)
    if columns["updated_at"] is None:
        columns["updated_at"] = columns["created_at"]
    return Reconciliation(**columns)
