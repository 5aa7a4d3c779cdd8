"""What the stores are written over: named statements, sent one by one or in batches.

`cql.session.Session` is the real one, `tests.support.memory.InMemoryConnection` the other; faults are decorators
between them and the stores. Values are plain: text, bool, int, float, bytes, UUID, lists of int, None; instants are
integer Unix milliseconds in both directions.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from cassandra.query import UNSET_VALUE

from membership.conditional import Answer, Rejected

UNSET: Any = UNSET_VALUE
"""Bound where a cell is to be left as it is (None deletes it, which costs a tombstone). Not for keys and conditions."""

Parameters: TypeAlias = tuple[Any, ...]
Item: TypeAlias = tuple[str, Parameters]
"""A statement's name and the values of its parameters, in order."""
AnswerRows: TypeAlias = list[Mapping[str, Any]]
"""What a rejected conditional write met: the columns of its conditions, and in a batch those of the keys too.

A row that does not exist is absent. Where no row of the conditions exists, but the header do, there is one row of
null clustering keys; a batch that tests the header only shows the partition's first row. Empty: there is nothing.
"""
Consistency: TypeAlias = Literal["LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM"]


class Connection(Protocol):
    """One keyspace of Cassandra.

    Names and numbers of parameters that don't fit a statement are errors of the program and raise at once, as does
    CQL that the server refuses. Storage trouble is the stores' daily bread: see each method.
    """

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        """All rows. `serial` (one partition only, and instead of a consistency): sees every conditional write applied
        before it began.

        Raises StoreUnavailable when no answer came.
        """

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        """A plain write. Raises StoreUnavailable when no acknowledgement came; it may have taken effect."""

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        """Plain writes as one request (unlogged): all or nothing within a partition, each by itself beyond.

        Raises StoreUnavailable (any part may have taken effect), ContentTooLarge when the server refuses its size.
        """

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        """One or several statements on one partition, all or nothing, if every condition among them holds.

        Never raises for storage trouble: that is Unknown.
        """

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        """What stores the partition that such a statement addresses. Equal answers: the same servers do."""

    async def close(self) -> None:
        """Idempotent. Requests that are under way end as unavailable or unknown."""


def without_rows(answer: Answer[AnswerRows]) -> Answer[None]:
    """For writes of which nobody asks what they met."""
    return Rejected(None) if isinstance(answer, Rejected) else answer
