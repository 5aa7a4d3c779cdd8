"""Minutes that are known to be empty are passed without a read, and those with rows are not."""

from scheduler_service.domain.ids import Minute, UnixMillis, minute_start
from tests.support.pollers import MINUTE, PollerBench, on_pollers


def test_minutes_without_rows_are_passed() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        assert bench.pollers.at_rest
        bench.pollers.pass_empty(UnixMillis(minute_start(Minute(MINUTE + 1_000))), before=None)
        assert bench.pollers.swept == bench.pollers.entered == MINUTE + 998
        assert bench.position() == 999

    on_pollers(scenario)


def test_the_minute_that_has_rows_is_not_passed() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        bench.pollers.pass_empty(UnixMillis(minute_start(Minute(MINUTE + 1_000))), before=Minute(MINUTE + 7))
        assert bench.pollers.swept == MINUTE + 6
        assert bench.position() == 7

    on_pollers(scenario)


def test_it_never_goes_back() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        swept = bench.pollers.swept
        bench.pollers.pass_empty(UnixMillis(minute_start(Minute(MINUTE - 100))), before=Minute(MINUTE - 100))
        assert bench.pollers.swept == swept

    on_pollers(scenario)
