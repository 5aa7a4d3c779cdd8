"""What a world has stored, as one JSON document: to keep it as a fixture, and to begin another world with it."""

from base64 import b64decode
from collections.abc import Mapping
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import Meta

from cql.memory.connection import InMemoryConnection
from cql.memory.tables import Table
from minutehand.errors import LocalError

FORM: Final = 1
_OF_PROCESSES: Final = frozenset({"nodes", "lives", "console_sessions"})
"""Tables about processes, and about who is logged in: another process begins without them."""
_OWNER: Final = frozenset({"owner_node", "owner_incarnation"})


class _Row(msgspec.Struct, omit_defaults=True):
    key: list[Any]
    cells: dict[str, Any] = {}
    inserted: bool = False
    stamps: dict[str, int] = {}


class _Rows(msgspec.Struct, omit_defaults=True):
    key: list[Any]
    static: dict[str, Any] = {}
    rows: list[_Row] = []


class State(msgspec.Struct, kw_only=True):
    """`now`: the instant (RFC 3339) at which it was dumped. `tables`: the partitions of each table that has any."""

    form: Annotated[int, Meta(ge=FORM, le=FORM)] = FORM
    now: str
    tables: dict[str, list[_Rows]]


def dump(memory: InMemoryConnection, *, now: str) -> State:
    """Everything that is stored, but for what only this process's node and browsers need."""
    return State(
        now=now,
        tables={
            name: _partitions(table)
            for name, table in memory.tables.items()
            if table.partitions and name not in _OF_PROCESSES
        },
    )


def _partitions(table: Table) -> list[_Rows]:
    return [
        _Rows(
            key=list(key),
            static=_named(table.statics, partition.statics),
            rows=[
                _Row(
                    key=list(clustering),
                    cells=_named(table.regulars, row.cells),
                    inserted=row.marker,
                    stamps={table.regulars[index]: stamp for index, stamp in row.stamps.items()},
                )
                for clustering in partition.keys
                for row in [partition.rows[clustering]]
            ],
        )
        for key, partition in table.partitions.items()
    ]


def _named(names: tuple[str, ...], cells: list[Any]) -> dict[str, Any]:
    return {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None and name not in _OWNER}


def load(state: State, memory: InMemoryConnection) -> None:
    """Fill empty tables. Raises LocalError for a state that does not fit them: of another version, or made by hand."""
    for name, partitions in state.tables.items():
        table = memory.tables.get(name)
        if table is None:
            raise LocalError(f"The state has a table {name!r}, which this version does not know.", "Dump it again.")
        try:
            for partition in partitions:
                _load(table, partition)
        except (KeyError, TypeError, ValueError) as error:
            raise LocalError(f"The state's table {name!r} can't be read: {error}.", "Dump it again.") from error


def _load(table: Table, stored: _Rows) -> None:
    definition, types = table.definition, table.definition.types
    key = _key(definition.partition_key, stored.key, types)
    statics = _cells(table, table.static_position, stored.static)
    table.write(key, (), statics=statics, cells=(), marker=False)
    for row in stored.rows:
        clustering = _key(definition.clustering, row.key, types)
        stamps = {table.regular_position[name]: stamp for name, stamp in row.stamps.items()}
        for index, value in _cells(table, table.regular_position, row.cells):
            table.write(
                key, clustering, statics=(), cells=[(index, value)], marker=row.inserted, stamp=stamps.get(index)
            )
        if row.inserted:
            table.write(key, clustering, statics=(), cells=(), marker=True)


def _key(names: tuple[str, ...], values: list[Any], types: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(_value(types[name], value) for name, value in zip(names, values, strict=True))


def _cells(table: Table, positions: Mapping[str, int], stored: Mapping[str, Any]) -> list[tuple[int, Any]]:
    types = table.definition.types
    return [(positions[name], table.check(name, _value(types[name], value))) for name, value in stored.items()]


def _value(kind: str, stored: Any) -> Any:
    """A value as the tables hold it, from what JSON made of it."""
    match kind:
        case "uuid":
            return UUID(stored)
        case "blob":
            return b64decode(stored)
        case "double":
            return float(stored)
        case _:
            return stored
