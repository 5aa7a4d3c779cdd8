"""Records beside a schedule's own row: attempts, dead letters, the balance of a poller's minute.

Why a stored balance can be trusted (`MinuteBalance.holds`). Every outcome is written by an owner commit or by an
external update, and both change a static column of the partition in the same write: `version`, or `edits`. A balance
carries both as the first page of its count showed them. So while the partition still has them, no outcome has changed
since the count began. Rows can be inserted without either. But a writer whose insert is acknowledged later than the
minute's end + 2 s updates its row, or finds that an owner has committed it, before it answers
(`usecases.schedule_writer`), and a count that may be stored begins after the minute's end + 10 s (`COUNTED_AFTER_MS`).
Hence:

    a stored balance with its partition's stamp agrees with the partition,
    but for rows whose create was never answered

for any writer, at any time and under any epoch. One exception: if most clocks, storage's too, were ahead at a count, it
may lack open rows that were created after they were corrected, until a row of its partition is called or ended. A
balance with another stamp is out of date, and is counted again when it is needed. A balance is replaced, never
incremented, so nothing is lost or counted twice when its writer dies.
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
from scheduler_service.domain.verbs import marked

_STATES: Final[dict[str, State]] = {state.value: state for state in State}
COUNTED_AFTER_MS = 10_000
"""A count may be stored if it begins this long after its minute's end: as long as a sweep waits."""
LATENESS_BOUNDS_MS = (5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 600_000, 3_600_000)
"""Upper bounds of the lateness histogram; one more bucket holds all above."""


class Stamp(NamedTuple):
    """Changes with every outcome in a partition: `version` with owner commits, `edits` with external updates."""

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
        """Whether it agrees with its partition. `stamp` must have been read after the balance."""
        return stamp == (self.version, self.edits)


class CountedRow(NamedTuple):
    """The columns of a row that counting needs."""

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
    """Rows of one partition in key order, with the stamp from the same read. `more`: rows may follow."""

    stamp: Stamp
    rows: list[CountedRow]
    more: bool


class Tally:
    """A count of schedules by state, with the lateness of first attempts. Retry rows do not count: their originals do.
    `retrying` and `scheduled` are open. `stamp` is the partition's, if one partition is counted."""

    __slots__ = ("counts", "lateness", "max_lateness_ms", "stamp")

    def __init__(self) -> None:
        self.begin(NO_STAMP)

    def begin(self, stamp: Stamp) -> None:
        """Reset, for another scan of the minute."""
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
        """Count a defined row whose outcome is known."""
        if not row.is_retry_row:
            self._add(outcome.state, row.due, outcome.first_attempt_at)

    def add_read(self, row: CountedRow | SweptRow) -> None:
        """Count a row as it was read. A pointer whose definition is still to come does not count."""
        if row.created_at is not None and row.kind != Kind.RETRY_ROW:
            self._add(_STATES[row.state or State.SCHEDULED], row.due, row.first_attempt_at)

    def add_balance(self, balance: MinuteBalance) -> None:
        """Add a stored balance. Its open schedules count as retrying."""
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
        """Add another tally."""
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
        """The quantile `share` of the first attempts' lateness: the upper bound of its bucket, or the maximum if that
        is less. None without attempts."""
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
    """Whether a count that began at `counted_from` (wall time, Unix milliseconds) has seen every row whose create was
    answered without an external update."""
    return counted_from >= minute_end(minute) + COUNTED_AFTER_MS


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt, stored under the original, whichever retry row made it. `attempt` is from 1.

    A first attempt that delivered is told by the original's outcome. It is stored when its schedule is redelivered,
    because that overwrites the outcome. `error`: why there was no answer, or what became of the answer's verb
    (`verbs.marked`).
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
        if self.status is not None and not 200 <= self.status <= 299:
            return False
        return self.error is None or (self.verb is not None and not self.snoozed)

    @property
    def verb(self) -> tuple[str, str | None] | None:
        """What the receiver asked for, and why it was not heeded."""
        return marked(self.error)

    @property
    def snoozed(self) -> bool:
        return self.verb == ("snooze", None)

    @property
    def partition(self) -> Partition:
        return partition_of(self.client_id, self.schedule_id)


class LetterKey(NamedTuple):
    """The clustering key of a dead letter: the order of failing within a poller's hour."""

    failed_at: UnixMillis
    schedule_id: ScheduleId


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that ended as failed, filed under the hour of `failed_at`. `host`: that of its URL, unless
    its callback names a `destination`. `acknowledged_by`: the id of a client's key, or an administrator's name."""

    client_id: ClientId
    poller_id: PollerId
    failed_at: UnixMillis
    schedule_id: ScheduleId
    reason: str | None
    last_status: int | None
    last_error: str | None
    attempts: int
    host: str | None = None
    destination: str | None = None
    label: str | None = None
    acknowledged_at: UnixMillis | None = None
    acknowledged_by: str | None = None

    @property
    def key(self) -> LetterKey:
        return LetterKey(self.failed_at, self.schedule_id)


class LetterFilter(NamedTuple):
    """Which letters to select; None: any. `status`: the last HTTP status, or a class such as 5xx."""

    host: str | None = None
    destination: str | None = None
    status: str | None = None
    reason: str | None = None
    error: str | None = None
    label: str | None = None
    acknowledged: bool | None = False

    def fits(self, letter: DeadLetter) -> bool:
        return (
            self.acknowledged in (None, letter.acknowledged_at is not None)
            and self.host in (None, letter.host)
            and self.destination in (None, letter.destination)
            and (self.status is None or _has_status(letter.last_status, self.status))
            and self.reason in (None, letter.reason)
            and self.error in (None, letter.last_error)
            and self.label in (None, letter.label)
        )


def _has_status(status: int | None, wanted: str) -> bool:
    if status is None:
        return False
    return str(status // 100) == wanted[0] if wanted.endswith("xx") else str(status) == wanted
