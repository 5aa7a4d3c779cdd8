"""Redeliveries of ended rows: an end is identified by its state and its instant."""

from uuid import UUID

import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.ids import UnixMillis
from scheduler_service.domain.schedules import Definition, Outcome, PartitionHeader, Row, State, WriteRejection
from tests.contract.builders import commit, definition, delivered, redelivered, update, write
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ended(storage: Storage, names: Names) -> Definition:
    """Delivered 5 ms after its due."""
    one = definition(names.client())
    await storage.schedules.insert(one)
    record = commit(one.partition, expect_epoch=None, writes=(delivered(one),))
    assert await storage.schedules.commit(record) == APPLIED
    return one


async def row_of(storage: Storage, one: Definition) -> Row:
    _, rows = await storage.schedules.read_rows(one.partition, [one.key], serial=True)
    return rows[one.key]


async def test_an_end_as_read_becomes_a_pointer(storage: Storage, names: Names) -> None:
    one = await ended(storage, names)
    again = redelivered(one, one.due + 900, expect=State.DELIVERED, ended_at=one.due + 5)
    assert await storage.schedules.update(update(one.partition, 3, again, known=False)) == APPLIED
    row = await row_of(storage, one)
    assert (row.state, row.attempts, row.next_attempt_at) == ("retrying", 1, one.due + 900)
    assert (row.redelivered_at, row.redelivered_after) == (one.due + 900, 1)
    assert (row.first_attempt_at, row.finished_at, row.last_status, row.fired_by) == (one.due, None, None, "node-1@7")


@pytest.mark.parametrize(("state", "late"), [(State.FAILED, 0), (State.DELIVERED, 1)])
async def test_another_end_is_left_alone(storage: Storage, names: Names, state: State, late: int) -> None:
    one = await ended(storage, names)
    again = redelivered(one, one.due + 900, expect=state, ended_at=one.due + 5 + late)
    answer = await storage.schedules.update(update(one.partition, 3, again, known=False))
    assert answer == Rejected(WriteRejection(PartitionHeader(1, 1), {one.key: ("delivered", None)}))
    assert (await row_of(storage, one)).redelivered_at is None


async def test_what_follows_keeps_when_it_was_asked_for(storage: Storage, names: Names) -> None:
    one = await ended(storage, names)
    again = redelivered(one, one.due + 900, expect=State.DELIVERED, ended_at=one.due + 5)
    assert await storage.schedules.update(update(one.partition, 3, again, known=False)) == APPLIED
    end = Outcome(state=State.FAILED, attempts=2, finished_at=UnixMillis(one.due + 950), reason="exhausted")
    moved = write(one, end, expect=State.RETRYING, expect_next=one.due + 900)
    assert await storage.schedules.update(update(one.partition, 4, moved, known=False)) == APPLIED
    row = await row_of(storage, one)
    assert (row.state, row.attempts, row.redelivered_at, row.redelivered_after) == ("failed", 2, one.due + 900, 1)
    stale = redelivered(one, one.due + 990, expect=State.DELIVERED, ended_at=one.due + 5)
    rejected = await storage.schedules.update(update(one.partition, 5, stale, known=False))
    assert rejected == Rejected(WriteRejection(PartitionHeader(1, 1, edits=UUID(int=4)), {one.key: ("failed", None)}))
