"""The machine handles each answer to an open or a commit: applied, rejected, unknown."""

import pytest

from membership.conditional import Unknown
from poller_cluster.minute.steps import OpenPartition, Phase, ReadPage, Stop, WriteCommit
from scheduler_service.domain.schedules import RowWrite, State
from tests.support.minutes import DELIVERED, START, SWEEP, MinuteBench, definition

UNKNOWN = Unknown("no answer")


@pytest.fixture
def bench() -> MinuteBench:
    return MinuteBench()


async def claimed(bench: MinuteBench) -> WriteCommit:
    """The bench just before it writes its claim."""
    await bench.create(definition(20.0))
    bench.now = START + 20_000
    await bench.step()
    step = bench.peek()
    assert isinstance(step, WriteCommit)
    return step


async def test_an_unknown_commit_is_repeated_word_for_word(bench: MinuteBench) -> None:
    first = await claimed(bench)
    await bench.step(answer=UNKNOWN, effect=False)
    bench.now += 5_000
    bench.machine.hint([definition(21.0).key])
    assert bench.peek() == first
    await bench.step(answer=UNKNOWN, effect=False)
    assert bench.peek() == first
    assert bench.claims == []
    assert bench.machine.write_unanswered
    await bench.step()
    assert bench.keys() == [definition(20.0).key]
    assert not bench.machine.write_unanswered


async def test_an_applied_commit_whose_answer_was_lost_counts_as_applied(bench: MinuteBench) -> None:
    first = await claimed(bench)
    await bench.step(answer=UNKNOWN)
    assert bench.claims == []
    assert bench.peek() == first
    await bench.step()
    assert bench.keys() == [definition(20.0).key]
    assert (await bench.header()).version == 1


async def test_a_lost_answer_about_outcomes_counts_once(bench: MinuteBench) -> None:
    await claimed(bench)
    await bench.step()
    bench.ended(bench.claims[0])
    await bench.step(answer=UNKNOWN)
    await bench.run()
    await bench.at(SWEEP)
    assert bench.machine.account.counts == {State.DELIVERED: 1}
    assert (await bench.header()).version == 2


async def test_an_unanswered_claim_keeps_its_rows_out_of_reach(bench: MinuteBench) -> None:
    await claimed(bench)
    await bench.step(answer=UNKNOWN, effect=False)
    assert bench.machine.claims_under_way == 1
    await bench.step()
    assert bench.machine.claims_under_way == 0


async def test_a_newer_epoch_ends_the_machine(bench: MinuteBench) -> None:
    await claimed(bench)
    await bench.as_owner(epoch=2)
    await bench.step()
    assert bench.machine.phase is Phase.LOST
    assert bench.peek() == Stop()
    assert bench.claims == []


async def test_a_newer_epoch_seen_in_a_read_ends_the_machine(bench: MinuteBench) -> None:
    await bench.create(definition(20.0))
    await bench.as_owner(epoch=2)
    await bench.step()
    assert bench.machine.phase is Phase.LOST


async def test_a_lost_machine_stays_lost(bench: MinuteBench) -> None:
    await claimed(bench)
    bench.machine.phase = Phase.LOST
    bench.machine.settled()
    bench.machine.hint([definition(1.0).key])
    assert bench.peek() == Stop()


async def test_what_was_read_before_an_older_owner_opened_is_thrown_away(bench: MinuteBench) -> None:
    """The page is read before any open; then a zombie opens, calls and records; then our claim is written."""
    next_owner = MinuteBench(storage=bench.storage, epoch=2)
    await claimed(next_owner)
    call = definition(20.0)
    await bench.as_owner(epoch=1, in_flight=[call])
    await bench.as_owner(epoch=1, writes=[RowWrite(key=call.key, outcome=DELIVERED)])
    assert await next_owner.run() == ["WriteCommit", "ReadPage"]
    assert next_owner.claims == []
    assert await next_owner.at(SWEEP) == ["SweepPage", "WriteBalance"]


async def test_a_partition_of_an_older_owner_is_opened_then_read_again() -> None:
    bench = MinuteBench(epoch=2)
    call = definition(20.0)
    await bench.create(call)
    await bench.as_owner(epoch=1)
    bench.now = START + 20_000
    assert await bench.run() == ["ReadPage", "OpenPartition", "ReadPage", "WriteCommit"]
    assert bench.keys() == [call.key]


async def test_what_an_older_owner_recorded_between_read_and_open_is_seen() -> None:
    bench = MinuteBench(epoch=2)
    call = definition(20.0)
    await bench.create(call)
    await bench.as_owner(epoch=1, in_flight=[call])
    bench.now = START + 20_000
    await bench.step()
    await bench.as_owner(epoch=1, writes=[RowWrite(key=call.key, outcome=DELIVERED)])
    assert await bench.run() == ["OpenPartition", "ReadPage"]
    assert bench.claims == []


async def test_a_minute_whose_rows_all_have_ended_is_not_opened() -> None:
    bench = MinuteBench(epoch=2)
    call = definition(20.0)
    await bench.create(call)
    await bench.as_owner(epoch=1, writes=[RowWrite(key=call.key, outcome=DELIVERED)])
    assert await bench.at(SWEEP) == ["ReadPage", "WriteBalance"]
    assert (await bench.header()).claim_epoch == 1


@pytest.mark.parametrize("applied", [True, False])
async def test_an_unknown_open_is_repeated_and_never_trusted(applied: bool) -> None:
    bench = MinuteBench(epoch=2)
    await bench.create(definition(20.0))
    await bench.as_owner(epoch=1)
    bench.now = START + 20_000
    await bench.step()
    assert bench.peek() == OpenPartition(1)
    await bench.step(answer=UNKNOWN, effect=applied)
    assert bench.machine.write_unanswered
    assert bench.peek() == OpenPartition(1)
    await bench.step()
    assert isinstance(bench.peek(), ReadPage)
    assert await bench.run() == ["ReadPage", "WriteCommit"]
    assert len(bench.claims) == 1


async def test_an_open_rejected_by_a_newer_epoch_ends_the_machine() -> None:
    bench = MinuteBench(epoch=2)
    await bench.create(definition(20.0))
    await bench.as_owner(epoch=1)
    await bench.step()
    await bench.schedules.open(bench.partition, epoch=3, expect_epoch=1)
    await bench.step()
    assert bench.machine.phase is Phase.LOST


async def test_an_open_rejected_by_another_old_epoch_expects_that_one_next() -> None:
    bench = MinuteBench(epoch=3)
    await bench.create(definition(20.0))
    await bench.as_owner(epoch=1)
    await bench.step()
    await bench.schedules.open(bench.partition, epoch=2, expect_epoch=1)
    await bench.step()
    assert await bench.run() == ["ReadPage", "OpenPartition", "ReadPage"]
    assert (await bench.header()).claim_epoch == 3
