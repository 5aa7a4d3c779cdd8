"""Reconciliations, their slots, and the pages that they read."""

from uuid import UUID

import msgspec
import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.ids import ClientId, CronId, Minute, RowKey, ScheduleId, UnixMillis
from scheduler_service.domain.reconciliations import (
    SLOT_BUCKETS,
    Action,
    Progress,
    ReconciledSchedule,
    Reconciliation,
    ReconciliationId,
    ReconciliationState,
    ReviewPage,
    Seen,
    Slot,
    advanced,
    asked_at,
    closed,
    new_reconciliation_id,
    stopped,
)
from scheduler_service.domain.schedule_filters import ScheduleFilter
from scheduler_service.domain.schedules import Kind, State
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.builders import MINUTE, START, commit, definition, delivered, partition, redelivered, update
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")
LAST = Minute(MINUTE + 9)


def asked(client_id: ClientId, *, at: int = START) -> Reconciliation:
    return Reconciliation(
        client_id=client_id,
        reconciliation_id=new_reconciliation_id(at=at, randomness=SystemRandomness()),
        action=Action.REDELIVER,
        start=UnixMillis(START),
        end=UnixMillis(START + 3_600_000),
        states=(State.FAILED, State.SKIPPED),
        created_at=UnixMillis(at),
        created_by="ops",
        progress=Progress(minute=Minute(MINUTE)),
        updated_at=UnixMillis(at),
    )


async def test_what_was_asked_for_may_be_inserted_again(storage: Storage, names: Names) -> None:
    one, store = asked(names.client()), storage.reconciliations
    assert await store.read(one.client_id, one.reconciliation_id) is None
    before = await store.changes()
    await store.insert(one)
    await store.insert(one)
    assert await store.read(one.client_id, one.reconciliation_id) == one
    assert await store.changes() > before
    further = advanced(one, following=None, seen={}, outcomes={}, lead=7, at=START + 5)
    assert await store.write(further, expected_version=None) == APPLIED
    await store.insert(one)
    assert await store.read(one.client_id, one.reconciliation_id, serial=True) == further


async def test_a_filter_is_kept(storage: Storage, names: Names) -> None:
    filter_ = ScheduleFilter(labels=("ä", "b"), cron_id=CronId("c"), destination="d", host="e", key_prefix="f")
    one = msgspec.structs.replace(asked(names.client()), filter=filter_)
    await storage.reconciliations.insert(one)
    assert await storage.reconciliations.read(one.client_id, one.reconciliation_id) == one
    assert await storage.reconciliations.read_newest(one.client_id) == [one]


async def test_of_two_writes_from_one_version_one_is_applied(storage: Storage, names: Names) -> None:
    one, store = asked(names.client()), storage.reconciliations
    await store.insert(one)
    position = RowKey(UnixMillis(START + 5), ScheduleId(UUID(int=5 << 70)))
    first = advanced(
        one,
        following=(Minute(MINUTE + 1), position),
        seen={State.FAILED: 2, State.RETRYING: 1},
        outcomes={Seen.REDELIVERED: 2, Seen.IN_FLIGHT: 1},
        lead=START + 9,
        at=START + 10,
    )
    other = advanced(one, following=(Minute(MINUTE + 2), None), seen={}, outcomes={}, lead=0, at=START + 11)
    assert await store.write(first, expected_version=None) == APPLIED
    assert await store.write(other, expected_version=None) == Rejected(first)
    found = await store.read(one.client_id, one.reconciliation_id)
    assert found == first
    assert found is not None
    assert (found.version, found.progress.after, found.running) == (1, position, True)
    ended = stopped(first, at=START + 20)
    assert await store.write(ended, expected_version=1) == APPLIED
    assert await store.write(other, expected_version=1) == Rejected(ended)
    final = closed(ended, seen={State.FAILED: 3}, outcomes={Seen.REDELIVERED: 3}, at=START + 30)
    assert await store.write(final, expected_version=2) == APPLIED
    found = await store.read(one.client_id, one.reconciliation_id)
    assert found == final
    assert found is not None
    assert (found.state, found.settled) == (ReconciliationState.STOPPED, True)
    assert found.progress.seen == {State.FAILED: 5, State.RETRYING: 1}


async def test_an_outcome_without_its_reconciliation_is_hidden(storage: Storage, names: Names) -> None:
    one, store = asked(names.client()), storage.reconciliations
    assert await store.write(stopped(one, at=START), expected_version=None) == APPLIED
    assert await store.read(one.client_id, one.reconciliation_id) is None
    assert await store.read_newest(one.client_id) == []


async def test_the_newest_come_first(storage: Storage, names: Names) -> None:
    client, store = names.client(), storage.reconciliations
    made = [asked(client, at=START + offset) for offset in (0, 1, 255, 256, 1 << 33)]
    for one in (made[3], made[0], made[4], made[2], made[1]):
        await store.insert(one)
    await store.insert(asked(names.client("-other")))
    assert await store.read_newest(client) == made[::-1]
    assert await store.read_newest(client, limit=2) == made[:2:-1]
    assert await store.read_newest(client, before=made[3].reconciliation_id, limit=2) == [made[2], made[1]]
    assert await store.read_newest(client, before=made[0].reconciliation_id) == []
    assert [asked_at(one.reconciliation_id) for one in made] == [one.created_at for one in made]
    assert {one.reconciliation_id.version for one in made} == {7}


async def test_a_slot_is_taken_from_its_last_holder(storage: Storage, names: Names) -> None:
    client, store = names.client(), storage.reconciliations
    first, second, third = (asked(client, at=START + number).reconciliation_id for number in range(3))
    assert await store.read_slots(client) == {}
    assert await store.take_slot(Slot(client, 0, first), expected=None) == APPLIED
    assert await store.take_slot(Slot(client, 0, second), expected=None) == Rejected(None)
    assert await store.take_slot(Slot(client, 7, second), expected=None) == APPLIED
    assert await store.take_slot(Slot(client, 0, third), expected=second) == Rejected(None)
    assert await store.take_slot(Slot(client, 0, third), expected=first) == APPLIED
    assert await store.read_slots(client) == {0: third, 7: second}
    other = names.client("-other")
    assert await store.take_slot(Slot(other, 0, first), expected=None) == APPLIED
    listed = [slot for bucket in range(SLOT_BUCKETS) for slot in await store.list_slots(bucket)]
    ours: dict[tuple[ClientId, int], ReconciliationId] = {
        (slot.client_id, slot.number): slot.holder for slot in listed if slot.client_id in (client, other)
    }
    assert ours == {(client, 0): third, (client, 7): second, (other, 0): first}


async def test_what_was_done_to_schedules_is_kept_by_minute_and_never_taken_back(
    storage: Storage, names: Names
) -> None:
    one, store = asked(names.client()), storage.reconciliations
    of = (one.client_id, one.reconciliation_id)
    ids = [definition(one.client_id, tail=tail).schedule_id for tail in range(5)]
    done = [ReconciledSchedule(UnixMillis(START), id_, Seen.REDELIVERED) for id_ in ids[:2]]
    left = ReconciledSchedule(UnixMillis(START + 9), ids[2], Seen.REFUSED, "too large: ä")
    later = ReconciledSchedule(UnixMillis(START + 120_000), ids[3], Seen.OPEN, "retrying")
    assert await store.reconciled_minutes(*of, first=Minute(0), last=LAST, limit=9) == []
    await store.write_reconciled(one, [])
    await store.write_reconciled(one, [later, left, *done])
    await store.write_reconciled(one, [ReconciledSchedule(*done[0].key, Seen.CHANGED, "delivered"), later])
    assert await store.read_reconciled(*of, Minute(MINUTE)) == [*done, left]
    assert await store.read_reconciled(*of, Minute(MINUTE), limit=2) == done
    assert await store.read_reconciled(*of, Minute(MINUTE), after=done[0].key, limit=2) == [done[1], left]
    assert await store.read_reconciled(*of, Minute(MINUTE), after=left.key) == []
    for outcome, reason in ((Seen.OPEN, "scheduled"), (Seen.GONE, None)):
        await store.write_reconciled(one, [ReconciledSchedule(*later.key, outcome, reason)])
    assert await store.read_reconciled(*of, Minute(MINUTE + 2)) == [ReconciledSchedule(*later.key, Seen.GONE)]
    await store.write_reconciled(one, [ReconciledSchedule(*later.key, Seen.REDELIVERED)])
    assert await store.read_reconciled(*of, Minute(MINUTE + 2)) == [ReconciledSchedule(*later.key, Seen.REDELIVERED)]
    assert await store.reconciled_minutes(*of, first=Minute(0), last=LAST, limit=9) == [MINUTE, MINUTE + 2]
    assert await store.reconciled_minutes(*of, first=Minute(MINUTE), last=Minute(MINUTE + 1), limit=9) == [MINUTE]
    assert await store.reconciled_minutes(*of, first=Minute(0), last=LAST, limit=1) == [MINUTE]
    assert await store.reconciled_minutes(*of, first=Minute(MINUTE + 1), last=LAST, limit=9) == [MINUTE + 2]
    other = asked(one.client_id, at=START + 1)
    of_other = (other.client_id, other.reconciliation_id)
    assert await store.reconciled_minutes(*of_other, first=Minute(0), last=LAST, limit=9) == []
    cancels = msgspec.structs.replace(other, action=Action.CANCEL)
    for outcome in (Seen.IN_FLIGHT, Seen.CANCELLED, Seen.IN_FLIGHT):
        await store.write_reconciled(cancels, [ReconciledSchedule(UnixMillis(START), ids[4], outcome)])
    (found,) = await store.read_reconciled(*of_other, Minute(MINUTE))
    assert found == ReconciledSchedule(UnixMillis(START), ids[4], Seen.CANCELLED)


async def test_pages_for_review_have_what_tells_whether_a_row_was_handled(storage: Storage, names: Names) -> None:
    client = names.client()
    where = partition(client)
    assert await storage.schedules.review_page(where) == ReviewPage([], False)
    first, second = definition(client, tail=1), definition(client, offset=9, tail=2)
    first = msgspec.structs.replace(first, label="x", cron_id=CronId("nightly"))
    retry_row = msgspec.structs.replace(
        definition(client, offset=9, tail=3), kind=Kind.RETRY_ROW, origin_due=UnixMillis(START)
    )
    for one in (retry_row, second, first):
        await storage.schedules.insert(one)
    record = commit(first.partition, expect_epoch=None, writes=(delivered(first), delivered(second)))
    assert await storage.schedules.commit(record) == APPLIED
    again = redelivered(first, first.due + 900, expect=State.DELIVERED, ended_at=first.due + 5)
    assert await storage.schedules.update(update(first.partition, 3, again, known=False)) == APPLIED
    page = await storage.schedules.review_page(first.partition, limit=2)
    assert page.more
    assert [(row.label, row.cron_id) for row in page.rows] == [("x", "nightly"), (second.label, None)]
    assert [(row.key, row.shown_state, row.finished_at, row.redelivered_at, row.original) for row in page.rows] == [
        (first.key, "retrying", None, first.due + 900, True),
        (second.key, "delivered", second.due + 5, None, True),
    ]
    page = await storage.schedules.review_page(first.partition, after=second.key, limit=2)
    assert [(row.key, row.shown_state, row.original) for row in page.rows] == [(retry_row.key, "scheduled", False)]
    assert not page.more
