"""Backlog: what is overdue, of a client or of all, by age.

    open minutes (`open_minutes`), without those that have a balance -> the rows of some of them, counted
                                                                     -> of the others their loads

A poller's minute with a stored balance is settled, so nothing in it is overdue. The cost is bounded, however long an
outage was, and what is not counted is estimated, and said to be. The newest minutes of pollers that have a living owner
are never estimated, as most of their rows have been called.

For all clients, those with a poller that is behind are looked at, those with most rows by their loads first; of clients
beyond `MAX_DETAILED` the loads themselves are answered. What was found is kept for ten times as long as that took, at
least ten seconds, so pages of it agree.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from scheduler_service.domain.backlogs import (
    SETTLING_MINUTES,
    ClientBacklog,
    ClusterBacklog,
    Overdue,
    estimated_rows,
    held_by,
    oldest_of_each,
    seconds_to_drain,
    seconds_to_drain_all,
    sum_of,
)
from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client, ClientState
from scheduler_service.domain.ids import ClientId, Minute, Partition, PollerId, minute_of
from scheduler_service.domain.minute_loads import ALL_CLIENTS, LOADS_KEPT_MS, loads_of
from scheduler_service.domain.overdue_rates import rate_in_force
from scheduler_service.domain.ports import (
    BalanceStore,
    ClientStore,
    DestinationStore,
    MinuteLoadStore,
)
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.open_minutes import READS_AT_ONCE, CountBudget, FindOpenMinutes
from scheduler_service.usecases.shared_looks import KeptLook

ROWS_OF_MINUTE = 2_000
"""Rows read at most in one open minute."""
FACTOR_OF_ALL: Final = 4
"""How many times as much is counted of all clients together."""
MAX_DETAILED = 100
"""Clients whose index is read for the sum of all."""
BACKLOG_KEPT_SECONDS: Final = 10.0


class _Pollers(NamedTuple):
    """`watermarks`: where each poller's unsettled minutes begin; `unowned`: those without a living owner."""

    client: Client
    watermarks: Mapping[PollerId, Minute]
    unowned: frozenset[PollerId]

    def behind(self, present: Minute) -> list[PollerId]:
        return [one for one, watermark in self.watermarks.items() if watermark < present - SETTLING_MINUTES]


HeldBack: TypeAlias = Callable[[Sequence[ClientId]], Awaitable[Collection[ClientId]]]


class _Most(NamedTuple):
    """Calls a minute that live nodes are sized for beyond those that are due about now; calls a second by the overdue
    rate of all clients."""

    per_minute: float
    overdue: float | None


class ShowBacklog:
    """Concurrent callers for all clients share one look."""

    def __init__(
        self,
        *,
        members: WatchMembers,
        clients: ClientStore,
        open_minutes: FindOpenMinutes,
        balances: BalanceStore,
        loads: MinuteLoadStore,
        destinations: DestinationStore,
        held_back: HeldBack,
        clock: Clock,
    ) -> None:
        """`held_back`: which of some clients have a receiver that nodes hold back."""
        self._held_back = held_back
        self._members = members
        self._clients = clients
        self._open_minutes = open_minutes
        self._balances = balances
        self._loads = loads
        self._destinations = destinations
        self._clock = clock
        self._all = KeptLook(self._look, least_seconds=BACKLOG_KEPT_SECONDS, clock=clock)

    async def of_client(self, client: Client) -> ClientBacklog:
        """Raises StoreUnavailable."""
        await self._members.known()
        pollers = await self._pollers(client)
        found = await self._detailed(pollers, CountBudget.of_clients(1), most=await self._most())
        return (await self._with_open_receivers([found]))[0]

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
        budget, most, found = CountBudget.of_clients(FACTOR_OF_ALL), await self._most(), list[ClientBacklog]()
        detailed = ranked[:MAX_DETAILED]
        for at, (one, _) in enumerate(detailed):
            part = budget.take(len(detailed) - at)
            found.append(await self._detailed(one, part, most=most))
            budget.give_back(part)
        for one, overdue in ranked[MAX_DETAILED:]:
            found.append(await self._told(one, overdue, fullest=0, most=most))
        found = await self._with_open_receivers(sorted((one for one in found if one.overdue.rows), key=rank))
        moving = [one for one in found if one.drain_seconds is not None]
        if found and not moving:
            return found, None
        return found, seconds_to_drain_all(moving, per_minute=most.per_minute, overdue_per_second=most.overdue)

    async def _with_open_receivers(self, found: Sequence[ClientBacklog]) -> list[ClientBacklog]:
        asked = [one.client_id for one in found if one.overdue.rows][:MAX_DETAILED]
        held_back = await self._held_back(asked)
        return [one.with_open_receivers if one.client_id in held_back else one for one in found]

    async def _pollers(self, client: Client) -> _Pollers:
        living = {one.incarnation for one in self._members.members() if not one.state.ended}
        rows = await self._open_minutes.leases(client)
        watermarks = {poller_id: self._open_minutes.watermark(row) for poller_id, row in rows.items()}
        return _Pollers(client, watermarks, frozenset(one for one, row in rows.items() if row.owner not in living))

    async def _most(self) -> _Most:
        capacity = self._members.capacity_per_minute()
        spare = capacity - await self._due_now(ALL_CLIENTS, minute_of(self._clock.wall_ms()))
        return _Most(spare, await self._clients.read_overdue_rate())

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

    async def _detailed(self, pollers: _Pollers, budget: CountBudget, *, most: _Most) -> ClientBacklog:
        now = self._clock.wall_ms()
        present, client_id = minute_of(now), pollers.client.client_id
        first = min(pollers.watermarks.values(), default=Minute(present + 1))
        if first > present:
            return await self._told(pollers, Overdue(), fullest=0, most=most)
        found = await self._open_minutes.find(client_id, pollers.watermarks, present=present, balances=self._balances)
        loads = await self._read_loads(client_id, first, present)
        overdue = Overdue(minutes=sum(map(len, found.minutes.values())), cut=found.read_until < present)
        settling = Minute(present - SETTLING_MINUTES)
        waiting = [Partition(client_id, *one) for one in oldest_of_each(found.minutes, before_them=settling)]
        counted = await self._open_minutes.count(waiting, budget, due_until=now, rows_of_minute=ROWS_OF_MINUTE)
        for partition, unfinished in counted:
            overdue.count(partition.minute, present, unfinished.rows)
        mean = sum(unfinished.rows for _, unfinished in counted) / len(counted) if counted else 0.0
        read_in_part = ((partition, unfinished.seen) for partition, unfinished in counted if unfinished.more)
        unread = ((partition, 0) for partition in waiting[len(counted) :])
        for (_, poller_id, minute), read in chain(read_in_part, unread):
            if minute >= settling and poller_id not in pollers.unowned:
                continue
            share = estimated_rows(loads.get(minute), occupied=found.occupied[minute], mean=mean)
            overdue.estimate(minute, present, share - read)
        # Only the loads tell of minutes whose index was not read.
        for minute, rows in loads.items():
            if minute > found.read_until:
                overdue.estimate(minute, present, rows)
        open_minutes = {minute for own in found.minutes.values() for minute in own}
        fullest = max((loads.get(minute, 0) for minute in open_minutes), default=0)
        return await self._told(pollers, overdue, fullest=fullest, most=most)

    async def _told(self, pollers: _Pollers, overdue: Overdue, *, fullest: int, most: _Most) -> ClientBacklog:
        client = pollers.client
        present = minute_of(self._clock.wall_ms())
        behind = pollers.behind(present)
        guaranteed = GUARANTEED_CALLS_PER_MINUTE * client.poller_quota
        paused = False
        if overdue.rows:
            paused = any(one.paused_at for one in await self._destinations.list_destinations(client.client_id))
        unowned = any(one in pollers.unowned for one in behind)
        overdue_rate = None if client.built_in else rate_in_force(client.settings.overdue_per_second, most.overdue)
        per_minute = 0.0
        if not client.calls_held and not pollers.unowned:
            per_minute = min(guaranteed - await self._due_now(client.client_id, present), most.per_minute)
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
                overdue_per_second=overdue_rate,
            ),
            overdue_per_second=overdue_rate,
            late_policy=client.settings.late_policy,
            at_most_once=client.settings.in_doubt == "drop",
            drain_seconds=seconds_to_drain(overdue.rows, per_minute, overdue_per_second=overdue_rate),
        )


def rank(one: ClientBacklog) -> tuple[int, ClientId]:
    """Orders clients, the worst first."""
    return -one.overdue.rows, one.client_id
