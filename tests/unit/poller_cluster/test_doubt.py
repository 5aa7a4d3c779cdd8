"""Ids that an earlier owner left in flight stay in doubt until claimed again and recorded, whatever happens in
between.
"""

import pytest

from membership.conditional import Unknown
from poller_cluster.minute.steps import Phase, WriteCommit
from poller_cluster.settings import MinuteSettings
from scheduler_service.domain.schedules import RowWrite, State
from tests.support.minutes import DELIVERED, END, START, SWEEP, MinuteBench, definition, retry_row, retrying

NOW = START + 20_000


@pytest.fixture
def bench() -> MinuteBench:
    """The second incarnation's bench; the first one may have used the store before."""
    return MinuteBench(epoch=2)


async def test_a_row_left_in_flight_is_called_again_in_doubt(bench: MinuteBench) -> None:
    sent, waiting = definition(20.0), definition(20.1)
    await bench.create(sent, waiting)
    await bench.as_owner(epoch=1, in_flight=[sent])
    await bench.at(NOW)
    assert [(claim.row.key, claim.redelivery) for claim in bench.claims] == [(sent.key, True), (waiting.key, False)]


async def test_what_the_earlier_owner_recorded_is_in_no_doubt(bench: MinuteBench) -> None:
    sent = definition(20.0)
    await bench.create(sent)
    await bench.as_owner(epoch=1, in_flight=[sent], writes=[RowWrite(key=sent.key, outcome=DELIVERED)])
    await bench.at(NOW)
    assert bench.claims == []


async def test_ids_in_doubt_stay_in_flight_until_their_outcome_is_recorded() -> None:
    bench = MinuteBench(epoch=2, page_rows=1, settings=MinuteSettings(window_rows=1))
    calls = [definition(20.0 + n, tail=n + 1) for n in range(3)]
    ids = [call.schedule_id for call in calls]
    await bench.create(*calls)
    await bench.as_owner(epoch=1, in_flight=calls)
    for n, call in enumerate(calls):
        bench.now = call.due
        while len(bench.claims) <= n:
            await bench.step()
        assert (await bench.header()).in_flight == set(ids[n:])
        bench.ended(bench.claims[n])
        assert isinstance(bench.peek(), WriteCommit)
        await bench.step()
    assert all(claim.redelivery for claim in bench.claims)
    assert (await bench.header()).in_flight == frozenset()


async def test_a_row_in_doubt_that_is_given_back_unsent_stays_in_doubt(bench: MinuteBench) -> None:
    sent, fresh = definition(20.0), definition(20.1)
    await bench.create(sent, fresh)
    await bench.as_owner(epoch=1, in_flight=[sent])
    await bench.at(NOW)
    bench.machine.draining = True
    for claim in bench.claims:
        bench.machine.unclaimed(claim.row.key)
    assert await bench.run() == ["WriteCommit"]
    assert bench.machine.phase is Phase.DRAINED
    assert (await bench.header()).in_flight == {sent.schedule_id}
    third = MinuteBench(storage=bench.storage, epoch=3)
    await third.at(NOW)
    assert [claim.redelivery for claim in third.claims] == [True, False]


async def test_a_row_in_doubt_that_was_not_claimed_stays_in_doubt_over_a_drain(bench: MinuteBench) -> None:
    sent, far = definition(20.0), definition(50.0)
    await bench.create(sent, far)
    await bench.as_owner(epoch=1, in_flight=[sent, far])
    await bench.at(NOW)
    bench.ended(bench.claims[0])
    bench.machine.draining = True
    await bench.run()
    assert (await bench.header()).in_flight == {far.schedule_id}


async def test_what_is_given_back_while_a_commit_is_unanswered_leaves_with_the_next(bench: MinuteBench) -> None:
    done, waiting = definition(20.0), definition(21.0)
    await bench.create(done, waiting)
    await bench.at(NOW)
    bench.ended(bench.claims[0])
    bench.now += 500
    await bench.step(answer=Unknown("lost"))
    bench.machine.draining = True
    bench.machine.unclaimed(waiting.key)
    assert await bench.run() == ["WriteCommit", "WriteCommit"]
    assert (await bench.header()).in_flight == frozenset()


async def test_ids_in_doubt_are_cleared_after_a_rejected_commit(bench: MinuteBench) -> None:
    done, waiting = definition(20.0), definition(21.0)
    await bench.create(done, waiting)
    await bench.at(NOW)
    await bench.cancel(definition(59.0, tail=9))
    bench.ended(bench.claims[0])
    bench.machine.draining = True
    bench.machine.unclaimed(waiting.key)
    await bench.run()
    assert bench.machine.phase is Phase.DRAINED
    assert (await bench.header()).in_flight == frozenset()
    assert await bench.state(done) == State.DELIVERED


async def test_what_was_given_back_may_be_claimed_again(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.at(NOW)
    bench.machine.draining = True
    bench.machine.unclaimed(call.key)
    bench.machine.unclaimed(call.key)
    bench.machine.draining = False
    await bench.run()
    assert bench.keys() == [call.key, call.key]
    assert bench.machine.rows.claimed_count == 1


async def test_an_attempt_that_ended_is_not_given_back(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.at(NOW)
    bench.ended(bench.claims[0])
    bench.machine.unclaimed(call.key)
    await bench.run()
    assert await bench.state(call) == State.DELIVERED


async def test_a_recorded_id_does_not_come_back_into_flight_with_the_sweep() -> None:
    """A retry has its schedule's id: if the id stayed in flight, its cancel would be refused and a new owner would
    doubt its end.
    """
    bench = MinuteBench(epoch=2, page_rows=1)
    sent, other = definition(20.0), definition(58.0, tail=2)
    await bench.create(sent, other)
    await bench.as_owner(epoch=1, in_flight=[sent])
    await bench.at(NOW)
    again = retry_row(sent, START + 58_500)
    bench.ended(bench.claims[0], retrying(again.due))
    await bench.run()
    await bench.create(again)
    bench.machine.hint([again.key])
    await bench.at(START + 57_500)
    assert [(claim.row.key, claim.redelivery) for claim in bench.claims[1:]] == [(other.key, False), (again.key, False)]
    for claim in bench.claims[1:]:
        bench.ended(claim)
    await bench.run()
    late = definition(59.9, tail=3)
    await bench.create(late)
    bench.now = SWEEP
    for _ in range(4):
        await bench.step()
    assert (await bench.header()).in_flight <= {late.schedule_id}


async def test_rows_in_doubt_beyond_the_end_of_the_minute_are_called_however_late(bench: MinuteBench) -> None:
    sent = definition(20.0)
    await bench.create(sent)
    await bench.as_owner(epoch=1, in_flight=[sent])
    await bench.at(END + 3_600_000)
    assert [claim.redelivery for claim in bench.claims] == [True]
    bench.ended(bench.claims[0])
    assert await bench.run() == ["WriteCommit", "WriteBalance"]
    assert bench.machine.phase is Phase.SETTLED
