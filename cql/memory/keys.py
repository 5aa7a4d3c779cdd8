"""Finds the keys that a statement of the in-memory connection addresses."""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from cql.connection import UNSET, Parameters
from cql.memory.grammar import TOKEN, Parameter, Relation, Term
from cql.memory.tables import Key, Partition, Table, first_after, first_at_or_after

Locate: TypeAlias = Callable[[Partition, Parameters], Iterable[Key]]


def value_of(term: Term, parameters: Parameters) -> Any:
    return parameters[term.index] if isinstance(term, Parameter) else term.value


def key_binder(table: Table, names: Sequence[str], where: Sequence[Relation]) -> Callable[[Parameters], Key]:
    """Binds all of `names`, each by an equality."""
    terms = {relation.columns[0]: relation.terms[0] for relation in where if relation.operator == "="}
    if missing := [name for name in names if name not in terms]:
        raise ValueError(f"table {table.definition.name} is not addressed without {missing}")
    wanted = [(name, terms[name]) for name in names]

    def bind(parameters: Parameters) -> Key:
        key = tuple(table.check(name, value_of(term, parameters)) for name, term in wanted)
        if None in key or UNSET in key:
            raise ValueError(f"a key of {table.definition.name} is null")
        return key

    return bind


def keys_binder(table: Table, where: Sequence[Relation], some: Relation) -> Callable[[Parameters], list[Key]]:
    """Several partitions that differ in the last column of their keys."""
    *others, last = table.definition.partition_key
    bind = key_binder(table, others, where)

    def keys(parameters: Parameters) -> list[Key]:
        head = bind(parameters)
        return [(*head, table.check(last, value)) for value in sorted(set(value_of(some.terms[0], parameters)))]

    return keys


def ring_part(table: Table, relations: Sequence[Relation]) -> Callable[[Parameters], list[Key]]:
    """The partitions between two tokens, in the order of the ring. For partition keys of one text column only."""
    (column,) = table.definition.partition_key
    if any(relation.columns != (TOKEN, column) for relation in relations):
        raise ValueError(f"table {table.definition.name} is addressed by the token of {column}, and nothing beside it")

    def part(parameters: Parameters) -> list[Key]:
        keys = sorted(table.partitions, key=lambda key: _on_ring(key[0]))
        for relation in relations:
            bound = _on_ring(table.check(column, value_of(relation.terms[0], parameters)))
            after = relation.operator == ">"
            keys = [key for key in keys if (_on_ring(key[0]) > bound) is after]
        return keys

    return part


def _on_ring(value: str) -> bytes:
    """A stand-in for Cassandra's token: not the order of the names, but the empty text comes first, as in Cassandra."""
    return blake2b(value.encode(), digest_size=8).digest() if value else b""


def locator(table: Table, relations: Sequence[Relation]) -> Locate:
    """Finds the clustering keys that match the relations outside the partition key."""
    clustering = table.definition.clustering
    first = relations[0]
    if first.columns == clustering and len(clustering) > 1:
        if first.operator == "IN":
            return lambda partition, parameters: sorted(
                {
                    tuple(map(table.check, clustering, key))
                    for key in value_of(first.terms[0], parameters)
                    if tuple(key) in partition.rows
                }
            )
        if first.operator == ">":
            bind = key_binder(
                table, clustering, [Relation((n,), "=", (t,)) for n, t in zip(clustering, first.terms, strict=True)]
            )
            return lambda partition, parameters: partition.between(
                first_after(partition, bind(parameters)), lambda key: True
            )
    if len(clustering) == len(relations) == 1 and first.columns == clustering and first.operator in ("IN", ">"):
        (name,), (term,) = clustering, first.terms
        if first.operator == "IN":
            return lambda partition, parameters: sorted(
                {key for value in value_of(term, parameters) if (key := (table.check(name, value),)) in partition.rows}
            )
        return lambda partition, parameters: partition.between(
            first_after(partition, (table.check(name, value_of(term, parameters)),)), lambda key: True
        )
    if all(relation.operator == "=" for relation in relations):
        names = clustering[: len(relations)]
        prefix_of = key_binder(table, names, relations)

        def with_prefix(partition: Partition, parameters: Parameters) -> Iterable[Key]:
            prefix = prefix_of(parameters)
            start = first_at_or_after(partition, prefix)
            return partition.between(start, lambda key: key[: len(prefix)] == prefix)

        return with_prefix
    if [(relation.columns, relation.operator) for relation in relations] == [
        ((clustering[0],), "="),
        (clustering[1:], ">="),
    ]:
        terms = [relations[0].terms[0], *relations[1].terms]
        bind_all = key_binder(
            table, clustering, [Relation((n,), "=", (t,)) for n, t in zip(clustering, terms, strict=True)]
        )

        def from_one_on(partition: Partition, parameters: Parameters) -> Iterable[Key]:
            start = bind_all(parameters)
            return partition.between(first_at_or_after(partition, start), lambda key: key[0] == start[0])

        return from_one_on
    if [(relation.columns, relation.operator) for relation in relations] == [
        ((clustering[0],), ">="),
        ((clustering[0],), "<="),
    ]:
        low, high = (relation.terms[0] for relation in relations)

        def within(partition: Partition, parameters: Parameters) -> Iterable[Key]:
            start, end = (table.check(clustering[0], value_of(term, parameters)) for term in (low, high))
            return partition.between(first_at_or_after(partition, (start,)), lambda key: bool(key[0] <= end))

        return within
    if [(relation.columns, relation.operator) for relation in relations] == [((clustering[0],), "<")]:
        (end,) = relations[0].terms

        def before(partition: Partition, parameters: Parameters) -> Iterable[Key]:
            bound = table.check(clustering[0], value_of(end, parameters))
            return partition.between(0, lambda key: bool(key[0] < bound))

        return before
    raise ValueError(f"a restriction not known here: {relations}")
