"""What a client's own key names: it moves only from what was expected."""

import asyncio
from uuid import UUID

import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.schedule_keys import LAST_EXPIRY_MS, KeyHolder, KeyMark
from scheduler_service.runtime.clock import SystemClock
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY = 86_400


def holder(number: int, revision: int = 1) -> KeyHolder:
    return KeyHolder(ScheduleId(UUID(int=number)), revision)


async def test_a_key_moves_from_what_was_expected(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.schedule_keys
    assert await keys.read(client, "k") is None
    assert await keys.take(client, "k", holder(1), expected_revision=None, kept_seconds=DAY) == APPLIED
    again = await keys.take(client, "k", holder(2), expected_revision=None, kept_seconds=DAY)
    assert again == Rejected(holder(1))
    assert await keys.take(client, "k", holder(2, 7), expected_revision=1, kept_seconds=DAY) == APPLIED
    assert await keys.take(client, "k", holder(3, 8), expected_revision=6, kept_seconds=DAY) == Rejected(holder(2, 7))
    assert await keys.read(client, "k") == await keys.read(client, "k", serial=False) == holder(2, 7)


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
    assert await keys.read(names.client("b"), odd) == holder(2)


async def test_of_many_at_once_one_takes_it(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.schedule_keys
    taking = (
        keys.take(client, "k", holder(number), expected_revision=None, kept_seconds=DAY) for number in range(1, 6)
    )
    answers = await asyncio.gather(*taking)
    stored = await keys.read(client, "k")
    assert stored is not None
    assert answers.count(APPLIED) <= 1
    assert all(answer == Rejected(stored) for answer in answers if isinstance(answer, Rejected))
