import base64

import pytest
from structlog.testing import capture_logs

from scheduler_service.domain.ids import ClientId, PollerId, ScheduleId, minute_of, partition_of
from tests.support.api import NOW, ApiHarness, schedule


async def test_register_look_change_list(api: ApiHarness) -> None:
    made = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 3})
    assert made.status == 201
    assert made.headers["Location"] == "/v1/clients/shop"
    assert made.json["poller_quota"] == 3
    assert made.json["guaranteed_calls_per_minute"] == 3000
    assert made.json["state"] == "active"
    assert made.json["created_at"] == "2026-11-21T09:30:00.000Z"
    assert made.json["signing_secret"]["secret"].startswith("whsec_")
    shown = {name: value for name, value in made.json.items() if name != "signing_secret"}
    assert (await api.send("GET", "/v1/clients/shop")).json == shown
    changed = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1})
    assert changed.status == 200
    assert (changed.json["poller_quota"], changed.json["poller_ceiling"]) == (1, 3)
    await api.register("a-shop")
    listed = (await api.send("GET", "/v1/clients")).json
    assert [item["client_id"] for item in listed["items"]] == ["a-shop", "shop"]
    assert listed["next_cursor"] is None


async def test_settings_are_answered_with_their_effective_values(api: ApiHarness) -> None:
    asked = {
        "timeout_seconds": 2.5,
        "retry": {"max_attempts": 3},
        "hosts": {"a.example:8443": {"max_in_flight": 2}},
    }
    made = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 4, "settings": asked})
    settings = made.json["settings"]
    assert settings["timeout_seconds"] == 2.5
    assert settings["retry"] == {
        "max_attempts": 3,
        "base_seconds": 5.0,
        "cap_seconds": 600.0,
        "deadline_seconds": 86_400.0,
        "final_statuses": [410],
    }
    assert settings["hosts"] == {"a.example:8443": {"max_in_flight": 2, "max_per_second": None}}
    assert settings["max_in_flight"] == 400
    assert settings["create_rate_per_second"] == 400.0
    assert settings["horizon_days"] == 730
    replaced = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 4, "settings": {"retention_days": 9}})
    assert replaced.json["settings"]["timeout_seconds"] == 10.0
    assert replaced.json["settings"]["retention_days"] == 9


async def test_settings_count_at_once_where_they_were_changed(api: ApiHarness, key: str) -> None:
    path = "/v1/clients/shop/schedules"
    assert (await api.send("POST", path, key=key, json=schedule(delay_seconds=3 * 86_400))).status == 201
    await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 3, "settings": {"horizon_days": 2}})
    assert (await api.send("POST", path, key=key, json=schedule(delay_seconds=3 * 86_400))).status == 422


async def test_the_life_of_a_client(api: ApiHarness, key: str) -> None:
    refused = await api.send("DELETE", "/v1/clients/shop")
    assert refused.status == 409
    assert (refused.json["type"], refused.json["state"]) == ("/problems/not-suspended", "active")
    await api.send("POST", "/v1/clients/shop:suspend")
    assert (await api.send("DELETE", "/v1/clients/shop")).status == 204
    assert (await api.send("GET", "/v1/clients/shop/schedules", key=key)).status == 401
    for method, path in (("GET", ""), ("POST", ":resume"), ("GET", "/schedules"), ("POST", "/keys")):
        assert (await api.send(method, f"/v1/clients/shop{path}")).status == 404
    assert (await api.send("GET", "/v1/clients")).json["items"] == []
    again = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1})
    assert (again.status, again.json["type"]) == (409, "/problems/client-deleted")


async def test_a_key_is_shown_once_and_revoked_at_once(api: ApiHarness) -> None:
    await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1})
    made = await api.send("POST", "/v1/clients/shop/keys")
    assert made.status == 201
    key_id, key = made.json["key_id"], made.json["key"]
    assert key.startswith(f"mh_{key_id}_")
    listed = await api.send("GET", "/v1/clients/shop/keys")
    assert [item["key_id"] for item in listed.json["items"]] == [key_id]
    assert key.split("_")[2].encode() not in listed.body
    assert (await api.send("GET", "/v1/clients/shop/schedules", key=key)).status == 200
    assert (await api.send("DELETE", f"/v1/clients/shop/keys/{key_id}")).status == 204
    assert (await api.send("GET", "/v1/clients/shop/schedules", key=key)).status == 401
    assert (await api.send("DELETE", f"/v1/clients/shop/keys/{key_id}")).status == 204
    assert (await api.send("DELETE", "/v1/clients/shop/keys/0123456789abcdef")).status == 404
    (item,) = (await api.send("GET", "/v1/clients/shop/keys")).json["items"]
    assert item["revoked_at"] == "2026-11-21T09:30:00.000Z"


async def test_named_administrators(api: ApiHarness) -> None:
    made = await api.send("POST", "/v1/admin-keys", json={"name": "ops"})
    assert made.status == 201
    named = made.json["key"]
    assert (await api.send("PUT", "/v1/clients/shop", key=named, json={"poller_quota": 1})).status == 201
    (item,) = (await api.send("GET", "/v1/admin-keys", key=named)).json["items"]
    assert (item["name"], item["key_id"], item["revoked_at"]) == ("ops", made.json["key_id"], None)
    assert (await api.send("DELETE", f"/v1/admin-keys/{made.json['key_id']}", key=named)).status == 403
    assert (await api.send("DELETE", f"/v1/admin-keys/{made.json['key_id']}")).status == 204
    assert (await api.send("GET", "/v1/clients", key=named)).status == 401
    wrong = await api.send("POST", "/v1/admin-keys", json={"name": "Big Boss"})
    assert list(wrong.faults) == ["/name"]


async def test_an_administrator_and_a_client_of_one_name_keep_their_keys_apart(api: ApiHarness) -> None:
    await api.register("ops")
    admin = (await api.send("POST", "/v1/admin-keys", json={"name": "ops"})).json
    keys = (await api.send("GET", "/v1/clients/ops/keys")).json["items"]
    assert admin["key_id"] not in {item["key_id"] for item in keys}
    assert (await api.send("DELETE", f"/v1/clients/ops/keys/{admin['key_id']}")).status == 404
    assert (await api.send("DELETE", f"/v1/admin-keys/{keys[0]['key_id']}")).status == 404


async def test_signing_secrets(api: ApiHarness, key: str) -> None:
    path = "/v1/clients/shop/signing-secrets"
    made = await api.send("POST", path)
    assert made.status == 201
    scheme, _, secret = made.json["secret"].partition("_")
    assert scheme == "whsec"
    assert len(base64.b64decode(secret)) == 32
    listed = await api.send("GET", path)
    first, second = [item["secret_id"] for item in listed.json["items"]]
    assert made.json["secret_id"] in (first, second), "the other one came with the registration"
    assert secret.encode() not in listed.body
    assert (await api.send("DELETE", f"{path}/{made.json['secret_id']}")).status == 204
    assert (await api.send("DELETE", f"{path}/{made.json['secret_id']}")).status == 404
    assert len((await api.send("GET", path)).json["items"]) == 1


async def test_a_signing_secret_comes_with_the_registration_and_is_shown_this_once(api: ApiHarness) -> None:
    made = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1})
    assert made.status == 201
    secret = made.json["signing_secret"]
    assert len(base64.b64decode(secret["secret"].removeprefix("whsec_"))) == 32
    listed = (await api.send("GET", "/v1/clients/shop/signing-secrets")).json["items"]
    assert [one["secret_id"] for one in listed] == [secret["secret_id"]]
    again = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1})
    assert (again.status, "signing_secret" in again.json) == (200, False)
    for path in ("/v1/clients/shop", "/v1/clients", "/v1/clients/shop/signing-secrets", "/v1/audit-log"):
        assert secret["secret"].encode() not in (await api.send("GET", path)).body
    assert (await api.send("GET", "/v1/clients/shop/signing-secrets")).json["items"] == listed


async def test_a_grown_quota_is_used(api: ApiHarness, key: str) -> None:
    await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1})
    path = "/v1/clients/shop/schedules:batch"

    async def pollers() -> set[int]:
        reply = await api.send("POST", path, key=key, json={"items": [schedule()] * 800})
        return {item["schedule"]["poller_id"] for item in reply.json["items"]}

    assert await pollers() == {0}
    await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 4})
    assert await pollers() == {0, 1, 2, 3}
    leases = await api.storage.leases.read_leases("shop")
    assert [lease.poller.poller_id for lease in leases] == [0, 1, 2, 3]
    assert all(lease.watermark < minute_of(NOW) for lease in leases)


async def test_each_change_is_logged_once_without_secrets(api: ApiHarness) -> None:
    with capture_logs() as logs:
        key = await api.register("shop")
        secret = (await api.send("POST", "/v1/clients/shop/signing-secrets")).json["secret"]
        await api.send("POST", "/v1/clients/shop:suspend", headers={"X-Request-Id": "r-1"})
        await api.send("GET", "/v1/clients/shop/schedules", key=key)
        await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())
    assert [line["event"] for line in logs] == [
        "client-registered",
        "key-created",
        "signing-secret-created",
        "client-suspended",
    ]
    assert all(line["by"] == "configured" and line["client_id"] == "shop" for line in logs)
    assert logs[-1]["request_id"] == "r-1"
    said = repr(logs)
    assert key.split("_")[2] not in said
    assert secret.partition("_")[2] not in said
    assert api.settings.admin_key not in said
    assert api.settings.admin_key not in repr(api.settings)


@pytest.mark.parametrize("verb", ["suspend", "resume"])
async def test_verbs_on_clients_that_are_not_there(api: ApiHarness, verb: str) -> None:
    assert (await api.send("POST", f"/v1/clients/nobody:{verb}")).status == 404


async def test_a_schedule_is_where_its_id_says(api: ApiHarness, key: str) -> None:
    made = (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=schedule())).json
    (row,) = api.connection.rows("schedules")
    partition = partition_of(ClientId("shop"), ScheduleId(row["schedule_id"]))
    assert str(row["schedule_id"]) == made["schedule_id"]
    assert (partition.poller_id, row["poller_id"]) == (PollerId(made["poller_id"]), made["poller_id"])
