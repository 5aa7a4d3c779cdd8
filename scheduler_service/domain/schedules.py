"""A schedule's row: what was asked for (definition), what became of it (outcome), and the partition's the header.

Definition and outcome never mix. Definition columns are written by plain inserts, repeatable with equal values; outcome
and static columns by conditional updates only. A row with an outcome and no `created_at` is a pointer whose definition
is still to come.

A row is `scheduled` while it has no outcome. From there:

    scheduled --commit---> delivered | failed | skipped | retrying      (by the poller's owner)
    scheduled --update---> cancelled | retrying (requeued)              (by anyone)
    retrying  -----------> delivered | failed | cancelled | skipped, or retrying at a later instant
    delivered | failed | skipped --redeliver--> retrying
"""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import (
    ClientId,
    CronId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    minute_of,
)


class Kind(StrEnum):
    """A call is what a user asked for; a retry row stands for its next attempt in a later minute."""

    CALL = "call"
    RETRY_ROW = "copy"


class State(StrEnum):
    """`scheduled` is never stored: it is the absence of an outcome."""

    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    DELIVERED = "delivered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def ended(self) -> bool:
        return self is not State.SCHEDULED and self is not State.RETRYING


class Definition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row as inserted. `headers` and `options` are JSON text, decoded where they are used, so that a row
    that cannot be decoded fails alone.

    `due` is the row's clustering key: the schedule's due for a call, the attempt's instant for a retry row. Copies also
    say where their original is (`origin_due`; its minute and key follow) and how many attempts came before.
    `created_at` None: the row is only announced (see `usecases.complete_reschedule`)."""

    client_id: ClientId
    poller_id: PollerId
    due: UnixMillis
    schedule_id: ScheduleId
    kind: Kind = Kind.CALL
    method: str
    url: str
    headers: str
    body: bytes
    options: str
    label: str | None = None
    ordering_key: str | None = None
    cron_id: CronId | None = None
    nominal_due: UnixMillis | None = None
    rescheduled_from: UUID | None = None
    created_at: UnixMillis | None
    origin_due: UnixMillis | None = None
    attempt_base: int = 0

    @property
    def partition(self) -> Partition:
        return Partition(self.client_id, self.poller_id, minute_of(self.due))

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)

    @property
    def content(self) -> "Content":
        return Content(self.method, self.url, self.headers, self.body, self.options)


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome columns, written together. `state` is never SCHEDULED here.

    `attempts` counts attempts made so far, `next_attempt_at` is the instant of the retry row while retrying, `reason`
    is a stable word for why (`in-doubt`, `late`, `exhausted`, ...), `last_error` a stable code, `fired_by` the
    incarnation as text.

    `redelivered_at` is the instant of the last explicit redelivery, `redelivered_after` how many attempts had been made
    by then: what came after counts again. Originals have them, retry rows carry a mark instead (see `retry rows`).

    Written over a row that may have had an outcome, None clears a column, except `first_attempt_at`, `fired_by`,
    `fired_epoch`, `rescheduled_to` and those of redeliveries: None leaves those as they are.
    """

    state: State
    attempts: int = 0
    first_attempt_at: UnixMillis | None = None
    next_attempt_at: UnixMillis | None = None
    finished_at: UnixMillis | None = None
    last_status: int | None = None
    last_error: str | None = None
    reason: str | None = None
    fired_by: str | None = None
    fired_epoch: int | None = None
    rescheduled_to: UUID | None = None
    redelivered_at: UnixMillis | None = None
    redelivered_after: int | None = None


class Content(msgspec.Struct, frozen=True, gc=False):
    """What may be long in a definition, and never changes. The fields are a row's, next to each other there, too."""

    method: str | None
    url: str | None
    headers: str | None
    body: bytes | None
    options: str | None

    @property
    def size(self) -> int:
        return sum(len(part) for part in (self.url, self.headers, self.body, self.options) if part is not None)


NO_CONTENT = Content(None, None, None, None, None)


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row as read: key, definition (null while only a pointer is there), outcome (state null while scheduled).

    A lean row was read without its content (see `Content`), which is None. What says nothing may be null: the `kind` of
    a call, an `attempt_base` of 0. The field order is the column order of the `read_*` statements.
    """

    due: UnixMillis
    schedule_id: ScheduleId
    kind: str | None
    method: str | None
    url: str | None
    headers: str | None
    body: bytes | None
    options: str | None
    label: str | None
    ordering_key: str | None
    cron_id: CronId | None
    nominal_due: UnixMillis | None
    rescheduled_from: UUID | None
    created_at: UnixMillis | None
    origin_due: UnixMillis | None
    attempt_base: int | None
    state: str | None
    attempts: int | None
    first_attempt_at: UnixMillis | None
    next_attempt_at: UnixMillis | None
    finished_at: UnixMillis | None
    last_status: int | None
    last_error: str | None
    reason: str | None
    fired_by: str | None
    fired_epoch: int | None
    rescheduled_to: UUID | None
    redelivered_at: UnixMillis | None
    redelivered_after: int | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)

    @property
    def defined(self) -> bool:
        return self.created_at is not None

    def filled(self, content: Content) -> "Row":
        """This lean row with its content."""
        return msgspec.structs.replace(self, **msgspec.structs.asdict(content))

    @property
    def announced(self) -> bool:
        """Whether it replaces another schedule once that one is cancelled: see `usecases.complete_reschedule`."""
        return self.created_at is None and self.rescheduled_from is not None and self.state is None

    @property
    def is_retry_row(self) -> bool:
        return self.kind == Kind.RETRY_ROW

    @property
    def ended(self) -> bool:
        return self.state is not None and self.state != State.RETRYING

    @property
    def over(self) -> bool:
        """Whether this row of a settled minute is needed by nobody any more: it has ended, it is a retry row that
        points on, which its original and the next retry row have left behind for good, or it was announced and never
        created."""
        return self.ended or self.announced or (self.is_retry_row and self.state == State.RETRYING)

    def stranded(self, settled: Minute) -> bool:
        """Whether this row of a minute before `settled` has no end that anybody would still give it, where all minutes
        before that are settled: it appeared when its own was settled already, or names an attempt that nobody placed.
        """
        if self.state is None:
            return self.defined
        return not self.over and self.next_attempt_at is not None and minute_of(self.next_attempt_at) < settled


class PartitionHeader(msgspec.Struct, frozen=True, gc=False):
    """The static columns of a partition; all null where nobody has written them.

    `claim_epoch`: the lease epoch that opened the partition. `version`: grows with every commit. `in_flight`: the ids
    that may be on the wire. `edits`: changes with every external update.
    """

    claim_epoch: int | None = None
    version: int | None = None
    in_flight: frozenset[ScheduleId] = frozenset()
    edits: UUID | None = None


NO_HEADER = PartitionHeader()


class Page(msgspec.Struct, frozen=True, gc=False):
    """Rows of one partition in key order, with the header as the same read saw them. `more`: rows may follow."""

    header: PartitionHeader
    rows: list[Row]
    more: bool


class SweptRow(NamedTuple):
    """What a sweep takes of a row."""

    due: UnixMillis
    schedule_id: ScheduleId
    kind: str | None
    created_at: UnixMillis | None
    state: str | None
    first_attempt_at: UnixMillis | None
    ordering_key: str | None
    rescheduled_to: UUID | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)


class SweptPage(msgspec.Struct, frozen=True, gc=False):
    """The same as `Page`, of swept rows. Behind a key the header is not read."""

    header: PartitionHeader
    rows: list[SweptRow]
    more: bool


class Unfinished(NamedTuple):
    """How many `rows` of one partition have no outcome, of `seen` that were looked at. `more`: others may follow."""

    rows: int
    seen: int
    more: bool


class RowWrite(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row's outcome in a commit or an external update, with the conditions on that row.

    `expect_state`: None where the row's state isn't tested, SCHEDULED for "no outcome yet". At most one of
    `expect_next_attempt_at` and `expect_finished_at` is tested beside it; None isn't.
    """

    key: RowKey
    outcome: Outcome
    expect_state: State | None = None
    expect_next_attempt_at: UnixMillis | None = None
    expect_finished_at: UnixMillis | None = None


class OwnerCommit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The owner's one write: claims exactly `in_flight`, records outcomes, inserts retry rows of the same partition.

    Applied only if the partition's claim_epoch is `expect_epoch` (None: nobody opened it yet; the commit opens it), its
    version is `version` and, unless `edits_known` is False, its external update are `edits`, and every row condition
    holds. Sets claim_epoch = epoch, version = version + 1 (null counts as 0)."""

    partition: Partition
    epoch: int
    expect_epoch: int | None
    version: int | None
    edits: UUID | None
    edits_known: bool
    in_flight: frozenset[ScheduleId]
    writes: tuple[RowWrite, ...] = ()
    retry_rows: tuple[Definition, ...] = ()


class ExternalUpdate(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everybody else's one write: outcomes of rows that nobody has in flight, all or nothing. Sets edits = `edits`.

    Every write must test its row's state. `version` (null: no commit yet) is tested unless `version_known` is False,
    which only rows that are retrying or have ended allow: nobody claims those.
    """

    partition: Partition
    edits: UUID
    version: int | None
    version_known: bool
    writes: tuple[RowWrite, ...]


class WriteRejection(msgspec.Struct, frozen=True, gc=False):
    """What a commit or an external update met: the header, and state and next_attempt_at of the rows that carried
    conditions."""

    header: PartitionHeader
    rows: dict[RowKey, tuple[str | None, UnixMillis | None]]
