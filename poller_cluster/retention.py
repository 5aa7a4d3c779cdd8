"""Retention: whole partitions go, once they are settled, have nothing open, and are past the client's retention.

There is no TTL on schedules: it would let a long outage or suspension eat calls not yet made. The poller's owner walks
the index of occupied minutes, oldest hour first, reads what became of every row, and deletes the partition as one. An
hour that keeps something open is looked at again in the next round, all hours when a poller is taken over.

Rows may be open that nobody will ever call: a create or a redelivery that was never answered and took effect when its
minute was settled already. Once past retention they are cancelled, with reason `expired`; the partition goes in the
next round. Until then a request for such a schedule sees to it (`usecases.edit_schedule`), and so does the audit.

Where there is an archive to wait for, a partition also stays until its client's day is archived. What ended after that
day was archived is not in it: it stays too, and the day is marked, so that the archive's next run adds it. Built-in
clients have no days in the archive, and do not wait.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from membership.errors import StoreUnavailable
from poller_cluster.background_budget import BackgroundBudget
from poller_cluster.clients import ServedClient
from scheduler_service.domain.archives import ArchivedDay, day_of
from scheduler_service.domain.ids import (
    DAY_MS,
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
from scheduler_service.domain.retry_rows import outcome_after
from scheduler_service.domain.schedules import ExternalUpdate, Page, RowWrite, State
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.randomness import Randomness

ROUND_SECONDS = 600.0
PAUSE_SECONDS = 0.02
"""Between two reads of the index: a round over years of hours must not be felt by fresh calls."""
PAGE_ROWS = 1_000
EXPIRED_AT_ONCE = 100
PARTITIONS_REMEMBERED = 100_000
"""Partitions that wait for the archive and were looked through."""
EXPIRED = "expired"
"""Reason of what was cancelled because it was past retention and nobody would have called it."""

Positions = Mapping[PollerId, Minute]


@dataclass(slots=True)
class _Archived:
    """What the archive holds of one client, as read when a sweep began. `days` None: nobody waits for an archive."""

    days: Mapping[UnixMillis, ArchivedDay] | None
    stale: set[UnixMillis] = field(default_factory=set)

    def of(self, minute: Minute) -> ArchivedDay | None:
        return None if self.days is None else self.days.get(day_of(minute_start(minute)))


class Retention:
    """`clients()`: the clients; `positions(client_id)`: this node's pollers of one, each with its oldest open minute.
    `archives`: where to see what is archived; None where nothing waits for that."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        clock: Clock,
        clients: Callable[[], Sequence[ServedClient]],
        positions: Callable[[ClientId], Positions],
        trusted: Callable[[], bool],
        budget: BackgroundBudget,
        randomness: Randomness,
        archives: ArchiveStore | None = None,
    ) -> None:
        self._schedules = schedules
        self._clock = clock
        self._clients = clients
        self._positions = positions
        self._trusted = trusted
        self._budget = budget
        self._archives = archives
        self._randomness = randomness
        self._looked_through: set[Partition] = set()
        self._passed: dict[ClientId, tuple[Hour, frozenset[PollerId]]] = {}
        """Before which hour nothing is left, in which pollers."""

    async def run(self) -> None:
        """A round now and then, until cancelled."""
        while True:
            await self._clock.sleep(ROUND_SECONDS)
            for client in self._clients():
                try:
                    await self.sweep(client)
                except StoreUnavailable:
                    continue

    async def sweep(self, client: ServedClient) -> int:
        """Delete what is past one client's retention in the pollers held here; answers how many partitions went."""
        client_id = client.client_id
        positions = self._positions(client_id)
        if not positions:
            self._passed.pop(client_id, None)
            return 0
        pollers = frozenset(positions)
        until = minute_of(self._clock.wall_ms() - client.settings.retention_days * DAY_MS)
        hour, passed_in = self._passed.get(client_id, (None, pollers))
        if hour is None or not pollers <= passed_in:
            # A poller's last owner may have left something of any hour.
            hour = Hour(hour_of(minute_of(client.record.created_at)) - 1)
        self._passed[client_id] = hour, pollers
        archived = await self._archived(client, hour, until)
        deleted, all_gone = 0, True
        while hour * MINUTES_PER_HOUR < until and self._trusted():
            first = Minute(hour * MINUTES_PER_HOUR)
            last = Minute(min(first + MINUTES_PER_HOUR, until) - 1)
            gone, left = await self._sweep_minutes(client_id, first, last, positions, archived, until)
            deleted += gone
            all_gone = all_gone and not left and last == first + MINUTES_PER_HOUR - 1
            hour = Hour(hour + 1)
            if all_gone:
                self._passed[client_id] = hour, pollers
            await self._clock.sleep(PAUSE_SECONDS)
        return deleted

    async def _archived(self, client: ServedClient, hour: Hour, until: Minute) -> _Archived:
        if self._archives is None or client.record.built_in:
            return _Archived(None)
        first = day_of(minute_start(Minute(hour * MINUTES_PER_HOUR)))
        found = await self._archives.read(client.client_id, first=first, last=day_of(minute_start(until)))
        return _Archived({one.day: one for one in found})

    async def _sweep_minutes(
        self,
        client_id: ClientId,
        first: Minute,
        last: Minute,
        positions: Positions,
        archived: _Archived,
        until: Minute,
    ) -> tuple[int, int]:
        """How many partitions of [first, last] were deleted, and how many of the pollers held here are left. Minutes
        before `until` are past retention."""
        gone = left = 0
        async with self._budget.slot(client_id):
            occupied = await self._schedules.occupied(client_id, first=first, last=last)
        for minute, pollers in occupied.items():
            for poller_id in pollers:
                position = positions.get(poller_id)
                if position is None:
                    continue
                partition = Partition(client_id, poller_id, minute)
                settled = min(position, until)
                if minute < position and await self._may_go(partition, archived, settled) and self._trusted():
                    async with self._budget.slot(client_id):
                        await self._schedules.delete_partition(partition)
                    gone += 1
                else:
                    left += 1
        return gone, left

    async def _may_go(self, partition: Partition, archived: _Archived, settled: Minute) -> bool:
        """Whether nothing of it is open, or would be lost. All minutes before `settled` are settled and past retention:
        what is stranded is cancelled, also where the archive waits for that."""
        day = archived.of(partition.minute)
        waits = day is None and archived.days is not None
        if waits and partition in self._looked_through:
            return False
        after = None
        while True:
            async with self._budget.slot(partition.client_id):
                page = await self._schedules.read_page(partition, after=after, limit=PAGE_ROWS, lean=True)
            if not all(row.over for row in page.rows):
                await self._expire(partition, page, settled)
                return False
            if day is not None and not all(map(day.holds, page.rows)):
                await self._mark_stale(day, archived)
                return False
            if not page.more:
                break
            after = page.rows[-1].key
        if waits:
            if len(self._looked_through) >= PARTITIONS_REMEMBERED:
                self._looked_through.clear()
            self._looked_through.add(partition)
        return not waits

    async def _expire(self, partition: Partition, page: Page, settled: Minute) -> None:
        """One edit. Whatever comes of it, the next sweep reads the page again."""
        stranded = [row for row in page.rows if row.stranded(settled)][:EXPIRED_AT_ONCE]
        if not stranded or not self._trusted():
            return
        at = UnixMillis(self._clock.wall_ms())
        update = ExternalUpdate(
            partition=partition,
            edits=self._randomness.uuid4(),
            version=page.header.version,
            version_known=True,
            writes=tuple(
                RowWrite(
                    key=row.key,
                    outcome=outcome_after(row, state=State.CANCELLED, at=at, reason=EXPIRED),
                    expect_state=State(row.state or State.SCHEDULED),
                    expect_next_attempt_at=row.next_attempt_at,
                )
                for row in stranded
            ),
        )
        async with self._budget.slot(partition.client_id):
            await self._schedules.update(update)

    async def _mark_stale(self, day: ArchivedDay, archived: _Archived) -> None:
        """Once a sweep; whatever comes of it, the next sweep finds the same."""
        if self._archives is not None and not day.stale and day.day not in archived.stale:
            archived.stale.add(day.day)
            await self._archives.mark_stale(day)
