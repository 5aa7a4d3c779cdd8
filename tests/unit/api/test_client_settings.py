"""Clients' settings: which are valid, which apply, and that they take effect."""

import pytest

from scheduler_service.domain.client_bounds import ClientBounds
from tests.support.api import ApiHarness, callback, cron, schedule

CLIENT = "/v1/clients/shop"
SCHEDULES = CLIENT + "/schedules"
STRICT = ClientBounds(
    timeout_seconds=5, horizon_days=10, payload_bytes=100, header_bytes=60, retry_max_attempts=3, max_in_flight=7
)


async def test_every_fault_of_settings_is_named_at_once() -> None:
    wrong = {
        "timeout_seconds": "soon",
        "horizon_days": 11,
        "payload_bytes": 0,
        "create_rate_per_second": 0.01,
        "read_consistency": "ONE",
        "retry": {"max_attempts": 4, "base_seconds": 9, "cap_seconds": 2},
        "hosts": {"http://a.example/": {}},
        "colour": "red",
    }
    async with ApiHarness(clients=STRICT) as api:
        reply = await api.send("PUT", CLIENT, json={"poller_quota": 0, "settings": wrong})
    assert reply.status == 422
    assert set(reply.faults) == {
        "/poller_quota",
        "/settings/timeout_seconds",
        "/settings/horizon_days",
        "/settings/payload_bytes",
        "/settings/create_rate_per_second",
        "/settings/read_consistency",
        "/settings/retry/max_attempts",
        "/settings/retry/base_seconds",
        "/settings/hosts/http:~1~1a.example~1",
        "/settings/colour",
    }
    assert "operator" in reply.faults["/settings/horizon_days"]


async def test_effective_settings_keep_within_the_operators_and_the_stored_ones_stay_as_they_were_put() -> None:
    async with ApiHarness(clients=STRICT) as api:
        asked = {"poller_quota": 4, "settings": {"retention_days": 9, "timeout_seconds": 2.5}}
        made = (await api.send("PUT", CLIENT, json=asked)).json
        effective, stored = made["settings"], made["stored_settings"]
        assert (effective["horizon_days"], effective["max_in_flight"], effective["retry"]["max_attempts"]) == (10, 7, 3)
        assert (stored["horizon_days"], stored["max_in_flight"], stored["retry"]["max_attempts"]) == (730, None, 10)
        assert (effective["retention_days"], effective["timeout_seconds"]) == (9, 2.5)
        assert (await api.send("GET", CLIENT)).json == {name: made[name] for name in made if name != "signing_secret"}
        for settings in (effective, stored):
            again = (await api.send("PUT", CLIENT, json={"poller_quota": 4, "settings": settings})).json
            assert again["settings"] == effective
        assert (await api.send("PUT", CLIENT, json={"poller_quota": 4, "settings": stored})).json[
            "stored_settings"
        ] == stored


@pytest.mark.parametrize(
    ("asked", "pointer"),
    [
        ({"delay_seconds": 11 * 86_400}, "/delay_seconds"),
        ({"callback": callback(body="x" * 101)}, "/callback/body"),
        ({"callback": callback(headers={"x-long": "y" * 60})}, "/callback/headers"),
        ({"timeout_seconds": 6}, "/timeout_seconds"),
        ({"retry": {"max_attempts": 4}}, "/retry/max_attempts"),
    ],
)
@pytest.mark.parametrize("whose", ["operator", "client"])
async def test_bounds_hold_wherever_a_call_is_asked_for(whose: str, asked: dict[str, object], pointer: str) -> None:
    mine = {"horizon_days": 10, "payload_bytes": 100, "header_bytes": 60}
    of_operator = pointer in ("/timeout_seconds", "/retry/max_attempts")
    async with ApiHarness(clients=STRICT if whose == "operator" or of_operator else ClientBounds()) as api:
        key = await api.register("shop", settings=mine if whose == "client" else None)
        await api.add_built_in_clients()
        one = await api.send("POST", SCHEDULES, key=key, json=schedule(**asked))
        assert (one.status, list(one.faults)) == (422, [pointer])
        batch = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": [schedule(), schedule(**asked)]})
        assert [item["status"] for item in batch.json["items"]] == [201, 422]
        made = batch.json["items"][0]["schedule"]["schedule_id"]
        other = {name: value for name, value in asked.items() if name in ("delay_seconds", "callback")}
        if other:
            again = await api.send(
                "POST", f"{SCHEDULES}/{made}:reschedule", key=key, json={"delay_seconds": 60, **other}
            )
            assert (again.status, list(again.faults)) == (422, [pointer])
        if "delay_seconds" not in asked:
            put = await api.send("PUT", CLIENT + "/crons/nightly", key=key, json=cron(**asked))
            assert (put.status, list(put.faults)) == (422, [pointer])


async def test_values_at_the_bounds_are_accepted() -> None:
    async with ApiHarness(clients=STRICT) as api:
        key = await api.register("shop")
        asked = schedule(
            delay_seconds=10 * 86_400,
            callback=callback(body="x" * 100, headers={"x": "y" * 55}),
            timeout_seconds=5,
            retry={"max_attempts": 3},
        )
        assert (await api.send("POST", SCHEDULES, key=key, json=asked)).status == 201
