"""A granted poller fires the present at once, and the past beside it, oldest first."""

from scheduler_service.domain.ids import Minute
from tests.support.minutes import MINUTE, POLLER, definition
from tests.support.pollers import PollerBench, on_pollers


def test_a_granted_poller_takes_the_present_at_once_and_recovers_from_its_watermark() -> None:
    async def scenario(bench: PollerBench) -> None:
        past = [definition(10.0, minute=MINUTE - back) for back in (200, 61, 60, 2)]
        present = definition(20.0)
        await bench.create(*past, present)
        await bench.begin(start=MINUTE - 500)
        await bench.advance(1)
        bench.jobs.serve()
        await bench.advance(1)
        bench.jobs.serve()
        await bench.advance(18)
        assert bench.jobs.keys() == [call.key for call in (*past, present)]
        assert bench.position() == 0

    on_pollers(scenario)


def test_a_recovery_is_bounded_and_its_pollers_position_is_the_oldest_unsettled_minute() -> None:
    async def scenario(bench: PollerBench) -> None:
        past = [definition(10.0, minute=MINUTE - back) for back in (30, 20, 10)]
        await bench.create(*past)
        await bench.begin(start=MINUTE - 40)
        await bench.advance(1)
        assert bench.jobs.keys() == [past[0].key, past[1].key]
        assert bench.position() == -30
        bench.jobs.finish(bench.jobs.start())
        await bench.advance(1)
        assert bench.jobs.keys() == [call.key for call in past]
        assert bench.position() == -20

    on_pollers(scenario, pollers=1)


def test_the_position_never_falls() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.create(*(definition(30.0, minute=MINUTE + n) for n in (-30, -3, 0, 1, 4)))
        await bench.begin(start=MINUTE - 40)
        last = bench.position()
        for second in range(400):
            await bench.advance(1)
            if second % 7 == 0:
                bench.jobs.serve()
            if second == 100:
                bench.pollers.suspend()
            if second == 160:
                bench.pollers.resume()
            assert bench.position() >= last
            last = bench.position()
        assert last == 6

    on_pollers(scenario)


def test_a_recovering_minute_is_not_begun_twice() -> None:
    async def scenario(bench: PollerBench) -> None:
        call = definition(10.0, minute=MINUTE - 3)
        await bench.create(call)
        await bench.begin(start=MINUTE - 5)
        await bench.advance(1)
        bench.hint(call.partition, call.key)
        await bench.advance(1)
        assert bench.jobs.keys() == [call.key]
        assert list(bench.pollers.pollers[POLLER].runs) == [Minute(MINUTE - 3)]

    on_pollers(scenario)
