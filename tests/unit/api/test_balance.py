"""GET .../balance: the counts, valid windows, and pages."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from cql.memory.connection import InMemoryConnection
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis, key_of, partition_of
from scheduler_service.domain.schedules import ExternalUpdate, Outcome, RowWrite, State
from scheduler_service.usecases import balance
from scheduler_service.usecases import balance as count_minute
from tests.support.api import ApiHarness, SeededRandomness, schedule

BALANCE = "/v1/clients/shop/balance"
RANDOM = SeededRandomness(3)
COUNTS = ("accepted", "delivered", "failed", "cancelled", "skipped", "open")
SPAN = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T12:00:00Z"}


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness() as harness:
        yield harness


@pytest.fixture
async def key(api: ApiHarness) -> str:
    return await api.register()


async def create(api: ApiHarness, key: str, delay_seconds: float) -> ScheduleId:
    reply = await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule(delay_seconds=delay_seconds))
    assert reply.status == 201
    return ScheduleId(UUID(reply.json["schedule_id"]))


async def end(api: ApiHarness, schedule_id: ScheduleId, state: State, *, late_ms: int | None = None) -> None:
    key = key_of(schedule_id)
    first = None if late_ms is None else UnixMillis(key.due + late_ms)
    write = RowWrite(key=key, outcome=Outcome(state=state, first_attempt_at=first), expect_state=State.SCHEDULED)
    await api.storage.schedules.update(
        ExternalUpdate(
            partition=partition_of(ClientId("shop"), schedule_id),
            edits=RANDOM.uuid4(),
            version=None,
            version_known=True,
            writes=(write,),
        )
    )


async def pages(api: ApiHarness, key: str, query: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        reply = await api.send("GET", BALANCE, key=key, params=query)
        assert reply.status == 200, reply.body
        found += reply.json["items"]
        if reply.json["next_cursor"] is None:
            return found
        query = {"cursor": reply.json["next_cursor"], **{name: query[name] for name in query if name == "limit"}}


async def test_what_became_of_each_minute(api: ApiHarness, key: str) -> None:
    ids = [await create(api, key, 60 + number) for number in range(12)]
    later = await create(api, key, 7200)
    for position, (state, late_ms) in enumerate(
        [
            *((State.DELIVERED, late) for late in (0, 3, 70, 7_200_000)),
            *((State.FAILED, 12), (State.CANCELLED, None), (State.CANCELLED, None), (State.SKIPPED, None)),
        ]
    ):
        await end(api, ids[position], state, late_ms=late_ms)
    items = await pages(api, key, SPAN)
    assert [item["minute"] for item in items] == ["2026-11-21T09:31:00.000Z", "2026-11-21T11:30:00.000Z"]
    assert [items[0][name] for name in COUNTS] == [12, 4, 1, 2, 1, 4]
    assert items[0]["lateness"] == {"p50_seconds": 0.02, "p99_seconds": 7200.0, "max_seconds": 7200.0}
    assert [items[1][name] for name in COUNTS] == [1, 0, 0, 0, 0, 1]
    assert items[1]["lateness"] is None
    api.clock.advance(86_400)
    assert await pages(api, key, SPAN) == await pages(api, key, SPAN) == items
    await end(api, later, State.DELIVERED, late_ms=1)
    assert [(await pages(api, key, SPAN))[1][name] for name in COUNTS] == [1, 1, 0, 0, 0, 0]


async def test_without_a_window_it_is_the_last_hour(api: ApiHarness, key: str) -> None:
    for delay in (30, 90, 3_600):
        await create(api, key, delay)
    api.clock.advance(120)
    assert [item["accepted"] for item in await pages(api, key, {})] == [1, 1]
    api.clock.advance(3_600)
    assert [item["minute"] for item in await pages(api, key, {})] == ["2026-11-21T10:30:00.000Z"]
    assert len(await pages(api, key, {"from": "2026-11-21T11:00:00Z"})) == 0


async def test_a_minute_that_the_window_cuts_is_whole(api: ApiHarness, key: str) -> None:
    for delay in (1, 30, 59):
        await create(api, key, delay)
    cut = {"from": "2026-11-21T09:30:20Z", "to": "2026-11-21T09:30:40Z"}
    assert [item["accepted"] for item in await pages(api, key, cut)] == [3]
    assert await pages(api, key, {"from": "2026-11-21T09:29:00Z", "to": "2026-11-21T09:30:00Z"}) == []


@pytest.mark.parametrize("limit", [1, 2, 5, 1440])
async def test_page_by_page(api: ApiHarness, key: str, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_minute, "COUNTED_AT_ONCE", 2)
    monkeypatch.setattr(balance, "MAX_ROWS", 3)
    for number in range(40):
        await create(api, key, 20 * number)
    items = await pages(api, key, {**SPAN, "limit": str(limit)})
    assert [item["accepted"] for item in items] == [3] * 13 + [1]


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ({"from": "yesterday"}, ["/from"]),
        ({"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T09:00:00Z"}, ["/to"]),
        ({"from": "2026-11-21T09:00:00Z", "to": "2026-11-22T09:00:00.001Z"}, ["/to"]),
        ({"limit": "0", "to": "never"}, ["/limit", "/to"]),
        ({"limit": "1441"}, ["/limit"]),
        ({"cursor": "x", "limit": "0"}, ["/limit", "/cursor"]),
        ({"state": "failed"}, ["/state"]),
    ],
)
async def test_what_cannot_be_asked(api: ApiHarness, key: str, query: dict[str, str], pointers: list[str]) -> None:
    reply = await api.send("GET", BALANCE, key=key, params=query)
    assert (reply.status, list(reply.faults)) == (422, pointers)


async def test_a_cursor_is_good_for_its_own_books_only(api: ApiHarness, key: str) -> None:
    for delay in (30, 90):
        await create(api, key, delay)
    other = await api.register("other")
    asked = {**SPAN, "limit": "1"}
    cursor = (await api.send("GET", BALANCE, key=key, params=asked)).json["next_cursor"]
    schedules = "/v1/clients/shop/schedules"
    of_schedules = (await api.send("GET", schedules, key=key, params=asked)).json["next_cursor"]
    for path, of, text in (
        (BALANCE, key, of_schedules),
        (BALANCE, key, cursor[:-2]),
        (schedules, key, cursor),
        ("/v1/clients/other/balance", other, cursor),
    ):
        reply = await api.send("GET", path, key=of, params={"cursor": text})
        assert (reply.status, list(reply.faults)) == (422, ["/cursor"]), path
    moved = await api.send("GET", BALANCE, key=key, params={"cursor": cursor, "to": "2026-11-21T13:00:00Z"})
    assert (moved.status, list(moved.faults)) == (422, ["/to"])
    assert (await api.send("GET", BALANCE, key=key, params={**SPAN, "cursor": cursor})).status == 200


class Away(InMemoryConnection):
    """Storage that gives no answer to the statements in `away`."""

    away: frozenset[str] = frozenset()

    async def select(self, name: str, parameters: Any, **how: Any) -> list[tuple[Any, ...]]:
        if name in self.away:
            raise StoreUnavailable("away")
        return await super().select(name, parameters, **how)


async def test_storage_that_cannot_answer_is_503_and_no_sum() -> None:
    connection = Away()
    async with ApiHarness(connection=connection) as api:
        key = await api.register()
        await create(api, key, 30)
        statements = ["occupied_minutes.read", "minute_balance.read", "schedules.count_first_page"]
        for name in statements:
            connection.away = frozenset({name})
            reply = await api.send("GET", BALANCE, key=key, params=SPAN)
            assert (reply.status, "Retry-After" in reply.headers) == (503, True), name
        connection.away = frozenset()
        assert [item["accepted"] for item in await pages(api, key, SPAN)] == [1]
