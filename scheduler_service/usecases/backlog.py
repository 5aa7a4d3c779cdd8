"""Backlog: what is overdue, of a client or of all, by age.

    leases -> watermarks -> index and balances from there to now -> unsettled minutes
        -> the rows of some of them, counted; of the others their loads

A poller's minute with a stored balance is settled, so nothing in it is overdue. The cost is bounded, however long an
outage was: at most `MAX_HOURS` of the index, `MAX_COUNTED` minutes of pollers and about `MAX_ROWS` rows are read of
a client. What is not counted is estimated, and said to be. The newest minutes of pollers that have a living owner are
never estimated, as most of their rows have been called.

For all clients, those with a poller that is behind are looked at, those with most rows by their loads first; of clients
beyond `MAX_DETAILED` the loads themselves are answered. What was found is kept for ten times as long as that took, at
least ten seconds, so pages of it agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from membership.lease import start_of
from membership.ports import LeaseRow, LeaseStore
from scheduler_service.domain.backlogs import (
    SETTLING_MINUTES,
    ClientBacklog,
    ClusterBacklog,
    Overdue,
    estimated_rows,
    held_by,
    in_counting_order,
    seconds_to_drain,
    sum_of,
)
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client, ClientState
from scheduler_service.domain.ids import MINUTES_PER_HOUR, ClientId, Minute, Partition, PollerId, minute_of
from scheduler_service.domain.minute_loads import ALL_CLIENTS, LOADS_KEPT_MS, loads_of
from scheduler_service.domain.ports import (
    BalanceStore,
    ClientStore,
    DestinationStore,
    MinuteLoadStore,
    ScheduleStore,
)
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.shared_looks import KeptLook

READS_AT_ONCE: Final = 8
HOURS_PER_READ: Final = 4
MAX_HOURS = 72
"""Hours of the index that are read at most."""
MAX_MINUTES: Final = 20_000
"""Unsettled minutes, over all pollers, after which no more of the index is read."""
MAX_COUNTED = 256
"""Minutes, over all pollers, whose rows are counted at most."""
MAX_ROWS = 50_000
"""Rows, over all of them, after which no more are read."""
ROWS_OF_MINUTE = 2_000
"""Rows read in one of them."""
FACTOR_OF_ALL: Final = 4
"""How many times as much is counted of all clients together."""
MAX_DETAILED = 100
"""Clients whose index is read for the sum of all."""
BACKLOG_KEPT_SECONDS: Final = 10.0


@dataclass(slots=True)
class Budget:
    """What may still be counted."""

    partitions: int
    rows: int

    def take(self, clients: int) -> "Budget":
        """The part of one of so many that are left, at most what is counted of one by itself."""
        some = Budget(min(self.partitions // clients, MAX_COUNTED), min(self.rows // clients, MAX_ROWS))
        self.partitions -= some.partitions
        self.rows -= some.rows
        return some

    def give_back(self, rest: "Budget") -> None:
        self.partitions += max(rest.partitions, 0)
        self.rows += max(rest.rows, 0)


@dataclass(slots=True)
class _Open:
    """Unsettled minutes of a client, by poller in order; how many pollers have rows in each minute; the last minute of
    the index that was read."""

    minutes: dict[PollerId, list[Minute]]
    read_until: Minute
    occupied: dict[Minute, int] = field(default_factory=dict)


class _Pollers(NamedTuple):
    """`watermarks`: where each poller's unsettled minutes begin; `unowned`: those without a living owner."""

    client: Client
    watermarks: Mapping[PollerId, Minute]
    unowned: frozenset[PollerId]

    def behind(self, present: Minute) -> list[PollerId]:
        return [one for one, watermark in self.watermarks.items() if watermark < present - SETTLING_MINUTES]


class ShowBacklog:
    """Concurrent callers for all clients share one look."""

    def __init__(
        self,
        *,
        members: WatchMembers,
        clients: ClientStore,
        leases: LeaseStore,
        schedules: ScheduleStore,
        balances: BalanceStore,
        loads: MinuteLoadStore,
        destinations: DestinationStore,
        clock: Clock,
    ) -> None:
        self._members = members
        self._clients = clients
        self._leases = leases
        self._schedules = schedules
        self._balances = balances
        self._loads = loads
        self._destinations = destinations
        self._clock = clock
        self._all = KeptLook(self._look, least_seconds=BACKLOG_KEPT_SECONDS, clock=clock)

    async def of_client(self, client: Client) -> ClientBacklog:
        """Raises StoreUnavailable."""
        await self._members.known()
        pollers = await self._pollers(client)
        return await self._detailed(pollers, Budget(MAX_COUNTED, MAX_ROWS), spare=await self._spare())

    async def of_all(self, *, after: tuple[int, ClientId] | None, limit: int) -> ClusterBacklog:
        """Up to `limit` clients with fewer overdue rows than `after` says, or as many and a later id; None: from the
        worst on. Raises StoreUnavailable."""
        found, drain_seconds = await self._all()
        left = [one for one in found if after is None or rank(one) > (-after[0], after[1])]
        return ClusterBacklog(
            overdue=sum_of(one.overdue for one in found),
            clients=len(found),
            drain_seconds=drain_seconds,
            items=left[:limit],
            more=len(left) > limit,
        )

    async def _look(self) -> tuple[list[ClientBacklog], int | None]:
        """The clients that have overdue rows, the worst first, and the seconds until none of them has any."""
        await self._members.known()
        present = minute_of(self._clock.wall_ms())
        clients = [one for one in await self._clients.list_clients() if one.state is not ClientState.DELETED]
        pollers = await concurrently(self._pollers, clients, width=READS_AT_ONCE)
        behind = [one for one in pollers if one.behind(present)]
        loads = await concurrently(partial(self._by_loads, present=present), behind, width=READS_AT_ONCE)
        # Built-in clients' rows have no loads: without a look at their minutes they would be missing.
        ranked = sorted(zip(behind, loads, strict=True), key=lambda one: (not one[0].client.built_in, -one[1].rows))
        budget, spare, found = (
            Budget(FACTOR_OF_ALL * MAX_COUNTED, FACTOR_OF_ALL * MAX_ROWS),
            await self._spare(),
            list[ClientBacklog](),
        )
        detailed = ranked[:MAX_DETAILED]
        for at, (one, _) in enumerate(detailed):
            part = budget.take(len(detailed) - at)
            found.append(await self._detailed(one, part, spare=spare))
            budget.give_back(part)
        for one, overdue in ranked[MAX_DETAILED:]:
            found.append(await self._told(one, overdue, fullest=0, spare=spare))
        found = sorted((one for one in found if one.overdue.rows), key=rank)
        moving = sum(one.overdue.rows for one in found if one.drain_seconds is not None)
        return found, seconds_to_drain(moving, spare) if moving or not found else None

    async def _pollers(self, client: Client) -> _Pollers:
        living = {one.incarnation for one in self._members.members() if not one.state.ended}
        rows = {
            PollerId(row.poller.poller_id): row
            for row in await self._leases.read_leases(client.client_id)
            if row.poller.poller_id < client.poller_ceiling
        }
        watermarks = {poller_id: self._watermark(row) for poller_id, row in rows.items()}
        return _Pollers(client, watermarks, frozenset(one for one, row in rows.items() if row.owner not in living))

    def _watermark(self, row: LeaseRow) -> Minute:
        low_watermark = None if row.owner is None else self._members.low_watermark_of(row.owner)
        return Minute(start_of(row, owners_low_watermark=low_watermark))

    async def _spare(self) -> float:
        """Calls a minute that live nodes are sized for beyond those that are due about now."""
        capacity = self._members.capacity_per_minute()
        return capacity - await self._due_now(ALL_CLIENTS, minute_of(self._clock.wall_ms()))

    async def _due_now(self, name: ClientId, present: Minute) -> float:
        first, last = Minute(present - 2), Minute(present + 2)
        loads = loads_of(await self._loads.read(name, first=first, last=last), first=first, last=last)
        return sum(loads.values()) / (last - first + 1)

    async def _by_loads(self, pollers: _Pollers, *, present: Minute) -> Overdue:
        """All that was placed since its first unsettled minute."""
        first = min(pollers.watermarks.values())
        overdue = Overdue(cut=True)
        for minute, rows in (await self._read_loads(pollers.client.client_id, first, present)).items():
            overdue.estimate(minute, present, rows)
        return overdue

    async def _read_loads(self, client_id: ClientId, first: Minute, present: Minute) -> Mapping[Minute, int]:
        first = max(first, minute_of(self._clock.wall_ms() - LOADS_KEPT_MS))
        return loads_of(await self._loads.read(client_id, first=first, last=present), first=first, last=present)

    async def _detailed(self, pollers: _Pollers, budget: Budget, *, spare: float) -> ClientBacklog:
        now = self._clock.wall_ms()
        present, client_id = minute_of(now), pollers.client.client_id
        first = min(pollers.watermarks.values(), default=Minute(present + 1))
        if first > present:
            return await self._told(pollers, Overdue(), fullest=0, spare=spare)
        found = await self._open_minutes(pollers, present)
        loads = await self._read_loads(client_id, first, present)
        overdue = Overdue(minutes=sum(map(len, found.minutes.values())), cut=found.read_until < present)
        waiting = in_counting_order(found.minutes, present=present)
        seen = minutes_seen = 0
        left: list[tuple[PollerId, Minute, int]] = []
        """Minutes that were not read to their end, and how many of their rows were."""
        while waiting and budget.partitions > 0 and budget.rows > 0:
            chunk, waiting = waiting[:READS_AT_ONCE], waiting[READS_AT_ONCE:]
            budget.partitions -= len(chunk)
            count = partial(self._schedules.count_unfinished, due_until=now, limit=ROWS_OF_MINUTE)
            partitions = [Partition(client_id, *one) for one in chunk]
            for partition, unfinished in zip(partitions, await concurrently(count, partitions), strict=True):
                budget.rows -= unfinished.seen
                seen, minutes_seen = seen + unfinished.rows, minutes_seen + 1
                overdue.count(partition.minute, present, unfinished.rows)
                if unfinished.more:
                    left.append((partition.poller_id, partition.minute, unfinished.seen))
        mean = seen / minutes_seen if minutes_seen else 0.0
        for poller_id, minute, read in chain(left, ((*one, 0) for one in waiting)):
            if minute >= present - SETTLING_MINUTES and poller_id not in pollers.unowned:
                continue
            share = estimated_rows(loads.get(minute), occupied=found.occupied[minute], mean=mean)
            overdue.estimate(minute, present, share - read)
        # Only the loads tell of minutes whose index was not read.
        for minute, rows in loads.items():
            if minute > found.read_until:
                overdue.estimate(minute, present, rows)
        open_minutes = {minute for own in found.minutes.values() for minute in own}
        fullest = max((loads.get(minute, 0) for minute in open_minutes), default=0)
        return await self._told(pollers, overdue, fullest=fullest, spare=spare)

    async def _open_minutes(self, pollers: _Pollers, present: Minute) -> _Open:
        """Unsettled minutes: occupied, from the watermark on, and without a balance."""
        client_id, watermarks = pollers.client.client_id, pollers.watermarks
        first = min(watermarks.values())
        found = _Open({poller_id: [] for poller_id in watermarks}, first)
        last_hour_begins = first - first % MINUTES_PER_HOUR + (MAX_HOURS - 1) * MINUTES_PER_HOUR
        total = 0
        while first <= present and first <= last_hour_begins and total < MAX_MINUTES:
            hours_end = first - first % MINUTES_PER_HOUR + HOURS_PER_READ * MINUTES_PER_HOUR
            last = Minute(min(hours_end - 1, present))
            # The index is read first: a minute that is settled in between has its balance.
            occupied = await self._schedules.occupied(client_id, first=first, last=last)
            settled = {one.partition for one in await self._balances.read(client_id, first=first, last=last)}
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

    async def _told(self, pollers: _Pollers, overdue: Overdue, *, fullest: int, spare: float) -> ClientBacklog:
        client = pollers.client
        present = minute_of(self._clock.wall_ms())
        behind = pollers.behind(present)
        guaranteed = GUARANTEED_CALLS_PER_MINUTE * client.poller_quota
        paused = False
        if overdue.rows:
            paused = any(one.paused_at for one in await self._destinations.list_destinations(client.client_id))
        unowned = any(one in pollers.unowned for one in behind)
        rate = 0.0
        if not client.calls_held and not pollers.unowned:
            rate = min(guaranteed - await self._due_now(client.client_id, present), spare)
        return ClientBacklog(
            client_id=client.client_id,
            overdue=overdue,
            pollers=len(pollers.watermarks),
            behind=len(behind),
            held_by=held_by(
                client,
                unowned=unowned,
                destinations_paused=paused,
                fullest=fullest,
                guaranteed=guaranteed,
                behind=len(behind),
            ),
            late_policy=client.settings.late_policy,
            at_most_once=client.settings.in_doubt == "drop",
            drain_seconds=seconds_to_drain(overdue.rows, rate),
        )


def rank(one: ClientBacklog) -> tuple[int, ClientId]:
    """Orders clients, the worst first."""
    return -one.overdue.rows, one.client_id
