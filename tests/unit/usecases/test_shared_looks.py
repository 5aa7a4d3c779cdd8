"""Readers of a feed that wait share their reads, and read what exists with one statement."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.errors import StoreUnavailable
from scheduler_service.domain.event_cursors import FeedCursor
from scheduler_service.domain.events import Block, Event, Position, track_of
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis
from scheduler_service.usecases.read_events import RESTING_SECONDS, SHARED_SECONDS, FeedRange, ReadEvents
from scheduler_service.usecases.shared_looks import FEWEST_SWEPT, SharedLooks
from tests.support.api import ManualClock

SHOP = ClientId("shop")
ALL = FeedRange(PollerId(0), PollerId(63))
HOUR_MS = 3_600_000


class Counted:
    """Counts requests of a store."""

    def __init__(self, store: Any) -> None:
        self.reads = 0
        self._store = store

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        async def ask(*arguments: Any, **named: Any) -> Any:
            self.reads += 1
            await asyncio.sleep(0)
            return await getattr(self._store, method)(*arguments, **named)

        return ask


class Bench:
    """A feed of 64 tracks, of which some have a block with one event."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Storage.over(InMemoryConnection()).events
        self.counted: Any = Counted(self.store)
        self.read = ReadEvents(store=self.counted, clock=self.clock)

    async def tell(self, track: str, seq: int, *, block: int = 0) -> None:
        where, now = Block(track, 1, block), UnixMillis(self.clock.wall_ms())
        if seq == 0:
            await self.store.begin_block(SHOP, where, begun_at=now)
        event = Event(event_id=UUID(int=seq + 1), type="schedule.delivered", at=now)
        await self.store.append(SHOP, where, first_seq=seq, events=[event])

    async def look(self, cursor: FeedCursor, *, again: bool = True) -> tuple[list[Position], FeedCursor, int]:
        before = self.counted.reads
        page = await self.read.page(SHOP, ALL, cursor, limit=100, again=again)
        assert page.reads == self.counted.reads - before, "what it charges is what it read"
        return [placed.position for placed in page.events], page.cursor, page.reads

    async def idle_minute(self, readers: int) -> int:
        """Reads that readers make who have read all, and look for the next minute."""
        cursor = (await self.look(self.read.earliest(), again=False))[1]
        before, left = self.counted.reads, 60.0
        pause = 0.1
        while left > 0:
            await asyncio.gather(
                *(self.read.page(SHOP, ALL, cursor, limit=100, again=left < 60.0) for _ in range(readers))
            )
            self.clock.advance(pause)
            left -= pause
            pause = min(2 * pause, 1.0)
        return int(self.counted.reads - before)


@pytest.mark.parametrize(
    ("tracks", "age_ms", "reads"), [(0, 0, 62), (3, 0, 248), (64, 0, 4_030), (64, 3 * HOUR_MS, 512)]
)
async def test_an_idle_minute_of_readers_costs_what_one_costs(tracks: int, age_ms: int, reads: int) -> None:
    for readers in (1, 3):
        bench = Bench()
        for number in range(tracks):
            await bench.tell(track_of(PollerId(number)), 0)
        bench.clock.advance(age_ms / 1000)
        first_look = (readers - 1) * (1 + tracks)
        assert await bench.idle_minute(readers) <= reads + first_look


async def test_a_first_look_sees_what_was_appended_and_later_ones_soon() -> None:
    bench = Bench()
    await bench.tell("0000", 0)
    _, cursor, _ = await bench.look(bench.read.earliest(), again=False)
    assert (await bench.look(cursor))[0] == []
    await bench.tell("0000", 1)
    assert (await bench.look(cursor))[::2] == ([], 0)
    assert (await bench.look(cursor, again=False))[0] == [Position(1, 0, 1)]
    bench.clock.advance(SHARED_SECONDS)
    assert (await bench.look(cursor))[0] == [Position(1, 0, 1)]


async def test_a_block_is_left_only_behind_its_end_whatever_was_kept_of_it() -> None:
    bench = Bench()
    await bench.tell("0000", 0)
    bench.clock.advance(3 * HOUR_MS / 1000)
    _, cursor, _ = await bench.look(bench.read.earliest(), again=False)
    assert (await bench.look(cursor))[0] == []
    await bench.tell("0000", 1)
    bench.clock.advance(SHARED_SECONDS)
    assert (await bench.look(cursor))[0] == [], "nothing is expected in so old a block"
    await bench.tell("0000", 0, block=1)
    bench.clock.advance(SHARED_SECONDS)
    assert (await bench.look(cursor))[0] == [Position(1, 0, 1), Position(1, 1, 0)]
    _, cursor, _ = await bench.look(cursor, again=False)
    assert cursor.positions == {"0000": Position(1, 1, 0)}


async def test_an_event_in_a_block_at_rest_is_seen_all_the_same() -> None:
    bench = Bench()
    await bench.tell("0000", 0)
    bench.clock.advance(3 * HOUR_MS / 1000)
    _, cursor, _ = await bench.look(bench.read.earliest(), again=False)
    await bench.look(cursor)
    await bench.tell("0000", 1)
    bench.clock.advance(RESTING_SECONDS)
    assert (await bench.look(cursor))[0] == [Position(1, 0, 1)]


async def test_a_listing_of_a_moment_ago_takes_no_position_back() -> None:
    bench = Bench()
    _, cursor, _ = await bench.look(bench.read.earliest(), again=True)
    await bench.tell("0003", 0)
    _, cursor, _ = await bench.look(cursor, again=False)
    assert (await bench.look(cursor))[1].positions == {"0003": Position(1, 0, 0)}


async def test_an_error_is_not_kept_and_answers_that_are_too_old_are_dropped() -> None:
    clock = ManualClock()
    shared = SharedLooks(clock)

    async def fails() -> int:
        raise StoreUnavailable("planted")

    async def answers() -> int:
        return 1

    with pytest.raises(StoreUnavailable):
        await shared.look("key", fails, keep=lambda _: 1.0)
    assert await shared.look("key", answers, keep=lambda _: 1.0) == 1
    assert await shared.look("key", fails, keep=lambda _: 1.0) == 1
    for number in range(2 * FEWEST_SWEPT):
        await shared.look(number, answers, keep=lambda _: 1.0)
        clock.advance(0.01)
    assert len(shared) <= FEWEST_SWEPT
