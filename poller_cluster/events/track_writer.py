"""The writer of one track under one epoch: appends events to a client's feed, one batch at a time.

    idle --append--> [begin block] --> batch under way --acknowledged--> next batch, or idle
                          ^                |  ^ |
                          '--block full----'  '-' no answer, or a fault: the same batch again, under the same seqs

So the seqs of a block become visible in their order, and a block only after all events of the one before are
acknowledged. That is why readers may trust what they have seen.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from uuid import UUID

from membership.errors import StoreUnavailable
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.events import (
    BATCH_BYTES,
    BATCH_EVENTS,
    BLOCK_EVENTS,
    BLOCK_MS,
    Block,
    Event,
    Position,
)
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.ports import EventStore
from scheduler_service.runtime.backoff import Backoff

REMEMBERED_EVENTS = 1_000
"""Appended events of which the id is kept for a while, at most, so that a repetition soon after costs nothing."""


class TrackOver(StoreUnavailable):
    """The poller is not held any more under the epoch of this writer: its next owner appends what is missing."""


class TrackWriter:
    """See the module. `over()`: whether the poller's lease was lost or ends; then nothing more is written. At most one
    writer may exist for a client, track and epoch, ever: a second one would begin at the first seq again.
    `on_appended` is told of each batch that was acknowledged, by its number of events."""

    def __init__(
        self,
        *,
        store: EventStore,
        runtime: NodeRuntime,
        client_id: ClientId,
        track: str,
        epoch: int,
        over: Callable[[], bool],
        on_appended: Callable[[int], None] = lambda events: None,
    ) -> None:
        self.client_id, self.track, self.epoch = client_id, track, epoch
        self._store = store
        self._runtime = runtime
        self._over = over
        self._on_appended = on_appended
        self._waiting: deque[tuple[Event, asyncio.Future[Position]]] = deque()
        self._pending: dict[UUID, asyncio.Future[Position]] = {}
        self._appended: dict[UUID, Position] = {}
        self._appended_before: dict[UUID, Position] = {}
        self._writing = False
        self._block, self._seq, self._block_ends = -1, 0, 0.0

    async def append(self, event: Event) -> Position:
        """Append an event, and answer where it is once it is stored: readers see it from then on. If one with its id
        was appended a moment ago, that one's place. Raises TrackOver: it may be stored or not, and must be appended by
        the poller's next owner."""
        if self._over():
            raise TrackOver(f"track {self.track} of {self.client_id}: epoch {self.epoch} is over")
        if (known := self._appended.get(event.event_id) or self._appended_before.get(event.event_id)) is not None:
            return known
        placed = self._pending.get(event.event_id)
        if placed is None:
            placed = self._pending[event.event_id] = asyncio.get_running_loop().create_future()
            self._waiting.append((event, placed))
            if not self._writing:
                self._writing = True
                self._runtime.spawn(self._write_all(), name=f"events of {self.client_id}, track {self.track}")
        return await asyncio.shield(placed)

    def forget(self) -> bool:
        """Forget the appended events that were remembered at the last call already. True: there are others."""
        self._appended_before, self._appended = self._appended, {}
        return bool(self._appended_before)

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                await self._write_next()
        except TrackOver as error:
            self._give_up(error)
        except asyncio.CancelledError:
            self._give_up(TrackOver("the node stops"))
            raise
        finally:
            self._writing = False

    def _give_up(self, error: TrackOver) -> None:
        pending, self._pending = self._pending, {}
        self._waiting.clear()
        for placed in pending.values():
            if not placed.done():
                placed.set_exception(error)
                # Its waiter may be gone.
                placed.exception()

    async def _write_next(self) -> None:
        if self._block < 0 or self._seq >= BLOCK_EVENTS or self._runtime.clock.monotonic() >= self._block_ends:
            await self._begin_block(self._block + 1)
        events = self._batch()
        block, first = Block(self.track, self.epoch, self._block), self._seq
        await self._until_answered(
            lambda: self._store.append(self.client_id, block, first_seq=first, events=[event for event, _ in events])
        )
        self._seq += len(events)
        for seq, (event, placed) in enumerate(events, first):
            position = self._appended[event.event_id] = Position(self.epoch, block.number, seq)
            del self._pending[event.event_id]
            if not placed.done():
                placed.set_result(position)
        if len(self._appended) >= REMEMBERED_EVENTS // 2 - BATCH_EVENTS:
            self.forget()
        self._on_appended(len(events))

    async def _begin_block(self, number: int) -> None:
        block = Block(self.track, self.epoch, number)
        begun_at = UnixMillis(self._runtime.clock.wall_ms())
        await self._until_answered(lambda: self._store.begin_block(self.client_id, block, begun_at=begun_at))
        self._block, self._seq = number, 0
        self._block_ends = self._runtime.clock.monotonic() + BLOCK_MS / 1000.0

    def _batch(self) -> list[tuple[Event, asyncio.Future[Position]]]:
        """Take what the next write appends: at least one event."""
        taken: list[tuple[Event, asyncio.Future[Position]]] = []
        size = 0
        while self._waiting and len(taken) < min(BATCH_EVENTS, BLOCK_EVENTS - self._seq):
            size += self._waiting[0][0].size
            if taken and size > BATCH_BYTES:
                break
            taken.append(self._waiting.popleft())
        return taken

    async def _until_answered(self, write: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff(clock=self._runtime.clock, randomness=self._runtime.randomness)
        while True:
            if self._over():
                raise TrackOver(f"track {self.track} of {self.client_id}: epoch {self.epoch} is over")
            try:
                await write()
            except StoreUnavailable:
                pass
            except Exception as error:
                # It may be stored all the same, so nothing else may take its seqs.
                self._runtime.on_fault(f"events of {self.client_id}, track {self.track}", error)
            else:
                return
            await backoff.wait()
