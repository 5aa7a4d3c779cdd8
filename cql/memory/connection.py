"""The in-memory connection: the stores' own statements, compiled by name over tables that behave like Cassandra's.

It is deterministic, single-threaded and atomic: each call takes effect at once and completely. Decorators around it add
delays, lost answers and partial batches. A statement in an unsupported form fails when the connection is made, so no
test can pass over one that was never run.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from operator import eq, ge, gt, itemgetter, le, lt, ne
from typing import Any, TypeAlias
from uuid import UUID

from cql.connection import UNSET, AnswerRows, Consistency, Item, Parameters
from cql.memory.grammar import (
    TOKEN,
    Delete,
    Literal,
    Parsed,
    Parser,
    Relation,
    Select,
    TableDefinition,
    Write,
)
from cql.memory.keys import Locate, key_binder, keys_binder, locator, ring_part, value_of
from cql.memory.tables import Key, Partition, Table
from cql.statement import Statement, load_statements, read_resource, split_script
from membership.conditional import APPLIED, Answer, Rejected
from scheduler_service.runtime.clock import SystemClock

_SERVER = "system.local"
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "!=": ne}


@dataclass(frozen=True, slots=True)
class _Bound:
    """A write with its values, checked, not yet applied."""

    plan: "_WritePlan | _DeletePlan"
    key: Key
    clustering: Key
    statics: list[tuple[int, Any]]
    cells: list[tuple[int, Any]]
    stamp: int | None
    conditions: list[tuple[str, str, Any]]


class InMemoryConnection:
    """`cql.connection.Connection` over dictionaries.

    `unusual` lists the statements that asked for another consistency than LOCAL_QUORUM, in order. `server_clocks`: each
    server's time in Unix milliseconds. Servers answer questions about themselves in turn; or by the asker's turn, which
    may be a parameter that the statement does not have.
    """

    def __init__(self) -> None:
        parsed, definitions = _compile_inputs()
        self.tables = _empty_tables(definitions)
        self.server_clocks: Sequence[Callable[[], int]] = [SystemClock().system_ms]
        self._turns = count(1)
        self._plans = _Plans(self.tables, parsed, self._server)
        self.unusual: list[tuple[str, Consistency]] = []
        self.closed = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the statements that this connection can run."""
        return frozenset(self._plans.parsed)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table with their static columns, for tests that look behind the stores."""
        source = self.tables[table]
        return [
            dict(
                zip(source.position, source.values(key, partition, clustering, partition.rows[clustering]), strict=True)
            )
            for key, partition in source.partitions.items()
            for clustering in partition.keys
        ]

    def columns(self, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
        """The same, but only some columns, in this order."""
        source = self.tables[table]
        chosen = itemgetter(*(source.position[name] for name in names))
        return (
            chosen(source.values(key, partition, clustering, partition.rows[clustering]))
            for key, partition in source.partitions.items()
            for clustering in partition.keys
        )

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        plan = self._plans[name]
        if not isinstance(plan, _SelectPlan | _ServerPlan):
            raise ValueError(f"{name} is not a SELECT")
        if serial and consistency != "LOCAL_QUORUM":
            raise ValueError(f"{name} can't be both serial and {consistency}")
        self._note([name], consistency)
        return plan.run(parameters)

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._note([name], consistency)
        self._apply(self._bind([(name, parameters)], conditional=False))

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._note([name for name, _ in items], consistency)
        self._apply(self._bind(items, conditional=False))

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        bound = self._bind(items, conditional=True)
        if len({(id(write.plan.table), write.key) for write in bound}) != 1:
            raise ValueError("a conditional batch is for one partition")
        table, key = bound[0].plan.table, bound[0].key
        partition = table.partitions.get(key)
        if all(_holds(table, partition, write) for write in bound):
            self._apply(bound)
            return APPLIED
        return Rejected(_current_values(table, key, partition, bound))

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        return None

    async def close(self) -> None:
        self.closed = True

    def _server(self, parameters: Parameters) -> tuple[UUID, int]:
        (turn,) = parameters or (next(self._turns),)
        server = turn % len(self.server_clocks)
        return UUID(int=server), self.server_clocks[server]()

    def _note(self, names: Iterable[str], consistency: Consistency) -> None:
        if consistency != "LOCAL_QUORUM":
            self.unusual += [(name, consistency) for name in names]

    def _bind(self, items: Sequence[Item], *, conditional: bool) -> list[_Bound]:
        plans = [self._plans[name] for name, _ in items]
        if any(isinstance(plan, _SelectPlan | _ServerPlan) for plan in plans):
            raise ValueError("a SELECT writes nothing")
        if any(plan.conditional for plan in plans) is not conditional:
            raise ValueError(f"conditional and plain writes have calls of their own: {[name for name, _ in items]}")
        return [
            plan.bind(parameters)
            for plan, (_, parameters) in zip(plans, items, strict=True)
            if not isinstance(plan, _SelectPlan | _ServerPlan)
        ]

    @staticmethod
    def _apply(writes: Iterable[_Bound]) -> None:
        for write in writes:
            if isinstance(write.plan, _DeletePlan):
                write.plan.table.delete(write.key, write.clustering)
                continue
            cells = write.cells
            if write.plan.increments:
                row = write.plan.table.partitions.get(write.key, Partition(0)).rows.get(write.clustering)
                cells = [(index, (row.cells[index] if row else 0) + value) for index, value in cells]
            write.plan.table.write(
                write.key,
                write.clustering,
                statics=write.statics,
                cells=cells,
                marker=write.plan.insert,
                stamp=write.stamp,
            )


def _holds(table: Table, partition: Partition | None, write: _Bound) -> bool:
    row = partition.rows.get(write.clustering) if partition is not None else None
    if write.plan.if_not_exists and row is not None:
        return False
    for column, operator, operand in write.conditions:
        cell = None
        if (static := table.static_position.get(column)) is not None:
            cell = partition.statics[static] if partition is not None else None
        elif row is not None:
            cell = row.cells[table.regular_position[column]]
        if cell is None or operand is None:
            if not ((operator == "=" and cell is operand) or (operator == "!=" and cell is not operand)):
                return False
        elif not _COMPARE[operator](cell, operand):
            return False
    return True


def _current_values(table: Table, key: Key, partition: Partition | None, writes: Sequence[_Bound]) -> AnswerRows:
    """The current values that a rejected conditional write returns; see `cql.connection.AnswerRows`."""
    if partition is None:
        return []
    names = [column for write in writes for column, _, _ in write.conditions]
    if any(write.plan.if_not_exists for write in writes):
        names = list(table.position)
    tested = {
        write.clustering
        for write in writes
        if write.plan.if_not_exists or any(column in table.regular_position for column, _, _ in write.conditions)
    }
    found = sorted(tested & partition.rows.keys()) if tested else partition.keys[:1]
    rows = [table.values(key, partition, clustering, partition.rows[clustering]) for clustering in found]
    if not rows and partition.has_statics():
        rows = [table.values(key, partition, (None,) * len(table.definition.clustering), None)]
    if len(writes) > 1:
        names = [*table.definition.partition_key, *table.definition.clustering, *names]
    return [{name: row[table.position[name]] for name in names} for row in rows]


class _SelectPlan:
    conditional = False

    def __init__(self, table: Table, parsed: Select) -> None:
        definition = table.definition
        unknown = set(parsed.columns) - table.position.keys()
        if unknown:
            raise ValueError(f"table {definition.name} has no column {unknown}")
        self.table = table
        self._limit = parsed.limit
        self._distinct = parsed.distinct
        positions = [table.position[name] for name in parsed.columns]
        self._project: Callable[[list[Any]], tuple[Any, ...]] = (
            itemgetter(*positions) if len(positions) > 1 else lambda values: (values[positions[0]],)
        )
        of_ring = [relation for relation in parsed.where if relation.columns[0] == TOKEN]
        self._part = ring_part(table, parsed.where) if of_ring else None
        by_key = parsed.where and not of_ring
        some = [one for one in parsed.where if one.operator == "IN" and one.columns[0] == definition.partition_key[-1]]
        self._keys = keys_binder(table, parsed.where, some[0]) if some else None
        self._key = key_binder(table, definition.partition_key, parsed.where) if by_key and not some else None
        rest = [relation for relation in parsed.where if relation.columns[0] not in (TOKEN, *definition.partition_key)]
        self._locate: Locate | None = locator(table, rest) if rest else None
        if parsed.descending not in (None, definition.clustering[:1] and definition.clustering[0]):
            raise ValueError(f"table {definition.name} is not ordered by {parsed.descending} first")
        self._descending = parsed.descending is not None
        keyed = (*definition.partition_key, *definition.clustering)
        if parsed.grouped != keyed[: len(parsed.grouped)]:
            raise ValueError(f"table {definition.name} can't be grouped by {parsed.grouped}")
        self._grouped = max(len(parsed.grouped) - len(definition.partition_key), 0)

    def run(self, parameters: Parameters) -> list[tuple[Any, ...]]:
        table = self.table
        limit = None if self._limit is None else value_of(self._limit, parameters)
        if self._part is not None:
            keys: Iterable[Key] = self._part(parameters)
        elif self._keys is not None:
            keys = self._keys(parameters)
        elif self._key is None:
            keys = list(table.partitions)
        else:
            keys = (self._key(parameters),)
        answer: list[tuple[Any, ...]] = []
        for key in keys:
            partition = table.partitions.get(key)
            if partition is None:
                continue
            if self._distinct:
                clusterings: Iterable[Key] = ()
            elif self._locate is None:
                clusterings = partition.keys
            else:
                clusterings = self._locate(partition, parameters)
            if self._descending:
                clusterings = reversed(list(clusterings))
            group: Key | None = None
            for clustering in clusterings:
                if self._grouped and clustering[: self._grouped] == group:
                    continue
                group = clustering[: self._grouped]
                if len(answer) == limit:
                    return answer
                answer.append(self._project(table.values(key, partition, clustering, partition.rows[clustering])))
            if self._distinct or (not partition.rows and self._locate is None):
                nobody = (None,) * len(table.definition.clustering)
                answer.append(self._project(table.values(key, partition, nobody, None)))
        return answer


class _ServerPlan:
    """Asks a server for its name and time."""

    conditional = False

    def __init__(self, parsed: Parsed, server: Callable[[Parameters], tuple[UUID, int]]) -> None:
        if not isinstance(parsed, Select) or parsed.columns != ("host_id", "currentTimestamp()"):
            raise ValueError(f"servers tell their name and their time, not: {parsed}")
        self._server = server

    def run(self, parameters: Parameters) -> list[tuple[Any, ...]]:
        return [self._server(parameters)]


class _WritePlan:
    def __init__(self, table: Table, parsed: Write) -> None:
        definition = table.definition
        where = parsed.where
        if parsed.insert:
            where = tuple(
                Relation((name,), "=", (term,)) for name, term in parsed.values.items() if _is_key(table, name)
            )
        self.table = table
        self.insert = parsed.insert
        self.increments = bool(parsed.increments)
        self.if_not_exists = parsed.if_not_exists
        self.conditional = bool(parsed.conditions) or parsed.if_not_exists
        self._timestamp = parsed.timestamp
        self._key = key_binder(table, definition.partition_key, where)
        rows = any(relation.columns[0] in definition.clustering for relation in where)
        self._clustering = key_binder(table, definition.clustering if rows else (), where)
        assigned = {name: term for name, term in parsed.values.items() if not (parsed.insert and _is_key(table, name))}
        self._assigned = [(name, term) for name, term in {**assigned, **parsed.increments}.items()]
        for name, _ in self._assigned:
            if name not in table.static_position and name not in table.regular_position:
                raise ValueError(f"{definition.name}.{name} can't be assigned")
            if name in table.regular_position and definition.clustering and not rows:
                raise ValueError(f"{definition.name}.{name} needs a clustering key")
        self._conditions = _testable(table, parsed.conditions)

    def bind(self, parameters: Parameters) -> _Bound:
        table = self.table
        statics: list[tuple[int, Any]] = []
        cells: list[tuple[int, Any]] = []
        for name, term in self._assigned:
            value = table.check(name, value_of(term, parameters))
            if value is UNSET:
                continue
            if (index := table.static_position.get(name)) is not None:
                statics.append((index, value))
            else:
                cells.append((table.regular_position[name], value))
        conditions = _bound_conditions(table, self._conditions, parameters)
        stamp = None if self._timestamp is None else value_of(self._timestamp, parameters)
        return _Bound(self, self._key(parameters), self._clustering(parameters), statics, cells, stamp, conditions)


class _DeletePlan:
    if_not_exists = False

    def __init__(self, table: Table, parsed: Delete) -> None:
        definition = table.definition
        self.table = table
        self.conditional = bool(parsed.conditions)
        self._conditions = _testable(table, parsed.conditions)
        self._key = key_binder(table, definition.partition_key, parsed.where)
        rows = any(relation.columns[0] in definition.clustering for relation in parsed.where)
        self._clustering = key_binder(table, definition.clustering if rows else (), parsed.where)

    def bind(self, parameters: Parameters) -> _Bound:
        conditions = _bound_conditions(self.table, self._conditions, parameters)
        return _Bound(self, self._key(parameters), self._clustering(parameters), [], [], None, conditions)


def _testable(table: Table, conditions: tuple[Relation, ...]) -> tuple[Relation, ...]:
    for condition in conditions:
        if condition.columns[0] not in table.static_position and condition.columns[0] not in table.regular_position:
            raise ValueError(f"{table.definition.name}.{condition.columns[0]} can't be tested")
    return conditions


def _bound_conditions(
    table: Table, conditions: tuple[Relation, ...], parameters: Parameters
) -> list[tuple[str, str, Any]]:
    bound = []
    for relation in conditions:
        operand = table.check(relation.columns[0], value_of(relation.terms[0], parameters))
        if operand is UNSET:
            raise ValueError("a condition can't be unset")
        bound.append((relation.columns[0], relation.operator, operand))
    return bound


_Plan: TypeAlias = _SelectPlan | _ServerPlan | _WritePlan | _DeletePlan


class _Plans(dict[str, _Plan]):
    """The plans of the statements, each made when it is first asked for."""

    def __init__(
        self,
        tables: Mapping[str, Table],
        parsed: Mapping[str, Parsed],
        server: Callable[[Parameters], tuple[UUID, int]],
    ) -> None:
        self.parsed = parsed
        self._tables = tables
        self._server = server

    def __missing__(self, name: str) -> _Plan:
        plan = self[name] = _plan(self._tables, self.parsed[name], self._server)
        return plan


def _empty_tables(definitions: Mapping[str, TableDefinition]) -> dict[str, Table]:
    return {name: Table(definition) for name, definition in definitions.items()}


def _plan(tables: Mapping[str, Table], parsed: Parsed, server: Callable[[Parameters], tuple[UUID, int]]) -> _Plan:
    if parsed.table == _SERVER:
        return _ServerPlan(parsed, server)
    table = tables[parsed.table]
    match parsed:
        case Select():
            return _SelectPlan(table, parsed)
        case Write():
            return _WritePlan(table, parsed)
        case Delete():
            return _DeletePlan(table, parsed)


def _is_key(table: Table, name: str) -> bool:
    return name in table.definition.partition_key or name in table.definition.clustering


@cache
def _compile_inputs() -> tuple[dict[str, Parsed], dict[str, TableDefinition]]:
    """The statements and tables of each connection. Raises ValueError if one of the statements can't be planned."""
    scripts = [*split_script(read_resource("schema.cql")), *split_script(read_resource("bookkeeping.cql"))]
    definitions = [
        Parser(text.split(") WITH ")[0] + ")" if ") WITH " in text else text).create_table() for text in scripts
    ]
    by_name = {definition.name: definition for definition in definitions}
    parsed = {name: parse_statement(statement) for name, statement in load_statements().items()}
    tables = _empty_tables(by_name)
    for statement in parsed.values():
        _plan(tables, statement, lambda parameters: (UUID(int=0), 0))
    return parsed, by_name


def parse_statement(statement: Statement) -> Parsed:
    """Raises ValueError for a statement that this connection cannot run."""
    return Parser(statement.text).statement()


__all__ = ["InMemoryConnection", "Literal", "parse_statement"]
