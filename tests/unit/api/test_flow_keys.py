"""Flow keys over the API: what is taken, refused and shown, and that all schedules of a key have one poller."""

from typing import Any

import pytest

from tests.support.api import NOW, ApiHarness, callback, cron, schedule

CLIENT = "/v1/clients/shop"
SCHEDULES = f"{CLIENT}/schedules"


def flowing(flow_key: str = "customer-1", **fields: Any) -> dict[str, object]:
    return callback(flow_key=flow_key, **fields)


async def created(api: ApiHarness, key: str, **fields: Any) -> dict[str, Any]:
    reply = await api.send("POST", SCHEDULES, key=key, json=schedule(**fields))
    assert reply.status == 201, reply.body
    return dict(reply.json)


@pytest.fixture
async def wide(api: ApiHarness, key: str) -> str:
    """The key of a client with 50 pollers."""
    await api.add_built_in_clients()
    assert (await api.send("PUT", CLIENT, json={"poller_quota": 50})).status == 200
    return key


async def test_a_flow_key_is_shown_with_the_limits_that_were_given(api: ApiHarness, key: str) -> None:
    made = await created(api, key, callback=flowing(flow_rate=0.5))
    assert made["callback"] == {
        "url": "https://receiver.example/hook",
        "method": "POST",
        "headers": {},
        "flow_key": "customer-1",
        "flow_rate": 0.5,
    }
    shown = await api.send("GET", f"{SCHEDULES}/{made['schedule_id']}", key=key)
    assert shown.json["callback"] == made["callback"]
    assert shown.json["attempts"] == 0
    listed = await api.send("GET", SCHEDULES, key=key)
    assert [one["callback"] for one in listed.json["items"]] == [made["callback"]]


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({"flow_key": ""}, ["/callback/flow_key"]),
        ({"flow_key": "x" * 257}, ["/callback/flow_key"]),
        ({"flow_key": 7}, ["/callback/flow_key"]),
        ({"flow_key": "a", "flow_rate": 0}, ["/callback/flow_rate"]),
        ({"flow_key": "a", "flow_rate": 10_001}, ["/callback/flow_rate"]),
        ({"flow_key": "a", "flow_parallelism": 0}, ["/callback/flow_parallelism"]),
        ({"flow_key": "a", "flow_parallelism": 1.5}, ["/callback/flow_parallelism"]),
        ({"flow_rate": 1, "flow_parallelism": 1}, ["/callback/flow_rate", "/callback/flow_parallelism"]),
    ],
)
@pytest.mark.parametrize("resource", ["schedule", "cron", "batch"])
async def test_what_is_out_of_bounds_is_refused_with_every_fault(
    api: ApiHarness, key: str, resource: str, fields: dict[str, Any], pointers: list[str]
) -> None:
    wrong = callback(**fields)
    if resource == "cron":
        reply = await api.send("PUT", f"{CLIENT}/crons/nightly", key=key, json=cron(callback=wrong))
    elif resource == "batch":
        batch = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": [schedule(callback=wrong)]})
        item = batch.json["items"][0]
        assert item["status"] == 422
        assert [fault["pointer"] for fault in item["problem"]["errors"]] == pointers
        return
    else:
        reply = await api.send("POST", SCHEDULES, key=key, json=schedule(callback=wrong))
    assert reply.status == 422
    assert [fault["pointer"] for fault in reply.json["errors"]] == pointers


async def test_every_way_to_create_gives_a_key_one_poller(api: ApiHarness, wide: str) -> None:
    one = await created(api, wide, callback=flowing())
    pollers = {(await created(api, wide, callback=flowing(), delay_seconds=100 * n))["poller_id"] for n in range(1, 9)}
    ordered = await created(api, wide, callback=flowing(), ordering_key="order-2")
    batch = await api.send(
        "POST", f"{SCHEDULES}:batch", key=wide, json={"items": [schedule(callback=flowing()) for _ in range(3)]}
    )
    put = await api.send("PUT", f"{SCHEDULES}/by-key/order-1", key=wide, json=schedule(callback=flowing()))
    night = await api.send("PUT", f"{CLIENT}/crons/nightly", key=wide, json=cron(callback=flowing()))
    assert night.status == 201, night.body
    triggered = await api.send("POST", f"{CLIENT}/crons/nightly:trigger", key=wide)
    assert triggered.status == 201, triggered.body
    many = [item["schedule"]["poller_id"] for item in batch.json["items"]]
    others = [ordered["poller_id"], put.json["poller_id"], triggered.json["poller_id"]]
    assert {*pollers, *many, *others} == {one["poller_id"]}
    assert triggered.json["callback"]["flow_key"] == "customer-1"


async def test_runs_of_a_cron_have_its_ordering_key_and_the_poller_of_it(api: ApiHarness, wide: str) -> None:
    one = await created(api, wide, ordering_key="till-4")
    for cron_id, fields in {"nightly": {}, "daily": {"callback": flowing()}}.items():
        put = await api.send("PUT", f"{CLIENT}/crons/{cron_id}", key=wide, json=cron(ordering_key="till-4", **fields))
        assert (put.status, put.json["ordering_key"]) == (201, "till-4"), put.body
    run = await api.send("POST", f"{CLIENT}/crons/nightly:trigger", key=wide)
    assert (run.json["poller_id"], run.json["ordering_key"]) == (one["poller_id"], "till-4")
    both = await api.send("POST", f"{CLIENT}/crons/daily:trigger", key=wide)
    assert both.json["poller_id"] == (await created(api, wide, callback=flowing()))["poller_id"]


async def test_keys_are_spread_over_pollers(api: ApiHarness, wide: str) -> None:
    pollers = {(await created(api, wide, callback=flowing(f"customer-{n}")))["poller_id"] for n in range(30)}
    assert len(pollers) > 15


async def test_a_rescheduled_call_stays_with_its_key(api: ApiHarness, wide: str) -> None:
    made = await created(api, wide, callback=flowing(flow_parallelism=2))
    moved = await api.send(
        "POST", f"{SCHEDULES}/{made['schedule_id']}:reschedule", key=wide, json={"delay_seconds": 500}
    )
    assert moved.status == 201, moved.body
    assert moved.json["poller_id"] == made["poller_id"]
    assert moved.json["callback"]["flow_parallelism"] == 2


async def test_another_callback_has_its_own_key(api: ApiHarness, wide: str) -> None:
    made = await created(api, wide, callback=flowing())
    other = await created(api, wide, callback=flowing("customer-7"))
    moved = await api.send(
        "POST",
        f"{SCHEDULES}/{made['schedule_id']}:reschedule",
        key=wide,
        json={"delay_seconds": 500, "callback": flowing("customer-7")},
    )
    assert moved.json["poller_id"] == other["poller_id"]
    assert moved.json["callback"]["flow_key"] == "customer-7"
    plain = await api.send(
        "POST",
        f"{SCHEDULES}/{moved.json['schedule_id']}:reschedule",
        key=wide,
        json={"delay_seconds": 600, "callback": callback()},
    )
    assert "flow_key" not in plain.json["callback"]


async def test_a_batch_with_flow_keys_is_repeated_item_by_item(api: ApiHarness, wide: str) -> None:
    once = f"{NOW}.50.3.{'x' * 20}"
    body = {"items": [schedule(callback=flowing()), schedule(), schedule(callback=flowing("")), schedule()]}
    first, second = [await api.send("POST", f"{SCHEDULES}:batch?once={once}", key=wide, json=body) for _ in range(2)]
    assert [item["status"] for item in first.json["items"]] == [201, 201, 422, 201]
    assert [item.get("schedule") for item in first.json["items"]] == [i.get("schedule") for i in second.json["items"]]


async def test_a_client_sets_its_own_rules(api: ApiHarness, key: str) -> None:
    rules = {"default": {"parallelism": 5}, "prefixes": {"trial-": {"rate": 0.1}}}
    manage = (await api.send("POST", f"{CLIENT}/keys", json={"scope": "manage"})).json["key"]
    changed = await api.send("PATCH", f"{CLIENT}/settings", key=manage, json={"flows": rules})
    assert changed.status == 200, changed.body
    assert changed.json["settings"]["flows"] == {
        "default": {"rate": None, "parallelism": 5},
        "prefixes": {"trial-": {"rate": 0.1, "parallelism": None}},
    }


@pytest.mark.parametrize(
    ("rules", "pointer"),
    [
        ({"default": {"rate": -1}}, "/settings/flows/default/rate"),
        ({"default": {"speed": 1}}, "/settings/flows/default/speed"),
        ({"prefixes": {"a": {"parallelism": 0}}}, "/settings/flows/prefixes/a/parallelism"),
        ({"prefixes": {f"p{n}": {} for n in range(101)}}, "/settings/flows/prefixes"),
    ],
)
async def test_rules_out_of_bounds_are_refused(api: ApiHarness, rules: dict[str, Any], pointer: str) -> None:
    reply = await api.send("PUT", CLIENT, json={"poller_quota": 1, "settings": {"flows": rules}})
    assert reply.status == 422
    assert reply.json["errors"][0]["pointer"].startswith(pointer.rsplit("/", 1)[0])
