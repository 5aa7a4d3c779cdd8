"""What is recorded beside a schedule's own row: failed attempts, what gave up, the balance of a poller's minute.

Why a stored balance can be believed (`MinuteBalance.holds`). Every outcome is written by an advance or by an edit, and
both change a static column of the partition in the same write: `version`, or `edits`. A balance carries the two as the
first page of its count showed them. So while the partition still has them, no outcome has changed since the count
began. Rows can be added without either; but a writer who is acknowledged later than the minute's end + 2 s edits his
row, or finds that an owner advanced it, before he answers (`usecases.place`), and a count that may be stored begins
after the minute's end + 10 s (`COUNTED_AFTER_MS`). Hence:

    a stored balance whose stamp is that of its partition says what the partition says now,
    but for rows whose create was never answered

by any writer, at any time and under any epoch. What a clock counted that was ahead, as most clocks and storage's
were, may lack open rows that were created once they were right, until one of its partition's rows is called or ended. A
balance with another stamp is out of date, and is counted again when it is needed. Nothing is ever added
to a balance, so nothing is lost or counted twice when somebody dies on the way.
"""

from bisect import bisect_left
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from scheduler_service.domain.ids import (
    ClientId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
    minute_end,
    partition_of,
)
from scheduler_service.domain.schedules import Kind, Outcome, Row, State, SweptRow

_STATES: Final[dict[str, State]] = {state.value: state for state in State}
COUNTED_AFTER_MS = 10_000
"""A count may be stored if it begins this long after its minute's end: as long as a sweep waits."""
LATENESS_BOUNDS_MS = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 600_000, 3_600_000)
"""Upper bounds of the lateness histogram; one more bucket holds what is later."""


class Stamp(NamedTuple):
    """What changes with every outcome in a partition: with advances `version`, with edits `edits`."""

    version: int | None
    edits: UUID | None


NO_STAMP = Stamp(None, None)


class MinuteBalance(msgspec.Struct, frozen=True, kw_only=True):
    """The books of one poller's minute: accepted = delivered + failed + cancelled + skipped + open.

    `lateness` is the histogram of first attempts over `LATENESS_BOUNDS_MS`, `max_lateness_ms` the latest of them.
    `version` and `edits` are the stamp under which it was counted, `epoch` orders its writers: a balance is never
    replaced by one of a lower epoch.
    """

    client_id: ClientId
    poller_id: PollerId
    minute: Minute
    accepted: int
    delivered: int
    failed: int
    cancelled: int
    skipped: int
    open: int
    lateness: tuple[int, ...] = ()
    max_lateness_ms: int = 0
    epoch: int
    version: int | None = None
    edits: UUID | None = None

    @property
    def partition(self) -> Partition:
        return Partition(self.client_id, self.poller_id, self.minute)

    def holds(self, stamp: Stamp) -> bool:
        """Whether it says what its partition says now, whose stamp was read after the balance was."""
        return stamp == (self.version, self.edits)


class CountedRow(NamedTuple):
    """What counting takes of a row."""

    due: UnixMillis
    schedule_id: ScheduleId
    kind: str | None
    created_at: UnixMillis | None
    state: str | None
    first_attempt_at: UnixMillis | None

    @property
    def key(self) -> RowKey:
        return RowKey(self.due, self.schedule_id)


class CountPage(NamedTuple):
    """Rows of one partition in key order, with its stamp as the same read saw it. `more`: rows may follow."""

    stamp: Stamp
    rows: list[CountedRow]
    more: bool


class Tally:
    """A count of calls by state, with the lateness of first attempts. Copies stand for calls, so they do not count.
    `retrying` and `scheduled` are the open part. `stamp` is the partition's where one partition is counted."""

    __slots__ = ("counts", "lateness", "max_lateness_ms", "stamp")

    def __init__(self) -> None:
        self.begin(NO_STAMP)

    def begin(self, stamp: Stamp) -> None:
        """A pass over the minute begins: forget what an earlier one counted."""
        self.stamp = stamp
        self.counts: dict[State, int] = {}
        self.lateness = [0] * (len(LATENESS_BOUNDS_MS) + 1)
        self.max_lateness_ms = 0

    @property
    def accepted(self) -> int:
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        return self.of(State.SCHEDULED) + self.of(State.RETRYING)

    def of(self, state: State) -> int:
        return self.counts.get(state, 0)

    def add(self, row: Row, outcome: Outcome) -> None:
        """A defined row whose outcome is known."""
        if not row.is_retry_row:
            self._add(outcome.state, row.due, outcome.first_attempt_at)

    def add_read(self, row: CountedRow | SweptRow) -> None:
        """A row as it was read. A pointer whose definition is to come is nobody's create yet."""
        if row.created_at is not None and row.kind != Kind.RETRY_ROW:
            self._add(_STATES[row.state or State.SCHEDULED], row.due, row.first_attempt_at)

    def add_balance(self, balance: MinuteBalance) -> None:
        """What was counted of one partition. What was open then counts as retrying."""
        for state, count in (
            (State.DELIVERED, balance.delivered),
            (State.FAILED, balance.failed),
            (State.CANCELLED, balance.cancelled),
            (State.SKIPPED, balance.skipped),
            (State.RETRYING, balance.open),
        ):
            self.counts[state] = self.of(state) + count
        for bucket, count in enumerate(balance.lateness):
            self.lateness[bucket] += count
        self.max_lateness_ms = max(self.max_lateness_ms, balance.max_lateness_ms)

    def merge(self, other: "Tally") -> None:
        """Add what was counted elsewhere."""
        for state, count in other.counts.items():
            self.counts[state] = self.of(state) + count
        self.lateness = [one + another for one, another in zip(self.lateness, other.lateness, strict=True)]
        self.max_lateness_ms = max(self.max_lateness_ms, other.max_lateness_ms)

    def balance(self, partition: Partition, *, epoch: int) -> MinuteBalance:
        """The balance of the one partition that was counted."""
        return MinuteBalance(
            client_id=partition.client_id,
            poller_id=partition.poller_id,
            minute=partition.minute,
            accepted=self.accepted,
            delivered=self.of(State.DELIVERED),
            failed=self.of(State.FAILED),
            cancelled=self.of(State.CANCELLED),
            skipped=self.of(State.SKIPPED),
            open=self.open,
            lateness=tuple(self.lateness),
            max_lateness_ms=self.max_lateness_ms,
            epoch=epoch,
            version=self.stamp.version,
            edits=self.stamp.edits,
        )

    def lateness_ms(self, share: float) -> int | None:
        """What this share of the first attempts was not later than: the upper bound of the bucket that it falls in, or
        the latest attempt's where that is less. None where nothing was attempted."""
        wanted = share * sum(self.lateness)
        if wanted == 0:
            return None
        reached = 0
        for bound, count in zip(LATENESS_BOUNDS_MS, self.lateness, strict=False):
            reached += count
            if reached >= wanted:
                return min(bound, self.max_lateness_ms)
        return self.max_lateness_ms

    def _add(self, state: State, due: int, first_attempt_at: int | None) -> None:
        self.counts[state] = self.of(state) + 1
        if first_attempt_at is not None:
            lateness_ms = max(first_attempt_at - due, 0)
            self.lateness[bisect_left(LATENESS_BOUNDS_MS, lateness_ms)] += 1
            self.max_lateness_ms = max(self.max_lateness_ms, lateness_ms)


def may_be_stored(minute: Minute, *, counted_from: int) -> bool:
    """Whether a count that began at `counted_from` (wall time, Unix milliseconds) has met every row that was answered
    without an edit."""
    return counted_from >= minute_end(minute) + COUNTED_AFTER_MS


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt that did not deliver. Stored with the original row, whichever retry row made it. `attempt` is from 1.

    So is one that did deliver, once its schedule is redelivered: then the original's row tells of another.
    """

    client_id: ClientId
    schedule_id: ScheduleId
    attempt: int
    started_at: UnixMillis
    status: int | None
    error: str | None
    duration_ms: int
    excerpt: str

    @property
    def delivered(self) -> bool:
        return self.error is None and self.status is not None and 200 <= self.status <= 299

    @property
    def partition(self) -> Partition:
        return partition_of(self.client_id, self.schedule_id)


class LetterKey(NamedTuple):
    """A place in the order of failing, which is that of a poller's hour."""

    failed_at: UnixMillis
    schedule_id: ScheduleId


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that ended as failed, filed under the hour of `failed_at`."""

    client_id: ClientId
    poller_id: PollerId
    failed_at: UnixMillis
    schedule_id: ScheduleId
    reason: str | None
    last_status: int | None
    last_error: str | None
    attempts: int

    @property
    def key(self) -> LetterKey:
        return LetterKey(self.failed_at, self.schedule_id)
