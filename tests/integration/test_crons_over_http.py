"""A cron through the SDK, HTTP, the use cases and the stores, on a real Cassandra."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from cql.migrate import migrate
from cql.storage import open_storage
from minutehand.client import AsyncMinutehand, Calendar, Callback, Dst, MinutehandApiError, Retry
from scheduler_service.runtime.clock import SystemClock
from scheduler_service.runtime.randomness import SystemRandomness
from tests.contract.conftest import real_settings
from tests.support.api import ApiHarness
from tests.support.cassandra import SuiteCassandra
from tests.support.cron_calls import expand

CALLBACK = Callback(url="https://receiver.example/hook", headers={"Authorization": "secret"}, json={"a": 1})
NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)


@pytest_asyncio.fixture
async def harness(cassandra: SuiteCassandra) -> AsyncIterator[ApiHarness]:
    randomness = SystemRandomness()
    settings = real_settings(cassandra, f"crons_{randomness.bits(32):08x}")
    await migrate(settings, clock=SystemClock(), randomness=randomness)
    storage = await open_storage(settings)
    async with ApiHarness(stores=storage) as made:
        await made.add_built_in_clients()
        yield made
    await storage.close()


@pytest_asyncio.fixture
async def api(harness: ApiHarness) -> AsyncIterator[AsyncMinutehand]:
    key = await harness.register("shop")
    assert harness.server is not None
    async with AsyncMinutehand(f"http://127.0.0.1:{harness.server.port}", key) as connected:
        yield connected


async def test_the_life_of_a_cron(harness: ApiHarness, api: AsyncMinutehand) -> None:
    crons = api.client("shop").crons
    rule = {"expression": "*/4 * * * *", "timezone": "Europe/Berlin"}
    made = await crons.put(
        "often", CALLBACK, **rule, max_fires=4, dst=Dst(fold="both"), retry=Retry(max_attempts=2), label="l"
    )
    assert (
        await crons.put(
            "often", CALLBACK, **rule, max_fires=4, dst=Dst(fold="both"), retry=Retry(max_attempts=2), label="l"
        )
        == made
    )
    assert (made.revision, made.words, made.callback.headers["Authorization"]) == (1, "every 4 minutes", "***")
    minutes = [NOW + timedelta(minutes=number) for number in (2, 6, 10, 14)]
    assert list(made.next_fires) == minutes

    await expand(harness, "often")
    triggered = await crons.trigger("often")
    found = [one async for one in crons.runs("often", page_size=2)]
    assert [(one.nominal_due, one.state) for one in found] == [
        (triggered.due, "scheduled"),
        *((instant, "scheduled") for instant in minutes[:3]),
        (minutes[3], "planned"),
    ]
    assert [one.triggered for one in found] == [True, False, False, False, False]
    listed = [one async for one in api.client("shop").schedules.list(cron_id="often")]
    assert [one.schedule_id for one in listed] == [one.schedule_id for one in found[:4]]
    assert (await crons.get("often")).next_fires == made.next_fires

    assert (await crons.pause("often")).state == "paused"
    await expand(harness, "often")
    after = [one async for one in crons.runs("often")]
    assert [(one.state, one.reason) for one in after] == [("scheduled", None), *[("cancelled", "cron-changed")] * 3]
    resumed = await crons.resume("often")
    assert (resumed.state, resumed.revision, len(resumed.next_fires)) == ("active", 3, 4)

    await crons.put("other", CALLBACK, expression="@yearly", timezone="UTC")
    assert [one.cron_id async for one in crons.list(page_size=1)] == ["often", "other"]
    assert (await crons.delete("often")).state == "deleted"
    assert [one.cron_id async for one in crons.list(page_size=1)] == ["other"]
    with pytest.raises(MinutehandApiError, match="no cron"):
        await crons.get("often")
    assert [one.schedule_id async for one in crons.runs("often")] == [one.schedule_id for one in after]


async def test_every_dialect_and_form_of_a_rule_gets_its_fires(harness: ApiHarness, api: AsyncMinutehand) -> None:
    """The present is a Saturday, the third of November."""
    crons = api.client("shop").crons
    at_0935 = NOW.replace(minute=35)
    rules: dict[str, tuple[dict[str, Any], str]] = {
        "cronie": ({}, "35 9 * * 6"),
        "minutehand": ({}, "35 9 21 * &6#3"),
        "goscheduler": ({}, "35 9 21 NOV SAT"),
        "quartz": ({}, "0 35 9 ? * 7#3 2026"),
        "aws": ({}, "cron(35 9 ? 11 SAT 2026)"),
        "spring": ({}, "0 35 9 L-9 * SAT"),
        "rate": ({"dialect": "aws"}, "rate(5 minutes)"),
        "union": (
            {
                "dialect": "minutehand",
                "also": ["35 9 * * 6", "0 9 L * *"],
                "excluding": ["40-59 * * * *", "* 10-23 * * *"],
            },
            "40 9 * * *",
        ),
        "moved": ({"calendar": Calendar(country="DE", dates=("2026-11-20",), on="move-next")}, "35 9 20 11 *"),
    }
    for cron_id, (options, expression) in rules.items():
        asked = {"timezone": "UTC", **options}
        if cron_id in ("minutehand", "goscheduler", "quartz", "aws", "spring"):
            asked["dialect"] = cron_id
        made = await crons.put(cron_id, CALLBACK, expression=expression, **asked)
        assert (made.expression, made.next_fires[0]) == (expression, at_0935), cron_id
        assert await crons.get(cron_id) == await crons.put(cron_id, CALLBACK, expression=expression, **asked) == made
        await expand(harness, cron_id)
        first, *_ = [one async for one in crons.runs(cron_id, start=NOW, end=NOW + timedelta(hours=1))]
        assert (first.nominal_due, first.state) == (at_0935, "scheduled"), cron_id
        shown = await api.client("shop").schedules.get(first.schedule_id or "")
        assert (shown.due, shown.cron_id) == (at_0935, cron_id)


async def test_a_refused_cron_is_nowhere(api: AsyncMinutehand) -> None:
    crons = api.client("shop").crons
    with pytest.raises(MinutehandApiError) as caught:
        await crons.put("never", CALLBACK, expression="0 0 31 2 *", timezone="Europe/Berlim")
    assert {fault.pointer for fault in caught.value.problem.errors} == {"/expression", "/timezone"}
    assert [one async for one in crons.list()] == []
    shown = await api.preview_cron("@daily", timezone="Asia/Tokyo", count=1, start=NOW)
    assert shown.next_fires == (datetime(2026, 11, 21, 15, tzinfo=UTC),)
