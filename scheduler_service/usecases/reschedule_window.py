"""Reschedule a window: all waiting schedules of it that match move, by an offset or to one instant.

    read a page of lean rows -> leave out what this request moved before -> reschedule each by its own conditional write

Each schedule moves as by `reschedule_schedule`: exactly one of the old and the new one is called, one that was claimed
is reported and stays, own keys follow, and a process that dies leaves it unmoved or completed by others.

A schedule moves once by one request, although where it moves to may be in the same window. A request has a name, made
of its window, filters, offset or instant and idempotency key, from which the ids of all successors derive. So a repeat,
after a lost answer or because a process died, recognises what was moved: an old row by its successor's id, a successor
by its own, and what others made of that successor by its ancestors, up to `MAX_ANCESTORS`. A successor of another
request that was made since this one began is left alone, too; so the instant at which it began is kept under the
idempotency key, and in cursors. As clocks differ, it may have been made a moment before; so the caller is told.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from membership.errors import StoreUnavailable
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.idempotency import Keyed
from scheduler_service.domain.ids import ClientId, Partition, RowKey, ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.reconciliations import HANDLED, Action
from scheduler_service.domain.schedules import Row, State
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.idempotency import RememberRequest
from scheduler_service.usecases.list_schedules import ListSchedules, Position, Window
from scheduler_service.usecases.reading_steps import HasRead, uncounted
from scheduler_service.usecases.reschedule_schedule import (
    RescheduleResult,
    RescheduleSchedule,
    WindowReschedule,
    was_rescheduled_by,
)

WAITING = HANDLED[Action.CANCEL]
"""The states of schedules that may move."""
MAX_RESCHEDULED = 200
"""Schedules that one call moves, and rows that it finds."""
MAX_ANCESTORS = 8
"""How many schedules before a successor are looked at for one that this request has moved."""
ANCESTOR_BYTES = 250

RescheduleOutcome: TypeAlias = RescheduleResult | Invalid | StoreUnavailable
"""The result for one schedule. Invalid: it can't be due then; StoreUnavailable: it stayed unknown, repeat."""


@dataclass(frozen=True, slots=True)
class Found:
    """Schedules of a page that move, and those that this request has moved before. `since`: those that stay, as another
    request has rescheduled them since this one began. `next` None: the window is exhausted."""

    schedules: list[ScheduleId]
    since: list[Row]
    next: Position | None


def name_of(window: Window, asked: object, *, key: str | None) -> str:
    """The name of a request: the same for the same window, filters, `asked` and idempotency key."""
    digest = hashlib.blake2b(digest_size=16)
    content = (window.client_id, window.start, window.end, window.filter, asked, key)
    digest.update(msgspec.json.encode(content, order="deterministic"))
    return digest.hexdigest()


class RescheduleWindow:
    """For clients that the caller has looked up, and that may create."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        listing: ListSchedules,
        reschedule: RescheduleSchedule,
        remember: RememberRequest,
    ) -> None:
        self._schedules = schedules
        self._listing = listing
        self._reschedule = reschedule
        self._remember = remember

    async def known(self, keyed: Keyed | None) -> UnixMillis | None:
        """The instant at which an earlier request under this key began. Raises KeyReused, StoreUnavailable."""
        known = None if keyed is None else await self._remember.known(keyed)
        return None if known is None else known.at

    async def begin(self, keyed: Keyed | None, *, at: int) -> UnixMillis:
        """The instant at which the request began: `at`, or that of a concurrent one under the same key. Raises as
        above."""
        return UnixMillis(at) if keyed is None else (await self._remember(keyed, ids=(), at=at)).at

    async def find(
        self,
        window: Window,
        change: WindowReschedule,
        *,
        began_at: UnixMillis,
        position: Position | None,
        has_read: HasRead = uncounted,
    ) -> Found:
        """The next page. Nothing is written. Raises StoreUnavailable."""
        wanted = window.filter.states or WAITING
        states = (*wanted, State.CANCELLED)
        looked_at = replace(window, filter=msgspec.structs.replace(window.filter, states=states))
        page = await self._listing.lean(looked_at, limit=MAX_RESCHEDULED, position=position, has_read=has_read)
        waiting = [one.row for one in page.items if not one.row.ended]
        stay = await self._descendants(window.client_id, waiting, change, has_read)
        since = [
            row
            for row in waiting
            if row.rescheduled_from is not None and row.schedule_id not in stay and (row.created_at or 0) >= began_at
        ]
        stay.update(row.schedule_id for row in since)
        moves = [
            row.schedule_id
            for row in (one.row for one in page.items)
            if (was_rescheduled_by(row, change) if row.ended else row.schedule_id not in stay)
        ]
        return Found(moves, since, page.next)

    async def reschedule(
        self, client: Client, schedule_ids: Sequence[ScheduleId], change: WindowReschedule
    ) -> Mapping[ScheduleId, RescheduleOutcome]:
        """One outcome for each. Raises StoreUnavailable where storage leaves every one unknown."""
        partitions: dict[Partition, list[ScheduleId]] = {}
        for schedule_id in schedule_ids:
            partitions.setdefault(partition_of(client.client_id, schedule_id), []).append(schedule_id)
        outcomes: dict[ScheduleId, RescheduleOutcome] = {}

        async def of_partition(several: Sequence[ScheduleId]) -> None:
            # One after the other: each changes what the others' writes are conditional on.
            for schedule_id in several:
                try:
                    outcomes[schedule_id] = await self._reschedule(client, schedule_id, change)
                except (Invalid, StoreUnavailable) as error:
                    outcomes[schedule_id] = error

        await concurrently(of_partition, partitions.values())
        lost = next((one for one in outcomes.values() if isinstance(one, StoreUnavailable)), None)
        if lost is not None and all(isinstance(one, StoreUnavailable) for one in outcomes.values()):
            raise lost
        return outcomes

    async def _descendants(
        self, client_id: ClientId, waiting: Sequence[Row], change: WindowReschedule, has_read: HasRead
    ) -> set[ScheduleId]:
        """Those that an ancestor became by this request, or of which others made what they are since."""
        found: set[ScheduleId] = set()
        left = {row.schedule_id: ScheduleId(row.rescheduled_from) for row in waiting if row.rescheduled_from}
        for _ in range(MAX_ANCESTORS):
            if not left:
                break
            ancestors = await self._lean_rows(client_id, left.values())
            has_read(len(ancestors), len(ancestors) * ANCESTOR_BYTES)
            following: dict[ScheduleId, ScheduleId] = {}
            for schedule_id, ancestor_id in left.items():
                ancestor = ancestors.get(ancestor_id)
                if ancestor is None:
                    continue
                if was_rescheduled_by(ancestor, change):
                    found.add(schedule_id)
                elif ancestor.rescheduled_from is not None:
                    following[schedule_id] = ScheduleId(ancestor.rescheduled_from)
            left = following
        return found

    async def _lean_rows(self, client_id: ClientId, schedule_ids: Iterable[ScheduleId]) -> Mapping[ScheduleId, Row]:
        wanted: dict[Partition, list[RowKey]] = {}
        for schedule_id in schedule_ids:
            wanted.setdefault(partition_of(client_id, schedule_id), []).append(key_of(schedule_id))
        answers = await concurrently(lambda item: self._schedules.find_rows(*item, lean=True), wanted.items())
        return {row.schedule_id: row for rows in answers for row in rows.values()}
