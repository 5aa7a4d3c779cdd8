"""Reconciliations through the SDK, HTTP, the use cases and the stores, on a real Cassandra."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
import pytest_asyncio

from cql.migrate import migrate
from cql.storage import open_storage
from minutehand.client import AsyncMinutehand, MinutehandApiError, Reconciliation
from scheduler_service.domain.ids import ClientId, ScheduleId
from scheduler_service.domain.reconciliations import ReconciliationId
from scheduler_service.domain.schedules import State
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from scheduler_service.usecases.reconcile import Reconcile
from tests.contract.conftest import real_settings
from tests.support.api import ApiHarness
from tests.support.cassandra import SuiteCassandra
from tests.support.outcomes import SHOP, created, ended, row_of

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
WINDOW = {"start": NOW, "end": NOW + timedelta(hours=1)}


@pytest_asyncio.fixture
async def harness(cassandra: SuiteCassandra) -> AsyncIterator[ApiHarness]:
    randomness = SystemRandomness()
    settings = real_settings(cassandra, f"reconciliations_{randomness.bits(32):08x}")
    await migrate(settings, clock=SystemClock(), randomness=randomness)
    storage = await open_storage(settings)
    async with ApiHarness(stores=storage) as made:
        yield made
    await storage.close()


async def work(api: ApiHarness, found: Reconciliation) -> None:
    """Work on reconciliations as the owner of the poller does."""
    faults: list[BaseException] = []
    store, client = api.storage.reconciliations, await api.storage.clients.read_client(ClientId("shop"))
    assert client is not None
    once = Reconcile(
        store=store,
        schedules=api.storage.schedules,
        redeliver=api.services.schedules.redeliver,
        cancel=api.services.schedules.cancel,
        clock=api.clock,
        on_fault=lambda name, error: faults.append(error),
    )
    api.clock.advance(1)
    for _ in range(20):
        stands = await store.read(SHOP, ReconciliationId(UUID(found.reconciliation_id)), serial=True)
        assert stands is not None
        if stands.settled:
            break
        await once(client, stands, share=0.5, ours=lambda: True)
    assert faults == []


async def test_the_life_of_reconciliations(harness: ApiHarness) -> None:
    key = await harness.register("shop")
    assert harness.server is not None
    ids: list[ScheduleId] = [
        await created(harness, key, due=(NOW + timedelta(seconds=40 * number)).isoformat()) for number in range(12)
    ]
    for number in (0, 1, 5):
        await ended(harness, ids[number], State.FAILED)
    await ended(harness, ids[2], State.DELIVERED)
    async with AsyncMinutehand(f"http://127.0.0.1:{harness.server.port}", key) as api:
        reconciliations = api.client("shop").reconciliations
        report = await reconciliations.create("report", **WINDOW, states=["failed", "delivered", "scheduled"])
        await work(harness, report)
        report = await reconciliations.wait(report.reconciliation_id, every_seconds=0)
        assert report.seen == {"scheduled": 8, "failed": 3, "delivered": 1}

        again = await reconciliations.create("redeliver", **WINDOW, states=["failed"])
        await work(harness, again)
        again = await reconciliations.get(again.reconciliation_id)
        assert (again.state, again.outcomes) == ("finished", {"redelivered": 3})
        for number in (0, 1, 5):
            row = await row_of(harness, ids[number])
            assert row is not None
            assert row.state == "retrying"
            assert await row_of(harness, ids[number], at=row.next_attempt_at) is not None

        cancel = await reconciliations.create("cancel", **WINDOW, states=["scheduled"])
        assert (await reconciliations.stop(cancel.reconciliation_id)).state == "stopped"
        cancel = await reconciliations.create("cancel", **WINDOW, states=["scheduled", "retrying"])
        await work(harness, cancel)
        assert (await reconciliations.get(cancel.reconciliation_id)).outcomes == {"cancelled": 11}
        with pytest.raises(MinutehandApiError, match="already finished"):
            await reconciliations.stop(cancel.reconciliation_id)
        listed = [one.action async for one in reconciliations.list(page_size=2)]
        assert sorted(listed) == ["cancel", "cancel", "redeliver", "report"]
