"""The SDK against an API whose answers get lost: each create is made once, and only the first has an idempotency
key.
"""

from collections.abc import Sequence

import httpx
import pytest

from minutehand.client import AsyncMinutehand, Callback, NewSchedule
from tests.support.api import ApiHarness
from tests.support.scripted_api import ScriptedRuntime
from tests.unit.api.test_idempotency import calls, keys

CALL = Callback(url="https://receiver.example/hook", json={"order": 17})


class Losing(httpx.AsyncHTTPTransport):
    """Loses the answers to requests with these numbers, after they were handled."""

    def __init__(self, numbers: Sequence[int]) -> None:
        super().__init__(trust_env=False)
        self.numbers = numbers
        self.requests = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        lost = self.requests in self.numbers
        response = await super().handle_async_request(request)
        if lost:
            await response.aread()
            raise httpx.ReadError("the connection was reset")
        return response


def sdk(api: ApiHarness, key: str, transport: Losing) -> AsyncMinutehand:
    assert api.server is not None
    return AsyncMinutehand(
        f"http://127.0.0.1:{api.server.port}", key, transport=transport, runtime=ScriptedRuntime(chance=0.5)
    )


@pytest.mark.parametrize("quota", [3, 12])
async def test_each_create_is_made_once(api: ApiHarness, key: str, quota: int) -> None:
    transport = Losing([2, 3, 5])
    async with sdk(api, key, transport) as minutehand:
        schedules = minutehand.client("shop").schedules
        first = await schedules.create(CALL, delay_seconds=90)
        await api.register("shop", quota=quota)
        second = await schedules.create(CALL, delay_seconds=90)
        batch = await schedules.create_batch([NewSchedule(callback=CALL, delay_seconds=90)] * 2)
        async with schedules.bulk() as bulk:
            future = await bulk.add(NewSchedule(callback=CALL, delay_seconds=90))
    third = future.result().schedule
    assert third is not None
    made = {first.schedule_id, second.schedule_id, third.schedule_id}
    made |= {item.schedule.schedule_id for item in batch if item.schedule is not None}
    assert {str(row["schedule_id"]) for row in calls(api)} == made
    assert (len(made), len(keys(api)), transport.requests) == (5, 1, 7)


async def test_a_quota_that_was_cut_costs_one_more_request(api: ApiHarness, key: str) -> None:
    transport = Losing([4])
    async with sdk(api, key, transport) as minutehand:
        schedules = minutehand.client("shop").schedules
        made = [await schedules.create(CALL, delay_seconds=90)]
        await api.register("shop", quota=1)
        made += [await schedules.create(CALL, delay_seconds=90) for _ in range(2)]
    assert {str(row["schedule_id"]) for row in calls(api)} == {one.schedule_id for one in made}
    # One create under a key, one refused, one under a key again; then one under a token, sent twice.
    assert (len(keys(api)), transport.requests) == (2, 5)
