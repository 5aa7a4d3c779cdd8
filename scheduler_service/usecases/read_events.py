"""A client reads its feed: events of several tracks from a cursor on, as if they were one.

Within a track nothing is passed that may still grow:

    look at the last block of all tracks --it is mine--> read mine
        | it is a later one
        v
    look at the blocks behind mine; the first one of both looks is the next --> read mine to its end, go on to the next

When a block of my epoch is seen, all events of mine are acknowledged, as are all blocks between. A writer of a higher
epoch begins after its poller's lease was taken, and what an earlier owner appended before is acknowledged by then. What
it appends later is passed unread, but none of it is the only copy: its minute was not settled under the lease that it
has lost, so the next owner appends the same again (`poller_cluster`, rule 40).

The second look is needed because a read is no snapshot: it sees what was acknowledged before it began, and any part of
what is written meanwhile, so it may see a block and not the one before. For the same reason a read of events may show a
later one without an earlier one. Seqs have no gaps, so that is noticed, and the next read has all up to that later one.

The first look may be old: a block that was seen is there, and without a later one a reader stays where it is. So
readers that wait share it, and also the answer that nothing follows in the last block. What they read of a block before
they leave it, they read themselves, after the second look.

Nothing here depends on a clock, except where a reader begins, and how often those that wait look.
`tests/models/feed.py` is an exhaustive model of it.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.event_cursors import FeedCursor
from scheduler_service.domain.events import (
    BLOCK_MS,
    EVENTS_FOR_MS,
    FIRST,
    Block,
    Event,
    PlacedEvent,
    Position,
    StoredBlock,
    track_of,
)
from scheduler_service.domain.ids import ClientId, Minute, PollerId, UnixMillis, minute_of, minute_start
from scheduler_service.domain.ports import EventStore
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.concurrently import concurrently
from scheduler_service.usecases.shared_looks import SharedLooks

MAX_TRACKS = 64
"""Pollers that one request reads, at most."""
LEAST_OF_TRACK = 50
"""Events of one track that a request reads at least, if there are as many, however many tracks it reads."""
BUILT_IN = "$"
"""Before the tracks of built-in clients, in their order; behind those come the tracks of pollers."""
SHARED_SECONDS = 0.5
RESTS_AFTER_MS = 2 * BLOCK_MS
"""Events are appended to a block for BLOCK_MS, and later only those of a write that was not answered before."""
RESTING_SECONDS = 10.0
"""How often readers that wait look at a block that is older than that."""
BEGUN_EARLIER_MS = 60_000
"""How much another process's clock may be ahead of this one's where a reader begins at an instant."""
KEPT_MS = 2 * EVENTS_FOR_MS


@dataclass(frozen=True, slots=True)
class FeedRange:
    """The pollers that are read: `first` to `last`. With poller 0 come the tracks of built-in clients."""

    first: PollerId
    last: PollerId

    @property
    def first_track(self) -> str:
        return BUILT_IN if self.first == 0 else track_of(self.first)

    @property
    def last_track(self) -> str:
        return track_of(self.last)

    def covers(self, track: str) -> bool:
        return self.first_track <= track <= self.last_track


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Events in the order of their tracks, otherwise by instant. `more`: there were others when it was read. `reads`:
    how many reads of storage it took."""

    events: Sequence[PlacedEvent]
    cursor: FeedCursor
    more: bool
    reads: int


@dataclass(frozen=True, slots=True)
class _Read:
    events: Sequence[PlacedEvent]
    position: Position


class _Look:
    """One look at a feed. `asked`: the reads of storage that it has made itself."""

    def __init__(self, store: EventStore, shared: SharedLooks | None, clock: Clock, client_id: ClientId) -> None:
        self.asked = 0
        self._store = store
        self._shared = shared
        self._clock = clock
        self._client_id = client_id

    async def newest(self, asked: FeedRange) -> Sequence[StoredBlock]:
        """The last block of each track that has any."""
        if self._shared is None:
            return await self._newest(asked)
        key = self._client_id, asked
        return await self._shared.look(key, lambda: self._newest(asked), keep=lambda _: SHARED_SECONDS)

    async def _newest(self, asked: FeedRange) -> Sequence[StoredBlock]:
        self.asked += 1
        return await self._store.newest_blocks(
            self._client_id, first_track=asked.first_track, last_track=asked.last_track
        )

    async def read(self, last: StoredBlock, position: Position, most: int) -> _Read:
        """Up to `most` events of the track whose last block this is. See the module."""
        track, found = last.block.track, list[PlacedEvent]()
        while True:
            mine = position.of(track)
            following = min((last.block, *await self._later_ones(mine))) if last.block > mine else None
            wanted = most - len(found)
            if position == FIRST:
                events: Sequence[tuple[int, Event]] = ()
            elif following is None:
                events = await self._last_events(last, mine, position.seq, wanted)
            else:
                events = await self._events(mine, position.seq, wanted)
            for seq, event in events:
                position = Position(mine.epoch, mine.number, seq)
                found.append(PlacedEvent(track, position, event))
            if len(events) == wanted or following is None:
                return _Read(found, position)
            position = Position(following.epoch, following.number, -1)

    async def _later_ones(self, mine: Block) -> Sequence[Block]:
        self.asked += 1
        blocks = await self._store.read_blocks(self._client_id, mine.track, since=mine)
        return [stored.block for stored in blocks if stored.block > mine]

    async def _last_events(self, last: StoredBlock, mine: Block, after: int, limit: int) -> Sequence[tuple[int, Event]]:
        """As `_events`, of a block that is not left now. So it may be answered that there were none a moment ago."""
        if self._shared is None:
            return await self._events(mine, after, limit)
        rests = self._clock.wall_ms() - last.begun_at > RESTS_AFTER_MS
        seconds = RESTING_SECONDS if rests else SHARED_SECONDS
        return await self._shared.look(
            (self._client_id, mine, after),
            lambda: self._events(mine, after, limit),
            keep=lambda events: 0.0 if events else seconds,
        )

    async def _events(self, block: Block, after: int, limit: int) -> Sequence[tuple[int, Event]]:
        """The first events behind seq `after`, without gaps but for those that have expired."""
        self.asked += 1
        events = await self._store.read_events(self._client_id, block, after=after, limit=limit)
        if not events or events[-1][0] == after + len(events):
            return events
        surely = events[-1][0]
        self.asked += 1
        events = await self._store.read_events(self._client_id, block, after=after, limit=limit)
        whole: list[tuple[int, Event]] = []
        for seq, event in events:
            if seq > surely and (not whole or seq != whole[-1][0] + 1):
                break
            whole.append((seq, event))
        return whole


class ReadEvents:
    """Reads feeds of clients that the caller has looked up. Every method may raise StoreUnavailable."""

    def __init__(self, *, store: EventStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._shared = SharedLooks(clock)

    async def now(self, client_id: ClientId, asked: FeedRange) -> FeedCursor:
        """Behind the events that there are."""
        newest = await self._store.newest_blocks(client_id, first_track=asked.first_track, last_track=asked.last_track)
        blocks = [stored.block for stored in newest]
        seqs = await concurrently(lambda block: self._store.last_seq(client_id, block), blocks)
        return self._cursor(
            {block.track: Position(block.epoch, block.number, seq) for block, seq in zip(blocks, seqs, strict=True)}
        )

    def earliest(self) -> FeedCursor:
        """Before all events that are kept."""
        return self._cursor({})

    async def since(self, client_id: ClientId, asked: FeedRange, instant: UnixMillis) -> FeedCursor:
        """Before all events that were appended at or after an instant; some earlier ones may come too."""
        positions: dict[str, Position] = {}
        passed: set[str] = set()
        stored = await self._store.list_blocks(client_id, first_track=asked.first_track, last_track=asked.last_track)
        for block, begun_at in stored:
            if begun_at > instant - BEGUN_EARLIER_MS:
                passed.add(block.track)
            elif block.track not in passed:
                positions[block.track] = Position(block.epoch, block.number, -1)
        return self._cursor(positions)

    async def page(
        self, client_id: ClientId, asked: FeedRange, cursor: FeedCursor, *, limit: int, again: bool = False
    ) -> FeedPage:
        """At most `limit` events behind the cursor, and the cursor behind them. `again`: for a reader that waits and
        has looked before; it shares reads with other such readers, and may see an event SHARED_SECONDS late, or
        RESTING_SECONDS in a track where none is expected. Raises Conflict for a cursor that is older than events are
        kept."""
        if self._clock.wall_ms() - minute_start(cursor.made_in) > KEPT_MS:
            raise Conflict(
                "cursor-expired", "events behind this cursor are not kept any more: begin with after=earliest"
            )
        look = _Look(self._store, self._shared if again else None, self._clock, client_id)
        newest = await look.newest(asked)
        most = max(limit // max(len(newest), 1), min(LEAST_OF_TRACK, limit))
        reads = await concurrently(
            lambda last: look.read(last, cursor.positions.get(last.block.track, FIRST), most), newest
        )
        found = {last.block.track: read for last, read in zip(newest, reads, strict=True)}
        # Of the tracks that were read alone: a cursor that also had others would be renewed for what nobody read.
        positions = {track: at for track, at in cursor.positions.items() if asked.covers(track)}
        return self._merged(cursor.made_in, positions, found, limit=limit, most=most, looked=look.asked)

    def _merged(
        self,
        made_in: Minute,
        positions: dict[str, Position],
        reads: Mapping[str, _Read],
        *,
        limit: int,
        most: int,
        looked: int,
    ) -> FeedPage:
        """The events of all tracks by instant, each track in its order, cut to the limit."""
        ahead = [(read.events[0].event.at, track, 0) for track, read in reads.items() if read.events]
        heapq.heapify(ahead)
        taken: list[PlacedEvent] = []
        whole = {track for track, read in reads.items() if not read.events}
        while ahead and len(taken) < limit:
            _, track, at = heapq.heappop(ahead)
            events = reads[track].events
            taken.append(events[at])
            positions[track] = events[at].position
            if at + 1 < len(events):
                heapq.heappush(ahead, (events[at + 1].event.at, track, at + 1))
            else:
                whole.add(track)
        for track in whole:
            if reads[track].position != FIRST:
                positions[track] = reads[track].position
        more = len(whole) < len(reads) or any(len(read.events) == most for read in reads.values())
        behind = FeedCursor(made_in, positions) if more else self._cursor(positions)
        return FeedPage(taken, behind, more, looked)

    def _cursor(self, positions: Mapping[str, Position]) -> FeedCursor:
        return FeedCursor(Minute(minute_of(self._clock.wall_ms())), positions)
