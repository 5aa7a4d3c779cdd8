"""Tells clients of what is not the end of a schedule: each event is placed as a row of `$events`, due at once, whose
"call" appends it to the client's feed (`notices.calls`).

Only for clients that have a feed. What a node merely noticed, such as an open breaker, is told once: a node that dies
before its row is acknowledged, or that finds storage away for `GIVE_UP_SECONDS`, does not tell it. Ids derive from what
happened, so that nodes that notice the same tell it as one event.
"""

from collections import OrderedDict
from typing import Any, Final

import msgspec

from membership.errors import MinutehandError, StoreUnavailable
from poller_cluster.clients import ServedClients
from poller_cluster.dispatch.job import Job
from poller_cluster.node_runtime import NodeRuntime
from poller_cluster.notices.calls import is_notice
from scheduler_service.domain.events import Event, EventType, derived_event_id
from scheduler_service.domain.ids import MINUTE_MS, ClientId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.notices import EVENTS_CLIENT, event_row
from scheduler_service.domain.schedules import Definition
from scheduler_service.runtime.backoff import Backoff
from scheduler_service.usecases.schedule_writer import ScheduleWriter

GIVE_UP_SECONDS: Final = 60.0
REMEMBERED: Final = 10_000
"""Events that were told lately, so that they are not told again."""
UNDER_WAY: Final = 1_000
"""Events that wait for storage; others that happen meanwhile are not told."""


class NodeEvents:
    """What one node tells."""

    def __init__(self, *, clients: ServedClients, writer: ScheduleWriter, runtime: NodeRuntime) -> None:
        self._clients = clients
        self._writer = writer
        self._runtime = runtime
        self._told: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._open: set[tuple[ClientId, str]] = set()
        """Destinations that were told of as open."""
        self._under_way = 0

    def breaker_changed(self, job: Job, destination: str, opened: bool) -> None:
        """The end of this job has opened or closed the breaker of a destination on this node. Told at most once a
        minute for each of both. What notices alone have opened is not told, or a notice would tell of notices."""
        client_id = job.owner.client_id
        if opened and is_notice(job):
            return
        if not opened and (client_id, destination) not in self._open:
            return
        if opened:
            self._open.add((client_id, destination))
        else:
            self._open.discard((client_id, destination))
        kind = EventType.DESTINATION_OPENED if opened else EventType.DESTINATION_CLOSED
        self._tell_in_minute(client_id, kind, destination, data={"destination": destination})

    def quota_exceeded(self, client_id: ClientId) -> None:
        """A poller of the client has more calls in a minute than it is guaranteed. Told at most once a minute."""
        self._tell_in_minute(client_id, EventType.QUOTA_EXCEEDED, data={})

    async def cron_missed(self, fire: Definition) -> None:
        """This fire of a cron was recorded as skipped, because it was older than the cron's catch-up. Returns when the
        row is placed. Raises StoreUnavailable."""
        client_id = fire.client_id
        if not self._clients.has_feed(client_id):
            return
        if (events := self._clients.get(EVENTS_CLIENT)) is None:
            raise StoreUnavailable("the built-in client of notices has not been read yet")
        told = {"cron_id": fire.cron_id, "due": format_instant(fire.nominal_due or fire.due)}
        if fire.label is not None:
            told["label"] = fire.label
        event = Event(
            event_id=derived_event_id(client_id, EventType.CRON_MISSED, fire.schedule_id),
            type=EventType.CRON_MISSED,
            at=UnixMillis(self._runtime.clock.wall_ms()),
            schedule_id=fire.schedule_id,
            data=msgspec.json.encode(told).decode(),
        )
        await self._writer(event_row(client_id, event, quota=events.quota))

    def _tell_in_minute(self, client_id: ClientId, kind: EventType, *told: str, data: dict[str, Any]) -> None:
        if not self._clients.has_feed(client_id):
            return
        now = self._runtime.clock.wall_ms()
        minute = now // MINUTE_MS
        key = (client_id, kind, *told, minute)
        if key in self._told or self._under_way >= UNDER_WAY:
            return
        self._told[key] = None
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        event_id = derived_event_id(client_id, kind, *told, minute)
        event = Event(event_id=event_id, type=kind, at=UnixMillis(now), data=msgspec.json.encode(data).decode())
        self._under_way += 1
        self._runtime.spawn(self._place(client_id, event), name=f"{kind} of {client_id}")

    async def _place(self, client_id: ClientId, event: Event) -> None:
        clock = self._runtime.clock
        backoff = Backoff(clock=clock, randomness=self._runtime.randomness)
        until = clock.monotonic() + GIVE_UP_SECONDS
        try:
            while clock.monotonic() < until:
                events = self._clients.get(EVENTS_CLIENT)
                if events is not None:
                    try:
                        await self._writer(event_row(client_id, event, quota=events.quota))
                    except MinutehandError:
                        pass
                    else:
                        return
                await backoff.wait()
        finally:
            self._under_way -= 1
