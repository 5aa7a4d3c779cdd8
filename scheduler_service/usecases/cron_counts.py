"""How many crons clients have, counted no more often than `max_crons` needs.

A count reads ids and states of all of the client's crons, including deleted ones, whose rows stay for its retention;
the caller is told how much is read, to charge for it. To save counts, each one grants credit for a quarter of the
remaining room, valid for a minute, and a deletion returns the credit of one cron. When the credit is used up, crons are
counted again; near the maximum that is at every new cron, except that a count that found no room is valid for five
seconds.

A count misses crons that are being created: it waits until those are done, and further creates wait for it.

Deleted crons are bounded as well: all stored crons are at most twice `max_crons`, or `max_crons` and PAGE if that is
more. Otherwise a client that keeps creating and deleting crons would make every count and search more expensive.

Each API process counts for itself, and its credit is the number of crons that it may add, less its deletions. Together
they may exceed the maximum by about one cron each.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from scheduler_service.domain.clients import Client
from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.domain.ports import CronStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.reading_steps import HasRead

PAGE = 1_000
CREDIT_SECONDS = 60.0
FULL_SECONDS = 5.0
REMEMBERED = 10_000


@dataclass(slots=True, eq=False)
class Credit:
    """What one count granted. `headroom`: what was left then, below 0 if there were too many crons. `crons`: how many
    may still be made; `rows`: how many of them under ids that are not stored yet."""

    headroom: int
    crons: int
    rows: int
    until: float


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True, eq=False)
class _Makes:
    """Of one client. `asked`: crons that are being made, or wait for room; `under_way`: crons that are being made."""

    asked: int = 0
    under_way: int = 0
    none: asyncio.Event = field(default_factory=_set_event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class CronCounts:
    """Decides, for one process, whether a client may have another cron."""

    def __init__(self, *, crons: CronStore, clock: Clock) -> None:
        self._crons = crons
        self._clock = clock
        self._credits: dict[ClientId, Credit] = {}
        self._makes: dict[ClientId, _Makes] = {}

    @asynccontextmanager
    async def reserve(self, client: Client, *, again: bool, has_read: HasRead) -> AsyncIterator[None]:
        """Room for one more cron, which is created within this context. `again`: its id was deleted before and is still
        stored. `has_read` hears what was read. Raises Conflict (too-many-crons), StoreUnavailable."""
        makes = self._makes.setdefault(client.client_id, _Makes())
        makes.asked += 1
        try:
            async with makes.turn:
                await self._take(client, makes, again=again, has_read=has_read)
                makes.under_way += 1
                makes.none.clear()
            try:
                yield
            finally:
                makes.under_way -= 1
                if not makes.under_way:
                    makes.none.set()
        finally:
            makes.asked -= 1
            if not makes.asked:
                del self._makes[client.client_id]

    async def _take(self, client: Client, makes: _Makes, *, again: bool, has_read: HasRead) -> None:
        most = client.settings.max_crons
        credit = self._credits.get(client.client_id)
        # Used-up credit is renewed at once only if there was room; otherwise each refused create would cost a count.
        if credit is None or self._clock.monotonic() >= credit.until or credit.crons <= 0 < credit.headroom:
            await makes.none.wait()
            credit = await self._counted(client, has_read)
        if credit.crons <= 0:
            raise Conflict("too-many-crons", f"this client has {most} crons, the most that it may have")
        if not again and credit.rows <= 0:
            raise Conflict(
                "too-many-crons",
                f"with those that were deleted in the last {client.settings.retention_days} days, this client has the "
                f"{_most_rows(most)} crons that are stored; make one under the id of a deleted one, or wait until the "
                "first ones were deleted so long ago",
            )
        credit.crons -= 1
        credit.rows -= not again

    def standing(self, client_id: ClientId) -> Credit | None:
        """To be taken before a cron is read for deletion, and passed to `deleted`."""
        return self._credits.get(client_id)

    def deleted(self, client_id: ClientId, standing: Credit | None) -> None:
        """A cron was deleted. Drops the credit, so that crons are counted again, where a count ran meanwhile and may
        have missed the deletion, or found more crons than allowed."""
        credit = self._credits.get(client_id)
        if credit is None:
            return
        if credit is standing and credit.headroom >= 0:
            credit.crons += 1
        else:
            del self._credits[client_id]

    async def _counted(self, client: Client, has_read: HasRead) -> Credit:
        most = client.settings.max_crons
        live, rows = await self._count(client.client_id, most, has_read)
        headroom, new = most - live, _most_rows(most) - rows
        seconds = CREDIT_SECONDS if min(headroom, new) > 0 else FULL_SECONDS
        if len(self._credits) >= REMEMBERED:
            self._credits.clear()
        credit = Credit(headroom, math.ceil(headroom / 4), new, self._clock.monotonic() + seconds)
        self._credits[client.client_id] = credit
        return credit

    async def _count(self, client_id: ClientId, most: int, has_read: HasRead) -> tuple[int, int]:
        """How many crons are not deleted, and how many are stored; stops at one more than `most`."""
        live, rows, after = 0, 0, CronId("")
        while live <= most:
            marks = await self._crons.read_marks(client_id, after=after, limit=PAGE)
            has_read(len(marks), 0)
            live += sum(mark.state is not CronState.DELETED for mark in marks)
            rows += len(marks)
            if len(marks) < PAGE:
                break
            after = marks[-1].cron_id
        return live, rows


def _most_rows(most: int) -> int:
    return most + max(most, PAGE)
