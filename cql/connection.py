"""What the stores are written over: named statements, sent one by one or in batches.

`cql.session.Session` implements it over the driver, `cql.memory.connection.InMemoryConnection` in memory; decorators
inject faults. Values are plain: text, bool, int, float, bytes, UUID, lists of int, None; instants are integer Unix
milliseconds in both directions.
"""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from cassandra.query import UNSET_VALUE

from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import StoreUnavailable

T = TypeVar("T")

UNSET: Any = UNSET_VALUE
"""Bound to leave a cell unchanged (None deletes it, which costs a tombstone). Not for keys and conditions."""

Parameters: TypeAlias = tuple[Any, ...]
Item: TypeAlias = tuple[str, Parameters]
"""A statement's name and the values of its parameters, in order."""
AnswerRows: TypeAlias = list[Mapping[str, Any]]
"""Current values, returned by a rejected conditional write: the tested columns, in a batch the keys too.

A row that does not exist is absent. If no tested row exists, but the header does, there is one row with null clustering
keys; a batch that tests only the header shows the partition's first row. Empty: neither rows nor header exist.
"""
Consistency: TypeAlias = Literal["LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM"]


class Connection(Protocol):
    """One keyspace of Cassandra.

    A wrong statement name or number of parameters is a bug and raises at once, as does CQL that the server refuses.
    Each method says what it does when storage fails.
    """

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        """All rows. `serial` (one partition only; `consistency` is ignored): sees every conditional write applied
        before it began.

        Raises StoreUnavailable when no answer came.
        """

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        """A plain write. Raises StoreUnavailable when no acknowledgement came; it may have taken effect."""

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        """Plain writes as one request (unlogged): atomic within a partition, not across partitions.

        Raises StoreUnavailable (any part may have taken effect), ContentTooLarge when the server refuses its size.
        """

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        """One or several statements on one partition: all are applied if every condition holds, else none.

        Never raises when storage fails: that is Unknown.
        """

    def replicas(self, name: str, parameters: Parameters) -> Hashable:
        """The servers that store the partition that the statement addresses, as a value to compare."""

    async def close(self) -> None:
        """Idempotent. Requests under way end as unavailable or unknown."""


async def announced(
    answer: Answer[Any], *, announce: Callable[[], Awaitable[None]], current: Callable[[], Awaitable[T]]
) -> Answer[T]:
    """The answer to a conditional write of what processes keep in memory, after the change, or a possible one, was
    announced. A rejection is answered with the current value, which may come from an earlier try of this change that
    was not announced. Unknown, also if storage does not answer to the announcement or the read: the caller repeats."""
    try:
        match answer:
            case Applied() | Unknown():
                await announce()
                return answer
            case Rejected():
                found = await current()
                await announce()
                return Rejected(found)
    except StoreUnavailable as error:
        return Unknown(str(error))


def without_rows(answer: Answer[AnswerRows]) -> Answer[None]:
    """The answer without current values, for callers that don't need them."""
    return Rejected(None) if isinstance(answer, Rejected) else answer
