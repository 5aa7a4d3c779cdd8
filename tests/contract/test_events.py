"""Feeds: events come back in the order of their track, and blocks are known before."""

from uuid import UUID

import pytest

from cql.storage import Storage
from scheduler_service.domain.events import Block, Event, StoredBlock, derived_event_id
from scheduler_service.domain.ids import ClientId, RowKey, UnixMillis, derived_schedule_id, partition_of
from tests.contract.builders import definition
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")
_AT = UnixMillis(1_700_000_000_123)


def event(client_id: ClientId, number: int) -> Event:
    schedule = derived_schedule_id(due=_AT, poller_id=3, name=str(number)) if number % 2 else None
    return Event(
        event_id=derived_event_id(client_id, "schedule.delivered", number),
        type="schedule.delivered",
        at=UnixMillis(_AT + number),
        schedule_id=schedule,
        data=f'{{"number":{number},"text":"\u00e9"}}',
    )


async def test_events_come_back_whole_and_in_order(storage: Storage, names: Names) -> None:
    client_id, store = names.client(), storage.events
    block = Block("0003", 7, 0)
    events = [event(client_id, number) for number in range(12)]
    assert await store.read_events(client_id, block, limit=10) == []
    assert await store.last_seq(client_id, block) == -1
    await store.append(client_id, block, first_seq=5, events=events[5:])
    await store.append(client_id, block, first_seq=0, events=events[:5])
    numbered = list(enumerate(events))
    assert await store.last_seq(client_id, block) == 11
    assert await store.read_events(client_id, block, limit=100) == numbered
    assert await store.read_events(client_id, block, after=3, limit=4) == numbered[4:8]
    assert await store.read_events(client_id, block, after=11, limit=4) == []
    await store.append(client_id, block, first_seq=2, events=events[2:4])
    assert await store.read_events(client_id, block, limit=100) == numbered, "a repetition changes nothing"


async def test_blocks_are_apart(storage: Storage, names: Names) -> None:
    client_id, store = names.client(), storage.events
    blocks = [Block("0003", 7, 0), Block("0003", 7, 1), Block("0003", 8, 0), Block("0004", 7, 0)]
    for number, block in enumerate(blocks):
        await store.append(client_id, block, first_seq=0, events=[event(client_id, number)])
    for number, block in enumerate(blocks):
        assert await store.read_events(client_id, block, limit=9) == [(0, event(client_id, number))]
    assert await store.read_events(names.client("-other"), blocks[0], limit=9) == []


async def test_blocks_are_listed_by_track_epoch_and_number(storage: Storage, names: Names) -> None:
    client_id, store = names.client(), storage.events
    built_in = Block("$events/0001", 2, 0)
    mine = [Block("0003", 7, 0), Block("0003", 7, 1), Block("0003", 10, 0), Block("0004", 1, 0), Block("0012", 1, 0)]
    for number, block in enumerate([*reversed(mine), built_in]):
        await store.begin_block(client_id, block, begun_at=UnixMillis(_AT + number))
    begun = {block: UnixMillis(_AT + number) for number, block in enumerate([*reversed(mine), built_in])}
    stored = [StoredBlock(block, begun[block]) for block in mine]
    assert await store.read_blocks(client_id, "0003") == stored[:3]
    assert await store.read_blocks(client_id, "0003", since=mine[1]) == stored[1:3]
    assert await store.read_blocks(client_id, "0003", since=Block("0003", 8, 5)) == stored[2:3]
    assert await store.read_blocks(client_id, "0003", since=Block("0003", 10, 1)) == []
    assert await store.read_blocks(client_id, "0005") == []
    assert await store.list_blocks(client_id, first_track="0000", last_track="0011") == stored[:4]
    assert await store.list_blocks(client_id, first_track="$", last_track="$~") == [
        StoredBlock(built_in, begun[built_in])
    ]
    newest = [stored[2], stored[3], stored[4]]
    assert await store.newest_blocks(client_id, first_track="$", last_track="0012") == [
        StoredBlock(built_in, begun[built_in]),
        *newest,
    ]
    assert await store.newest_blocks(client_id, first_track="0000", last_track="0004") == newest[:2]
    assert await store.newest_blocks(names.client("-other"), first_track="", last_track="~") == []
    assert await store.list_blocks(names.client("-other"), first_track="", last_track="~") == []


async def test_marks_are_beside_what_a_row_has(storage: Storage, names: Names) -> None:
    client_id = names.client()
    rows = [definition(client_id, poller_id=2, tail=number) for number in range(3)]
    partition = partition_of(client_id, rows[0].schedule_id)
    for row in rows:
        await storage.schedules.insert(row)
    keys = [row.key for row in rows]
    before = await storage.schedules.find_rows(partition, keys)
    assert await storage.events.read_marks(partition, keys) == {}
    one, two = UUID(int=1), UUID(int=2)
    await storage.events.mark_rows(partition, {keys[0]: one, keys[2]: one})
    await storage.events.mark_rows(partition, {keys[2]: two})
    await storage.events.mark_rows(partition, {})
    assert await storage.events.read_marks(partition, keys) == {keys[0]: one, keys[2]: two}
    assert await storage.events.read_marks(partition, keys[:2]) == {keys[0]: one}
    assert await storage.events.read_marks(partition, []) == {}
    assert await storage.schedules.find_rows(partition, keys) == before
    unknown = RowKey(keys[0].due, derived_schedule_id(due=keys[0].due, poller_id=2, name="unknown"))
    assert await storage.events.read_marks(partition, [unknown]) == {}
