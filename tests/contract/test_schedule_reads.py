"""Inserting definitions and reading them back: pages, single rows, the header, pointers, the index, retention."""

from uuid import UUID

import pytest
from msgspec.structs import replace

from cql.storage import Storage
from membership.conditional import APPLIED
from scheduler_service.domain.books import AttemptRecord, MinuteBalance
from scheduler_service.domain.errors import ContentTooLarge
from scheduler_service.domain.ids import Minute, Partition, PollerId, RowKey, UnixMillis
from scheduler_service.domain.schedules import NO_CONTENT, NO_HEADER, Kind, Row, State, SweptRow
from tests.contract.builders import (
    MINUTE,
    START,
    cancelled,
    commit,
    definition,
    delivered,
    partition,
    redelivered,
    retrying,
    update,
)
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_every_column_of_a_definition_comes_back(storage: Storage, names: Names) -> None:
    full = definition(
        names.client(),
        offset=59_999,
        poller_id=1023,
        kind=Kind.RETRY_ROW,
        body=bytes(range(256)),
        headers='[["x","é\u2603"]]',
        label="a label",
        ordering_key="key",
        cron_id="nightly",
        nominal_due=UnixMillis(START - 7),
        rescheduled_from=definition(names.client(), tail=99).schedule_id,
        origin_due=UnixMillis(START - 60_001),
        attempt_base=3,
    )
    await storage.schedules.insert(full)
    header, rows = await storage.schedules.read_rows(full.partition, [full.key])
    assert header == NO_HEADER
    row = rows[full.key]
    for name in (name for name in full.__struct_fields__ if name not in ("client_id", "poller_id")):
        assert getattr(row, name) == getattr(full, name), name
    assert row.defined
    assert row.is_retry_row
    assert row.state is None
    assert not row.ended


async def test_what_was_not_given_is_null(storage: Storage, names: Names) -> None:
    plain = definition(names.client(), body=b"")
    await storage.schedules.insert(plain)
    row = (await storage.schedules.read_page(plain.partition)).rows[0]
    assert row.body == b""
    assert row.attempt_base == 0
    assert row.kind == Kind.CALL
    assert (row.label, row.ordering_key, row.cron_id, row.nominal_due, row.origin_due) == (None,) * 5
    assert (row.rescheduled_from, row.attempts, row.next_attempt_at, row.rescheduled_to) == (None,) * 4


async def test_repeating_an_insert_changes_nothing(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    await storage.schedules.insert(one)
    assert await storage.schedules.update(update(one.partition, 1, cancelled(one))) == APPLIED
    before = await storage.schedules.read_page(one.partition)
    await storage.schedules.insert(one)
    assert await storage.schedules.read_page(one.partition) == before
    assert before.rows[0].state == State.CANCELLED


async def test_pages_are_in_key_order_and_complete(storage: Storage, names: Names) -> None:
    rows = [definition(names.client(), offset=offset, tail=tail) for offset in (5, 0, 9_000) for tail in (3, 1, 2)]
    for one in rows:
        await storage.schedules.insert(one)
    expected = sorted(one.key for one in rows)
    where = partition(names.client())
    whole = await storage.schedules.read_page(where)
    assert [row.key for row in whole.rows] == expected
    assert not whole.more
    exact = await storage.schedules.read_page(where, limit=9)
    assert len(exact.rows) == 9
    assert exact.more
    collected: list[RowKey] = []
    after = None
    while True:
        page = await storage.schedules.read_page(where, after=after, limit=4)
        collected += [row.key for row in page.rows]
        if not page.more:
            break
        after = page.rows[-1].key
    assert collected == expected


async def test_partitions_are_apart(storage: Storage, names: Names) -> None:
    one = definition(names.client(), tail=1)
    others = [
        definition(names.client(), poller_id=1),
        definition(names.client("-b")),
        definition(names.client(), offset=60_000),
    ]
    for row in (one, *others):
        await storage.schedules.insert(row)
    assert [row.key for row in (await storage.schedules.read_page(one.partition)).rows] == [one.key]


async def test_an_empty_partition_has_neither_rows_nor_a_header(storage: Storage, names: Names) -> None:
    where = partition(names.client())
    page = await storage.schedules.read_page(where)
    assert (page.header, page.rows, page.more) == (NO_HEADER, [], False)
    key = definition(names.client()).key
    for serial in (False, True):
        assert await storage.schedules.read_rows(where, [key], serial=serial) == (NO_HEADER, {})
        assert await storage.schedules.read_rows(where, [key, key._replace(due=UnixMillis(1))], serial=serial) == (
            NO_HEADER,
            {},
        )
        assert await storage.schedules.read_rows(where, [], serial=serial) == (NO_HEADER, {})


async def test_a_header_without_rows_is_seen_by_every_read(storage: Storage, names: Names) -> None:
    """An owner opened an empty partition and committed to it: the server returns a row of null keys, or none."""
    where = partition(names.client())
    gone = definition(names.client())
    assert await storage.schedules.open(where, epoch=4, expect_epoch=None) == APPLIED
    claimed = frozenset({gone.schedule_id})
    assert await storage.schedules.commit(commit(where, epoch=4, expect_epoch=4, in_flight=claimed)) == APPLIED
    first = await storage.schedules.read_page(where)
    for page in (first, await storage.schedules.read_page(where, after=gone.key)):
        assert page.rows == []
        assert not page.more
        assert (page.header.claim_epoch, page.header.version, page.header.in_flight) == (4, 1, claimed)
    for keys in ([], [gone.key], [gone.key, gone.key._replace(due=UnixMillis(1))]):
        header, rows = await storage.schedules.read_rows(where, keys, serial=True)
        assert rows == {}
        assert header == first.header


async def test_a_page_behind_the_last_row_still_has_the_header(storage: Storage, names: Names) -> None:
    one = definition(names.client())
    await storage.schedules.insert(one)
    assert await storage.schedules.open(one.partition, epoch=2, expect_epoch=None) == APPLIED
    page = await storage.schedules.read_page(one.partition, after=one.key)
    assert page.rows == []
    assert page.header.claim_epoch == 2


async def test_many_rows_by_key(storage: Storage, names: Names) -> None:
    """More keys than one request carries, existing and missing ones mixed, given twice."""
    rows = [definition(names.client(), offset=number, tail=number) for number in range(230)]
    for one in rows[::2]:
        await storage.schedules.insert(one)
    where = partition(names.client())
    ids = frozenset(one.schedule_id for one in rows[:3])
    assert await storage.schedules.open(where, epoch=1, expect_epoch=None) == APPLIED
    assert await storage.schedules.commit(commit(where, in_flight=ids)) == APPLIED
    for serial in (False, True):
        header, found = await storage.schedules.read_rows(where, [one.key for one in rows + rows], serial=serial)
        assert set(found) == {one.key for one in rows[::2]}
        assert all(found[key].key == key for key in found)
        assert (header.version, header.in_flight) == (1, ids)
        assert await storage.schedules.find_rows(where, [one.key for one in rows + rows], serial=serial) == found
        assert await storage.schedules.find_rows(where, [rows[1].key], serial=serial) == {}


async def test_a_single_row_comes_with_the_header(storage: Storage, names: Names) -> None:
    one, other = definition(names.client(), tail=1), definition(names.client(), tail=2)
    await storage.schedules.insert(one)
    await storage.schedules.open(one.partition, epoch=1, expect_epoch=None)
    await storage.schedules.commit(commit(one.partition, in_flight=frozenset({other.schedule_id})))
    for serial in (False, True):
        header, rows = await storage.schedules.read_rows(one.partition, [one.key], serial=serial)
        assert list(rows) == [one.key]
        assert header.in_flight == {other.schedule_id}
        assert header.claim_epoch == 1


async def test_lean_rows_and_their_content_are_the_rows(storage: Storage, names: Names) -> None:
    """A complete row, one with an outcome, a pointer, and more rows than one request carries; none with its content."""
    made = [definition(names.client(), offset=number, tail=number, label=f"l{number}") for number in range(130)]
    for one in made[1:]:
        await storage.schedules.insert(one)
    where, ids = made[0].partition, frozenset({made[5].schedule_id})
    edits = (retrying(made[0], START + 90_000), cancelled(made[1]))
    assert await storage.schedules.update(update(where, 1, *edits)) == APPLIED
    assert await storage.schedules.open(where, epoch=1, expect_epoch=None) == APPLIED
    seen = (await storage.schedules.read_page(where)).header
    claimed = commit(where, in_flight=ids, edits=seen.edits, writes=(delivered(made[2]),))
    assert await storage.schedules.commit(claimed) == APPLIED
    whole = await storage.schedules.read_page(where)
    keys = [row.key for row in whole.rows]
    assert len(keys) == 130
    lean = await storage.schedules.read_page(where, lean=True)
    assert (lean.header, lean.more) == (whole.header, False)
    assert lean.header.in_flight == ids
    assert [row.filled(NO_CONTENT) for row in whole.rows] == lean.rows
    behind = await storage.schedules.read_page(where, after=keys[9], limit=20, lean=True)
    assert (behind.header, behind.rows, behind.more) == (whole.header, lean.rows[10:30], True)
    found = await storage.schedules.find_rows(where, keys + keys, lean=True)
    assert [found[key] for key in keys] == lean.rows
    content = await storage.schedules.read_content(where, keys + keys)
    assert [row.filled(content[row.key]) for row in lean.rows] == whole.rows
    for wanted in (keys, keys[5:6], keys[129:]):
        for serial in (False, True):
            read = await storage.schedules.read_rows(where, wanted, serial=serial, lean=True)
            assert read == (whole.header, {row.key: row for row in lean.rows if row.key in wanted})
    nobody = definition(names.client(), offset=500).key
    assert await storage.schedules.read_content(where, [nobody]) == {}
    assert await storage.schedules.find_rows(where, [nobody], lean=True) == {}


async def test_a_lean_page_of_a_header_alone(storage: Storage, names: Names) -> None:
    where = partition(names.client())
    assert (await storage.schedules.read_page(where, lean=True)).header == NO_HEADER
    assert await storage.schedules.open(where, epoch=4, expect_epoch=None) == APPLIED
    page = await storage.schedules.read_page(where, lean=True)
    assert (page.header.claim_epoch, page.rows, page.more) == (4, [], False)
    key = definition(names.client()).key
    assert await storage.schedules.read_content(where, [key]) == {}


async def test_an_owner_s_pages_are_the_rows_as_far_as_they_go(storage: Storage, names: Names) -> None:
    """They include every form of outcome, a pointer and an announced row; only the first page has the header."""
    made = [
        definition(names.client(), offset=number, tail=number, ordering_key="k" if number % 2 else None)
        for number in range(8)
    ]
    pointer, announced = made[6], replace(made[7], created_at=None, rescheduled_from=made[0].schedule_id)
    for one in (*made[:6], announced):
        await storage.schedules.insert(one)
    where = partition(names.client())
    edits = (retrying(made[0], START + 90_000), cancelled(made[1]), retrying(pointer, START + 80_000))
    assert await storage.schedules.update(update(where, 1, *edits)) == APPLIED
    ids = frozenset({made[3].schedule_id})
    record = commit(where, expect_epoch=None, edits=UUID(int=1), in_flight=ids, writes=(delivered(made[2]),))
    assert await storage.schedules.commit(record) == APPLIED
    again = redelivered(made[2], START + 70_000, expect=State.DELIVERED, ended_at=made[2].due + 5)
    assert await storage.schedules.update(update(where, 2, again, known=False)) == APPLIED
    whole = await storage.schedules.read_page(where)
    to_call, swept = await storage.schedules.read_to_call(where), await storage.schedules.sweep_page(where)
    assert whole.header == to_call.header == swept.header
    assert whole.header.in_flight == ids
    defined = Row.__struct_fields__[: Row.__struct_fields__.index("attempts")]
    for row, called, settled in zip(whole.rows, to_call.rows, swept.rows, strict=True):
        for name in (*defined, "next_attempt_at", "reason", "redelivered_at"):
            assert getattr(called, name) == getattr(row, name), name
        assert (called.attempts, called.finished_at, called.fired_by) == (None, None, None)
        assert settled == SweptRow(*(getattr(row, name) for name in SweptRow._fields))
    for read, page in ((storage.schedules.read_to_call, to_call), (storage.schedules.sweep_page, swept)):
        behind = await read(where, after=whole.rows[2].key, limit=3)
        assert (behind.header, behind.rows, behind.more) == (NO_HEADER, page.rows[3:6], True)
        assert (await read(where, after=whole.rows[7].key)).rows == []


async def test_an_owner_s_pages_of_a_header_alone(storage: Storage, names: Names) -> None:
    where = partition(names.client())
    for opened in (None, 4):
        if opened is not None:
            assert await storage.schedules.open(where, epoch=opened, expect_epoch=None) == APPLIED
        for page in (await storage.schedules.read_to_call(where), await storage.schedules.sweep_page(where)):
            assert (page.header.claim_epoch, page.rows, page.more) == (opened, [], False)


async def test_a_pointer_precedes_its_definition(storage: Storage, names: Names) -> None:
    """An outcome alone makes a row; the definition is added later and leaves the outcome unchanged."""
    one = definition(names.client())
    at = START + 9_000
    assert await storage.schedules.update(update(one.partition, 1, retrying(one, at))) == APPLIED
    pointer = (await storage.schedules.read_page(one.partition)).rows[0]
    assert (pointer.key, pointer.defined, pointer.state, pointer.next_attempt_at) == (
        one.key,
        False,
        State.RETRYING,
        at,
    )
    assert (pointer.kind, pointer.url, pointer.body, pointer.attempt_base) == (None,) * 4
    await storage.schedules.insert(one)
    _, rows = await storage.schedules.read_rows(one.partition, [one.key], serial=True)
    joined = rows[one.key]
    assert joined.defined
    assert (joined.state, joined.next_attempt_at, joined.last_error) == ("retrying", at, "timeout")


async def test_many_hours_of_the_index_are_read_with_one_request(storage: Storage, names: Names) -> None:
    client, reads = names.client(), storage.schedules
    offsets = (0, 59, 60, 60 * 24 * 2, 60 * 99)
    for at in offsets:
        await reads.occupy(Partition(client, PollerId(at % 7), Minute(MINUTE + at)))
    await reads.occupy(Partition(names.client("-other"), PollerId(0), Minute(MINUTE)))
    begin = Minute(MINUTE - MINUTE % 60)
    last = Minute(begin + 100 * 60 - 1)
    span = {MINUTE + at: [at % 7] for at in offsets if MINUTE + at <= last}
    assert len(span) >= 4
    assert await reads.occupied_over(client, first=begin, last=last) == span
    found = await reads.occupied_over(client, first=Minute(MINUTE + 59), last=Minute(MINUTE + 60))
    assert found == {MINUTE + 59: [59 % 7], MINUTE + 60: [60 % 7]}
    assert await reads.occupied_over(client, first=Minute(MINUTE + 1), last=Minute(MINUTE + 58)) == {}
    with pytest.raises(ValueError, match="100 hours"):
        await reads.occupied_over(client, first=begin, last=Minute(last + 1))


async def test_minutes_are_remembered_for_their_order(storage: Storage, names: Names) -> None:
    client, schedules = names.client(), storage.schedules
    for poller_id, offset in ((1, 7), (1, 70), (1, 7), (1, 0), (2, 9)):
        await schedules.mark_ordered(Partition(client, PollerId(poller_id), Minute(MINUTE + offset)))
    assert await schedules.ordered_after(client, PollerId(1), Minute(MINUTE)) == [MINUTE + 7, MINUTE + 70]
    assert await schedules.ordered_after(client, PollerId(1), Minute(MINUTE + 70)) == []
    assert await schedules.ordered_after(names.client("-other"), PollerId(1), Minute(MINUTE)) == []
    await schedules.delete_partition(Partition(client, PollerId(1), Minute(MINUTE + 7)))
    assert await schedules.ordered_after(client, PollerId(1), Minute(MINUTE)) == [MINUTE + 70]
    assert await schedules.ordered_after(client, PollerId(2), Minute(MINUTE)) == [MINUTE + 9]


async def test_the_index_names_occupied_pollers_by_minute(storage: Storage, names: Names) -> None:
    client = names.client()
    for offset, poller_id in ((0, 0), (30_000, 0), (0, 7), (60_000, 1), (3_600_000, 2), (-60_000, 3)):
        await storage.schedules.insert(definition(client, offset=offset, poller_id=poller_id))
    await storage.schedules.occupy(definition(client, offset=60_000, poller_id=4).partition)
    found = await storage.schedules.occupied(client, first=Minute(MINUTE), last=Minute(MINUTE + 60))
    assert found == {MINUTE: [0, 7], MINUTE + 1: [1, 4], MINUTE + 60: [2]}
    assert await storage.schedules.occupied(client, first=Minute(MINUTE - 1), last=Minute(MINUTE - 1)) == {
        MINUTE - 1: [3]
    }
    assert await storage.schedules.occupied(client, first=Minute(MINUTE + 2), last=Minute(MINUTE + 59)) == {}
    assert await storage.schedules.occupied(client, first=Minute(MINUTE), last=Minute(MINUTE - 1)) == {}
    assert await storage.schedules.occupied(names.client("-b"), first=Minute(MINUTE), last=Minute(MINUTE)) == {}


async def test_the_index_over_days(storage: Storage, names: Names) -> None:
    client = names.client()
    for offset in (0, 86_400_000, 2 * 86_400_000):
        await storage.schedules.insert(definition(client, offset=offset))
    last = Minute(MINUTE + 2 * 1440)
    found = await storage.schedules.occupied(client, first=Minute(MINUTE), last=last)
    assert list(found) == [MINUTE, MINUTE + 1440, last]


async def test_deleting_a_partition_deletes_all_that_belongs_to_it(storage: Storage, names: Names) -> None:
    client = names.client()
    one, kept = definition(client), definition(client, poller_id=1)
    for row in (one, kept):
        await storage.schedules.insert(row)
    where = one.partition
    await storage.schedules.open(where, epoch=1, expect_epoch=None)
    await storage.schedules.commit(commit(where, writes=(delivered(one),)))
    attempt = AttemptRecord(
        client_id=client,
        schedule_id=one.schedule_id,
        attempt=1,
        started_at=one.due,
        status=500,
        error=None,
        duration_ms=3,
        excerpt="no",
    )
    await storage.attempts.record([attempt])
    balance = MinuteBalance(
        client_id=client,
        poller_id=PollerId(0),
        minute=where.minute,
        accepted=1,
        delivered=1,
        failed=0,
        cancelled=0,
        skipped=0,
        open=0,
        epoch=1,
    )
    assert await storage.balances.write(balance) == APPLIED
    for _ in range(2):
        await storage.schedules.delete_partition(where)
        page = await storage.schedules.read_page(where)
        assert (page.header, page.rows) == (NO_HEADER, [])
        assert await storage.attempts.read(client, one.schedule_id) == []
        assert await storage.balances.read(client, first=where.minute, last=where.minute) == []
        assert await storage.schedules.occupied(client, first=where.minute, last=where.minute) == {where.minute: [1]}
    assert len((await storage.schedules.read_page(kept.partition)).rows) == 1


async def test_a_row_that_no_request_can_carry_is_refused(storage: Storage, names: Names) -> None:
    with pytest.raises(ContentTooLarge):
        await storage.schedules.insert(definition(names.client(), body=bytes(9 * 1024 * 1024)))
    assert await storage.schedules.occupied(names.client(), first=Minute(MINUTE), last=Minute(MINUTE)) == {}


async def test_unfinished_rows_are_those_due_and_without_outcome(storage: Storage, names: Names) -> None:
    rows = [definition(names.client(), offset=1_000 * number, tail=number) for number in range(6)]
    for row in rows[:5]:
        await storage.schedules.insert(row)
    where = rows[0].partition
    count = storage.schedules.count_unfinished
    assert await count(partition(names.client("-none")), due_until=START + 60_000, limit=10) == (0, 0, False)
    assert await count(where, due_until=START + 60_000, limit=10) == (5, 5, False)
    assert await count(where, due_until=START + 2_000, limit=10) == (3, 3, False)
    assert await count(where, due_until=START + 60_000, limit=2) == (2, 2, True)
    edits = (cancelled(rows[0]), retrying(rows[1], START + 90_000))
    assert await storage.schedules.update(update(where, 1, *edits)) == APPLIED
    pointer = retrying(rows[5], START + 90_000)
    assert await storage.schedules.update(update(where, 2, pointer)) == APPLIED
    assert await count(where, due_until=START + 60_000, limit=10) == (3, 6, False)


async def test_a_partition_that_has_a_header_only_has_no_unfinished_row(storage: Storage, names: Names) -> None:
    where = partition(names.client())
    assert await storage.schedules.open(where, epoch=1, expect_epoch=None) == APPLIED
    assert await storage.schedules.count_unfinished(where, due_until=START + 60_000, limit=10) == (0, 0, False)
