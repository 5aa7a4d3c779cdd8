"""Resolve: the present state of one schedule, by its id.

A read completes what another process left half done: a pointer whose retry row is missing, a cancel that reached only
the retry row, a reschedule without its new row, a row without an outcome in a minute that its poller has passed.
"""

from dataclasses import dataclass, field

from scheduler_service.domain.clients import ReadConsistency
from scheduler_service.domain.ids import ClientId, ScheduleId, key_of, partition_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.retry_rows import definition_of, outcome_of, retry_row_key, retry_row_partition
from scheduler_service.domain.schedules import PartitionHeader, Row, State
from scheduler_service.usecases.complete_reschedule import CompleteReschedule
from scheduler_service.usecases.schedule_writer import ScheduleWriter


@dataclass(frozen=True, slots=True)
class Resolved:
    """An original row, and whether an owner may be sending it right now, which its retry row may tell. `header`: of its
    partition, read together with a row that has no outcome."""

    row: Row
    in_flight: bool
    header: PartitionHeader | None = field(default=None, compare=False)


async def read_original(schedules: ScheduleStore, client_id: ClientId, schedule_id: ScheduleId) -> Row | None:
    """The original row of a schedule as it stands: nothing is completed. Raises StoreUnavailable."""
    key = key_of(schedule_id)
    return (await schedules.find_rows(partition_of(client_id, schedule_id), [key])).get(key)


class ResolveSchedule:
    """Reads schedules one at a time."""

    def __init__(self, *, schedules: ScheduleStore, writer: ScheduleWriter) -> None:
        self._schedules = schedules
        self._writer = writer
        self._complete_reschedule = CompleteReschedule(schedules=schedules, writer=writer)

    async def __call__(
        self, client_id: ClientId, schedule_id: ScheduleId, *, consistency: ReadConsistency = "LOCAL_QUORUM"
    ) -> Resolved | None:
        """One read; a second one only while the schedule is retrying. Raises StoreUnavailable.

        `consistency` LOCAL_ONE is for clients that only look: a row that one replica lacks, or that would be acted
        upon, is read again at LOCAL_QUORUM."""
        partition, key = partition_of(client_id, schedule_id), key_of(schedule_id)
        header, rows = await self._schedules.read_rows(partition, [key], consistency=consistency)
        row = rows.get(key)
        if row is None or not row.defined:
            if consistency != "LOCAL_QUORUM":
                return await self(client_id, schedule_id)
            created = row is not None and row.announced and await self._complete_reschedule.announced(partition, row)
            return await self(client_id, schedule_id) if created else None
        if row.rescheduled_to is not None:
            if consistency != "LOCAL_QUORUM":
                return await self(client_id, schedule_id)
            await self._complete_reschedule.named_by(client_id, row)
        if row.state is None and await self._writer.rescue(definition_of(partition, row), header):
            return await self(client_id, schedule_id)
        if row.state != State.RETRYING:
            if row.state is not None:
                return Resolved(row, in_flight=False)
            return Resolved(row, schedule_id in header.in_flight, header)
        assert row.next_attempt_at is not None
        there = retry_row_partition(partition, row.next_attempt_at)
        next_key = retry_row_key(schedule_id, row.next_attempt_at)
        header, retry_rows = await self._schedules.read_rows(there, [next_key], consistency=consistency)
        retry_row = retry_rows.get(next_key)
        outcome = outcome_of(row)
        if retry_row is not None and retry_row.state == State.CANCELLED:
            if consistency == "LOCAL_QUORUM":
                await self._writer.carry_over(partition, row, retry_row)
            return await self(client_id, schedule_id)
        if outcome is not None and (retry_row is None or not retry_row.defined):
            if consistency != "LOCAL_QUORUM":
                return await self(client_id, schedule_id)
            await self._writer.complete(definition_of(partition, row), outcome)
        elif retry_row is not None and retry_row.state is None:
            await self._writer.rescue(definition_of(there, retry_row), header)
        return Resolved(row, schedule_id in header.in_flight and (retry_row is None or retry_row.state is None))
