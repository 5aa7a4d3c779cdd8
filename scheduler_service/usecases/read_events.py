"""A client reads its feed: events of several tracks from a cursor on, as if they were one.

Within a track nothing is passed that may still grow:

    look at the blocks behind mine --none--> read mine
        | some
        v
    look again; the first one of both looks is the next --> read mine to its end, go on to the next one

When a block of my epoch is seen, all events of mine are acknowledged, as are all blocks between. A writer of a higher
epoch begins after its poller's lease was taken, and what an earlier owner appended before is acknowledged by then. What
it appends later is passed unread, but none of it is the only copy: its minute was not settled under the lease that it
has lost, so the next owner appends the same again (`poller_cluster`, rule 40).

The second look is needed because a read is no snapshot: it sees what was acknowledged before it began, and any part of
what is written meanwhile, so it may see a block and not the one before. For the same reason a read of events may show a
later one without an earlier one. Seqs have no gaps, so that is noticed, and the next read has all up to that later one.

Nothing here depends on a clock, except where a reader begins. `tests/models/feed.py` is an exhaustive model of it.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler_service.domain.errors import Conflict
from scheduler_service.domain.event_cursors import FeedCursor
from scheduler_service.domain.events import (
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

MAX_TRACKS = 64
"""Pollers that one request reads, at most."""
LEAST_OF_TRACK = 50
"""Events of one track that a request reads at least, if there are as many, however many tracks it reads."""
BUILT_IN = ("$", "$~")
"""Before and behind the tracks of built-in clients, in their order."""
BEGUN_EARLIER_MS = 60_000
"""How much another process's clock may be ahead of this one's where a reader begins at an instant."""
KEPT_MS = 2 * EVENTS_FOR_MS


@dataclass(frozen=True, slots=True)
class FeedRange:
    """The pollers that are read: `first` to `last`. With poller 0 come the tracks of built-in clients."""

    first: PollerId
    last: PollerId


@dataclass(frozen=True, slots=True)
class FeedPage:
    """Events in the order of their tracks, otherwise by instant. `more`: there were others when it was read."""

    events: Sequence[PlacedEvent]
    cursor: FeedCursor
    more: bool


@dataclass(frozen=True, slots=True)
class _Read:
    events: Sequence[PlacedEvent]
    position: Position


class ReadEvents:
    """Reads feeds of clients that the caller has looked up. Every method may raise StoreUnavailable."""

    def __init__(self, *, store: EventStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def now(self, client_id: ClientId, asked: FeedRange) -> FeedCursor:
        """Behind the events that there are."""
        last: dict[str, Block] = {stored.block.track: stored.block for stored in await self._blocks(client_id, asked)}
        seqs = await concurrently(lambda block: self._store.last_seq(client_id, block), last.values())
        return self._cursor(
            {
                track: Position(block.epoch, block.number, seq)
                for (track, block), seq in zip(last.items(), seqs, strict=True)
            }
        )

    def earliest(self) -> FeedCursor:
        """Before all events that are kept."""
        return self._cursor({})

    async def since(self, client_id: ClientId, asked: FeedRange, instant: UnixMillis) -> FeedCursor:
        """Before all events that were appended at or after an instant; some earlier ones may come too."""
        positions: dict[str, Position] = {}
        passed: set[str] = set()
        for block, begun_at in await self._blocks(client_id, asked):
            if begun_at > instant - BEGUN_EARLIER_MS:
                passed.add(block.track)
            elif block.track not in passed:
                positions[block.track] = Position(block.epoch, block.number, -1)
        return self._cursor(positions)

    async def page(self, client_id: ClientId, asked: FeedRange, cursor: FeedCursor, *, limit: int) -> FeedPage:
        """At most `limit` events behind the cursor, and the cursor behind them. Raises Conflict for a cursor that is
        older than events are kept."""
        if self._clock.wall_ms() - minute_start(cursor.made_in) > KEPT_MS:
            raise Conflict(
                "cursor-expired", "events behind this cursor are not kept any more: begin with after=earliest"
            )
        tracks = [track_of(PollerId(number)) for number in range(asked.first, asked.last + 1)]
        if asked.first == 0:
            first, last = BUILT_IN
            found = await self._store.list_blocks(client_id, first_track=first, last_track=last)
            tracks += dict.fromkeys(stored.block.track for stored in found)
        most = max(limit // len(tracks), min(LEAST_OF_TRACK, limit))
        reads = await concurrently(
            lambda track: self._read(client_id, track, cursor.positions.get(track, FIRST), most), tracks
        )
        return self._merged(cursor, dict(zip(tracks, reads, strict=True)), limit=limit, most=most)

    async def _blocks(self, client_id: ClientId, asked: FeedRange) -> Sequence[StoredBlock]:
        first, last = track_of(asked.first), track_of(asked.last)
        found = list(await self._store.list_blocks(client_id, first_track=first, last_track=last))
        if asked.first == 0:
            found += await self._store.list_blocks(client_id, first_track=BUILT_IN[0], last_track=BUILT_IN[1])
        return found

    async def _read(self, client_id: ClientId, track: str, position: Position, most: int) -> _Read:
        """Up to `most` events of one track. See the module."""
        found: list[PlacedEvent] = []
        while True:
            mine = position.of(track)
            following = await self._following(client_id, mine)
            wanted = most - len(found)
            events = await self._events(client_id, mine, position.seq, wanted) if position != FIRST else ()
            for seq, event in events:
                position = Position(mine.epoch, mine.number, seq)
                found.append(PlacedEvent(track, position, event))
            if len(events) == wanted or following is None:
                return _Read(found, position)
            position = Position(following.epoch, following.number, -1)

    async def _following(self, client_id: ClientId, mine: Block) -> Block | None:
        """The block that is read after this one; None: there is none yet."""
        later = await self._later(client_id, mine)
        return min((later, *await self._later_ones(client_id, mine))) if later is not None else None

    async def _later(self, client_id: ClientId, mine: Block) -> Block | None:
        return min(await self._later_ones(client_id, mine), default=None)

    async def _later_ones(self, client_id: ClientId, mine: Block) -> Sequence[Block]:
        blocks = await self._store.read_blocks(client_id, mine.track, since=mine)
        return [stored.block for stored in blocks if stored.block > mine]

    async def _events(self, client_id: ClientId, block: Block, after: int, limit: int) -> Sequence[tuple[int, Event]]:
        """The first events behind seq `after`, without gaps but for those that have expired."""
        events = await self._store.read_events(client_id, block, after=after, limit=limit)
        if not events or events[-1][0] == after + len(events):
            return events
        surely = events[-1][0]
        events = await self._store.read_events(client_id, block, after=after, limit=limit)
        whole: list[tuple[int, Event]] = []
        for seq, event in events:
            if seq > surely and (not whole or seq != whole[-1][0] + 1):
                break
            whole.append((seq, event))
        return whole

    def _merged(self, cursor: FeedCursor, reads: Mapping[str, _Read], *, limit: int, most: int) -> FeedPage:
        """The events of all tracks by instant, each track in its order, cut to the limit."""
        ahead = [(read.events[0].event.at, track, 0) for track, read in reads.items() if read.events]
        heapq.heapify(ahead)
        taken: list[PlacedEvent] = []
        # Of the tracks that were read alone: a cursor that also had others would be renewed for what nobody read.
        positions = {track: at for track, at in cursor.positions.items() if track in reads}
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
        behind = FeedCursor(cursor.made_in, positions) if more else self._cursor(positions)
        return FeedPage(taken, behind, more)

    def _cursor(self, positions: Mapping[str, Position]) -> FeedCursor:
        return FeedCursor(Minute(minute_of(self._clock.wall_ms())), positions)
