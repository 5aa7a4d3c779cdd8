"""Many creates at once are split into requests, and each gets its own answer."""

import asyncio
from collections.abc import Sequence

import pytest

from cql.connection import Item
from cql.group_commit import GroupCommit
from cql.settings import StorageSettings
from membership.errors import StoreUnavailable
from scheduler_service.domain.errors import ContentTooLarge, Overloaded
from scheduler_service.runtime.lifecycle import Tasks
from tests.contract.builders import definition
from tests.unit.cql.gate import DATA, Gate, commit_all, committer, pollers, rows, start, turns


async def test_many_at_once_have_an_answer_each() -> None:
    connection = Gate()
    connection.refuse = lambda items: StoreUnavailable("gone") if items[0][0] == DATA and items[0][1][1] == 1 else None
    commit = committer(connection, group_commit_partitions=1, max_write_bytes=100_000)
    huge = definition("shop", tail=7, body=bytes(100_001))
    answers = await commit.insert_many([pollers(3)[2], pollers(2)[1], huge, definition("shop", tail=9)])
    assert [type(answer) for answer in answers] == [type(None), StoreUnavailable, ContentTooLarge, type(None)]
    assert commit.rows == 0


async def test_many_of_one_partition_are_cut_to_what_a_request_carries() -> None:
    connection = Gate()
    commit = committer(connection, group_commit_rows=30)
    assert await commit.insert_many(rows(70)) == [None] * 70
    assert [len(items) for items in connection.data] == [30, 30, 10]
    commit = committer(connection, max_write_bytes=100_000)
    connection.sent.clear()
    assert await commit.insert_many(rows(5, body=bytes(45_000))) == [None] * 5
    assert [len(items) for items in connection.data] == [2, 2, 1]


async def test_a_row_too_large_for_the_server_fails_alone_in_its_part() -> None:
    connection = Gate()
    connection.refuse = lambda items: (
        ContentTooLarge("no") if any(len(values[9]) > 900 for name, values in items if name == DATA) else None
    )
    mixed = rows(9)
    mixed[4] = definition("shop", tail=99, body=bytes(1000))
    answers = await committer(connection).insert_many(mixed)
    assert [position for position, answer in enumerate(answers) if answer is not None] == [4]
    assert len(connection.rows("schedules")) == 8


async def test_closing_fails_both_halves_of_a_split_part() -> None:
    connection = Gate()
    tasks = Tasks(lambda name, error: pytest.fail(f"{name}: {error!r}"))
    commit = GroupCommit(connection, tasks=tasks, settings=StorageSettings())
    await commit.insert(definition("shop", tail=99))

    def refuse(items: Sequence[Item]) -> Exception | None:
        connection.hold = len(items) == 8
        return ContentTooLarge("no") if connection.hold else None

    connection.refuse = refuse
    task = asyncio.get_running_loop().create_task(commit.insert_many(rows(8)))
    await turns()
    assert len(connection.held) == 1, "the first half is under way"
    commit.close()
    await tasks.close()
    answers = await asyncio.wait_for(task, 1.0)
    assert [type(answer) for answer in answers] == [StoreUnavailable] * 8


async def test_many_are_refused_as_a_whole_where_there_is_no_room() -> None:
    connection = Gate(held=True)
    commit = committer(connection, queue_rows=10)
    waiting = start(commit, *rows(4))
    await turns()
    with pytest.raises(Overloaded):
        await commit.insert_many(pollers(7))
    await commit_all(connection, waiting)
    assert len(connection.rows("schedules")) == 4
    connection.hold = False
    assert await commit.insert_many(pollers(11)) == [None] * 11, "what finds the queue empty is taken"


async def test_an_unhandled_exception_is_raised() -> None:
    connection = Gate()
    connection.refuse = lambda items: TypeError("values don't fit") if items[0][0] == DATA else None
    commit = committer(connection)
    with pytest.raises(TypeError):
        await commit.insert_many(rows(3))
    with pytest.raises(TypeError):
        await commit.insert(rows(1)[0])


async def test_many_that_were_cancelled_in_time_are_not_sent() -> None:
    connection = Gate(held=True)
    commit = committer(connection)
    task = asyncio.get_running_loop().create_task(commit.insert_many(rows(3)))
    await turns()
    task.cancel()
    await turns()
    await commit_all(connection, [])
    await turns()
    assert connection.rows("schedules") == []
    assert commit.rows == 0
