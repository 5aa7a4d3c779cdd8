"""The schedule writer: the one way to create rows, for API, expander, retries and bulk loads.

The owner's sweep (minute end + 10 s) sees every insert that is acknowledged in time. It may miss one that is
acknowledged later than minute end + 2 s, so the writer then looks at the row itself before it answers:

    acknowledged in time -------------------------------------------------------------> placed
    acknowledged late; serial read of header and row:
        ended (a retry row's end is carried over to its original) --------------------> placed
        retrying: the retry row that it names is placed, by the same rule ------------> placed
        in flight under the poller's present epoch: its owner handles it -------------> placed
        in flight under an older epoch: a claim that no owner may ever see -----------> requeue, in doubt
        no outcome, not in flight: the minute may never be read again ----------------> requeue

A requeue is an external update to `retrying, next_attempt_at = now`, followed by the retry row. It competes with the
owner's claim and exactly one of them wins: an acknowledged create is either swept by its owner or requeued. It also
competes with updates in place, so it tests the row's revision, and the retry row has that revision's content. When a
retry row must itself point on, its original is moved first and the next retry row is inserted afterwards.

A client's create may ask for a stronger insert (`consistency`). Retry rows, and all reads that a decision rests on,
keep the default.

A schedule with a success deadline has a second row, which looks at it then (`domain.success_deadlines`). That is placed
first, by the same rule, so a schedule that exists is watched, and a watch of none finds nothing. A row that is created
to be `ended` at once has none.

When storage does not answer, StoreUnavailable leaves the create unacknowledged: it may or may not take effect. A
process whose clock is in doubt can't tell what is late, so it does not finish what others left half done either.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from membership.conditional import Answer, Applied, Rejected, Unknown
from membership.errors import MinutehandError, StoreUnavailable
from membership.identity import NodeIncarnation, PollerKey
from membership.lease import start_of
from membership.ports import LeaseStore
from scheduler_service.domain.clients import WriteConsistency
from scheduler_service.domain.ids import (
    ClientId,
    Partition,
    RowKey,
    ScheduleId,
    UnixMillis,
    key_of,
    minute_end,
    minute_of,
    minute_start,
    partition_of,
)
from scheduler_service.domain.notices import deadline_row, deadline_row_of
from scheduler_service.domain.ports import HintSender, ScheduleKeyStore, ScheduleStore
from scheduler_service.domain.ports.schedules import Answered
from scheduler_service.domain.retry_rows import (
    IN_DOUBT,
    LATE_CREATE,
    begun_again,
    definition_of,
    is_acknowledged,
    is_in_doubt,
    next_instant,
    outcome_after,
    outcome_of,
    pointed_word,
    retry_row_of,
    word_of,
)
from scheduler_service.domain.schedules import (
    Definition,
    ExternalUpdate,
    Kind,
    Outcome,
    PartitionHeader,
    Row,
    RowRevision,
    RowWrite,
    State,
    WriteRejection,
)
from scheduler_service.domain.success_deadlines import within_seconds
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.key_chain import KeyChain

LATE_AFTER_MS = 2_000
"""An insert acknowledged later than this after its minute's end must not rely on the sweep."""
HINT_AHEAD_MS = 15_000
"""The owner's prefetch may miss rows of minutes that begin sooner than this, so it is sent a hint."""
FAR_MARGIN_MS = 5_000
"""Added to HINT_AHEAD_MS: rows of minutes that begin after both are still far when storage answers, as a rule."""
STRANDED_AFTER_MS = 600_000
"""A row without an outcome this long after its minute's end is rescued if its poller is past that minute."""
ORDERED_AHEAD_MS = 120_000
"""A retry row of an ordering key that is due later than this is remembered for the poller's next owner, which reads all
rows only of the minutes before."""
MAX_PARTITION_TURNS = 50
"""Consecutive rejections after which a placement fails as unavailable: the partition is too contended."""


class ScheduleWriter:
    """Creates rows under the late rule, and completes chains of retry rows that another process left half done."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        keys: ScheduleKeyStore,
        leases: LeaseStore,
        clock: Clock,
        randomness: Randomness,
        hints: HintSender,
        low_watermark_of: Callable[[NodeIncarnation], int | None] = lambda incarnation: None,
        clock_doubted: Callable[[], bool] = lambda: False,
    ) -> None:
        """`low_watermark_of`: the low watermark that an incarnation has announced, where members are watched.
        `clock_doubted()`: whether this process's wall clock may be wrong."""
        self.keys = KeyChain(store=keys, clock=clock)
        self._schedules = schedules
        self._leases = leases
        self._clock = clock
        self._randomness = randomness
        self._hints = hints
        self._low_watermark_of = low_watermark_of
        self._clock_doubted = clock_doubted

    async def __call__(self, definition: Definition, *, consistency: WriteConsistency = "LOCAL_QUORUM") -> None:
        """Return when the row is durable and certain to be read by an owner. Raises StoreUnavailable,
        ContentTooLarge."""
        self.check_clock()
        if (watch := deadline_row(definition)) is not None:
            await self(watch, consistency=consistency)
        await self._remember_order(definition)
        await self._schedules.insert(definition, consistency=consistency)
        current = await self._acknowledged(definition, at=self._clock.wall_ms())
        while current is not None:
            await self._remember_order(current)
            await self._schedules.insert(current)
            current = await self._acknowledged(current, at=self._clock.wall_ms())

    async def _remember_order(self, definition: Definition) -> None:
        """Before a row is placed that the poller's next owner must know, and would not look for so far ahead."""
        if definition.kind is not Kind.RETRY_ROW or definition.ordering_key is None:
            return
        if definition.due > self._clock.wall_ms() + ORDERED_AHEAD_MS:
            await self._schedules.mark_ordered(definition.partition)

    async def announce(self, definition: Definition) -> None:
        """Insert the row without its `created_at`: nobody calls it before another write has decided that it is created
        (see `complete_reschedule`). Raises StoreUnavailable, ContentTooLarge."""
        await self._schedules.insert(msgspec.structs.replace(definition, created_at=None))

    def begin(
        self,
        definition: Definition,
        answered: Answered,
        *,
        run: Callable[[Coroutine[Any, Any, None]], object],
        consistency: WriteConsistency = "LOCAL_QUORUM",
    ) -> Callable[[], None]:
        """The same for a row without a success deadline and a caller without a task that waits: `answered` gets the
        error that would have been raised, or None. Where the late rule needs more work, `run` is given the
        coroutine for it.

        Answers a function that gives the insert up, as `ScheduleStore.begin_insert` does. Raises what that does.
        """
        self.check_clock()
        assert within_seconds(definition.options) is None, "its deadline must be placed first"

        def acknowledged(error: Exception | None) -> None:
            at = self._clock.wall_ms()
            if error is None and not self._in_time(definition, at=at):
                run(self._finish(definition, answered, at=at))
            else:
                answered(error)

        return self._schedules.begin_insert(definition, acknowledged, consistency=consistency)

    async def _finish(self, definition: Definition, answered: Answered, *, at: int) -> None:
        try:
            await self._settle(definition, at=at)
        except Exception as error:
            answered(error)
        else:
            answered(None)

    async def requeue(self, definition: Definition, *, in_doubt: bool) -> None:
        """Apply the late rule to a row that exists in a minute that no owner reads any more, without inserting it.
        `in_doubt`: it may have been called. Raises StoreUnavailable."""
        following = await self._look_after(definition, in_doubt=in_doubt)
        if following is not None:
            await self(following)

    async def rescue(self, definition: Definition, header: PartitionHeader) -> bool:
        """Requeue a row without an outcome whose poller is past its minute, so that no owner will read it again: its
        create or its placing was never acknowledged. True: it was requeued, or has got an outcome meanwhile.

        Where an owner had opened the minute, the row is requeued in doubt: its outcome may have been lost.
        """
        minute = minute_of(definition.due)
        # Where anything is in flight, an owner may still be at work on this minute.
        if self._clock_doubted() or self._clock.wall_ms() < minute_end(minute) + STRANDED_AFTER_MS or header.in_flight:
            return False
        lease = await self._leases.read_lease(PollerKey(definition.client_id, definition.poller_id))
        if lease is None:
            return False
        low_watermark = None if lease.owner is None else self._low_watermark_of(lease.owner)
        if start_of(lease, owners_low_watermark=low_watermark) <= minute:
            return False
        await self.requeue(definition, in_doubt=header.version is not None)
        return True

    async def many(
        self, definitions: Sequence[Definition], *, consistency: WriteConsistency = "LOCAL_QUORUM"
    ) -> list[MinutehandError | None]:
        """The same for each of them, in order: None, or the error that would have been raised.

        Rows of minutes that are far enough away are inserted as one submission. For the others the late rule needs the
        instant of each acknowledgement, so they are placed one by one.
        """
        errors: list[MinutehandError | None] = [None] * len(definitions)
        watched = {at: row for at, one in enumerate(definitions) if (row := deadline_row(one)) is not None}
        if watched:
            watching = await self.many(list(watched.values()), consistency=consistency)
            for position, error in zip(watched, watching, strict=True):
                errors[position] = error
        near_until = self._clock.wall_ms() + HINT_AHEAD_MS + FAR_MARGIN_MS
        far: list[int] = []
        near: list[int] = []
        # A minute that begins before `near_until` is near as a whole.
        first_far = minute_end(minute_of(near_until))
        for position, definition in enumerate(definitions):
            if errors[position] is None:
                (near if definition.due < first_far else far).append(position)
        placed_far, placed_near = await asyncio.gather(
            self._place_far([definitions[position] for position in far], consistency),
            asyncio.gather(
                *(self._attempted(self(definitions[position], consistency=consistency)) for position in near)
            ),
        )
        for position, error in zip((*far, *near), (*placed_far, *placed_near), strict=True):
            errors[position] = error
        return errors

    async def ended(self, definition: Definition, *, state: State, reason: str) -> None:
        """Create a row that is not to be called: its end is recorded right after the insert, unless it has one already.

        Whatever another process has begun with it (a chain of retry rows, a claim that no owner may ever see) is
        completed. Raises StoreUnavailable; the row may then be an ordinary one that is called, so repeat."""
        await self._schedules.insert(definition)
        for _ in range(MAX_PARTITION_TURNS):
            header, rows = await self._schedules.read_rows(
                definition.partition, [definition.key], serial=True, lean=True
            )
            row = rows.get(definition.key)
            if row is None:
                return
            if row.state is not None or definition.schedule_id in header.in_flight:
                following = await self._look_after(definition)
                if following is not None:
                    await self(following)
                return
            outcome = outcome_after(row, state=state, at=UnixMillis(self._clock.wall_ms()), reason=reason)
            if await self._edit_pending_row(definition, header, outcome):
                return
        raise StoreUnavailable("the minute of this schedule changes too often")

    async def update(
        self, partition: Partition, writes: Sequence[RowWrite], *, header: PartitionHeader | None = None
    ) -> Answer[WriteRejection]:
        """The external update of these rows, all or nothing. `header`: no owner may have committed since it was read;
        only rows that are retrying or have ended may go without, because those are never claimed."""
        return await self._schedules.update(
            ExternalUpdate(
                partition=partition,
                edits=self._randomness.uuid4(),
                version=None if header is None else header.version,
                version_known=header is not None,
                writes=tuple(writes),
            )
        )

    async def revise(
        self, partition: Partition, revision: RowRevision, *, header: PartitionHeader
    ) -> Answer[WriteRejection]:
        """The external update of one row's content, which `header` was read with. Raises ContentTooLarge.

        The owner gets no hint: it ignores hints of rows that it has read, and would gain nothing. This update changes
        `edits`, so the owner reads again what it claims from then on (`poller_cluster`, rule 2). Only the row's turn
        may still be judged by its old content, such as by the limits of its old host."""
        watch = deadline_row_of(partition.client_id, revision.key, revision.content.options)
        if watch is not None:
            await self(watch)
        return await self._schedules.update(
            ExternalUpdate(
                partition=partition,
                edits=self._randomness.uuid4(),
                version=header.version,
                version_known=True,
                revisions=(revision,),
            )
        )

    async def _place_far(
        self, definitions: Sequence[Definition], consistency: WriteConsistency
    ) -> list[MinutehandError | None]:
        if not definitions:
            return []
        try:
            errors = list(await self._schedules.insert_many(definitions, consistency=consistency))
        except MinutehandError as error:
            return [error] * len(definitions)
        at = self._clock.wall_ms()
        first_far = minute_end(minute_of(at + HINT_AHEAD_MS))
        for position, definition in enumerate(definitions):
            # Storage may have been so slow that a far row is near by now, or late.
            if definition.due < first_far and errors[position] is None:
                errors[position] = await self._attempted(self._settle(definition, at=at))
        return errors

    async def _settle(self, definition: Definition, *, at: int) -> None:
        following = await self._acknowledged(definition, at=at)
        if following is not None:
            await self(following)

    async def _attempted(self, placing: Coroutine[Any, Any, None]) -> MinutehandError | None:
        try:
            await placing
        except MinutehandError as error:
            return error
        return None

    async def _acknowledged(self, definition: Definition, *, at: int) -> Definition | None:
        """Apply the late rule to an acknowledgement at `at`; answers the retry row to insert next, or None."""
        return None if self._in_time(definition, at=at) else await self._look_after(definition)

    def _in_time(self, definition: Definition, *, at: int) -> bool:
        """Whether the owner's sweep sees an insert acknowledged at `at`. Sends the owner a hint where its prefetch may
        miss it."""
        minute = minute_of(definition.due)
        if at > minute_end(minute) + LATE_AFTER_MS:
            return False
        if minute_start(minute) <= at + HINT_AHEAD_MS:
            self._hints.hint(definition.partition, definition.key)
        return True

    def tell_owner(self, client_id: ClientId, schedule_id: ScheduleId) -> None:
        """Send the owner of a schedule a hint that its original may have ended without it. Best effort."""
        self._hints.hint(partition_of(client_id, schedule_id), key_of(schedule_id))

    def check_clock(self) -> None:
        """Raises StoreUnavailable while this process's wall clock may be wrong."""
        if self._clock_doubted():
            raise StoreUnavailable("this process's clock is in doubt: the row's owner or another process must place it")

    async def _look_after(self, definition: Definition, *, in_doubt: bool = False) -> Definition | None:
        """Decide what becomes of a late insert; answers the next retry row to insert, or None when there is none."""
        partition, key = definition.partition, definition.key
        in_doubt = in_doubt or is_in_doubt(definition)
        for _ in range(MAX_PARTITION_TURNS):
            header, rows = await self._schedules.read_rows(partition, [key], serial=True, lean=True)
            row = rows.get(key)
            if row is None:
                # Retention has deleted the whole partition: the row is long past every promise.
                raise StoreUnavailable("the minute of this schedule was deleted while it was being created")
            if row.state is not None:
                if row.state != State.RETRYING:
                    if definition.kind is Kind.RETRY_ROW:
                        await self.move_original(definition, _outcome(row))
                    return None
                # After a redelivery the stored row, not the caller's definition, says what the retry row must contain.
                redelivered = row.redelivered_at is not None and row.defined
                told = definition_of(partition, row.filled(definition.content)) if redelivered else definition
                return await self._next_retry_row(await self._revised(told, row), _outcome(row))
            if key.schedule_id in header.in_flight:
                if await self._owner_has_it(definition, header):
                    return None
                in_doubt = True
            at = next_instant(definition.options, self._clock.wall_ms())
            outcome = outcome_after(row, state=State.RETRYING, at=at, reason=IN_DOUBT if in_doubt else LATE_CREATE)
            if (word := word_of(definition.options)) is not None:
                outcome = msgspec.structs.replace(outcome, reason=word)
            if await self._edit_pending_row(definition, header, outcome, revision=row.revision):
                return await self._next_retry_row(await self._revised(definition, row), outcome)
        raise StoreUnavailable("the minute of this schedule changes too often")

    async def _owner_has_it(self, definition: Definition, header: PartitionHeader) -> bool:
        lease = await self._leases.read_lease(PollerKey(definition.client_id, definition.poller_id))
        return lease is not None and lease.epoch == header.claim_epoch

    async def _revised(self, definition: Definition, row: Row) -> Definition:
        """The definition with the content of its row, which was read without it and has an outcome by now: so nobody
        revises it any more."""
        if row.revision is None:
            return definition
        rows = await self._schedules.find_rows(definition.partition, [definition.key], serial=True)
        if (whole := rows.get(definition.key)) is None:
            raise StoreUnavailable("the minute of this schedule was deleted while it was being requeued")
        return definition_of(definition.partition, whole)

    async def _edit_pending_row(
        self,
        definition: Definition,
        header: PartitionHeader,
        outcome: Outcome,
        *,
        revision: str | UnsetType | None = UNSET,
    ) -> bool:
        """True only when applied; after a rejection or an unknown answer the caller reads again. `revision`: the one
        that the row must have, if its content is needed."""
        write = RowWrite(key=definition.key, outcome=outcome, expect_state=State.SCHEDULED, expect_revision=revision)
        match await self.update(definition.partition, [write], header=header):
            case Applied():
                return True
            case Rejected() | Unknown():
                return False

    async def _next_retry_row(self, definition: Definition, outcome: Outcome) -> Definition | None:
        """The retry row that a row with a retrying outcome names, to be placed; None when the chain has moved past it.

        A retry row that points on moves its original first.
        """
        assert outcome.next_attempt_at is not None
        if definition.kind is Kind.RETRY_ROW and not await self.move_original(definition, outcome):
            if is_acknowledged(definition.options):
                await self.follow_original(definition)
            return None
        return retry_row_of(
            begun_again(definition, outcome),
            at=outcome.next_attempt_at,
            attempts=outcome.attempts,
            in_doubt=outcome.reason == IN_DOUBT,
            word=pointed_word(outcome),
        )

    async def follow_original(self, retry_row: Definition) -> None:
        """Place the retry row that a retrying original names instead of this one: the process that moved the pointer
        (`acknowledgements`) may have died. Raises StoreUnavailable."""
        partition, key = partition_of(retry_row.client_id, retry_row.schedule_id), key_of(retry_row.schedule_id)
        original = (await self._schedules.find_rows(partition, [key], serial=True)).get(key)
        if original is None or original.state != State.RETRYING or original.next_attempt_at == retry_row.due:
            return
        await self.complete(definition_of(partition, original), _outcome(original))

    async def move_original(self, retry_row: Definition, outcome: Outcome) -> bool:
        """Carry a retry row's outcome over to its original, if that still names the retry row. Any process may repeat
        it.

        There is one try: StoreUnavailable when there is no answer. The state that the write tests tells a repeat
        whether it took effect, and a caller that repeats it chooses when, and holds no slot meanwhile. True: the
        original says what the retry row says, now or before. False: it names another instant or has ended otherwise, so
        this retry row no longer counts."""
        partition = partition_of(retry_row.client_id, retry_row.schedule_id)
        key = key_of(retry_row.schedule_id)
        write = RowWrite(
            key=key, outcome=outcome, expect_state=State.RETRYING, expect_next_attempt_at=UnixMillis(retry_row.due)
        )
        match await self.update(partition, [write]):
            case Applied():
                return True
            case Rejected(current=current):
                same = current.rows.get(key) == (str(outcome.state), outcome.next_attempt_at)
                if same and outcome.state.ended and is_acknowledged(retry_row.options):
                    return await self._ended_by(partition, key, outcome)
                return same
            case Unknown(reason=reason):
                raise StoreUnavailable(f"no answer about the original of a retry row: {reason}")

    async def _ended_by(self, partition: Partition, key: RowKey, outcome: Outcome) -> bool:
        """Whether the original, which has ended so, has this end and not a word's or a deadline's: both may fail."""
        original = (await self._schedules.find_rows(partition, [key], serial=True)).get(key)
        ended = None if original is None else outcome_of(original)
        return ended is not None and (ended.finished_at, ended.last_error) == (outcome.finished_at, outcome.last_error)

    async def carry_over(self, partition: Partition, original: Row, retry_row: Row) -> None:
        """Carry the outcome of the retry row that an original names over to it, and place the retry row that this
        outcome names. Raises StoreUnavailable."""
        following = retry_row_of(definition_of(partition, original), at=retry_row.due, attempts=original.attempts or 0)
        if retry_row.ended:
            await self.move_original(following, _outcome(retry_row))
        else:
            await self.complete(following, _outcome(retry_row))

    async def complete(self, definition: Definition, outcome: Outcome) -> None:
        """Place the retry row that a retrying row names, if that was left half done. Harmless to repeat."""
        following = await self._next_retry_row(definition, outcome)
        if following is not None:
            await self(following)


def _outcome(row: Row) -> Outcome:
    outcome = outcome_of(row)
    assert outcome is not None
    return outcome
