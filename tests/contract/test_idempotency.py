"""Under an idempotency key the first request is kept, and no later one."""

import asyncio
from uuid import UUID

import pytest

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.idempotency import NOTHING, Kept
from scheduler_service.domain.ids import UnixMillis
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

AT = UnixMillis(1_795_253_400_123)


def kept(number: int = 1, *ids: UUID) -> Kept:
    return Kept(fingerprint=bytes([number]) * 32, ids=ids or (UUID(int=number),), created_at=AT)


async def test_the_first_is_kept_and_shown_to_all_others(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.idempotency
    assert await keys.read(client, "k") is None
    assert await keys.keep(client, "k", kept()) == APPLIED
    assert await keys.keep(client, "k", kept(2)) == Rejected(kept())
    assert await keys.keep(client, "k", kept()) == Rejected(kept())
    assert await keys.read(client, "k") == kept()


async def test_keys_are_each_clients_own(storage: Storage, names: Names) -> None:
    keys = storage.idempotency
    assert await keys.keep(names.client("a"), "k", kept()) == APPLIED
    assert await keys.keep(names.client("b"), "k", kept(2)) == APPLIED
    assert await keys.keep(names.client("a"), "K", kept(3)) == APPLIED
    assert await keys.read(names.client("b"), "k") == kept(2)


async def test_a_thousand_ids_stay_in_their_order(storage: Storage, names: Names) -> None:
    ids = [UUID(int=number << 70 | 1) for number in range(999, 0, -1)]
    many = kept(1, *ids, NOTHING)
    assert await storage.idempotency.keep(names.client(), "~" * 255, many) == APPLIED
    assert await storage.idempotency.read(names.client(), "~" * 255) == many


async def test_a_request_that_makes_what_it_finds_is_kept_without_ids(storage: Storage, names: Names) -> None:
    none = Kept(fingerprint=b"x" * 32, ids=(), created_at=AT)
    assert await storage.idempotency.keep(names.client(), "k", none) == APPLIED
    assert await storage.idempotency.read(names.client(), "k") == none
    assert await storage.idempotency.keep(names.client(), "k", kept()) == Rejected(none)


async def test_one_of_concurrent_requests_is_kept_under_a_key(storage: Storage, names: Names) -> None:
    client, keys = names.client(), storage.idempotency
    answers = await asyncio.gather(*(keys.keep(client, "k", kept(number)) for number in range(1, 6)))
    stored = await keys.read(client, "k")
    assert stored is not None
    assert answers.count(APPLIED) <= 1
    assert all(answer == Rejected(stored) for answer in answers if isinstance(answer, Rejected))
