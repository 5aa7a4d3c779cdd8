"""Carries out the follow-ups of a minute's outcomes in other partitions (`follow_ups`): places retry rows, carries
ends to originals, writes dead letters, has crons paused whose runs keep failing or whose receiver stops them, and tells
clients of ends.

Follow-ups to one partition are carried out together, up to `FOLLOW_UPS_AT_ONCE` at a time, each such group in one slot
of the node's background budget: storage joins concurrent requests for one partition into one conditional write. Those
that got no answer are repeated after a growing pause that holds no slot, together with new ones. Events are told after
all else and without a slot: a track has one write under way, and an event waits up to a second for the notice that it
shares with others. The minute does not settle before all are acknowledged."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec

from membership.errors import StoreUnavailable
from poller_cluster.bookkeeping import Bookkeeper
from poller_cluster.minute.steps import FollowUp
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.ids import Partition, ScheduleId, partition_of
from scheduler_service.domain.retry_rows import SUPERSEDED, is_acknowledged, word_of
from scheduler_service.domain.schedules import Definition, Kind, Outcome, State
from scheduler_service.domain.verbs import CRON_STOPPED
from scheduler_service.runtime.backoff import Backoff
from scheduler_service.usecases.complete_reschedule import CompleteReschedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter

FOLLOW_UPS_AT_ONCE = 250


class FollowUpRunner:
    """The follow-ups of one run of a minute. `run_failed` is told of each run of a cron whose failure is recorded, and
    asked again if it raises StoreUnavailable; so are `run_stopped`, of each run whose receiver stops the cron, and
    `tell`, of each end that an event tells of, and `tell_end`, of each that is told to a receiver of its own.
    `on_acknowledged` is called with each one that is acknowledged; nothing more is begun once `over()`."""

    def __init__(
        self,
        *,
        writer: ScheduleWriter,
        reschedules: CompleteReschedule,
        books: Bookkeeper,
        runtime: NodeRuntime,
        over: Callable[[], bool],
        run_failed: Callable[[Definition], Awaitable[None]],
        run_stopped: Callable[[Definition], Awaitable[None]],
        on_acknowledged: Callable[[FollowUp], None],
        tell: Callable[[Definition, Outcome], Awaitable[None]] | None,
        tell_end: Callable[[Definition, Outcome], Awaitable[None]] | None,
    ) -> None:
        self._writer = writer
        self._reschedules = reschedules
        self._books = books
        self._budget = runtime.budget
        self._clock = runtime.clock
        self._randomness = runtime.randomness
        self._spawn = runtime.spawn
        self._over = over
        self._run_failed = run_failed
        self._run_stopped = run_stopped
        self._on_acknowledged = on_acknowledged
        self._tell = tell
        self._tell_end = tell_end
        self._waiting: dict[Partition, deque[FollowUp]] = {}

    def submit(self, follow_up: FollowUp) -> None:
        """Carry out this follow-up soon."""
        if follow_up.alone:
            self._spawn(self._tell_of(follow_up), name=f"event of {follow_up.definition.schedule_id}")
            return
        definition = follow_up.definition
        target = partition_of(definition.client_id, definition.schedule_id)
        waiting = self._waiting.get(target)
        if waiting is None:
            self._waiting[target] = deque([follow_up])
            self._spawn(self._carry_out_all(target), name=f"follow-ups of {target}")
        else:
            waiting.append(follow_up)

    async def _carry_out_all(self, target: Partition) -> None:
        waiting = self._waiting[target]
        backoff = Backoff(clock=self._clock, randomness=self._randomness)
        while waiting and not self._over():
            async with self._budget.slot(target.client_id):
                some = [waiting.popleft() for _ in range(min(len(waiting), FOLLOW_UPS_AT_ONCE))]
                acknowledged = await asyncio.gather(*map(self._acknowledged, some))
            # Back to the front, in their order, with the slot given back before the pause.
            left = [one for one, done in zip(some, acknowledged, strict=True) if not done]
            waiting.extendleft(reversed(left))
            if left:
                await backoff.wait()
            else:
                backoff.reset()
        del self._waiting[target]

    async def _acknowledged(self, follow_up: FollowUp) -> bool:
        if self._over():
            return False
        try:
            reached = await carry_out(follow_up, writer=self._writer, reschedules=self._reschedules, books=self._books)
            outcome = follow_up.outcome
            failed = outcome.state is State.FAILED and outcome.reason != SUPERSEDED
            if reached and failed and follow_up.definition.cron_id is not None:
                await self._run_failed(follow_up.definition)
            if outcome.reason == CRON_STOPPED:
                await self._run_stopped(follow_up.definition)
        except StoreUnavailable:
            return False
        if follow_up.event or follow_up.on_end:
            self._spawn(self._tell_of(follow_up, reached), name=f"event of {follow_up.definition.schedule_id}")
        else:
            self._on_acknowledged(follow_up)
        return True

    async def _tell_of(self, follow_up: FollowUp, reached: bool = True) -> None:
        """Tell of an end until that is acknowledged. If it has not `reached` the original, it is told as of a retry row
        that the original does not name: of a cancel, if there was one."""
        backoff: Backoff | None = None
        outcome = follow_up.outcome
        if not reached:
            outcome = msgspec.structs.replace(outcome, state=State.CANCELLED, reason=SUPERSEDED)
        while not self._over():
            try:
                if follow_up.on_end and reached and self._tell_end is not None:
                    await self._tell_end(follow_up.definition, outcome)
                if follow_up.event and self._tell is not None:
                    await self._tell(follow_up.definition, outcome)
            except StoreUnavailable:
                backoff = backoff or Backoff(clock=self._clock, randomness=self._randomness)
                await backoff.wait()
            else:
                self._on_acknowledged(follow_up)
                return


async def carry_out(
    follow_up: FollowUp, *, writer: ScheduleWriter, reschedules: CompleteReschedule, books: Bookkeeper
) -> bool:
    """Try to carry out one follow-up. False: it was the end of a wait, and that is none, because a word or a cancel has
    reached the original before. Raises StoreUnavailable: the caller repeats."""
    definition, outcome = follow_up.definition, follow_up.outcome
    if outcome.reason == SUPERSEDED:
        await writer.follow_original(definition)
        return True
    if outcome.state is State.RETRYING:
        await writer.complete(definition, outcome)
        return True
    if word_of(definition.options) is not None:
        reached = await _carried(definition, outcome, writer)
        if reached and outcome.state is State.FAILED:
            await books.dead_letter(definition, outcome)
        return reached
    if outcome.state is State.FAILED:
        await books.dead_letter(definition, outcome)
    if definition.kind is Kind.RETRY_ROW:
        await _carried(definition, outcome, writer)
    if outcome.rescheduled_to is not None:
        new, at = ScheduleId(outcome.rescheduled_to), outcome.finished_at or definition.due
        await reschedules(definition.client_id, new, at=at)
    return True


async def _carried(retry_row: Definition, outcome: Outcome, writer: ScheduleWriter) -> bool:
    """Whether the original says what the retry row says. If it names another one instead, that is placed: a word moves
    pointers, and its process may have died."""
    moved = await writer.move_original(retry_row, outcome)
    if not moved and is_acknowledged(retry_row.options):
        await writer.follow_original(retry_row)
    return moved
