"""A poller's faults: newer owners, errors, a store that does not answer, trust and clocks in doubt."""

from poller_cluster.minute.machine import PollerMinute
from poller_cluster.minute.steps import Step
from scheduler_service.domain.schedules import State
from tests.support.minutes import POLLER, definition, retrying
from tests.support.pollers import EPOCH, PollerBench, on_pollers


def test_a_minute_that_a_newer_epoch_has_opened_is_reported() -> None:
    async def scenario(bench: PollerBench) -> None:
        call = definition(20.0)
        await bench.create(call)
        await bench.begin()
        await bench.storage.schedules.open(call.partition, epoch=EPOCH + 1, expect_epoch=None)
        await bench.advance(20)
        assert bench.lost == [(POLLER, EPOCH)]
        assert bench.position() == 0

    on_pollers(scenario)


def test_after_an_error_with_a_write_of_unknown_fate_the_poller_needs_a_new_epoch() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.create(definition(20.0))
        await bench.begin()
        bench.schedules.hook = lambda method: "lose" if method == "commit" else None
        await bench.advance(19.05)
        (run,) = bench.pollers.pollers[POLLER].runs.values()

        def fail(now: int, headroom: int) -> Step:
            raise KeyError("planted")

        run.machine.step = fail  # type: ignore[method-assign]
        await bench.advance(60)
        assert [type(error) for error in bench.faults] == [KeyError]
        assert bench.lost == [(POLLER, EPOCH)]
        assert isinstance(run.machine, PollerMinute)

    on_pollers(scenario)


def test_work_goes_on_with_growing_pauses_when_the_store_does_not_answer() -> None:
    async def scenario(bench: PollerBench) -> None:
        call = definition(20.0)
        await bench.create(call)
        await bench.begin()
        bench.schedules.hook = lambda method: "lose" if method == "commit" else None
        await bench.advance(20)
        before = bench.schedules.asked.count("commit")
        await bench.advance(60)
        assert 20 <= bench.schedules.asked.count("commit") - before <= 65
        bench.schedules.hook = lambda method: None
        await bench.advance(3.5)
        assert bench.jobs.keys() == [call.key]
        header, _ = await bench.storage.schedules.read_rows(call.partition, [call.key])
        assert header.version == 1

    on_pollers(scenario)


def test_without_trust_only_a_write_of_unknown_fate_is_repeated() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.create(definition(20.0), definition(40.0))
        await bench.begin()
        bench.schedules.hook = lambda method: "lose" if method == "commit" else None
        await bench.advance(19.05)
        bench.is_trusted = False
        bench.schedules.hook = lambda method: None
        await bench.advance(5)
        assert len(bench.jobs.seen) == 1
        assert not bench.jobs.seen[0].owner.may_send()
        before = len(bench.schedules.asked)
        await bench.advance(60)
        assert bench.schedules.asked[before:] == []

    on_pollers(scenario)


def test_a_doubtful_wall_clock_stops_claims() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.create(definition(20.0))
        await bench.begin()
        await bench.advance(5)
        bench.clock.step(3_600_000)
        bench.clock.discipline()
        await bench.advance(60)
        assert bench.jobs.seen == []
        bench.clock.step(-3_600_000)
        bench.clock.discipline()
        await bench.advance(1)
        assert len(bench.jobs.seen) == 1

    on_pollers(scenario)


def test_a_follow_up_is_repeated_until_the_store_has_taken_it() -> None:
    async def scenario(bench: PollerBench) -> None:
        call = definition(20.0)
        await bench.create(call)
        await bench.begin()
        await bench.advance(20)
        refused = iter(["refuse", "lose", "refuse"])
        bench.schedules.hook = lambda method: next(refused, None) if method == "insert" else None
        outcome = retrying(bench.now() + 5_000)
        bench.jobs.finish(bench.jobs.start(), outcome)
        await bench.advance(4.5)
        assert [job.claim.row.due for job in bench.jobs.seen] == [call.due, outcome.next_attempt_at]
        bench.jobs.serve()
        await bench.advance(60)
        row = await bench.row(call)
        assert (row.state, row.attempts) == (State.DELIVERED, 1)
        assert bench.position() == 1

    on_pollers(scenario)
