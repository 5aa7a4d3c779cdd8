"""Looks at schedules at their success deadlines, and tells the client's feed of those that have missed them.

A deadline's row is called like any other of `$events`, so a node that dies leaves it to the next owner, and nodes that
were all away look as soon as one is back. Neither a suspension nor a pause of the client, or of its destination, holds
it. It reads what the row says then, under the schedule's id; nothing of it rests on what a node remembers.
"""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, TypeAlias

from scheduler_service.domain.clients import Client, ClientState
from scheduler_service.domain.destinations import read_named_url
from scheduler_service.domain.events import Event
from scheduler_service.domain.ids import ClientId, PollerId
from scheduler_service.domain.notices import DeadlineContent
from scheduler_service.domain.ports import ClientStore, DestinationStore
from scheduler_service.domain.schedules import Row
from scheduler_service.domain.success_deadlines import Standing, deadline_of, met, overdue_event
from scheduler_service.runtime.clock import Clock
from scheduler_service.usecases.resolve_schedule import ResolveSchedule
from scheduler_service.usecases.shared_looks import SharedLooks

LOOK_AGAIN_MS: Final = 30_000
"""When a schedule that is not there is looked for again: its row is placed after that of its deadline."""
SAME_SECONDS: Final = 0.5
"""How long what is read of a client, or of a destination, holds for further looks."""
Append: TypeAlias = Callable[[PollerId, ClientId, Event], Awaitable[None]]
"""Appends an event to a client's feed, in the track of this poller of `$events`. Raises StoreUnavailable: repeat it."""


class Looked(StrEnum):
    """What a look has found. The words are stored as reasons of the deadlines' rows."""

    TOLD = "overdue"
    MET = "met"
    """Delivered in time, or cancelled."""
    MOVED = "deadline-moved"
    """The schedule has another deadline by now, which has a row of its own, or none."""
    NO_FEED = "no-feed"
    """The client is deleted, or has switched its feed off."""
    NO_SCHEDULE = "no-schedule"
    """Its create was never completed."""
    AGAIN = "schedule-unknown"
    """There is no such schedule yet: look again."""


class SuccessDeadlines:
    """Looks of one node."""

    def __init__(
        self,
        *,
        resolve: ResolveSchedule,
        clients: ClientStore,
        destinations: DestinationStore,
        append: Append,
        clock: Clock,
    ) -> None:
        self._resolve = resolve
        self._clients = clients
        self._destinations = destinations
        self._append = append
        self._clock = clock
        self._same = SharedLooks(clock)
        """Of many schedules of a client that are overdue at once, the client and its destinations are read once."""

    async def look(self, poller_id: PollerId, deadline: DeadlineContent, *, again: bool) -> Looked:
        """Look at the schedule, and tell if it is overdue; returns when the event is stored. `again`: an earlier look
        has not found it, as is stored with the deadline's row. Raises StoreUnavailable."""
        client_id, schedule_id = deadline.client_id, deadline.schedule_id
        resolved = await self._resolve(client_id, schedule_id)
        if resolved is None:
            return Looked.NO_SCHEDULE if again else Looked.AGAIN
        row = resolved.row
        if deadline_of(row.options, due=row.due) != deadline.by:
            return Looked.MOVED
        if met(row, deadline.by):
            return Looked.MET
        client = await self._same.look(client_id, lambda: self._clients.read_client(client_id), keep=_a_moment)
        if client is None or client.state is ClientState.DELETED or not client.settings.event_feed:
            return Looked.NO_FEED
        standing = Standing(
            in_flight=resolved.in_flight,
            client=_held(client),
            destination_paused=await self._is_paused(client_id, row),
            now=self._clock.wall_ms(),
        )
        await self._append(poller_id, client_id, overdue_event(client_id, row, deadline=deadline.by, standing=standing))
        return Looked.TOLD

    async def _is_paused(self, client_id: ClientId, row: Row) -> bool:
        named = read_named_url(row.url or "")
        if named is None or row.ended:
            return False
        stored = await self._same.look(
            (client_id, named.name),
            lambda: self._destinations.read_destination(client_id, named.name),
            keep=_a_moment,
        )
        return stored is not None and stored.paused_at is not None


def _a_moment(_: object) -> float:
    return SAME_SECONDS


def _held(client: Client) -> str | None:
    """The state in which the client's calls are held."""
    if not client.calls_held:
        return None
    return "suspended" if client.state is ClientState.SUSPENDED else "paused"
