"""Open, owner commit and external update: conditions, atomicity, and the values that a rejection returns."""

import asyncio
from uuid import UUID

import pytest

from cql.partition_turns import ROWS_PER_UPDATE
from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.schedules import (
    NO_HEADER,
    Definition,
    Kind,
    Outcome,
    PartitionHeader,
    Row,
    State,
    WriteRejection,
)
from tests.contract.builders import START, cancelled, commit, definition, delivered, partition, retrying, update, write
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

NOBODY = frozenset[ScheduleId]()


async def test_open_from_null_and_from_an_epoch(storage: Storage, names: Names) -> None:
    where = partition(names.client())
    schedules = storage.schedules
    assert await schedules.open(where, epoch=5, expect_epoch=4) == Rejected(NO_HEADER)
    assert await schedules.open(where, epoch=5, expect_epoch=None) == APPLIED
    assert await schedules.open(where, epoch=6, expect_epoch=None) == Rejected(PartitionHeader(5))
    assert await schedules.open(where, epoch=6, expect_epoch=5) == APPLIED
    assert (await schedules.read_page(where)).header == PartitionHeader(6)


async def test_a_rejected_open_shows_the_whole_header(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    where = one.partition
    await storage.schedules.insert(one)
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    assert await storage.schedules.update(update(where, 9, cancelled(definition(names.client(), tail=2)))) == APPLIED
    claim = commit(where, edits=UUID(int=9), in_flight=frozenset({one.schedule_id}))
    assert await storage.schedules.commit(claim) == APPLIED
    everything = PartitionHeader(1, 1, frozenset({one.schedule_id}), UUID(int=9))
    assert await storage.schedules.open(where, epoch=2, expect_epoch=None) == Rejected(everything)


async def test_a_commit_claims_and_records(storage: Storage, names: Names) -> None:
    first, second = definition(names.client(), tail=1), definition(names.client(), tail=2)
    where = first.partition
    for row in (first, second):
        await storage.schedules.insert(row)
    both = frozenset({first.schedule_id, second.schedule_id})
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    assert await storage.schedules.commit(commit(where, in_flight=both)) == APPLIED
    record = commit(where, version=1, in_flight=frozenset({second.schedule_id}), writes=(delivered(first),))
    assert await storage.schedules.commit(record) == APPLIED
    page = await storage.schedules.read_page(where)
    assert page.header == PartitionHeader(1, 2, frozenset({second.schedule_id}))
    done, waiting = page.rows
    assert (done.state, done.attempts, done.last_status, done.fired_by, done.fired_epoch) == (
        "delivered",
        1,
        200,
        "node-1@7",
        1,
    )
    assert (done.first_attempt_at, done.finished_at, done.next_attempt_at) == (first.due, first.due + 5, None)
    assert waiting.state is None
    assert done.url == first.url


async def test_a_commit_may_open_the_partition(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    claim = commit(one.partition, epoch=3, expect_epoch=None, in_flight=frozenset({one.schedule_id}))
    assert await storage.schedules.commit(claim) == APPLIED
    assert (await storage.schedules.read_page(one.partition)).header == PartitionHeader(
        3, 1, frozenset({one.schedule_id})
    )


async def test_nothing_of_a_stale_owner_applies(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    where = one.partition
    await storage.schedules.insert(one)
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    await storage.schedules.open(where, epoch=2, expect_epoch=1)
    stale = commit(
        where, in_flight=frozenset({one.schedule_id}), writes=(delivered(one),), retry_rows=(_retry_row(one, 7),)
    )
    assert await storage.schedules.commit(stale) == Rejected(WriteRejection(PartitionHeader(2), {}))
    page = await storage.schedules.read_page(where)
    assert page.header == PartitionHeader(2)
    assert [row.state for row in page.rows] == [None]


async def test_a_commit_repeated_unchanged_is_rejected_with_its_own_values(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    await storage.schedules.open(one.partition, epoch=1, expect_epoch=None)
    claim = commit(one.partition, in_flight=frozenset({one.schedule_id}))
    assert await storage.schedules.commit(claim) == APPLIED
    met = PartitionHeader(1, 1, claim.in_flight)
    assert await storage.schedules.commit(claim) == Rejected(WriteRejection(met, {}))


async def test_a_commit_fails_over_an_external_update_it_does_not_know(storage: Storage, names: Names) -> None:
    one, other = definition(names.client(), tail=1), definition(names.client(), tail=2)
    where = one.partition
    for row in (one, other):
        await storage.schedules.insert(row)
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    assert await storage.schedules.update(update(where, 8, cancelled(one))) == APPLIED
    claim = commit(where, in_flight=frozenset({other.schedule_id}))
    assert await storage.schedules.commit(claim) == Rejected(
        WriteRejection(PartitionHeader(1, None, NOBODY, UUID(int=8)), {})
    )
    past = commit(where, in_flight=frozenset({other.schedule_id}), edits_known=False)
    assert await storage.schedules.commit(past) == APPLIED
    knowing = commit(where, version=1, edits=UUID(int=8))
    assert await storage.schedules.commit(knowing) == APPLIED
    assert (await storage.schedules.read_page(where)).header == PartitionHeader(1, 2, NOBODY, UUID(int=8))


async def test_a_commit_past_edits_still_needs_epoch_and_version(storage: Storage, names: Names) -> None:
    where = partition(names.client())
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    for wrong in (commit(where, edits_known=False, version=1), commit(where, edits_known=False, expect_epoch=2)):
        assert await storage.schedules.commit(wrong) == Rejected(WriteRejection(PartitionHeader(1), {}))


async def test_a_commit_with_row_conditions_is_all_or_nothing(storage: Storage, names: Names) -> None:
    """Originals of retry rows are recorded only while they still name the retry row."""
    good, moved, missing = (definition(names.client(), tail=tail) for tail in (1, 2, 3))
    where = good.partition
    at = START + 30_000
    for row in (good, moved):
        await storage.schedules.insert(row)
    assert await storage.schedules.update(update(where, 1, retrying(good, at), retrying(moved, at + 1))) == APPLIED
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    writes = tuple(delivered(row, expect=State.RETRYING, expect_next=at) for row in (good, moved, missing))
    attempt = commit(where, edits=UUID(int=1), writes=(*writes, delivered(definition(names.client(), tail=4))))
    header = PartitionHeader(1, None, NOBODY, UUID(int=1))
    assert await storage.schedules.commit(attempt) == Rejected(
        WriteRejection(
            header,
            {
                good.key: ("retrying", UnixMillis(at)),
                moved.key: ("retrying", UnixMillis(at + 1)),
                missing.key: (None, None),
            },
        )
    )
    page = await storage.schedules.read_page(where)
    assert page.header == header
    assert [row.state for row in page.rows] == ["retrying", "retrying"]
    only = commit(where, edits=UUID(int=1), writes=writes[:1])
    assert await storage.schedules.commit(only) == APPLIED
    final = (await storage.schedules.read_page(where)).rows[0]
    assert (final.state, final.next_attempt_at, final.last_error, final.attempts) == ("delivered", None, None, 1)


async def test_pointer_and_retry_row_in_one_batch(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    where = one.partition
    await storage.schedules.insert(one)
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    retry_row = _retry_row(one, 20_000)
    record = commit(where, writes=(retrying(one, retry_row.due),), retry_rows=(retry_row,))
    assert await storage.schedules.commit(record) == APPLIED
    original, placed = (await storage.schedules.read_page(where)).rows
    assert (original.state, original.next_attempt_at) == ("retrying", retry_row.due)
    assert (placed.key, placed.is_retry_row, placed.state, placed.origin_due) == (retry_row.key, True, None, one.due)


async def test_a_batch_of_many_rows(storage: Storage, names: Names) -> None:
    rows = [definition(names.client(), offset=number, tail=number) for number in range(250)]
    where = rows[0].partition
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    ids = frozenset(row.schedule_id for row in rows)
    record = commit(where, in_flight=ids, writes=tuple(map(delivered, rows)))
    assert await storage.schedules.commit(record) == APPLIED
    page = await storage.schedules.read_page(where)
    assert {row.state for row in page.rows} == {"delivered"}
    assert len(page.rows) == 250
    assert page.header.in_flight == ids


async def test_writes_over_the_bound_are_refused_unsent(storage: Storage, names: Names) -> None:
    one = definition(names.client(), body=bytes(5 * 1024 * 1024))
    where = one.partition
    with pytest.raises(ContentTooLarge):
        await storage.schedules.commit(commit(where, expect_epoch=None, retry_rows=(one, one)))
    elsewhere = definition(names.client(), poller_id=1)
    with pytest.raises(ValueError, match="own partition"):
        await storage.schedules.commit(commit(where, expect_epoch=None, retry_rows=(elsewhere,)))
    assert (await storage.schedules.read_page(where)).header == NO_HEADER


async def test_a_cancel_applies_once(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    where = one.partition
    await storage.schedules.insert(one)
    assert await storage.schedules.update(update(where, 1, cancelled(one))) == APPLIED
    again = await storage.schedules.update(update(where, 2, cancelled(one)))
    met = PartitionHeader(None, None, NOBODY, UUID(int=1))
    assert again == Rejected(WriteRejection(met, {one.key: ("cancelled", None)}))
    page = await storage.schedules.read_page(where)
    assert page.header == met
    assert page.rows[0].state == "cancelled"
    assert page.rows[0].ended


async def test_an_external_update_fails_over_a_commit(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    where = one.partition
    await storage.schedules.insert(one)
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    # Opening is no commit: the version tells whether rows were claimed.
    assert await storage.schedules.update(update(where, 1, cancelled(definition(names.client(), tail=5)))) == APPLIED
    claim = commit(where, edits=UUID(int=1), in_flight=frozenset({one.schedule_id}))
    assert await storage.schedules.commit(claim) == APPLIED
    late = await storage.schedules.update(update(where, 2, cancelled(one)))
    header = PartitionHeader(1, 1, claim.in_flight, UUID(int=1))
    assert late == Rejected(WriteRejection(header, {one.key: (None, None)}))
    knowing = await storage.schedules.update(update(where, 3, cancelled(one), version=1))
    assert knowing == APPLIED


async def test_an_external_update_of_a_retrying_row_needs_no_version(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    where = one.partition
    at = START + 1
    await storage.schedules.update(update(where, 1, retrying(one, at)))
    await storage.schedules.commit(commit(where, expect_epoch=None, edits=UUID(int=1)))
    header = PartitionHeader(1, 1, NOBODY, UUID(int=1))
    wrong = retrying(one, at + 9, expect=State.RETRYING, expect_next=at + 5)
    met = WriteRejection(header, {one.key: ("retrying", UnixMillis(at))})
    assert await storage.schedules.update(update(where, 2, wrong, known=False)) == Rejected(met)
    right = retrying(one, at + 9, expect=State.RETRYING, expect_next=at)
    assert await storage.schedules.update(update(where, 3, right, known=False)) == APPLIED
    page = await storage.schedules.read_page(where)
    assert page.rows[0].next_attempt_at == at + 9
    assert page.header.edits == UUID(int=3)
    assert page.header.version == 1


async def test_a_rejection_shows_the_header_though_the_row_is_missing(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    where = one.partition
    change = retrying(one, START + 9, expect=State.RETRYING, expect_next=START + 5)
    for known in (True, False):
        answer = await storage.schedules.update(update(where, 2, change, known=known))
        assert answer == Rejected(WriteRejection(NO_HEADER, {one.key: (None, None)}))
    await storage.schedules.open(where, epoch=7, expect_epoch=None)
    for known in (True, False):
        answer = await storage.schedules.update(update(where, 2, change, known=known))
        assert answer == Rejected(WriteRejection(PartitionHeader(7), {one.key: (None, None)}))
    await storage.schedules.insert(definition(names.client(), tail=2))
    answer = await storage.schedules.update(update(where, 2, change))
    assert answer == Rejected(WriteRejection(PartitionHeader(7), {one.key: (None, None)}))


async def test_bulk_edits_are_all_or_nothing(storage: Storage, names: Names) -> None:
    rows = [definition(names.client(), offset=number, tail=number) for number in range(20)]
    where = rows[0].partition
    for row in rows:
        await storage.schedules.insert(row)
    assert await storage.schedules.update(update(where, 1, cancelled(rows[7]))) == APPLIED
    answer = await storage.schedules.update(update(where, 2, *map(cancelled, rows)))
    states: dict[object, tuple[str | None, UnixMillis | None]] = {row.key: (None, None) for row in rows}
    states[rows[7].key] = ("cancelled", None)
    assert answer == Rejected(WriteRejection(PartitionHeader(None, None, NOBODY, UUID(int=1)), states))  # type: ignore[arg-type]
    assert await storage.schedules.update(update(where, 3, *map(cancelled, rows[:7] + rows[8:]))) == APPLIED
    page = await storage.schedules.read_page(where)
    assert {row.state for row in page.rows} == {"cancelled"}


async def test_edits_at_once_share_writes_and_each_gets_its_own_answer(storage: Storage, names: Names) -> None:
    """There are more updates than one write holds, of retrying rows; two are too late, and one is for a missing row."""
    client = names.client()
    rows = [definition(client, offset=number, tail=number) for number in range(ROWS_PER_UPDATE + 50)]
    missing = definition(client, offset=999, tail=999)
    where, at = rows[0].partition, START + 90_000
    await storage.schedules.insert_many(rows)
    for start in range(0, len(rows), 100):
        pointed = (retrying(one, at) for one in rows[start : start + 100])
        assert await storage.schedules.update(update(where, 1, *pointed)) == APPLIED
    late = cancelled(rows[3], expect=State.RETRYING)
    assert await storage.schedules.update(update(where, 2, late, known=False)) == APPLIED
    before = _conditional_edits(storage)

    async def end(one: Definition, number: int) -> object:
        write_ = delivered(one, expect=State.RETRYING, expect_next=at)
        return await storage.schedules.update(update(where, number, write_, known=False))

    answers = await asyncio.gather(*(end(one, number + 10) for number, one in enumerate([*rows, missing])))
    assert _conditional_edits(storage) - before <= 6
    assert [answer == APPLIED for answer in answers] == [one is not rows[3] for one in rows] + [False]
    for one, answer, shown in ((rows[3], answers[3], ("cancelled", None)), (missing, answers[-1], (None, None))):
        assert isinstance(answer, Rejected)
        assert isinstance(answer.current, WriteRejection)
        assert answer.current.rows == {one.key: shown}
    page = await storage.schedules.read_page(where)
    assert [row.state for row in page.rows] == [
        "cancelled" if row.key == rows[3].key else "delivered" for row in page.rows
    ]
    assert len(page.rows) == len(rows)


def _conditional_edits(storage: Storage) -> int:
    return sum(
        seconds.count
        for name, seconds in storage.metrics.requests.seconds.items()
        if name.startswith("schedules.update")
    )


async def test_redelivery_clears_the_old_outcome_and_keeps_the_link_and_the_first_sender(
    storage: Storage, names: Names
) -> None:
    one = definition(names.client())
    where = one.partition
    await storage.schedules.insert(one)
    successor = definition(names.client(), tail=77).schedule_id
    full = Outcome(
        state=State.FAILED,
        attempts=10,
        first_attempt_at=one.due,
        next_attempt_at=UnixMillis(1),
        finished_at=UnixMillis(2),
        last_status=500,
        last_error="status",
        reason="exhausted",
        fired_by="n@1",
        fired_epoch=4,
        rescheduled_to=successor,
    )
    assert await storage.schedules.update(update(where, 1, write(one, full, expect=State.SCHEDULED))) == APPLIED
    assert _outcome((await storage.schedules.read_page(where)).rows[0]) == full
    bare = Outcome(state=State.RETRYING, next_attempt_at=UnixMillis(START + 1))
    assert await storage.schedules.update(update(where, 2, write(one, bare, expect=State.FAILED))) == APPLIED
    left = _outcome((await storage.schedules.read_page(where)).rows[0])
    assert left == Outcome(
        state=State.RETRYING,
        next_attempt_at=UnixMillis(START + 1),
        first_attempt_at=one.due,
        fired_by="n@1",
        fired_epoch=4,
        rescheduled_to=successor,
    )


async def test_an_external_update_tests_every_row(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    with pytest.raises(ValueError, match="tests the state"):
        await storage.schedules.update(update(one.partition, 1, cancelled(one, expect=None)))
    with pytest.raises(ValueError, match="writes rows"):
        await storage.schedules.update(update(one.partition, 1))


def _retry_row(one: Definition, offset: int) -> Definition:
    return definition(
        one.client_id,
        offset=offset,
        schedule_id=one.schedule_id,
        kind=Kind.RETRY_ROW,
        origin_due=one.due,
        attempt_base=1,
    )


def _outcome(row: Row) -> Outcome:
    assert row.state is not None
    return Outcome(
        state=State(row.state),
        attempts=row.attempts or 0,
        first_attempt_at=row.first_attempt_at,
        next_attempt_at=row.next_attempt_at,
        finished_at=row.finished_at,
        last_status=row.last_status,
        last_error=row.last_error,
        reason=row.reason,
        fired_by=row.fired_by,
        fired_epoch=row.fired_epoch,
        rescheduled_to=row.rescheduled_to,
    )
