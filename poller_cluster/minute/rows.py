"""The rows of one poller minute that have no recorded outcome yet, as its machine holds them. Pure bookkeeping."""

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import NamedTuple, Protocol, TypeAlias

from poller_cluster.dispatch.job import Claim
from scheduler_service.domain.ids import MAX_DUE, RowKey, ScheduleId, UnixMillis
from scheduler_service.domain.options import may_yield
from scheduler_service.domain.retry_rows import DESTINATION_PAUSED, LATE_CREATE, REDELIVERY, word_of
from scheduler_service.domain.revisions import newer
from scheduler_service.domain.schedules import Outcome, Row, RowWrite, State, SweptRow
from scheduler_service.domain.waits import OVERDUE_RATE_HELD, Waits

_FRACTIONS = 1024
CHECK_HOLDS_MS = 1_000
"""A run of a cron that was held for longer is checked again before it is claimed: the cron may have been paused."""


class PendingRow:
    """One row: waiting, then claimed, then ended (its outcome known but not recorded). Retry rows, and fires of crons
    that were not perhaps called before, must also be checked before they are claimed. `found_at`: when it was found
    (Unix ms) if its minute had been read completely by then, else 0. Such a row may have been created in time and only
    its hint lost, so its lateness counts from then. `waited`: what it was held for, and its schedule before; None: for
    nothing. `hold`: since when it is held, and why. `word`: of a row that is no call, and never claimed. `overdue`: its
    claim takes a token of an overdue rate."""

    __slots__ = (
        "checked",
        "claimed",
        "ended_at",
        "first_attempt_at",
        "forgotten",
        "found_at",
        "held_since",
        "hold",
        "key",
        "last",
        "outcome",
        "overdue",
        "redelivery",
        "row",
        "waited",
        "word",
    )

    def __init__(self, row: Row, *, redelivery: bool, found_at: int = 0) -> None:
        self.row = row
        self.key = row.key
        self.found_at = found_at
        self.redelivery = redelivery
        self.checked = not row.is_retry_row and (row.cron_id is None or redelivery)
        self.claimed = False
        self.forgotten = False
        self.outcome: Outcome | None = None
        self.ended_at = 0
        self.first_attempt_at: UnixMillis | None = None
        self.last: tuple[int | None, str | None] = (None, None)
        self.waited: Waits | None = None
        self.hold: tuple[int, Hold] | None = None
        self.held_since: int = MAX_DUE
        """When it was held first since its last check."""
        self.overdue = False
        self.word = word_of(row.options) if row.is_retry_row else None

    @property
    def waits(self) -> bool:
        """Whether it is neither claimed nor ended nor forgotten."""
        return not (self.claimed or self.forgotten) and self.outcome is None

    def check_is_old(self, now: int) -> bool:
        """Whether it is a run of a cron that was held so long that what it was checked against may have changed. Those
        that may give way to others are judged for that once, when it is their turn (`Recheck`)."""
        if now - self.held_since <= CHECK_HOLDS_MS or self.row.cron_id is None or self.redelivery:
            return False
        return not may_yield(self.row.options)

    @property
    def fraction(self) -> float:
        """From 0 to 1, the same whenever this row is judged, so that rows that are deferred come back spread."""
        return self.row.schedule_id.int % _FRACTIONS / _FRACTIONS

    def claim(self) -> Claim:
        return Claim(
            self.row,
            self.redelivery,
            self.first_attempt_at,
            *self.last,
            self.found_at,
            self.waited,
            self.word,
            self.overdue,
        )

    def revise(self, row: Row) -> None:
        """Take over the row as it was read now, if its content was revised since."""
        if newer(row.revision, self.row.revision):
            self.row = row

    def learn(self, original: Row) -> None:
        """Take over what a retry row's original records of earlier attempts. A row that waited for its destination has
        not been late before the instant at which that was to be looked at again: it may have been resumed before."""
        self.first_attempt_at = original.first_attempt_at
        self.last = (original.last_status, original.last_error)
        if original.reason == DESTINATION_PAUSED:
            self.found_at = self.row.due
        if self.waited is not None:
            # It was checked before, and has been held since.
            return
        # A redelivery begins a new count.
        if original.fired_by is not None and original.reason != REDELIVERY:
            self.waited = Waits(original.fired_by)
        if original.reason == LATE_CREATE:
            self.waited = Waits()
            self.waited.add("late-create", self.row.due - original.due)

    def held(self, hold: "Hold", now: int) -> None:
        """It is held from now on. Before its due it waits for that alone."""
        since = max(now, self.row.due)
        self.hold = since, hold
        self.held_since = min(self.held_since, since)

    def let_go(self, now: int) -> None:
        """It is to be judged again."""
        if self.hold is None or now <= self.row.due:
            return
        since, hold = self.hold
        if self.waited is None:
            self.waited = Waits()
        behind = None if hold.behind is None else str(hold.behind)
        self.waited.add(hold.cause or CAUSE_OF[hold.queue[0]], now - since, behind=behind)
        self.hold = None


WaitQueue: TypeAlias = tuple[str, str]
"""The queue that rows are held in: its kind and its name."""
KEY, RUN, HOST, FLOW, LATER, LONG, UNKNOWN, OVERDUE = (
    "key",
    "run",
    "host",
    "flow",
    "later",
    "long",
    "unknown",
    "overdue",
)
"""The kinds of queues."""
CAUSE_OF = {
    KEY: "ordering",
    RUN: "overlap",
    HOST: "receiver",
    FLOW: "flow",
    LATER: "flow",
    LONG: "long-calls",
    UNKNOWN: "destination-unknown",
    OVERDUE: OVERDUE_RATE_HELD,
}
"""What rows in them wait for (`domain.waits`)."""


class Hold(NamedTuple):
    """The row may not be claimed before `queue` has moved; `place` is its position there. `behind`: the schedule that
    it waits for, if it is one. `cause`: what it waits for, if that is not what rows in this queue do."""

    queue: WaitQueue
    place: RowKey
    behind: ScheduleId | None = None
    cause: str | None = None


class Recheck(NamedTuple):
    """The row is to be checked once more before it is judged again: what it depends on may have changed."""


Verdict: TypeAlias = Outcome | Hold | Recheck | None
"""On a row whose turn to be claimed has come: None to claim it, Hold, Recheck, or the outcome it gets without being
claimed."""


class Again(NamedTuple):
    """The first `rows` of a queue, of those that are due by `due_by` (Unix milliseconds)."""

    rows: int
    due_by: int = MAX_DUE


class Judge(Protocol):
    """Says which rows may be claimed. `now` is Unix milliseconds."""

    def begin(self, held: Mapping[WaitQueue, Sized]) -> None:
        """Rows are about to be picked for one claim; `held` are those that are held already."""

    def judge(self, entry: PendingRow, now: int) -> Verdict:
        """Whether to claim this row. Each row judged so counts as claimed until `answered`."""

    def again(self, queue: WaitQueue, first: PendingRow, now: int) -> Again:
        """Which of the rows held in `queue`, whose first is `first`, are to be judged again."""


class PendingRows:
    """Rows by key, the waiting ones also in a heap by due; `ended` keeps the order in which they ended. Held rows are
    in a heap of their queue instead. `now`: Unix milliseconds as of the read whose rows are added. `all_found`: the
    partition was read completely; rows added later were created since."""

    def __init__(self) -> None:
        self.now = 0
        self.all_found = False
        self._found_before: dict[RowKey, int] = {}
        self._by_key: dict[RowKey, PendingRow] = {}
        self._waiting: list[tuple[RowKey, PendingRow]] = []
        self._words: list[tuple[RowKey, PendingRow]] = []
        """Waiting rows that are no calls: they are never claimed."""
        self.held: dict[WaitQueue, list[tuple[RowKey, PendingRow]]] = {}
        self.ended: dict[PendingRow, None] = {}
        self.unchecked: dict[RowKey, PendingRow] = {}
        self._on_the_wire: dict[PendingRow, None] = {}
        """Claimed rows, and those that an earlier owner may have sent."""
        self.claimed_count = 0

    def __len__(self) -> int:
        return len(self._by_key)

    def __contains__(self, key: RowKey) -> bool:
        return key in self._by_key

    def __iter__(self) -> Iterator[tuple[RowKey, PendingRow]]:
        return iter(self._by_key.items())

    def get(self, key: RowKey) -> PendingRow | None:
        return self._by_key.get(key)

    def add(self, row: Row, *, redelivery: bool) -> None:
        """A row without an outcome, unless it is known: then a later revision replaces it until it is claimed."""
        entry = PendingRow(row, redelivery=redelivery, found_at=self.now if self.all_found else 0)
        # The entry's own key, not `row.key`: that property makes a new one each time.
        key = entry.key
        if (known := self._by_key.setdefault(key, entry)) is not entry:
            if row.revision is not None and not known.claimed:
                known.revise(row)
            return
        if self._found_before:
            entry.found_at = self._found_before.pop(key, entry.found_at)
        if not entry.checked:
            self.unchecked[key] = entry
        if redelivery:
            self._on_the_wire[entry] = None
        heapq.heappush(self._waiting if entry.word is None else self._words, (key, entry))

    def forget(self, key: RowKey) -> PendingRow | None:
        entry = self._by_key.pop(key, None)
        if entry is not None:
            entry.forgotten = True
            self._on_the_wire.pop(entry, None)
            if entry.outcome is not None:
                self.ended.pop(entry, None)
            if not entry.checked:
                self.unchecked.pop(key, None)
            self.claimed_count -= entry.claimed
        return entry

    def discard_unclaimed(self) -> None:
        """Forget rows that were never claimed, even if they have got an outcome: they are read and judged again."""
        for key, entry in list(self._by_key.items()):
            if not entry.claimed:
                self.forget(key)
                self._found_before[key] = entry.found_at
        self._waiting.clear()
        self._words.clear()
        self.held.clear()

    def unchecked_by(self, horizon: int) -> tuple[Row, ...]:
        """Rows due by `horizon` that must be checked and have not been."""
        return tuple(entry.row for entry in self.unchecked.values() if entry.row.due <= horizon)

    def next_due(self) -> UnixMillis | None:
        """Due of the earliest waiting row."""
        waiting = self._waiting
        # Rows that were forgotten, or have ended, stay in the heap until they come to its top.
        while waiting:
            key, entry = waiting[0]
            if entry.waits:
                return key.due
            heapq.heappop(waiting)
        return None

    def pick(self, *, horizon: int, limit: int, judge: Judge, now: int) -> tuple[PendingRow, ...]:
        """Take up to `limit` checked rows due by `horizon` off the heap, earliest first, if `judge` admits them."""
        judge.begin(self.held)
        waiting, picked = self._waiting, list[PendingRow]()
        unchecked: list[PendingRow] = []
        while waiting and len(picked) < limit and waiting[0][0].due <= horizon:
            _, entry = heapq.heappop(waiting)
            if not entry.waits:
                continue
            if not entry.checked:
                unchecked.append(entry)
                continue
            verdict = judge.judge(entry, now)
            if verdict is None:
                picked.append(entry)
            elif isinstance(verdict, Hold):
                entry.held(verdict, now)
                heapq.heappush(self.held.setdefault(verdict.queue, []), (verdict.place, entry))
            elif isinstance(verdict, Recheck):
                entry.checked = False
                self.unchecked[entry.key] = entry
                unchecked.append(entry)
            else:
                self.end(entry, verdict, at=now)
        self.put_back(unchecked)
        return tuple(picked)

    def end_words(self, now: int, end_of: Callable[[PendingRow, int], Outcome | None]) -> None:
        """End the checked rows that are no calls and are due by `now`, as `end_of(row, now)` says; None: not yet."""
        words, left = self._words, list[tuple[RowKey, PendingRow]]()
        while words and words[0][0].due <= now:
            first = heapq.heappop(words)
            entry = first[1]
            if not entry.waits:
                continue
            outcome = end_of(entry, now) if entry.checked else None
            if outcome is None:
                left.append(first)
            else:
                self.end(entry, outcome, at=now)
        for each in left:
            heapq.heappush(words, each)

    def next_word(self) -> UnixMillis | None:
        """Due of the earliest waiting row that is no call."""
        words = self._words
        while words and not words[0][1].waits:
            heapq.heappop(words)
        return words[0][0].due if words else None

    def held_for(self, kind: str) -> bool:
        """Whether rows are held in a queue of this kind."""
        return any(queue[0] == kind for queue in self.held)

    def behind_keys(self) -> int:
        """How many waiting rows are held in the queues of their keys."""
        return sum(entry.waits for queue, rows in self.held.items() if queue[0] == KEY for _, entry in rows)

    def reconsider(self, judge: Judge, now: int) -> None:
        """Put back those held rows that are to be judged again."""
        if not self.held:
            return
        for queue, rows in list(self.held.items()):
            while rows and not rows[0][1].waits:
                heapq.heappop(rows)
            again = judge.again(queue, rows[0][1], now) if rows else Again(0)
            for _ in range(min(again.rows, len(rows))):
                if rows[0][1].row.due > again.due_by:
                    break
                entry = heapq.heappop(rows)[1]
                if entry.check_is_old(now):
                    entry.checked, entry.held_since = False, MAX_DUE
                    self.unchecked[entry.key] = entry
                entry.let_go(now)
                self.put_back([entry])
            if not rows:
                del self.held[queue]

    def claim_instants(self, now: int, *, lead_ms: int) -> list[int]:
        """When to step again without an event: `lead_ms` before the first waiting row is due, and when the first row
        held for another reason than its key is due."""
        held = [rows[0][1].row.due for queue, rows in self.held.items() if queue[0] != KEY and rows]
        first = self.next_due()
        return [due for due in held if due > now] + ([] if first is None else [first - lead_ms])

    def put_back(self, entries: Iterable[PendingRow]) -> None:
        for entry in entries:
            entry.overdue = False
            heapq.heappush(self._waiting, (entry.key, entry))

    def claimed(self, entries: Collection[PendingRow]) -> None:
        for entry in entries:
            entry.claimed = True
        self.claimed_count += len(entries)
        self._on_the_wire.update(dict.fromkeys(entries))

    def unclaim(self, entry: PendingRow) -> None:
        entry.claimed = False
        self.claimed_count -= 1
        if not entry.redelivery:
            del self._on_the_wire[entry]
        self.put_back([entry])

    def end(self, entry: PendingRow, outcome: Outcome, *, at: int) -> None:
        entry.outcome, entry.ended_at = outcome, at
        self.ended[entry] = None

    def oldest_end(self) -> int | None:
        return next(iter(self.ended)).ended_at if self.ended else None

    def ended_writes(self, *, expect: State | None, most: int) -> tuple[RowWrite, ...]:
        """The outcomes of the `most` rows that ended first, on condition that the rows still have state `expect`."""
        return tuple(
            [
                RowWrite(key=entry.key, outcome=entry.outcome, expect_state=expect)
                for entry in islice(self.ended, most)
                if entry.outcome is not None
            ]
        )

    def whole_read(self) -> set[ScheduleId]:
        """The partition was read completely. Returns the ids that an earlier owner may have sent."""
        self.all_found = True
        return {entry.row.schedule_id for entry in self._on_the_wire if entry.redelivery}

    def on_the_wire(self, *, without: int) -> set[ScheduleId]:
        """Ids that may be on the wire, or were found in doubt and are not recorded. Without those of the first
        `without` rows that ended, whose outcomes are about to be recorded."""
        written = set(islice(self.ended, without))
        return {entry.row.schedule_id for entry in self._on_the_wire if entry not in written}


class Admission(Judge, Protocol):
    """What a minute's machine asks before it claims a row (`minute.admission`), and informs of the rows that it reads
    and records."""

    def end_of_word(self, entry: PendingRow, now: int) -> Outcome | None:
        """The outcome of a due row that is no call. None: not yet."""

    def answered(self) -> None:
        """No claim is under way any more: the rows that were admitted are handed out, or wait again."""

    def read(self, row: Row) -> None:
        """A row of the partition, or the original of one, as read. Rows without an ordering key may be left out: only
        the order is kept."""

    def in_doubt(self, row: Row) -> None:
        """A row of the partition that an earlier owner may have called."""

    def runs_ahead(self, key: str, schedule_id: ScheduleId, *, limit: int) -> list[ScheduleId]:
        """The first runs of a cron that must end before this one, by the ordering key of its runs: those that have
        started, then those that wait."""

    def is_under_way(self, key: str, schedule_id: ScheduleId, *, at: int) -> None:
        """This run had not ended at `at` (Unix milliseconds)."""

    def is_over(self, key: str, schedule_id: ScheduleId, *, redelivered_at: int) -> None:
        """This run has ended, or was cancelled, as of the delivery requested at `redelivered_at` (0: the first)."""

    def swept(self, row: SweptRow) -> None:
        """A row with an outcome, as a sweep reads it; without an ordering key it may be left out. It has no follow-up,
        or its follow-up is known already."""

    def recorded(self, row: Row, outcome: Outcome) -> None:
        """An outcome of ours was recorded."""

    def waits_for_others(self) -> bool:
        """Whether rows held for their keys wait for other rows to end, or for recovery to begin older minutes, and not
        only for a read that is under way."""

    def wants_whole_read(self) -> bool:
        """Whether rows held for their keys wait for the partition to be read to its end."""

    def whole_read(self) -> None:
        """The partition was read to its end."""
