"""The shell of one poller minute: carries out the steps of its machine, one at a time, and reports the answers.

Storage that gives no answer is asked again after a growing pause (`backoff`). While this incarnation is not trusted, or
the wall clock is in doubt, only an unanswered write is repeated, and nothing new is begun.
"""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from membership.conditional import Answer, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.signal import Signal
from poller_cluster.dispatch.dispatcher import Dispatcher
from poller_cluster.dispatch.job import Claim, Job
from poller_cluster.minute.context import MinuteContext
from poller_cluster.minute.follow_up_runner import FollowUpRunner
from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.rows import KEY, OVERDUE, Admission
from poller_cluster.minute.steps import (
    CheckRows,
    FollowUp,
    OpenPartition,
    Phase,
    ReadHinted,
    ReadPage,
    ReadStrays,
    RecheckRows,
    Step,
    Stop,
    SweepPage,
    Wait,
    WriteBalance,
    WriteCommit,
)
from poller_cluster.notices.calls import NoticeCalls
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE
from scheduler_service.domain.ids import Partition, RowKey, ScheduleId, key_of, partition_of
from scheduler_service.domain.notices import EVENTS_CLIENT
from scheduler_service.domain.schedules import Kind, Outcome, Page, Row, SweptPage
from scheduler_service.runtime.backoff import Backoff
from scheduler_service.usecases.complete_reschedule import CompleteReschedule

PAGE_ROWS = 1_000
AWAITED_AFTER_MS = 50
"""The longest that outcomes wait to share a write while rows of the minute are held for their ordering keys."""
DOUBT_PAUSE_SECONDS = 0.2
"""From one check of trust and clock to the next while either is in doubt."""


class MinuteRun:
    """Runs one machine to its end. `past`: the minute is in recovery, so its requests use the node's background
    budget."""

    def __init__(
        self,
        *,
        machine: PollerMinute,
        context: MinuteContext,
        admission: Admission,
        past: bool = False,
        on_rest: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_rest`: nothing is left to do but to wait for others (`PollerMinute.at_rest`), or for room for overdue
        calls, so the minute needs no place in recovery. Called once, and only if `past`."""
        self.machine = machine
        self._on_rest = on_rest
        self._rested = not past
        self.client_id, self.epoch = machine.partition.client_id, machine.epoch
        self.past = past
        self._admission = admission
        self._context = context
        self._limits = context.limits
        self._clock = context.runtime.clock
        self._trusted = context.runtime.trusted
        self._reschedules = CompleteReschedule(schedules=context.schedules, writer=context.writer)
        self._wake = Signal(self._clock)
        self._backoff = Backoff(clock=self._clock, randomness=context.runtime.randomness)
        self._read_to: RowKey | None = None
        self._more = False
        self._follow_up_runner = FollowUpRunner(
            writer=context.writer,
            reschedules=self._reschedules,
            books=context.books,
            runtime=context.runtime,
            over=lambda: self.machine.phase is Phase.LOST,
            run_failed=lambda definition: context.fire_guard.run_failed(definition),
            run_stopped=lambda definition: context.fire_guard.run_stopped(definition),
            on_acknowledged=self._acknowledged,
            tell=None if context.events is None else context.events.tell,
            tell_end=None if context.ends is None else context.ends.tell,
        )
        self.began_ms = context.runtime.clock.wall_ms()
        self._handed_out = 0
        self._reserved = 0
        self._busy = False

    @property
    def _calls(self) -> Dispatcher | NoticeCalls:
        """Where claimed rows go."""
        return self._context.notices if self.client_id == EVENTS_CLIENT else self._context.dispatcher

    @property
    def holds_overdue(self) -> bool:
        """Whether it holds back rows for an overdue rate."""
        return self.machine.rows.held_for(OVERDUE)

    def wake(self) -> None:
        """A condition that the machine waits for may have changed: room, trust, the client's state."""
        self._wake.set()

    def hint(self, keys: Collection[RowKey] | None) -> None:
        """Rows placed near their due; None: too many to be named."""
        self.machine.hint(keys)
        self._wake.set()

    def drain(self) -> None:
        """Claim nothing more, give back rows that were not started, and end when nothing is in flight."""
        self.machine.draining = True
        self._give_back()
        self._wake.set()

    def resume(self) -> None:
        """Cancel a drain that has not ended yet."""
        self.machine.draining = False
        self._wake.set()

    def long_call(self, key: RowKey, *, under_way: bool) -> None:
        """A long call of this row has begun or ended."""
        if under_way:
            self.machine.long_calls.add(key)
        else:
            self.machine.long_calls.discard(key)
        self._wake.set()

    def abandon(self) -> None:
        """The poller is lost: write nothing more, start nothing more."""
        self.machine.phase = Phase.LOST
        self._give_back()
        self._wake.set()

    def _give_back(self) -> None:
        jobs = self._calls.withdraw(self)
        for job in jobs:
            self.machine.unclaimed(job.claim.row.key)

    async def run(self) -> Phase:
        """Run until the minute is settled, drained or lost; returns which."""
        self._limits.row_window.changed(1)
        try:
            return await self._run()
        finally:
            self._limits.row_window.changed(-1)
            self._account(claiming=0, busy=False)

    async def _run(self) -> Phase:
        context, limits, machine = self._context, self._limits, self.machine
        client_id = machine.partition.client_id
        while True:
            if not machine.write_unanswered and not self._may_begin():
                if machine.phase is Phase.LOST:
                    return machine.phase
                context.dispatcher.doubts.begin()
                await self._wake.wait(DOUBT_PAUSE_SECONDS)
                continue
            if context.dispatcher.doubts.last and self._may_begin():
                context.dispatcher.doubts.end()
            pace = limits.record_pace.record_after_ms
            machine.record_after_ms = min(pace, AWAITED_AFTER_MS) if machine.rows.held_for(KEY) else pace
            machine.window_rows = limits.row_window.rows
            machine.claim_ahead_ms = context.dispatcher.claim_ahead_ms(client_id, machine.settings)
            step = machine.step(self._clock.wall_ms(), context.dispatcher.headroom(client_id))
            self._account(claiming=machine.claims_under_way, busy=machine.busy)
            match step:
                case Stop():
                    return machine.phase
                case Wait() if self._more and machine.rows.held_for(KEY) and self._admission.wants_whole_read():
                    await self._read_for_order()
                case Wait(until=until):
                    if not self._rested and (machine.at_rest or self.holds_overdue):
                        self._rested = True
                        self._on_rest()
                    await self._wake.wait(None if until is None else (until - self._clock.wall_ms()) / 1000.0)
                case _:
                    await self._do(step)
            self._hand_out()
            self._account(claiming=machine.claims_under_way, busy=machine.busy)

    def _account(self, *, claiming: int, busy: bool) -> None:
        """Report this minute's use of what the node's minutes share: room for claims, and the rate of commits."""
        if claiming != self._reserved:
            self._context.dispatcher.reserve(self.machine.partition.client_id, claiming - self._reserved)
            self._reserved = claiming
            if claiming == 0:
                self._admission.answered()
        if busy is not self._busy:
            self._limits.record_pace.changed(1 if busy else -1)
            self._busy = busy

    def _may_begin(self) -> bool:
        return self._trusted() and self._clock.wall_trusted()

    async def _do(self, step: Step) -> None:
        try:
            # Commits are the calls' own writes and outside the budget, in recovery too.
            async with nullcontext() if isinstance(step, WriteCommit | RecheckRows) else self._slot():
                await self._ask(step)
        except StoreUnavailable:
            await self._backoff.wait()
        else:
            self._backoff.reset()

    def _slot(self) -> AbstractAsyncContextManager[None]:
        return self._context.runtime.budget.slot(self.machine.partition.client_id) if self.past else nullcontext()

    async def _ask(self, step: Step) -> None:
        machine, schedules = self.machine, self._context.schedules
        partition = machine.partition
        match step:
            case ReadPage(after=after, whole=whole):
                read = schedules.read_page if whole else schedules.read_to_call
                async with self._limits.page_reads:
                    page = await read(partition, after=after, limit=self._free_rows())
                self._limits.row_window.read(page.rows)
                if self._trusted():
                    self._passed(page, after)
                machine.rows.now = self._clock.wall_ms()
                machine.page_read(page, trusted=self._trusted())
            case SweepPage(after=after):
                async with self._limits.page_reads:
                    swept = await schedules.sweep_page(partition, after=after, limit=self._free_rows())
                if self._trusted():
                    self._passed(swept, after)
                machine.page_swept(swept, trusted=self._trusted())
            case ReadStrays(keys=keys):
                async with self._limits.page_reads:
                    rows = await schedules.find_rows(partition, keys, serial=True)
                self._limits.row_window.read(list(rows.values()))
                machine.rows.now = self._clock.wall_ms()
                machine.strays_read(keys, rows, trusted=self._trusted())
            case ReadHinted(keys=keys):
                rows = await schedules.find_rows(partition, keys)
                machine.rows.now = self._clock.wall_ms()
                machine.hinted_read(keys, rows, trusted=self._trusted())
            case RecheckRows(keys=keys):
                rows = await schedules.find_rows(partition, keys, serial=True, lean=True)
                if revised := [key for key, row in rows.items() if row.revision is not None]:
                    # What is claimed, or has ended, is not revised any more, so a second read finds the same.
                    rows |= await schedules.find_rows(partition, revised, serial=True)
                machine.rechecked(rows)
            case CheckRows(rows=rows):
                originals = await self._read_originals(row for row in rows if row.is_retry_row)
                outcomes = await self._context.fire_guard.judge(
                    partition.client_id, rows, now=self._clock.wall_ms(), runs=self._admission
                )
                machine.rows_checked(rows, originals, outcomes)
            case OpenPartition(expect_epoch=expect):
                await self._report(
                    machine.opened,
                    await schedules.open(partition, epoch=machine.epoch, expect_epoch=expect),
                )
            case WriteCommit(commit=commit):
                await self._report(machine.committed, await schedules.commit(commit))
            case WriteBalance():
                await self._context.books.settle(partition, machine.epoch, machine.account)
                machine.settled()
            case Wait() | Stop():
                raise AssertionError("not a request to storage")

    def _free_rows(self) -> int:
        """How many rows a page may have."""
        return max(min(PAGE_ROWS, self.machine.window_rows - self.machine.window_taken), 1)

    def _passed(self, page: Page | SweptPage, after: RowKey | None) -> None:
        self._read_to, self._more = page.rows[-1].key if page.rows else after, page.more

    async def _read_for_order(self) -> None:
        """Read a page beyond the machine's window, only for the order of its rows. They are read without content and
        not kept: the machine reads them when it has room, but it would never have room if all rows that it holds waited
        for rows beyond the window."""
        after, context = self._read_to, self._context
        try:
            async with self._slot(), self._limits.page_reads:
                page = await context.schedules.read_page(
                    self.machine.partition, after=after, limit=PAGE_ROWS, lean=True
                )
        except StoreUnavailable:
            await self._backoff.wait()
            return
        if not self._trusted():
            return
        for row in page.rows:
            self._admission.read(row)
        self._passed(page, after)
        if not page.more:
            self._admission.whole_read()

    async def _report(self, event: Callable[[Answer[Any]], None], answer: Answer[Any]) -> None:
        event(answer)
        if isinstance(answer, Rejected) and self.machine.phase is Phase.LOST:
            self._context.books.counts.fenced += 1
        if isinstance(answer, Unknown):
            raise StoreUnavailable(answer.reason)

    async def _read_originals(self, retry_rows: Iterable[Row]) -> dict[ScheduleId, Row]:
        """One read for each partition: retry rows of one minute mostly come from few partitions."""
        wanted: dict[Partition, list[RowKey]] = {}
        for retry_row in retry_rows:
            home = partition_of(self.machine.partition.client_id, retry_row.schedule_id)
            wanted.setdefault(home, []).append(key_of(retry_row.schedule_id))
        originals: dict[ScheduleId, Row] = {}
        for home, keys in wanted.items():
            rows = await self._context.schedules.find_rows(home, keys)
            originals.update((row.schedule_id, row) for row in rows.values())
            if any(row.ended for row in rows.values()):
                # The process that ended the schedule before its retry row came may not have asked for a recount.
                self._context.recount(home, self.machine.epoch)
        return originals

    def _hand_out(self) -> None:
        """Hand on the claims, follow-ups and look-ups that the last answer yielded."""
        context, machine = self._context, self.machine
        if machine.phase is Phase.LOST:
            self._give_back()
            return
        if claims := machine.take_claims():
            self._calls.submit([self._job(claim) for claim in claims])
        if machine.draining:
            self._give_back()
        for follow_up in machine.follow_ups.take():
            self._follow_up_runner.submit(follow_up)
        for row in machine.follow_ups.take_announced():
            context.runtime.spawn(self._look_up(row), name=f"announced {row.schedule_id}")

    def _job(self, claim: Claim) -> Job:
        self._handed_out += 1
        if claim.redelivery:
            self._context.books.counts.in_doubt += 1
        over_quota = self._handed_out > GUARANTEED_CALLS_PER_MINUTE
        if over_quota:
            self._context.node_events.quota_exceeded(self.client_id)
        return Job(self, claim, claim.row.due, over_quota)

    def may_send(self) -> bool:
        """Whether this run still owns its rows."""
        return self._trusted() and self.machine.phase is not Phase.LOST

    def queued_again(self) -> None:
        """An attempt ended before anything was sent: its row waits in the dispatcher again, or is taken back."""
        if self.machine.phase is Phase.LOST:
            self._give_back()
        self._wake.set()

    def attempt_ended(self, key: RowKey, outcome: Outcome, *, now: int) -> None:
        """A row that was handed out has its outcome."""
        if self.machine.attempt_ended(key, outcome, now=now):
            self._wake.set()

    def _acknowledged(self, follow_up: FollowUp) -> None:
        definition = follow_up.definition
        if definition.kind is Kind.RETRY_ROW and follow_up.outcome.state.ended:
            self._context.recount(partition_of(definition.client_id, definition.schedule_id), self.machine.epoch)
        self.machine.follow_ups.acknowledged(follow_up)
        self._wake.set()

    async def _look_up(self, row: Row) -> None:
        """Ask until it is known whether an announced row is to be created, and if so, until it is created. The minute
        does not settle before."""
        backoff = Backoff(clock=self._clock, randomness=self._context.runtime.randomness)
        while self.machine.phase is not Phase.LOST:
            try:
                await self._reschedules.announced(self.machine.partition, row)
            except StoreUnavailable:
                await backoff.wait()
                continue
            self.machine.follow_ups.looked_up(row)
            self._wake.set()
            return
