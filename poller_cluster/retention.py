"""Retention: whole partitions go, once they are settled, have nothing open, and are past the client's retention.

There is no TTL on schedules: it would let a long outage or suspension eat calls not yet made. The lane's owner walks
the index of occupied minutes, oldest hour first, reads what became of every row, and deletes the partition as one. An
hour that keeps something open is looked at again in the next round.
"""

from collections.abc import Callable, Mapping, Sequence

from membership.errors import StoreUnavailable
from poller_cluster.tenants import Tenant
from scheduler_service.domain.ids import (
    MINUTES_PER_HOUR,
    ClientId,
    Hour,
    Minute,
    Partition,
    PollerId,
    hour_of,
    minute_of,
)
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.runtime.clock import Clock

ROUND_SECONDS = 600.0
PAUSE_SECONDS = 0.02
"""Between two reads of the index: a round over years of hours must not be felt by fresh calls."""
DAY_MS = 86_400_000
PAGE_ROWS = 1_000

Positions = Mapping[PollerId, Minute]


class Retention:
    """`tenants()`: the clients; `positions(client_id)`: this node's lanes of one, each with its oldest open minute."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        clock: Clock,
        tenants: Callable[[], Sequence[Tenant]],
        positions: Callable[[ClientId], Positions],
        trusted: Callable[[], bool],
    ) -> None:
        self._schedules = schedules
        self._clock = clock
        self._tenants = tenants
        self._positions = positions
        self._trusted = trusted
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
        deleted, all_gone = 0, True
        while hour * MINUTES_PER_HOUR < until and self._trusted():
            first = Minute(hour * MINUTES_PER_HOUR)
            last = Minute(min(first + MINUTES_PER_HOUR, until) - 1)
            gone, left = await self._sweep_minutes(client_id, first, last, positions)
            deleted += gone
            all_gone = all_gone and not left and last == first + MINUTES_PER_HOUR - 1
            hour = Hour(hour + 1)
            if all_gone:
                self._looked_at[client_id] = hour
            await self._clock.sleep(PAUSE_SECONDS)
        return deleted

    async def _sweep_minutes(
        self, client_id: ClientId, first: Minute, last: Minute, positions: Positions
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
                if minute < position and await self._nothing_open(partition) and self._trusted():
                    await self._schedules.delete_partition(partition)
                    gone += 1
                else:
                    left += 1
        return gone, left

    async def _nothing_open(self, partition: Partition) -> bool:
        after = None
        while True:
            page = await self._schedules.read_page(partition, after=after, limit=PAGE_ROWS)
            if any(not row.ended for row in page.rows):
                return False
            if not page.more:
                return True
            after = page.rows[-1].key
