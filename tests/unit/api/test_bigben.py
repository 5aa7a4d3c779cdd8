"""BigBen's API, as programs written for it use it: over the in-memory store. Its own tests' cases are among them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from scheduler_service.api.bigben.processors import destination_name
from scheduler_service.api.bigben.settings import BigBenSettings
from scheduler_service.domain.clients import Client
from scheduler_service.domain.destinations import DESTINATIONS_SINCE
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.ids import ClientId, ScheduleId
from scheduler_service.domain.schedules import State
from scheduler_service.domain.targets import JudgedTarget
from scheduler_service.usecases.schedule_request import ScheduleRequest
from tests.support.api import ApiHarness, Reply
from tests.support.nodes import Nodes
from tests.support.outcomes import ended, record

TENANT = "TenantB/ProgramB/EnvC"
HTTP = {"url": "https://receiver.example/hook", "headers": {"header1": "value1", "header2": "value2"}}
KAFKA = {"topic": "events", "bootstrap.servers": "a:1, b:2", "acks": "1"}
FUTURE = "2026-11-21T09:31:00Z"
NOW_TEXT = "2026-11-21T09:30Z"


SETTINGS = BigBenSettings(client="shop", keyless="manage", clusters=("a:1=main", "b:2=main", "c:3=other"))


class Topics:
    """A kind of targets that knows one topic to refuse."""

    def judge(self, document: Mapping[str, Any], *, client_id: ClientId) -> JudgedTarget:
        assert document.keys() == {"cluster", "topic", "key_header"}
        if document["topic"] == "forbidden":
            raise Invalid([FieldError("/topic", "is not this client's")])
        return JudgedTarget(f"kafka://{document['cluster']}/{document['topic']}")


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(bigben=SETTINGS, kinds={"kafka": Topics()}) as harness:
        await harness.register("shop")
        yield harness


async def post(api: ApiHarness, path: str, body: object = None, **params: str) -> Reply:
    return await api.send("POST", f"/bigben{path}", key=None, json=body, params=params)


async def find(api: ApiHarness, event_id: str = "e1", tenant: str = TENANT) -> Reply:
    return await api.send("GET", "/bigben/events/find", key=None, params={"id": event_id, "tenant": tenant})


async def register(api: ApiHarness, tenant: str = TENANT, **config: Any) -> Reply:
    return await post(api, "/events/tenant/register", {"tenant": tenant, "type": "HTTP", "props": HTTP, **config})


@pytest.fixture
async def tenant(api: ApiHarness) -> str:
    assert (await register(api)).status == 200
    return TENANT


def event(**fields: object) -> dict[str, object]:
    return {"id": "e1", "eventTime": FUTURE, "tenant": TENANT, "payload": "P", **fields}


async def schedule(api: ApiHarness, *events: object) -> Reply:
    return await post(api, "/events/schedule", list(events))


def statuses(reply: Reply) -> list[str | None]:
    return [one["eventStatus"] for one in reply.json]


def waiting(api: ApiHarness) -> list[dict[str, Any]]:
    return [row for row in api.connection.rows("schedules") if row["state"] is None and row["created_at"] is not None]


def body_of(row: dict[str, Any]) -> Any:
    return msgspec.json.decode(row["body"])


def id_of(row: dict[str, Any]) -> ScheduleId:
    return ScheduleId(UUID(str(row["schedule_id"])))


async def test_an_event_is_put_found_updated_and_removed(api: ApiHarness, tenant: str) -> None:
    made = await schedule(api, event())
    assert (made.status, statuses(made)) == (200, ["ACCEPTED"])
    assert made.json[0] | {"eventId": None} == {
        "id": "e1",
        "eventTime": FUTURE,
        "tenant": TENANT,
        "mode": "UPSERT",
        "payload": "P",
        "eventId": None,
        "triggeredAt": None,
        "eventStatus": "ACCEPTED",
        "error": None,
        "deliveryOption": "FULL_EVENT",
    }
    found = await find(api)
    assert (found.status, found.json["eventStatus"], found.json["payload"]) == (200, "UN_PROCESSED", "P")
    assert found.json["eventTime"] == "2026-11-21T09:31Z"
    assert found.json["eventId"] == made.json[0]["eventId"]

    other_payload = await schedule(api, event(payload="P1"))
    assert statuses(other_payload) == ["UPDATED"]
    assert other_payload.json[0]["eventId"] == made.json[0]["eventId"], "the instant is the same"
    assert (await find(api)).json["payload"] == "P1"
    later = await schedule(api, event(payload="P2", eventTime="2026-11-21T09:32:00.250Z"))
    assert statuses(later) == ["UPDATED"]
    assert later.json[0]["eventId"] != made.json[0]["eventId"]
    assert (await find(api)).json["eventTime"] == "2026-11-21T09:32:00.250Z"
    assert len(waiting(api)) == 1

    removed = await schedule(api, event(mode="REMOVE"))
    assert (removed.status, statuses(removed)) == (200, ["DELETED"])
    assert removed.json[0]["eventId"] == later.json[0]["eventId"]
    gone = await find(api)
    assert (gone.status, gone.json["status"]) == (404, "not found")
    assert waiting(api) == []
    assert statuses(await schedule(api, event(mode="REMOVE"))) == ["DELETED"], "the first answer may have been lost"
    assert statuses(await schedule(api, event(id="never-put", mode="REMOVE"))) == [None]
    assert statuses(await schedule(api, event())) == ["ACCEPTED"]


async def test_the_receiver_gets_the_event_as_bigben_sends_it(api: ApiHarness, tenant: str) -> None:
    made = await schedule(api, event())
    (row,) = waiting(api)
    assert body_of(row) == {
        "id": "e1",
        "eventTime": "2026-11-21T09:31Z",
        "tenant": TENANT,
        "mode": "UPSERT",
        "payload": "P",
        "eventId": made.json[0]["eventId"],
        "triggeredAt": "2026-11-21T09:31Z",
        "eventStatus": "TRIGGERED",
        "error": None,
        "deliveryOption": "FULL_EVENT",
    }
    assert msgspec.json.decode(row["headers"]) == [["BigBen-Event", "e1"]]
    assert (row["url"], row["label"]) == (f"destination://{destination_name(TENANT)}", TENANT)
    shown = await api.services.destinations.one(ClientId("shop"), destination_name(TENANT))
    assert (shown.document.url, shown.document.method) == (HTTP["url"], "POST")
    assert dict(shown.document.headers) == {
        "header1": "value1",
        "header2": "value2",
        "Accept": "*/*",
        "Content-Type": "application/json; charset=utf-8",
        "BigBen-Tenant": TENANT,
    }
    assert shown.document.retry is not None
    assert shown.document.retry.final_statuses == tuple(range(400, 500)), "BigBen does not retry after these"


async def test_payload_only(api: ApiHarness, tenant: str) -> None:
    made = await schedule(api, event(payload='{"order": 17}', deliveryOption="PAYLOAD_ONLY"))
    assert made.json[0]["eventId"].startswith("a-")
    (row,) = waiting(api)
    assert row["body"] == b'{"order": 17}'
    found = (await find(api)).json
    assert (found["payload"], found["deliveryOption"]) == ('{"order": 17}', "PAYLOAD_ONLY")
    assert found["eventId"] == made.json[0]["eventId"]
    removed = await schedule(api, event(mode="REMOVE"))
    assert removed.json[0]["eventId"] == made.json[0]["eventId"]
    empty = await schedule(api, event(payload="", deliveryOption="PAYLOAD_ONLY"))
    assert statuses(empty) == ["ACCEPTED"]
    assert (await find(api)).json["payload"] == ""


async def test_an_event_without_payload_and_with_a_number_for_an_id(api: ApiHarness, tenant: str) -> None:
    made = await schedule(api, {"id": 17, "eventTime": FUTURE, "tenant": TENANT, "deliveryOption": None})
    assert (statuses(made), made.json[0]["id"]) == (["ACCEPTED"], "17")
    assert (await find(api, "17")).json["payload"] is None


@pytest.mark.parametrize("when", ["2026-11-21T09:29:00Z", "2026-11-21T09:29:59.998999Z", "2019-01-01T00:00+01:00"])
@pytest.mark.parametrize("option", ["FULL_EVENT", "PAYLOAD_ONLY"])
async def test_a_past_event_is_called_at_once_however_old(api: ApiHarness, tenant: str, when: str, option: str) -> None:
    made = await schedule(api, event(eventTime=when, deliveryOption=option))
    assert (made.status, statuses(made)) == (200, ["TRIGGERED"])
    assert (made.json[0]["triggeredAt"], made.json[0]["eventTime"], made.json[0]["eventId"]) == (NOW_TEXT, when, None)
    (row,) = waiting(api)
    assert row["due"] == api.clock.wall_ms()
    if option == "FULL_EVENT":
        body = body_of(row)
        assert (body["eventStatus"], body["triggeredAt"], body["eventId"]) == ("TRIGGERED", NOW_TEXT, None)
        assert body["eventTime"].startswith("2018-12-31T23:00Z" if when.startswith("2019") else "2026-11-21T09:")
    else:
        assert row["body"] == b"P"


async def test_a_past_event_replaces_the_waiting_one_of_its_id(api: ApiHarness, tenant: str) -> None:
    await schedule(api, event())
    assert statuses(await schedule(api, event(eventTime="2026-11-21T09:00:00Z"))) == ["TRIGGERED"]
    (row,) = waiting(api)
    assert row["due"] == api.clock.wall_ms()


def fault_of(reply: Reply) -> str:
    (answer,) = reply.json
    assert answer["eventStatus"] == "REJECTED"
    assert answer["error"]["code"] == 400
    return str(answer["error"]["message"])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (event(tenant="ABC"), ["tenant: is not registered"]),
        (event(tenant=None), ["tenant: is required"]),
        (event(tenant=" "), ["tenant: is required"]),
        (event(eventTime=None), ["eventTime: is required"]),
        (event(eventTime="time"), ["eventTime: must be an ISO 8601"]),
        (event(eventTime="2018-01-31T04:00.00Z"), ["eventTime: must be an ISO 8601"]),
        (event(eventTime="2026-02-30T04:00Z"), ["no instant of the calendar"]),
        (event(eventTime="9999-12-31T23:59:59.999999999Z"), ["eventTime: must be from 1970"]),
        (event(eventTime="0001-01-01T00:00+18:00"), ["eventTime: must be from 1970"]),
        (event(eventTime="2099-01-01T00:00Z"), ["eventTime: is more than 730 days ahead"]),
        (event(id=None), ["id: is required"]),
        (event(payload=None, deliveryOption="PAYLOAD_ONLY"), ["payload: is required"]),
        (event(payload="x" * 70_000), ["payload: the body has"]),
        (event(payload={"order": 17}), ["payload: must be"]),
        (event(mode="DELETE"), ["mode"]),
        (event(mode=None), ["mode"]),
        (event(extra=1, mode="DELETE"), ["extra: is not a known field", "mode"]),
        (event(tenant="x" * 257), ["tenant"]),
        (event(tenant=None, id=None, mode="REMOVE"), ["tenant: is required", "id: is required"]),
        (
            event(tenant="ABC", eventTime="x", id=None),
            ["tenant: is not registered", "eventTime: must", "id: is required"],
        ),
        (event(tenant=None, eventTime=None), ["tenant: is required", "eventTime: is required"]),
        ("text", ["the body: must be an object"]),
    ],
)
async def test_a_bad_event_is_rejected_with_every_fault(
    api: ApiHarness, tenant: str, asked: object, words: list[str]
) -> None:
    reply = await schedule(api, asked)
    assert reply.status == 400
    said = fault_of(reply)
    assert [word for word in words if word not in said] == [], said
    assert waiting(api) == []


async def test_some_of_a_batch_are_rejected(api: ApiHarness, tenant: str) -> None:
    reply = await schedule(api, event(), event(id="e2", tenant="ABC"), event(id="e3"), {"id": "e4", "x": 1})
    assert (reply.status, statuses(reply)) == (206, ["ACCEPTED", "REJECTED", "ACCEPTED", "REJECTED"])
    assert [one["id"] for one in reply.json] == ["e1", "e2", "e3", "e4"]
    assert len(waiting(api)) == 2
    assert (await schedule(api)).status == 400


async def test_the_events_of_one_id_are_done_in_their_order(api: ApiHarness, tenant: str) -> None:
    remove = event(mode="REMOVE")
    reply = await schedule(api, event(payload="1"), remove, event(payload="2"), event(payload="3"), event(id="e2"))
    assert statuses(reply) == ["ACCEPTED", "DELETED", "ACCEPTED", "UPDATED", "ACCEPTED"]
    assert (await find(api)).json["payload"] == "3"
    assert statuses(await schedule(api, remove, event(payload="4"), remove)) == ["DELETED", "ACCEPTED", "DELETED"]
    assert (await find(api)).status == 404


async def test_what_time_does_not_suffice_for_is_an_error_of_its_own(
    api: ApiHarness, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = api.services.schedules.by_key.many

    async def slow(client: Client, requests: Sequence[ScheduleRequest | Invalid]) -> object:
        api.clock.advance(1.3)
        return await put(client, requests)

    monkeypatch.setattr(api.services.schedules.by_key, "many", slow)
    reply = await schedule(api, *(event(id=f"e{number}") for number in range(450)))
    assert reply.status == 206
    assert statuses(reply) == ["ACCEPTED"] * 300 + ["ERROR"] * 150
    assert reply.json[300]["error"]["code"] == 503
    assert len(waiting(api)) == 300
    again = await schedule(api, *(event(id=f"e{number}") for number in range(300, 450)))
    assert statuses(again) == ["ACCEPTED"] * 150


async def test_the_answer_to_many_wrong_events_is_bounded_and_they_count(api: ApiHarness, tenant: str) -> None:
    wrong = {f"f{number}": 1 for number in range(110)}
    reply = await schedule(api, *([wrong] * 1000))
    assert (reply.status, statuses(reply)) == (400, ["REJECTED"] * 1000)
    named = [one["error"]["message"].count("is not a known field") for one in reply.json]
    assert (named[0], named[-1], sum(named)) == (100, 1, 1990)
    for _ in range(2):
        assert (await schedule(api, *([wrong] * 1000))).status == 400
    assert (await schedule(api, wrong)).status == 429


@pytest.mark.parametrize("body", [{}, {"id": "e1"}, "text", [event()] * 1001])
async def test_what_is_no_list_of_events(api: ApiHarness, tenant: str, body: object) -> None:
    reply = await post(api, "/events/schedule", body)
    assert (reply.status, reply.json) == (400, {"message": "the body: must be an array of at most 1000 events"})


async def test_what_is_no_json(api: ApiHarness) -> None:
    headers = {"Content-Type": "application/json"}
    for data in (b"[", b"", b"[\xff]", b"[" * 100_000):
        reply = await api.send("POST", "/bigben/events/schedule", key=None, data=data, headers=headers)
        assert (reply.status, list(reply.json)) == (400, ["message"])
    reply = await api.send(
        "POST", "/bigben/events/schedule", key=None, data=b"[]", headers={"Content-Type": "text/plain"}
    )
    assert reply.status == 415
    assert "application/json" in reply.json["message"]


@pytest.mark.parametrize(
    ("state", "shown", "removed"),
    [
        (State.DELIVERED, "PROCESSED", "PROCESSED"),
        (State.FAILED, "ERROR", "ERROR"),
        (State.SKIPPED, "ERROR", "ERROR"),
    ],
)
async def test_what_became_of_an_event(api: ApiHarness, tenant: str, state: State, shown: str, removed: str) -> None:
    await schedule(api, event())
    (row,) = waiting(api)
    api.clock.advance(61)
    await ended(api, id_of(row), state)
    found = (await find(api)).json
    assert found["eventStatus"] == shown
    assert (found["error"] is None) == (shown == "PROCESSED")
    assert (found["payload"], found["eventTime"]) == ("P", "2026-11-21T09:31Z")
    assert statuses(await schedule(api, event(mode="REMOVE"))) == [removed], "it was sent: nothing can take it back"
    assert statuses(await schedule(api, event(eventTime="2026-11-21T10:31Z"))) == ["ACCEPTED"]


async def test_one_in_flight_is_neither_changed_nor_removed(api: ApiHarness, tenant: str) -> None:
    await schedule(api, event())
    (row,) = waiting(api)
    await record(api, id_of(row), None, in_flight=True)
    assert (await find(api)).json["eventStatus"] == "TRIGGERED"
    for asked in (event(payload="Q"), event(mode="REMOVE")):
        reply = await schedule(api, asked)
        assert (reply.status, statuses(reply), reply.json[0]["error"]["code"]) == (400, ["REJECTED"], 409)
    assert len(waiting(api)) == 1


@pytest.mark.parametrize("option", ["FULL_EVENT", "PAYLOAD_ONLY"])
async def test_a_dry_run_sends_the_event_now_and_leaves_it(api: ApiHarness, tenant: str, option: str) -> None:
    made = (await schedule(api, event(deliveryOption=option))).json[0]
    before = (await find(api)).json
    ran = await post(api, "/events/dryrun", id="e1", tenant=TENANT)
    assert (ran.status, ran.json) == (200, before)
    assert (await find(api)).json == before
    now, later = sorted(waiting(api), key=lambda row: int(row["due"]))
    assert (now["due"], "key" in msgspec.json.decode(now["options"])) == (api.clock.wall_ms(), False)
    if option == "FULL_EVENT":
        assert body_of(now) == {**body_of(later), "triggeredAt": NOW_TEXT}
        assert body_of(now)["eventId"] == made["eventId"]
    else:
        assert now["body"] == later["body"] == b"P"


async def test_what_is_asked_of_an_event_that_is_not_there(api: ApiHarness, tenant: str) -> None:
    for method, path in (("GET", "find"), ("POST", "dryrun")):
        reply = await api.send(method, f"/bigben/events/{path}?id=e1&tenant=x", key=None)
        assert (reply.status, reply.json["status"]) == (404, "not found")
        reply = await api.send(method, f"/bigben/events/{path}?id=", key=None)
        assert (reply.status, reply.json) == (400, {"message": "id: is required; tenant: is required"})
        reply = await api.send(method, f"/bigben/events/{path}?id=a&tenant=b&x=1", key=None)
        assert (reply.status, reply.json) == (400, {"message": "x: is not a known parameter; known are id, tenant"})
    assert waiting(api) == []


async def test_tenants_are_listed_without_their_secrets(api: ApiHarness) -> None:
    assert (await api.send("GET", "/bigben/events/tenants", key=None)).json == {}
    await register(api)
    other = "Ünï code/" + "x" * 200
    again = await register(api, other, props={"url": "https://other.example/", "ignored": {"a": 1}})
    assert again.json == (await api.send("GET", "/bigben/events/tenants", key=None)).json
    assert again.json == {
        TENANT: {
            "tenant": TENANT,
            "type": "HTTP",
            "props": {"url": HTTP["url"], "headers": {"header1": "***", "header2": "***"}},
        },
        other: {"tenant": other, "type": "HTTP", "props": {"url": "https://other.example/"}},
    }
    changed = await register(api, props={"url": "https://moved.example/"})
    assert changed.json[TENANT]["props"] == {"url": "https://moved.example/"}


async def test_events_that_go_to_kafka(api: ApiHarness) -> None:
    made = await register(api, type="MESSAGING", props=KAFKA)
    props = {"topic": "events", "bootstrap.servers": "a:1,b:2"}
    assert (made.status, made.json[TENANT]) == (200, {"tenant": TENANT, "type": "MESSAGING", "props": props})
    shown = await api.services.destinations.one(ClientId("shop"), destination_name(TENANT))
    assert shown.document.target is not None
    assert shown.document.target.address == "kafka://main/events"
    assert statuses(await schedule(api, event())) == ["ACCEPTED"]


async def test_events_can_not_go_to_kafka_where_that_kind_is_off() -> None:
    async with ApiHarness(bigben=SETTINGS) as api:
        await api.register("shop")
        reply = await register(api, type="MESSAGING", props=KAFKA)
        assert reply.status == 400
        assert "type: there is no kind 'kafka' here" in reply.json["message"]


async def test_another_destination_of_the_client_is_no_tenant(api: ApiHarness) -> None:
    given = {"url": "https://x.example/", "headers": {"BigBen-Tenant": "posing"}}
    for name in ("crm", "bb-posing"):
        assert (await api.send("PUT", f"/v1/clients/shop/destinations/{name}", json=given)).status == 201
    assert (await api.send("GET", "/bigben/events/tenants", key=None)).json == {}


def test_names_of_destinations() -> None:
    names = [destination_name(tenant) for tenant in ("a/b", "a-b", "A/B", "ü", "x" * 300, "..", "a/b ")]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 63 for name in names)
    assert names[0].startswith("bb-a-b-")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"tenant": None}, ["tenant: is required"]),
        (
            {"tenant": "", "type": None, "props": None},
            ["tenant: is required", "type: is required", "props: is required"],
        ),
        ({"props": {}}, ["props: is required"]),
        ({"props": {"headers": {}}}, ["props.url: is required"]),
        ({"props": {"url": 17}}, ["props"]),
        ({"props": {"url": "https://a.example/", "headers": {"a": "***"}}}, ["props.headers.a: is"]),
        ({"props": {"url": "http://10.0.0.1/"}}, ["url"]),
        ({"props": {"url": "https://a.example/", "headers": {"Host": "x"}}}, ["headers.Host"]),
        ({"type": "CUSTOM_CLASS", "props": {"eventProcessorClass": "a.B"}}, ["CUSTOM_CLASS names a class"]),
        ({"type": "FTP"}, ["type: is not known"]),
        (
            {"type": "MESSAGING", "props": {"x": 1}},
            ["props.topic: is required", "props.bootstrap.servers: is required"],
        ),
        ({"type": "MESSAGING", "props": {**KAFKA, "bootstrap.servers": "a:1,x:9"}}, ["brokers of no cluster"]),
        ({"type": "MESSAGING", "props": {**KAFKA, "bootstrap.servers": "a:1,c:3"}}, ["brokers of no cluster"]),
        ({"type": "MESSAGING", "props": {**KAFKA, "topic": 17}}, ["props: Expected"]),
        ({"type": "MESSAGING", "props": {**KAFKA, "topic": "forbidden"}}, ["props.topic: is not this client's"]),
        ({"extra": 1}, ["extra: is not a known field"]),
    ],
)
async def test_a_registration_that_is_refused(api: ApiHarness, config: dict[str, Any], words: list[str]) -> None:
    reply = await register(api, **config)
    assert (reply.status, list(reply.json)) == (400, ["message"])
    assert [word for word in words if word not in reply.json["message"]] == [], reply.json
    assert (await api.send("GET", "/bigben/events/tenants", key=None)).json == {}


async def test_the_rest(api: ApiHarness) -> None:
    assert (await api.send("GET", "/bigben/ping", key=None)).json == {"status": "OK"}
    assert (await api.send("GET", "/bigben/events/cluster", key=None)).json == {"minutehand": "Master"}
    assert (await api.send("POST", "/bigben/cron", key=None)).json["status"] == "not found"
    reply = await api.send("GET", "/bigben/events/schedule", key=None)
    assert (reply.status, list(reply.json), reply.headers["Allow"]) == (405, ["message"], "POST")


async def test_puts_count_for_the_rate_of_creates_and_removals_for_the_budget(api: ApiHarness, tenant: str) -> None:
    events = [event(id=f"e{number}") for number in range(1000)]
    for _ in range(3):
        reply = await post(api, "/events/schedule", events)
        assert reply.status == 200
    reply = await post(api, "/events/schedule", events)
    assert (reply.status, list(reply.json)) == (429, ["message"])
    assert int(reply.headers["Retry-After"]) > 0
    removals = [{**one, "mode": "REMOVE"} for one in events]
    assert statuses(await post(api, "/events/schedule", removals)) == ["DELETED"] * 1000
    assert statuses(await post(api, "/events/schedule", removals)) == ["DELETED"] * 1000
    assert (await api.send("GET", "/bigben/events/find?id=a&tenant=b", key=None)).status == 429


@pytest.mark.parametrize(("knows", "status"), [(DESTINATIONS_SINCE - 1, 409), (DESTINATIONS_SINCE, 200)])
async def test_no_tenant_is_registered_while_nodes_run_that_would_end_its_events(
    api: ApiHarness, knows: int, status: int
) -> None:
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("older", knows=knows), seconds=3)
    made = await register(api, "new")
    assert made.status == status
    assert status == 200 or "upgrade them first" in made.json["message"]
