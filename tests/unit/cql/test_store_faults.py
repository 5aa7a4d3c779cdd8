"""How the stores handle answers that are missing, late, or overtaken."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cql.books import CqlBalanceStore
from cql.clients import CqlClientStore
from cql.connection import AnswerRows, Consistency, Item, Parameters
from cql.leases import CqlLeaseStore
from cql.members import CqlMemberStore
from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import APPLIED, Answer, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.destinations import StoredDestination
from scheduler_service.domain.ids import ClientId, UnixMillis
from scheduler_service.domain.schedules import PartitionHeader, ScheduleId
from tests.contract.builders import commit, definition
from tests.contract.test_books import balance

INCARNATION = NodeIncarnation(NodeId("n"), IncarnationNumber(1))


class Scripted(InMemoryConnection):
    """`before(name)` runs before a select. Statements in `lost` are applied without an answer; those in `down` are not
    applied.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[str] = []
        self.down: list[str] = []
        self.seen: list[str] = []
        self.before: Callable[[str], Any] = lambda name: None

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        self.seen.append(name)
        if name in self.down:
            raise StoreUnavailable("down")
        if (work := self.before(name)) is not None:
            await work
        return await super().select(name, parameters)

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self.seen.append(name)
        if name in self.down:
            raise StoreUnavailable("down")
        await super().write(name, parameters)

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        self.seen.append(items[0][0])
        if items[0][0] in self.down:
            return Unknown("down")
        answer = await super().conditional(items)
        return Unknown("lost") if items[0][0] in self.lost else answer


def client(revision: int = 1) -> Client:
    return Client(
        client_id=ClientId("shop"),
        poller_quota=1,
        poller_ceiling=1,
        state=ClientState.ACTIVE,
        settings=ClientSettings(),
        revision=revision,
        created_at=UnixMillis(1),
    )


async def test_a_page_and_its_in_flight_are_of_one_version() -> None:
    """After a commit between the two reads both are repeated, so that the answer is of one moment."""
    connection = Scripted()
    storage = Storage.over(connection)
    one = definition("shop")
    ids = [frozenset({definition("shop", tail=tail).schedule_id}) for tail in range(9)]
    await storage.schedules.insert(one)
    await storage.schedules.commit(commit(one.partition, expect_epoch=None, in_flight=ids[0]))
    overtakers = iter(range(1, 3))

    def overtake(name: str) -> Any:
        if name != "schedules.read_header" or (version := next(overtakers, None)) is None:
            return None
        return storage.schedules.commit(commit(one.partition, version=version, in_flight=ids[version]))

    connection.before = overtake
    page = await storage.schedules.read_page(one.partition)
    assert page.header == PartitionHeader(1, 3, ids[2])
    assert connection.seen.count("schedules.read_first_page") == 3


async def test_a_partition_that_keeps_changing_is_given_up() -> None:
    connection = Scripted()
    storage = Storage.over(connection)
    one = definition("shop")
    await storage.schedules.insert(one)
    await storage.schedules.commit(commit(one.partition, expect_epoch=None))
    versions = iter(range(1, 99))

    def overtake(name: str) -> Any:
        if name != "schedules.read_header":
            return None
        return storage.schedules.commit(commit(one.partition, version=next(versions)))

    connection.before = overtake
    with pytest.raises(StoreUnavailable, match="changed during"):
        await storage.schedules.read_page(one.partition)


async def test_idle_pollers_cost_one_read() -> None:
    connection = Scripted()
    storage = Storage.over(connection)
    await storage.schedules.read_page(definition("shop").partition)
    assert connection.seen == ["schedules.read_first_page"]


async def test_unclaimed_rows_cost_one_read() -> None:
    connection = Scripted()
    storage = Storage.over(connection)
    one = definition("shop")
    await storage.schedules.insert(one)
    await storage.schedules.open(one.partition, epoch=1, expect_epoch=None)
    connection.seen.clear()
    await storage.schedules.read_page(one.partition)
    await storage.schedules.read_rows(one.partition, [one.key], serial=True)
    assert connection.seen == ["schedules.read_first_page", "schedules.read_row"]


async def test_a_lost_answer_is_unknown_and_what_happened_can_be_read() -> None:
    connection = Scripted()
    connection.lost = ["schedules.open", "schedules.commit"]
    storage = Storage.over(connection)
    where = definition("shop").partition
    assert await storage.schedules.open(where, epoch=1, expect_epoch=None) == Unknown("lost")
    nobody = frozenset[ScheduleId]()
    assert await storage.schedules.commit(commit(where)) == Unknown("lost")
    assert (await storage.schedules.read_page(where)).header == PartitionHeader(1, 1, nobody)
    await storage.close()


async def test_a_change_of_a_client_that_was_not_announced_is_unknown() -> None:
    connection = Scripted()
    connection.down = ["catalog.bump"]
    store = CqlClientStore(connection)
    assert isinstance(await store.create_client(client()), Unknown)
    assert connection.seen.count("catalog.bump") == 3
    connection.down = []
    before = await store.catalog_revision()
    # The caller tries again and finds its own client; this time the change is announced.
    assert await store.create_client(client()) == Rejected(client())
    assert await store.catalog_revision() != before


async def test_an_unknown_change_is_signalled_too() -> None:
    connection = Scripted()
    connection.lost = ["clients.update"]
    store = CqlClientStore(connection)
    assert await store.create_client(client()) == APPLIED
    before = await store.catalog_revision()
    assert await store.update_client(expected_revision=1, client=client(2)) == Unknown("lost")
    assert await store.catalog_revision() != before


async def test_a_rejection_that_can_not_be_read_is_unknown() -> None:
    connection = Scripted()
    store = CqlClientStore(connection)
    await store.create_client(client())
    connection.down = ["clients.read"]
    assert isinstance(await store.create_client(client()), Unknown)


def destination(revision: int = 1) -> StoredDestination:
    at = UnixMillis(1)
    return StoredDestination(
        client_id=ClientId("shop"), name="hook", document="{}", revision=revision, created_at=at, changed_at=at
    )


async def test_a_change_of_a_destination_that_was_not_announced_is_unknown() -> None:
    connection = Scripted()
    connection.down = ["catalog.bump"]
    storage = Storage.over(connection)
    store = storage.destinations
    assert isinstance(await store.put_destination(destination(), expected_revision=None), Unknown)
    connection.down = []
    before = await storage.clients.catalog_revision()
    assert await store.put_destination(destination(), expected_revision=None) == Rejected(destination())
    assert await storage.clients.catalog_revision() != before
    connection.lost = ["destinations.delete"]
    before = await storage.clients.catalog_revision()
    assert await store.delete_destination(ClientId("shop"), "hook", expected_revision=1) == Unknown("lost")
    assert await storage.clients.catalog_revision() != before
    connection.down = ["destinations.read"]
    assert isinstance(await store.put_destination(destination(2), expected_revision=1), Unknown)
    await storage.close()


async def test_keys_whose_signal_is_lost_are_not_acknowledged() -> None:
    connection = Scripted()
    connection.down = ["catalog.bump"]
    with pytest.raises(StoreUnavailable):
        await CqlClientStore(connection).revoke_key("k", revoked_at=1)


async def test_pollers_survive_lost_answers() -> None:
    connection = Scripted()
    connection.lost = ["pollers.create"]
    leases = CqlLeaseStore(connection)
    await leases.create_pollers([PollerKey("shop", number) for number in range(150)], watermark=1)
    assert len(await leases.read_leases("shop")) == 150


async def test_pollers_that_can_not_be_created_are_reported() -> None:
    connection = Scripted()
    connection.down = ["pollers.create"]
    with pytest.raises(StoreUnavailable, match="pollers of client shop"):
        await CqlLeaseStore(connection).create_pollers([PollerKey("shop", 0)], watermark=1)


async def test_unknown_goes_through_unchanged() -> None:
    connection = Scripted()
    connection.lost = ["lives.begin", "lives.renew", "lives.declare_dead", "minute_balance.write_first"]
    members = CqlMemberStore(connection)
    assert await members.begin_incarnation(INCARNATION) == Unknown("lost")
    assert await members.renew_incarnation(INCARNATION, renewals=0) == Unknown("lost")
    assert await members.declare_dead(INCARNATION, renewals=1) == Unknown("lost")
    assert await CqlBalanceStore(connection).write(balance(ClientId("shop"))) == Unknown("lost")
    record = await members.read_incarnation(INCARNATION)
    assert record is not None
    assert (record.alive, record.renewals) == (False, 1)


async def test_a_crash_between_deletes_is_repaired_by_repeating() -> None:
    connection = Scripted()
    storage = Storage.over(connection)
    one = definition("shop")
    await storage.schedules.insert(one)
    minute = one.partition.minute
    for cut in ("attempts.delete_partition", "minute_balance.delete", "occupied_minutes.delete"):
        connection.down = [cut]
        with pytest.raises(StoreUnavailable):
            await storage.schedules.delete_partition(one.partition)
        connection.down = []
        assert await storage.schedules.occupied("shop", first=minute, last=minute) == {minute: [0]}
    await storage.schedules.delete_partition(one.partition)
    assert await storage.schedules.occupied("shop", first=minute, last=minute) == {}
