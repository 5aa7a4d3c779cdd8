"""How many crons clients have, counted no more often than `max_crons` needs.

A count reads the ids and states of all the client's crons, which a PUT can't pay for each time. So a count gives out
credit for a quarter of what is left, for a minute; when it is used up, crons are counted again. Near the maximum that
is at each PUT, except that a count that found no room left stands for five seconds.

Several API processes count for themselves: together they may go beyond the maximum by about one cron each.
"""

import math
from dataclasses import dataclass

from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.domain.ports import CronStore
from scheduler_service.runtime.clock import Clock

PAGE = 1_000
CREDIT_SECONDS = 60.0
FULL_SECONDS = 5.0
REMEMBERED = 10_000


@dataclass(slots=True)
class _Credit:
    left: int
    until: float


class CronCounts:
    """One process's judge of how many crons its clients have."""

    def __init__(self, *, crons: CronStore, clock: Clock) -> None:
        self._crons = crons
        self._clock = clock
        self._credits: dict[ClientId, _Credit] = {}

    async def take(self, client: Client) -> None:
        """Room for one cron more. Raises Conflict (too-many-crons), StoreUnavailable."""
        now, most = self._clock.monotonic(), client.settings.max_crons
        credit = self._credits.get(client.client_id)
        if credit is None or now >= credit.until:
            room = most - await self._count(client.client_id, most)
            seconds = CREDIT_SECONDS if room > 0 else FULL_SECONDS
            credit = _Credit(math.ceil(room / 4), self._clock.monotonic() + seconds)
            if len(self._credits) >= REMEMBERED:
                self._credits.clear()
            self._credits[client.client_id] = credit
        if credit.left <= 0:
            raise Conflict("too-many-crons", f"this client has {most} crons, and may have no more")
        credit.left -= 1
        if credit.left == 0:
            del self._credits[client.client_id]

    def forget(self, client_id: ClientId) -> None:
        """A cron of this client was deleted: what was counted before may be too much."""
        self._credits.pop(client_id, None)

    async def _count(self, client_id: ClientId, most: int) -> int:
        """Up to `most` crons that are not deleted."""
        count, after = 0, CronId("")
        while count < most:
            marks = await self._crons.read_marks(client_id, after=after, limit=PAGE)
            count += sum(mark.state is not CronState.DELETED for mark in marks)
            if len(marks) < PAGE:
                break
            after = marks[-1].cron_id
        return min(count, most)
