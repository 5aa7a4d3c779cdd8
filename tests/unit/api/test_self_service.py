"""What a client may do about itself with a key of scope manage, without an administrator."""

from typing import Any

import pytest

from scheduler_service.domain.client_bounds import ClientBounds
from scheduler_service.domain.clients import Scope
from scheduler_service.usecases.keys import MAX_KEYS
from scheduler_service.usecases.signing_secrets import MAX_SECRETS
from tests.support.api import ApiHarness, Reply, cron, schedule

SHOP = "/v1/clients/shop"


@pytest.fixture
async def manager(api: ApiHarness) -> str:
    """A key of scope manage of the client `shop`."""
    await api.register("shop")
    return str((await api.send("POST", f"{SHOP}/keys", json={"scope": "manage"})).json["key"])


async def read(api: ApiHarness, path: str, key: str) -> Any:
    reply = await api.send("GET", path, key=key)
    assert reply.status == 200, reply.body
    return reply.json


@pytest.mark.parametrize("scope", Scope)
async def test_it_makes_lists_and_revokes_its_keys(api: ApiHarness, manager: str, scope: Scope) -> None:
    made = await api.send("POST", f"{SHOP}/keys", key=manager, json={"scope": scope, "name": "one"})
    assert (made.status, made.json["scope"]) == (201, scope)
    assert (await api.send("GET", f"{SHOP}/schedules", key=made.json["key"])).status == 200
    listed = await read(api, f"{SHOP}/keys", manager)
    assert made.json["key_id"] in {one["key_id"] for one in listed["items"]}
    path = f"{SHOP}/keys/{made.json['key_id']}"
    assert (await api.send("DELETE", path, key=manager)).status == 204
    assert (await api.send("GET", f"{SHOP}/schedules", key=made.json["key"])).status == 401


async def test_it_reaches_no_key_and_no_secret_of_another_client(api: ApiHarness, manager: str) -> None:
    other = await api.register("other")
    admin = (await api.send("POST", "/v1/admin-keys", json={"name": "shop"})).json
    secret = (await api.send("POST", "/v1/clients/other/signing-secrets")).json["secret_id"]
    for key_id in (other.split("_")[1], admin["key_id"]):
        assert (await api.send("DELETE", f"{SHOP}/keys/{key_id}", key=manager)).status == 404
    assert (await api.send("DELETE", f"{SHOP}/signing-secrets/{secret}", key=manager)).status == 404
    assert (await api.send("GET", "/v1/clients/other/schedules", key=other)).status == 200
    assert (await api.send("GET", "/v1/clients", key=admin["key"])).status == 200
    secrets = await read(api, "/v1/clients/other/signing-secrets", admin["key"])
    assert secret in {one["secret_id"] for one in secrets["items"]}


async def test_it_makes_lists_and_deletes_its_signing_secrets(api: ApiHarness, manager: str) -> None:
    path = f"{SHOP}/signing-secrets"
    before = {one["secret_id"] for one in (await read(api, path, manager))["items"]}
    made = await api.send("POST", path, key=manager)
    assert made.status == 201
    listed = {one["secret_id"] for one in (await read(api, path, manager))["items"]}
    assert listed - before == {made.json["secret_id"]}
    assert (await api.send("DELETE", f"{path}/{made.json['secret_id']}", key=manager)).status == 204
    assert {one["secret_id"] for one in (await read(api, path, manager))["items"]} == before


async def test_keys_that_are_good_are_bounded(api: ApiHarness) -> None:
    await api.register("shop")
    first, *_ = [
        (await api.send("POST", f"{SHOP}/keys", json={"expires_at": "2026-11-21T10:00:00Z"})).json["key_id"]
        for _ in range(MAX_KEYS - 1)
    ]
    refused = await api.send("POST", f"{SHOP}/keys")
    assert (refused.status, refused.json["type"]) == (409, "/problems/too-many-keys")
    assert (await api.send("POST", "/v1/admin-keys", json={"name": "ops"})).status == 201
    await api.send("DELETE", f"{SHOP}/keys/{first}")
    assert (await api.send("POST", f"{SHOP}/keys")).status == 201
    assert (await api.send("POST", f"{SHOP}/keys")).status == 409
    api.clock.advance(3600)
    assert (await api.send("POST", f"{SHOP}/keys")).status == 201


async def test_signing_secrets_are_bounded(api: ApiHarness) -> None:
    await api.register("shop")
    path = f"{SHOP}/signing-secrets"
    answers = [await api.send("POST", path) for _ in range(MAX_SECRETS + 1)]
    refused = answers[-1]
    assert (refused.status, refused.json["type"]) == (409, "/problems/too-many-secrets")
    items = (await api.send("GET", path)).json["items"]
    assert len(items) == MAX_SECRETS
    await api.send("DELETE", f"{path}/{items[0]['secret_id']}")
    assert (await api.send("POST", path)).status == 201


async def test_it_sees_itself_as_an_administrator_sees_it(api: ApiHarness, manager: str) -> None:
    seen = await read(api, SHOP, manager)
    assert (seen["poller_quota"], seen["guaranteed_calls_per_minute"], seen["paused"]) == (3, 3000, False)
    assert seen == (await api.send("GET", SHOP)).json


async def change(api: ApiHarness, key: str, **wanted: Any) -> Reply:
    return await api.send("PATCH", f"{SHOP}/settings", key=key, json=wanted)


async def test_it_changes_the_settings_that_are_its_own_and_leaves_the_others(api: ApiHarness, manager: str) -> None:
    given = {"retention_days": 30, "timeout_seconds": 3, "max_in_flight": 7, "hosts": {"a.example": {}}}
    before = (await api.send("PUT", SHOP, json={"poller_quota": 3, "settings": given})).json
    own = {
        "retry": {"max_attempts": 3, "final_statuses": [404]},
        "late_policy": {"kind": "skip", "after_seconds": 30},
        "in_doubt": "drop",
        "read_consistency": "LOCAL_ONE",
        "write_consistency": "EACH_QUORUM",
    }
    after = (await change(api, manager, **own)).json
    expected = {
        **before["stored_settings"],
        **own,
        "retry": {**before["stored_settings"]["retry"], "max_attempts": 3, "final_statuses": [404]},
    }
    assert after["stored_settings"] == expected
    assert after == (await api.send("GET", SHOP)).json
    last = (await change(api, manager, timeout_seconds=2, hosts={"b.example:8443": {"max_in_flight": 1}})).json
    assert last["stored_settings"]["timeout_seconds"] == 2.0
    assert list(last["stored_settings"]["hosts"]) == ["b.example:8443"]
    assert last["stored_settings"]["retention_days"] == 30
    assert (await change(api, manager)).json["stored_settings"] == last["stored_settings"]
    assert (last["poller_quota"], last["settings"]["max_in_flight"]) == (3, 7)


@pytest.mark.parametrize(
    "name",
    [
        "max_in_flight",
        "create_rate_per_second",
        "max_crons",
        "horizon_days",
        "retention_days",
        "payload_bytes",
        "header_bytes",
        "poller_quota",
    ],
)
async def test_what_the_operator_gives_is_not_its_own_to_change(api: ApiHarness, manager: str, name: str) -> None:
    before = (await api.send("GET", SHOP)).json
    reply = await change(api, manager, **{name: 1})
    assert (reply.status, list(reply.faults)) == (422, [f"/{name}"])
    assert (await api.send("GET", SHOP)).json == before


async def test_its_settings_are_within_the_operators_bounds() -> None:
    bounds = ClientBounds(timeout_seconds=5, retry_max_attempts=4, write_consistency="LOCAL_QUORUM", hosts=1)
    async with ApiHarness(clients=bounds) as api:
        await api.register("shop")
        key = (await api.send("POST", f"{SHOP}/keys", json={"scope": "manage"})).json["key"]
        before = (await api.send("GET", SHOP)).json
        for wanted, pointer in (
            ({"timeout_seconds": 6}, "/timeout_seconds"),
            ({"retry": {"max_attempts": 5}}, "/retry/max_attempts"),
            ({"retry": {"base_seconds": 9, "cap_seconds": 8}}, "/retry/base_seconds"),
            ({"write_consistency": "EACH_QUORUM"}, "/write_consistency"),
            ({"hosts": {"a.example": {}, "b.example": {}}}, "/hosts"),
            ({"hosts": {"HTTP://a": {}}}, "/hosts/HTTP:~1~1a"),
        ):
            reply = await change(api, key, **wanted)
            assert (reply.status, list(reply.faults)) == (422, [pointer])
        assert (await api.send("GET", SHOP)).json == before
        assert (await change(api, key, timeout_seconds=5, retry={"max_attempts": 4})).status == 200


async def test_settings_left_out_of_a_change_are_not_validated(api: ApiHarness) -> None:
    """An operator may have lowered a bound since."""
    await api.register("shop", settings={"timeout_seconds": 50})
    async with ApiHarness(connection=api.connection, clients=ClientBounds(timeout_seconds=5)) as strict:
        assert (await change(strict, strict.settings.admin_key, in_doubt="drop")).status == 200
        assert (await strict.send("GET", SHOP)).json["stored_settings"]["timeout_seconds"] == 50.0


async def test_while_it_is_paused_creates_are_accepted(api: ApiHarness, manager: str) -> None:
    await api.add_built_in_clients()
    paused = await api.send("POST", f"{SHOP}:pause", key=manager)
    assert (paused.json["state"], paused.json["paused"]) == ("active", True)
    assert (await api.send("POST", f"{SHOP}/schedules", key=manager, json=schedule())).status == 201
    assert (await api.send("PUT", f"{SHOP}/crons/daily", key=manager, json=cron())).status == 201
    on = await api.send("POST", f"{SHOP}:unpause", key=manager)
    assert (on.json["state"], on.json["paused"]) == ("active", False)


async def test_a_pause_and_a_suspension_are_lifted_each_by_itself(api: ApiHarness, manager: str) -> None:
    async def held() -> tuple[str, bool, bool]:
        client = await api.storage.clients.read_client("shop")  # type: ignore[arg-type]
        assert client is not None
        return client.state.value, client.paused, client.calls_held

    assert await held() == ("active", False, False)
    await api.send("POST", f"{SHOP}:suspend")
    assert (await api.send("POST", f"{SHOP}:unpause", key=manager)).status == 200
    assert await held() == ("suspended", False, True)
    assert (await api.send("POST", f"{SHOP}:pause", key=manager)).status == 200
    assert (await api.send("POST", f"{SHOP}/schedules", key=manager, json=schedule())).status == 403
    await api.send("POST", f"{SHOP}:resume")
    assert await held() == ("active", True, True)
    await api.send("PUT", SHOP, json={"poller_quota": 2})
    assert await held() == ("active", True, True)
    assert (await api.send("DELETE", SHOP)).status == 409, "a paused client is not suspended"
    assert (await api.send("POST", f"{SHOP}:resume", key=manager)).status == 403
    await api.send("POST", f"{SHOP}:unpause", key=manager)
    assert await held() == ("active", False, False)


async def test_only_a_client_that_keeps_changing_itself_is_slowed_down(api: ApiHarness, manager: str) -> None:
    for _ in range(20):
        assert (await change(api, manager)).status == 200
    refused = await change(api, manager)
    assert (refused.status, refused.json["type"]) == (429, "/problems/too-many-requests")
    assert refused.headers["Retry-After"] == "30"
    assert (await api.send("POST", f"{SHOP}:pause", key=manager)).status == 429
    await read(api, SHOP, manager)
    assert (await api.send("POST", f"{SHOP}/schedules", key=manager, json=schedule())).status == 201
    assert (await change(api, api.settings.admin_key)).status == 200
    await api.register("other")
    other = (await api.send("POST", "/v1/clients/other/keys", json={"scope": "manage"})).json["key"]
    assert (await api.send("POST", "/v1/clients/other:pause", key=other)).status == 200
    api.clock.advance(30)
    assert (await change(api, manager)).status == 200
    assert (await change(api, manager)).status == 429
