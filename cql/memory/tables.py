"""Tables with Cassandra's semantics, as far as the stores can see them.

A row exists while it has its insert's marker or a cell that is not null; static cells exist apart from rows; deleting a
cell and writing null are the same. Cells written by `USING TIMESTAMP` statements keep the given timestamp; all others
are ordered by arrival.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

from cql.connection import UNSET
from cql.memory.grammar import TableDefinition

Key = tuple[Any, ...]
Check = Callable[[Any], bool]


def _integer(bits: int) -> Check:
    bound = 1 << bits - 1
    return lambda value: type(value) is int and -bound <= value < bound


_CHECKS: dict[str, Check] = {
    "text": lambda value: isinstance(value, str),
    "int": _integer(32),
    "bigint": _integer(64),
    "timestamp": _integer(64),
    "counter": _integer(64),
    "uuid": lambda value: isinstance(value, UUID),
    "blob": lambda value: type(value) is bytes,
    "boolean": lambda value: type(value) is bool,
    "double": lambda value: type(value) is float,
    "frozen<list<int>>": lambda value: type(value) is list and all(map(_integer(32), value)),
}


class Row:
    """Cells by column position; `marker` is set by INSERT."""

    __slots__ = ("cells", "marker", "stamps")

    def __init__(self, width: int) -> None:
        self.cells: list[Any] = [None] * width
        self.marker = False
        self.stamps: dict[int, int] = {}

    def exists(self) -> bool:
        return self.marker or any(cell is not None for cell in self.cells)


class Partition:
    """Rows in clustering order, and the static cells."""

    __slots__ = ("keys", "rows", "statics")

    def __init__(self, statics: int) -> None:
        self.statics: list[Any] = [None] * statics
        self.rows: dict[Key, Row] = {}
        self.keys: list[Key] = []

    def has_statics(self) -> bool:
        return any(cell is not None for cell in self.statics)

    def between(self, start: int, belongs: Callable[[Key], bool]) -> Iterator[Key]:
        """The keys from a position on, up to the first that does not belong."""
        for position in range(start, len(self.keys)):
            key = self.keys[position]
            if not belongs(key):
                return
            yield key


class Table:
    """One table. Columns have positions in the order partition key, clustering key, static columns, regular columns.

    `changes` counts its writes and deletes, so that a test can tell whether what it read may differ by now.
    """

    def __init__(self, definition: TableDefinition) -> None:
        self.definition = definition
        keys = (*definition.partition_key, *definition.clustering)
        self.statics = tuple(name for name in definition.types if name in definition.statics)
        self.regulars = tuple(name for name in definition.types if name not in keys and name not in definition.statics)
        self.position = {name: index for index, name in enumerate((*keys, *self.statics, *self.regulars))}
        self.static_position = {name: index for index, name in enumerate(self.statics)}
        self.regular_position = {name: index for index, name in enumerate(self.regulars)}
        self.partitions: dict[Key, Partition] = {}
        self.changes = 0

    def check(self, column: str, value: Any) -> Any:
        """Returns the value if the column can hold it, else raises ValueError or TypeError."""
        if column not in self.definition.types:
            raise ValueError(f"table {self.definition.name} has no column {column}")
        if value is not None and value is not UNSET and not _CHECKS[self.definition.types[column]](value):
            kind = self.definition.types[column]
            raise TypeError(f"{self.definition.name}.{column} is {kind}, it can't hold {value!r}")
        return value

    def values(self, key: Key, partition: Partition, clustering: Key, row: Row | None) -> list[Any]:
        """A result row, by position. Without a row (static columns only) the other columns are null."""
        cells = row.cells if row is not None else [None] * len(self.regulars)
        return [*key, *clustering, *partition.statics, *cells]

    def write(
        self,
        key: Key,
        clustering: Key,
        *,
        statics: Sequence[tuple[int, Any]],
        cells: Sequence[tuple[int, Any]],
        marker: bool,
        stamp: int | None = None,
    ) -> None:
        """Set cells (None deletes) of one row, and static cells of its partition."""
        self.changes += 1
        partition = self.partitions.get(key)
        if partition is None:
            partition = self.partitions[key] = Partition(len(self.statics))
        for index, value in statics:
            partition.statics[index] = value
        if cells or marker:
            row = partition.rows.get(clustering)
            if fresh := row is None:
                row = Row(len(self.regulars))
            for index, value in cells:
                if stamp is None or stamp >= row.stamps.get(index, stamp):
                    row.cells[index] = value
                    if stamp is not None:
                        row.stamps[index] = stamp
            row.marker = row.marker or marker
            if row.exists():
                if fresh:
                    partition.rows[clustering] = row
                    insort(partition.keys, clustering)
            elif not fresh:
                self._remove(partition, clustering)
        if not partition.rows and not partition.has_statics():
            del self.partitions[key]

    def delete(self, key: Key, clustering: Key) -> None:
        """Delete a whole partition, or the row of a full clustering key."""
        self.changes += 1
        if not clustering:
            self.partitions.pop(key, None)
        elif (partition := self.partitions.get(key)) is not None and clustering in partition.rows:
            self._remove(partition, clustering)
            if not partition.rows and not partition.has_statics():
                del self.partitions[key]

    @staticmethod
    def _remove(partition: Partition, clustering: Key) -> None:
        del partition.rows[clustering]
        del partition.keys[bisect_left(partition.keys, clustering)]


def first_at_or_after(partition: Partition, prefix: Key) -> int:
    return bisect_left(partition.keys, prefix)


def first_after(partition: Partition, key: Key) -> int:
    return bisect_right(partition.keys, key)
