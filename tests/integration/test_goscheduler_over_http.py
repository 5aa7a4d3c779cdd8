"""GoScheduler's wire through HTTP, the use cases and the stores, on a real Cassandra."""

from collections.abc import AsyncIterator

import pytest_asyncio

from cql.migrate import migrate
from cql.storage import open_storage
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.conftest import real_settings
from tests.support.api import ApiHarness
from tests.support.cassandra import SuiteCassandra
from tests.support.cron_calls import expand
from tests.support.goscheduler import NOW_SECONDS, create, end, register, send, settings

WINDOW = {"start_time": "2026-11-21 15:00:00", "end_time": "2026-11-21 17:00:00"}


@pytest_asyncio.fixture
async def api(cassandra: SuiteCassandra) -> AsyncIterator[ApiHarness]:
    randomness = SystemRandomness()
    stored = real_settings(cassandra, f"goscheduler_{randomness.bits(32):08x}")
    await migrate(stored, clock=SystemClock(), randomness=randomness)
    storage = await open_storage(stored)
    async with ApiHarness(stores=storage, goscheduler=settings()) as made:
        await made.add_built_in_clients()
        yield made
    await storage.close()


async def test_the_life_of_an_app(api: ApiHarness) -> None:
    await register(api)
    await register(api, "Athena")
    first = await create(api)
    second = await create(api, appId="Athena", scheduleTime=NOW_SECONDS + 150)
    await end(api, "test", first["scheduleId"], Outcome(state=State.FAILED, attempts=3, last_status=500))
    for made, status in ((first, "FAILURE"), (second, "SCHEDULED")):
        shown = (await send(api, "GET", f"/schedules/{made['scheduleId']}")).json["data"]["schedule"]
        assert (shown["appId"], shown["status"]) == (made["appId"], status)
    listed = (await send(api, "GET", "/apps/test/schedules", params={**WINDOW, "status": "FAILURE"})).json["data"]
    assert [one["scheduleId"] for one in listed["schedules"]] == [first["scheduleId"]]
    assert (await send(api, "POST", "/apps/test/bulk-action/reconcile", params=WINDOW)).status == 200
    assert (await send(api, "DELETE", f"/schedules/{second['scheduleId']}")).status == 200
    assert (await send(api, "GET", f"/schedules/{second['scheduleId']}")).status == 404


async def test_the_life_of_a_cron(api: ApiHarness) -> None:
    await register(api)
    cron = await create(api, scheduleTime=None, cronExpression="20/15 * */5 * *")
    path = f"/schedules/{cron['scheduleId']}"
    assert (await send(api, "GET", path)).json["data"]["schedule"] == cron
    often = await create(api, scheduleTime=None, cronExpression="*/5 * * * *")
    await expand(api, often["scheduleId"], client_id="test")
    runs = (await send(api, "GET", f"/schedules/{often['scheduleId']}/runs")).json["data"]["schedules"]
    assert runs[-1]["scheduleTime"] == NOW_SECONDS + 300
    listed = (await send(api, "GET", "/crons/schedules")).json["data"]
    assert {one["scheduleId"] for one in listed} == {cron["scheduleId"], often["scheduleId"]}
    assert (await send(api, "DELETE", path)).json["data"]["schedule"] == {**cron, "status": "DELETED"}
    listed = (await send(api, "GET", "/crons/schedules", params={"status": "DELETED"})).json["data"]
    assert [one["scheduleId"] for one in listed] == [cron["scheduleId"]]
