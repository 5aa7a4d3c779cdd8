"""A trigger of a cron under an Idempotency-Key: a repeat is answered with the same run."""

import asyncio
from typing import Any

import pytest

from tests.support.api import ApiHarness, Reply, callback, cron, schedule
from tests.support.cron_calls import NIGHTLY, put
from tests.unit.api.test_idempotency import INSERTS, KEEP, Lossy, calls, post, replayed


@pytest.fixture
async def key(api: ApiHarness) -> str:
    return await registered(api)


async def registered(api: ApiHarness) -> str:
    """The key of the client `shop`; the client that wakes crons exists too."""
    await api.add_built_in_clients()
    return await api.register("shop", quota=2)


def run_rows(api: ApiHarness) -> list[dict[str, Any]]:
    return [row for row in calls(api) if row["client_id"] == "shop"]


async def trigger(api: ApiHarness, key: str, *, path: str = NIGHTLY, under: str = "k") -> Reply:
    return await api.send("POST", f"{path}:trigger", key=key, headers={"Idempotency-Key": under})


async def runs(api: ApiHarness, key: str) -> list[str]:
    shown = await api.send("GET", f"{NIGHTLY}/runs", key=key)
    return [run["schedule_id"] for run in shown.json["items"] if run["triggered"]]


async def test_triggered_once(api: ApiHarness, key: str) -> None:
    await put(api, key)
    first = await trigger(api, key)
    assert (first.status, replayed(first)) == (201, False)
    await put(api, key, callback=callback(url="https://other.example/"))
    api.clock.advance(30)
    again = await trigger(api, key)
    assert (again.status, replayed(again), again.json) == (200, True, first.json)
    assert again.headers["Location"] == first.headers["Location"]
    await api.send("DELETE", NIGHTLY, key=key)
    assert (await trigger(api, key)).json == first.json
    assert await runs(api, key) == [first.json["schedule_id"]]
    await put(api, key)
    other = await trigger(api, key, under="other")
    assert (other.status, len(await runs(api, key))) == (201, 2)


async def test_another_request_than_the_trigger_is_refused(api: ApiHarness, key: str) -> None:
    await put(api, key)
    assert (await api.send("PUT", f"{NIGHTLY}-too", key=key, json=cron())).status == 201
    assert (await trigger(api, key)).status == 201
    for reply in (await trigger(api, key, path=f"{NIGHTLY}-too"), await post(api, key, json=schedule())):
        assert (reply.status, reply.json["type"]) == (422, "/problems/idempotency-key-reused")
    assert len(run_rows(api)) == 1


@pytest.mark.parametrize("broken", [KEEP, "cron_runs.insert", *sorted(INSERTS)])
@pytest.mark.parametrize("fault", ["losing", "down"])
async def test_a_trigger_that_got_no_answer_is_one_run(fault: str, broken: str) -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await registered(api)
        await put(api, key)
        setattr(connection, fault, {broken})
        first = await trigger(api, key)
        setattr(connection, fault, set())
        api.clock.advance(20)
        again = await trigger(api, key)
        assert first.status == (201 if (fault, broken) == ("losing", KEEP) else 503)
        assert (again.status, replayed(again)) == ((201, False) if (fault, broken) == ("down", KEEP) else (200, True))
        assert [str(row["schedule_id"]) for row in run_rows(api)] == [again.json["schedule_id"]]
        assert await runs(api, key) == [again.json["schedule_id"]]
        assert (await trigger(api, key)).json == again.json


@pytest.mark.parametrize("became", ["changed", "deleted", "put-again"])
async def test_a_run_that_was_not_stored_is_not_made_of_another_cron(became: str) -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await registered(api)
        await put(api, key)
        connection.down = INSERTS
        assert (await trigger(api, key)).status == 503
        connection.down = set()
        if became != "changed":
            await api.send("DELETE", NIGHTLY, key=key)
        if became != "deleted":
            await put(api, key, callback=callback(url="https://other.example/"))
        again = await trigger(api, key)
        if became == "deleted":
            assert (again.status, again.json["type"]) == (404, "/problems/not-found")
        else:
            assert (again.status, again.json["type"]) == (409, "/problems/cron-changed")
        assert run_rows(api) == []
        assert await runs(api, key) == []


async def test_many_triggers_at_once_are_one(api: ApiHarness, key: str) -> None:
    await put(api, key)
    replies = await asyncio.gather(*(trigger(api, key) for _ in range(8)))
    assert sorted(replayed(reply) for reply in replies) == [False] + [True] * 7
    assert len({reply.json["schedule_id"] for reply in replies}) == len(await runs(api, key)) == 1
