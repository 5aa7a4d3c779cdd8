"""Subscriptions over HTTP: their documents, their bound, and the destination that they name."""

import asyncio
from typing import Any

import pytest

from scheduler_service.domain.subscriptions import MAX_SUBSCRIPTIONS, NOTICES_SINCE
from tests.support.api import ApiHarness, Reply
from tests.support.nodes import Nodes

BASE = "/v1/clients/shop/subscriptions"


@pytest.fixture
async def shop(api: ApiHarness) -> ApiHarness:
    await api.register("shop")
    made = await api.send("PUT", "/v1/clients/shop/destinations/book", json={"url": "https://book.example/events"})
    assert made.status == 201
    return api


async def put(api: ApiHarness, name: str = "failures", **asked: Any) -> Reply:
    return await api.send("PUT", f"{BASE}/{name}", json={"destination": "book", **asked})


async def test_a_subscription_is_made_changed_and_deleted(shop: ApiHarness) -> None:
    made = await put(shop, events=["schedule.failed", "schedule.failed"], filter={"label": "x", "key_prefix": "a-"})
    assert made.status == 201
    assert made.json["events"] == ["schedule.failed"]
    assert made.json["filter"] == {"label": "x", "key_prefix": "a-", "cron_id": None, "destination": None}
    changed = await put(shop, enabled=False)
    assert (changed.status, changed.json["events"], changed.json["enabled"]) == (200, [], False)
    assert changed.json["revision"] == made.json["revision"] + 1
    assert (await shop.send("GET", f"{BASE}/failures")).json == changed.json
    assert (await shop.send("GET", BASE)).json["items"] == [changed.json]
    assert (await shop.send("DELETE", f"{BASE}/failures")).status == 204
    assert (await shop.send("DELETE", f"{BASE}/failures")).status == 404
    assert (await shop.send("GET", f"{BASE}/failures")).status == 404


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"destination": "nowhere"}, "/destination"),
        ({"events": ["schedule.created"]}, "/events/0"),
        ({"filter": {"destination": "No"}}, "/filter/destination"),
        ({"filter": {"key_prefix": " "}}, "/filter/key_prefix"),
        ({"filter": {"host": "x"}}, "/filter/host"),
    ],
)
async def test_faults_are_named(shop: ApiHarness, asked: dict[str, Any], pointer: str) -> None:
    refused = await put(shop, **asked)
    assert refused.status == 422, refused.body
    assert [fault["pointer"] for fault in refused.json["errors"]] == [pointer]


@pytest.mark.parametrize("name", ["on_failure", "on_", "Upper", "a" * 64, "a%20b"])
async def test_a_name_that_is_none_or_that_of_schedules_own_notices_is_not_found(shop: ApiHarness, name: str) -> None:
    for method, body in (("PUT", {"destination": "book"}), ("GET", None), ("DELETE", None)):
        assert (await shop.send(method, f"{BASE}/{name}", json=body)).status == 404


async def test_there_is_room_for_a_bounded_number_also_at_the_same_moment(shop: ApiHarness) -> None:
    replies = await asyncio.gather(*(put(shop, f"s{number}") for number in range(MAX_SUBSCRIPTIONS + 3)))
    kept = {one["name"] for one in (await shop.send("GET", BASE)).json["items"]}
    assert len(kept) <= MAX_SUBSCRIPTIONS
    assert sum(reply.status == 201 for reply in replies) == len(kept)
    for number in range(MAX_SUBSCRIPTIONS - len(kept)):
        assert (await put(shop, f"t{number}")).status == 201
    refused = await put(shop, "one-more")
    assert (refused.status, refused.json["type"]) == (409, "/problems/too-many-subscriptions")
    assert (await put(shop, next(iter(kept)), enabled=False)).status == 200, "a change needs no room"


async def test_a_destination_that_a_subscription_names_is_in_use(shop: ApiHarness) -> None:
    await put(shop)
    refused = await shop.send("DELETE", "/v1/clients/shop/destinations/book")
    assert (refused.status, refused.json["type"]) == (409, "/problems/destination-in-use")
    assert "1 subscription (failures)" in refused.json["detail"]
    assert (await shop.send("DELETE", "/v1/clients/shop/destinations/book?force=true")).status == 204


async def test_none_is_made_while_nodes_run_that_would_not_send(shop: ApiHarness) -> None:
    nodes = Nodes(shop)
    await nodes.beat(await nodes.add("older", knows=NOTICES_SINCE - 1), seconds=3)
    refused = await put(shop)
    assert (refused.status, refused.json["type"]) == (409, "/problems/older-nodes")


async def test_a_key_reaches_its_own_client_and_needs_the_scope(shop: ApiHarness) -> None:
    other = await shop.register("other")
    assert (await shop.send("PUT", f"{BASE}/x", key=other, json={"destination": "book"})).status == 404
    reader = (await shop.send("POST", "/v1/clients/shop/keys", json={"scope": "read"})).json["key"]
    refused = await shop.send("PUT", f"{BASE}/x", key=reader, json={"destination": "book"})
    assert refused.status == 403
    assert (await shop.send("GET", BASE, key=reader)).status == 200


@pytest.mark.parametrize("first", ["subscribed", "switched-off"])
async def test_a_subscription_that_is_made_as_the_feed_is_switched_off_keeps_its_feed(
    shop: ApiHarness, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """Either request has decided before the other one writes."""
    settings = "/v1/clients/shop/settings"
    await shop.send("PATCH", settings, json={"event_feed": True})
    store: Any = shop.storage.clients if first == "subscribed" else shop.storage.subscriptions
    method = "update_client" if first == "subscribed" else "put_subscription"
    write, others = getattr(store, method), list[Reply]()

    async def other_first(*args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        if first == "subscribed":
            others.append(await put(shop))
        else:
            others.append(await shop.send("PATCH", settings, json={"event_feed": False}))
        return await write(*args, **more)

    monkeypatch.setattr(store, method, other_first)
    if first == "subscribed":
        refused = await shop.send("PATCH", settings, json={"event_feed": False})
        assert (others[0].status, refused.status) == (201, 409)
        assert refused.json["type"] == "/problems/feed-in-use"
    else:
        assert ((await put(shop)).status, others[0].status) == (201, 200)
    assert (await shop.send("GET", "/v1/clients/shop")).json["settings"]["event_feed"] is True


async def test_a_feed_that_subscriptions_send_from_is_not_switched_off(shop: ApiHarness) -> None:
    await put(shop)
    await put(shop, "all", enabled=False)
    refused = await shop.send("PATCH", "/v1/clients/shop/settings", json={"event_feed": False})
    assert (refused.status, refused.json["type"]) == (409, "/problems/feed-in-use"), refused.body
    assert "2 subscriptions (all, failures)" in refused.json["detail"]
    again = await shop.send("PUT", "/v1/clients/shop", json={"poller_quota": 2})
    assert (again.status, again.json["type"]) == (409, "/problems/feed-in-use"), again.body
    for name in ("all", "failures"):
        assert (await shop.send("DELETE", f"{BASE}/{name}")).status == 204
    changed = await shop.send("PATCH", "/v1/clients/shop/settings", json={"event_feed": False})
    assert (changed.status, changed.json["settings"]["event_feed"]) == (200, False)
