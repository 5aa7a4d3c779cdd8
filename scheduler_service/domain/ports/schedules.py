"""Stores of schedules' rows and of crons."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from membership.conditional import Answer
from membership.errors import MinutehandError
from scheduler_service.domain.books import CountPage, Stamp
from scheduler_service.domain.clients import ReadConsistency, WriteConsistency
from scheduler_service.domain.crons.row import Cron, CronMark, CronProgress, CronRun, CronStanding
from scheduler_service.domain.ids import (
    ClientId,
    CronId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    UnixMillis,
)
from scheduler_service.domain.reconciliations import ReviewPage
from scheduler_service.domain.schedule_keys import KeyHolder
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

    async def occupied(
        self, client_id: ClientId, *, first: Minute, last: Minute, consistency: ReadConsistency = "LOCAL_QUORUM"
    ) -> Mapping[Minute, Sequence[PollerId]]:
        """Which pollers have rows, per minute of [first, last], both inclusive; minutes without any are absent."""

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


class ScheduleKeyStore(Protocol):
    """What clients' own keys name. A key is forgotten when its time is over."""

    async def read(self, client_id: ClientId, key: str, *, serial: bool = True) -> KeyHolder | None:
        """None: it names nothing. `serial`: sees whatever was taken before it began."""

    async def take(
        self, client_id: ClientId, key: str, holder: KeyHolder, *, expected_revision: int | None, kept_seconds: int
    ) -> Answer[KeyHolder | None]:
        """Let the key name `holder` for so long, if its revision is the expected one (None: it names nothing)."""


class CronStore(Protocol):
    """The tables `crons` and `cron_runs`.

    All crons of a client are one partition, so conditional writes on one client's crons contend: those of one process
    are sent one at a time, many crons in each.
    """

    async def read(
        self, client_id: ClientId, cron_ids: Sequence[CronId], *, serial: bool = False
    ) -> Mapping[CronId, Cron]:
        """Those that exist (any number, 100 in a request), deleted ones included. One that can't be decoded is logged
        and left out."""

    async def read_standings(self, client_id: ClientId, cron_ids: Sequence[CronId]) -> Mapping[CronId, CronStanding]:
        """The same with only what a fire is judged by, without the callback, which may be large."""

    async def read_page(self, client_id: ClientId, *, after: CronId | None = None, limit: int = 100) -> Sequence[Cron]:
        """Up to `limit` crons behind `after` in the order of their ids, deleted ones included. Fewer: there are no
        more. Ones that can't be decoded are left out, and don't count."""

    async def read_marks(
        self, client_id: ClientId, *, after: CronId | None = None, limit: int = 1000
    ) -> Sequence[CronMark]:
        """The same with only what the overdue scan needs."""

    async def write(self, cron: Cron, *, expected_revision: int | None) -> Answer[Cron | None]:
        """Replace all columns but `confirmations` if the stored revision is `expected_revision` (None: there is no such
        cron) and the stored confirmations are the cron's.

        Concurrent calls for one client share requests; each has its own answer. Raises ContentTooLarge for a cron that
        no request can carry, and an error if the write is rejected and the stored cron can't be decoded.
        """

    async def confirm(self, cron: Cron) -> Answer[Cron | None]:
        """Raise the confirmations if the cron has not been changed or confirmed since it was read: then no write that
        was decided before takes effect later. Answers and raises as `write` does."""

    async def advance(self, client_id: ClientId, changes: Sequence[CronProgress]) -> Answer[None]:
        """Write the progress of these crons, all or nothing. Raises ValueError for more than 100, or one twice."""

    async def reseal(self, cron: Cron) -> Answer[None]:
        """Replace the stored callback if the revision is the cron's. The revision does not change, because only the
        encryption does."""

    async def remove(self, client_id: ClientId, mark: CronMark) -> Answer[None]:
        """Delete the row of a deleted cron if it has not changed since `mark` was read."""

    async def insert_runs(self, runs: Sequence[CronRun]) -> None:
        """Insert them durably; repeating it is harmless. Kept 90 days."""

    async def read_runs(
        self,
        client_id: ClientId,
        cron_id: CronId,
        *,
        first: UnixMillis,
        last: UnixMillis,
        limit: int = 1000,
        newest_first: bool = False,
    ) -> Sequence[CronRun]:
        """Up to `limit` runs with first <= nominal_due <= last, in their order.

        Reads every month between the two until `limit` is reached, so the caller bounds them: runs are kept 90 days.
        Raises ValueError over 400 days.
        """
