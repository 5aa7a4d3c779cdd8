"""A schedule key's row changes only from the value that the writer expects."""

import asyncio
from uuid import UUID

import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.schedule_keys import LAST_EXPIRY_MS, KeyHolder, KeyMark, KeyRow
from scheduler_service.runtime.clock import SystemClock
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY = 86_400


def holder(number: int, revision: int = 1) -> KeyHolder:
    return KeyHolder(ScheduleId(UUID(int=number)), revision)


async def test_a_key_moves_from_what_was_expected(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.schedule_keys
    assert await keys.read(client, "k") == KeyRow()
    assert await keys.take(client, "k", holder(1), expected_revision=None, kept_seconds=DAY) == APPLIED
    again = await keys.take(client, "k", holder(2), expected_revision=None, kept_seconds=DAY)
    assert again == Rejected(holder(1))
    assert await keys.take(client, "k", holder(2, 7), expected_revision=1, kept_seconds=DAY) == APPLIED
    assert await keys.take(client, "k", holder(3, 8), expected_revision=6, kept_seconds=DAY) == Rejected(holder(2, 7))
    assert await keys.read(client, "k") == await keys.read(client, "k", serial=False) == KeyRow(holder(2, 7))


async def test_the_latest_replacement_decides_where_a_key_is_ahead(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.schedule_keys
    now = SystemClock().wall_ms()
    assert await keys.take(client, "k", holder(1, now), expected_revision=None, kept_seconds=DAY) == APPLIED
    for number in (3, 2, 4, 3):
        await keys.go_ahead(client, "k", holder(number, now + number), base=now, kept_seconds=DAY)
    read = await keys.read(client, "k")
    assert read == await keys.read(client, "k", serial=False) == KeyRow(holder(1, now), holder(4).schedule_id)
    assert (read.names, read.base) == (holder(4).schedule_id, now)


async def test_what_is_ahead_counts_no_more_when_the_key_is_taken_again(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.schedule_keys
    assert await keys.take(client, "k", holder(1, 10), expected_revision=None, kept_seconds=DAY) == APPLIED
    await keys.go_ahead(client, "k", holder(2, 11), base=10, kept_seconds=DAY)
    assert await keys.take(client, "k", holder(3, 12), expected_revision=10, kept_seconds=DAY) == APPLIED
    await keys.go_ahead(client, "k", holder(2, 13), base=10, kept_seconds=DAY)
    assert await keys.read(client, "k") == KeyRow(holder(3, 12))


async def test_what_is_ahead_counts_when_what_took_the_key_is_forgotten(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.schedule_keys
    await keys.go_ahead(client, "k", holder(2, 11), base=10, kept_seconds=DAY)
    read = await keys.read(client, "k")
    assert (read, read.names, read.base) == (KeyRow(None, holder(2).schedule_id), holder(2).schedule_id, 0)
    assert await keys.take(client, "k", holder(3, 12), expected_revision=None, kept_seconds=DAY) == APPLIED
    assert (await keys.read(client, "k")).names == holder(3).schedule_id


async def test_an_expected_revision_of_a_key_that_names_nothing(storage: Storage, names: Names) -> None:
    taken = storage.schedule_keys.take(names.client(), "k", holder(1), expected_revision=1, kept_seconds=DAY)
    assert await taken == Rejected(None)


async def test_keys_are_each_clients_own(storage: Storage, names: Names) -> None:
    keys, odd, now = storage.schedule_keys, "~" * 256, SystemClock().wall_ms()
    mark = KeyMark(name=odd, revision=1, put_at=UnixMillis(now), kept_days=98)
    longest = mark.kept_seconds(due=LAST_EXPIRY_MS + DAY * 1000, now=now)
    for number, client in enumerate((names.client("a"), names.client("b")), 1):
        taken = keys.take(client, odd, holder(number), expected_revision=None, kept_seconds=longest)
        assert await taken == APPLIED
    assert await keys.read(names.client("b"), odd) == KeyRow(holder(2))


async def test_one_of_concurrent_takers_gets_a_schedule_key(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.schedule_keys
    taking = (
        keys.take(client, "k", holder(number), expected_revision=None, kept_seconds=DAY) for number in range(1, 6)
    )
    answers = await asyncio.gather(*taking)
    stored = (await keys.read(client, "k")).taken
    assert stored is not None
    assert answers.count(APPLIED) <= 1
    assert all(answer == Rejected(stored) for answer in answers if isinstance(answer, Rejected))


async def test_keys_that_are_read_and_written_at_the_same_moment(storage: Storage, names: Names) -> None:
    clients, keys, now = (names.client("a"), names.client("b")), storage.schedule_keys, SystemClock().wall_ms()
    asked = [(client, f"k-{number % 90}") for client in clients for number in range(100)]
    writes = [
        keys.go_ahead(client, key, holder(number, now + number), base=1, kept_seconds=DAY)
        for number, (client, key) in enumerate(asked, 1)
        if key != "k-7"
    ]
    await asyncio.gather(*writes)
    latest = {one: holder(number).schedule_id for number, one in enumerate(asked, 1)}
    read = await asyncio.gather(*(keys.read(client, key, serial=False) for client, key in asked))
    assert read == [KeyRow(None, None if one[1] == "k-7" else latest[one]) for one in asked]
