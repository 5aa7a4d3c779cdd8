"""Bad requests are refused with the right status, every fault is listed, and nothing is stored."""

from typing import Any

import msgspec
import pytest

from scheduler_service.domain.instants import format_instant
from tests.support.api import NOW, ApiHarness, callback, schedule

SCHEDULES = "/v1/clients/shop/schedules"
JSON = {"Content-Type": "application/json"}


def stored(api: ApiHarness) -> int:
    return len(api.connection.rows("schedules"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b"  ", "empty"),
        (b"{", "not valid JSON"),
        (b'{"delay_seconds": 90,}', "not valid JSON"),
        (b'{"delay_seconds": NaN}', "not valid JSON"),
        (b"{'delay_seconds': 90}", "not valid JSON"),
        (b'{"callback": {"url": "x"}} {}', "not valid JSON"),
        (b'{"callback": {"url": 5}, "due": nope}', "not valid JSON"),
        (b'{"callback": {"url": "\xff"}}', "not UTF-8"),
        (b'{"callback": {"url": "https://a.example", "json": "\xff"}}', "not UTF-8"),
        ('{"callback": {}}'.encode("utf-16"), "not UTF-8"),
        (b'{"callback": {"url": "https://a.example", "json": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}", "deeply"),
    ],
)
@pytest.mark.parametrize("verb", ["", ":batch"])
async def test_malformed_json(api: ApiHarness, key: str, body: bytes, words: str, verb: str) -> None:
    reply = await api.send("POST", SCHEDULES + verb, key=key, data=body, headers=JSON)
    assert reply.status == 400
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.json["type"] == "/problems/malformed"
    assert words in reply.json["detail"]
    assert stored(api) == 0


@pytest.mark.parametrize(
    ("request_", "pointers"),
    [
        ({}, {"/callback", "/due"}),
        (schedule(foo=1, bar=2), {"/foo", "/bar"}),
        (schedule(callback={"url": "https://a.example", "verb": "GET"}), {"/callback/verb"}),
        (schedule(delay_seconds="90"), {"/delay_seconds"}),
        (schedule(delay_seconds=True), {"/delay_seconds"}),
        (schedule(callback="https://a.example"), {"/callback"}),
        (schedule(callback=callback(headers={"a": 1, "b": None})), {"/callback/headers/a", "/callback/headers/b"}),
        (schedule(callback=callback(headers=[["a", "b"]])), {"/callback/headers"}),
        (schedule(label=""), {"/label"}),
        (schedule(label="x" * 257, ordering_key=5), {"/label", "/ordering_key"}),
        (schedule(timeout_seconds=0, skip_after_seconds=-1), {"/timeout_seconds", "/skip_after_seconds"}),
        (schedule(timeout_seconds=60.1), {"/timeout_seconds"}),
        (
            schedule(retry={"max_attempts": 0, "base_seconds": 0, "x": 1}),
            {"/retry/max_attempts", "/retry/base_seconds", "/retry/x"},
        ),
        (schedule(retry={"final_statuses": [404, 99, "x"]}), {"/retry/final_statuses/1", "/retry/final_statuses/2"}),
        (schedule(callback=callback(url="http://10.0.0.1/")), {"/callback/url"}),
        (schedule(callback=callback(method="post")), {"/callback/method"}),
        (schedule(callback=callback(headers={"X-A": "a\r\nX-B: b"})), {"/callback/headers/X-A"}),
        (schedule(callback=callback(headers={"webhook-signature": "v1,x"})), {"/callback/headers/webhook-signature"}),
        (schedule(callback=callback(headers={"a/b~c": "x"})), {"/callback/headers/a~1b~0c"}),
        (schedule(callback=callback(body="x", json=1)), {"/callback/json"}),
        (schedule(callback=callback(body="x" * 65_537)), {"/callback/body"}),
        (schedule(due=format_instant(NOW - 61_000)), {"/due"}),
        (schedule(due="2026-11-21T09:31:00Z", delay_seconds=5), {"/due"}),
        (schedule(due=format_instant(NOW + 731 * 86_400_000)), {"/due"}),
        (schedule(delay_seconds=10**12), {"/delay_seconds"}),
        (
            {"due": 5, "foo": 1, "label": "", "callback": {"url": "ftp://x", "method": 1, "headers": {"Host": "x"}}},
            {"/due", "/foo", "/label", "/callback/url", "/callback/method", "/callback/headers/Host"},
        ),
    ],
)
async def test_every_fault_is_listed_and_nothing_is_stored(
    api: ApiHarness, key: str, request_: dict[str, Any], pointers: set[str]
) -> None:
    reply = await api.send("POST", SCHEDULES, key=key, json=request_)
    assert reply.status == 422, reply.body
    assert reply.json["type"] == "/problems/invalid"
    assert set(reply.faults) == pointers
    assert len(reply.json["errors"]) == len(pointers)
    batch = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": [request_]})
    (item,) = batch.json["items"]
    assert item["status"] == 422
    assert {error["pointer"]: error["detail"] for error in item["problem"]["errors"]} == reply.faults
    assert stored(api) == 0


@pytest.mark.parametrize("body", [[], "x", 5, None, True])
async def test_something_else_than_an_object(api: ApiHarness, key: str, body: Any) -> None:
    reply = await api.send("POST", SCHEDULES, key=key, data=msgspec.json.encode(body), headers=JSON)
    assert reply.status == 422
    assert "object" in reply.faults[""]


async def test_a_flood_of_faults_is_cut(api: ApiHarness, key: str) -> None:
    wrong = schedule(**{f"unknown{number}": "x" * 100 for number in range(5_000)}, label="")
    reply = await api.send("POST", SCHEDULES, key=key, json=wrong)
    assert reply.status == 422
    assert len(reply.json["errors"]) == 100
    assert len(reply.body) < 64_000
    reply = await api.send("POST", SCHEDULES, key=key, json=schedule(**{"x" * 1_000_000: 1}))
    assert reply.status == 422
    assert len(reply.body) < 2_000


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"items": []}, "/items"),
        ({"items": [schedule()] * 1_001}, "/items"),
        ({"items": schedule()}, "/items"),
        ({}, "/items"),
        ({"items": [schedule()], "mode": "atomic"}, "/mode"),
    ],
)
async def test_a_batch_that_is_no_batch(api: ApiHarness, key: str, body: Any, pointer: str) -> None:
    reply = await api.send("POST", SCHEDULES + ":batch", key=key, json=body)
    assert reply.status == 422
    assert list(reply.faults) == [pointer]
    assert stored(api) == 0


async def test_items_that_are_no_objects(api: ApiHarness, key: str) -> None:
    reply = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": [5, schedule(), None, []]})
    assert [item["status"] for item in reply.json["items"]] == [422, 201, 422, 422]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "application/json", "Content-Encoding": "br"},
    ],
)
async def test_other_kinds_of_body(api: ApiHarness, key: str, headers: dict[str, str]) -> None:
    reply = await api.send("POST", SCHEDULES, key=key, data=b"{}", headers=headers)
    assert reply.status == 415
    assert reply.json["type"] == "/problems/unsupported-media-type"


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"]
)
async def test_ways_to_say_json(api: ApiHarness, key: str, kind: str) -> None:
    reply = await api.send("POST", SCHEDULES, key=key, data=b"{}", headers={"Content-Type": kind})
    assert reply.status == 422


async def test_a_suspended_client_creates_nothing_but_reads_and_cancels(api: ApiHarness, key: str) -> None:
    made = (await api.send("POST", SCHEDULES, key=key, json=schedule())).json
    assert (await api.send("POST", "/v1/clients/shop:suspend")).json["state"] == "suspended"
    for path, body in (
        (SCHEDULES, schedule()),
        (SCHEDULES, {"junk": 1}),
        (SCHEDULES + ":batch", {"items": [schedule()]}),
        (SCHEDULES + ":batch", {"junk": 1}),
    ):
        reply = await api.send("POST", path, key=key, json=body)
        assert reply.status == 403
        assert reply.json["type"] == "/problems/client-suspended"
    assert stored(api) == 1
    assert (await api.send("GET", f"{SCHEDULES}/{made['schedule_id']}", key=key)).status == 200
    assert (await api.send("DELETE", f"{SCHEDULES}/{made['schedule_id']}", key=key)).json["state"] == "cancelled"
    assert (await api.send("POST", "/v1/clients/shop:resume")).json["state"] == "active"
    assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201


@pytest.mark.parametrize(
    "schedule_id",
    [
        "nonsense",
        "5f0ab101-be32-4f41-8a8e-25a68d17d4af",
        "{01a1fe7b-0a24-8000-81b0-6435e6edef00}",
        "01a1fe7b0a24800081b06435e6edef00",
        "01a1fe7b-0a24-8fff-bfff-6435e6edef00",
        "01a1fe7b-0a24-8000-81b0-6435e6edef00",
        "%00",
        "..",
        "a" * 5_000,
    ],
)
async def test_ids_that_name_nothing(api: ApiHarness, key: str, schedule_id: str) -> None:
    for method in ("GET", "DELETE"):
        reply = await api.send(method, f"{SCHEDULES}/{schedule_id}", key=key)
        assert reply.status == 404, reply.body


@pytest.mark.parametrize("client_id", ["Shop", "a" * 64, "-x", "sh%20op", "%24%24x", "$nope", "é", "a%2Fb"])
async def test_clients_that_cannot_be(api: ApiHarness, client_id: str) -> None:
    for method, path in (("GET", ""), ("GET", "/schedules"), ("GET", "/keys"), ("POST", ":suspend")):
        reply = await api.send(method, f"/v1/clients/{client_id}{path}")
        assert reply.status == 404, (method, path, reply.body)
        assert reply.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ({"frm": "2026-11-21T09:30:00Z", "x": "1"}, {"/frm", "/x"}),
        ({"from": "yesterday", "to": "5", "limit": "0", "state": "done"}, {"/from", "/to", "/limit", "/state"}),
        ({"from": "2026-11-21T09:30:00Z", "to": "2026-11-21T09:30:00Z"}, {"/to"}),
        ({"from": "1969-12-31T23:59:59Z"}, {"/from"}),
        ({"limit": "1001"}, {"/limit"}),
        ({"limit": "-1"}, {"/limit"}),
        ({"limit": "1e2"}, {"/limit"}),
        ({"limit": "٣"}, {"/limit"}),
        ({"label": "x" * 257, "cron_id": "x" * 257}, {"/label", "/cron_id"}),
        ({"cursor": ""}, {"/cursor"}),
        ({"cursor": "AAAA"}, {"/cursor"}),
        ({"cursor": "é", "limit": "x"}, {"/cursor", "/limit"}),
        ({"cursor": "A" * 5_000}, {"/cursor"}),
    ],
)
async def test_listings_that_cannot_be(api: ApiHarness, key: str, query: dict[str, str], pointers: set[str]) -> None:
    reply = await api.send("GET", SCHEDULES, key=key, params=query)
    assert reply.status == 422, reply.body
    assert set(reply.faults) == pointers


async def test_a_parameter_given_twice(api: ApiHarness, key: str) -> None:
    reply = await api.send("GET", f"{SCHEDULES}?limit=5&limit=6", key=key)
    assert "more than once" in reply.faults["/limit"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/poller_quota"}),
        ({"poller_quota": 0}, {"/poller_quota"}),
        ({"poller_quota": 1025}, {"/poller_quota"}),
        ({"poller_quota": "3", "name": "x"}, {"/poller_quota", "/name"}),
        (
            {
                "poller_quota": 1,
                "settings": {
                    "timeout_seconds": 61,
                    "in_doubt": "maybe",
                    "late_policy": {"kind": "skip", "after": 1},
                    "hosts": {"Bad/": {}, "ok.example": {"max_in_flight": 0}},
                    "retry": {"base_seconds": 700, "cap_seconds": 600},
                    "colour": "red",
                },
            },
            {
                "/settings/timeout_seconds",
                "/settings/in_doubt",
                "/settings/late_policy/after",
                "/settings/hosts/Bad~1",
                "/settings/hosts/ok.example/max_in_flight",
                "/settings/retry/base_seconds",
                "/settings/colour",
            },
        ),
        ({"poller_quota": 1, "settings": {"hosts": {"HTTP://x/": {}}}}, {"/settings/hosts/HTTP:~1~1x~1"}),
        (
            {"poller_quota": 1, "settings": {"hosts": {f"h{n}.example": {} for n in range(101)}}},
            {"/settings/hosts"},
        ),
    ],
)
async def test_clients_that_cannot_be_registered(api: ApiHarness, body: Any, pointers: set[str]) -> None:
    reply = await api.send("PUT", "/v1/clients/shop", json=body)
    assert reply.status == 422, reply.body
    assert set(reply.faults) == pointers
    assert api.connection.rows("clients") == []
    assert api.connection.rows("pollers") == []


@pytest.mark.parametrize("client_id", ["Shop", "-x", "a" * 64, "sh%20op"])
async def test_ids_that_no_client_can_have(api: ApiHarness, client_id: str) -> None:
    reply = await api.send("PUT", f"/v1/clients/{client_id}", json={"poller_quota": 0})
    assert reply.status == 422
    assert set(reply.faults) == {"", "/poller_quota"}
    assert api.connection.rows("clients") == []


async def test_verbs_that_take_nothing_refuse_something(api: ApiHarness, key: str) -> None:
    reply = await api.send("POST", "/v1/clients/shop/signing-secrets", json={"name": "ci"})
    assert reply.status == 422
    assert list(reply.faults) == ["/name"]
    assert (await api.send("POST", "/v1/clients/shop/signing-secrets", json={})).status == 201


async def test_a_cursor_is_taken_only_as_it_was_answered(api: ApiHarness, key: str) -> None:
    for _ in range(2):
        await api.send("POST", SCHEDULES, key=key, json=schedule())
    query = {"to": "2026-11-21T12:00:00Z", "from": "2026-11-21T09:00:00Z", "limit": "1"}
    listed = await api.send("GET", SCHEDULES, key=key, params=query)
    cursor = listed.json["next_cursor"]
    statuses = [
        (await api.send("GET", SCHEDULES, key=key, params={"cursor": cursor + padding})).status
        for padding in ("", "=", "==", "\n")
    ]
    assert statuses == [200, 422, 422, 422]
