"""Which keys may use which route. Routes come from the table, so a new one is covered."""

import re
from dataclasses import dataclass
from uuid import UUID

import pytest

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Route
from scheduler_service.api.resources import ROUTES
from tests.support.api import ApiHarness, Reply, cron, schedule

OPEN = {
    "/livez",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/docs",
    "/llms.txt",
    "/problems/{kind}",
    "/v1/public-keys/{signer}",
}
OPEN |= {"/v1/acknowledgements/{ack_token}"}
CLIENT_ROUTES = [route for route in ROUTES if "{client_id}" in route.path]
NAMES = [f"{route.method} {route.path}" for route in ROUTES]
SOME_ID = UUID("01a1fe7b-0a24-8000-81b0-6435e6edef00")


@dataclass
class Keys:
    shop: str
    other: str
    revoked: str
    named_admin: str
    other_schedule: str
    other_key_id: str
    other_secret_id: str
    other_reconciliation: str


@pytest.fixture
async def keys(api: ApiHarness) -> Keys:
    await api.add_built_in_clients()
    shop, other = await api.register("shop"), await api.register("other")
    revoked = (await api.send("POST", "/v1/clients/shop/keys")).json
    await api.send("DELETE", f"/v1/clients/shop/keys/{revoked['key_id']}")
    named = (await api.send("POST", "/v1/admin-keys", json={"name": "ops"})).json["key"]
    made = await api.send("POST", "/v1/clients/other/schedules", key=other, json=schedule(label="private"))
    await api.send("PUT", "/v1/clients/other/crons/private-cron", key=other, json=cron(label="private"))
    await api.send("PUT", "/v1/clients/other/destinations/private-destination", json={"url": "https://private.example"})
    to = {"destination": "private-destination"}
    await api.send("PUT", "/v1/clients/other/subscriptions/private-subscription", json=to)
    secret = await api.send("POST", "/v1/clients/other/signing-secrets")
    window = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-21T10:00:00Z", "states": ["failed"], "action": "report"}
    asked = await api.send("POST", "/v1/clients/other/reconciliations", key=other, json=window)
    return Keys(
        shop,
        other,
        revoked["key"],
        named,
        made.json["schedule_id"],
        other.split("_")[1],
        secret.json["secret_id"],
        asked.json["reconciliation_id"],
    )


def path_of(route: Route, keys: Keys, client_id: str) -> str:
    """The route's path, filled with names that exist for the client `other`."""
    names = {
        "client_id": client_id,
        "schedule_id": keys.other_schedule,
        "key_id": keys.other_key_id,
        "secret_id": keys.other_secret_id,
        "node_id": "no-such-node",
        "cron_id": "private-cron",
        "destination": "private-destination",
        "subscription": "private-subscription",
        "schedule_key": "private-key",
        "reconciliation_id": keys.other_reconciliation,
        "kind": "invalid",
        "signer": "other",
        "ack_token": "nobody-signed-this",
    }
    return re.sub(r"\{(\w+)\}", lambda match: names[match[1]], route.path)


async def send(api: ApiHarness, route: Route, keys: Keys, key: str | None, client_id: str = "other") -> Reply:
    body = {} if route.request is not None else None
    return await api.send(route.method, path_of(route, keys, client_id), key=key, json=body)


def test_only_the_listed_routes_need_no_key() -> None:
    assert {route.path for route in ROUTES if route.access is Access.OPEN} == OPEN


def test_a_client_in_the_path_is_always_called_client_id() -> None:
    assert all(route.path.startswith("/v1/clients/{client_id}") for route in CLIENT_ROUTES)
    assert all("/clients/" not in route.path or route in CLIENT_ROUTES for route in ROUTES), (
        "a route under /clients must name its client, or nobody checks it"
    )
    assert {route.access for route in CLIENT_ROUTES} <= {Access.CLIENT, Access.ADMIN}
    assert all("{client_id}" in route.path for route in ROUTES if route.access is Access.CLIENT)


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
async def test_without_a_good_key_only_the_open_ones_answer(api: ApiHarness, keys: Keys, route: Route) -> None:
    for key in (None, "nonsense", keys.revoked, keys.shop + "x", keys.shop[:-1], f"mh_{'0' * 16}_{'0' * 48}"):
        reply = await send(api, route, keys, key)
        if route.access is Access.OPEN:
            assert reply.status == (404 if "ack_token" in route.path else 200)
            continue
        assert reply.status == 401, reply.body
        assert reply.json["type"] == "/problems/unauthorized"
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", CLIENT_ROUTES, ids=[f"{route.method} {route.path}" for route in CLIENT_ROUTES])
async def test_another_clients_path_is_like_one_that_is_not_there(api: ApiHarness, keys: Keys, route: Route) -> None:
    before = [api.connection.rows(table) for table in api.connection.tables]
    there = await send(api, route, keys, keys.shop, "other")
    not_there = await send(api, route, keys, keys.shop, "no-such-client")
    assert (there.status, not_there.status) == (404, 404)
    without_id = [{**reply.json, "request_id": ""} for reply in (there, not_there)]
    assert without_id[0] == without_id[1]
    assert b"private" not in there.body
    assert "'shop'" in there.json["detail"], "a caller who has mistaken the client, or the key, sees whose key it is"
    assert [api.connection.rows(table) for table in api.connection.tables] == before


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
async def test_a_clients_key_does_nothing_that_only_administrators_may(
    api: ApiHarness, keys: Keys, route: Route
) -> None:
    if route.access not in (Access.ADMIN, Access.CONFIGURED_ADMIN):
        return
    before = [api.connection.rows(table) for table in api.connection.tables]
    reply = await send(api, route, keys, keys.shop, "shop")
    assert reply.status == 403
    assert reply.json["type"] == "/problems/forbidden"
    assert [api.connection.rows(table) for table in api.connection.tables] == before


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
async def test_a_named_administrator_does_all_but_making_administrators(
    api: ApiHarness, keys: Keys, route: Route
) -> None:
    reply = await send(api, route, keys, keys.named_admin)
    if route.access is Access.CONFIGURED_ADMIN:
        assert reply.status == 403
    else:
        assert reply.status not in (401, 403), reply.body


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
async def test_nothing_is_closed_to_the_configured_administrator(api: ApiHarness, keys: Keys, route: Route) -> None:
    reply = await send(api, route, keys, api.settings.admin_key)
    assert reply.status not in (401, 403, 405, 500), reply.body


async def test_a_schedule_of_another_client_is_not_found_under_ones_own_path(api: ApiHarness, keys: Keys) -> None:
    for method in ("GET", "DELETE"):
        reply = await api.send(method, f"/v1/clients/shop/schedules/{keys.other_schedule}", key=keys.shop)
        assert reply.status == 404
    reply = await api.send("GET", f"/v1/clients/other/schedules/{keys.other_schedule}", key=keys.other)
    assert reply.json["state"] == "scheduled"
