"""Finds what names a destination: crons, subscriptions, and schedules that are still to be called.

The search for schedules follows the index of occupied minutes, from the oldest one that is not settled to the client's
horizon. It is bounded by `MAX_SEARCH_READS`; minutes beyond that are not searched. A schedule that is created meanwhile
may be missed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from membership.ports import LeaseStore
from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.ids import (
    DAY_MS,
    MINUTES_PER_HOUR,
    ClientId,
    CronId,
    Minute,
    Partition,
    RowKey,
    ScheduleId,
    hour_of,
    minute_of,
)
from scheduler_service.domain.options import Undecodable
from scheduler_service.domain.ports import CronStore, ScheduleStore, SubscriptionStore
from scheduler_service.domain.schedule_filters import destination_of
from scheduler_service.domain.schedules import State
from scheduler_service.domain.subscriptions import decode_subscription
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import WIDTH, concurrently
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, HasRead, next_step, uncounted

MAX_SEARCH_READS: Final = 1_000
"""Pages of crons, parts of the index, pages of rows and reads of their content, in all."""
MAX_NAMED: Final = 10
"""Crons and schedules that are named; a search ends when it has found more."""
CRONS_A_READ: Final = 100
HOURS_A_READ: Final = 96
"""Hours of the index that one request reads: the default horizon takes 183 requests."""
ROWS_A_READ: Final = 500
RETRIED_DAYS: Final = 8
"""Retries are due up to so much later than the horizon."""


@dataclass(slots=True)
class Users:
    """`complete`: there are no others."""

    crons: list[CronId] = field(default_factory=list)
    subscriptions: list[str] = field(default_factory=list)
    schedules: list[ScheduleId] = field(default_factory=list)
    complete: bool = True
    reads: int = 0

    @property
    def none(self) -> bool:
        return self.complete and not self.crons and not self.subscriptions and not self.schedules

    @property
    def _enough(self) -> bool:
        return self.reads >= MAX_SEARCH_READS or len(self.crons) > MAX_NAMED or len(self.schedules) > MAX_NAMED

    def read_on(self) -> bool:
        """Whether another read may be made; counts it."""
        if self._enough:
            self.complete = False
            return False
        self.reads += 1
        return True


class FindDestinationUsers:
    """Finds who names a destination of a client that the caller has looked up."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        crons: CronStore,
        subscriptions: SubscriptionStore,
        leases: LeaseStore,
        clock: Clock,
    ) -> None:
        self._schedules = schedules
        self._crons = crons
        self._subscriptions = subscriptions
        self._leases = leases
        self._clock = clock

    async def __call__(self, client: Client, name: str, *, has_read: HasRead = uncounted) -> Users:
        """`has_read` hears of what was read. Raises StoreUnavailable."""
        found = Users()
        await self._find_subscriptions(client.client_id, name, found)
        await self._find_crons(client.client_id, name, found, has_read)
        await self._find_schedules(client, name, found, has_read)
        return found

    async def _find_subscriptions(self, client_id: ClientId, name: str, found: Users) -> None:
        for one in await self._subscriptions.list_subscriptions(client_id):
            try:
                if decode_subscription(one.document).destination == name:
                    found.subscriptions.append(one.name)
            except Undecodable:
                continue

    async def _find_crons(self, client_id: ClientId, name: str, found: Users, has_read: HasRead) -> None:
        after: CronId | None = None
        while found.read_on():
            page = await self._crons.read_page(client_id, after=after, limit=CRONS_A_READ)
            has_read(len(page), sum(cron.callback.size for cron in page))
            found.crons += [
                cron.cron_id
                for cron in page
                if cron.state is not CronState.DELETED and destination_of(cron.callback.url) == name
            ]
            if len(page) < CRONS_A_READ:
                return
            after = page[-1].cron_id

    async def _find_schedules(self, client: Client, name: str, found: Users, has_read: HasRead) -> None:
        now = self._clock.wall_ms()
        leases = await self._leases.read_leases(client.client_id)
        first = Minute(min((lease.watermark for lease in leases), default=minute_of(now)))
        last = minute_of(now + (client.settings.horizon_days + RETRIED_DAYS) * DAY_MS)
        for begin, end in _parts(first, last):
            if not found.read_on():
                return
            occupied = await self._schedules.occupied_over(client.client_id, first=begin, last=end)
            has_read(HOURS_A_READ, 0)
            partitions = [
                Partition(client.client_id, poller_id, minute) for minute in occupied for poller_id in occupied[minute]
            ]
            for at in range(0, len(partitions), WIDTH):
                several = partitions[at : at + WIDTH]
                await concurrently(lambda partition: self._search(partition, name, found, has_read), several)

    async def _search(self, partition: Partition, name: str, found: Users, has_read: HasRead) -> None:
        after: RowKey | None = None
        more = True
        while more:
            if not found.read_on():
                return
            page = await self._schedules.review_page(partition, after=after, limit=ROWS_A_READ)
            has_read(len(page.rows), 0)
            waiting = [row.key for row in page.rows if row.created_at is not None and not _ended(row.state)]
            await self._judge(partition, waiting, name, found, has_read)
            more = page.more and bool(page.rows)
            after = page.rows[-1].key if page.rows else None

    async def _judge(
        self, partition: Partition, waiting: Sequence[RowKey], name: str, found: Users, has_read: HasRead
    ) -> None:
        done = size = 0
        step = FIRST_STEP_ROWS
        while done < len(waiting):
            if not found.read_on():
                return
            several = waiting[done : done + step]
            content = await self._schedules.read_content(partition, several)
            read = sum(one.size for one in content.values())
            has_read(0, read)
            done, size = done + len(several), size + read
            step = next_step(step, done=done, read=size)
            for key, one in content.items():
                # A schedule that is being retried has a row for each of its attempts.
                if destination_of(one.url) == name and key.schedule_id not in found.schedules:
                    found.schedules.append(key.schedule_id)


def _parts(first: Minute, last: Minute) -> Iterator[tuple[Minute, Minute]]:
    """The span in parts of HOURS_A_READ whole hours."""
    while first <= last:
        end = min(last, Minute((hour_of(first) + HOURS_A_READ) * MINUTES_PER_HOUR - 1))
        yield first, end
        first = Minute(end + 1)


def _ended(state: str | None) -> bool:
    return State(state or State.SCHEDULED).ended
