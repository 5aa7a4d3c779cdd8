"""Which rows of a minute may be claimed now: the first of their ordering key, for a receiver that has room.

A row is judged when its turn to be claimed has come. It is claimed; or held in memory unclaimed until its queue (of a
key or a host) may have moved; or deferred unclaimed: then the next commit requeues it. So rows for a failing host, or
behind a head that is retried later, take no room from others and let their minute settle.

    behind its key   held while the head is under way or comes within `HOLD_MS`; deferred until after the head's next
                     attempt if that is later, or if this minute holds as many rows of the key as `_may_hold` allows,
                     or if it is in recovery and may not rest (`background_budget.MinutePlace`): it would keep its
                     place, and recovery would not reach the minute of the head
    overdue          held while the overdue rate of its client, or of all, has no token (`minute.overdue_admission`)
    no room for its  held while its turn comes soon, else deferred (`minute.flow_admission`)
    flow key
    order not known  if no known row of its key is before it, held, however many rows of other keys are held; deferred
                     only if it is late already and such rows take a third of the window, which happens while recovery
                     has a long past to go through. Otherwise as a row behind its key
    no room          held, and claimed no sooner than when it is due if the host's room is scarce (`due_within`). Held
                     rows count for the minute's window: if the rows of one slow host fill it, the rows behind them in
                     this minute of this poller are delayed
    run of a cron    as behind its key while another run of the cron has started. If it has not started itself, its
                     policy may say otherwise, `skip` behind any run, `buffer_one` behind two, `cancel_other` behind one
                     that is not being called: then it is held until it is due, since the one before may end by then,
                     and checked again (`crons.fire_guard`)
    breaker open     deferred until the host may be tried again
    destination      paused: deferred to the next look at it; locked: deferred; gone: fails (`dispatch.named_rows`). Not
                     known: held until it is certain that it is gone, since it may just have been made
"""

from collections.abc import Callable, Mapping, Sized
from typing import Protocol

from poller_cluster.clients import ServedClient
from poller_cluster.dispatch.job import Job
from poller_cluster.dispatch.outcome import BEHIND_ITS_KEY, defer
from poller_cluster.dispatch.receivers import Receiver, due_within, longest_due_in, part_for
from poller_cluster.dispatch.words import end_of_wait
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.flow_admission import FlowAdmission
from poller_cluster.minute.long_admission import LongAdmission
from poller_cluster.minute.ordering import OrderingKeys
from poller_cluster.minute.overdue_admission import OverdueAdmission
from poller_cluster.minute.rows import (
    FLOW,
    HOST,
    KEY,
    LATER,
    LONG,
    OVERDUE,
    RUN,
    UNKNOWN,
    Again,
    Hold,
    PendingRow,
    Recheck,
    Verdict,
    WaitQueue,
)
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.destinations import names_destination, read_named_url
from scheduler_service.domain.ids import ClientId, Minute, RowKey, ScheduleId, UnixMillis, key_of
from scheduler_service.domain.options import Undecodable, decode_options, is_run_key, says_flow
from scheduler_service.domain.retry_rows import says_in_doubt
from scheduler_service.domain.schedules import Kind, Outcome, Row, State, SweptRow

HOLD_MS = 10_000
"""Rows behind a head that comes within this time are held in memory."""
HELD_BEHIND = 400
"""How many rows of one minute are held behind the first of their keys; a third of its window if that is less.
No key takes more of it than it leaves free, so one key has at most half of it."""
LATE_MS = 1_000
"""The first row of a key is held at least this long past its due while the rows before it are not all known."""
BEHIND_MS = 1_000
DEFERRED_APART_MS = 100
"""Rows deferred behind a head come back `BEHIND_MS` after it, `DEFERRED_APART_MS` apart."""
LONGEST_BEHIND_MS = 60_000
LOOK_MS = 60_000
"""Rows behind one that awaits its receiver's word come back after this time, to look again."""
ALL = 1 << 30
"""More than the rows of any minute."""
UNTIL_KNOWN: WaitQueue = (UNKNOWN, "")
"""The queue of rows that name an unknown destination: one for all names."""


class _Alike:
    """The verdict on a healthy receiver, reused for later rows of the same claim that are due by `due_until` and have
    the same URL, or one `below` that of the same destination. `headroom` counts down."""

    __slots__ = ("below", "due_until", "headroom", "part", "queue", "receiver", "url")

    def __init__(self, *, url: str | None, due_until: int, part: float, receiver: Receiver[Job]) -> None:
        self.url = url
        self.due_until = due_until
        self.part = part
        self.receiver = receiver
        self.below = None if receiver.destination is None else f"{receiver.name}/"
        self.queue: WaitQueue = (HOST, receiver.name)
        self.headroom = receiver.headroom(part)


def _is_below(row: Row, known: _Alike) -> bool:
    return known.below is not None and row.url is not None and row.url.startswith(known.below)


class JudgedFor(Protocol):
    """What admission must know of the poller: the order of its ordering keys, and since when (monotonic seconds) it has
    been held after another owner."""

    @property
    def granted_at(self) -> float: ...

    @property
    def order(self) -> OrderingKeys: ...

    def knows_order(self, minute: Minute) -> bool:
        """Whether all rows were read that may stand before a row of this minute in the wait queue of its key."""

    def wake_minute(self, minute: Minute) -> None:
        """Let the run of this minute step again, if there is one."""

    def awaits_recovery(self, minute: Minute) -> bool:
        """Whether recovery has not begun this minute and all older ones."""


class MinuteAdmission:
    """The `Admission` of one run of a minute."""

    def __init__(
        self,
        *,
        client_id: ClientId,
        minute: Minute,
        poller: JudgedFor,
        settings: MinuteSettings,
        context: MinuteContext,
        may_rest: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_rest`: whether the minute may be kept waiting for the head of a key."""
        self._may_rest = may_rest
        self._client_id = client_id
        self._minute = minute
        self._poller = poller
        self._order = order = poller.order
        self._settings = settings
        self._clients = context.clients
        self._find_client = context.clients.get
        self._monotonic = context.runtime.clock.monotonic
        self._fraction = context.runtime.randomness.fraction
        self._dispatcher = context.dispatcher
        self._row_window = context.limits.row_window
        self._counts = context.books.counts
        self._flows = FlowAdmission(
            dispatcher=context.dispatcher,
            settings=settings,
            row_window=context.limits.row_window,
            granted_at=poller.granted_at,
        )
        self._long = LongAdmission(
            client_id=client_id,
            dispatcher=context.dispatcher,
            settings=settings,
            row_window=context.limits.row_window,
        )
        self._overdue = OverdueAdmission(
            client_id=client_id,
            minute=minute,
            dispatcher=context.dispatcher,
            wall_ms=context.runtime.clock.wall_ms,
            wake_minute=poller.wake_minute,
        )
        self._claiming: dict[Receiver[Job], int] = {}
        self._held_behind: dict[str, int] = {}
        self._free_behind = 0
        self._free_first = 0
        self._alike: _Alike | None = None
        self._unknown: dict[RowKey, float] = {}
        """Rows that name an unknown destination, with when they were first judged (monotonic seconds)."""
        order.reading.add(minute)

    def closed(self) -> None:
        """The run is over."""
        self.whole_read()
        self.answered()
        self._overdue.closed()
        self._unknown.clear()

    def answered(self) -> None:
        for receiver, rows in self._claiming.items():
            receiver.claimed(rows)
        self._claiming.clear()
        self._flows.answered()
        self._long.answered()
        self._overdue.answered()

    def begin(self, held: Mapping[WaitQueue, Sized]) -> None:
        self._held_behind = {key: len(rows) - 1 for (kind, key), rows in held.items() if kind == KEY and rows}
        third = self._row_window.rows // 3
        self._free_behind = min(HELD_BEHIND, third) - sum(self._held_behind.values())
        self._free_first = third - len(self._held_behind)
        self._alike = None
        self._flows.begin(held)
        client = self._find_client(self._client_id)
        self._long.begin(held, client)
        self._overdue.begin(held, client)

    def judge(self, entry: PendingRow, now: int) -> Verdict:
        if entry.row.due > self._overdue.due_by or not self._overdue.needs_token(entry, now):
            return self._judge(entry, now)
        if (hold := self._overdue.refused(entry)) is not None:
            return hold
        if (verdict := self._judge(entry, now)) is None:
            self._overdue.claiming(entry)
        return verdict

    def _judge(self, entry: PendingRow, now: int) -> Verdict:
        row, known = entry.row, self._alike
        if known is not None and (row.due > known.due_until or (row.url != known.url and not _is_below(row, known))):
            known = None
        flowing = says_flow(row.options)
        if known is not None and row.ordering_key is None and not flowing and not self._long.possible:
            return self._judge_alike(entry, known)
        client = self._find_client(self._client_id)
        if client is None:
            return None
        long = self._long.possible and self._long.includes(row, client)
        if known is None and names_destination(row.url):
            verdict = self._judge_destination(entry, client)
            if verdict is not None:
                return verdict
        if entry.row.ordering_key is not None:
            verdict = self._judge_order(entry, entry.row.ordering_key, client, now)
            if verdict is not None:
                return verdict
        turn = self._flows.judge(entry, client, now) if flowing else None
        if isinstance(turn, Hold | Outcome):
            return turn
        if long and (verdict := self._long.judge(entry, client, now)) is not None:
            return verdict
        verdict = self._judge_receiver(entry, client, now) if known is None else self._judge_alike(entry, known)
        if verdict is not None:
            return verdict
        if long:
            self._long.claiming()
        if turn is not None:
            self._flows.claiming(turn)
        key = entry.row.ordering_key
        if key is not None and is_run_key(key):
            self._order.started(key, entry.row.schedule_id, now, calling=True)
        return None

    def end_of_word(self, entry: PendingRow, now: int) -> Outcome | None:
        # It calls nobody, so no room counts, and it is the first of its key, if it has one.
        client = self._find_client(self._client_id)
        return None if client is None else end_of_wait(entry.claim(), client, now=now, jitter=self._fraction)

    def _judge_destination(self, entry: PendingRow, client: ServedClient) -> Verdict:
        """Before all else: a row that can't be called takes no place in a queue. Rows of one ordering key that are
        deferred here come back in their order."""
        named = read_named_url(entry.row.url or "")
        if named is None:
            return None
        if named.name not in client.destinations:
            since = self._unknown.setdefault(entry.key, self._monotonic())
            if not self._clients.surely_without(self._client_id, since=since):
                return Hold(UNTIL_KNOWN, entry.key)
        if self._unknown:
            self._unknown.pop(entry.key, None)
        return self._dispatcher.judge_named(entry.claim(), client, named.name)

    def _judge_order(self, entry: PendingRow, key: str, client: ServedClient, now: int) -> Verdict:
        row, order = entry.row, self._order
        in_doubt = entry.redelivery or says_in_doubt(row.options)
        # It will fail without a call (`dispatch.request`), so it need not wait for its key.
        if in_doubt and client.settings.in_doubt == "drop":
            return None
        order.read(row)
        order.want()
        if is_run_key(key):
            if in_doubt:
                order.started(key, row.schedule_id, row.due)
            rank = order.ahead(key, row.schedule_id)
        else:
            rank = order.rank(key, row.schedule_id)
        if self._poller.knows_order(self._minute):
            if rank == 0:
                return None
            if is_run_key(key) and (verdict := self._judge_run(entry, key, rank, now)) is not None:
                return verdict
            comes_at = max(order.head_at(key), now)
            if order.awaiting(key):
                # Its receiver's word may come long before its deadline.
                comes_at = min(comes_at, now + LOOK_MS)
        else:
            comes_at = now + HOLD_MS
        if rank and not self._may_rest():
            # Recovery goes on before it comes back.
            comes_at = max(comes_at, now + LOOK_MS)
        may_hold = self._may_hold_first(row, now) if rank == 0 else comes_at <= now + HOLD_MS and self._may_hold(key)
        first = order.first_of(key) if rank else None
        if may_hold:
            # The first of its key waits until all rows are known that a former owner left.
            return Hold((KEY, key), key_of(row.schedule_id), first, None if rank else "takeover")
        at = max(comes_at, row.due) + BEHIND_MS + min(rank * DEFERRED_APART_MS, LONGEST_BEHIND_MS)
        behind = None if first is None else str(first)
        return defer(entry.claim(), at=UnixMillis(at), in_doubt=in_doubt, reason=BEHIND_ITS_KEY, behind=behind)

    def _judge_run(self, entry: PendingRow, key: str, ahead: int, now: int) -> Verdict:
        """What a policy says of a run that has not started; None: it waits. `ahead` runs are before it."""
        row = entry.row
        try:
            options = decode_options(row.options)
        except Undecodable:
            return None
        if options.redelivery is not None or row.attempt_base or options.in_doubt or entry.redelivery:
            return None
        match options.overlap:
            case "skip":
                applies = True
            case "buffer_one":
                applies = ahead >= 2
            case "cancel_other":
                applies = not self._order.calling(key)
            case _:
                applies = False
        if not applies:
            return None
        return Recheck() if now >= row.due else Hold((RUN, key), entry.key)

    def _may_hold_first(self, row: Row, now: int) -> bool:
        self._free_first -= 1
        return self._free_first >= 0 or now < row.due + LATE_MS

    def _may_hold(self, key: str) -> bool:
        """Whether one more row of this key may be held behind its first one; counts it if so."""
        held = self._held_behind.get(key, 0)
        if held >= self._free_behind:
            return False
        self._held_behind[key] = held + 1
        self._free_behind -= 1
        return True

    def _judge_receiver(self, entry: PendingRow, client: ServedClient, now: int) -> Verdict:
        receiver = self._dispatcher.receiver(client, entry.row.url or "")
        if not receiver.breaker.closed:
            outcome = self._dispatcher.judge(entry.claim(), client, receiver)
            if outcome is not None:
                return outcome
        lead_ms = self._settings.claim_lead_ms
        part = part_for(entry.row.due - now, lead_ms=lead_ms)
        due_until = now + longest_due_in(part, lead_ms=lead_ms)
        alike = _Alike(url=entry.row.url, due_until=due_until, part=part, receiver=receiver)
        if receiver.breaker.closed:
            self._alike = alike
        return self._judge_alike(entry, alike)

    def _judge_alike(self, entry: PendingRow, alike: "_Alike") -> Verdict:
        if alike.headroom <= 0:
            alike.receiver.refuse(alike.part)
            return Hold(alike.queue, entry.key)
        alike.headroom -= 1
        receiver = alike.receiver
        receiver.reserved += 1
        self._claiming[receiver] = self._claiming.get(receiver, 0) + 1
        return None

    def again(self, queue: WaitQueue, first: PendingRow, now: int) -> Again:
        kind, key = queue
        if kind == KEY:
            return Again(self._headroom_in_queue(key, first, now))
        if kind == RUN:
            free = self._order.ahead(key, first.row.schedule_id) == 0
            return Again(ALL if free or now >= first.row.due else 0)
        client = self._find_client(self._client_id)
        if kind == OVERDUE:
            return self._overdue.again(client)
        if kind in (FLOW, LATER):
            return self._flows.again(queue, first, client, now)
        if client is None:
            return Again(0)
        if kind == LONG:
            return self._long.again(first, client, now)
        if kind == UNKNOWN:
            # Each is then judged by itself; those that came since are held again.
            since = self._unknown.get(first.key, self._monotonic())
            named = client.named(first.row.url)[0] is not None
            return Again(ALL if named or self._clients.surely_without(self._client_id, since=since) else 0)
        receiver = self._dispatcher.receiver(client, first.row.url or "")
        if receiver.destination is not None:
            destination = client.destinations.get(receiver.destination)
            if destination is None or not destination.callable:
                return Again(ALL)
        if not receiver.breaker.closed and self._dispatcher.judge(first.claim(), client, receiver) is not None:
            return Again(ALL)
        lead_ms, ahead_ms = self._settings.claim_lead_ms, self._settings.claim_ahead_ms
        part = part_for(first.row.due - now, lead_ms=lead_ms)
        headroom = receiver.headroom(part)
        if headroom <= 0:
            receiver.refuse(part)
        return Again(headroom, due_by=now + due_within(part, lead_ms=lead_ms, ahead_ms=ahead_ms))

    def _headroom_in_queue(self, key: str, first: PendingRow, now: int) -> int:
        if not self._poller.knows_order(self._minute):
            return 1 if self._free_first < 0 and now >= first.row.due + LATE_MS else 0
        if is_run_key(key):
            # Which of them may start, and what becomes of the others, is judged of each by itself.
            return 0 if self._order.calling(key) else ALL
        if self._order.rank(key, first.row.schedule_id) == 0:
            return 1
        # If the head comes late, all rows behind it are judged again, to be deferred.
        return 0 if self._order.head_at(key) <= now + HOLD_MS else ALL

    def read(self, row: Row) -> None:
        if row.ordering_key is not None:
            self._order.read(row)

    def in_doubt(self, row: Row) -> None:
        if row.ordering_key is not None and is_run_key(row.ordering_key):
            self._order.started(row.ordering_key, row.schedule_id, row.due)

    def runs_ahead(self, key: str, schedule_id: ScheduleId, *, limit: int) -> list[ScheduleId]:
        return self._order.runs_ahead(key, schedule_id, limit=limit)

    def is_under_way(self, key: str, schedule_id: ScheduleId, *, at: int) -> None:
        self._order.started(key, schedule_id, at)

    def is_over(self, key: str, schedule_id: ScheduleId, *, redelivered_at: int) -> None:
        self._order.found_ended(key, schedule_id, redelivered_at=redelivered_at)

    def swept(self, row: SweptRow) -> None:
        if row.ordering_key is not None and row.kind != Kind.RETRY_ROW and row.state != State.RETRYING:
            self._order.found_ended(row.ordering_key, row.schedule_id)

    def recorded(self, row: Row, outcome: Outcome) -> None:
        self._counts.recorded(self._client_id, row, outcome)
        if row.ordering_key is not None:
            self._order.recorded(row, outcome)

    def waits_for_others(self) -> bool:
        return self._poller.knows_order(self._minute) or self._poller.awaits_recovery(self._minute)

    def wants_whole_read(self) -> bool:
        return self._minute in self._order.reading

    def whole_read(self) -> None:
        if self._minute in self._order.reading:
            self._order.reading.discard(self._minute)
            self._order.changed()
