"""Sweep, books and drain: when a minute is over, and what is counted by then."""

import pytest

from poller_cluster.minute.steps import Phase, Stop, SweepPage, Wait, WriteCommit
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.books import LATENESS_BOUNDS_MS
from scheduler_service.domain.schedules import Outcome, RowWrite, State
from tests.support.minutes import DELIVERED, END, START, SWEEP, MinuteBench, definition

NOW = START + 20_000


@pytest.fixture
def bench() -> MinuteBench:
    return MinuteBench()


async def test_the_sweep_begins_after_the_grace_and_not_before(bench: MinuteBench) -> None:
    await bench.run()
    bench.now = SWEEP - 1
    assert bench.peek() == Wait(SWEEP)
    assert bench.machine.phase is Phase.RUNNING
    bench.now = SWEEP
    assert bench.peek() == SweepPage(None)
    assert bench.machine.phase is Phase.SWEEPING


async def test_a_scan_begun_before_the_grace_does_not_count_as_sweep() -> None:
    bench = MinuteBench(page_rows=1)
    await bench.create(definition(10.0), definition(11.0))
    bench.headroom = 0
    bench.now = SWEEP - 1
    await bench.step()
    late = definition(9.0, tail=9)
    await bench.create(late)
    bench.now, bench.headroom = SWEEP, 10
    await bench.run()
    assert bench.keys().count(late.key) == 1


async def test_a_row_created_after_the_prefetch_is_found_by_the_sweep_without_any_hint(bench: MinuteBench) -> None:
    await bench.run()
    call = definition(59.0)
    await bench.create(call)
    assert await bench.at(SWEEP) == ["SweepPage", "ReadStrays", "WriteCommit"]
    assert bench.keys() == [call.key]


async def test_a_minute_read_first_after_its_grace_needs_one_scan(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    assert await bench.at(SWEEP) == ["ReadPage", "WriteCommit"]
    bench.ended(bench.claims[0])
    assert await bench.run() == ["WriteCommit", "WriteBalance"]


async def test_no_minute_settles_with_a_row_on_the_wire(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    await bench.at(NOW)
    await bench.at(SWEEP + 60_000)
    assert bench.machine.phase is Phase.SWEEPING
    assert bench.peek() == Wait(None)
    bench.ended(bench.claims[0])
    assert await bench.run() == ["WriteCommit", "WriteBalance"]
    assert bench.peek() == Stop()


async def test_no_minute_settles_with_a_row_for_which_there_is_no_room(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    bench.headroom = 0
    await bench.at(SWEEP)
    assert bench.peek() == Wait(None)
    bench.headroom = 1
    assert await bench.run() == ["WriteCommit"]


async def test_every_row_is_counted_once_whenever_it_ends() -> None:
    bench = MinuteBench(page_rows=2)
    calls = [definition(10.0 + n, tail=n + 1) for n in range(8)]
    before, cancelled, slow, during, late = calls[0], calls[1], calls[2], calls[3], calls[4]
    await bench.create(*calls)
    await bench.cancel(cancelled)
    await bench.at(NOW)
    claims = {claim.row.key: claim for claim in bench.claims}
    bench.ended(claims[before.key])
    await bench.run()
    bench.now = SWEEP
    await bench.step()  # the first page of the sweep
    await bench.cancel(definition(59.0, tail=99))
    bench.ended(claims[slow.key], Outcome(state=State.SKIPPED, reason="late"))
    bench.ended(claims[during.key])
    bench.now += 500
    await bench.run()
    bench.ended(claims[late.key], Outcome(state=State.FAILED, reason="exhausted"))
    for call in calls[5:]:
        bench.ended(claims[call.key])
    bench.now += 500
    await bench.run()
    for follow_up in bench.machine.follow_ups.take():
        bench.machine.follow_ups.acknowledged(follow_up)
    await bench.run()
    assert bench.machine.phase is Phase.SETTLED
    assert bench.machine.account.counts == {
        State.DELIVERED: 5,
        State.CANCELLED: 1,
        State.SKIPPED: 1,
        State.FAILED: 1,
    }
    assert bench.machine.account.accepted == 8


async def test_a_row_cancelled_behind_the_sweep_is_counted(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    bench.headroom = 0
    await bench.at(SWEEP)
    await bench.cancel(call)
    bench.headroom = 10
    await bench.run()
    assert bench.machine.phase is Phase.SETTLED
    assert bench.machine.account.counts == {State.CANCELLED: 1}


async def test_a_second_owner_counts_the_whole_minute(bench: MinuteBench) -> None:
    done, open_ = definition(20.0), definition(21.0)
    await bench.create(done, open_)
    await bench.as_owner(epoch=1, writes=[RowWrite(key=done.key, outcome=DELIVERED)])
    next_owner = MinuteBench(storage=bench.storage, epoch=2)
    assert await next_owner.at(SWEEP) == ["ReadPage", "OpenPartition", "ReadPage", "WriteCommit"]
    next_owner.ended(next_owner.claims[0])
    await next_owner.run()
    assert next_owner.machine.account.counts == {State.DELIVERED: 2}


async def test_lateness_is_that_of_first_attempts(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.at(NOW)
    first = call.due + 7
    bench.ended(bench.claims[0], Outcome(state=State.DELIVERED, attempts=1, first_attempt_at=first, finished_at=first))
    await bench.run()
    await bench.at(SWEEP)
    lateness = bench.machine.account.lateness
    assert sum(lateness) == 1
    assert lateness[LATENESS_BOUNDS_MS.index(10)] == 1


async def test_a_settled_machine_does_nothing_more(bench: MinuteBench) -> None:
    await bench.at(SWEEP)
    bench.machine.hint([definition(20.0).key])
    assert bench.peek() == Stop()
    assert bench.machine.phase is Phase.SETTLED


# Drain.


async def test_a_drain_claims_nothing_and_ends_at_once_when_nothing_is_in_flight(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    await bench.run()
    bench.machine.draining = True
    bench.now = NOW
    assert bench.peek() == Stop()
    assert bench.machine.phase is Phase.DRAINED


async def test_a_drain_before_the_first_read_needs_none(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    bench.machine.draining = True
    assert bench.peek() == Stop()


async def test_a_drain_waits_for_started_attempts_and_empties_what_is_in_flight(bench: MinuteBench) -> None:
    started, unsent = definition(20.0), definition(21.0)
    await bench.create(started, unsent)
    await bench.at(NOW)
    bench.machine.draining = True
    bench.machine.unclaimed(unsent.key)
    assert await bench.run() == ["WriteCommit"]
    assert (await bench.header()).in_flight == {started.schedule_id}
    assert bench.peek() == Wait(None)
    bench.ended(bench.claims[0])
    assert await bench.run() == ["WriteCommit"]
    assert bench.machine.phase is Phase.DRAINED
    assert (await bench.header()).in_flight == frozenset()
    next_owner = MinuteBench(storage=bench.storage, epoch=2)
    await next_owner.at(NOW)
    assert [(claim.row.key, claim.redelivery) for claim in next_owner.claims] == [(unsent.key, False)]


async def test_a_drain_waits_for_its_follow_ups(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    await bench.at(NOW)
    bench.machine.draining = True
    bench.ended(bench.claims[0], Outcome(state=State.RETRYING, attempts=1, next_attempt_at=END + 30_000))
    await bench.run()
    assert bench.peek() == Wait(None)
    (follow_up,) = bench.machine.follow_ups.take()
    bench.machine.follow_ups.acknowledged(follow_up)
    assert bench.peek() == Stop()


async def test_a_drain_finishes_an_unanswered_write_first(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    bench.now = NOW
    await bench.step()
    step = bench.peek()
    bench.machine.draining = True
    assert bench.peek() == step
    assert isinstance(step, WriteCommit)


async def test_a_drain_taken_back_goes_on_where_it_was(bench: MinuteBench) -> None:
    await bench.create(definition(20.0), definition(40.0))
    await bench.at(NOW)
    bench.machine.draining = True
    hinted = definition(41.0)
    await bench.create(hinted)
    bench.machine.hint([hinted.key])
    assert bench.peek() == Wait(None)
    bench.machine.draining = False
    bench.ended(bench.claims[0])
    await bench.at(START + 40_000)
    assert bench.keys()[1:] == [definition(40.0).key, hinted.key]


async def test_records_wait_no_longer_than_configured() -> None:
    bench = MinuteBench(settings=MinuteSettings(record_after_ms=0))
    await bench.create(definition(20.0), definition(50.0))
    await bench.at(NOW)
    bench.ended(bench.claims[0])
    assert await bench.run() == ["WriteCommit"]
