"""Reads rows in every possible way, to compare the two forms of a row."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from cql.storage import Storage
from scheduler_service.domain.schedules import Content, Definition, Kind
from tests.contract.builders import START


async def shown(storage: Storage, rows: Sequence[Definition]) -> list[list[Any]]:
    """The rows of one partition, without the fields that differ between partitions."""
    schedules, where, keys = storage.schedules, rows[0].partition, [one.key for one in rows]
    found: list[Any] = [
        (await schedules.read_page(where)).rows,
        (await schedules.read_page(where, after=keys[0])).rows,
        (await schedules.read_page(where, lean=True)).rows,
        (await schedules.read_page(where, after=keys[0], lean=True)).rows,
        (await schedules.read_to_call(where)).rows,
        (await schedules.read_to_call(where, after=keys[0])).rows,
        (await schedules.sweep_page(where)).rows,
        (await schedules.sweep_page(where, after=keys[0])).rows,
        (await schedules.count_page(where)).rows,
        (await schedules.count_page(where, after=keys[0])).rows,
        (await schedules.review_page(where)).rows,
        (await schedules.read_content(where, keys)).values(),
    ]
    for serial in (False, True):
        for lean in (False, True):
            found += [
                (await schedules.read_rows(where, keys, serial=serial, lean=lean))[1].values(),
                (await schedules.read_rows(where, keys[1:2], serial=serial, lean=lean))[1].values(),
                (await schedules.find_rows(where, keys, serial=serial, lean=lean)).values(),
            ]
    found.append([await schedules.count_unfinished(where, due_until=START + 60_000, limit=10)])
    return [[_meant(row) for row in each] for each in found]


def _meant(row: Any) -> Any:
    """The row with kinds reduced to retry row or not, and no earlier attempts equal to 0."""
    if isinstance(row, Content):
        return row
    if hasattr(row, "_asdict"):
        values = row._asdict() | {"schedule_id": None}
        return values | {"kind": values["kind"] == Kind.RETRY_ROW} if "kind" in values else values
    known: dict[str, Any] = {
        "kind": Kind.RETRY_ROW if row.is_retry_row else None,
        "attempt_base": row.attempt_base or None,
    }
    return replace(row, schedule_id=None, **known)
