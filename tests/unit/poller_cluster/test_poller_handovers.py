"""Pollers that are drained, revoked, suspended and resumed: what is given back, what stops, what is never done
twice.
"""

from scheduler_service.domain.ids import PollerId
from scheduler_service.domain.schedules import State
from tests.support.minutes import MINUTE, POLLER, definition
from tests.support.pollers import PollerBench, on_pollers

SWEEP_SECONDS = 70.0


def test_a_poller_that_drains_while_its_minute_is_swept_has_not_passed_it() -> None:
    """Rows that the sweep finds are not started here any more, so they belong to the next owner."""

    async def scenario(bench: PollerBench) -> None:
        started = definition(58.0)
        await bench.create(started)
        await bench.begin()
        await bench.advance(58)
        job = bench.jobs.start()
        await bench.advance(SWEEP_SECONDS - 58)
        late = definition(5.0, minute=MINUTE + 1)
        await bench.create(late)
        draining = bench.tasks.spawn(bench.pollers.drain(POLLER), name="drain")
        await bench.advance(90)
        assert bench.position() == 0
        bench.jobs.finish(job)
        await bench.advance(0)
        assert draining.done()
        assert bench.position() == 0
        await bench.advance(120)
        assert bench.position() == 0

    on_pollers(scenario)


def test_a_draining_poller_without_runs_keeps_its_position() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.advance(SWEEP_SECONDS - 1)
        await bench.pollers.drain(POLLER)
        await bench.create(definition(20.0))
        await bench.advance(200)
        assert bench.position() == 0
        assert bench.pollers.position(PollerId(POLLER + 1)) == MINUTE + 4

    on_pollers(scenario)


def test_a_drain_gives_back_what_was_not_started_and_waits_for_what_was() -> None:
    async def scenario(bench: PollerBench) -> None:
        first, second = definition(20.0), definition(21.0)
        await bench.create(first, second)
        await bench.begin()
        await bench.advance(20)
        job = bench.jobs.start()
        draining = bench.tasks.spawn(bench.pollers.drain(POLLER), name="drain")
        await bench.advance(5)
        assert bench.jobs.waiting == []
        assert not draining.done()
        bench.jobs.finish(job)
        await bench.advance(0)
        assert draining.done()
        header, _ = await bench.storage.schedules.read_rows(first.partition, [first.key])
        assert header.in_flight == frozenset()
        assert (await bench.row(first)).state == State.DELIVERED
        assert (await bench.row(second)).state is None

    on_pollers(scenario)


def test_what_a_drained_poller_gives_back_makes_room_for_others() -> None:
    async def scenario(bench: PollerBench) -> None:
        bench.jobs.limit = 3
        mine = [definition(20.0 + n, tail=n) for n in range(3)]
        theirs = [definition(22.0 + n, tail=n, poller=POLLER + 1) for n in range(2)]
        await bench.create(*mine)
        await bench.begin()
        await bench.advance(19)
        await bench.create(*theirs, hinted=True)
        await bench.advance(3)
        assert len(bench.jobs.seen) == 3
        await bench.pollers.drain(POLLER)
        await bench.advance(0)
        assert bench.jobs.keys()[3:] == [one.key for one in theirs]

    on_pollers(scenario)


def test_a_revoked_poller_sends_and_writes_nothing_more() -> None:
    async def scenario(bench: PollerBench) -> None:
        call, other = definition(20.0), definition(20.1)
        await bench.create(call, other)
        await bench.begin()
        await bench.advance(20)
        job = bench.jobs.start()
        assert job.owner.may_send()
        bench.pollers.revoke(POLLER)
        assert not job.owner.may_send()
        assert bench.jobs.waiting == []
        bench.jobs.started.remove(job)
        bench.jobs.submit([job])
        job.owner.queued_again()
        assert bench.jobs.waiting == []
        before = len(bench.schedules.asked)
        await bench.advance(5)
        assert bench.schedules.asked[before:] == []
        assert (await bench.row(call)).state is None

    on_pollers(scenario)


def test_a_suspended_client_stops_and_resumes_at_its_position() -> None:
    async def scenario(bench: PollerBench) -> None:
        calls = [definition(20.0), definition(40.0), definition(10.0, minute=MINUTE + 3)]
        await bench.create(*calls)
        await bench.begin()
        await bench.advance(10)
        bench.pollers.suspend()
        bench.pollers.suspend()
        await bench.advance(600)
        assert bench.jobs.seen == []
        assert bench.position() <= 0
        bench.pollers.resume()
        await bench.advance(1)
        assert bench.jobs.keys() == [call.key for call in calls]
        assert not any(job.claim.redelivery for job in bench.jobs.seen)
        bench.jobs.serve()
        await bench.advance(2)
        assert bench.position() == 10

    on_pollers(scenario)


def test_an_attempt_under_way_over_a_suspension_is_recorded_and_not_repeated() -> None:
    async def scenario(bench: PollerBench) -> None:
        call = definition(20.0)
        await bench.create(call)
        await bench.begin()
        await bench.advance(20)
        job = bench.jobs.start()
        bench.pollers.suspend()
        await bench.advance(1)
        bench.pollers.resume()
        await bench.advance(1)
        bench.jobs.finish(job)
        await bench.advance(1)
        assert (await bench.row(call)).state == State.DELIVERED
        assert len(bench.jobs.seen) == 1

    on_pollers(scenario)


def test_a_minute_never_has_two_machines_under_one_epoch() -> None:
    """The first one's write of unknown result would look like the second one's own."""

    async def scenario(bench: PollerBench) -> None:
        call = definition(20.0)
        await bench.create(call)
        await bench.begin()
        bench.schedules.hook = lambda method: "refuse" if method == "commit" else None
        await bench.advance(20)
        (run,) = bench.pollers.pollers[POLLER].runs.values()
        assert run.machine.write_unanswered
        bench.pollers.suspend()
        await bench.advance(1)
        bench.pollers.resume()
        await bench.advance(1)
        assert list(bench.pollers.pollers[POLLER].runs.values()) == [run]
        bench.schedules.hook = lambda method: None
        await bench.advance(3)
        assert bench.jobs.keys() == [call.key]

    on_pollers(scenario)


def test_resuming_a_client_takes_no_hand_over_back() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.create(definition(20.0), definition(20.0, poller=POLLER + 1))
        await bench.begin()
        bench.pollers.suspend()
        await bench.pollers.drain(POLLER)
        bench.pollers.resume()
        await bench.advance(200)
        assert [job.claim.row.key for job in bench.jobs.seen] == [definition(20.0, poller=POLLER + 1).key]
        assert bench.position() <= 0

    on_pollers(scenario)


def test_a_suspension_that_comes_while_a_minute_is_swept_does_not_pass_it() -> None:
    async def scenario(bench: PollerBench) -> None:
        await bench.begin()
        await bench.advance(30)
        await bench.create(definition(20.0))
        await bench.advance(SWEEP_SECONDS - 30.5)
        bench.schedules.hook = lambda method: "wait" if method == "occupied" else None
        await bench.advance(1)
        bench.pollers.suspend()
        bench.schedules.gate.set()
        await bench.advance(1)
        assert bench.position() == 0
        bench.schedules.hook = lambda method: None
        bench.pollers.resume()
        await bench.advance(1)
        assert bench.jobs.keys() == [definition(20.0).key]

    on_pollers(scenario)
