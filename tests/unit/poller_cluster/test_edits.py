"""A commit and an external update over a real store: exactly one wins, and the loser learns of the other."""

import pytest

from membership.conditional import Rejected, Unknown
from poller_cluster.minute.steps import RecheckRows, WriteCommit
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import ExternalUpdate, Outcome, RowWrite, State
from tests.support.minutes import END, START, SWEEP, MinuteBench, definition

NOW = START + 20_000


@pytest.fixture
def bench() -> MinuteBench:
    return MinuteBench()


async def test_a_row_cancelled_after_it_was_read_is_never_handed_out(bench: MinuteBench) -> None:
    call, other = definition(20.0), definition(20.5)
    await bench.create(call, other)
    await bench.run()
    await bench.cancel(call)
    assert await bench.at(NOW) == ["WriteCommit", "WriteCommit", "RecheckRows", "WriteCommit", "ReadHinted"]
    assert bench.keys() == [other.key]
    assert (await bench.header()).in_flight == {other.schedule_id}
    bench.ended(bench.claims[0])
    await bench.run()
    await bench.at(SWEEP)
    assert bench.machine.account.counts == {State.CANCELLED: 1, State.DELIVERED: 1}


async def test_an_external_update_decided_before_a_claim_loses_to_it(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.run()
    cancelled = RowWrite(key=call.key, outcome=Outcome(state=State.CANCELLED), expect_state=State.SCHEDULED)
    decided = ExternalUpdate(
        partition=bench.partition,
        edits=definition(tail=9).schedule_id,
        version=(await bench.header()).version,
        version_known=True,
        writes=(cancelled,),
    )
    await bench.at(NOW)
    assert isinstance(await bench.schedules.update(decided), Rejected)
    assert await bench.state(call) is None


async def test_an_outcome_is_never_written_over_one_that_an_external_update_made(bench: MinuteBench) -> None:
    call, other = definition(20.0), definition(20.1)
    await bench.create(call, other)
    await bench.at(NOW)
    moved = Outcome(state=State.RETRYING, next_attempt_at=UnixMillis(END + 30_000), reason="in-doubt")
    await bench.edit(RowWrite(key=call.key, outcome=moved, expect_state=State.SCHEDULED))
    for claim in bench.claims:
        bench.ended(claim)
    await bench.run()
    assert await bench.state(call) == State.RETRYING
    assert await bench.state(other) == State.DELIVERED
    assert (await bench.header()).in_flight == frozenset()
    await bench.at(SWEEP)
    assert [follow_up.definition for follow_up in bench.machine.follow_ups.take()] == [call]
    assert bench.machine.account.counts == {State.RETRYING: 1, State.DELIVERED: 1}


async def test_a_recheck_waits_for_its_answer(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.run()
    await bench.cancel(definition(40.0, tail=9))
    bench.now = NOW
    await bench.step()
    await bench.step()
    assert bench.peek() == RecheckRows((call.key,))
    assert bench.claims == []
    assert bench.machine.claims_under_way == 1
    await bench.step()
    assert bench.keys() == [call.key]


async def test_a_claim_without_edits_whose_answer_was_lost_is_rechecked_too(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.run()
    await bench.cancel(call)
    bench.now = NOW
    await bench.step()
    step = await bench.step(answer=Unknown("lost"))
    assert isinstance(step, WriteCommit)
    assert not step.commit.edits_known
    await bench.run()
    assert bench.claims == []


async def test_only_a_read_of_the_whole_partition_brings_the_test_of_edits_back() -> None:
    bench = MinuteBench(page_rows=1)
    calls = [definition(10.0 + 10 * n, tail=n + 1) for n in range(4)]
    await bench.create(*calls)
    await bench.run()
    await bench.cancel(definition(59.0, tail=9))
    known: list[bool] = []
    for call in calls:
        bench.now = call.due
        while isinstance(step := bench.peek(), WriteCommit | RecheckRows):
            await bench.step()
            if isinstance(step, WriteCommit):
                known.append(step.commit.edits_known)
        bench.ended(bench.claims[-1])
    assert known[0]
    assert not any(known[1:])
    await bench.run()
    await bench.create(definition(50.0, tail=10))
    await bench.at(SWEEP)
    bench.ended(bench.claims[-1])
    step = bench.peek()
    assert isinstance(step, WriteCommit)
    assert (step.commit.edits_known, step.commit.edits) == (True, (await bench.header()).edits)


async def test_an_external_update_after_the_first_page_of_a_scan_is_not_taken_for_known() -> None:
    bench = MinuteBench(page_rows=1)
    first, second = definition(20.0), definition(20.1)
    await bench.create(first, second)
    await bench.step()
    await bench.cancel(first)
    await bench.at(NOW)
    assert bench.keys() == [second.key]


async def test_rows_of_an_unopened_minute_are_read_again_with_the_external_update_that_they_are_claimed_by() -> None:
    """Without headroom nothing was claimed until the sweep began; its first page shows an external update of a later
    row.
    """
    bench = MinuteBench(page_rows=1)
    first, second = definition(20.0), definition(20.1)
    await bench.create(first, second)
    bench.headroom = 0
    await bench.at(NOW)
    await bench.cancel(second)
    bench.now = SWEEP
    await bench.step()
    bench.headroom = 10
    await bench.run()
    assert bench.keys() == [first.key]


async def test_a_hint_that_comes_while_others_are_read_is_not_lost(bench: MinuteBench) -> None:
    await bench.at(START + 10_000)
    first, second = definition(10.2), definition(10.3)
    await bench.create(first, second)
    bench.machine.hint([first.key])
    _, rows = await bench.schedules.read_rows(bench.partition, [first.key])
    bench.machine.hint([second.key])
    bench.machine.hinted_read([first.key], rows, trusted=True)
    await bench.run()
    assert bench.keys() == [first.key, second.key]


async def test_asked_again_the_machine_answers_the_same(bench: MinuteBench) -> None:
    await bench.create(definition(20.0), definition(21.0))
    for now in (START - 5_000, NOW, NOW + 500, END, SWEEP):
        bench.now = now
        for _ in range(6):
            assert bench.peek() == bench.peek()
            await bench.step()
