"""Cancel many: each has one winner, as when it is cancelled alone, and those of one partition share their edits.

    of one partition, up to 100 at a time: one serial read of lean rows and statics, then
        nothing there, ended, or in flight    decided
        no outcome, not in flight             cancelled together IF version = as read and none of them has an outcome
        retrying, rescheduled                 looked at alone (`edit_schedule`)

A batch is all or nothing, so after a rejection or an unknown answer those that are left are read again. So hundreds of
cancels in one minute cost a few conditional writes, and the owner's advances meet a few edits.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from membership.conditional import Applied, Rejected, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.copies import outcome_after
from scheduler_service.domain.ids import ClientId, Partition, ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.schedules import Edit, Row, RowWrite, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import Turn, concurrently
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.usecases.edit_schedule import (
    AlreadyFinished,
    Cancelled,
    CancelResult,
    EditSchedule,
    InFlight,
    NoSuchSchedule,
)
from scheduler_service.usecases.place import MAX_TURNS

TOGETHER = 100
"""Rows that one read sees together, and that one edit cancels."""


@dataclass(frozen=True, slots=True)
class BeingRetried:
    """It was attempted meanwhile and is to be tried again, which the caller did not ask to end."""

    row: Row


Outcome: TypeAlias = CancelResult | BeingRetried | StoreUnavailable
"""What became of one of them; StoreUnavailable: it stayed unknown, ask again."""


class CancelSchedules:
    """Cancels schedules by id."""

    def __init__(self, *, schedules: ScheduleStore, edit: EditSchedule, clock: Clock, randomness: Randomness) -> None:
        self._schedules = schedules
        self._edit = edit
        self._clock = clock
        self._randomness = randomness

    async def __call__(
        self,
        client_id: ClientId,
        schedule_ids: Sequence[ScheduleId],
        *,
        retrying: bool = True,
        turn: Turn = nullcontext,
    ) -> dict[ScheduleId, Outcome]:
        """One outcome for each id. With `retrying` False those that are being retried are left alone. Each request, or
        short run of requests that follow each other, is made within a `turn`. Raises StoreUnavailable where storage is
        why none of them is known."""
        results: dict[ScheduleId, Outcome] = {}
        for found in await concurrently(
            lambda some: self._together(*some, retrying=retrying, turn=turn), _groups(client_id, schedule_ids)
        ):
            results |= found
        lost = next((result for result in results.values() if isinstance(result, StoreUnavailable)), None)
        if lost is not None and all(isinstance(result, StoreUnavailable) for result in results.values()):
            raise lost
        return results

    async def _together(
        self, partition: Partition, left: list[ScheduleId], *, retrying: bool, turn: Turn
    ) -> dict[ScheduleId, Outcome]:
        results: dict[ScheduleId, Outcome] = {}
        asked = left
        try:
            for _ in range(MAX_TURNS):
                alone: list[ScheduleId] = []
                async with turn():
                    left = await self._turn(partition, left, results, alone, retrying=retrying)
                for schedule_id in alone:
                    async with turn():
                        results[schedule_id] = await self._edit.cancel(partition.client_id, schedule_id)
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
        results: dict[ScheduleId, Outcome],
        alone: list[ScheduleId],
        *,
        retrying: bool,
    ) -> list[ScheduleId]:
        """Decide what can be decided together. Answers those that are to be read again; `alone` takes the others."""
        statics, rows = await self._schedules.read_rows(partition, map(key_of, left), serial=True, lean=True)
        open_rows: list[Row] = []
        for schedule_id in left:
            row = rows.get(key_of(schedule_id))
            if row is None or not row.defined:
                results[schedule_id] = NoSuchSchedule()
            elif row.ended and row.rescheduled_to is None:
                results[schedule_id] = Cancelled(row) if row.state == State.CANCELLED else AlreadyFinished(row)
            elif row.state == State.RETRYING and not retrying:
                results[schedule_id] = BeingRetried(row)
            elif row.state is not None:
                alone.append(schedule_id)
            elif schedule_id in statics.in_flight:
                results[schedule_id] = InFlight(row)
            else:
                open_rows.append(row)
        if not open_rows:
            return []
        at = UnixMillis(self._clock.wall_ms())
        writes = tuple(
            RowWrite(
                key=row.key, outcome=outcome_after(row, state=State.CANCELLED, at=at), expect_state=State.SCHEDULED
            )
            for row in open_rows
        )
        edit = Edit(
            partition=partition,
            edits=self._randomness.uuid4(),
            version=statics.version,
            version_known=True,
            writes=writes,
        )
        match await self._schedules.edit(edit):
            case Applied() | Rejected() | Unknown():
                return [row.schedule_id for row in open_rows]


def _groups(client_id: ClientId, schedule_ids: Sequence[ScheduleId]) -> Iterator[tuple[Partition, list[ScheduleId]]]:
    """By partition, none of more than one read sees together; each id once."""
    wanted: dict[Partition, list[ScheduleId]] = {}
    for schedule_id in dict.fromkeys(schedule_ids):
        wanted.setdefault(partition_of(client_id, schedule_id), []).append(schedule_id)
    for partition, ids in wanted.items():
        for start in range(0, len(ids), TOGETHER):
            yield partition, ids[start : start + TOGETHER]
