"""`on_success` and `on_failure` over the API: what is taken, refused, stored and shown."""

from typing import Any

import pytest

from scheduler_service.domain.end_notices import END_NOTICES_SINCE
from scheduler_service.domain.schedules import Kind
from tests.support.api import ApiHarness, cron, schedule
from tests.support.nodes import Nodes

SCHEDULES = "/v1/clients/shop/schedules"
TOLD = {"on_success": "book", "on_failure": "https://book.example/failed"}


@pytest.fixture
async def shop(api: ApiHarness) -> ApiHarness:
    await api.add_built_in_clients()
    await api.register("shop")
    made = await api.send("PUT", "/v1/clients/shop/destinations/book", json={"url": "https://book.example/events"})
    assert made.status == 201
    return api


def told(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in TOLD}


async def test_a_schedule_shows_who_is_told_and_keeps_them_when_it_moves(shop: ApiHarness) -> None:
    made = await shop.send("POST", SCHEDULES, json=schedule(**TOLD))
    assert made.status == 201, made.body
    assert told(made.json) == TOLD
    path = f"{SCHEDULES}/{made.json['schedule_id']}"
    assert told((await shop.send("GET", path)).json) == TOLD
    changed = await shop.send("PATCH", path, json={"timeout_seconds": 5})
    assert (changed.status, told(changed.json)) == (200, TOLD)
    path = f"{SCHEDULES}/{changed.json['schedule_id']}"
    moved = await shop.send("POST", f"{path}:reschedule", json={"delay_seconds": 7200})
    assert moved.status in (200, 201, 202), moved.body
    assert told(moved.json) == TOLD, moved.body
    kinds = [row["kind"] for row in shop.connection.rows("schedules") if row.get("options")]
    assert set(kinds) == {Kind.TOLD}, "a sweep must see it of each row"


async def test_items_of_a_batch_and_crons_have_them_too(shop: ApiHarness) -> None:
    batch = await shop.send("POST", f"{SCHEDULES}:batch", json={"items": [schedule(**TOLD), schedule()]})
    assert [told(one["schedule"]) for one in batch.json["items"]] == [TOLD, {"on_success": None, "on_failure": None}]
    put = await shop.send("PUT", "/v1/clients/shop/crons/nightly", json=cron(**TOLD))
    assert put.status == 201, put.body
    assert told(put.json) == TOLD
    run = await shop.send("POST", "/v1/clients/shop/crons/nightly:trigger")
    assert run.status == 201, run.body
    shown = await shop.send("GET", f"{SCHEDULES}/{run.json['schedule_id']}")
    assert told(shown.json) == TOLD


@pytest.mark.parametrize(
    ("asked", "detail"),
    [
        ({"on_success": "nowhere"}, "there is no destination 'nowhere'"),
        ({"on_failure": "http://127.0.0.1/"}, ""),
        ({"on_failure": "ftp://book.example/"}, ""),
        ({"on_success": ""}, ""),
    ],
)
async def test_receivers_that_calls_may_not_have_are_refused(
    shop: ApiHarness, asked: dict[str, str], detail: str
) -> None:
    (name,) = asked
    for path, document in ((SCHEDULES, schedule(**asked)), ("/v1/clients/shop/crons/nightly", cron(**asked))):
        method = "POST" if path == SCHEDULES else "PUT"
        refused = await shop.send(method, path, json=document)
        assert refused.status == 422, refused.body
        (fault,) = refused.json["errors"]
        assert fault["pointer"] == f"/{name}"
        assert detail in fault["detail"]


async def test_none_is_taken_while_nodes_run_that_would_tell_nobody(shop: ApiHarness) -> None:
    nodes = Nodes(shop)
    await nodes.beat(await nodes.add("older", knows=END_NOTICES_SINCE - 1), seconds=3)
    for document in (schedule(on_failure="book"), schedule(on_success="https://book.example/")):
        refused = await shop.send("POST", SCHEDULES, json=document)
        assert (refused.status, refused.json["type"]) == (409, "/problems/older-nodes")
    refused = await shop.send("PUT", "/v1/clients/shop/crons/nightly", json=cron(**TOLD))
    assert (refused.status, refused.json["type"]) == (409, "/problems/older-nodes")
    assert (await shop.send("POST", SCHEDULES, json=schedule())).status == 201
