"""Redelivery of all dead letters of a window, over REST."""

from typing import Any

import pytest

from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from tests.support.api import NOW, ApiHarness
from tests.support.outcomes import created, ended, gave_up, row_of

LETTERS = "/v1/clients/shop/dead-letters"
REDRIVE = f"{LETTERS}:redeliver"


async def redrive(api: ApiHarness, key: str, **body: object) -> dict[str, Any]:
    reply = await api.send("POST", REDRIVE, key=key, json=body)
    assert reply.status == 200, reply.body
    return dict(reply.json)


async def counted(api: ApiHarness, key: str, **body: object) -> dict[str, Any]:
    done = await redrive(api, key, **body)
    assert len(done.pop("items")) == done["redelivered"] + done["passed_over"]
    return done


def letter_id(one: ScheduleId, seconds: int) -> str:
    return f"{one}@{NOW + seconds * 1000}"


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
    items = [
        {"letter_id": letter_id(one, 101 + at), "status": 202, "state": "retrying", "reason": None}
        for at, one in enumerate(ids[1:3])
    ]
    assert done == {"redelivered": 2, "passed_over": 0, "items": items}
    assert await states(api, ids) == ["failed", "retrying", "retrying", "failed", "failed"]
    assert await counted(api, key, cursor=cursor) == {"redelivered": 1, "passed_over": 0, "next_cursor": None}
    assert await states(api, ids) == ["failed", "retrying", "retrying", "retrying", "failed"]
    for one in ids[1:4]:
        row = await row_of(api, one)
        assert row is not None
        assert await row_of(api, one, at=row.next_attempt_at) is not None


async def test_asked_again_a_window_gives_nothing_again(api: ApiHarness, key: str) -> None:
    first, second = await given_up(api, key, 2)
    assert (await redrive(api, key))["redelivered"] == 2
    assert await counted(api, key) == {"redelivered": 0, "passed_over": 2, "next_cursor": None}
    api.clock.advance(60)
    await ended(api, first, State.DELIVERED, attempts=2)
    await gave_up(api, second, attempts=2)
    old = {"to": format_instant(NOW + 110_000)}
    assert await counted(api, key, **old) == {"redelivered": 0, "passed_over": 2, "next_cursor": None}
    assert await counted(api, key) == {"redelivered": 1, "passed_over": 2, "next_cursor": None}


async def test_listed_letters_are_redelivered_each_with_its_result(api: ApiHarness, key: str) -> None:
    ids = await given_up(api, key, 4)
    await ended(api, ids[1], State.DELIVERED, attempts=2)
    mine = [letter_id(one, 100 + at) for at, one in enumerate(ids)]
    asked = [mine[0], mine[0], mine[1], "x", mine[2].replace("@", "@1"), f"{mine[3]}000000000"]
    done = await redrive(api, key, letter_ids=asked)
    assert [(item["letter_id"], item["status"], item["state"]) for item in done["items"]] == [
        (mine[0], 202, "retrying"),
        (mine[1], 409, "delivered"),
        ("x", 404, None),
        (asked[4], 409, "failed"),
        (asked[5], 404, None),
    ]
    assert (done["redelivered"], done["passed_over"], done["next_cursor"]) == (1, 4, None)
    assert await states(api, ids) == ["retrying", "delivered", "failed", "failed"]
    api.clock.advance(60)
    await gave_up(api, ids[0], attempts=2)
    again = await redrive(api, key, letter_ids=mine[:1])
    assert [(item["status"], item["state"]) for item in again["items"]] == [(409, "failed")], "it failed again since"


async def test_a_selection_by_filters_alone_is_redelivered(api: ApiHarness, key: str) -> None:
    ids = [await created(api, key) for _ in range(3)]
    api.clock.advance(100)
    await gave_up(api, ids[0])
    await gave_up(api, ids[1], last_status=None, last_error="timeout")
    await gave_up(api, ids[2], last_status=404, reason="final")
    done = await redrive(api, key, error="timeout")
    assert [item["letter_id"] for item in done["items"]] == [letter_id(ids[1], 100)]
    assert (await counted(api, key, status="4xx", reason="exhausted"))["redelivered"] == 0
    assert (await counted(api, key, status="404", reason="final"))["redelivered"] == 1
    assert await states(api, ids) == ["failed", "retrying", "retrying"]


@pytest.mark.parametrize("verb", [":redeliver", ":acknowledge"])
async def test_faults_of_a_window_are_named(api: ApiHarness, key: str, verb: str) -> None:
    for body, faults in (
        ({"from": "x", "to": "y"}, {"/from", "/to"}),
        ({"limit": 1001}, {"/limit"}),
        ({"cursor": "x"}, {"/cursor"}),
        ({"from": format_instant(NOW), "to": format_instant(NOW + 86_400_001)}, {"/to"}),
        ({"state": "failed"}, {"/state"}),
        ({"status": "6xx", "host": "", "label": "x" * 1025, "from": "x"}, {"/status", "/host", "/label", "/from"}),
        ({"letter_ids": []}, {"/letter_ids"}),
        ({"letter_ids": ["x"] * 1001}, {"/letter_ids"}),
        ({"letter_ids": ["x"], "host": "a", "limit": 1}, {"/host", "/limit"}),
    ):
        reply = await api.send("POST", LETTERS + verb, key=key, json=body)
        assert (reply.status, set(reply.faults)) == (422, faults)


async def test_a_suspended_client_redelivers_nothing(api: ApiHarness, key: str) -> None:
    ids = await given_up(api, key, 1)
    await api.send("POST", "/v1/clients/shop:suspend")
    reply = await api.send("POST", REDRIVE, key=key, json={})
    assert (reply.status, reply.json["type"]) == (403, "/problems/client-suspended")
    assert await states(api, ids) == ["failed"]
