"""Forgotten crons are found by the nodes that own the pollers to which their clients are assigned."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

import pytest

from cql.memory.connection import InMemoryConnection
from cql.storage import Storage
from membership.conditional import Applied
from membership.errors import StoreUnavailable
from poller_cluster.clients import ServedClient
from poller_cluster.crons.overdue_scan import OVERDUE_MS, OVERDUE_SCAN_SECONDS, PAGE, OverdueScan
from scheduler_service.domain.clients import Client, ClientSettings, ClientState
from scheduler_service.domain.crons.row import CRON_CLIENT, CronState
from scheduler_service.domain.ids import DAY_MS, ClientId, CronId, Minute, PollerId, UnixMillis
from scheduler_service.runtime.concurrently import Turn
from scheduler_service.usecases.expand_crons import EXPANDED_AT_ONCE
from tests.contract.cron_builders import cron
from tests.support.api import NOW, ManualClock
from tests.support.node_parts import GivenClients, GivenPollers, node_runtime

SHOP = ClientId("shop")
QUOTA = 4


def client(client_id: str, *, state: ClientState = ClientState.ACTIVE, quota: int = 1) -> ServedClient:
    settings = ClientSettings()
    client = Client(
        client_id=ClientId(client_id),
        poller_quota=quota,
        poller_ceiling=quota,
        state=state,
        settings=settings,
        revision=1,
        created_at=UnixMillis(NOW),
    )
    return ServedClient(client, settings, ())


class EndingClock(ManualClock):
    """A clock that cancels the task that sleeps once too often."""

    turns = 0

    async def sleep(self, seconds: float) -> None:
        assert seconds == OVERDUE_SCAN_SECONDS
        if self.turns == 0:
            raise asyncio.CancelledError
        self.turns -= 1
        await super().sleep(seconds)


class Scanned:
    def __init__(self) -> None:
        self.clock = EndingClock()
        self.storage = Storage.over(InMemoryConnection())
        self.expanded: list[tuple[str, list[str]]] = []
        self.errors: list[Exception] = []
        self.faults: list[str] = []
        self.clients: list[ServedClient] = [client(SHOP)]
        self.trusted = True
        self.overdue_scan = self.of_node()

    def of_node(self, pollers: Iterable[int] = range(QUOTA)) -> OverdueScan:
        return OverdueScan(
            crons=self.storage.crons,
            expand=self.expand,
            clients=GivenClients(lambda: [*self.clients, client(CRON_CLIENT, quota=QUOTA)]),
            pollers=GivenPollers(dict.fromkeys(map(PollerId, pollers), Minute(0))),
            runtime=node_runtime(
                self.clock,
                trusted=lambda: self.trusted,
                on_fault=lambda what, error: self.faults.append(what),
            ),
        )

    async def expand(self, client_id: ClientId, cron_ids: Sequence[CronId], *, turn: Turn) -> None:
        async with turn():
            pass
        if self.errors:
            raise self.errors.pop(0)
        self.expanded.append((client_id, list(cron_ids)))

    async def add(self, *names: str, wake_at: int | None, client_id: ClientId = SHOP) -> None:
        at = None if wake_at is None else UnixMillis(wake_at)
        made = [cron(client_id, name, wake_at=at) for name in names]
        for one in made:
            assert isinstance(await self.storage.crons.write(one, expected_revision=None), Applied)

    async def turns(self, count: int, *nodes: OverdueScan) -> None:
        """Let every node scan so often."""
        for scan in nodes or (self.overdue_scan,):
            self.clock.turns = count
            with pytest.raises(asyncio.CancelledError):
                await scan.run()


@pytest.fixture
async def scanned() -> AsyncIterator[Scanned]:
    made = Scanned()
    yield made
    await made.storage.close()


async def test_overdue_crons_are_expanded(scanned: Scanned) -> None:
    await scanned.add("due-now", wake_at=NOW)
    await scanned.add("nearly", wake_at=NOW - OVERDUE_MS)
    await scanned.add("forgotten", "too", wake_at=NOW - OVERDUE_MS - 1)
    await scanned.add("never-again", wake_at=None)
    assert await scanned.overdue_scan.scan(client(SHOP)) == 2
    assert scanned.expanded == [(SHOP, ["forgotten", "too"])]
    assert scanned.overdue_scan.found == 2


async def test_it_goes_through_all_pages(scanned: Scanned) -> None:
    names = [f"c{number:05}" for number in range(PAGE + 2)]
    await asyncio.gather(*(scanned.add(name, wake_at=0) for name in names))
    assert await scanned.overdue_scan.scan(client(SHOP)) == PAGE + 2
    assert [len(found) for _, found in scanned.expanded] == [EXPANDED_AT_ONCE] * (PAGE // EXPANDED_AT_ONCE) + [2]


async def test_one_that_can_t_be_expanded_leaves_the_others_their_turn(scanned: Scanned) -> None:
    scanned.clients = [client("bank"), client(SHOP), client("farm")]
    for one in ("bank", SHOP, "farm"):
        await scanned.add("old", wake_at=0, client_id=ClientId(one))
    scanned.errors = [StoreUnavailable("away"), RuntimeError("a bug")]
    await scanned.turns(1)
    assert scanned.expanded[0] == ("farm", ["old"])
    assert scanned.faults == ["overdue scan of crons of shop"]


async def test_only_active_clients_and_only_while_trusted(scanned: Scanned) -> None:
    scanned.clients = [client(SHOP, state=ClientState.SUSPENDED), client(CRON_CLIENT)]
    for client_id in (SHOP, CRON_CLIENT):
        await scanned.add("old", wake_at=0, client_id=client_id)
    await scanned.turns(2)
    scanned.clients, scanned.trusted = [client(SHOP)], False
    await scanned.turns(2)
    assert scanned.expanded == []
    scanned.trusted = True
    await scanned.turns(1)
    assert scanned.expanded[0] == (SHOP, ["old"])


async def test_every_client_is_assigned_to_one_of_the_owners(scanned: Scanned) -> None:
    names = [f"client-{number}" for number in range(40)]
    scanned.clients = [client(name) for name in names]
    for name in names:
        await scanned.add("old", wake_at=0, client_id=ClientId(name))
    found: list[set[str]] = []
    for pollers in ((0, 1), (2,), (3,)):
        scanned.expanded.clear()
        await scanned.turns(1, scanned.of_node(pollers))
        found.append({client for client, _ in scanned.expanded})
    assert set.union(*found) == set(names)
    assert sum(map(len, found)) == len(names)
    assert all(found)


async def test_deleted_crons_go_after_the_clients_retention(scanned: Scanned) -> None:
    """Except those in use, still to be withdrawn, or created again in between."""
    retention_ms = client(SHOP).settings.retention_days * DAY_MS
    long_ago, lately = UnixMillis(NOW - retention_ms - 1), UnixMillis(NOW - retention_ms)
    for name, state, wake_at, changed_at in (
        ("gone", CronState.DELETED, None, long_ago),
        ("lately", CronState.DELETED, None, lately),
        ("not-withdrawn", CronState.DELETED, UnixMillis(NOW), long_ago),
        ("paused", CronState.PAUSED, None, long_ago),
        ("finished", CronState.FINISHED, None, long_ago),
    ):
        one = cron(SHOP, name, state=state, wake_at=wake_at, changed_at=changed_at)
        assert isinstance(await scanned.storage.crons.write(one, expected_revision=None), Applied)
    await scanned.overdue_scan.scan(client(SHOP))
    left = [mark.cron_id for mark in await scanned.storage.crons.read_marks(SHOP)]
    assert left == ["finished", "lately", "not-withdrawn", "paused"]
