"""Show a client's pollers: who owns each, how far it is settled, and what is open behind that.

    leases -> watermarks -> occupied minutes from there to now -> rows in them that are due and have no outcome

Looking must stay cheap where there is most to see, after a long outage. So it is bounded: the oldest minutes of every
poller are counted first, and what was cut off is said to be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from membership.identity import Life
from membership.lease import start_of
from membership.ports import LeaseRow, LeaseStore
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import MINUTES_PER_HOUR, Minute, Partition, PollerId, minute_of
from scheduler_service.domain.ports import ScheduleStore
from scheduler_service.domain.schedules import Unfinished
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.watch_members import WatchMembers

HOURS_PER_READ = 4
MAX_HOURS = 72
"""Hours of the index that are read."""
MAX_MINUTES = 20_000
"""Occupied minutes, over all pollers, after which no more of the index is read."""
MAX_COUNTED = 256
"""Minutes, over all pollers, whose rows are counted."""
MAX_ROWS_OF_MINUTE = 5_000
"""Rows looked at in one of them."""
MAX_ROWS = 50_000
"""Rows, over all of them, after which no more are looked at."""
READS_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerShown:
    """`watermark`: all minutes before it are settled. `open_minutes`: those with rows from there to the present one,
    and `backlog` the rows in them that are due and have no outcome; where `cut`, there may be more of both.
    """

    poller_id: PollerId
    owner: Life | None
    epoch: int
    watermark: Minute
    lagging: bool
    open_minutes: int
    backlog: int
    cut: bool


class ShowPollers:
    """Answers for one client at a time."""

    def __init__(self, *, members: WatchMembers, leases: LeaseStore, schedules: ScheduleStore, clock: Clock) -> None:
        self._members = members
        self._leases = leases
        self._schedules = schedules
        self._clock = clock

    async def __call__(self, client: Client) -> Sequence[PollerShown]:
        """By poller_id. Raises StoreUnavailable."""
        await self._members.known()
        now = self._clock.wall_ms()
        rows = [
            row
            for row in await self._leases.read_leases(client.client_id)
            if row.lane.poller_id < client.poller_ceiling
        ]
        watermarks = {PollerId(row.lane.poller_id): self._watermark(row) for row in rows}
        minutes, read_until = await self._open_minutes(client, watermarks, present=minute_of(now))
        backlogs = {poller_id: _Backlog(cut=read_until < minute_of(now)) for poller_id in watermarks}
        waiting = _oldest_of_each(minutes)[:MAX_COUNTED]
        seen = 0
        while waiting and seen < MAX_ROWS:
            chunk, waiting = waiting[:READS_AT_ONCE], waiting[READS_AT_ONCE:]
            partitions = [Partition(client.client_id, poller_id, minute) for poller_id, minute in chunk]
            count = partial(self._schedules.count_unfinished, due_until=now, limit=MAX_ROWS_OF_MINUTE)
            for partition, unfinished in zip(partitions, await concurrently(count, partitions), strict=True):
                seen += unfinished.seen
                backlogs[partition.poller_id].add(unfinished)
        return [
            _shown(row, watermark, minutes[poller_id], backlogs[poller_id])
            for row, (poller_id, watermark) in zip(rows, watermarks.items(), strict=True)
        ]

    def _watermark(self, row: LeaseRow) -> Minute:
        """Where a taker would start."""
        floor = None if row.owner is None else self._members.floor_of(row.owner)
        return Minute(start_of(row, owners_floor=floor))

    async def _open_minutes(
        self, client: Client, watermarks: Mapping[PollerId, Minute], *, present: Minute
    ) -> tuple[Mapping[PollerId, list[Minute]], Minute]:
        """Each poller's occupied minutes from its watermark on, in order, and the last minute that was looked at."""
        found: dict[PollerId, list[Minute]] = {poller_id: [] for poller_id in watermarks}
        first = min(watermarks.values(), default=Minute(present + 1))
        last_hour_begins = first - first % MINUTES_PER_HOUR + (MAX_HOURS - 1) * MINUTES_PER_HOUR
        total = 0
        while first <= present and first <= last_hour_begins and total < MAX_MINUTES:
            hours_end = first - first % MINUTES_PER_HOUR + HOURS_PER_READ * MINUTES_PER_HOUR
            last = Minute(min(hours_end - 1, present))
            occupied = await self._schedules.occupied(client.client_id, first=first, last=last)
            for minute in sorted(occupied):
                for poller_id in occupied[minute]:
                    if minute >= watermarks.get(poller_id, present + 1):
                        found[poller_id].append(minute)
                        total += 1
            first = Minute(last + 1)
        return found, Minute(first - 1)


@dataclass(slots=True)
class _Backlog:
    cut: bool
    minutes: int = 0
    rows: int = 0

    def add(self, unfinished: Unfinished) -> None:
        self.minutes += 1
        self.rows += unfinished.rows
        self.cut = self.cut or unfinished.more


def _shown(row: LeaseRow, watermark: Minute, minutes: Sequence[Minute], backlog: _Backlog) -> PollerShown:
    return PollerShown(
        poller_id=PollerId(row.lane.poller_id),
        owner=row.owner,
        epoch=row.epoch,
        watermark=watermark,
        lagging=row.lagging,
        open_minutes=len(minutes),
        backlog=backlog.rows,
        cut=backlog.cut or backlog.minutes < len(minutes),
    )


def _oldest_of_each(minutes: Mapping[PollerId, Sequence[Minute]]) -> list[tuple[PollerId, Minute]]:
    """The oldest minute of every poller, then the next of each, and so on."""
    ranked = [(rank, poller_id, minute) for poller_id, own in minutes.items() for rank, minute in enumerate(own)]
    return [(poller_id, minute) for _, poller_id, minute in sorted(ranked)]
