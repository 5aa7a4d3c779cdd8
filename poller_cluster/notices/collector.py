"""Collects events that subscriptions want, and places the rows that send them.

first event of a batch --1 s, or full--> closed --row acknowledged--> all its events are placed
                                            ^ |
                                            '-' no answer: the same row again
"""

import asyncio

from membership.errors import StoreUnavailable
from membership.signal import Signal
from poller_cluster.clients import ServedClients
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.events import PlacedEvent
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis
from scheduler_service.domain.notices import (
    EVENTS_CLIENT,
    NOTICE_BYTES,
    NOTICE_EVENTS,
    NOTICE_SPAN,
    NOTICE_WAIT_SECONDS,
    NoticeContent,
    notice_row,
    wants,
)
from scheduler_service.runtime.backoff import Backoff
from scheduler_service.usecases.schedule_writer import ScheduleWriter

_Source = tuple[ClientId, str, str, int, int]
"""A client, its subscription, and a block: events of it that follow each other."""


class _Batch:
    """Events that one row will send."""

    __slots__ = ("bytes", "events", "first", "full", "last", "placed")

    def __init__(self, seq: int, full: Signal) -> None:
        self.first = self.last = seq
        self.events = self.bytes = 0
        self.full = full
        self.placed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def takes(self, seq: int, size: int) -> bool:
        first, last = min(self.first, seq), max(self.last, seq)
        if self.events >= NOTICE_EVENTS or last - first >= NOTICE_SPAN:
            return False
        return not self.events or self.bytes + size <= NOTICE_BYTES

    def add(self, seq: int, size: int) -> None:
        self.first, self.last = min(self.first, seq), max(self.last, seq)
        self.events += 1
        self.bytes += size


class NoticeCollector:
    """The collector of one node, for all tracks that it writes."""

    def __init__(self, *, clients: ServedClients, writer: ScheduleWriter, runtime: NodeRuntime) -> None:
        self.placed = 0
        """Rows placed so far."""
        self._clients = clients
        self._writer = writer
        self._runtime = runtime
        self._open: dict[_Source, _Batch] = {}

    async def place(self, client_id: ClientId, placed: PlacedEvent) -> None:
        """Return when every row that must send this event is acknowledged. Raises StoreUnavailable: the caller
        repeats."""
        client = self._clients.get(client_id)
        if client is None or not client.subscriptions:
            return
        track, position, event = placed
        waiting = [
            self._add((client_id, name, track, position.epoch, position.block), position.seq, event.size).placed
            for name, subscription in client.subscriptions.items()
            if wants(subscription, event)
        ]
        for row in waiting:
            await asyncio.shield(row)

    def _add(self, source: _Source, seq: int, size: int) -> _Batch:
        batch = self._open.get(source)
        if batch is None or not batch.takes(seq, size):
            if batch is not None:
                batch.full.set()
            batch = self._open[source] = _Batch(seq, Signal(self._runtime.clock))
            self._runtime.spawn(self._place(source, batch), name=f"notice to {source[1]} of {source[0]}")
        batch.add(seq, size)
        if batch.events >= NOTICE_EVENTS:
            batch.full.set()
        return batch

    async def _place(self, source: _Source, batch: _Batch) -> None:
        try:
            await batch.full.wait(NOTICE_WAIT_SECONDS)
            if self._open.get(source) is batch:
                del self._open[source]
            await self._write(source, batch)
        except BaseException as error:
            if not batch.placed.done():
                batch.placed.set_exception(StoreUnavailable(f"a notice was not placed: {error}"))
                # Its waiters may be gone.
                batch.placed.exception()
            raise
        batch.placed.set_result(None)

    async def _write(self, source: _Source, batch: _Batch) -> None:
        client_id, subscription, track, epoch, block = source
        content = NoticeContent(
            client_id=client_id,
            subscription=subscription,
            track=track,
            epoch=epoch,
            block=block,
            first=batch.first,
            last=batch.last,
            letter_poller=PollerId(int(track)) if track.isdecimal() else PollerId(0),
        )
        due = UnixMillis(self._runtime.clock.wall_ms())
        backoff = Backoff(clock=self._runtime.clock, randomness=self._runtime.randomness)
        while True:
            # No program of this version runs without `$events`, but a node may not have read it yet.
            if (events := self._clients.get(EVENTS_CLIENT)) is not None:
                try:
                    await self._writer(notice_row(content, due=due, quota=events.quota))
                except StoreUnavailable:
                    pass
                else:
                    self.placed += 1
                    return
            await backoff.wait()
