"""A client's open minutes: those of its pollers that have rows and are not settled, up to the present one.

    leases -> watermarks -> index of occupied minutes from there to now -> rows in them, due and without an outcome

The cost is bounded, however long an outage was: at most `MAX_HOURS` of the index are read, and no more once they have
`MAX_MINUTES` open ones; rows are counted within a `CountBudget`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from membership.lease import start_of
from membership.ports import LeaseRow, LeaseStore
from scheduler_service.domain.clients import Client
from scheduler_service.domain.ids import MINUTES_PER_HOUR, ClientId, Minute, Partition, PollerId
from scheduler_service.domain.ports import BalanceStore, ScheduleStore
from scheduler_service.domain.schedules import Unfinished
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import WatchMembers

READS_AT_ONCE: Final = 8
HOURS_PER_READ = 4
MAX_HOURS = 72
"""Hours of the index that are read at most."""
MAX_MINUTES = 20_000
"""Open minutes, over all pollers, after which no more of the index is read."""
MAX_COUNTED = 256
"""Minutes, over all pollers of a client, whose rows are counted at most."""
MAX_ROWS = 50_000
"""Rows, over all of them, after which no more are read."""


@dataclass(slots=True)
class CountBudget:
    """What may still be counted: minutes of pollers, and rows."""

    partitions: int
    rows: int

    @classmethod
    def of_clients(cls, clients: int) -> "CountBudget":
        """As much as so many clients may have."""
        return cls(clients * MAX_COUNTED, clients * MAX_ROWS)

    def take(self, clients: int) -> "CountBudget":
        """The part of one of so many that are left, at most what is counted of one by itself."""
        part = CountBudget(min(self.partitions // clients, MAX_COUNTED), min(self.rows // clients, MAX_ROWS))
        self.partitions -= part.partitions
        self.rows -= part.rows
        return part

    def give_back(self, rest: "CountBudget") -> None:
        self.partitions += max(rest.partitions, 0)
        self.rows += max(rest.rows, 0)


@dataclass(slots=True)
class OpenMinutes:
    """Open minutes of a client, by poller in order; the last minute of the index that was read; how many pollers have
    rows in each minute."""

    minutes: dict[PollerId, list[Minute]]
    read_until: Minute
    occupied: dict[Minute, int] = field(default_factory=dict)


class FindOpenMinutes:
    """Finds and counts those of clients that the caller has looked up. Every method raises StoreUnavailable."""

    def __init__(self, *, members: WatchMembers, leases: LeaseStore, schedules: ScheduleStore) -> None:
        self._members = members
        self._leases = leases
        self._schedules = schedules

    async def leases(self, client: Client) -> dict[PollerId, LeaseRow]:
        """Of all pollers of the client, in order."""
        rows = await self._leases.read_leases(client.client_id)
        return {PollerId(row.poller.poller_id): row for row in rows if row.poller.poller_id < client.poller_ceiling}

    def watermark(self, row: LeaseRow) -> Minute:
        """Where a node that takes the poller would start."""
        low_watermark = None if row.owner is None else self._members.low_watermark_of(row.owner)
        return Minute(start_of(row, owners_low_watermark=low_watermark))

    async def find(
        self,
        client_id: ClientId,
        watermarks: Mapping[PollerId, Minute],
        *,
        present: Minute,
        balances: BalanceStore | None = None,
    ) -> OpenMinutes:
        """Minutes from the pollers' watermarks to the present one. With `balances`, those that have one are settled;
        without, some that are found may be."""
        first = min(watermarks.values(), default=Minute(present + 1))
        found = OpenMinutes({poller_id: [] for poller_id in watermarks}, first)
        last_hour_begins = first - first % MINUTES_PER_HOUR + (MAX_HOURS - 1) * MINUTES_PER_HOUR
        total = 0
        while first <= present and first <= last_hour_begins and total < MAX_MINUTES:
            hours_end = first - first % MINUTES_PER_HOUR + HOURS_PER_READ * MINUTES_PER_HOUR
            last = Minute(min(hours_end - 1, present))
            # The index is read first: a minute that is settled in between has its balance.
            occupied = await self._schedules.occupied(client_id, first=first, last=last)
            settled: Iterable[Partition] = ()
            if balances is not None:
                settled = {one.partition for one in await balances.read(client_id, first=first, last=last)}
            for minute in sorted(occupied):
                found.occupied[minute] = len(occupied[minute])
                for poller_id in occupied[minute]:
                    if minute < watermarks.get(poller_id, present + 1):
                        continue
                    if Partition(client_id, poller_id, minute) not in settled:
                        found.minutes[poller_id].append(minute)
                        total += 1
            first = Minute(last + 1)
        found.read_until = Minute(first - 1)
        return found

    async def count(
        self, partitions: Sequence[Partition], budget: CountBudget, *, due_until: int, rows_of_minute: int
    ) -> list[tuple[Partition, Unfinished]]:
        """Rows without an outcome that are due by then (Unix ms), of as many of these in their order as the budget
        allows, which they use up; of each at most `rows_of_minute` are read."""
        count = partial(self._schedules.count_unfinished, due_until=due_until, limit=rows_of_minute)
        counted: list[tuple[Partition, Unfinished]] = []
        while len(counted) < len(partitions) and budget.partitions > 0 and budget.rows > 0:
            at = len(counted)
            chunk = partitions[at : at + min(READS_AT_ONCE, budget.partitions)]
            found = await concurrently(count, chunk)
            budget.partitions -= len(chunk)
            budget.rows -= sum(unfinished.seen for unfinished in found)
            counted += zip(chunk, found, strict=True)
        return counted
