"""Retries are retry rows: which of them are called, and what each outcome requires in other partitions."""

import pytest

from poller_cluster.minute.steps import CheckRows, FollowUp, Wait
from scheduler_service.domain.ids import minute_of
from scheduler_service.domain.retry_rows import SUPERSEDED
from scheduler_service.domain.schedules import Definition, Outcome, RowWrite, State
from tests.support.minutes import DELIVERED, MINUTE, START, SWEEP, MinuteBench, definition, retry_row, retrying

AT = START + 20_000
FAILED = Outcome(state=State.FAILED, attempts=10, reason="exhausted")


@pytest.fixture
def bench() -> MinuteBench:
    return MinuteBench()


async def original(bench: MinuteBench, outcome: Outcome) -> Definition:
    """A schedule of the minute before, with this outcome."""
    before = MinuteBench(storage=bench.storage, minute=MINUTE - 1)
    call = definition(50.0, minute=MINUTE - 1)
    await before.create(call)
    await before.as_owner(epoch=1, writes=[RowWrite(key=call.key, outcome=outcome)])
    return call


def follow_ups(bench: MinuteBench) -> list[FollowUp]:
    return bench.machine.follow_ups.take()


async def test_a_retry_row_that_its_original_names_is_called(bench: MinuteBench) -> None:
    again = retry_row(await original(bench, retrying(AT)), AT)
    await bench.create(again)
    assert await bench.at(AT - 1_000) == ["ReadPage", "CheckRows", "WriteCommit"]
    assert bench.keys() == [again.key]


async def test_originals_are_read_no_earlier_than_a_claim_may_be(bench: MinuteBench) -> None:
    again = retry_row(await original(bench, retrying(AT)), AT)
    await bench.create(again)
    assert await bench.run() == ["ReadPage"]
    assert bench.peek() == Wait(AT - 1_000)
    bench.now = AT - 5_000
    assert isinstance(bench.peek(), CheckRows)


async def test_a_retry_row_knows_when_its_schedule_was_first_attempted(bench: MinuteBench) -> None:
    first = START - 9_000
    outcome = Outcome(state=State.RETRYING, attempts=1, next_attempt_at=AT, first_attempt_at=first)
    await bench.create(retry_row(await original(bench, outcome), AT))
    await bench.at(AT)
    assert [claim.first_attempt_at for claim in bench.claims] == [first]


@pytest.mark.parametrize("end", [State.DELIVERED, State.FAILED, State.CANCELLED, State.SKIPPED])
async def test_a_retry_row_whose_schedule_has_ended_is_dropped_with_that_end(bench: MinuteBench, end: State) -> None:
    again = retry_row(await original(bench, Outcome(state=end)), AT)
    await bench.create(again)
    assert await bench.at(AT) == ["ReadPage", "CheckRows", "WriteCommit"]
    assert bench.claims == []
    row = await bench.row(again)
    assert (row.state, row.reason) == (end, SUPERSEDED)
    assert follow_ups(bench) == []


async def test_a_retry_row_without_an_original_is_dropped(bench: MinuteBench) -> None:
    again = retry_row(definition(50.0, minute=MINUTE - 1), AT)
    await bench.create(again)
    await bench.at(AT)
    assert bench.claims == []
    assert await bench.state(again) == State.CANCELLED


async def test_a_retry_row_left_behind_is_dropped_and_the_named_one_is_seen_to(bench: MinuteBench) -> None:
    call = await original(bench, retrying(AT + 90_000, attempts=2))
    again = retry_row(call, AT)
    await bench.create(again)
    await bench.at(AT)
    assert bench.claims == []
    (follow_up,) = follow_ups(bench)
    assert (follow_up.key, follow_up.outcome.next_attempt_at) == (call.key, AT + 90_000)


async def test_a_drop_loses_to_an_external_update_of_the_retry_row(bench: MinuteBench) -> None:
    again = retry_row(await original(bench, Outcome(state=State.DELIVERED)), AT)
    await bench.create(again)
    bench.now = AT
    await bench.step()
    await bench.step()
    await bench.cancel(again)
    await bench.run()
    row = await bench.row(again)
    assert (row.state, row.reason) == (State.CANCELLED, None)


async def test_a_retry_row_that_was_dropped_counts_nowhere(bench: MinuteBench) -> None:
    await bench.create(retry_row(await original(bench, Outcome(state=State.DELIVERED)), AT))
    await bench.at(SWEEP)
    assert bench.balances == 1
    assert bench.machine.account.counts == {}


async def test_a_failed_attempt_requires_its_retry_row(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.at(AT)
    outcome = retrying(AT + 5_000)
    bench.ended(bench.claims[0], outcome)
    await bench.run()
    assert follow_ups(bench) == [FollowUp(call, outcome)]
    assert follow_ups(bench) == []


@pytest.mark.parametrize(("outcome", "requires"), [(DELIVERED, False), (FAILED, True), (retrying(AT + 1), True)])
async def test_only_some_outcomes_require_follow_ups(bench: MinuteBench, outcome: Outcome, requires: bool) -> None:
    await bench.create(definition(20.0))
    await bench.at(AT)
    bench.ended(bench.claims[0], outcome)
    await bench.run()
    assert bool(follow_ups(bench)) is requires


@pytest.mark.parametrize("outcome", [DELIVERED, FAILED, retrying(AT + 1, attempts=2)])
async def test_every_outcome_of_a_retry_row_is_carried_to_its_original(bench: MinuteBench, outcome: Outcome) -> None:
    again = retry_row(await original(bench, retrying(AT)), AT)
    await bench.create(again)
    await bench.at(AT)
    bench.ended(bench.claims[0], outcome)
    await bench.run()
    assert follow_ups(bench) == [FollowUp(again, outcome)]


async def test_a_minute_with_a_follow_up_does_not_settle(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.at(AT)
    bench.ended(bench.claims[0], retrying(AT + 90_000))
    await bench.run()
    (follow_up,) = follow_ups(bench)
    await bench.at(SWEEP)
    assert bench.peek() == Wait(None)
    assert bench.balances == 0
    bench.machine.follow_ups.acknowledged(follow_up)
    assert await bench.run() == ["WriteBalance"]
    assert bench.machine.account.counts == {State.RETRYING: 1}


async def test_a_follow_up_acknowledged_once_is_not_made_again_by_the_sweep(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    await bench.at(AT)
    bench.ended(bench.claims[0], retrying(AT + 90_000))
    await bench.run()
    (follow_up,) = follow_ups(bench)
    bench.machine.follow_ups.acknowledged(follow_up)
    assert await bench.at(SWEEP) == ["SweepPage", "WriteBalance"]
    assert follow_ups(bench) == []


async def test_a_new_owner_finds_the_follow_ups_of_a_crash_between_pointer_and_retry_row(bench: MinuteBench) -> None:
    call, again = definition(20.0), definition(30.0)
    await bench.create(call, again)
    await bench.as_owner(epoch=1, writes=[RowWrite(key=call.key, outcome=retrying(AT + 90_000))])
    await bench.as_owner(epoch=1, writes=[RowWrite(key=again.key, outcome=DELIVERED)])
    next_owner = MinuteBench(storage=bench.storage, epoch=2)
    assert await next_owner.at(SWEEP) == ["ReadPage"]
    (follow_up,) = follow_ups(next_owner)
    assert (follow_up.definition, follow_up.outcome.next_attempt_at) == (call, AT + 90_000)


async def test_a_new_owner_carries_a_retry_rows_recorded_outcome_to_its_original(bench: MinuteBench) -> None:
    again = retry_row(await original(bench, retrying(AT)), AT)
    await bench.create(again)
    await bench.as_owner(epoch=1, writes=[RowWrite(key=again.key, outcome=DELIVERED)])
    next_owner = MinuteBench(storage=bench.storage, epoch=2)
    await next_owner.at(SWEEP)
    (follow_up,) = follow_ups(next_owner)
    assert (follow_up.definition.key, follow_up.outcome.state) == (again.key, State.DELIVERED)


async def test_a_retry_within_the_minute_is_called_by_the_same_machine(bench: MinuteBench) -> None:
    call = definition(20.0)
    await bench.create(call)
    await bench.at(AT)
    bench.ended(bench.claims[0], retrying(AT + 5_000))
    await bench.run()
    again = retry_row(call, AT + 5_000)
    assert minute_of(again.due) == MINUTE
    await bench.create(again)
    bench.machine.hint([again.key])
    for follow_up in follow_ups(bench):
        bench.machine.follow_ups.acknowledged(follow_up)
    await bench.at(AT + 5_000)
    assert bench.keys() == [call.key, again.key]
    bench.ended(bench.claims[1])
    await bench.at(SWEEP)
    for follow_up in follow_ups(bench):
        bench.machine.follow_ups.acknowledged(follow_up)
    await bench.run()
    assert bench.machine.account.counts == {State.RETRYING: 1}
    assert bench.balances == 1
