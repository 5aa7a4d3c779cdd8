"""A row of `schedules` as stored, for operators: every cell by its column, packed ones undecoded."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cql.connection import Connection
from cql.schedule_rows import partition_parameters
from scheduler_service.domain.ids import Partition, RowKey
from scheduler_service.domain.schedules import Row

HEADER = ("claim_epoch", "version", "edits", "in_flight")
COLUMNS = ("claim_epoch", "version", "edits", *Row.__struct_fields__, "delivery", "content", "revised", "in_flight")
"""As `schedules.read_row` answers them."""


class StoredRow(NamedTuple):
    """Columns that are not null. Without cells there is no such row, though its partition may have a header."""

    header: Mapping[str, Any]
    cells: Mapping[str, Any]


async def read_stored_row(connection: Connection, partition: Partition, key: RowKey) -> StoredRow:
    """Read the row serially, so that no conditional write is missing. Raises StoreUnavailable."""
    keys = partition_parameters(partition)
    for values in await connection.select("schedules.read_row", (*keys, *key), serial=True):
        cells = _known(dict(zip(COLUMNS, values, strict=True)))
        header = {name: cells.pop(name) for name in HEADER if name in cells}
        return StoredRow(header, cells)
    for values in await connection.select("schedules.read_header", keys, serial=True):
        return StoredRow(_known(dict(zip(HEADER, values, strict=True))), {})
    return StoredRow({}, {})


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
