"""Callbacks that name a destination, over the API: what is taken, refused, stored and shown."""

import asyncio
from typing import Any

import pytest

from cql.connection import Parameters
from cql.memory.connection import InMemoryConnection
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.settings import ReceiverSettings
from poller_cluster.trial_calls import TrialCalls
from scheduler_service.api.resources.schedule_views import request_view
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.usecases import create_schedules
from scheduler_service.usecases.named_destinations import ABSENT_NAME_SECONDS
from tests.support.api import ApiHarness, ManualClock, Reply, cron, schedule

CLIENT = "/v1/clients/shop"
SCHEDULES = f"{CLIENT}/schedules"


async def put(api: ApiHarness, name: str = "crm", **given: Any) -> Reply:
    reply = await api.send("PUT", f"{CLIENT}/destinations/{name}", json={"url": "https://crm.example/hooks", **given})
    assert reply.status in (200, 201), reply.body
    return reply


async def create(api: ApiHarness, key: str, callback: dict[str, Any], **fields: Any) -> Reply:
    return await api.send("POST", SCHEDULES, key=key, json=schedule(callback=callback, **fields))


async def created(api: ApiHarness, key: str, callback: dict[str, Any], **fields: Any) -> dict[str, Any]:
    reply = await create(api, key, callback, **fields)
    assert reply.status == 201, reply.body
    return dict(reply.json)


async def test_a_schedule_shows_the_destination_that_it_names(api: ApiHarness, key: str) -> None:
    await put(api)
    made = await created(api, key, {"destination": "crm", "path": "/orders?id=17", "headers": {"X-A": "1"}})
    assert made["callback"] == {"destination": "crm", "path": "/orders?id=17", "headers": {"X-A": "1"}}
    shown = await api.send("GET", f"{SCHEDULES}/{made['schedule_id']}", key=key)
    assert shown.json["callback"] == made["callback"]
    plain = await created(api, key, {"destination": "crm", "method": "PUT", "body": "x"})
    assert plain["callback"] == {"destination": "crm", "method": "PUT", "headers": {}, "body": "x"}


@pytest.mark.parametrize(
    ("callback", "faults"),
    [
        ({}, {"/callback/url": "neither is given"}),
        ({"url": "https://a.example/", "destination": "crm"}, {"/callback/url": "both are given"}),
        ({"url": "https://a.example/", "path": "/x"}, {"/callback/path": "only for callbacks with a destination"}),
        ({"destination": "other"}, {"/callback/destination": "there is no destination 'other'"}),
        ({"destination": "No name"}, {"/callback/destination": "regex"}),
        ({"destination": "crm", "path": "orders"}, {"/callback/path": "begin with a slash"}),
        ({"destination": "crm", "path": "/a#b"}, {"/callback/path": "fragment"}),
        ({"destination": "crm", "path": "/a b"}, {"/callback/path": "space"}),
        ({"destination": "crm", "path": "/a\r\nX: 1"}, {"/callback/path": "control"}),
        ({"destination": "crm", "path": "/ä"}, {"/callback/path": "non-ASCII"}),
        ({"destination": "crm", "path": "/a/../b"}, {"/callback/path": "dot segment"}),
        ({"destination": "crm", "path": "/a/%2E%2e?x"}, {"/callback/path": "dot segment"}),
        ({"destination": "crm", "path": "/..;/admin"}, {"/callback/path": "dot segment"}),
        ({"destination": "crm", "path": "/x%2f..%2Fadmin"}, {"/callback/path": "dot segment"}),
        ({"destination": "crm", "path": "/..%5cadmin"}, {"/callback/path": "dot segment"}),
        ({"destination": "crm", "path": "/%252e%252e/admin"}, {"/callback/path": "dot segment"}),
        ({"destination": "crm", "path": "/..%00/a"}, {"/callback/path": "dot segment"}),
        ({"destination": "crm", "path": "/" + "x" * 2048}, {"/callback/path": "2048"}),
        (
            {"destination": "other", "path": "x", "method": "BREW"},
            {
                "/callback/destination": "no destination",
                "/callback/path": "slash",
                "/callback/method": "must be one of",
            },
        ),
        ({"url": "destination://crm/x"}, {"/callback/url": "scheme"}),
    ],
)
async def test_what_names_no_receiver_is_refused_with_every_fault(
    api: ApiHarness, key: str, callback: dict[str, Any], faults: dict[str, str]
) -> None:
    await put(api)
    for reply in (
        await create(api, key, callback),
        await api.send("PUT", f"{CLIENT}/crons/nightly", key=key, json=cron(callback=callback)),
        await api.send("POST", f"{CLIENT}/callbacks:try", key=key, json={"callback": callback}),
    ):
        assert reply.status == 422, reply.body
        assert reply.faults.keys() == faults.keys()
        assert all(part in reply.faults[pointer] for pointer, part in faults.items()), reply.faults
    batch = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": [schedule(callback=callback)]})
    found = {fault["pointer"] for fault in batch.json["items"][0]["problem"]["errors"]}
    assert found == faults.keys()


@pytest.mark.parametrize("path", ["/", "/a.b/..c/...", "/a?b=../c", "/a/%2Fb", "//a", "/" + "x" * 2047])
async def test_paths_that_stay_below_the_destination_are_taken(api: ApiHarness, key: str, path: str) -> None:
    await put(api)
    assert (await created(api, key, {"destination": "crm", "path": path}))["callback"]["path"] == path


async def test_every_way_to_create_takes_a_name(api: ApiHarness, key: str) -> None:
    await api.add_built_in_clients()
    await put(api)
    callback = {"destination": "crm", "path": "/x"}
    shown = {**callback, "headers": {}}
    batch = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": [schedule(callback=callback)] * 2})
    assert [item["schedule"]["callback"] for item in batch.json["items"]] == [shown, shown]
    keyed = await api.send("PUT", f"{SCHEDULES}/by-key/cart", key=key, json=schedule(callback=callback))
    assert (keyed.status, keyed.json["callback"]) == (201, shown), keyed.body
    again = await api.send("PUT", f"{SCHEDULES}/by-key/cart", key=key, json=schedule(callback=callback))
    assert (again.status, again.json["schedule_id"]) == (200, keyed.json["schedule_id"])
    nightly = await api.send("PUT", f"{CLIENT}/crons/nightly", key=key, json=cron(callback=callback))
    assert (nightly.status, nightly.json["callback"]) == (201, shown)
    repeated = await api.send("PUT", f"{CLIENT}/crons/nightly", key=key, json=cron(callback=callback))
    assert (repeated.status, repeated.json["revision"]) == (200, nightly.json["revision"])
    run = await api.send("POST", f"{CLIENT}/crons/nightly:trigger", key=key)
    assert (run.status, run.json["callback"]) == (201, shown)
    kept = await api.send(
        "POST", SCHEDULES, key=key, json=schedule(callback=callback), headers={"Idempotency-Key": "one"}
    )
    assert (kept.status, kept.json["callback"]) == (201, shown)


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        ({"headers": {"X-A": "1"}}, {"destination": "crm", "path": "/x", "headers": {"X-A": "1"}}),
        ({"path": "/y"}, {"destination": "crm", "path": "/y", "headers": {}}),
        ({"path": None}, {"destination": "crm", "headers": {}}),
        ({"destination": "mail"}, {"destination": "mail", "path": "/x", "headers": {}}),
        ({"method": "PUT"}, {"destination": "crm", "path": "/x", "method": "PUT", "headers": {}}),
        ({"url": "https://a.example/"}, {"url": "https://a.example/", "method": "POST", "headers": {}}),
    ],
)
async def test_an_update_changes_what_it_names(
    api: ApiHarness, key: str, change: dict[str, Any], becomes: dict[str, Any]
) -> None:
    for name in ("crm", "mail"):
        await put(api, name)
    made = await created(api, key, {"destination": "crm", "path": "/x"})
    reply = await api.send("PATCH", f"{SCHEDULES}/{made['schedule_id']}", key=key, json={"callback": change})
    assert reply.status == 200, reply.body
    assert reply.json["callback"] == becomes


async def test_an_update_lets_a_url_give_way_to_a_destination(api: ApiHarness, key: str) -> None:
    await put(api)
    made = await created(api, key, {"url": "https://a.example/", "method": "PUT"})
    path = f"{SCHEDULES}/{made['schedule_id']}"
    wrong = await api.send("PATCH", path, key=key, json={"callback": {"destination": "other"}})
    assert wrong.faults.keys() == {"/callback/destination"}
    reply = await api.send("PATCH", path, key=key, json={"callback": {"destination": "crm", "method": None}})
    assert (reply.status, reply.json["callback"]) == (200, {"destination": "crm", "headers": {}}), reply.body


async def test_a_reschedule_takes_a_name(api: ApiHarness, key: str) -> None:
    await put(api)
    made = await created(api, key, {"url": "https://a.example/"})
    path = f"{SCHEDULES}/{made['schedule_id']}:reschedule"
    wrong = await api.send("POST", path, key=key, json={"delay_seconds": 60, "callback": {"destination": "other"}})
    assert wrong.faults.keys() == {"/callback/destination"}
    reply = await api.send("POST", path, key=key, json={"delay_seconds": 60, "callback": {"destination": "crm"}})
    assert reply.json["callback"] == {"destination": "crm", "headers": {}}, reply.body


class CountingConnection(InMemoryConnection):
    """Counts the reads of destinations."""

    reads = 0

    async def select(self, name: str, parameters: Parameters, **how: Any) -> list[tuple[object, ...]]:
        self.reads += name in ("destinations.list", "destinations.names")
        return await super().select(name, parameters, **how)


async def test_names_are_read_once_and_again_for_one_that_is_new() -> None:
    connection = CountingConnection()
    async with ApiHarness(connection=connection) as api:
        key = await api.register()
        await put(api)
        before = connection.reads
        for _ in range(3):
            await created(api, key, {"url": "https://a.example/"})
        assert connection.reads == before, "a URL asks nothing"
        for _ in range(3):
            await created(api, key, {"destination": "crm"})
        assert connection.reads == before + 1
        await put(api, "mail")
        before = connection.reads
        await created(api, key, {"destination": "mail"})
        assert connection.reads == before + 1


async def test_one_that_there_is_not_makes_names_be_read_once_a_second() -> None:
    connection = CountingConnection()
    async with ApiHarness(connection=connection) as api:
        key = await api.register()
        await put(api)
        before = connection.reads
        replies = await asyncio.gather(*(create(api, key, {"destination": f"no-{number}"}) for number in range(20)))
        replies += [await create(api, key, {"destination": f"other-{number}"}) for number in range(20)]
        assert {reply.status for reply in replies} == {422}
        assert connection.reads == before + 1
        api.clock.advance(ABSENT_NAME_SECONDS)
        await create(api, key, {"destination": "no-1"})
        assert connection.reads == before + 2


async def test_one_that_is_made_can_be_named_at_once_although_it_was_refused(api: ApiHarness, key: str) -> None:
    assert (await create(api, key, {"destination": "crm"})).status == 422
    await put(api)
    await created(api, key, {"destination": "crm"})


class SlowConnection(InMemoryConnection):
    """Reads of names wait for `held` once they have their rows."""

    def __init__(self) -> None:
        super().__init__()
        self.held, self.reading = asyncio.Event(), asyncio.Event()

    async def select(self, name: str, parameters: Parameters, **how: Any) -> list[tuple[object, ...]]:
        rows = await super().select(name, parameters, **how)
        if name == "destinations.names":
            self.reading.set()
            await self.held.wait()
        return rows


async def test_one_that_is_made_while_names_are_read_can_be_named_at_once() -> None:
    connection = SlowConnection()
    async with ApiHarness(connection=connection) as api:
        key = await api.register()
        early = asyncio.ensure_future(create(api, key, {"destination": "crm"}))
        await connection.reading.wait()
        await put(api)
        connection.held.set()
        assert (await early).status == 422
        await created(api, key, {"destination": "crm"})


async def test_a_destination_that_another_process_deleted_is_refused_within_five_seconds(
    api: ApiHarness, key: str
) -> None:
    await put(api)
    await created(api, key, {"destination": "crm"})
    store = api.storage.destinations
    (stored,) = await store.list_destinations(ClientId("shop"))
    await store.delete_destination(stored.client_id, stored.name, expected_revision=stored.revision)
    api.clock.advance(5)
    assert (await create(api, key, {"destination": "crm"})).faults.keys() == {"/callback/destination"}


async def test_a_destination_that_this_process_deleted_is_refused_at_once() -> None:
    connection = SlowConnection()
    connection.held.set()
    async with ApiHarness(connection=connection) as api:
        key = await api.register()
        await put(api)
        await created(api, key, {"destination": "crm"})
        await put(api, "mail")
        connection.held.clear()
        connection.reading.clear()
        early = asyncio.ensure_future(create(api, key, {"destination": "mail"}))
        await connection.reading.wait()
        for name in ("crm", "mail"):
            assert (await api.send("DELETE", f"{CLIENT}/destinations/{name}?force=true")).status == 204
        connection.held.set()
        await early
        for name in ("crm", "mail"):
            assert (await create(api, key, {"destination": name})).faults.keys() == {"/callback/destination"}


async def test_names_are_refused_in_a_batch_although_a_destination_changes_meanwhile(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(api)
    monkeypatch.setattr(create_schedules, "PIECE", 1)
    pause = api.clock.sleep

    async def changes(seconds: float) -> None:
        if seconds == 0:
            await put(api, "mail")
        await pause(seconds)

    monkeypatch.setattr(api.clock, "sleep", changes)
    items = [schedule(callback={"destination": name}) for name in ("crm", "no-1", "no-2")]
    reply = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": items})
    assert [item["status"] for item in reply.json["items"]] == [201, 422, 422], reply.body


async def test_a_trial_call_gets_the_destination_with_its_secrets(api: ApiHarness, key: str) -> None:
    await put(api, headers={"X-Key": "s3cr3t"})
    reply = await api.send("POST", f"{CLIENT}/callbacks:try", key=key, json={"callback": {"destination": "crm"}})
    assert reply.status == 200, reply.body
    (sent,) = api.trial_calls.sent
    assert sent.destination is not None
    assert sent.destination.headers == (("X-Key", "s3cr3t"),)
    calls = TrialCalls(
        clock=ManualClock(),
        policy=NetworkPolicy(),
        settings=DeliverySettings(),
        receivers=ReceiverSettings(),
        version="1",
    )
    preview = calls.preview(sent)
    assert preview is not None
    assert (preview.method, preview.url) == ("POST", "https://crm.example/hooks")
    assert ("X-Key", "s3cr3t") in preview.headers
    shown = request_view(preview)
    assert shown.headers is not None
    assert shown.headers["X-Key"] == "***"
    assert "s3cr3t" not in repr(sent)


async def test_a_preview_of_a_call_whose_destination_is_gone_says_so(api: ApiHarness, key: str) -> None:
    await put(api)
    made = await created(api, key, {"destination": "crm"})
    path = f"{SCHEDULES}/{made['schedule_id']}:preview"
    assert (await api.send("POST", path, key=key)).status == 200
    await api.send("DELETE", f"{CLIENT}/destinations/crm?force=true")
    gone = await api.send("POST", path, key=key)
    assert (gone.status, gone.json["type"].rsplit("/", 1)[-1]) == (409, "destination-deleted")
