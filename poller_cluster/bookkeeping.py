"""What a node writes beside the outcomes themselves: balances, dead letters, records of attempts.

Balances and dead letters are part of settling a minute: they are written before its watermark passes, and again by an
owner that settles it again. Records of attempts are for people: written soon, many together, and no call waits for
them. A first attempt that delivers has none, because the schedule's own row tells all of it. They are not follow-ups,
since no other process could write them after a crash: only the one that made the attempt knows its duration and
excerpt. So they are lost if the process is killed right after the attempt, if storage is away for longer than
`ATTEMPT_WRITE_TRIES` tries or refuses them, or if more than `ATTEMPTS_WAITING` wait; those that this process could not
record are counted in `unrecorded`. A process that stops writes them first.

One client's flood of failures does not displace another's records: a client may have no more of them waiting than there
is room left for all clients.
"""

import asyncio
from collections import Counter, deque
from functools import partial

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from membership.ports import Spawn
from poller_cluster.counters import CallCounts
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.dispatch.job import Job
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.books import AttemptRecord, DeadLetter, Tally
from scheduler_service.domain.end_notices import EndNotice
from scheduler_service.domain.ids import ClientId, Partition, UnixMillis
from scheduler_service.domain.notices import EVENTS_CLIENT, ON, DeadlineContent, EventContent, decode_notice
from scheduler_service.domain.options import Undecodable
from scheduler_service.domain.ports import AttemptStore, BalanceStore, DeadLetterStore
from scheduler_service.domain.schedule_filters import destination_of, host_of
from scheduler_service.domain.schedules import Definition, Outcome, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.balance import CountMinute

ATTEMPTS_WAITING = 10_000
"""Attempts waiting to be recorded, about 1 KiB each."""
LONGEST_REASON = 200
"""Characters that are kept of why an attempt has no answer."""
ATTEMPTS_PER_WRITE = 200
ATTEMPT_WRITE_TRIES = 5
ATTEMPT_WRITE_PAUSE_SECONDS = 1.0
FLUSH_SECONDS = 2.0

WAIT_SECONDS = 2.0
"""From the first change to the count, so that one count covers several changes."""
REST = 9.0
"""A count is followed by a pause of this many times its duration: a minute of a million rows whose retries end one by
one takes a tenth of one reader's time."""
MINUTES_WAITING = 10_000


class Bookkeeper:
    """Writes through three stores. `settle` and `dead_letter` raise StoreUnavailable; then the caller repeats them."""

    def __init__(
        self,
        *,
        balances: BalanceStore,
        dead_letters: DeadLetterStore,
        attempts: AttemptStore,
        clock: Clock,
        spawn: Spawn,
        counts: CallCounts | None = None,
    ) -> None:
        self.counts = counts or CallCounts()
        self._balances = balances
        self._dead_letters = dead_letters
        self._attempts = attempts
        self._clock = clock
        self._spawn = spawn
        self.unrecorded = 0
        """Attempts whose records were given up."""
        self._waiting: deque[AttemptRecord] = deque()
        self._waiting_of: Counter[ClientId] = Counter()
        self._written = asyncio.Event()
        self._written.set()

    async def settle(self, partition: Partition, epoch: int, account: Tally) -> None:
        """Write a minute's balance; an empty minute writes nothing. A balance of a higher epoch is kept."""
        if account.accepted == 0:
            return
        match await self._balances.write(account.balance(partition, epoch=epoch)):
            case Applied() | Rejected():
                return
            case Unknown(reason=reason):
                raise StoreUnavailable(reason)

    async def dead_letter(self, definition: Definition, outcome: Outcome) -> None:
        """Write the dead letter of a failed schedule; that of a notice is its client's. The same row and outcome make
        the same letter."""
        client_id, poller_id, label = definition.client_id, definition.poller_id, definition.label
        if client_id == EVENTS_CLIENT:
            try:
                content = decode_notice(definition.body)
            except Undecodable:
                return
            if isinstance(content, EventContent | DeadlineContent):
                return
            client_id, poller_id = content.client_id, content.letter_poller
            label = f"{EVENTS_CLIENT}/{ON + content.on if isinstance(content, EndNotice) else content.subscription}"
        await self._dead_letters.insert(
            [
                DeadLetter(
                    client_id=client_id,
                    poller_id=poller_id,
                    failed_at=outcome.finished_at or UnixMillis(definition.due),
                    schedule_id=definition.schedule_id,
                    reason=outcome.reason,
                    last_status=outcome.last_status,
                    last_error=outcome.last_error,
                    attempts=outcome.attempts,
                    host=None if definition.client_id == EVENTS_CLIENT else host_of(definition.url),
                    destination=destination_of(definition.url),
                    label=label,
                )
            ]
        )

    def attempt_made(self, job: Job, result: AttemptResult, outcome: Outcome) -> None:
        """Count an attempt, and record it, unless it was the first one, has delivered and tells of no verb."""
        self.counts.attempt_made(job, result)
        verb = "" if result.heeded is None else result.heeded.mark
        if outcome.state is State.DELIVERED and outcome.attempts == 1 and not verb:
            return
        client_id = job.owner.client_id
        if self._waiting_of[client_id] >= ATTEMPTS_WAITING - len(self._waiting):
            self.unrecorded += 1
            return
        # A success of 0 ms would read as one whose start is unknown (`domain.attempts`).
        duration_ms = max(round(result.duration_seconds * 1000), 1 if result.succeeded else 0)
        self._waiting_of[client_id] += 1
        self._waiting.append(
            AttemptRecord(
                client_id=client_id,
                schedule_id=job.claim.row.schedule_id,
                attempt=outcome.attempts,
                started_at=UnixMillis(result.started_at_ms),
                status=result.status,
                error=verb or result.error,
                duration_ms=duration_ms,
                excerpt=_said(result),
            )
        )
        if self._written.is_set():
            self._written.clear()
            self._spawn(self._write_attempts(), name="attempts")

    async def flush(self) -> None:
        """Return when all attempts are recorded or given up, or when that takes too long."""
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._written.wait()
        except TimeoutError:
            return

    async def _write_attempts(self) -> None:
        tries = 0
        while self._waiting:
            # They stay queued while they are written, so that they count against the bounds.
            some = [self._waiting[position] for position in range(min(len(self._waiting), ATTEMPTS_PER_WRITE))]
            try:
                await self._attempts.record(some)
            except StoreUnavailable:
                tries += 1
                if tries < ATTEMPT_WRITE_TRIES:
                    await self._clock.sleep(ATTEMPT_WRITE_PAUSE_SECONDS)
                    continue
                self.unrecorded += len(some)
            except MinutehandError:
                # Storage refuses them, and would again. An exception here would end the node.
                self.unrecorded += len(some)
            tries = 0
            for attempt in some:
                self._waiting.popleft()
                self._waiting_of[attempt.client_id] -= 1
        self._waiting_of.clear()
        self._written.set()


class Recounts:
    """Counts minutes again whose rows have changed since they were settled, one minute at a time.

    The end of a retry row is carried to its original, whose minute may have been settled hours ago: its stored balance
    is out of date from then on. The run that carried it asks for a recount. After a delay, for other changes of the
    same minute, the minute is counted from its rows; balances are never added to. Requests are kept in memory only, and
    may be lost with the process or dropped when there are too many: a balance that is out of date is recognised by its
    stamp (`domain.books`), and the next reader counts the minute itself.
    """

    def __init__(self, *, count: CountMinute, runtime: NodeRuntime) -> None:
        self._count = count
        self._budget = runtime.budget
        self._clock = runtime.clock
        self._spawn = runtime.spawn
        self._on_fault = runtime.on_fault
        self._wanted: dict[Partition, int] = {}
        self._busy = False

    def ask(self, partition: Partition, epoch: int) -> None:
        """Rows of this minute have changed; `epoch` is that of the poller's lease."""
        if partition not in self._wanted and len(self._wanted) >= MINUTES_WAITING:
            return
        self._wanted[partition] = max(epoch, self._wanted.get(partition, epoch))
        if not self._busy:
            self._busy = True
            self._spawn(self._run(), name="recounts")

    async def _run(self) -> None:
        try:
            while self._wanted:
                await self._clock.sleep(WAIT_SECONDS)
                wanted, self._wanted = self._wanted, {}
                for partition, epoch in wanted.items():
                    begun = self._clock.monotonic()
                    turn = partial(self._budget.slot, partition.client_id)
                    try:
                        await self._count(partition, epoch=epoch, turn=turn)
                    except StoreUnavailable:
                        continue
                    except Exception as error:
                        # One minute that can't be counted must not end the node.
                        self._on_fault(f"recount {partition}", error)
                    await self._clock.sleep(REST * (self._clock.monotonic() - begun))
        finally:
            self._busy = False


def _said(result: AttemptResult) -> str:
    """What is kept of a failed attempt beside its status or error: the beginning of the receiver's answer; without one,
    as of every target, a sentence that says why."""
    if result.succeeded:
        return ""
    return result.excerpt if result.status is not None else result.detail[:LONGEST_REASON]
