"""Destinations and subscriptions: rows that change from the revision that was read, and come with their client."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from cql.storage import Storage
from membership.conditional import APPLIED, Rejected
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.subscriptions import StoredSubscription
from tests.contract.conftest import Names
from tests.contract.test_clients import client

pytestmark = pytest.mark.asyncio(loop_scope="session")


@dataclass(frozen=True)
class Kind:
    """One kind of row: what it is called in the names of a store's methods, and how it is made."""

    noun: str
    made: Callable[..., Any]

    @property
    def rows(self) -> str:
        return f"{self.noun}s"

    def row(self, client_id: ClientId, name: str = "one", *, revision: int = 1) -> Any:
        return self.made(
            client_id=client_id,
            name=name,
            document=f"{name}:{revision}",
            revision=revision,
            created_at=UnixMillis(1_700_000_000_123),
            changed_at=UnixMillis(1_700_000_000_123 + revision),
        )

    def of(self, storage: Storage) -> "Rows":
        store = getattr(storage, self.rows)
        return Rows(
            read=getattr(store, f"read_{self.noun}"),
            put=getattr(store, f"put_{self.noun}"),
            delete=getattr(store, f"delete_{self.noun}"),
            listed=getattr(store, f"list_{self.rows}"),
        )


@dataclass(frozen=True)
class Rows:
    """The methods of a store of one kind."""

    read: Callable[..., Any]
    put: Callable[..., Any]
    delete: Callable[..., Any]
    listed: Callable[..., Any]


KINDS = [Kind("destination", StoredDestination), Kind("subscription", StoredSubscription)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.noun)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


async def test_a_row_changes_from_the_revision_that_was_read(storage: Storage, names: Names, kind: Kind) -> None:
    one, rows = kind.row(names.client()), kind.of(storage)
    two = kind.row(one.client_id, revision=2)
    assert await rows.read(one.client_id, one.name) is None
    assert await rows.put(two, expected_revision=1) == Rejected(None)
    assert await rows.listed(one.client_id) == []
    assert await rows.put(one, expected_revision=None) == APPLIED
    assert await rows.read(one.client_id, one.name) == one
    assert await rows.put(two, expected_revision=None) == Rejected(one)
    assert await rows.put(two, expected_revision=1) == APPLIED
    assert await rows.put(one, expected_revision=1) == Rejected(two)
    assert await rows.read(one.client_id, one.name) == two


async def test_a_row_is_deleted_at_the_revision_that_was_read(storage: Storage, names: Names, kind: Kind) -> None:
    one, rows = kind.row(names.client(), revision=7), kind.of(storage)
    client_id = one.client_id
    assert await rows.delete(client_id, one.name, expected_revision=7) == Rejected(None)
    await rows.put(one, expected_revision=None)
    assert await rows.delete(client_id, one.name, expected_revision=6) == Rejected(one)
    assert await rows.delete(client_id, one.name, expected_revision=7) == APPLIED
    assert await rows.read(client_id, one.name) is None
    assert await rows.listed(client_id) == []
    again = replace(one, revision=9)
    assert await rows.put(again, expected_revision=7) == Rejected(None), "it is not brought back"
    assert await rows.put(again, expected_revision=None) == APPLIED
    assert await rows.listed(client_id) == [again]


async def test_rows_are_listed_by_name_for_one_client(storage: Storage, names: Names, kind: Kind) -> None:
    owner, other = names.client("-a"), names.client("-b")
    for name in ("c", "a.1", "b"):
        await kind.of(storage).put(kind.row(owner, name), expected_revision=None)
    await kind.of(storage).put(kind.row(other, "c"), expected_revision=None)
    assert await kind.of(storage).listed(owner) == [kind.row(owner, name) for name in ("a.1", "b", "c")]


async def test_every_change_is_announced(storage: Storage, names: Names, kind: Kind) -> None:
    one, rows = kind.row(names.client()), kind.of(storage)
    seen = [await storage.clients.catalog_revision()]
    await rows.put(one, expected_revision=None)
    seen.append(await storage.clients.catalog_revision())
    await rows.put(replace(one, revision=2), expected_revision=1)
    seen.append(await storage.clients.catalog_revision())
    await rows.delete(one.client_id, one.name, expected_revision=2)
    seen.append(await storage.clients.catalog_revision())
    assert len(set(seen)) == 4


async def test_they_come_with_their_clients_part_by_part(storage: Storage, names: Names, kind: Kind) -> None:
    mine = [names.client(f"-{number}") for number in range(5)]
    for number, client_id in enumerate(mine):
        await storage.clients.create_client(client(client_id))
        for at in range(number % 3):
            await kind.of(storage).put(kind.row(client_id, f"d{at}"), expected_revision=None)
    for limit in (2, 10_000):
        found: dict[ClientId, list[Any]] = {}
        last = None
        while not found or last is not None:
            part = await storage.clients.read_part(last, limit=limit)
            of_clients = getattr(part, kind.rows)
            found |= {one.client_id: list(of_clients.get(one.client_id, ())) for one in part.clients}
            last = part.last
        for client_id in mine:
            assert found[client_id] == await kind.of(storage).listed(client_id)
        assert [len(found[client_id]) for client_id in mine] == [0, 1, 2, 0, 1]


async def test_a_pause_comes_back_and_is_lifted(storage: Storage, names: Names) -> None:
    one, store = KINDS[0].row(names.client()), storage.destinations
    assert await store.put_destination(one, expected_revision=None) == APPLIED
    paused = replace(one, paused_at=UnixMillis(1_700_000_000_999), revision=2)
    assert await store.put_destination(paused, expected_revision=1) == APPLIED
    assert await store.read_destination(one.client_id, one.name) == paused
    lifted = replace(paused, paused_at=None, revision=3)
    assert await store.put_destination(lifted, expected_revision=2) == APPLIED
    assert await store.read_destination(one.client_id, one.name) == lifted
    assert list(await store.list_names(one.client_id)) == [one.name]


async def test_the_same_document_under_another_key_replaces_no_later_one(storage: Storage, names: Names) -> None:
    one, store = KINDS[0].row(names.client()), storage.destinations
    await store.put_destination(one, expected_revision=None)
    before = await storage.clients.catalog_revision()
    resealed = replace(one, document="renewed")
    assert await store.reseal_destination(resealed) == APPLIED
    assert await store.list_destinations(one.client_id) == [resealed]
    assert await storage.clients.catalog_revision() == before
    two = KINDS[0].row(one.client_id, revision=2)
    assert await store.put_destination(two, expected_revision=1) == APPLIED
    assert await store.reseal_destination(resealed) == Rejected(None)
    await store.delete_destination(one.client_id, one.name, expected_revision=2)
    assert await store.reseal_destination(resealed) == Rejected(None)
    assert await store.list_destinations(one.client_id) == []
