"""Creates beyond the bounded queue, while storage does not answer."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from cql.settings import StorageSettings
from tests.support.api import ApiHarness, Reply, callback, schedule
from tests.unit.cql.gate import Gate, commit_all

SCHEDULES = "/v1/clients/shop/schedules"
ROWS = 5
BYTES = 4_000


@pytest.fixture
def connection() -> Gate:
    return Gate()


@pytest.fixture
async def api(connection: Gate) -> AsyncIterator[ApiHarness]:
    async with ApiHarness(connection=connection, storage=StorageSettings(queue_rows=ROWS, queue_bytes=BYTES)) as made:
        yield made


async def in_queue(api: ApiHarness, rows: int) -> None:
    """Wait until so many creates wait for storage; other requests are answered in the meantime."""
    async with asyncio.timeout(10):
        while api.storage.group_commit.rows != rows:
            assert (await api.send("GET", "/livez", key=None)).status == 200


def create(api: ApiHarness, key: str, **fields: object) -> asyncio.Task[Reply]:
    return asyncio.get_running_loop().create_task(api.send("POST", SCHEDULES, key=key, json=schedule(**fields)))


def stored(api: ApiHarness) -> dict[str, str]:
    """Labels of the stored rows, by schedule."""
    return {str(row["schedule_id"]): row["label"] for row in api.connection.rows("schedules")}


def assert_overloaded(reply: Reply) -> None:
    assert (reply.status, reply.json["type"]) == (503, "/problems/overloaded")
    assert reply.headers["Retry-After"] == "1"


async def test_what_the_queue_has_no_room_for_is_refused_and_not_stored(
    api: ApiHarness, connection: Gate, key: str
) -> None:
    connection.hold = True
    waiting = [create(api, key, label=f"waiting-{number}") for number in range(ROWS)]
    await in_queue(api, ROWS)
    for number in range(3):
        assert_overloaded(await create(api, key, label=f"refused-{number}"))
    items = [schedule(label="refused-one"), schedule(label="refused-other")]
    assert_overloaded(await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": items}))
    assert api.storage.group_commit.rows == ROWS
    assert not any(task.done() for task in waiting)
    assert stored(api) == {}
    assert b"minutehand_api_storage_available 1.0" in (await api.send("GET", "/metrics")).body

    await commit_all(connection, waiting)
    replies = [task.result() for task in waiting]
    assert [reply.status for reply in replies] == [201] * ROWS
    assert stored(api) == {reply.json["schedule_id"]: f"waiting-{number}" for number, reply in enumerate(replies)}
    assert api.storage.group_commit.rows == 0

    reply = await create(api, key, label="later")
    assert reply.status == 201
    assert stored(api)[reply.json["schedule_id"]] == "later"
    assert len(stored(api)) == ROWS + 1


async def test_the_bound_is_also_one_of_bytes(api: ApiHarness, connection: Gate, key: str) -> None:
    connection.hold = True
    large = create(api, key, label="large", callback=callback(body="x" * (BYTES - 1_000)))
    await in_queue(api, 1)
    assert_overloaded(await create(api, key, label="refused", callback=callback(body="y" * 1_000)))
    small = create(api, key, label="small")
    await in_queue(api, 2)
    await commit_all(connection, [large, small])
    assert [task.result().status for task in (large, small)] == [201, 201]
    assert sorted(stored(api).values()) == ["large", "small"]


async def test_timed_out_creates_free_their_place_in_the_queue(api: ApiHarness, connection: Gate, key: str) -> None:
    connection.hold = True
    waiting = [create(api, key) for _ in range(ROWS)]
    await in_queue(api, ROWS)
    api.clock.advance(api.settings.request_timeout_seconds)
    for reply in await asyncio.gather(*waiting):
        assert (reply.status, reply.json["type"]) == (503, "/problems/storage-unavailable")
        assert reply.headers["Retry-After"] == "1"
    assert api.storage.group_commit.rows == 0
    await commit_all(connection, [])
    assert (await create(api, key, label="later")).status == 201
    assert list(stored(api).values()) == ["later"], "what was given up before it was sent is not sent"
