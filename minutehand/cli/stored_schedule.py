"""The output of `minutehand schedules show`: a row of `schedules` as programs read it, or as Cassandra stores it."""

import base64
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from msgspec.structs import asdict

from cql.packed import UNREADABLE, unpack_delivery
from cql.schedule_rows import content_of, decode_in_flight, row_of
from cql.settings import StorageSettings
from cql.storage import open_storage
from cql.stored_rows import COLUMNS, StoredRow, read_stored_row
from membership.errors import MinutehandError
from scheduler_service.domain.ids import ClientId, ScheduleId, is_schedule_id, key_of, minute_start, partition_of
from scheduler_service.domain.instants import format_instant

BYTES_SHOWN = 4_096
IDS_SHOWN = 100
_INSTANTS = frozenset(
    (
        "due",
        "nominal_due",
        "created_at",
        "origin_due",
        "first_attempt_at",
        "next_attempt_at",
        "finished_at",
        "redelivered_at",
    )
)
_DELIVERY = ("attempts", "first_attempt_at", "last_status", "fired_epoch", "fired_by")
_CONTENT = ("method", "url", "headers", "body", "options")


class NoSuchRow(MinutehandError):
    """Neither the row nor its partition's header exists."""


async def stored_schedule(settings: StorageSettings, client_id: str, text: str, *, raw: bool) -> dict[str, Any]:
    """Raises NoSuchRow, and what opening and reading storage raise."""
    schedule_id = _schedule_id(text)
    partition, key = partition_of(ClientId(client_id), schedule_id), key_of(schedule_id)
    storage = await open_storage(settings)
    try:
        found = await read_stored_row(storage.connection, partition, key)
    finally:
        await storage.close()
    if not found.cells and not found.header:
        raise NoSuchRow(f"Client {client_id} has no row of {schedule_id}, and its minute is empty.")
    where = {
        "client_id": client_id,
        "poller_id": partition.poller_id,
        "minute": format_instant(minute_start(partition.minute)),
    }
    cells = found.cells if raw else _as_read(found)
    return {
        "partition": {**where, **_header(found.header)},
        "row": {name: _shown(name, cell) for name, cell in cells.items()},
    }


def flat(document: Mapping[str, Any], *, before: str = "") -> list[tuple[str, Any]]:
    """The fields of nested objects as one list, named by their paths."""
    fields: list[tuple[str, Any]] = []
    for name, value in document.items():
        fields += flat(value, before=f"{before}{name}.") if isinstance(value, dict) else [(f"{before}{name}", value)]
    return fields


def _schedule_id(text: str) -> ScheduleId:
    try:
        value = UUID(text)
    except ValueError:
        value = None
    if value is None or not is_schedule_id(value):
        raise NoSuchRow(f"{text} is not the id of a schedule.")
    return ScheduleId(value)


def _as_read(found: StoredRow) -> dict[str, Any]:
    """The row as programs read it: packed cells are replaced by the columns they hold."""
    row = row_of([found.cells.get(name) for name in COLUMNS])
    return {} if row is None else {name: value for name, value in asdict(row).items() if value is not None}


def _header(header: Mapping[str, Any]) -> dict[str, Any]:
    if (in_flight := header.get("in_flight")) is None:
        return dict(header)
    ids = sorted(map(str, decode_in_flight(in_flight)))
    others = {name: value for name, value in header.items() if name != "in_flight"}
    return {**others, "in_flight_count": len(ids)} | ({"in_flight": ids[:IDS_SHOWN]} if ids else {})


def _shown(name: str, cell: Any) -> Any:
    if name in _INSTANTS:
        return format_instant(cell)
    if name in ("content", "revised"):
        return _content(cell)
    if name == "delivery":
        said = unpack_delivery(cell)
        values = {"unreadable": cell} if said is None else dict(zip(_DELIVERY, said, strict=True))
        return {part: _shown(part, value) for part, value in values.items()}
    return _bytes(cell) if isinstance(cell, bytes) else cell


def _content(content: bytes) -> dict[str, Any]:
    told = asdict(content_of((), content))
    if told["url"] is None and told["headers"] == UNREADABLE:
        return {"unreadable": _bytes(content)}
    return {"form": content[0], **{part: _shown(part, told[part]) for part in _CONTENT}}


def _bytes(value: bytes) -> dict[str, Any]:
    """As text if it is UTF-8, else as base64; long values are cut."""
    shown: dict[str, Any] = {"bytes": len(value)}
    head = value[:BYTES_SHOWN]
    if len(value) > BYTES_SHOWN:
        shown["note"] = f"the first {BYTES_SHOWN} bytes of it"
    try:
        value.decode()
        return {**shown, "text": head.decode(errors="ignore")}
    except UnicodeDecodeError:
        return {**shown, "base64": base64.b64encode(head).decode()}
