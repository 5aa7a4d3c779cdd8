"""Reads and inserts at a client's consistency return and store the same as all others."""

import pytest

from cql.connection import Consistency
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import APPLIED
from scheduler_service.domain.clients import ReadConsistency, WriteConsistency
from scheduler_service.domain.ids import ClientId, Minute
from tests.contract.builders import MINUTE, commit, definition, partition
from tests.contract.conftest import Names

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHOP = ClientId("shop")
READS: tuple[ReadConsistency, ...] = ("LOCAL_QUORUM", "LOCAL_ONE")
WRITES: tuple[WriteConsistency, ...] = ("LOCAL_QUORUM", "EACH_QUORUM")


def unusual(storage: Storage) -> set[tuple[str, Consistency]]:
    """Statements sent with another consistency since the last call."""
    assert isinstance(storage.connection, InMemoryConnection)
    asked = set(storage.connection.unusual)
    storage.connection.unusual.clear()
    return asked


async def test_inserts_of_both_consistencies_share_a_partition(storage: Storage, names: Names) -> None:
    client = names.client()
    for number, consistency in enumerate(WRITES):
        await storage.schedules.insert(definition(client, tail=number), consistency=consistency)
        many = [definition(client, tail=10 * (number + 1) + tail) for tail in range(3)]
        assert list(await storage.schedules.insert_many(many, consistency=consistency)) == [None] * 3
    assert len((await storage.schedules.read_page(partition(client))).rows) == 8
    assert await storage.schedules.occupied(client, first=Minute(MINUTE), last=Minute(MINUTE)) == {MINUTE: [0]}


async def test_every_read_of_a_client_can_be_of_one_replica(storage: Storage, names: Names) -> None:
    client = names.client()
    one, other = definition(client, tail=1), definition(client, tail=2)
    for row in (one, other):
        await storage.schedules.insert(row)
    where = one.partition
    assert await storage.schedules.open(where, epoch=1, expect_epoch=None) == APPLIED
    assert await storage.schedules.commit(commit(where, in_flight=frozenset({one.schedule_id}))) == APPLIED
    for consistency in READS:
        page = await storage.schedules.read_page(where, consistency=consistency)
        assert [row.key for row in page.rows] == [one.key, other.key]
        assert page.header.in_flight == {one.schedule_id}
        content = await storage.schedules.read_content(where, [one.key, other.key], consistency=consistency)
        assert list(content) == [one.key, other.key]
        for keys in ([one.key], [one.key, other.key], []):
            header, rows = await storage.schedules.read_rows(where, keys, consistency=consistency)
            assert list(rows) == keys
            assert header == page.header
        found = await storage.schedules.occupied(
            client, first=Minute(MINUTE), last=Minute(MINUTE), consistency=consistency
        )
        assert found == {MINUTE: [0]}


async def test_the_in_memory_store_records_the_consistency_asked_for() -> None:
    storage = Storage.over(InMemoryConnection())
    await storage.schedules.insert(definition(SHOP))
    assert unusual(storage) == set()
    await storage.schedules.insert(definition(SHOP, tail=2), consistency="EACH_QUORUM")
    assert unusual(storage) == {
        ("occupied_minutes.insert", "EACH_QUORUM"),
        ("schedules.insert_definition", "EACH_QUORUM"),
    }, "an index row that is known at home need not be known elsewhere"
    where = partition(SHOP)
    await storage.schedules.read_page(where, consistency="LOCAL_ONE")
    await storage.schedules.read_rows(where, [definition(SHOP).key], consistency="LOCAL_ONE")
    await storage.schedules.read_content(where, [definition(SHOP).key], consistency="LOCAL_ONE")
    assert unusual(storage) == {
        ("schedules.read_first_page", "LOCAL_ONE"),
        ("schedules.read_row", "LOCAL_ONE"),
        ("schedules.read_content", "LOCAL_ONE"),
    }
    await storage.schedules.find_rows(where, [definition(SHOP).key])
    assert unusual(storage) == set()
    await storage.close()
