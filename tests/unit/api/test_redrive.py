"""Redelivery of all dead letters of a window, over REST."""

from typing import Any

from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from tests.support.api import NOW, ApiHarness
from tests.support.outcomes import created, ended, gave_up, row_of

REDRIVE = "/v1/clients/shop/dead-letters:redeliver"


async def redrive(api: ApiHarness, key: str, **body: object) -> dict[str, Any]:
    reply = await api.send("POST", REDRIVE, key=key, json=body)
    assert reply.status == 200, reply.body
    return dict(reply.json)


async def given_up(api: ApiHarness, key: str, count: int) -> list[ScheduleId]:
    """Schedules that failed one after the other, a second apart, the first at NOW + 100 s."""
    ids = [await created(api, key) for _ in range(count)]
    api.clock.advance(99)
    for one in ids:
        api.clock.advance(1)
        await gave_up(api, one)
    return ids


async def states(api: ApiHarness, ids: list[ScheduleId]) -> list[str | None]:
    rows = [await row_of(api, one) for one in ids]
    return [row.state for row in rows if row is not None]


async def test_a_window_is_redelivered_step_by_step(api: ApiHarness, key: str) -> None:
    ids = await given_up(api, key, 5)
    window = {"from": format_instant(NOW + 101_000), "to": format_instant(NOW + 104_000)}
    done = await redrive(api, key, **window, limit=2)
    cursor = done.pop("next_cursor")
    assert done == {"redelivered": 2, "passed_over": 0}
    assert await states(api, ids) == ["failed", "retrying", "retrying", "failed", "failed"]
    assert await redrive(api, key, cursor=cursor) == {"redelivered": 1, "passed_over": 0, "next_cursor": None}
    assert await states(api, ids) == ["failed", "retrying", "retrying", "retrying", "failed"]
    for one in ids[1:4]:
        row = await row_of(api, one)
        assert row is not None
        assert await row_of(api, one, at=row.next_attempt_at) is not None


async def test_asked_again_a_window_gives_nothing_again(api: ApiHarness, key: str) -> None:
    first, second = await given_up(api, key, 2)
    assert (await redrive(api, key))["redelivered"] == 2
    assert await redrive(api, key) == {"redelivered": 0, "passed_over": 2, "next_cursor": None}
    api.clock.advance(60)
    await ended(api, first, State.DELIVERED, attempts=2)
    await gave_up(api, second, attempts=2)
    old = {"to": format_instant(NOW + 110_000)}
    assert await redrive(api, key, **old) == {"redelivered": 0, "passed_over": 2, "next_cursor": None}
    assert await redrive(api, key) == {"redelivered": 1, "passed_over": 2, "next_cursor": None}


async def test_faults_of_a_window_are_named(api: ApiHarness, key: str) -> None:
    for body, faults in (
        ({"from": "x", "to": "y"}, {"/from", "/to"}),
        ({"limit": 1001}, {"/limit"}),
        ({"cursor": "x"}, {"/cursor"}),
        ({"from": format_instant(NOW), "to": format_instant(NOW + 86_400_001)}, {"/to"}),
        ({"state": "failed"}, {"/state"}),
    ):
        reply = await api.send("POST", REDRIVE, key=key, json=body)
        assert (reply.status, set(reply.faults)) == (422, faults)


async def test_a_suspended_client_redelivers_nothing(api: ApiHarness, key: str) -> None:
    ids = await given_up(api, key, 1)
    await api.send("POST", "/v1/clients/shop:suspend")
    reply = await api.send("POST", REDRIVE, key=key, json={})
    assert (reply.status, reply.json["type"]) == (403, "/problems/client-suspended")
    assert await states(api, ids) == ["failed"]
