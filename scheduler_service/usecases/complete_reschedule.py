"""Completes reschedules that were cut short.

A reschedule makes three writes, and its process may die after each:

    announce   the new row's definition without `created_at`: every reader skips such a row
    cancel     the old row, naming the new one, by one conditional write that competes with the owner's claim. If the
               schedule is retrying, its retry row is cancelled and the original follows
    create     the same definition with `created_at`, placed as every create is

Without the cancel the announced row is ignored and the old schedule is called. With it the new row is created by the
first of these:

- a caller that repeats the reschedule, or any request for either of the two;
- the owner of the old row's minute, which can't settle the minute before (the cancelled row was open in it), so one of
  the two is called in any case;
- the owner of the new row's minute when it reads the row, so that it is called at its instant even where the old one
  was due much later.

A schedule that is put under a key that no waiting schedule has is announced too, without a row that it replaces. It is
created once it has taken the key (`schedule_keys`). A key is ahead at a replacement before that is created, so that it
never names a schedule whose successors are forgotten.

Creating it twice gives one row. A row that is neither announced nor created was deleted by retention and stays deleted.
"""

import msgspec

from scheduler_service.domain.ids import ClientId, Partition, RowKey, ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.retry_rows import (
    definition_of,
    key_mark,
    outcome_of,
    retry_row_key,
    retry_row_of,
    retry_row_partition,
)
from scheduler_service.domain.schedules import Row, State
from scheduler_service.usecases.schedule_writer import ScheduleWriter


class CompleteReschedule:
    """See the module. Raises StoreUnavailable; then repeat."""

    def __init__(self, *, schedules: ScheduleStore, writer: ScheduleWriter) -> None:
        self._schedules = schedules
        self._writer = writer

    async def __call__(self, client_id: ClientId, new: ScheduleId, *, at: UnixMillis) -> None:
        """Create `new`, which is named by a row that was cancelled at `at`, unless it exists."""
        partition, key = partition_of(client_id, new), key_of(new)
        rows = await self._schedules.find_rows(partition, [key])
        if (row := rows.get(key)) is not None and row.announced:
            await self._create(partition, row, at=at)

    async def named_by(self, client_id: ClientId, row: Row) -> None:
        """Create the schedule that a row names, if the row was cancelled in its favour and it does not exist."""
        if row.state == State.CANCELLED and row.rescheduled_to is not None:
            await self(client_id, ScheduleId(row.rescheduled_to), at=row.finished_at or row.due)

    async def announced(self, partition: Partition, row: Row) -> bool:
        """Create an announced row if the row that it is to replace, or its key, names it. False: neither does."""
        if row.rescheduled_from is None:
            mark = key_mark(row.options)
            if mark is None or not await self._writer.keys.was_taken(partition.client_id, mark.name, row.schedule_id):
                return False
            await self._writer(definition_of(partition, msgspec.structs.replace(row, created_at=mark.put_at)))
            return True
        old = ScheduleId(row.rescheduled_from)
        home = partition_of(partition.client_id, old)
        known = await self._find(home, key_of(old))
        if known is not None and known.state == State.RETRYING:
            known = await self._cancelled_retry_row(home, known, new=row.schedule_id)
        if known is None or known.state != State.CANCELLED or known.rescheduled_to != row.schedule_id:
            return False
        await self._create(partition, row, at=known.finished_at or known.due)
        return True

    async def _cancelled_retry_row(self, home: Partition, original: Row, *, new: ScheduleId) -> Row | None:
        """The retry row that a retrying original names, if it was cancelled in favour of `new`. The original follows
        it."""
        at = original.next_attempt_at
        assert at is not None
        retry_row = await self._find(retry_row_partition(home, at), retry_row_key(original.schedule_id, at))
        outcome = None if retry_row is None or retry_row.rescheduled_to != new else outcome_of(retry_row)
        if outcome is None:
            return None
        following = retry_row_of(definition_of(home, original), at=at, attempts=original.attempts or 0)
        await self._writer.move_original(following, outcome)
        return retry_row

    async def _find(self, partition: Partition, key: RowKey) -> Row | None:
        return (await self._schedules.find_rows(partition, [key], serial=True)).get(key)

    async def _create(self, partition: Partition, row: Row, *, at: UnixMillis) -> None:
        if (mark := key_mark(row.options)) is not None:
            await self._writer.keys.move(partition.client_id, row.schedule_id, mark)
        await self._writer(definition_of(partition, msgspec.structs.replace(row, created_at=at)))
