"""Subscriptions, and that a change of one is announced as a change of its client is."""

import pytest
from msgspec.structs import replace

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.subscriptions import StoredSubscription
from tests.contract.conftest import Names
from tests.contract.test_clients import client

pytestmark = pytest.mark.asyncio(loop_scope="session")


def subscription(client_id: ClientId, name: str = "all", *, revision: int = 1) -> StoredSubscription:
    return StoredSubscription(
        client_id=client_id,
        name=name,
        document=f"{name}:{revision}",
        revision=revision,
        created_at=UnixMillis(1_700_000_000_123),
        changed_at=UnixMillis(1_700_000_000_123 + revision),
    )


async def test_a_subscription_changes_from_the_revision_that_was_read(storage: Storage, names: Names) -> None:
    one = subscription(names.client())
    two, store = replace(one, document="other", revision=2), storage.subscriptions
    assert await store.read_subscription(one.client_id, one.name) is None
    assert await store.put_subscription(two, expected_revision=1) == Rejected(None)
    assert await store.put_subscription(one, expected_revision=None) == APPLIED
    assert await store.read_subscription(one.client_id, one.name) == one
    assert await store.put_subscription(two, expected_revision=None) == Rejected(one)
    assert await store.put_subscription(two, expected_revision=1) == APPLIED
    assert await store.put_subscription(one, expected_revision=1) == Rejected(two)
    assert await store.read_subscription(one.client_id, one.name) == two


async def test_a_subscription_is_deleted_at_the_revision_that_was_read(storage: Storage, names: Names) -> None:
    one = subscription(names.client(), revision=7)
    client_id, store = one.client_id, storage.subscriptions
    assert await store.delete_subscription(client_id, "all", expected_revision=7) == Rejected(None)
    await store.put_subscription(one, expected_revision=None)
    assert await store.delete_subscription(client_id, "all", expected_revision=6) == Rejected(one)
    assert await store.delete_subscription(client_id, "all", expected_revision=7) == APPLIED
    assert await store.list_subscriptions(client_id) == []


async def test_subscriptions_are_listed_by_name_for_one_client(storage: Storage, names: Names) -> None:
    owner, other = names.client("-a"), names.client("-b")
    for name in ("c", "a.1", "b"):
        await storage.subscriptions.put_subscription(subscription(owner, name), expected_revision=None)
    await storage.subscriptions.put_subscription(subscription(other, "c"), expected_revision=None)
    found = await storage.subscriptions.list_subscriptions(owner)
    assert found == [subscription(owner, name) for name in ("a.1", "b", "c")]


async def test_a_change_is_announced_and_read_with_its_client(storage: Storage, names: Names) -> None:
    owner = names.client()
    await storage.clients.create_client(client(owner))
    before = await storage.clients.catalog_revision()
    await storage.subscriptions.put_subscription(subscription(owner), expected_revision=None)
    assert await storage.clients.catalog_revision() > before
    after = None
    found: list[StoredSubscription] = []
    while True:
        part = await storage.clients.read_part(after, limit=1_000)
        found += part.subscriptions.get(owner, [])
        if (after := part.last) is None:
            break
    assert found == [subscription(owner)]
