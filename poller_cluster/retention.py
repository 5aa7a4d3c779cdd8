"""Retention: whole partitions go, once they are settled, have nothing open, and are past the client's retention.

There is no TTL on schedules: it would let a long outage or suspension eat calls not yet made. The lane's owner walks
the index of occupied minutes, oldest hour first, reads what became of every row, and deletes the partition as one. An
hour that keeps something open is looked at again in the next round.

Where there is an archive to wait for, a partition also stays until its client's day is archived. What ended after that
day was archived is not in it: it stays too, and the day is marked, so that the archive's next run adds it. Built-in
clients have no days in the archive, and do not wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from membership.errors import StoreUnavailable
from poller_cluster.tenants import Tenant
from scheduler_service.domain.archives import DAY_MS, ArchivedDay, day_of
from scheduler_service.domain.ids import (
    MINUTES_PER_HOUR,
    ClientId,
    Hour,
    Minute,
    Partition,
    PollerId,
    UnixMillis,
    hour_of,
    minute_of,
    minute_start,
)
from scheduler_service.domain.ports import ArchiveStore, ScheduleStore
from scheduler_service.runtime.clock import Clock

ROUND_SECONDS = 600.0
PAUSE_SECONDS = 0.02
"""Between two reads of the index: a round over years of hours must not be felt by fresh calls."""
PAGE_ROWS = 1_000

Positions = Mapping[PollerId, Minute]


@dataclass(slots=True)
class _Archived:
    """What the archive holds of one client, as read when a sweep began. `days` None: nobody waits for an archive."""

    days: Mapping[UnixMillis, ArchivedDay] | None
    stale: set[UnixMillis] = field(default_factory=set)

    def of(self, minute: Minute) -> ArchivedDay | None:
        return None if self.days is None else self.days.get(day_of(minute_start(minute)))


class Retention:
    """`tenants()`: the clients; `positions(client_id)`: this node's lanes of one, each with its oldest open minute.
    `archives`: where to see what is archived; None where nothing waits for that."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        clock: Clock,
        tenants: Callable[[], Sequence[Tenant]],
        positions: Callable[[ClientId], Positions],
        trusted: Callable[[], bool],
        archives: ArchiveStore | None = None,
    ) -> None:
        self._schedules = schedules
        self._clock = clock
        self._tenants = tenants
        self._positions = positions
        self._trusted = trusted
        self._archives = archives
        self._looked_at: dict[ClientId, Hour] = {}

    async def run(self) -> None:
        """A round now and then, until cancelled."""
        while True:
            await self._clock.sleep(ROUND_SECONDS)
            for tenant in self._tenants():
                try:
                    await self.sweep(tenant)
                except StoreUnavailable:
                    continue

    async def sweep(self, tenant: Tenant) -> int:
        """Delete what is past one client's retention in the lanes held here; answers how many partitions went."""
        client_id = tenant.client_id
        positions = self._positions(client_id)
        if not positions:
            self._looked_at.pop(client_id, None)
            return 0
        until = minute_of(self._clock.wall_ms() - tenant.settings.retention_days * DAY_MS)
        hour = self._looked_at.get(client_id, Hour(hour_of(minute_of(tenant.client.created_at)) - 1))
        archived = await self._archived(tenant, hour, until)
        deleted, all_gone = 0, True
        while hour * MINUTES_PER_HOUR < until and self._trusted():
            first = Minute(hour * MINUTES_PER_HOUR)
            last = Minute(min(first + MINUTES_PER_HOUR, until) - 1)
            gone, left = await self._sweep_minutes(client_id, first, last, positions, archived)
            deleted += gone
            all_gone = all_gone and not left and last == first + MINUTES_PER_HOUR - 1
            hour = Hour(hour + 1)
            if all_gone:
                self._looked_at[client_id] = hour
            await self._clock.sleep(PAUSE_SECONDS)
        return deleted

    async def _archived(self, tenant: Tenant, hour: Hour, until: Minute) -> _Archived:
        if self._archives is None or tenant.client.built_in:
            return _Archived(None)
        first = day_of(minute_start(Minute(hour * MINUTES_PER_HOUR)))
        found = await self._archives.read(tenant.client_id, first=first, last=day_of(minute_start(until)))
        return _Archived({one.day: one for one in found})

    async def _sweep_minutes(
        self, client_id: ClientId, first: Minute, last: Minute, positions: Positions, archived: _Archived
    ) -> tuple[int, int]:
        """How many partitions of [first, last] were deleted, and how many of the lanes held here are left."""
        gone = left = 0
        occupied = await self._schedules.occupied(client_id, first=first, last=last)
        for minute, pollers in occupied.items():
            for poller_id in pollers:
                position = positions.get(poller_id)
                if position is None:
                    continue
                partition = Partition(client_id, poller_id, minute)
                if minute < position and await self._may_go(partition, archived) and self._trusted():
                    await self._schedules.delete_partition(partition)
                    gone += 1
                else:
                    left += 1
        return gone, left

    async def _may_go(self, partition: Partition, archived: _Archived) -> bool:
        """Whether nothing of it is open, or would be lost."""
        day = archived.of(partition.minute)
        if day is None and archived.days is not None:
            return False
        after = None
        while True:
            page = await self._schedules.read_page(partition, after=after, limit=PAGE_ROWS)
            if not all(row.over for row in page.rows):
                return False
            if day is not None and not all(map(day.holds, page.rows)):
                await self._mark_stale(day, archived)
                return False
            if not page.more:
                return True
            after = page.rows[-1].key

    async def _mark_stale(self, day: ArchivedDay, archived: _Archived) -> None:
        """Once a sweep; whatever comes of it, the next sweep finds the same."""
        if self._archives is not None and not day.stale and day.day not in archived.stale:
            archived.stale.add(day.day)
            await self._archives.mark_stale(day)
