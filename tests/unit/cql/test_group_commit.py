"""Group commit: which creates share a request, which wait, and whom a failure affects."""

import asyncio

import pytest

from cql.group_commit import GroupCommit
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from scheduler_service.domain.errors import ContentTooLarge, Overloaded
from scheduler_service.runtime.lifecycle import Tasks
from tests.contract.builders import definition
from tests.unit.cql.gate import DATA, INDEX, Gate, commit_all, committer, pollers, rows, start, turns


async def test_creates_of_one_moment_share_a_request() -> None:
    connection = Gate()
    commit = committer(connection)
    await asyncio.gather(*start(commit, *rows(20)))
    assert [len(items) for items in connection.sent] == [1, 20]
    assert commit.rows == 0
    assert len(connection.rows("schedules")) == 20


async def test_the_index_is_acknowledged_before_the_first_row_is_sent() -> None:
    connection = Gate(held=True)
    commit = committer(connection)
    (task,) = start(commit, definition("shop"))
    await turns()
    assert [items[0][0] for items in connection.sent] == [INDEX]
    connection.held.pop().set_result(None)
    await turns()
    assert [items[0][0] for items in connection.sent] == [INDEX, DATA]
    assert not task.done()
    connection.held.pop().set_result(None)
    await task
    (later,) = start(commit, definition("shop", tail=2))
    await turns()
    assert connection.sent[-1][0][0] == DATA, "a known partition needs no second index row"
    connection.held.pop().set_result(None)
    await later


async def test_a_failed_index_row_is_written_again() -> None:
    connection = Gate()
    connection.refuse = lambda items: StoreUnavailable("no") if len(connection.sent) == 1 else None
    commit = committer(connection)
    with pytest.raises(StoreUnavailable):
        await commit.insert(definition("shop"))
    assert connection.rows("schedules") == []
    await commit.insert(definition("shop"))
    assert [items[0][0] for items in connection.sent] == [INDEX, INDEX, DATA]


async def test_known_partitions_do_not_wait_for_new_ones() -> None:
    connection = Gate()
    commit = committer(connection)
    await commit.insert(definition("shop"))
    connection.hold = True
    known, new = start(commit, definition("shop", tail=2), definition("shop", poller_id=1))
    await turns()
    assert [items[0][0] for items in connection.sent[2:]] == [DATA, INDEX]
    connection.held[0].set_result(None)
    await known
    assert not new.done()
    connection.hold = False
    connection.held[1].set_result(None)
    await new


async def test_few_partitions_share_a_request() -> None:
    connection = Gate()
    await asyncio.gather(*start(committer(connection, group_commit_partitions=4), *pollers(10)))
    assert [len(items) for items in connection.data] == [4, 4, 2]


async def test_partitions_of_other_servers_go_apart() -> None:
    connection = Gate()
    connection.homes = {("shop", number): f"rack {number % 2}" for number in range(6)}
    await asyncio.gather(*start(committer(connection), *pollers(6)))
    assert [[values[1] for values in items] for items in connection.data] == [[0, 2, 4], [1, 3, 5]]


async def test_a_request_over_partitions_is_bounded_in_bytes() -> None:
    connection = Gate()
    large = [definition("shop", poller_id=number, body=bytes(15_000)) for number in range(5)]
    await asyncio.gather(*start(committer(connection), *large))
    assert [len(items) for items in connection.data] == [2, 2, 1]


async def test_a_crowded_partition_goes_alone_in_parts() -> None:
    connection = Gate()
    commit = committer(connection, group_commit_rows=30)
    await asyncio.gather(*start(commit, *rows(70), definition("shop", poller_id=1)))
    assert sorted(len(items) for items in connection.data) == [1, 10, 30, 30]


async def test_a_partition_with_large_rows_is_bounded_by_the_largest_write() -> None:
    connection = Gate()
    commit = committer(connection, max_write_bytes=100_000)
    await asyncio.gather(*start(commit, *rows(5, body=bytes(45_000))))
    assert [len(items) for items in connection.data] == [2, 2, 1]


async def test_creates_gather_while_requests_are_under_way() -> None:
    connection = Gate()
    commit = committer(connection, group_commit_in_flight=1, group_commit_rows=50)
    await commit.insert(definition("shop", tail=999))
    connection.hold = True
    first = start(commit, definition("shop", tail=1000))
    await turns()
    rest = start(commit, *rows(120))
    await turns()
    assert len(connection.held) == 1, "one request at a time"
    connection.hold = False
    connection.held[0].set_result(None)
    await asyncio.gather(*first, *rest)
    assert [len(items) for items in connection.data[2:]] == [50, 50, 20]


async def test_a_failed_request_fails_its_own_creates_only() -> None:
    connection = Gate()
    connection.refuse = lambda items: (
        StoreUnavailable("gone") if items[0][0] == DATA and any(values[1] == 1 for _, values in items) else None
    )
    commit = committer(connection, group_commit_partitions=1)
    answers = await asyncio.gather(*start(commit, *pollers(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), StoreUnavailable, type(None)]
    assert commit.rows == 0


async def test_failures_are_not_shared_objects() -> None:
    connection = Gate()
    connection.refuse = lambda items: StoreUnavailable("gone")
    one, two = await asyncio.gather(*start(committer(connection), *rows(2)), return_exceptions=True)
    assert isinstance(one, StoreUnavailable)
    assert one is not two


async def test_a_row_too_large_for_the_server_fails_its_own_create() -> None:
    connection = Gate()
    connection.refuse = lambda items: (
        ContentTooLarge("no") if any(len(values[9]) > 900 for name, values in items if name == DATA) else None
    )
    large = definition("shop", poller_id=2, body=bytes(1000))
    answers = await asyncio.gather(
        *start(committer(connection), *pollers(2), large, *pollers(5)[3:]), return_exceptions=True
    )
    assert [type(answer) for answer in answers] == [type(None), type(None), ContentTooLarge, type(None), type(None)]


async def test_a_full_queue_refuses_and_sends_nothing() -> None:
    connection = Gate(held=True)
    commit = committer(connection, queue_rows=3)
    waiting = start(commit, *rows(3))
    await turns()
    with pytest.raises(Overloaded):
        await commit.insert(definition("shop", tail=77))
    connection.hold = False
    connection.held.pop().set_result(None)
    await asyncio.gather(*waiting)
    await commit.insert(definition("shop", tail=77))
    assert commit.rows == 0


async def test_the_queue_is_bounded_in_bytes_too() -> None:
    connection = Gate(held=True)
    commit = committer(connection, queue_bytes=10_000)
    waiting = start(commit, definition("shop", body=bytes(6000)))
    await turns()
    with pytest.raises(Overloaded):
        await commit.insert(definition("shop", tail=2, body=bytes(6000)))
    await commit_all(connection, waiting)


async def test_a_create_that_was_cancelled_in_time_is_not_sent() -> None:
    connection = Gate()
    commit = committer(connection)
    await commit.insert(definition("shop", tail=0))
    keep, drop = start(commit, definition("shop", tail=1), definition("shop", tail=2))
    await asyncio.sleep(0)
    drop.cancel()
    await asyncio.gather(keep, drop, return_exceptions=True)
    assert drop.cancelled()
    assert len(connection.rows("schedules")) == 2
    assert commit.rows == 0


async def test_a_create_cancelled_after_it_was_sent_affects_no_other() -> None:
    connection = Gate(held=True)
    commit = committer(connection)
    keep, drop = start(commit, *rows(2))
    await turns()
    drop.cancel()
    await turns()
    await commit_all(connection, [keep])
    assert commit.rows == 0


async def test_closing_fails_what_waits() -> None:
    connection = Gate(held=True)
    tasks = Tasks(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    commit = GroupCommit(connection, tasks=tasks, settings=StorageSettings(group_commit_in_flight=1))
    sent = start(commit, definition("shop", tail=1))
    await turns()
    unsent = start(commit, definition("shop", tail=2))
    await turns()
    commit.close()
    await tasks.close()
    answers = await asyncio.gather(*sent, *unsent, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]
    with pytest.raises(StoreUnavailable):
        await commit.insert(definition("shop", tail=3))
    commit.close()
    assert (commit.rows, len(tasks)) == (0, 0)


async def test_known_partitions_are_bounded() -> None:
    connection = Gate()
    commit = committer(connection, known_partitions=2)
    for one in (*pollers(3), pollers(1)[0], pollers(3)[2]):
        await commit.insert(one)
    indexed = [items[0][1][3] for items in connection.sent if items[0][0] == INDEX]
    assert indexed == [0, 1, 2, 0]


async def test_a_lone_create_does_not_wait() -> None:
    commit = committer(Gate(), group_commit_delay_seconds=60.0)
    await commit.insert(definition("shop", tail=1))
    await commit.insert(definition("shop", tail=2))


async def test_what_comes_while_a_request_is_under_way_waits_for_more_or_for_its_end() -> None:
    connection = Gate()
    commit = committer(connection, group_commit_delay_seconds=60.0, group_commit_rows=5)
    await commit.insert(definition("shop", tail=999))
    connection.hold = True
    first = start(commit, definition("shop", tail=1000))
    await turns()
    few = start(commit, *rows(3))
    await turns()
    assert len(connection.held) == 1, "too few for a request of their own"
    more = start(commit, *rows(8)[3:])
    await turns()
    assert [len(items) for items in connection.data[1:]] == [1, 5, 3], "enough for one: all goes"
    await commit_all(connection, [*first, *few, *more])


async def test_new_partitions_of_one_moment_are_indexed_by_one_request() -> None:
    connection = Gate()
    await asyncio.gather(*start(committer(connection), *pollers(30)))
    assert [len(items) for items in connection.sent if items[0][0] == INDEX] == [30]


async def test_an_index_request_is_bounded_in_hours_and_rows() -> None:
    connection = Gate()
    hours = [definition("shop", offset=number * 3_600_000) for number in range(5)]
    commit = committer(connection, group_commit_partitions=2, group_commit_rows=7)
    await asyncio.gather(*start(commit, *hours, *pollers(20)[1:]))
    indexed = [[values for _, values in items] for items in connection.sent if items[0][0] == INDEX]
    assert sum(map(len, indexed)) == 24
    assert all(len(rows) <= 7 and len({values[1] for values in rows}) <= 2 for rows in indexed)


async def test_a_failed_index_request_fails_those_that_waited_for_it_only() -> None:
    connection = Gate(held=True)
    connection.refuse = lambda items: (
        StoreUnavailable("no") if items[0][0] == INDEX and items[0][1][3] in (0, 1) else None
    )
    commit = committer(connection)
    refused = start(commit, *pollers(2))
    await turns()
    other = start(commit, pollers(3)[2])
    await turns()
    await commit_all(connection, other)
    answers = await asyncio.gather(*refused, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailable, StoreUnavailable]
    assert [row["poller_id"] for row in connection.rows("schedules")] == [2]
