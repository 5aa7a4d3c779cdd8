"""Names that libraries take for steps of a path: they reach the API as themselves, and nothing above them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minutehand.client import AsyncMinutehand, Callback, Minutehand, MinutehandApiError
from tests.support.api import ADMIN_KEY, ApiHarness

CALL = Callback(url="https://receiver.example/hook", json={"order": 17})
NAMES = [".", "..", "...", "a/../b", "%2e%2e", "..%2f", "..;a", "..\\a"]


def url_of(api: ApiHarness) -> str:
    assert api.server is not None
    return f"http://127.0.0.1:{api.server.port}"


@pytest.fixture
async def manager(api: ApiHarness) -> str:
    await api.register("shop")
    return str((await api.send("POST", "/v1/clients/shop/keys", json={"scope": "manage"})).json["key"])


@pytest.mark.parametrize("name", NAMES)
async def test_a_schedules_key_is_put_shown_and_cancelled(api: ApiHarness, manager: str, name: str) -> None:
    async with AsyncMinutehand(url_of(api), manager) as minutehand:
        schedules = minutehand.client("shop").schedules
        made = await schedules.put(name, CALL, delay_seconds=90)
        assert made.key == name
        assert await schedules.get_by_key(name) == made
        assert (await schedules.cancel_by_key(name)).state == "cancelled"


@pytest.mark.parametrize("name", [".", ".."])
async def test_the_client_with_threads_does_the_same(api: ApiHarness, manager: str, name: str) -> None:
    def use() -> list[Any]:
        with Minutehand(url_of(api), manager) as minutehand:
            schedules = minutehand.client("shop").schedules
            made = schedules.put(name, CALL, delay_seconds=90)
            return [made.key, schedules.get_by_key(name).schedule_id == made.schedule_id]

    assert await asyncio.to_thread(use) == [name, True]


ACTIONS: dict[str, Callable[[Any, str], Awaitable[Any]]] = {
    "show a schedule": lambda client, name: client.schedules.get(name),
    "cancel a schedule": lambda client, name: client.schedules.cancel(name),
    "put a cron": lambda client, name: client.crons.put(name, CALL, expression="0 2 * * *", timezone="UTC"),
    "show a cron": lambda client, name: client.crons.get(name),
    "delete a cron": lambda client, name: client.crons.delete(name),
    "list a cron's runs": lambda client, name: _first(client.crons.runs(name)),
    "put a destination": lambda client, name: client.destinations.put(name, {"url": "https://receiver.example"}),
    "show a destination": lambda client, name: client.destinations.get(name),
    "delete a destination": lambda client, name: client.destinations.delete(name),
    "revoke a key": lambda client, name: client.keys.revoke(name),
}


async def _first(pages: Any) -> None:
    async for _ in pages:
        return


@pytest.mark.parametrize("name", [".", ".."])
@pytest.mark.parametrize("action", ACTIONS)
async def test_what_has_no_such_name_is_refused_by_it(api: ApiHarness, manager: str, action: str, name: str) -> None:
    before = [api.connection.rows(table) for table in ("clients", "schedules", "crons", "destinations")]
    async with AsyncMinutehand(url_of(api), manager) as minutehand:
        with pytest.raises(MinutehandApiError) as refused:
            await ACTIONS[action](minutehand.client("shop"), name)
    assert refused.value.kind in ("not-found", "invalid")
    assert "no such path" not in str(refused.value)
    assert [api.connection.rows(table) for table in ("clients", "schedules", "crons", "destinations")] == before


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_client_has_no_such_name_either(api: ApiHarness, name: str) -> None:
    async with AsyncMinutehand(url_of(api), ADMIN_KEY) as minutehand:
        with pytest.raises(MinutehandApiError) as refused:
            await minutehand.client(name).get()
    assert refused.value.kind == "not-found"
    assert name in str(refused.value)
