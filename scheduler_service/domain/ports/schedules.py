"""Stores of schedules' rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from membership.conditional import Answer
from membership.errors import MinutehandError
from scheduler_service.domain.books import CountPage, Stamp
from scheduler_service.domain.clients import ReadConsistency, WriteConsistency
from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    Partition,
    PollerId,
    RowKey,
)
from scheduler_service.domain.reconciliations import ReviewPage
from scheduler_service.domain.schedules import (
    Content,
    Definition,
    ExternalUpdate,
    OwnerCommit,
    Page,
    PartitionHeader,
    Row,
    SweptPage,
    Unfinished,
    WriteRejection,
)

Answered: TypeAlias = Callable[[Exception | None], None]
"""Called once with None, or with the error. It must not raise."""


class ScheduleStore(Protocol):
    """The `schedules` table and its index `occupied_minutes`."""

    async def insert(self, definition: Definition, *, consistency: WriteConsistency = "LOCAL_QUORUM") -> None:
        """Insert one definition durably, its index row acknowledged first, both at `consistency`.

        Repeatable: equal values over equal values. Concurrent calls of one consistency share requests (group commit);
        each returns when the request that carried it has ended. Raises StoreUnavailable; ContentTooLarge for a row that
        no request can carry; Overloaded (a StoreUnavailable) if the bounded queue is full and nothing was sent.
        """

    def begin_insert(
        self, definition: Definition, answered: Answered, *, consistency: WriteConsistency = "LOCAL_QUORUM"
    ) -> Callable[[], None]:
        """`insert` for callers without a task: `answered` gets None or the error, in a later turn of the loop. Errors
        that are found before anything is sent are raised. Returns a function that abandons the insert: `answered` is
        not called then, and an unsent row is not sent.
        """

    async def insert_many(
        self, definitions: Sequence[Definition], *, consistency: WriteConsistency = "LOCAL_QUORUM"
    ) -> Sequence[MinutehandError | None]:
        """The same for many at once: None for each that is durable, else the error that `insert` would raise.

        Returns when the last request that carries one of them has ended. Raises Overloaded for all of them.
        """

    async def read_page(
        self,
        partition: Partition,
        *,
        after: RowKey | None = None,
        limit: int = 1000,
        lean: bool = False,
        consistency: ReadConsistency = "LOCAL_QUORUM",
    ) -> Page:
        """Up to `limit` rows behind `after` in key order, with the header of the same read. `lean`: rows without their
        content, which may be long, for callers that need only outcomes.

        `in_flight` comes from a second read that found the same claim_epoch and version (else both are repeated, at
        LOCAL_QUORUM).
        """

    async def read_to_call(self, partition: Partition, *, after: RowKey | None = None, limit: int = 1000) -> Page:
        """The same for a poller's owner: of rows with an outcome only the state and what orders them in their wait
        queue (next_attempt_at, reason, redelivered_at), the rest is None. With `after` the header is not read."""

    async def sweep_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 1000) -> SweptPage:
        """The same with only the columns that settling needs, without definitions. With `after` the header is not
        read."""

    async def read_rows(
        self,
        partition: Partition,
        keys: Iterable[RowKey],
        *,
        serial: bool = False,
        lean: bool = False,
        consistency: ReadConsistency = "LOCAL_QUORUM",
    ) -> tuple[PartitionHeader, dict[RowKey, Row]]:
        """The rows of the given keys that exist, pointers included.

        A serial read of one key sees header and row together. For many keys (any number, 100 in a request), the header
        is that of the first request. If no row exists, the header is read right after."""

    async def find_rows(
        self, partition: Partition, keys: Iterable[RowKey], *, serial: bool = False, lean: bool = False
    ) -> dict[RowKey, Row]:
        """The same rows without the header, which costs a request and grows with what is in flight."""

    async def read_content(
        self, partition: Partition, keys: Iterable[RowKey], *, consistency: ReadConsistency = "LOCAL_QUORUM"
    ) -> dict[RowKey, Content]:
        """The content that lean rows lack."""

    async def open(self, partition: Partition, *, epoch: int, expect_epoch: int | None) -> Answer[PartitionHeader]:
        """Set claim_epoch = epoch if it is `expect_epoch` (None: null)."""

    async def commit(self, commit: OwnerCommit) -> Answer[WriteRejection]:
        """The owner's conditional batch, all or nothing. Raises ContentTooLarge for what the server would refuse."""

    async def update(self, update: ExternalUpdate) -> Answer[WriteRejection]:
        """The conditional batch of any other writer, all or nothing."""

    async def occupy(self, partition: Partition) -> None:
        """Write a partition's index row, for an external update that may be the first to write there. Raises
        StoreUnavailable."""

    async def mark_ordered(self, partition: Partition) -> None:
        """Remember that this minute has rows of ordering keys that `ordered_after` must find. May be repeated; deleted
        with the partition."""

    async def ordered_after(self, client_id: ClientId, poller_id: PollerId, minute: Minute) -> Sequence[Minute]:
        """The remembered minutes of this poller after `minute`, in order."""

    async def occupied(
        self, client_id: ClientId, *, first: Minute, last: Minute, consistency: ReadConsistency = "LOCAL_QUORUM"
    ) -> Mapping[Minute, Sequence[PollerId]]:
        """Which pollers have rows, per minute of [first, last], both inclusive; minutes without any are absent."""

    async def occupied_over(
        self, client_id: ClientId, *, first: Minute, last: Minute
    ) -> Mapping[Minute, Sequence[PollerId]]:
        """The same with one request for all hours of the span, up to 100: for spans that are mostly empty."""

    async def count_unfinished(self, partition: Partition, *, due_until: int, limit: int) -> Unfinished:
        """How many of the first `limit` rows are due at `due_until` or before and have no outcome. Reads no bodies."""

    async def count_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 1000) -> CountPage:
        """Up to `limit` rows behind `after` in key order, only the columns that counting needs. With `after`, the stamp
        is the partition's only if rows follow."""

    async def review_page(self, partition: Partition, *, after: RowKey | None = None, limit: int = 500) -> ReviewPage:
        """Up to `limit` rows behind `after` in key order, only the columns that reconciliations need."""

    async def read_stamp(self, partition: Partition) -> Stamp:
        """The partition's stamp, read without any row."""

    async def delete_partition(self, partition: Partition) -> None:
        """Delete a whole partition that is past its retention with its attempts and balance, then its index row.

        Repeatable after a crash: until the index row is deleted, the partition is found again.
        """
