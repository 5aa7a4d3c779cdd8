"""Redeliver a notice: a client's notice that failed for good is sent again.

A dead letter of a notice is its client's, and names a row of the built-in client `$events`. That row is redelivered as
any schedule is, if its content says that the notice is this client's.
"""

from dataclasses import dataclass

from scheduler_service.domain.clients import Client
from scheduler_service.domain.end_notices import EndNotice
from scheduler_service.domain.errors import NotFound
from scheduler_service.domain.ids import ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.notices import EVENTS_CLIENT, NoticeContent, decode_notice
from scheduler_service.domain.options import Undecodable
from scheduler_service.domain.ports import EventStore, ScheduleStore
from scheduler_service.domain.schedules import Row
from scheduler_service.usecases.authenticate import Catalog
from scheduler_service.usecases.cancel_schedules import NoSuchSchedule
from scheduler_service.usecases.redeliver import RedeliverResult, RedeliverSchedule


@dataclass(frozen=True, slots=True)
class EventsGone:
    """The events of a subscription's notice are not kept any more, so it would tell nothing."""

    row: Row


class RedeliverNotice:
    """Redelivers notices of clients that the caller has looked up, and that may create."""

    def __init__(
        self, *, schedules: ScheduleStore, events: EventStore, redeliver: RedeliverSchedule, catalog: Catalog
    ) -> None:
        self._schedules = schedules
        self._events = events
        self._redeliver = redeliver
        self._catalog = catalog

    async def __call__(
        self, client: Client, schedule_id: ScheduleId, *, failed_at: UnixMillis
    ) -> RedeliverResult | EventsGone:
        """As `RedeliverSchedule`. NoSuchSchedule: there is no such notice, or it is another client's. Raises
        StoreUnavailable: repeat."""
        try:
            owner = await self._catalog.client(EVENTS_CLIENT)
        except NotFound:
            return NoSuchSchedule()
        key = key_of(schedule_id)
        row = (await self._schedules.find_rows(partition_of(EVENTS_CLIENT, schedule_id), [key])).get(key)
        if row is None or not row.defined:
            return NoSuchSchedule()
        try:
            content = decode_notice(row.body)
        except Undecodable:
            return NoSuchSchedule()
        if not isinstance(content, NoticeContent | EndNotice) or content.client_id != client.client_id:
            return NoSuchSchedule()
        if isinstance(content, NoticeContent) and not await self._has_events(content):
            return EventsGone(row)
        return await self._redeliver(owner, schedule_id, failed_at=failed_at)

    async def _has_events(self, content: NoticeContent) -> bool:
        found = await self._events.read_events(content.client_id, content.place, after=content.first - 1, limit=1)
        return any(seq <= content.last for seq, _ in found)
