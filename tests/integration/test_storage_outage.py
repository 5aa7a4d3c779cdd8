"""A server that is frozen: what the stores answer meanwhile, and that they recover."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from cql.errors import StoreRefused
from cql.migrate import migrate
from cql.session import Session
from cql.storage import Storage, open_storage
from membership.conditional import APPLIED, Rejected, Unknown
from membership.errors import StoreUnavailable
from membership.identity import IncarnationNumber, NodeId, NodeIncarnation, PollerKey
from minutehand.local import RunningCassandra
from scheduler_service.domain.errors import Overloaded
from scheduler_service.domain.schedules import PartitionHeader
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.builders import cancelled, definition, update
from tests.contract.conftest import real_settings
from tests.support.cassandra import SuiteCassandra

TIMEOUT_SECONDS = 0.5
REQUESTS_IN_FLIGHT = 4


@pytest.fixture
def server(cassandra: SuiteCassandra) -> RunningCassandra:
    if cassandra.running is None:
        pytest.skip("this Cassandra is not ours to pause")
    return cassandra.running


@pytest_asyncio.fixture
async def storage(cassandra: SuiteCassandra) -> AsyncIterator[Storage]:
    randomness = SystemRandomness()
    settings = real_settings(cassandra, f"outage_{randomness.bits(32):08x}")
    await migrate(settings, clock=SystemClock(), randomness=randomness)
    storage = await open_storage(
        replace(
            settings, request_timeout_seconds=TIMEOUT_SECONDS, requests_in_flight=REQUESTS_IN_FLIGHT, requests_waiting=4
        )
    )
    # Prepare the statements and create the partition's first row beforehand.
    await storage.schedules.insert(definition("warm"))
    assert await storage.schedules.open(definition("warm").partition, epoch=1, expect_epoch=None) == APPLIED
    yield storage
    await storage.close()


async def test_a_frozen_server(storage: Storage, server: RunningCassandra) -> None:
    row = definition("shop")
    clock = SystemClock()
    server.pause()
    try:
        began = clock.monotonic()
        inserted, opened, page, revision = await asyncio.gather(
            storage.schedules.insert(definition("warm", tail=2)),
            storage.schedules.open(row.partition, epoch=7, expect_epoch=None),
            storage.schedules.read_page(row.partition),
            storage.clients.catalog_revision(),
            return_exceptions=True,
        )
        elapsed = clock.monotonic() - began
    finally:
        server.resume()
    assert opened == Unknown("client-timeout")
    for answer in (inserted, page, revision):
        assert isinstance(answer, StoreUnavailable)
        assert "client-timeout" in str(answer)
    assert elapsed < TIMEOUT_SECONDS + 1

    async def now() -> PartitionHeader:
        while True:
            try:
                return (await storage.schedules.read_page(row.partition)).header
            except StoreUnavailable:
                await clock.sleep(0.1)

    # The unanswered write is in the socket's buffer: it is applied when the server resumes.
    async with asyncio.timeout(30):
        while await now() != PartitionHeader(7):
            await clock.sleep(0.1)
    assert await storage.schedules.open(row.partition, epoch=7, expect_epoch=None) == Rejected(PartitionHeader(7))
    await storage.schedules.insert(definition("warm", tail=3))


async def test_more_requests_than_may_wait(storage: Storage, server: RunningCassandra) -> None:
    row = definition("warm")
    server.pause()
    try:
        answers = await asyncio.gather(
            *(storage.schedules.read_page(row.partition) for _ in range(12)),
            storage.schedules.update(update(row.partition, 1, cancelled(row))),
            return_exceptions=True,
        )
    finally:
        server.resume()
    kinds = [type(answer) for answer in answers[:-1]]
    assert kinds.count(Overloaded) == 4
    assert kinds.count(StoreUnavailable) == 8
    assert answers[-1] == Unknown("overloaded")


async def test_a_connection_closed_during_a_request(storage: Storage, server: RunningCassandra) -> None:
    row = definition("warm")
    server.pause()
    try:
        reading = asyncio.gather(storage.schedules.read_page(row.partition), return_exceptions=True)
        opening = asyncio.gather(storage.schedules.open(row.partition, epoch=2, expect_epoch=1))
        await SystemClock().sleep(0.05)
        await storage.connection.close()
        (read,), (opened,) = await reading, await opening
    finally:
        server.resume()
    assert isinstance(read, StoreUnavailable)
    assert isinstance(opened, Unknown)


async def test_what_the_server_refuses_is_an_error_of_ours(storage: Storage) -> None:
    await storage.connection.run_script(["DROP TABLE dead_letters"])
    with pytest.raises(StoreRefused):
        await storage.dead_letters.read_page("shop", 0, 0)


async def test_heartbeats_do_not_queue_behind_other_requests(storage: Storage) -> None:
    assert isinstance(storage.connection, Session)
    limiter = storage.connection.limiter
    for _ in range(REQUESTS_IN_FLIGHT):
        assert limiter.enter() is None
    waiting = asyncio.ensure_future(storage.schedules.read_page(definition("warm").partition))
    incarnation = NodeIncarnation(NodeId("one"), IncarnationNumber(1))
    assert await storage.members.begin_incarnation(incarnation) == APPLIED
    assert await storage.members.renew_incarnation(incarnation, renewals=0) == APPLIED
    await storage.own_leases.create_pollers([PollerKey("shop", 0)], watermark=1)
    assert len(await storage.own_leases.read_leases("shop")) == 1
    assert not waiting.done()
    for _ in range(REQUESTS_IN_FLIGHT):
        limiter.leave()
    assert len((await waiting).rows) == 1
