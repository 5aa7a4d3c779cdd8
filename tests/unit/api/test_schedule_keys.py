"""Schedules under the client's own keys, over REST."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias
from uuid import UUID

import pytest

from cql.connection import AnswerRows, Item
from cql.memory.connection import InMemoryConnection
from cql.schedule_rows import partition_parameters
from membership.conditional import Answer
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ClientId, ScheduleId, partition_of
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from tests.support.api import ADMIN_KEY, NOW, ApiHarness, Reply
from tests.support.outcomes import ended, record

SCHEDULES = "/v1/clients/shop/schedules"
URL = "https://shop.example/hooks/expire"


async def put(
    api: ApiHarness, key: str, name: str = "order-17", *, headers: dict[str, str] | None = None, **body: object
) -> Reply:
    body = {"delay_seconds": 600, "callback": {"url": URL}, **body}
    if "due" in body:
        del body["delay_seconds"]
    return await api.send("PUT", f"{SCHEDULES}/by-key/{name}", key=key, json=body, headers=headers or {})


async def shown(api: ApiHarness, key: str, name: str = "order-17") -> Reply:
    return await api.send("GET", f"{SCHEDULES}/by-key/{name}", key=key)


async def states(api: ApiHarness, key: str) -> list[str]:
    """States of all schedules of the next hours, in order of due."""
    query = f"from={format_instant(NOW)}&to={format_instant(NOW + 80_000_000)}"
    return [item["state"] for item in (await api.send("GET", f"{SCHEDULES}?{query}", key=key)).json["items"]]


async def test_the_first_is_created_and_the_next_one_replaces_it(api: ApiHarness, key: str) -> None:
    first = await put(api, key)
    assert (first.status, first.json["state"], first.json["key"]) == (201, "scheduled", "order-17")
    second = await put(api, key, delay_seconds=1200)
    assert (second.status, second.json["rescheduled_from"]) == (200, first.json["schedule_id"])
    assert (await shown(api, key)).json == second.json
    assert await states(api, key) == ["cancelled", "scheduled"]
    old = (await api.send("GET", f"{SCHEDULES}/{first.json['schedule_id']}", key=key)).json
    assert (old["state"], old["rescheduled_to"]) == ("cancelled", second.json["schedule_id"])


async def test_an_equal_one_changes_nothing(api: ApiHarness, key: str) -> None:
    due = format_instant(NOW + 600_000)
    first = await put(api, key, due=due)
    again = await put(api, key, due=due)
    assert (again.status, again.json) == (200, first.json)
    assert await states(api, key) == ["scheduled"]


async def test_a_hundred_pushes_leave_one(api: ApiHarness, key: str) -> None:
    for _ in range(100):
        assert (await put(api, key)).status in (200, 201)
        api.clock.advance(1)
    assert (await states(api, key)).count("scheduled") == 1


class Counting(InMemoryConnection):
    """Records every request: the first statement that it reads or writes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def select(self, name: str, *args: Any, serial: bool = False, **arguments: Any) -> list[tuple[Any, ...]]:
        self.asked.append(f"{name} serially" if serial else name)
        return await super().select(name, *args, serial=serial, **arguments)

    async def write(self, name: str, *args: Any, **arguments: Any) -> None:
        self.asked.append(name)
        await super().write(name, *args, **arguments)

    async def write_batch(self, items: Sequence[Item], *args: Any, **arguments: Any) -> None:
        self.asked.append(items[0][0])
        await super().write_batch(items, *args, **arguments)

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        self.asked.append(f"{items[0][0]} on a condition")
        return await super().conditional(items)


async def test_a_push_costs_one_conditional_write_and_no_serial_read() -> None:
    connection = Counting()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        for delay in (600, 601, 602):
            connection.asked.clear()
            assert (await put(api, key, delay_seconds=delay)).status in (200, 201)
        assert connection.asked == [
            "schedule_keys.read",
            "schedules.read_row",
            "schedules.insert_definition",
            "schedules.update on a condition",
            "schedule_keys.go_ahead",
            "schedules.insert_definition",
        ]


async def test_one_that_was_called_is_followed_by_a_new_one(api: ApiHarness, key: str) -> None:
    first = await put(api, key)
    await ended(api, ScheduleId(UUID(first.json["schedule_id"])), State.DELIVERED)
    second = await put(api, key)
    assert (second.status, second.json["rescheduled_from"]) == (201, None)
    assert second.json["schedule_id"] != first.json["schedule_id"]
    assert (await shown(api, key)).json["schedule_id"] == second.json["schedule_id"]


async def test_cancelled_by_its_key_and_put_again(api: ApiHarness, key: str) -> None:
    assert (await api.send("DELETE", f"{SCHEDULES}/by-key/order-17", key=key)).status == 404
    first = await put(api, key)
    gone = await api.send("DELETE", f"{SCHEDULES}/by-key/order-17", key=key)
    assert (gone.status, gone.json["state"]) == (200, "cancelled")
    assert (await shown(api, key)).json["state"] == "cancelled"
    second = await put(api, key)
    assert second.status == 201
    assert second.json["schedule_id"] != first.json["schedule_id"]


async def test_a_reschedule_by_id_keeps_the_key(api: ApiHarness, key: str) -> None:
    first = await put(api, key)
    moved = await api.send(
        "POST", f"{SCHEDULES}/{first.json['schedule_id']}:reschedule", key=key, json={"delay_seconds": 900}
    )
    assert (moved.status, moved.json["key"]) == (201, "order-17")
    assert (await shown(api, key)).json["schedule_id"] == moved.json["schedule_id"]
    assert (await put(api, key)).json["rescheduled_from"] == moved.json["schedule_id"]


async def test_preconditions(api: ApiHarness, key: str) -> None:
    absent = await put(api, key, headers={"If-Match": "*"})
    assert (absent.status, absent.json["type"]) == (412, "/problems/precondition-failed")
    first = await put(api, key, headers={"If-None-Match": "*"})
    assert first.status == 201
    assert (await put(api, key, headers={"If-None-Match": "*"}, delay_seconds=1)).status == 412
    tag = first.headers["ETag"]
    assert (await shown(api, key)).headers["ETag"] == tag
    second = await put(api, key, headers={"If-Match": tag}, delay_seconds=700)
    assert second.status == 200
    assert (await put(api, key, headers={"If-Match": tag}, delay_seconds=800)).status == 412
    stale = await api.send("DELETE", f"{SCHEDULES}/by-key/order-17", key=key, headers={"If-Match": tag})
    assert stale.status == 412
    assert await states(api, key) == ["cancelled", "scheduled"]
    for header, value in (("If-Match", "unquoted"), ("If-None-Match", '"x"')):
        refused = await put(api, key, headers={header: value})
        assert (refused.status, refused.json["errors"][0]["pointer"]) == (422, f"/{header}")


async def test_preconditions_of_crons_and_clients(api: ApiHarness, key: str) -> None:
    await api.add_built_in_clients()
    cron = {"expression": "0 3 * * *", "timezone": "UTC", "callback": {"url": URL}}
    changed = {**cron, "expression": "0 4 * * *"}
    for path, first, second, caller in (
        ("/v1/clients/shop/crons/nightly", cron, changed, key),
        ("/v1/clients/mill", {"poller_quota": 1}, {"poller_quota": 2}, ADMIN_KEY),
    ):

        async def send(body: object, *, to: str = path, by: str = caller, **headers: str) -> Reply:
            return await api.send("PUT", to, key=by, json=body, headers=headers)

        absent = await send(first, **{"If-Match": "*"})
        assert (absent.status, absent.json["type"]) == (412, "/problems/precondition-failed"), absent.body
        made = await send(first, **{"If-None-Match": "*"})
        assert made.status == 201, made.body
        tag = made.headers["ETag"]
        assert (await api.send("GET", path, key=caller)).headers["ETag"] == tag
        assert (await send(second, **{"If-None-Match": "*"})).status == 412
        replaced = await send(second, **{"If-Match": tag})
        assert (replaced.status, replaced.headers["ETag"] == tag) == (200, False)
        assert (await send(first, **{"If-Match": tag})).status == 412
        shown = (await api.send("GET", path, key=caller)).json
        assert second.items() <= {**shown, "callback": second.get("callback")}.items()


async def test_puts_never_delay_a_call_beyond_the_first_latest(api: ApiHarness, key: str) -> None:
    latest = format_instant(NOW + 1_000_000)
    first = await put(api, key, latest=latest)
    assert (first.json["due"], first.json["latest"]) == (format_instant(NOW + 600_000), latest)
    api.clock.advance(500)
    second = await put(api, key, latest=format_instant(NOW + 9_000_000))
    assert (second.json["due"], second.json["latest"]) == (latest, latest)
    await ended(api, ScheduleId(UUID(second.json["schedule_id"])), State.DELIVERED)
    third = await put(api, key)
    assert third.json["latest"] is None


async def test_a_reschedule_by_id_is_due_at_the_latest_of_its_key(api: ApiHarness, key: str) -> None:
    latest = format_instant(NOW + 1_000_000)
    first = await put(api, key, latest=latest)
    path = f"{SCHEDULES}/{first.json['schedule_id']}:reschedule"
    for _ in range(2):
        moved = await api.send("POST", path, key=key, json={"delay_seconds": 9_000})
        assert (moved.json["due"], moved.json["latest"]) == (latest, latest)
    path = f"{SCHEDULES}/{moved.json['schedule_id']}:reschedule"
    sooner = await api.send("POST", path, key=key, json={"delay_seconds": 900})
    assert sooner.json["due"] == format_instant(NOW + 900_000)
    assert (await states(api, key)).count("scheduled") == 1


async def test_repeats_under_an_idempotency_key(api: ApiHarness, key: str) -> None:
    headers = {"Idempotency-Key": "one"}
    first = await put(api, key, headers=headers)
    await ended(api, ScheduleId(UUID(first.json["schedule_id"])), State.DELIVERED)
    again = await put(api, key, headers=headers)
    assert (again.status, again.headers["Idempotency-Replayed"]) == (200, "true")
    assert again.json["schedule_id"] == first.json["schedule_id"]


Asks: TypeAlias = Callable[[str], Awaitable[Reply]]
"""Puts a schedule that is equal each time, under a name for this request."""


def asking(api: ApiHarness, key: str, way: str) -> Asks:
    body = {"due": format_instant(NOW + 20_000), "callback": {"url": URL, "body": "old"}}
    by_key = f"{SCHEDULES}/by-key/order-17"

    async def ask(name: str) -> Reply:
        once = f"once={NOW}.1.0.{name * 16}"
        match way:
            case "put":
                return await api.send("PUT", by_key, key=key, json=body, headers={"Idempotency-Key": name})
            case "post":
                keyed = {**body, "key": "order-17"}
                return await api.send("POST", SCHEDULES, key=key, json=keyed, headers={"Idempotency-Key": name})
            case "once":
                return await api.send("PUT", f"{by_key}?{once}", key=key, json=body)
            case _:
                items = {"items": [{**body, "key": "order-17"}]}
                return await api.send("POST", f"{SCHEDULES}:batch?{once}", key=key, json=items)

    return ask


def one(reply: Reply) -> dict[str, Any]:
    """The schedule of an answer to a single or a batch request."""
    view: dict[str, Any] = reply.json["items"][0]["schedule"] if "items" in reply.json else reply.json
    return view


@pytest.mark.parametrize("way", ["put", "post", "once", "batch"])
@pytest.mark.parametrize("ending", ["delivered", "cancelled", "replaced"])
async def test_a_repeated_request_that_was_equal_to_what_waited_brings_nothing_back(
    api: ApiHarness, key: str, way: str, ending: str
) -> None:
    ask = asking(api, key, way)
    first, second = one(await ask("a")), one(await ask("b"))
    assert second["rescheduled_from"] == first["schedule_id"]
    assert one(await ask("b"))["schedule_id"] == second["schedule_id"]
    assert (one(await ask("a"))["state"], (await shown(api, key)).json["state"]) == ("cancelled", "scheduled")
    match ending:
        case "delivered":
            api.clock.advance(30)
            await ended(api, ScheduleId(UUID(second["schedule_id"])), State.DELIVERED)
        case "cancelled":
            assert (await api.send("DELETE", f"{SCHEDULES}/by-key/order-17", key=key)).status == 200
        case _:
            assert (await put(api, key, due=format_instant(NOW + 30_000))).status == 200
    before = await states(api, key), (await shown(api, key)).json
    for name in "ba":
        again = await ask(name)
        assert again.status == 200
        assert one(again)["schedule_id"] == (second if name == "b" else first)["schedule_id"]
    assert (await states(api, key), (await shown(api, key)).json) == before


class Crossed(InMemoryConnection):
    """`meanwhile` acts once, when a schedule key is read: before the read, or before its answer."""

    meanwhile: Callable[[], Awaitable[object]] | None = None
    early = False

    async def select(self, name: str, *args: Any, **arguments: Any) -> list[tuple[Any, ...]]:
        act, asked = self.meanwhile, name == "schedule_keys.read"
        if not asked or act is None:
            return await super().select(name, *args, **arguments)
        self.meanwhile = None
        if self.early:
            await act()
        rows = await super().select(name, *args, **arguments)
        if not self.early:
            await act()
        return rows


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
async def test_a_repeat_that_its_first_request_and_a_newer_put_overtake(early: bool) -> None:
    connection = Crossed()
    connection.early = early
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        ask = asking(api, key, "once")
        await ask("a")

        async def meanwhile() -> None:
            first.append((await ask("b")).json)
            newer.append((await put(api, key, due=format_instant(NOW + 30_000))).json)

        first: list[dict[str, Any]] = []
        newer: list[dict[str, Any]] = []
        connection.meanwhile = meanwhile
        again = await ask("b")
        assert (again.status, again.json["schedule_id"]) == (200, first[0]["schedule_id"]), again.body
        assert again.json["rescheduled_to"] == newer[0]["schedule_id"]
        assert (await shown(api, key)).json == newer[0]


@pytest.mark.parametrize("way", ["put", "post", "once", "batch"])
async def test_a_chosen_schedule_keeps_the_first_puts_latest(api: ApiHarness, key: str, way: str) -> None:
    latest = format_instant(NOW + 15_000)
    first = await put(api, key, due=format_instant(NOW + 10_000), latest=latest)
    ask = asking(api, key, way)
    second = one(await ask("a"))
    assert (second["due"], second["latest"]) == (latest, latest)
    assert second["rescheduled_from"] == first.json["schedule_id"]
    assert one(await ask("a"))["schedule_id"] == second["schedule_id"]
    third = one(await ask("b"))
    assert (third["due"], third["rescheduled_from"]) == (latest, second["schedule_id"])
    assert one(await ask("a"))["schedule_id"] == second["schedule_id"]
    await ended(api, ScheduleId(UUID(third["schedule_id"])), State.DELIVERED)
    for name, made in (("a", second), ("b", third)):
        assert one(await ask(name))["schedule_id"] == made["schedule_id"]
    assert sorted(await states(api, key)) == ["cancelled", "cancelled", "delivered"]


async def test_a_repeat_whose_schedule_retention_may_have_deleted_makes_none() -> None:
    connection = InMemoryConnection()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", settings={"retention_days": 1})
        asked: dict[str, Any] = {"headers": {"Idempotency-Key": "a"}, "due": format_instant(NOW + 1000)}
        first = await put(api, key, **asked)
        await ended(api, made := ScheduleId(UUID(first.json["schedule_id"])), State.DELIVERED)
        api.clock.advance(86_400 - 600)
        assert (await put(api, key, **asked)).status == 200
        partition = partition_of(ClientId("shop"), made)
        await connection.write("schedules.delete_partition", partition_parameters(partition))
        again = await put(api, key, **asked)
        assert (again.status, await states(api, key)) == (503, [])


class Refusing(InMemoryConnection):
    """Storage that refuses the next insert of a schedule."""

    refuses = False

    async def write_batch(self, items: Sequence[Item], *args: Any, **arguments: Any) -> None:
        if self.refuses and items[0][0].startswith("schedules.insert"):
            self.refuses = False
            raise StoreUnavailable("no answer")
        await super().write_batch(items, *args, **arguments)


async def test_a_repeat_that_completes_a_failed_put_is_marked_as_replayed() -> None:
    connection = Refusing()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop")
        asked: dict[str, Any] = {"headers": {"Idempotency-Key": "a"}, "due": format_instant(NOW + 1000)}
        connection.refuses = True
        assert (await put(api, key, **asked)).status == 503
        for _ in range(2):
            again = await put(api, key, **asked)
            assert (again.status, again.headers.get("Idempotency-Replayed")) == (200, "true")
        assert await states(api, key) == ["scheduled"]


async def test_an_equal_one_under_an_idempotency_key_waits_for_one_that_is_called(api: ApiHarness, key: str) -> None:
    ask = asking(api, key, "put")
    first = (await ask("a")).json
    await record(api, ScheduleId(UUID(first["schedule_id"])), None, in_flight=True)
    refused = await ask("b")
    assert (refused.status, refused.json.get("type")) == (409, "/problems/in-flight")
    assert (await ask("a")).json["schedule_id"] == first["schedule_id"]


async def test_batches_take_keys(api: ApiHarness, key: str) -> None:
    item = {"delay_seconds": 60, "callback": {"url": URL}}
    items = [
        {**item, "key": "a"},
        item,
        {**item, "key": "b"},
        {**item, "key": "a", "delay_seconds": 120},
        {**item, "key": "a b"},
    ]
    reply = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": items})
    assert [one["status"] for one in reply.json["items"]] == [201, 201, 201, 201, 422]
    assert (await shown(api, key, "a")).json["schedule_id"] == reply.json["items"][3]["schedule"]["schedule_id"]
    assert sorted(await states(api, key)) == ["cancelled", "scheduled", "scheduled", "scheduled"]


async def test_a_create_with_a_key_is_a_put(api: ApiHarness, key: str) -> None:
    body = {"delay_seconds": 60, "callback": {"url": URL}, "key": "order-17"}
    first = await api.send("POST", SCHEDULES, key=key, json=body)
    second = await api.send("POST", SCHEDULES, key=key, json={**body, "delay_seconds": 90})
    assert (first.status, second.status) == (201, 200)
    assert await states(api, key) == ["cancelled", "scheduled"]


@pytest.mark.parametrize("name", ["a%20b", "%C3%A4", "x" * 257, "a%00"])
async def test_keys_that_there_can_not_be(api: ApiHarness, key: str, name: str) -> None:
    reply = await put(api, key, name)
    assert (reply.status, reply.json["errors"][0]["pointer"]) == (422, "/key")
    assert (await shown(api, key, name)).status == 404
    assert await states(api, key) == []


@pytest.mark.parametrize("name", ["a%2Fb", "a:b", "a%3Ab", "~!$&'()*+,;=@", "%25"])
async def test_keys_with_odd_characters(api: ApiHarness, key: str, name: str) -> None:
    first = await put(api, key, name)
    assert first.status == 201, first.body
    assert (await shown(api, key, name)).json == first.json


async def test_bad_input_names_all_faults(api: ApiHarness, key: str) -> None:
    body = {"key": "b", "delay_seconds": -1, "latest": "soon", "callback": {"url": URL}}
    reply = await api.send("PUT", f"{SCHEDULES}/by-key/a", key=key, json=body)
    assert reply.status == 422
    assert {fault["pointer"] for fault in reply.json["errors"]} >= {"/key", "/delay_seconds", "/latest"}
    alone = await api.send(
        "POST", SCHEDULES, key=key, json={"delay_seconds": 1, "callback": {"url": URL}, "latest": LATEST}
    )
    assert (alone.status, alone.json["errors"][0]["pointer"]) == (422, "/latest")


LATEST = format_instant(NOW + 1_000_000)
