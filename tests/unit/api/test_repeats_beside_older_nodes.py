"""A repeat under an idempotency key gets the original answer, though nodes run by then that would not be given more."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.domain.acknowledgements import AckSettings
from tests.support.api import ApiHarness, schedule

SCHEDULES = "/v1/clients/shop/schedules"
GATED: dict[str, dict[str, Any]] = {
    "ack": {"callback": {"url": "https://receiver.example/", "ack": {"within_seconds": 60}}},
    "on_failure": {"on_failure": "https://book.example/"},
    "deadline": {"succeed_within_seconds": 60},
}
"""What is refused while nodes run that do not know it."""


@pytest.fixture
async def shop() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(acknowledgements=AckSettings(base_url="https://minutehand.example")) as harness:
        await harness.add_built_in_clients()
        await harness.register("shop")
        assert (await harness.send("PATCH", "/v1/clients/shop/settings", json={"event_feed": True})).status == 200
        yield harness


async def send(shop: ApiHarness, method: str, path: str, body: dict[str, Any], *, key: str) -> tuple[int, Any]:
    reply = await shop.send(method, path, json=body, headers={"Idempotency-Key": key})
    return reply.status, reply.json


@pytest.mark.parametrize("gated", GATED)
async def test_a_repeat_gets_the_original_answer_and_a_new_request_is_refused(shop: ApiHarness, gated: str) -> None:
    body = schedule(**GATED[gated])
    moved = await shop.send("POST", SCHEDULES, json=schedule())
    asked = [
        ("POST", SCHEDULES, body),
        ("POST", f"{SCHEDULES}:batch", {"items": [body, schedule(), {"callback": {}}]}),
        ("PUT", f"{SCHEDULES}/by-key/mine", body),
    ]
    if gated == "deadline":
        asked.append(("PATCH", f"{SCHEDULES}/{moved.json['schedule_id']}", GATED[gated]))
    first = [await send(shop, *one, key=f'"{number}"') for number, one in enumerate(asked)]
    assert all(status < 300 for status, _ in first), first
    shop.members.nodes_know = 1
    for number, (one, (_, made)) in enumerate(zip(asked, first, strict=True)):
        status, again = await send(shop, *one, key=f'"{number}"')
        assert status == 200, (one, again)
        assert _ids(again) == _ids(made)
        if one[0] != "POST":
            # The schedule is as it asks already: nothing would be made.
            continue
        status, refused = await send(shop, *one, key=f'"other-{number}"')
        assert (status, refused["type"]) == (409, "/problems/older-nodes"), (one, refused)


async def test_an_item_that_was_refused_stays_refused(shop: ApiHarness) -> None:
    """By whichever reason there is now, and without what was made with it."""
    beyond = schedule(delay_seconds=10_000 * 86_400)
    body = {"items": [schedule(**GATED["ack"]), beyond]}
    status, made = await send(shop, "POST", f"{SCHEDULES}:batch", body, key='"a"')
    assert (status, [item["status"] for item in made["items"]]) == (200, [201, 422])
    shop.members.nodes_know = 1
    status, again = await send(shop, "POST", f"{SCHEDULES}:batch", body, key='"a"')
    assert (status, [item["status"] for item in again["items"]]) == (200, [201, 409])
    assert len([row for row in shop.connection.rows("schedules") if row["created_at"]]) == 1


def _ids(answer: dict[str, Any]) -> list[str | None]:
    if "items" in answer:
        return [(item.get("schedule") or {}).get("schedule_id") for item in answer["items"]]
    return [answer["schedule_id"]]
