"""Retention: deletes whole partitions that are settled, have nothing open, and are past the client's retention.

There is no TTL on schedules: it would delete calls not yet made during a long outage or suspension. The poller's owner
reads the index of occupied minutes, oldest hour first, reads the state of every row, and deletes the partition as a
whole. An hour with something open is read again in the next round, all hours when a poller is taken over.

Some open rows will never be called: those of a create or a redelivery that was never answered and took effect after its
minute was settled. Past retention they are cancelled with reason `expired`; the partition is deleted in the next round.
Until then a request for such a schedule requeues it (`usecases.resolve_schedule`), as does an audit with `--repair`.

If there is an archive to wait for, a partition also stays until its client's day is archived. Rows that ended after
that day was archived are not in it: their partition stays too, and the day is marked, so that the archive's next run
adds them. Built-in clients are not archived, so their partitions do not wait.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from membership.errors import StoreUnavailable
from poller_cluster.clients import ServedClient, ServedClients
from poller_cluster.held_pollers import HeldPollers
from poller_cluster.node_runtime import NodeRuntime
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

SWEEP_EVERY_SECONDS = 600.0
PAUSE_SECONDS = 0.02
"""Between two reads of the index, so that a round over years of hours does not delay fresh calls."""
PAGE_ROWS = 1_000
EXPIRED_AT_ONCE = 100
PARTITIONS_REMEMBERED = 100_000
"""How many partitions that were read and wait for the archive are remembered, so as not to read them again."""
EXPIRED = "expired"
"""The reason of rows that were cancelled because they were past retention and would never have been called."""

Positions = Mapping[PollerId, Minute]


@dataclass(slots=True)
class _Archived:
    """One client's archived days, as read when a sweep began. `days` None: there is no archive to wait for."""

    days: Mapping[UnixMillis, ArchivedDay] | None
    stale: set[UnixMillis] = field(default_factory=set)

    def of(self, minute: Minute) -> ArchivedDay | None:
        return None if self.days is None else self.days.get(day_of(minute_start(minute)))


class Retention:
    """`archives`: which days are archived; None if there is no archive to wait for."""

    def __init__(
        self,
        *,
        schedules: ScheduleStore,
        clients: ServedClients,
        pollers: HeldPollers,
        runtime: NodeRuntime,
        archives: ArchiveStore | None = None,
    ) -> None:
        self._schedules = schedules
        self._clients = clients
        self._pollers = pollers
        self._archives = archives
        self._clock = runtime.clock
        self._trusted = runtime.trusted
        self._budget = runtime.budget
        self._randomness = runtime.randomness
        self._looked_through: set[Partition] = set()
        self._passed: dict[ClientId, tuple[Hour, frozenset[PollerId]]] = {}
        """The hour before which nothing is left, and the pollers for which that holds."""

    async def run(self) -> None:
        """Sweep all clients every `SWEEP_EVERY_SECONDS`, until cancelled."""
        while True:
            await self._clock.sleep(SWEEP_EVERY_SECONDS)
            for client in self._clients.all():
                try:
                    await self.sweep(client)
                except StoreUnavailable:
                    continue

    async def sweep(self, client: ServedClient) -> int:
        """Delete partitions past one client's retention in the pollers held here; returns how many. Raises
        StoreUnavailable."""
        client_id = client.client_id
        positions = self._pollers.positions(client_id)
        if not positions:
            self._passed.pop(client_id, None)
            return 0
        pollers = frozenset(positions)
        until = minute_of(self._clock.wall_ms() - client.settings.retention_days * DAY_MS)
        hour, passed_in = self._passed.get(client_id, (None, pollers))
        if hour is None or not pollers <= passed_in:
            # A poller's previous owner may have left partitions in any hour.
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
                # Reading takes time, so trust is checked after it: it must hold when the partition is deleted.
                if minute < position and await self._may_go(partition, archived, settled) and self._trusted():
                    async with self._budget.slot(client_id):
                        await self._schedules.delete_partition(partition)
                    gone += 1
                else:
                    left += 1
        return gone, left

    async def _may_go(self, partition: Partition, archived: _Archived, settled: Minute) -> bool:
        """Whether no row of the partition is open, or missing in the archive. All minutes before `settled` are settled
        and past retention: stranded rows are cancelled, also while the archive is waited for."""
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
        """Cancel stranded rows by one external update. Its answer is ignored: the next sweep reads the page again."""
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
        """At most once a sweep. If it fails, the next sweep finds the same and tries again."""
        if self._archives is not None and not day.stale and day.day not in archived.stale:
            archived.stale.add(day.day)
            await self._archives.mark_stale(day)
