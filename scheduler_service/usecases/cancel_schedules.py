"""Cancel: a schedule is not called any more. A cancel has one winner.

It is an external update. It reads row and header serially, decides, and writes on condition that neither changed
meanwhile:

    no outcome, not in flight    cancelled IF state = null AND version = as read                (200)
    no outcome, in flight        the owner has claimed it                                       (409 in-flight)
    retrying                     the same on the retry row it names, then on the original IF it still names it
    retrying, in doubt           cancelled with reason in-doubt: it is not called again, and may have been called
                                 before; refused if another call is to replace it               (409 in-doubt)
    its receiver has said done   that word was answered, so it counts                            (409 in-flight)
    ended                        cancelled before: 200; rescheduled: 409 rescheduled; else 409 already-finished

Who replaces a schedule by a call that is made of its content tests its revision too (`as_read`), and so does a cancel
of what its caller has seen.

A commit changes `version` and an external update changes `edits`, so of a commit and an external update exactly one
wins. After a rejection or an unknown answer the update starts over.

Many are cancelled as one is, and those of one partition share an update:

    of one partition, up to 100 at a time: one serial read of lean rows and the header, then
        absent, ended, or in flight     decided
        no outcome, not in flight       cancelled together IF version = as read and none of them has an outcome
        retrying, rescheduled           handled one by one

What is overdue is skipped on request in the same way (`skip`): it ends in another state, with a reason, and only if it
was never attempted.

A batch is all or nothing; after a rejection or an unknown answer the remaining rows are read again. Hundreds of cancels
in one minute so cost a few conditional writes, and few of the owner's commits are rejected by them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.acknowledgements import ACKNOWLEDGED
from scheduler_service.domain.ids import ClientId, Partition, RowKey, ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.preconditions import NO_PRECONDITION, Precondition
from scheduler_service.domain.retry_rows import (
    IN_DOUBT,
    outcome_after,
    retry_row_key,
    retry_row_partition,
)
from scheduler_service.domain.revisions import entity_tag
from scheduler_service.domain.schedules import Outcome, PartitionHeader, Row, RowWrite, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import Turn, concurrently
from scheduler_service.usecases.complete_reschedule import CompleteReschedule
from scheduler_service.usecases.schedule_writer import MAX_PARTITION_TURNS, ScheduleWriter

CANCELLED_AT_ONCE = 100
"""Rows that one read returns, and that one external update cancels."""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The receiver is not called from now on. `row` is the original as cancelled, now or before; its reason is
    `in-doubt` where an earlier owner may have called. Of `skip`: as skipped."""

    row: Row


@dataclass(frozen=True, slots=True)
class InFlight:
    """The owner has claimed it: it may be being sent. Or its receiver has said that it is done, and its owner has not
    recorded that yet."""

    row: Row


@dataclass(frozen=True, slots=True)
class InDoubt:
    """An earlier owner may have called it, and the answer is unknown, so no other call may replace it."""

    row: Row


@dataclass(frozen=True, slots=True)
class WasRescheduled:
    """It was cancelled in favour of another schedule, which `row.rescheduled_to` names and which is called."""

    row: Row


@dataclass(frozen=True, slots=True)
class AlreadyFinished:
    """It had ended in another state."""

    row: Row


@dataclass(frozen=True, slots=True)
class NoSuchSchedule:
    """There is no such row."""


@dataclass(frozen=True, slots=True)
class Revised:
    """It is of another revision than the caller has read."""


class _Why(NamedTuple):
    """What a cancel records beside the state. `revision`: the one that a row without an outcome must have."""

    reason: str | None
    rescheduled_to: UUID | None
    revision: str | UnsetType | None = UNSET

    def outcome(self, row: Row, *, at: int) -> Outcome:
        outcome = outcome_after(row, state=State.CANCELLED, at=UnixMillis(at), reason=self.reason)
        return msgspec.structs.replace(outcome, rescheduled_to=self.rescheduled_to)


class _End(NamedTuple):
    """How rows end that are handled together. Without a reason, those that ended so for any reason count."""

    state: State
    reason: str | None = None

    def is_of(self, row: Row) -> bool:
        return row.state == self.state and (self.reason is None or row.reason == self.reason)


_CANCEL: Final = _End(State.CANCELLED)

CancelResult = Cancelled | InFlight | InDoubt | WasRescheduled | AlreadyFinished | NoSuchSchedule


@dataclass(frozen=True, slots=True)
class BeingRetried:
    """It was attempted meanwhile and is retrying; the caller did not ask to cancel those."""

    row: Row


CancelOutcome: TypeAlias = CancelResult | BeingRetried | StoreUnavailable
"""The result for one id; StoreUnavailable: it stayed unknown, repeat."""


class CancelSchedules:
    """Cancels schedules of clients that the caller has looked up. `has_feed`: whether a client is told of
    ends; then owners are told of cancels, so that the events need not wait for the schedules' dues."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        writer: ScheduleWriter,
        clock: Clock,
        has_feed: Callable[[ClientId], bool],
    ) -> None:
        self._schedules = schedules
        self._writer = writer
        self._complete_reschedule = CompleteReschedule(schedules=schedules, writer=writer)
        self._clock = clock
        self._has_feed = has_feed

    async def one(
        self,
        client_id: ClientId,
        schedule_id: ScheduleId,
        *,
        reason: str | None = None,
        rescheduled_to: UUID | None = None,
        precondition: Precondition = NO_PRECONDITION,
    ) -> CancelResult:
        """Cancel unless the owner has claimed it. `reason` is a stable word for why, `rescheduled_to` the schedule that
        is called instead; the first cancel's values stay. With a reason another call replaces this one, so a schedule
        in doubt is left alone.

        Raises PreconditionFailed; StoreUnavailable when the outcome stays unknown.
        """
        result = await self._one(client_id, schedule_id, _Why(reason, rescheduled_to), precondition)
        assert not isinstance(result, Revised)
        return result

    async def as_read(
        self, client_id: ClientId, row: Row, *, reason: str | None = None, rescheduled_to: UUID | None = None
    ) -> CancelResult | Revised:
        """The same unless the schedule was revised since `row`, its original, was read."""
        return await self._one(client_id, row.schedule_id, _Why(reason, rescheduled_to, row.revision))

    async def _one(
        self,
        client_id: ClientId,
        schedule_id: ScheduleId,
        why: _Why,
        precondition: Precondition = NO_PRECONDITION,
    ) -> CancelResult | Revised:
        partition, key = partition_of(client_id, schedule_id), key_of(schedule_id)
        for _ in range(MAX_PARTITION_TURNS):
            header, rows = await self._schedules.read_rows(partition, [key], serial=True)
            row = rows.get(key)
            if row is None or not row.defined:
                return NoSuchSchedule()
            if precondition != NO_PRECONDITION:
                precondition.check(entity_tag(schedule_id, row.revision))
                why = why._replace(revision=row.revision)
            if row.ended:
                return await self._ended(client_id, row)
            if row.state is None:
                if schedule_id in header.in_flight:
                    return InFlight(row)
                if why.revision is not UNSET and row.revision != why.revision:
                    return Revised()
                await self._cancel_open(partition, key, row, header, why)
                continue
            refused = await self._cancel_retrying(partition, row, why)
            if refused is not None:
                return refused
        raise StoreUnavailable("the minute of this schedule changes too often")

    async def at_once(
        self, client_id: ClientId, row: Row, header: PartitionHeader, *, reason: str, rescheduled_to: UUID
    ) -> UnixMillis | None:
        """The same for a row without an outcome that was just read, with its partition's header, and is not in flight:
        one conditional write, and its instant. None: whether it is cancelled stays unknown, `as_read` tells."""
        at = UnixMillis(self._clock.wall_ms())
        outcome = _Why(reason, rescheduled_to).outcome(row, at=at)
        write = RowWrite(key=row.key, outcome=outcome, expect_state=State.SCHEDULED, expect_revision=row.revision)
        answer = await self._writer.update(partition_of(client_id, row.schedule_id), [write], header=header)
        self._cancelled(client_id, row.schedule_id)
        return at if isinstance(answer, Applied) else None

    async def many(
        self,
        client_id: ClientId,
        schedule_ids: Sequence[ScheduleId],
        *,
        retrying: bool = True,
        turn: Turn = nullcontext,
    ) -> dict[ScheduleId, CancelOutcome]:
        """One outcome for each id. With `retrying` False those that are being retried are left alone. Each request, or
        short run of consecutive requests, is made within a `turn`. Raises StoreUnavailable where storage leaves every
        id unknown."""
        return await self._many(client_id, schedule_ids, _CANCEL, retrying=retrying, turn=turn)

    async def skip(
        self, client_id: ClientId, schedule_ids: Sequence[ScheduleId], *, reason: str, turn: Turn = nullcontext
    ) -> dict[ScheduleId, CancelOutcome]:
        """The same, but those that were never attempted end as skipped with this reason, and all others are left alone.
        Their events are told when their minutes are swept."""
        end = _End(State.SKIPPED, reason)
        return await self._many(client_id, schedule_ids, end, retrying=False, turn=turn)

    async def _many(
        self, client_id: ClientId, schedule_ids: Sequence[ScheduleId], end: _End, *, retrying: bool, turn: Turn
    ) -> dict[ScheduleId, CancelOutcome]:
        results: dict[ScheduleId, CancelOutcome] = {}
        for found in await concurrently(
            lambda some: self._together(*some, end, retrying=retrying, turn=turn), _groups(client_id, schedule_ids)
        ):
            results |= found
        lost = next((result for result in results.values() if isinstance(result, StoreUnavailable)), None)
        if lost is not None and all(isinstance(result, StoreUnavailable) for result in results.values()):
            raise lost
        return results

    def _cancelled(self, client_id: ClientId, schedule_id: ScheduleId) -> None:
        if self._has_feed(client_id):
            self._writer.tell_owner(client_id, schedule_id)

    async def _ended(self, client_id: ClientId, row: Row) -> CancelResult:
        if row.state != State.CANCELLED:
            return AlreadyFinished(row)
        if row.rescheduled_to is None:
            return Cancelled(row)
        await self._complete_reschedule.named_by(client_id, row)
        return WasRescheduled(row)

    async def _cancel_open(
        self, partition: Partition, key: RowKey, row: Row, header: PartitionHeader, why: _Why
    ) -> bool:
        """Cancel a row that has no outcome, or isn't written yet. `row` (the original) has the attempts so far. True
        only when applied."""
        outcome = why.outcome(row, at=self._clock.wall_ms())
        revision = why.revision if key == row.key else UNSET
        write = RowWrite(key=key, outcome=outcome, expect_state=State.SCHEDULED, expect_revision=revision)
        match await self._writer.update(partition, [write], header=header):
            case Applied():
                if key == row.key:
                    self._cancelled(partition.client_id, row.schedule_id)
                return True
            case Rejected() | Unknown():
                return False

    async def _cancel_retrying(self, partition: Partition, row: Row, why: _Why) -> InFlight | InDoubt | None:
        """One try at the retry row, then at the original. None: read the original again."""
        assert row.next_attempt_at is not None
        there = retry_row_partition(partition, row.next_attempt_at)
        key = retry_row_key(row.schedule_id, row.next_attempt_at)
        header, retry_rows = await self._schedules.read_rows(there, [key], serial=True)
        retry_row = retry_rows.get(key)
        if retry_row is not None and retry_row.state is not None:
            if retry_row.state == State.CANCELLED:
                # An earlier cancel died between its two writes; its reason counts, not this caller's.
                await self._cancel_original(partition, row, _Why(retry_row.reason, retry_row.rescheduled_to))
                return None
            await self._writer.carry_over(partition, row, retry_row)
            return None
        if row.schedule_id in header.in_flight:
            return InFlight(row)
        if row.reason == ACKNOWLEDGED or (row.shown_state is State.AWAITING and why.reason is not None):
            # Its receiver is at work, so no other call may replace it; and work that is done is not undone.
            return InFlight(row)
        if row.reason == IN_DOUBT:
            if why.reason is not None:
                return InDoubt(row)
            why = _Why(IN_DOUBT, None)
        if retry_row is None or not retry_row.defined:
            # This external update may be the partition's only write, and retention finds partitions only by their index
            # rows.
            await self._schedules.occupy(there)
        # The retry row first, because owners claim that one. After a crash in between, any reader completes the cancel.
        if await self._cancel_open(there, key, row, header, why):
            await self._cancel_original(partition, row, why)
        return None

    async def _cancel_original(self, partition: Partition, row: Row, why: _Why) -> None:
        """Retrying originals are never claimed, so their own state is condition enough. The caller reads again."""
        outcome = why.outcome(row, at=self._clock.wall_ms())
        write = RowWrite(
            key=row.key, outcome=outcome, expect_state=State.RETRYING, expect_next_attempt_at=row.next_attempt_at
        )
        await self._writer.update(partition, [write])
        self._cancelled(partition.client_id, row.schedule_id)

    async def _together(
        self, partition: Partition, left: list[ScheduleId], end: _End, *, retrying: bool, turn: Turn
    ) -> dict[ScheduleId, CancelOutcome]:
        results: dict[ScheduleId, CancelOutcome] = {}
        asked = left
        try:
            for _ in range(MAX_PARTITION_TURNS):
                alone: list[ScheduleId] = []
                async with turn():
                    left = await self._turn(partition, left, results, alone, end, retrying=retrying)
                for schedule_id in alone:
                    async with turn():
                        results[schedule_id] = await self.one(partition.client_id, schedule_id)
                if not left:
                    return results
        except StoreUnavailable as error:
            return results | {one: error for one in asked if one not in results}
        contended = StoreUnavailable("the minute of this schedule changes too often")
        return results | dict.fromkeys(left, contended)

    async def _turn(
        self,
        partition: Partition,
        left: Sequence[ScheduleId],
        results: dict[ScheduleId, CancelOutcome],
        alone: list[ScheduleId],
        end: _End,
        *,
        retrying: bool,
    ) -> list[ScheduleId]:
        """Decide what can be decided together. Answers those to be read again; adds to `alone` those to handle one by
        one."""
        header, rows = await self._schedules.read_rows(partition, map(key_of, left), serial=True, lean=True)
        pending_rows: list[Row] = []
        for schedule_id in left:
            row = rows.get(key_of(schedule_id))
            if row is None or not row.defined:
                results[schedule_id] = NoSuchSchedule()
            elif row.ended and row.rescheduled_to is None:
                results[schedule_id] = Cancelled(row) if end.is_of(row) else AlreadyFinished(row)
            elif row.state == State.RETRYING and not retrying:
                results[schedule_id] = BeingRetried(row)
            elif row.state is not None:
                alone.append(schedule_id)
            elif schedule_id in header.in_flight:
                results[schedule_id] = InFlight(row)
            else:
                pending_rows.append(row)
        if not pending_rows:
            return []
        at = UnixMillis(self._clock.wall_ms())
        writes = [
            RowWrite(
                key=row.key,
                outcome=outcome_after(row, state=end.state, at=at, reason=end.reason),
                expect_state=State.SCHEDULED,
            )
            for row in pending_rows
        ]
        match await self._writer.update(partition, writes, header=header):
            case Applied() | Rejected() | Unknown():
                if end is _CANCEL:
                    for row in pending_rows:
                        self._cancelled(partition.client_id, row.schedule_id)
                # Read again even when applied: the next read finds them ended and answers the stored rows.
                return [row.schedule_id for row in pending_rows]


def _groups(client_id: ClientId, schedule_ids: Sequence[ScheduleId]) -> Iterator[tuple[Partition, list[ScheduleId]]]:
    """By partition, at most CANCELLED_AT_ONCE in a group; each id once."""
    wanted: dict[Partition, list[ScheduleId]] = {}
    for schedule_id in dict.fromkeys(schedule_ids):
        wanted.setdefault(partition_of(client_id, schedule_id), []).append(schedule_id)
    for partition, ids in wanted.items():
        for start in range(0, len(ids), CANCELLED_AT_ONCE):
            yield partition, ids[start : start + CANCELLED_AT_ONCE]
