"""What a client's key may do: its scope on every route, and its expiry."""

from typing import Any

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Route, no_content, operation_id
from scheduler_service.api.request_budget import cost_of_reading
from scheduler_service.api.resources import ROUTES
from scheduler_service.domain.clients import Scope
from scheduler_service.usecases import keys
from scheduler_service.usecases.key_uses import WRITE_AFTER_SECONDS, WRITE_EVERY_SECONDS
from tests.support.api import ApiHarness, schedule
from tests.support.api_story import Story

CLIENTS = [route for route in ROUTES if route.access is Access.CLIENT]
IDS = [operation_id(route) for route in CLIENTS]
MANAGED = {
    "get_client",
    "change_settings",
    "pause_client",
    "unpause_client",
    "create_key",
    "list_keys",
    "revoke_key",
    "create_secret",
    "list_secrets",
    "delete_secret",
    "list_client_audit_log",
    "put_destination",
    "pause_destination",
    "resume_destination",
    "delete_destination",
    "put_subscription",
    "delete_subscription",
}
KEYS = "/v1/clients/shop/keys"
SCHEDULES = "/v1/clients/shop/schedules"


async def key_of(api: ApiHarness, **asked: Any) -> str:
    made = await api.send("POST", KEYS, json=asked)
    assert made.status == 201, made.body
    return str(made.json["key"])


def test_every_route_of_clients_says_the_scope_it_needs() -> None:
    for route in CLIENTS:
        if operation_id(route) in MANAGED:
            assert route.scope is Scope.MANAGE
        else:
            assert route.scope is (Scope.WRITE if route.changes else Scope.READ), operation_id(route)
    assert all(route.scope is None for route in ROUTES if route.access is not Access.CLIENT)


def test_a_route_of_clients_without_a_scope_is_refused_and_so_is_another_with_one() -> None:
    async def act(call: Any) -> Any:
        return no_content()

    for access, scope in ((Access.CLIENT, None), (Access.ADMIN, Scope.MANAGE), (Access.ANY, Scope.READ)):
        with pytest.raises(ValueError, match="have a scope"):
            Route(method="GET", path="/v1/x", access=access, scope=scope, handler=act, summary="X")


def test_each_scope_includes_those_before_it() -> None:
    assert [[one.includes(needed) for needed in Scope] for one in Scope] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize("route", CLIENTS, ids=IDS)
async def test_a_key_does_what_its_scope_includes_and_nothing_more(api: ApiHarness, route: Route, scope: Scope) -> None:
    await api.add_built_in_clients()
    story = Story(api)
    for before in ("put_client", "put_cron", "create_schedule", "create_key", "create_secret"):
        await story.send(before)
    key = await key_of(api, scope=scope)
    before_it = {name: api.connection.rows(name) for name in api.connection.tables}
    reply = await story.try_(operation_id(route), key=key)
    assert route.scope is not None
    if scope.includes(route.scope):
        assert reply.status not in (401, 403), reply.body
        return
    assert (reply.status, reply.json["type"]) == (403, "/problems/forbidden")
    assert f"scope {route.scope}" in reply.json["detail"]
    assert {name: api.connection.rows(name) for name in api.connection.tables} == before_it


async def test_a_key_without_options_may_write_and_never_expires(api: ApiHarness) -> None:
    await api.register("shop")
    made = await api.send("POST", KEYS)
    assert (made.json["scope"], made.json["name"], made.json["expires_at"]) == ("write", None, None)
    api.clock.advance(50 * 365 * 86_400)
    assert (await api.send("POST", SCHEDULES, key=made.json["key"], json=schedule())).status == 201


async def test_what_a_key_is_to_be_is_listed(api: ApiHarness) -> None:
    await api.register("shop")
    asked = {"scope": "read", "name": "dashboard", "expires_at": "2026-11-21T10:30:00Z"}
    made = (await api.send("POST", KEYS, json=asked)).json
    listed = [one for one in (await api.send("GET", KEYS)).json["items"] if one["key_id"] == made["key_id"]]
    assert listed == [
        {
            "key_id": made["key_id"],
            "name": "dashboard",
            "scope": "read",
            "created_at": "2026-11-21T09:30:00.000Z",
            "expires_at": "2026-11-21T10:30:00.000Z",
            "last_used_at": None,
            "revoked_at": None,
        }
    ]


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"scope": "own"}, "/scope"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 129}, "/name"),
        ({"expires_at": "tomorrow"}, "/expires_at"),
        ({"expires_at": "2026-11-21T09:30:00Z"}, "/expires_at"),
        ({"admin": True}, "/admin"),
    ],
)
async def test_what_a_key_can_not_be_is_refused(api: ApiHarness, asked: dict[str, Any], pointer: str) -> None:
    await api.register("shop")
    before = api.connection.rows("api_keys")
    reply = await api.send("POST", KEYS, json=asked)
    assert reply.status == 422
    assert pointer in reply.faults
    assert api.connection.rows("api_keys") == before


async def test_a_key_is_good_until_the_instant_it_expires_at(api: ApiHarness) -> None:
    await api.register("shop")
    key = await key_of(api, expires_at="2026-11-21T10:30:00Z")
    api.clock.advance(3600 - 0.001)
    assert (await api.send("GET", SCHEDULES, key=key)).status == 200
    api.clock.advance(0.001)
    reply = await api.send("GET", SCHEDULES, key=key)
    assert (reply.status, reply.json["type"]) == (401, "/problems/unauthorized")


async def test_a_key_that_a_key_makes_expires_no_later_than_that_one(api: ApiHarness) -> None:
    await api.register("shop")
    lent = await key_of(api, scope="manage", expires_at="2026-11-21T10:30:00Z")
    made = await api.send("POST", KEYS, key=lent)
    assert (made.status, made.json["expires_at"]) == (201, "2026-11-21T10:30:00.000Z")
    sooner = await api.send("POST", KEYS, key=lent, json={"expires_at": "2026-11-21T10:00:00Z"})
    assert (sooner.status, sooner.json["expires_at"]) == (201, "2026-11-21T10:00:00.000Z")
    later = await api.send("POST", KEYS, key=lent, json={"expires_at": "2026-11-21T10:30:00.001Z"})
    assert (later.status, list(later.faults)) == (422, ["/expires_at"])
    assert "2026-11-21T10:30:00.000Z" in later.faults["/expires_at"]
    lasting = await key_of(api, scope="manage")
    assert (await api.send("POST", KEYS, key=lasting)).json["expires_at"] is None


async def test_a_key_with_a_scope_of_a_later_version_may_do_nothing(api: ApiHarness) -> None:
    await api.register("shop")
    key = await key_of(api, scope="manage")
    await key_of(api)
    (row,) = [one for one in api.connection.rows("api_keys") if one["key_id"] == key.split("_")[1]]
    values = (row["key_id"], row["owner"], False, row["secret_hash"], row["created_at"], "own", None, None)
    await api.connection.write("api_keys.insert", values)
    await api.storage.clients.announce()
    api.clock.advance(5)
    assert (await api.send("GET", KEYS, key=key)).status == 401
    assert (await api.send("GET", SCHEDULES, key=key)).status == 401
    assert row["key_id"] in [one["key_id"] for one in (await api.send("GET", KEYS)).json["items"]]
    assert (await api.send("DELETE", f"{KEYS}/{row['key_id']}")).status == 204


async def test_keys_that_ended_long_ago_are_forgotten(api: ApiHarness) -> None:
    await api.register("shop")
    old = await key_of(api, expires_at="2026-11-21T09:31:00Z")
    revoked = await key_of(api)
    assert (await api.send("DELETE", f"{KEYS}/{revoked.split('_')[1]}")).status == 204

    async def listed() -> list[str]:
        return [one["key_id"] for one in (await api.send("GET", KEYS)).json["items"]]

    kept = await listed()
    api.clock.advance(90 * 86_400)
    made = await key_of(api)
    assert await listed() == [one for one in kept if one != revoked.split("_")[1]] + [made.split("_")[1]]
    api.clock.advance(60)
    later = await key_of(api)
    assert old.split("_")[1] not in await listed()
    assert later.split("_")[1] in await listed()
    assert len(api.connection.rows("api_keys_by_client")) == len(api.connection.rows("api_keys")) == len(await listed())


async def test_the_last_ended_keys_are_listed(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "MAX_ENDED", 3)
    monkeypatch.setattr(keys, "DELETED_AT_ONCE", 2)
    await api.register("shop")
    ended: list[str] = []
    for _ in range(9):
        made = (await key_of(api)).split("_")[1]
        api.clock.advance(1)
        assert (await api.send("DELETE", f"{KEYS}/{made}")).status == 204
        ended.append(made)
    await key_of(api)
    listed = [one["key_id"] for one in (await api.send("GET", KEYS)).json["items"] if one["revoked_at"]]
    assert listed == ended[-3:]


async def test_a_list_of_keys_costs_what_was_read(api: ApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await api.register("shop")
    owed: list[float] = []
    monkeypatch.setattr(api.services.request_budget, "owe", lambda principal, cost: owed.append(cost))
    for _ in range(49):
        await key_of(api)
    owed.clear()
    assert len((await api.send("GET", KEYS)).json["items"]) == 50
    assert cost_of_reading(50, 0) in owed
    assert (await api.send("POST", "/v1/admin-keys", json={"name": "ops"})).status == 201
    owed.clear()
    assert len((await api.send("GET", "/v1/admin-keys")).json["items"]) == 1
    assert cost_of_reading(1, 0) in owed


async def last_used(api: ApiHarness, key: str) -> str | None:
    items = (await api.send("GET", KEYS)).json["items"]
    return next(one["last_used_at"] for one in items if one["key_id"] == key.split("_")[1])


async def test_the_last_use_is_written_beside_the_requests_once_an_hour(api: ApiHarness) -> None:
    await api.register("shop")
    key, idle = await key_of(api), await key_of(api)
    revision = await api.storage.clients.catalog_revision()
    uses = api.services.key_uses
    assert (await api.send("GET", SCHEDULES, key=key)).status == 200
    assert await last_used(api, key) is None
    await uses.write()
    assert await last_used(api, key) == "2026-11-21T09:30:00.000Z"
    api.clock.advance(WRITE_AFTER_SECONDS - WRITE_EVERY_SECONDS)
    assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201
    await uses.write()
    assert await last_used(api, key) == "2026-11-21T09:30:00.000Z"
    api.clock.advance(WRITE_EVERY_SECONDS)
    await uses.write()
    assert await last_used(api, key) == "2026-11-21T10:29:00.000Z"
    assert await last_used(api, idle) is None
    assert await api.storage.clients.catalog_revision() == revision, "no cache needs it"


async def test_a_key_that_is_not_used_any_more_is_not_written_again(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.register("shop")
    key = await key_of(api)
    assert (await api.send("GET", SCHEDULES, key=key)).status == 200
    written = []

    async def noted(key_id: str, *, used_at: int) -> None:
        written.append(key_id)

    monkeypatch.setattr(api.storage.clients, "note_key_use", noted)
    for _ in range(3):
        await api.services.key_uses.write()
        api.clock.advance(WRITE_AFTER_SECONDS)
    assert written == [key.split("_")[1]]


async def test_a_use_that_storage_did_not_take_is_written_later(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.register("shop")
    key = await key_of(api)
    assert (await api.send("GET", SCHEDULES, key=key)).status == 200

    async def lost(key_id: str, *, used_at: int) -> None:
        raise StoreUnavailable("nobody answers")

    with monkeypatch.context() as patched:
        patched.setattr(api.storage.clients, "note_key_use", lost)
        await api.services.key_uses.write()
    assert await last_used(api, key) is None
    await api.services.key_uses.write()
    assert await last_used(api, key) == "2026-11-21T09:30:00.000Z"


async def test_what_is_no_good_key_is_never_used(api: ApiHarness) -> None:
    await api.register("shop")
    key = await key_of(api)
    for guess in (key + "x", key[:-1]):
        assert (await api.send("GET", SCHEDULES, key=guess)).status == 401
    await api.services.key_uses.write()
    assert await last_used(api, key) is None
