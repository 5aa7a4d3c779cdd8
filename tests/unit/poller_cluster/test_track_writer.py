"""A track is written batch by batch: a batch without an answer is repeated before anything else is written."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from membership.errors import StoreUnavailable
from poller_cluster.events.track_writer import REMEMBERED_EVENTS, TrackOver, TrackWriter
from poller_cluster.events.tracks import IDLE_LOOK_SECONDS, EventTracks
from scheduler_service.domain.events import BATCH_EVENTS, BLOCK_EVENTS, BLOCK_MS, Block, Event, Position
from scheduler_service.domain.ids import ClientId, PollerId, UnixMillis
from scheduler_service.runtime.lifecycle import Tasks
from tests.simulation.sim_clock import SimClock
from tests.support.node_parts import node_runtime
from tests.support.virtual_loop import run_virtual

CLIENT = ClientId("shop")


def event(number: int, *, size: int = 0) -> Event:
    return Event(event_id=UUID(int=number + 1), type="schedule.delivered", at=UnixMillis(1), data="x" * size)


class Bench:
    """`asked`: every request in order, also those that got no answer. `refusals`: how many of the next get none;
    `errors`: what the next ones raise instead."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.tasks = Tasks(lambda name, error: self.crashes.append(error))
        self.crashes: list[BaseException] = []
        self.asked: list[tuple[Block, int, list[int]] | Block] = []
        self.refusals = 0
        self.under_way = 0
        self.faults: list[str] = []
        self.errors: list[Exception] = []
        runtime = node_runtime(
            self.clock, spawn=self.tasks.spawn, on_fault=lambda name, error: self.faults.append(f"{name}: {error}")
        )
        self.tracks = EventTracks(store=self, runtime=runtime)  # type: ignore[arg-type]
        self.tracks.granted(CLIENT, PollerId(3), epoch=7)

    @property
    def writer(self) -> TrackWriter:
        writer = self.tracks.writer(CLIENT, PollerId(3))
        assert writer is not None
        return writer

    async def begin_block(self, client_id: ClientId, block: Block, *, begun_at: UnixMillis) -> None:
        await self._answer(block)

    async def append(self, client_id: ClientId, block: Block, *, first_seq: int, events: Sequence[Event]) -> None:
        await self._answer((block, first_seq, [event.event_id.int - 1 for event in events]))

    async def _answer(self, asked: tuple[Block, int, list[int]] | Block) -> None:
        assert not self.under_way, "one request of a track at a time"
        self.under_way += 1
        self.asked.append(asked)
        await self.clock.sleep(0.1)
        self.under_way -= 1
        if self.errors:
            raise self.errors.pop()
        if self.refusals:
            self.refusals -= 1
            raise StoreUnavailable("planted")

    async def append_all(self, numbers: Sequence[int]) -> list[Position]:
        return await asyncio.gather(*(self.writer.append(event(number)) for number in numbers))

    def batches(self) -> list[tuple[Block, int, list[int]]]:
        return [one for one in self.asked if not isinstance(one, Block)]


def test_a_block_is_begun_before_its_first_event_and_events_gather_behind_a_batch() -> None:
    async def main() -> None:
        bench = Bench()
        first = asyncio.create_task(bench.append_all([0]))
        await bench.clock.sleep(0.15)
        positions = await bench.append_all([1, 2])
        block = Block("0003", 7, 0)
        assert bench.asked == [block, (block, 0, [0]), (block, 1, [1, 2])]
        assert await first == [Position(7, 0, 0)]
        assert positions == [Position(7, 0, 1), Position(7, 0, 2)]
        assert bench.crashes == []

    run_virtual(main)


def test_a_batch_without_an_answer_is_repeated_word_for_word_before_any_other() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.append_all([0])
        bench.refusals = 3
        await bench.append_all([1]), await bench.append_all([2, 3])
        block = Block("0003", 7, 0)
        assert bench.batches() == [(block, 0, [0]), *[(block, 1, [1])] * 4, (block, 2, [2, 3])]

    run_virtual(main)


def test_a_batch_that_raises_another_error_is_reported_and_repeated() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.append_all([0])
        bench.errors = [ValueError("planted"), KeyError("planted")]
        assert await asyncio.gather(bench.append_all([1]), bench.append_all([2])) == [
            [Position(7, 0, 1)],
            [Position(7, 0, 2)],
        ]
        block = Block("0003", 7, 0)
        assert bench.batches() == [(block, 0, [0]), *[(block, 1, [1, 2])] * 3]
        assert bench.faults == ["events of shop, track 0003: 'planted'", "events of shop, track 0003: planted"]
        assert bench.crashes == []

    run_virtual(main)


def test_an_idle_writer_remembers_nothing_but_its_place() -> None:
    async def main() -> None:
        bench = Bench()

        async def append(number: int) -> None:
            await bench.tracks.append(CLIENT, PollerId(3), event(number))

        await asyncio.gather(*map(append, range(BATCH_EVENTS)))
        await bench.clock.sleep(IDLE_LOOK_SECONDS - 1)
        await append(0)
        assert len(bench.batches()) == 1
        await bench.clock.sleep(IDLE_LOOK_SECONDS + 1)
        assert not bench.writer._appended
        await bench.clock.sleep(IDLE_LOOK_SECONDS)
        assert not bench.writer._appended_before
        assert len(bench.tasks) == 0, "nothing is left to forget"
        assert await bench.append_all([0]) == [Position(7, 0, BATCH_EVENTS)]

    run_virtual(main)


def test_the_last_events_are_remembered_up_to_a_bound() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.append_all(range(3 * REMEMBERED_EVENTS))
        kept = len(bench.writer._appended) + len(bench.writer._appended_before)
        assert BATCH_EVENTS <= kept <= REMEMBERED_EVENTS

    run_virtual(main)


def test_a_block_without_an_answer_is_begun_again_before_its_events() -> None:
    async def main() -> None:
        bench = Bench()
        bench.refusals = 2
        await bench.append_all([0])
        block = Block("0003", 7, 0)
        assert bench.asked == [block, block, block, (block, 0, [0])]

    run_virtual(main)


def test_batches_and_blocks_have_bounds() -> None:
    async def main() -> None:
        bench = Bench()
        positions = await bench.append_all(range(BLOCK_EVENTS + 1))
        assert positions[-2:] == [Position(7, 0, BLOCK_EVENTS - 1), Position(7, 1, 0)]
        assert max(len(numbers) for _, _, numbers in bench.batches()) == BATCH_EVENTS
        large = await asyncio.gather(*(bench.writer.append(event(20_000 + n, size=30_000)) for n in range(5)))
        assert [len(numbers) for _, _, numbers in bench.batches()[-3:]] == [2, 2, 1]
        assert large[-1] == Position(7, 1, 5)
        await bench.clock.sleep(BLOCK_MS / 1000 + 1)
        assert await bench.append_all([30_000]) == [Position(7, 2, 0)]

    run_virtual(main)


def test_an_event_that_was_appended_a_moment_ago_keeps_its_place() -> None:
    async def main() -> None:
        bench = Bench()
        assert await bench.append_all([0, 0, 1]) == [Position(7, 0, 0), Position(7, 0, 0), Position(7, 0, 1)]
        assert await bench.append_all([1]) == [Position(7, 0, 1)]
        assert len(bench.batches()) == 1

    run_virtual(main)


def test_a_lost_lease_ends_its_writer_for_good() -> None:
    async def main() -> None:
        bench = Bench()
        bench.refusals = 1_000
        old, waiting = bench.writer, asyncio.create_task(bench.append_all([0]))
        await bench.clock.sleep(1)
        bench.tracks.revoked(CLIENT, PollerId(3))
        assert bench.tracks.writer(CLIENT, PollerId(3)) is None
        with pytest.raises(TrackOver):
            await waiting
        bench.refusals = 0
        bench.tracks.granted(CLIENT, PollerId(3), epoch=8)
        with pytest.raises(TrackOver):
            await old.append(event(1))
        asked = len(bench.asked)
        assert await bench.append_all([0]) == [Position(8, 0, 0)]
        assert bench.asked[asked:] == [Block("0003", 8, 0), (Block("0003", 8, 0), 0, [0])]

    run_virtual(main)


def test_a_poller_of_a_built_in_client_has_a_track_in_each_clients_feed() -> None:
    async def main() -> None:
        bench = Bench()
        built_in = ClientId("$events")
        bench.tracks.granted(built_in, PollerId(5), epoch=2)
        for feed in ("a", "b"):
            writer = bench.tracks.writer(built_in, PollerId(5), feed=ClientId(feed))
            assert writer is not None
            assert (writer.client_id, writer.track) == (feed, "$events/0005")
            assert await writer.append(event(1)) == Position(2, 0, 0)

    run_virtual(main)
