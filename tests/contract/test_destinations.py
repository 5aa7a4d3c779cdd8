"""Destinations, and that a change of one is announced as a change of its client is."""

import pytest
from msgspec.structs import replace

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId, UnixMillis
from tests.contract.conftest import Names
from tests.contract.test_clients import client

pytestmark = pytest.mark.asyncio(loop_scope="session")


def destination(client_id: ClientId, name: str = "hook", *, revision: int = 1) -> StoredDestination:
    return StoredDestination(
        client_id=client_id,
        name=name,
        document=f"sealed:{name}:{revision}",
        revision=revision,
        created_at=UnixMillis(1_700_000_000_123),
        changed_at=UnixMillis(1_700_000_000_123 + revision),
    )


async def test_a_destination_comes_back_whole(storage: Storage, names: Names) -> None:
    one = destination(names.client())
    store = storage.destinations
    assert await store.read_destination(one.client_id, one.name) is None
    assert await store.put_destination(one, expected_revision=None) == APPLIED
    assert await store.read_destination(one.client_id, one.name) == one
    paused = replace(one, paused_at=UnixMillis(1_700_000_000_999), revision=2)
    assert await store.put_destination(paused, expected_revision=1) == APPLIED
    assert await store.read_destination(one.client_id, one.name) == paused
    lifted = replace(paused, paused_at=None, revision=3)
    assert await store.put_destination(lifted, expected_revision=2) == APPLIED
    assert await store.read_destination(one.client_id, one.name) == lifted


async def test_a_destination_changes_from_the_revision_that_was_read(storage: Storage, names: Names) -> None:
    one, two = destination(names.client()), destination(names.client(), revision=2)
    store = storage.destinations
    assert await store.put_destination(two, expected_revision=1) == Rejected(None)
    assert await store.list_destinations(one.client_id) == []
    assert await store.put_destination(one, expected_revision=None) == APPLIED
    assert await store.put_destination(two, expected_revision=None) == Rejected(one)
    assert await store.put_destination(two, expected_revision=1) == APPLIED
    assert await store.put_destination(one, expected_revision=1) == Rejected(two)
    assert await store.read_destination(one.client_id, one.name) == two


async def test_a_destination_is_deleted_at_the_revision_that_was_read(storage: Storage, names: Names) -> None:
    one = destination(names.client(), revision=7)
    client_id, store = one.client_id, storage.destinations
    assert await store.delete_destination(client_id, "hook", expected_revision=7) == Rejected(None)
    await store.put_destination(one, expected_revision=None)
    assert await store.delete_destination(client_id, "hook", expected_revision=6) == Rejected(one)
    assert await store.delete_destination(client_id, "hook", expected_revision=7) == APPLIED
    assert await store.read_destination(client_id, "hook") is None
    assert await store.list_destinations(client_id) == []
    again = replace(one, revision=9)
    assert await store.put_destination(again, expected_revision=7) == Rejected(None), "it is not brought back"
    assert await store.put_destination(again, expected_revision=None) == APPLIED
    assert await store.list_destinations(client_id) == [again]
    assert list(await store.list_names(client_id)) == [again.name]


async def test_destinations_are_listed_by_name_for_one_client(storage: Storage, names: Names) -> None:
    owner, other = names.client("-a"), names.client("-b")
    for name in ("c", "a.1", "b"):
        await storage.destinations.put_destination(destination(owner, name), expected_revision=None)
    await storage.destinations.put_destination(destination(other, "c"), expected_revision=None)
    assert await storage.destinations.list_destinations(owner) == [
        destination(owner, name) for name in ("a.1", "b", "c")
    ]


async def test_every_change_is_announced(storage: Storage, names: Names) -> None:
    one, store = destination(names.client()), storage.destinations
    seen = [await storage.clients.catalog_revision()]
    await store.put_destination(one, expected_revision=None)
    seen.append(await storage.clients.catalog_revision())
    await store.put_destination(replace(one, revision=2), expected_revision=1)
    seen.append(await storage.clients.catalog_revision())
    await store.delete_destination(one.client_id, one.name, expected_revision=2)
    seen.append(await storage.clients.catalog_revision())
    assert len(set(seen)) == 4


async def test_the_same_document_under_another_key_replaces_no_later_one(storage: Storage, names: Names) -> None:
    one, store = destination(names.client()), storage.destinations
    await store.put_destination(one, expected_revision=None)
    before = await storage.clients.catalog_revision()
    resealed = replace(one, document="sealed:renewed")
    assert await store.reseal_destination(resealed) == APPLIED
    assert await store.list_destinations(one.client_id) == [resealed]
    assert await storage.clients.catalog_revision() == before
    assert await store.put_destination(destination(one.client_id, revision=2), expected_revision=1) == APPLIED
    assert await store.reseal_destination(resealed) == Rejected(None)
    await store.delete_destination(one.client_id, one.name, expected_revision=2)
    assert await store.reseal_destination(resealed) == Rejected(None)
    assert await store.list_destinations(one.client_id) == []


async def test_they_come_with_their_clients_part_by_part(storage: Storage, names: Names) -> None:
    mine = [names.client(f"-{number}") for number in range(5)]
    for number, client_id in enumerate(mine):
        await storage.clients.create_client(client(client_id))
        for at in range(number % 3):
            await storage.destinations.put_destination(destination(client_id, f"d{at}"), expected_revision=None)
    for limit in (2, 10_000):
        found: dict[ClientId, list[StoredDestination]] = {}
        last = None
        while not found or last is not None:
            part = await storage.clients.read_part(last, limit=limit)
            found |= {one.client_id: list(part.destinations.get(one.client_id, ())) for one in part.clients}
            last = part.last
        for client_id in mine:
            assert found[client_id] == await storage.destinations.list_destinations(client_id)
        assert [len(found[client_id]) for client_id in mine] == [0, 1, 2, 0, 1]
