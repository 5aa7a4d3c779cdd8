"""Every end of a client with a feed is told once it is recorded, and no minute settles before."""

from collections.abc import Sequence

from scheduler_service.domain.events import Event, id_of_end
from scheduler_service.domain.ids import MINUTE_MS, ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.retry_rows import retry_row_key, retry_row_partition
from scheduler_service.domain.schedules import Definition, Outcome, State
from scheduler_service.usecases.cancel_schedules import CancelSchedules
from scheduler_service.usecases.read_events import FeedRange, ReadEvents
from tests.support.minutes import CLIENT, DELIVERED, MINUTE, POLLER, START, definition, retrying
from tests.support.pollers import EPOCH, PollerBench, on_pollers

SWEPT = 70.5
FAILED = Outcome(state=State.FAILED, attempts=3, finished_at=START, last_status=500, reason="exhausted")


async def told(bench: PollerBench) -> list[Event]:
    read = ReadEvents(store=bench.storage.events, clock=bench.clock)
    page = await read.page(CLIENT, FeedRange(POLLER, POLLER), read.earliest(), limit=1000)
    return [placed.event for placed in page.events]


def ids(events: Sequence[Event]) -> list[ScheduleId | None]:
    return [event.schedule_id for event in events]


async def cancel(bench: PollerBench, row: Definition, *, hinted: bool = True) -> None:
    cancel = CancelSchedules(
        schedules=bench.storage.schedules,
        writer=bench.context.writer,
        clock=bench.clock,
        has_feed=lambda client_id: hinted,
    )
    await cancel.many(CLIENT, [row.schedule_id])
    await bench.advance(0)


def test_each_end_is_told_in_the_track_of_its_poller() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.has_feed = True
        rows = [definition(30.0, tail=1), definition(31.0, tail=2)]
        await bench.create(*rows)
        await bench.begin()
        await bench.advance(30)
        for row, outcome in zip(rows, (DELIVERED, FAILED), strict=True):
            bench.jobs.finish(next(job for job in [bench.jobs.start()] if job.claim.row.key == row.key), outcome)
        await bench.advance(2)
        events = await told(bench)
        assert [event.type for event in events] == ["schedule.delivered", "schedule.failed"]
        assert ids(events) == [row.schedule_id for row in rows]
        assert events[1].event_id == id_of_end(CLIENT, rows[1].schedule_id, FAILED)
        assert '"reason":"exhausted"' in events[1].data
        await bench.advance(SWEPT)
        assert bench.position() == 1
        assert await told(bench) == events, "the sweep tells no end again"

    on_pollers(scenario)


def test_a_client_without_feed_costs_no_request_for_it() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.create(definition(30.0))
        await bench.begin()
        await bench.advance(30)
        bench.jobs.serve()
        await bench.advance(SWEPT)
        assert bench.position() == 1
        assert bench.events.asked == []

    on_pollers(scenario)


def test_a_minute_does_not_settle_before_its_events_are_acknowledged() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.has_feed = True
        await bench.create(definition(30.0))
        await bench.begin()
        await bench.advance(30)
        bench.events.hook = lambda method: "lose" if method == "append" else None
        bench.jobs.serve()
        await bench.advance(200)
        assert bench.position() == 0
        bench.events.hook = lambda method: None
        await bench.advance(5)
        assert bench.position() >= 1
        assert len(await told(bench)) == 1, "the same batch was repeated under its seqs"

    on_pollers(scenario)


def test_the_next_owner_tells_what_was_recorded_and_not_told() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.has_feed = True
        call = definition(30.0)
        await bench.create(call)
        await bench.begin()
        await bench.advance(30)
        bench.events.hook = lambda method: "refuse"
        bench.jobs.serve()
        await bench.advance(5)
        assert (await bench.row(call)).state == State.DELIVERED
        bench.tracks.granted(CLIENT, POLLER, epoch=EPOCH + 1)
        bench.pollers.grant(POLLER, epoch=EPOCH + 1, start=MINUTE)
        bench.events.hook = lambda method: None
        await bench.advance(SWEPT)
        assert bench.position() >= 1
        assert ids(await told(bench)) == [call.schedule_id]

    on_pollers(scenario, pollers=1)


def test_the_end_of_a_retry_row_is_told_by_its_owner_and_not_for_the_original_again() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.has_feed = True
        call = definition(30.0)
        await bench.create(call)
        await bench.begin()
        await bench.advance(30)
        bench.jobs.finish(bench.jobs.start(), retrying(START + 45_000))
        await bench.advance(16)
        assert await told(bench) == []
        bench.jobs.finish(bench.jobs.start(), Outcome(state=State.DELIVERED, attempts=2, finished_at=START))
        await bench.advance(SWEPT)
        assert bench.position() >= 1
        (event,) = await told(bench)
        assert (event.schedule_id, event.type) == (call.schedule_id, "schedule.delivered")
        assert '"attempts":2' in event.data

    on_pollers(scenario)


def test_a_cancel_far_ahead_is_told_at_once_and_only_once() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.has_feed = True
        call = definition(30.0, minute=MINUTE + 5)
        await bench.create(call)
        await bench.begin()
        await cancel(bench, call)
        await bench.advance(1)
        (event,) = await told(bench)
        assert (event.schedule_id, event.type) == (call.schedule_id, "schedule.cancelled")
        await bench.advance(5 * 60 + SWEPT)
        assert bench.position() >= 6
        assert await told(bench) == [event]

    on_pollers(scenario)


def test_a_cancel_whose_hint_was_lost_is_told_by_the_sweep() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.has_feed = True
        call = definition(30.0, minute=MINUTE + 2)
        await bench.create(call)
        await bench.begin()
        await cancel(bench, call, hinted=False)
        await bench.advance(1)
        assert await told(bench) == []
        await bench.advance(2 * 60 + SWEPT)
        assert ids(await told(bench)) == [call.schedule_id]

    on_pollers(scenario)


def test_a_cancel_of_a_retrying_schedule_is_told_by_its_retry_rows_minute() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.has_feed = True
        call, at = definition(30.0), UnixMillis(START + 5 * MINUTE_MS)
        await bench.create(call)
        await bench.begin()
        await bench.advance(30)
        bench.jobs.finish(bench.jobs.start(), retrying(at))
        await bench.advance(90)
        assert bench.position() >= 1
        await cancel(bench, call, hinted=False)
        _, rows = await bench.storage.schedules.read_rows(
            retry_row_partition(partition_of(CLIENT, call.schedule_id), at), [retry_row_key(call.schedule_id, at)]
        )
        assert [row.state for row in rows.values()] == [State.CANCELLED]
        await bench.advance(5 * 60 + SWEPT)
        (event,) = await told(bench)
        assert event.type == "schedule.cancelled"
        original = await bench.row(call)
        assert (original.state, original.key) == (State.CANCELLED, key_of(call.schedule_id))
        assert await bench.storage.events.read_marks(call.partition, [call.key]) == {}

    on_pollers(scenario)
