"""Who may use BigBen's API, on each of its routes: those that are new are covered."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.api.bigben import routes as bigben
from scheduler_service.api.bigben.settings import BigBenSettings
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Route, operation_id
from scheduler_service.api.resources import ROUTES
from scheduler_service.domain.clients import Scope
from tests.support.api import ADMIN_KEY, ApiHarness, Reply

BIGBEN = BigBenSettings(client="shop")
WIRED = [route for route in bigben.ROUTES if route.access is not Access.OPEN]
IDS = [operation_id(route) for route in WIRED]
TENANT = {"tenant": "T", "type": "HTTP", "props": {"url": "https://private.example/hook"}}
EVENT = {"id": "e1", "eventTime": "2026-11-21T09:31:00Z", "tenant": "T", "payload": "private"}
BODIES: dict[str, Any] = {"schedule_events": [EVENT], "register_tenant": TENANT}
QUERIES = {"find_event": "?id=e1&tenant=T", "dry_run_event": "?id=e1&tenant=T"}


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(bigben=BIGBEN) as harness:
        await prepare(harness)
        yield harness


async def prepare(api: ApiHarness) -> None:
    """The client, with a tenant and an event."""
    await api.register("shop")
    for name in ("register_tenant", "schedule_events"):
        reply = await use(api, next(route for route in WIRED if operation_id(route) == name), ADMIN_KEY)
        assert reply.status == 200, reply.body


async def use(api: ApiHarness, route: Route, key: str | None, **headers: str) -> Reply:
    name = operation_id(route)
    path = route.path + QUERIES.get(name, "")
    return await api.send(route.method, path, key=key, json=BODIES.get(name), headers=headers)


async def refused(api: ApiHarness, route: Route, key: str | None, status: int, **headers: str) -> Reply:
    """Asserts that a request is refused in the wire's form, and that it has stored and told nothing."""
    before = [api.connection.rows(table) for table in api.connection.tables]
    reply = await use(api, route, key, **headers)
    assert reply.status == status, reply.body
    assert set(reply.json) <= {"message", "status"}
    assert reply.headers["Content-Type"] == "application/json"
    assert b"private" not in reply.body
    assert [api.connection.rows(table) for table in api.connection.tables] == before
    return reply


def test_its_routes_are_below_its_own_prefix_and_off_by_default() -> None:
    assert not any(route.path.startswith(bigben.PREFIX) for route in ROUTES)
    assert all(route.path.startswith(f"{bigben.PREFIX}/") for route in bigben.ROUTES)
    assert [route.path for route in bigben.ROUTES if route.access is Access.OPEN] == [f"{bigben.PREFIX}/ping"]
    assert {route.access for route in bigben.ROUTES} == {Access.CLIENT, Access.OPEN}
    assert len({operation_id(route) for route in (*bigben.ROUTES, *ROUTES)}) == len(bigben.ROUTES) + len(ROUTES)
    assert bigben.wire(BigBenSettings()) is None


async def test_there_is_nothing_where_it_is_off() -> None:
    async with ApiHarness() as api:
        for route in bigben.ROUTES:
            reply = await use(api, route, ADMIN_KEY)
            assert (reply.status, reply.json["type"]) == (404, "/problems/not-found")


@pytest.mark.parametrize("route", WIRED, ids=IDS)
async def test_without_a_good_key_none_answers(api: ApiHarness, route: Route) -> None:
    for key in (None, "nonsense", f"mh_{'0' * 16}_{'0' * 48}"):
        reply = await refused(api, route, key, 401)
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", WIRED, ids=IDS)
async def test_another_clients_key_reaches_nothing(api: ApiHarness, route: Route) -> None:
    other = await api.register("other")
    await refused(api, route, other, 404)


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("route", WIRED, ids=IDS)
async def test_a_key_does_what_its_scope_includes_and_nothing_more(api: ApiHarness, route: Route, scope: Scope) -> None:
    key = (await api.send("POST", "/v1/clients/shop/keys", json={"scope": scope})).json["key"]
    assert route.scope is not None
    if scope.includes(route.scope):
        assert (await use(api, route, key)).status == 200
    else:
        assert f"scope {route.scope}" in (await refused(api, route, key, 403)).json["message"]


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("route", WIRED, ids=IDS)
async def test_without_a_key_as_far_as_the_operator_says(route: Route, scope: Scope) -> None:
    async with ApiHarness(bigben=BigBenSettings(client="shop", keyless=scope)) as api:
        await prepare(api)
        assert route.scope is not None
        for header in ("Origin", "Sec-Fetch-Site"):
            await refused(api, route, None, 403, **{header: "cross-site"})
        await refused(api, route, None, 403, Host="page.example")
        await refused(api, route, "nonsense", 401)
        if scope.includes(route.scope):
            assert (await use(api, route, None)).status == 200
        else:
            await refused(api, route, None, 403)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:8080", "10.0.0.7:80"])
async def test_without_a_key_to_an_address_or_localhost(host: str) -> None:
    async with ApiHarness(bigben=BigBenSettings(client="shop", keyless="read")) as api:
        await prepare(api)
        assert (await api.send("GET", "/bigben/events/tenants", key=None, headers={"Host": host})).status == 200


async def test_without_a_key_to_any_name_where_the_operator_says_so() -> None:
    settings = BigBenSettings(client="shop", keyless="read", open_to_network=True)
    async with ApiHarness(bigben=settings) as api:
        await prepare(api)
        reply = await api.send("GET", "/bigben/events/tenants", key=None, headers={"Host": "bigben.internal"})
        assert reply.status == 200


@pytest.mark.parametrize("route", WIRED, ids=IDS)
async def test_without_its_client_it_says_so(route: Route) -> None:
    async with ApiHarness(bigben=BigBenSettings(client="shop", keyless="manage")) as api:
        for key in (None, ADMIN_KEY):
            assert "'shop', does not exist" in (await use(api, route, key)).json["message"]


async def test_each_scope_says_what_its_routes_do() -> None:
    assert {operation_id(route): route.scope for route in WIRED if route.scope is not Scope.READ} == {
        "schedule_events": Scope.WRITE,
        "dry_run_event": Scope.WRITE,
        "register_tenant": Scope.MANAGE,
    }
    assert all(route.changes == (route.scope is not Scope.READ) for route in WIRED)


async def test_administrators_and_registrations_are_in_the_audit_log(api: ApiHarness) -> None:
    await use(api, next(route for route in WIRED if operation_id(route) == "dry_run_event"), ADMIN_KEY)
    log = await api.send("GET", "/v1/clients/shop/audit-log?from=2026-11-21T00:00:00Z&to=2026-11-22T00:00:00Z")
    recorded = {(one["action"], one["actor"]) for one in log.json["items"]}
    changing = {operation_id(route) for route in WIRED if route.changes}
    assert {(action, "configured") for action in changing} <= recorded


async def test_a_registration_without_a_key_is_in_the_audit_log() -> None:
    async with ApiHarness(bigben=BigBenSettings(client="shop", keyless="manage")) as api:
        await api.register("shop")
        for route in WIRED:
            await use(api, route, None)
        log = await api.send("GET", "/v1/clients/shop/audit-log?from=2026-11-21T00:00:00Z&to=2026-11-22T00:00:00Z")
        (entry,) = [one for one in log.json["items"] if one["actor"] == "bigben without a key"]
        assert (entry["action"], entry["status"]) == ("register_tenant", 200)
        assert entry["details"]["tenant"] == "T"


@pytest.mark.parametrize("route", WIRED, ids=IDS)
async def test_what_goes_wrong_inside_is_said_in_the_wires_form(
    api: ApiHarness, route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*args: object, **named: object) -> None:
        raise StoreUnavailable("the driver's own words")

    async def broken(*args: object, **named: object) -> None:
        raise RuntimeError("a secret")

    for fail, status in ((lost, 503), (broken, 500)):
        monkeypatch.setattr(type(api.services.catalog), "client", fail)
        reply = await use(api, route, ADMIN_KEY)
        assert (reply.status, list(reply.json)) == (status, ["message"])
        assert b"driver" not in reply.body
        assert b"secret" not in reply.body


async def test_a_suspended_clients_events_can_be_found_and_removed_only(api: ApiHarness) -> None:
    assert (await api.send("POST", "/v1/clients/shop:suspend")).status == 200
    for route in WIRED:
        expected = 403 if operation_id(route) in ("schedule_events", "dry_run_event") else 200
        assert (await use(api, route, ADMIN_KEY)).status == expected, route.path
    reply = await api.send("POST", "/bigben/events/schedule", json=[{**EVENT, "mode": "REMOVE"}])
    assert (reply.status, reply.json[0]["eventStatus"]) == (200, "DELETED")


@pytest.mark.parametrize(
    "wrong",
    [
        {"client": "Shop"},
        {"client": "$system"},
        {"keyless": "read"},
        {"client": "shop", "keyless": "all"},
        {"clusters": ("a:1",)},
        {"clusters": ("a:1=x", "b=x")},
    ],
)
def test_settings_that_can_not_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"client: .*no client's id|keyless: |clusters: .*no broker"):
        BigBenSettings(**wrong)
