"""Ordering keys of one poller: which row of a key may start. Pure.

Rows of one (client, ordering_key) share a poller (`quotas.pinned_poller`), and start one at a time, by due. Ids sort by
due, so the queue of a key is its ids in order. A row may start when it is the first in its queue; it leaves the queue
when its schedule's end is recorded, so a head that is retried keeps all rows behind it waiting.

    seen (read, or an attempt to be repeated)  --> in the queue, with the instant at which its row is due
    ended (recorded, or found ended)           --> out of the queue for good

A queue holds what this owner has read. `HeldPoller.knows_order` says when that is complete: recovery has begun every
older minute, each of them and the row's own was read to its end once, and later minutes were searched for retry rows
(`order_ahead`). Until then rows with a key are held.

Ended ids are remembered for a while, since a page read earlier may still show them open. Redeliveries are not queued:
they were requested one by one.

**Runs of a cron** whose policy forbids overlaps have a key of the cron's (`domain.options.run_key`), and a stricter
rule: whichever of them has started, the *holder*, keeps all others waiting until its end is recorded, those with
earlier ids and redeliveries too. A run is the holder from its admission on, or once it is found started:
tried before, or in doubt. A new owner may find two: the end of the first may be recorded in its retry row only, until
it is carried. Then the second waits until the first is known to have ended. What becomes of the others is decided by
`minute.admission`.

A run that was redelivered begins again. What a page says of an earlier delivery of it is outdated, and what one says of
a later delivery replaces all that was known. `tests.models.overlaps` walks every order of these steps.

Bound: a poller queues at most `QUEUED_IDS` ids; a row beyond that is not waited for by those behind it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable

from scheduler_service.domain.acknowledgements import REASONS_OF_WORDS
from scheduler_service.domain.ids import Minute, ScheduleId
from scheduler_service.domain.options import Undecodable, decode_options, is_run_key
from scheduler_service.domain.retry_rows import IN_DOUBT, MARK_REDELIVERY, SUPERSEDED, says_in_doubt, word_of
from scheduler_service.domain.schedules import Outcome, Row, State

QUEUED_IDS = 50_000
ENDED_IDS = 10_000
OVERDUE_MS = 60_000
"""A head whose instant is this long past is looked up: it may have been cancelled in a minute that is not read here."""


class _WaitQueue:
    """Ids in order, each with the instant (Unix ms) at which its row is due."""

    __slots__ = ("at", "ids")

    def __init__(self) -> None:
        self.ids: list[ScheduleId] = []
        self.at: dict[ScheduleId, int] = {}


class _Holder:
    """The run of a cron that has started. `calling`: it is claimed, or may be; `at`: when it was admitted, or when its
    next attempt is due (Unix ms)."""

    __slots__ = ("at", "calling")

    def __init__(self, at: int, *, calling: bool) -> None:
        self.at = at
        self.calling = calling


class OrderingKeys:
    """The queues of one poller under one epoch. `on_change`: a row left a queue, or a head's instant has changed.
    `on_wanted`: the first row with a key was found, so the order must be learnt."""

    def __init__(self, *, on_change: Callable[[], None], on_wanted: Callable[[], None]) -> None:
        self._on_change = on_change
        self._on_wanted = on_wanted
        self._queues: dict[str, _WaitQueue] = {}
        self._count = 0
        self._ended: dict[ScheduleId, None] = {}
        self._redelivered: dict[ScheduleId, int] = {}
        """When runs of crons were redelivered last, as far as known (Unix ms)."""
        self._awaiting: set[ScheduleId] = set()
        """Ids whose receivers say later what became of them."""
        self._holders: dict[str, dict[ScheduleId, _Holder]] = {}
        """The runs that have started, in that order: one, or for a while two after a takeover."""
        self.reading: set[Minute] = set()
        """Minutes that run and have not been read to their end yet."""
        self.wanted = False

    def changed(self) -> None:
        """More of the order is known than before."""
        if self.wanted:
            self._on_change()

    def want(self) -> None:
        if not self.wanted:
            self.wanted = True
            self._on_wanted()

    def read(self, row: Row) -> None:
        """A row with a key, as read in its minute."""
        key = row.ordering_key
        if key is None or not row.defined or row.reason == SUPERSEDED:
            return
        if row.state is not None or row.options is not None:
            # Without options nobody can say what a retry row is.
            self._awaits(row.schedule_id, awaiting=_is_awaiting(row))
        if is_run_key(key) and not self._learn(key, row.schedule_id, _redelivered_at(row)):
            return
        if is_run_key(key) and _has_started(row):
            self.started(key, row.schedule_id, row.next_attempt_at or row.due)
        if row.redelivered_at is not None and not (is_run_key(key) and row.state == State.RETRYING):
            self.ended(key, row.schedule_id)
        elif row.state is None:
            self.seen(key, row.schedule_id, row.due)
        elif row.state == State.RETRYING:
            self.seen(key, row.schedule_id, row.next_attempt_at or row.due)
        else:
            self.ended(key, row.schedule_id)

    def recorded(self, row: Row, outcome: Outcome) -> None:
        """A row's outcome was recorded by this owner."""
        key = row.ordering_key
        if key is None:
            return
        holder = self._holders.get(key, {}).get(row.schedule_id)
        if holder is not None:
            holder.calling = False
            holder.at = outcome.next_attempt_at or 0
        if outcome.reason == SUPERSEDED:
            return
        self._awaits(row.schedule_id, awaiting=outcome.state is State.RETRYING and outcome.reason in REASONS_OF_WORDS)
        if outcome.redelivered_at is not None:
            # Snoozed: it goes on as a redelivery does, which has no place in the queue.
            if not is_run_key(key):
                self.ended(key, row.schedule_id)
                return
            self._learn(key, row.schedule_id, outcome.redelivered_at)
        if outcome.state is State.RETRYING:
            self.seen(key, row.schedule_id, outcome.next_attempt_at or row.due)
        else:
            self.ended(key, row.schedule_id)

    def _awaits(self, schedule_id: ScheduleId, *, awaiting: bool) -> None:
        if awaiting:
            # Nothing waits for more rows than are queued.
            if len(self._awaiting) < QUEUED_IDS:
                self._awaiting.add(schedule_id)
        elif self._awaiting:
            self._awaiting.discard(schedule_id)

    def awaiting(self, key: str) -> bool:
        """Whether the row that others of this key wait for may end at any time, by its receiver's word."""
        if not self._awaiting:
            return False
        queue = self._queues.get(key)
        first = () if queue is None else (queue.ids[0],)
        return not self._awaiting.isdisjoint((*self._holders.get(key, ()), *first))

    def seen(self, key: str, schedule_id: ScheduleId, at: int) -> None:
        """This id is in the queue; its row is due at `at`."""
        if schedule_id in self._ended:
            return
        queue = self._queues.get(key)
        if queue is None or schedule_id not in queue.at:
            if self._count >= QUEUED_IDS:
                return
            if queue is None:
                queue = self._queues[key] = _WaitQueue()
            insort(queue.ids, schedule_id)
            self._count += 1
        elif queue.at[schedule_id] == at:
            return
        queue.at[schedule_id] = at
        # Only a head's instant decides when the rows behind it are judged again.
        if queue.ids[0] == schedule_id and len(queue.ids) > 1:
            self._on_change()

    def ended(self, key: str, schedule_id: ScheduleId) -> None:
        """This id leaves the queue for good."""
        self._ended[schedule_id] = None
        self._awaits(schedule_id, awaiting=False)
        if len(self._ended) > ENDED_IDS:
            del self._ended[next(iter(self._ended))]
        holders, queue = self._holders.get(key), self._queues.get(key)
        held = holders is not None and holders.pop(schedule_id, None) is not None
        if held and not holders:
            del self._holders[key]
        if queue is None or queue.at.pop(schedule_id, None) is None:
            if held:
                self._on_change()
            return
        del queue.ids[bisect_left(queue.ids, schedule_id)]
        self._count -= 1
        if not queue.ids:
            del self._queues[key]
        self._on_change()

    def _learn(self, key: str, schedule_id: ScheduleId, redelivered_at: int) -> bool:
        """Something was read of this delivery of a run: of a later one than was known, it begins again; of an earlier
        one, False."""
        known = self._redelivered.get(schedule_id, 0)
        if redelivered_at > known:
            self.ended(key, schedule_id)
            del self._ended[schedule_id]
            self._redelivered[schedule_id] = redelivered_at
            if len(self._redelivered) > ENDED_IDS:
                del self._redelivered[next(iter(self._redelivered))]
        return redelivered_at >= known

    def found_ended(self, key: str, schedule_id: ScheduleId, *, redelivered_at: int | None = None) -> None:
        """A read shows that this run has ended: the delivery of it that was requested at `redelivered_at`, 0 for the
        first one. None: the read does not tell which."""
        outdated = (
            schedule_id in self._redelivered
            if redelivered_at is None
            else not self._learn(key, schedule_id, redelivered_at)
        )
        if not outdated:
            self.ended(key, schedule_id)

    def started(self, key: str, schedule_id: ScheduleId, at: int, *, calling: bool = False) -> None:
        """A run has started: it holds its key. `at`: when it was admitted, or when its next attempt is due."""
        holder = self._holders.get(key, {}).get(schedule_id)
        if holder is None:
            if calling or schedule_id not in self._ended:
                self._holders.setdefault(key, {})[schedule_id] = _Holder(at, calling=calling)
        elif calling or not holder.calling:
            holder.at, holder.calling = at, calling

    def calling(self, key: str) -> bool:
        """Whether a run has started and is claimed. Otherwise it waits for its next attempt, or was cancelled since."""
        return any(holder.calling for holder in self._holders.get(key, {}).values())

    def ahead(self, key: str, schedule_id: ScheduleId) -> int:
        """How many runs of a cron must end before this one; at 0 it may start."""
        holders, before = self._holders.get(key), self.rank(key, schedule_id)
        if holders is None:
            return before
        queue = self._queues.get(key)
        for position, holder in enumerate(holders):
            if holder == schedule_id:
                return position
            counted = queue is not None and holder in queue.at and holder < schedule_id
            before += not counted
        return before

    def runs_ahead(self, key: str, schedule_id: ScheduleId, *, limit: int) -> list[ScheduleId]:
        """The first of them: those that have started, then those that wait, by due."""
        found = list(self._holders.get(key, ()))
        if schedule_id in found:
            return found[: found.index(schedule_id)][:limit]
        queue = self._queues.get(key)
        if queue is not None:
            before = queue.ids[: min(self.rank(key, schedule_id), limit + len(found))]
            found += [one for one in before if one not in found]
        return found[:limit]

    def rank(self, key: str, schedule_id: ScheduleId) -> int:
        """How many ids are before this one; at 0 its row may start."""
        queue = self._queues.get(key)
        return 0 if queue is None else bisect_left(queue.ids, schedule_id)

    def first_of(self, key: str) -> ScheduleId | None:
        """The schedule that all others of this key wait for: one that holds it, else the first of its queue."""
        if holders := self._holders.get(key):
            return next(iter(holders))
        queue = self._queues.get(key)
        return None if queue is None or not queue.ids else queue.ids[0]

    def head_at(self, key: str) -> int:
        """When the head of this queue is due, 0 if it is being called. There must be a queue or a holder."""
        if holders := self._holders.get(key):
            return 0 if self.calling(key) else next(iter(holders.values())).at
        queue = self._queues[key]
        return queue.at[queue.ids[0]]

    def overdue(self, now: int, *, limit: int) -> list[tuple[str, ScheduleId]]:
        """Holders, and heads with rows behind them, that are overdue by more than `OVERDUE_MS`."""
        late = []
        for key, queue in self._queues.items():
            if len(queue.ids) > 1 and queue.at[queue.ids[0]] + OVERDUE_MS < now:
                late.append((key, queue.ids[0]))
                if len(late) >= limit:
                    return late
        for key, holders in self._holders.items():
            late += [(key, one) for one, holder in holders.items() if holder.at + OVERDUE_MS < now]
            if len(late) >= limit:
                break
        return late[:limit]


def _is_awaiting(row: Row) -> bool:
    """Whether a receiver's word ends the schedule of this row: an original, or the retry row at the deadline."""
    if row.state is None:
        return row.is_retry_row and word_of(row.options) is not None
    return row.state == State.RETRYING and row.reason in REASONS_OF_WORDS


def _has_started(row: Row) -> bool:
    """Whether an attempt was made, or may have been, since the row was created or redelivered last."""
    if row.state is None:
        return row.is_retry_row and (says_in_doubt(row.options) or _attempts_of(row) > 0)
    if row.state != State.RETRYING:
        return False
    return row.reason == IN_DOUBT or (row.attempts or 0) > (row.redelivered_after or 0)


def _redelivered_at(row: Row) -> int:
    """When the delivery that this row tells of was requested (Unix ms); 0: it is the first one."""
    if not row.is_retry_row or MARK_REDELIVERY not in (row.options or ""):
        return row.redelivered_at or 0
    try:
        redelivery = decode_options(row.options).redelivery
    except Undecodable:
        return 0
    return 0 if redelivery is None else redelivery.at


def _attempts_of(row: Row) -> int:
    """Those of a retry row that count since the last redelivery."""
    base = row.attempt_base or 0
    try:
        return decode_options(row.options).attempts_counted(base) if base else 0
    except Undecodable:
        return base
