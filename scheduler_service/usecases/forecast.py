"""Forecast: what each minute ahead is to call, of a client or of all, against guarantees and capacity.

    counted loads, one read a day ---+
    rules of active crons, walked ---+--> minutes, guaranteed, what the live nodes can send

No row of a schedule is read. Rules are walked for `WALK_SECONDS`, those that most crons share first, and each up to
`FIRES_WALKED` of its fires; the crons of rules beyond that are counted as left out. Other requests have a turn after
each part of a rule.

For all clients the loads are read as for one, because each process also counts them. Crons are read of each client, so
what was read is kept for ten times as long as that took, at least ten seconds.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from scheduler_service.domain.clients import GUARANTEED_CALLS_PER_MINUTE, Client, ClientState
from scheduler_service.domain.crons.row import CronRule
from scheduler_service.domain.forecast import CronGroup, Forecast, TooManyFires, cron_groups, forecast_minutes
from scheduler_service.domain.ids import ClientId, CronId, Minute
from scheduler_service.domain.minute_loads import ALL_CLIENTS, loads_of
from scheduler_service.domain.ports import ClientStore, CronStore, MinuteLoadStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.members import WatchMembers
from scheduler_service.usecases.shared_looks import KeptLook

WALK_SECONDS: Final = 0.5
RULES_PER_READ: Final = 1_000
CRONS_KEPT_SECONDS: Final = 10.0


class ShowForecast:
    """Concurrent callers for all clients share the reads of crons."""

    def __init__(
        self,
        *,
        members: WatchMembers,
        clients: ClientStore,
        crons: CronStore,
        loads: MinuteLoadStore,
        clock: Clock,
    ) -> None:
        self._members = members
        self._clients = clients
        self._crons = crons
        self._loads = loads
        self._clock = clock
        self._all = KeptLook(self._read_all, least_seconds=CRONS_KEPT_SECONDS, clock=clock)

    async def of_client(self, client: Client, *, first: Minute, last: Minute) -> Forecast:
        """Both ends included. Raises StoreUnavailable. A client that may not call has a forecast all the same."""
        rules = await self._rules(client.client_id)
        groups = cron_groups(((client.client_id, rule) for rule in rules), now=self._clock.wall_ms())
        guaranteed = GUARANTEED_CALLS_PER_MINUTE * client.poller_quota
        return await self._forecast(client.client_id, groups, guaranteed, first, last)

    async def of_all(self, *, first: Minute, last: Minute) -> Forecast:
        """The same over all clients that are not deleted, without built-in ones."""
        groups, guaranteed = await self._all()
        return await self._forecast(ALL_CLIENTS, groups, guaranteed, first, last)

    async def _forecast(
        self, name: ClientId, groups: Sequence[CronGroup], guaranteed: int, first: Minute, last: Minute
    ) -> Forecast:
        await self._members.known()
        rows = loads_of(await self._loads.read(name, first=first, last=last), first=first, last=last)
        fires, left_out = await self._fires(groups, first, last)
        return Forecast(
            minutes=forecast_minutes(rows, fires),
            guaranteed=guaranteed,
            capacity=self._members.capacity_per_minute(),
            crons_left_out=left_out,
        )

    async def _fires(self, groups: Sequence[CronGroup], first: Minute, last: Minute) -> tuple[Counter[Minute], int]:
        """The fires of each minute, and how many crons were left out."""
        found: Counter[Minute] = Counter()
        walked, left_out = 0.0, 0
        for position, group in enumerate(groups):
            if walked >= WALK_SECONDS:
                return found, left_out + sum(len(left.through) for left in groups[position:])
            own: Counter[Minute] = Counter()
            parts = group.fires(first, last)
            try:
                while True:
                    began = self._clock.monotonic()
                    own.update(next(parts))
                    walked += self._clock.monotonic() - began
                    await self._clock.sleep(0)
            except StopIteration:
                found.update(own)
            except TooManyFires:
                left_out += len(group.through)
        return found, left_out

    async def _read_all(self) -> tuple[Sequence[CronGroup], int]:
        """The groups of all clients' crons, and what those clients' quotas guarantee a minute."""
        clients = [
            one
            for one in await self._clients.list_clients()
            if one.state is not ClientState.DELETED and not one.client_id.startswith("$")
        ]
        names = [client.client_id for client in clients]
        rules = await concurrently(self._rules, names)
        pairs = ((name, rule) for name, own in zip(names, rules, strict=True) for rule in own)
        groups = cron_groups(pairs, now=self._clock.wall_ms())
        return groups, GUARANTEED_CALLS_PER_MINUTE * sum(client.poller_quota for client in clients)

    async def _rules(self, client_id: ClientId) -> list[CronRule]:
        rules: list[CronRule] = []
        after: CronId | None = None
        while True:
            page = await self._crons.read_rules(client_id, after=after, limit=RULES_PER_READ)
            rules += page
            if len(page) < RULES_PER_READ:
                return rules
            after = page[-1].cron_id
