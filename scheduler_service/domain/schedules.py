"""A schedule's row: its definition (what to call), its outcome, and its partition's header.

Definition and outcome columns are disjoint. Definition columns are written by plain inserts, repeatable with equal
values; outcome and static columns by conditional writes only. A row with an outcome and no `created_at` is a pointer
whose definition is still to come.

A row is `scheduled` while it has no outcome. From there:

    scheduled --owner commit----> delivered | failed | skipped | retrying
    scheduled --external update-> cancelled | retrying (requeued) | scheduled, with other content (see `revisions`)
    retrying  ------------------> delivered | failed | cancelled | skipped, or retrying at a later instant
    delivered | failed | skipped --redeliver--> retrying
"""

from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from scheduler_service.domain.acknowledgements import REASONS_OF_WORDS
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
from scheduler_service.domain.revisions import label_of


class Kind(StrEnum):
    """A call is a schedule's original row; a retry row holds its next attempt, in a later minute. The stored value
    `copy` is older than that name. `told`: an original row whose end is told to a receiver of its own, which a sweep
    sees from this, since it reads no options (`options.ScheduleOptions.on_success`)."""

    CALL = "call"
    TOLD = "told"
    RETRY_ROW = "copy"


class State(StrEnum):
    """`scheduled` is never stored: it is the absence of an outcome. Nor is `awaiting`: it is stored as `retrying`, with
    the reasons of `acknowledgements`."""

    SCHEDULED = "scheduled"
    RETRYING = "retrying"
    AWAITING = "awaiting"
    DELIVERED = "delivered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    @property
    def ended(self) -> bool:
        return self not in (State.SCHEDULED, State.RETRYING, State.AWAITING)


def shown_state(state: str | None, reason: str | None) -> State:
    """The state as callers know it, of a row with these columns."""
    if state == State.RETRYING and reason in REASONS_OF_WORDS:
        return State.AWAITING
    return State(state or State.SCHEDULED)


class Definition(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row as inserted. `headers` and `options` are JSON text, decoded where they are used, so that a row that can't
    be decoded fails alone.

    `due` is part of the clustering key: the schedule's due for a call, the attempt's instant for a retry row. Retry
    rows also have the due of their original (`origin_due`, which gives its minute and key) and the number of attempts
    before. `created_at` None: the row is only announced (see `usecases.complete_reschedule`)."""

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
    is a stable word for why (`in-doubt`, `late`, `exhausted`, ...), `last_error` a stable code, `fired_by` the node
    incarnation as text, and behind it what a late or retried call has waited for (`waits`).

    `redelivered_at` is the instant of the last explicit redelivery, `redelivered_after` how many attempts had been made
    by then: counting starts over there. Originals have both, retry rows carry a mark instead (see `retry_rows`).

    Written over an earlier outcome, None clears a column, except `first_attempt_at`, `fired_by`, `fired_epoch`,
    `rescheduled_to` and those of redeliveries, which None leaves unchanged.
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
    """What a schedule calls: columns that may be long. The first five fields are adjacent in `Row`, too. `revision`:
    the one that it was read from, which has the label too (see `revisions`)."""

    method: str | None
    url: str | None
    headers: str | None
    body: bytes | None
    options: str | None
    revision: str | None = None

    @property
    def size(self) -> int:
        return sum(len(part) for part in (self.url, self.headers, self.body, self.options) if part is not None)


NO_CONTENT = Content(None, None, None, None, None)


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row as read: key, definition (null in a mere pointer), outcome (state null while scheduled).

    A lean row was read without its content (see `Content`), which is None. Defaults may be null: the `kind` of a call,
    an `attempt_base` of 0. The field order is the column order of the `read_*` statements. Content and label are those
    of the `revision`, if there is one.
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
    revision: str | None = None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)

    @property
    def defined(self) -> bool:
        return self.created_at is not None

    def filled(self, content: Content) -> "Row":
        """This lean row with its content, and with the label that was read with it."""
        whole = msgspec.structs.asdict(content)
        if content.revision is None:
            del whole["revision"]
        else:
            whole["label"] = label_of(content.revision)
        return msgspec.structs.replace(self, **whole)

    @property
    def announced(self) -> bool:
        """Whether it is to be created once another write has decided that: see `usecases.complete_reschedule`."""
        return self.created_at is None and self.state is None

    @property
    def is_retry_row(self) -> bool:
        return self.kind == Kind.RETRY_ROW

    @property
    def shown_state(self) -> State:
        """Its state as callers know it."""
        return shown_state(self.state, self.reason)

    @property
    def ended(self) -> bool:
        return self.state is not None and self.state != State.RETRYING

    @property
    def over(self) -> bool:
        """Whether this row of a settled minute is not needed any more: it has ended, it is a retry row that points to
        another and is thereby obsolete, or it was announced and never created."""
        return self.ended or self.announced or (self.is_retry_row and self.state == State.RETRYING)

    def stranded(self, settled: Minute) -> bool:
        """Whether no owner will end this row, all minutes before `settled` being settled: it was inserted after its own
        minute was settled, or names a retry row that was never placed."""
        if self.state is None:
            return self.defined
        return not self.over and self.next_attempt_at is not None and minute_of(self.next_attempt_at) < settled


class PartitionHeader(msgspec.Struct, frozen=True, gc=False):
    """The static columns of a partition; null until they are first written.

    `claim_epoch`: the lease epoch that opened the partition. `version`: grows with every owner commit. `in_flight`: the
    ids that may be on the wire. `edits`: changes with every external update.
    """

    claim_epoch: int | None = None
    version: int | None = None
    in_flight: frozenset[ScheduleId] = frozenset()
    edits: UUID | None = None


NO_HEADER = PartitionHeader()


class Page(msgspec.Struct, frozen=True, gc=False):
    """Rows of one partition in key order, with the header from the same read. `more`: rows may follow."""

    header: PartitionHeader
    rows: list[Row]
    more: bool


class SweptRow(NamedTuple):
    """The columns of a row that a sweep needs."""

    due: UnixMillis
    schedule_id: ScheduleId
    kind: str | None
    created_at: UnixMillis | None
    state: str | None
    first_attempt_at: UnixMillis | None
    ordering_key: str | None
    rescheduled_to: UUID | None
    reason: str | None
    revision: str | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)


class SweptPage(msgspec.Struct, frozen=True, gc=False):
    """The same as `Page`, of swept rows. If it was read from a key on, it has no header."""

    header: PartitionHeader
    rows: list[SweptRow]
    more: bool


class Unfinished(NamedTuple):
    """How many `rows` of one partition have no outcome, of `seen` rows read. `more`: others may follow."""

    rows: int
    seen: int
    more: bool


class RowWrite(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One row's outcome in an owner commit or an external update, with the conditions on that row.

    `expect_state`: None: the row's state isn't tested; SCHEDULED: it has no outcome yet. At most one of
    `expect_next_attempt_at`, `expect_finished_at` and `expect_revision` is tested in addition; None, or UNSET for a
    revision, isn't. Who copies the content of a row without an outcome tests its revision.
    """

    key: RowKey
    outcome: Outcome
    expect_state: State | None = None
    expect_next_attempt_at: UnixMillis | None = None
    expect_finished_at: UnixMillis | None = None
    expect_revision: str | UnsetType | None = UNSET


class RowRevision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What replaces one row's content and label, on condition that it has no outcome and is still as it was read, of
    `expect_revision`. `revision`: the text of a later one (see `revisions`)."""

    key: RowKey
    content: Content
    revision: str
    expect_revision: str | None


class OwnerCommit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The owner's one write: claims exactly `in_flight`, records outcomes, inserts retry rows of the same partition.

    Applied only if the partition's claim_epoch is `expect_epoch` (None: it is not open yet, and the commit opens it),
    its version is `version`, its edits are `edits` unless `edits_known` is False, and every row condition holds. Sets
    claim_epoch = epoch, version = version + 1 (null counts as 0)."""

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
    """The one write of all others: outcomes and revisions of rows that are not in flight, all or nothing. Sets
    edits = `edits`.

    Every write must test its row's state, as every revision does. `version` (null: no commit yet) is tested unless
    `version_known` is False, which is safe only for rows that are retrying or have ended, because those are never
    claimed.
    """

    partition: Partition
    edits: UUID
    version: int | None
    version_known: bool
    writes: tuple[RowWrite, ...] = ()
    revisions: tuple[RowRevision, ...] = ()


class WriteRejection(msgspec.Struct, frozen=True, gc=False):
    """Current values, returned by a rejected owner commit or external update: the header, state and next_attempt_at of
    the rows with conditions, and the revisions of those whose revision is tested."""

    header: PartitionHeader
    rows: dict[RowKey, tuple[str | None, UnixMillis | None]]
    revisions: dict[RowKey, str | None] = {}
