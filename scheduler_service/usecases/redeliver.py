"""Redeliver: a schedule that has ended is called again, now, under the same id.

    delivered, failed, skipped    retrying at t IF its end is still the one that was read; then the retry row of t (202)
    scheduled, retrying           refused: it is open already                                                      (409)
    cancelled                     refused: a cancel is final                                                       (409)

An end is identified by state and instant, so an external update that arrives late, or twice, finds another end and
changes nothing. Of several callers one wins and the others find the schedule open (callers in the same millisecond
count as one). t is later than now and than every instant that the schedule has named before, because no end is earlier
than the attempt that it ends; so an old retry row is never taken for the new one.

The original's minute may be settled long ago and never be read again, so the retry row is placed before the answer. A
caller that dies between the two writes leaves a pointer; the next request for the schedule, or the next read of it,
places its retry row. Attempt numbers continue; the retry policy counts from the number that the original records.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.books import AttemptRecord
from scheduler_service.domain.clients import Client, ClientSettings
from scheduler_service.domain.ids import (
    DAY_MS,
    HOUR_MS,
    MAX_DUE,
    Partition,
    ScheduleId,
    UnixMillis,
    due_of,
    key_of,
    minute_end,
    minute_of,
    partition_of,
)
from scheduler_service.domain.ports import AttemptStore, ScheduleStore
from scheduler_service.domain.retry_rows import REDELIVERY, definition_of, next_instant, outcome_of
from scheduler_service.domain.schedules import Outcome, Row, RowWrite, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.cancel_schedules import NoSuchSchedule
from scheduler_service.usecases.schedule_writer import MAX_PARTITION_TURNS, ScheduleWriter

DELETION_MARGIN_MS = HOUR_MS
"""Rows this close to the end of their retention count as deleted: retention may run during the update."""


def may_be_deleted(settings: ClientSettings, schedule_id: UUID, *, now: int) -> bool:
    """Whether the partition of a schedule is past its retention at `now`, or about to be."""
    kept_ms = settings.retention_days * DAY_MS - DELETION_MARGIN_MS
    return minute_end(minute_of(due_of(schedule_id))) < now - kept_ms


@dataclass(frozen=True, slots=True)
class Redelivering:
    """It will be called, or has been already. `row` is the original as last seen."""

    row: Row


@dataclass(frozen=True, slots=True)
class StillOpen:
    """It has not ended, or not yet ended again."""

    row: Row


@dataclass(frozen=True, slots=True)
class WasCancelled:
    """It was cancelled, which is final."""

    row: Row


@dataclass(frozen=True, slots=True)
class EndedOtherwise:
    """It has ended, but not with the end that the caller saw."""

    row: Row


@dataclass(frozen=True, slots=True)
class RedeliveredBefore:
    """It was redelivered at or after `Terms.since`, with whatever result."""

    row: Row


Refused = StillOpen | WasCancelled | NoSuchSchedule
RedeliverResult = Redelivering | EndedOtherwise | RedeliveredBefore | Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Conditions for a caller that redelivers many and may have to start over: only ends in one of `states`, and only
    schedules that were not redelivered at `since` or later, by any caller. The call is made at `at`, or as soon after
    as possible; `at` must not be before `since`, or the redelivery itself would not count."""

    states: Collection[State]
    since: UnixMillis
    at: UnixMillis


class RedeliverSchedule:
    """Redelivers schedules of clients that the caller has looked up, and that may create."""

    def __init__(
        self, *, schedules: ScheduleStore, attempts: AttemptStore, writer: ScheduleWriter, clock: Clock
    ) -> None:
        self._schedules = schedules
        self._attempts = attempts
        self._writer = writer
        self._clock = clock

    async def __call__(
        self,
        client: Client,
        schedule_id: ScheduleId,
        *,
        failed_at: UnixMillis | None = None,
        since: UnixMillis | None = None,
        terms: Terms | None = None,
    ) -> RedeliverResult:
        """`failed_at`: only if it is still failed since that instant. `since`: if it was redelivered at that instant or
        later, the result is as if this call had done it. `terms`: see `Terms`.

        Raises StoreUnavailable when the outcome stays unknown: repeat.
        """
        partition = partition_of(client.client_id, schedule_id)
        ours: set[UnixMillis] = set()
        for _ in range(MAX_PARTITION_TURNS):
            row = await self._read(client, schedule_id)
            if row is None:
                return NoSuchSchedule()
            if row.redelivered_at is not None:
                done = since is not None and row.redelivered_at >= since
                if done or row.redelivered_at in ours:
                    return await self._redelivering(partition, row)
                if terms is not None and row.redelivered_at >= terms.since:
                    await self._complete(partition, row)
                    return RedeliveredBefore(row)
            if (refused := _refused(row)) is not None:
                await self._complete(partition, row)
                return refused
            if failed_at is not None and (row.state != State.FAILED or row.finished_at != failed_at):
                return EndedOtherwise(row)
            if terms is not None and row.state not in terms.states:
                return EndedOtherwise(row)
            earliest = max(since or 0, 0 if terms is None else terms.at)
            at = UnixMillis(max(self._clock.wall_ms(), row.due, row.finished_at or 0, earliest) + 1)
            if at > MAX_DUE:
                raise StoreUnavailable("the schedule's end lies too far ahead")
            at = next_instant(row.options, at)
            ours.add(at)
            await self._point(partition, row, at)
        raise StoreUnavailable("the minute of this schedule changes too often")

    async def begin(self, client: Client, schedule_id: ScheduleId) -> UnixMillis | Refused:
        """An instant to pass as `since`: now, but later than every redelivery so far, even by a clock that was ahead.
        Or why it can't be redelivered. Raises StoreUnavailable."""
        row = await self._read(client, schedule_id)
        if row is None:
            return NoSuchSchedule()
        if (refused := _refused(row)) is not None:
            await self._complete(partition_of(client.client_id, schedule_id), row)
            return refused
        return UnixMillis(max(self._clock.wall_ms(), (row.redelivered_at or 0) + 1))

    async def _read(self, client: Client, schedule_id: ScheduleId) -> Row | None:
        """The row by a serial read; None where it does not exist or retention is about to delete it."""
        partition, key = partition_of(client.client_id, schedule_id), key_of(schedule_id)
        if may_be_deleted(client.settings, schedule_id, now=self._clock.wall_ms()):
            return None
        _, rows = await self._schedules.read_rows(partition, [key], serial=True)
        row = rows.get(key)
        return row if row is not None and row.defined else None

    async def _redelivering(self, partition: Partition, row: Row) -> Redelivering:
        await self._complete(partition, row)
        return Redelivering(row)

    async def _complete(self, partition: Partition, row: Row) -> None:
        """Place the retry row of a redelivery; the poller's owner does so for other pointers. The retry row may point
        on already: one that was placed late is requeued by its writer."""
        outcome = outcome_of(row)
        if outcome is not None and row.state == State.RETRYING and row.redelivered_at is not None:
            await self._writer.complete(definition_of(partition, row), outcome)

    async def _record_success(self, partition: Partition, row: Row) -> None:
        """Unless the node that made the attempt has recorded it: it knows more."""
        success = _success_of(partition, row)
        if success.attempt > 1:
            known = await self._attempts.read(partition.client_id, row.schedule_id)
            if any(record.delivered and record.attempt == success.attempt for record in known):
                return
        await self._attempts.record([success])

    async def _point(self, partition: Partition, row: Row, at: UnixMillis) -> None:
        """One try at the pointer; the caller reads the result."""
        if row.state == State.DELIVERED:
            # Before the update, which erases the only trace of this attempt. Repeats write the same record.
            await self._record_success(partition, row)
        attempts = (row.attempts or 0) + _uncounted(row)
        outcome = Outcome(
            state=State.RETRYING,
            attempts=attempts,
            next_attempt_at=at,
            last_status=row.last_status,
            last_error=row.last_error,
            reason=REDELIVERY,
            redelivered_at=at,
            redelivered_after=attempts,
        )
        write = RowWrite(
            key=row.key, outcome=outcome, expect_state=State(row.state or ""), expect_finished_at=row.finished_at
        )
        match await self._writer.update(partition, [write]):
            case Applied() | Rejected() | Unknown():
                return


def _refused(row: Row) -> StillOpen | WasCancelled | None:
    if row.state == State.CANCELLED:
        return WasCancelled(row)
    return None if row.ended else StillOpen(row)


def _uncounted(row: Row) -> int:
    """1 where an attempt may have been made but is not counted: its number must not be used again."""
    unsent = row.last_status is None and row.last_error is None
    return 1 if row.state == State.FAILED and row.reason == "in-doubt" and unsent else 0


def _success_of(partition: Partition, row: Row) -> AttemptRecord:
    """The attempt that delivered as far as its row tells: that will be overwritten by the redelivery."""
    finished, number = row.finished_at or row.due, row.attempts or 1
    started = row.first_attempt_at if number == 1 and row.first_attempt_at is not None else finished
    return AttemptRecord(
        client_id=partition.client_id,
        schedule_id=row.schedule_id,
        attempt=number,
        started_at=UnixMillis(started),
        status=row.last_status,
        error=None,
        duration_ms=finished - started,
        excerpt="",
    )
