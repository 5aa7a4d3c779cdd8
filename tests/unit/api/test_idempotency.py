"""Idempotency-Key over REST: a repeated request has no further effect, another one under its key is refused."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import aiohttp
import pytest
from yarl import URL

from cql.connection import AnswerRows, Consistency, Item, Parameters
from cql.memory.connection import InMemoryConnection
from membership.conditional import Answer, Unknown
from membership.errors import StoreUnavailable
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ApiHarness, Reply, callback, schedule
from tests.support.outcomes import created, ended, record, row_of
from tests.unit.usecases.late_rows import Meddled

SCHEDULES = "/v1/clients/shop/schedules"
KEEP = "idempotency_keys.keep"


async def post(api: ApiHarness, key: str, path: str = "", *, under: str = "k", **sent: Any) -> Reply:
    return await api.send("POST", SCHEDULES + path, key=key, headers={"Idempotency-Key": under}, **sent)


def calls(api: ApiHarness) -> list[dict[str, Any]]:
    return [row for row in api.connection.rows("schedules") if row["kind"] == "call"]


def keys(api: ApiHarness) -> list[dict[str, Any]]:
    return api.connection.rows("idempotency_keys")


def replayed(reply: Reply) -> bool:
    return reply.headers.get("Idempotency-Replayed") == "true"


async def test_the_same_request_again_is_the_same_schedule(api: ApiHarness, key: str) -> None:
    first = await post(api, key, json=schedule(label="x"))
    assert (first.status, replayed(first)) == (201, False)
    api.clock.advance(30)
    again = await post(api, key, json=schedule(label="x"))
    assert (again.status, replayed(again), again.json) == (200, True, first.json)
    assert len(calls(api)) == len(keys(api)) == 1
    other = await post(api, key, under="other", json=schedule(label="x"))
    assert other.json["schedule_id"] != first.json["schedule_id"]


async def test_without_a_key_nothing_is_kept(api: ApiHarness, key: str) -> None:
    for _ in range(2):
        assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201
    assert (len(calls(api)), keys(api)) == (2, [])


async def test_another_body_or_path_under_the_key_is_refused(api: ApiHarness, key: str) -> None:
    first = await post(api, key, json=schedule())
    one = first.json["schedule_id"]
    for path, body in (
        ("", schedule(label="x")),
        (":batch", {"items": [schedule()]}),
        (f"/{one}:reschedule", {"delay_seconds": 5}),
        (f"/{one}:redeliver", None),
    ):
        reply = await post(api, key, path, json=body)
        assert (reply.status, reply.json["type"]) == (422, "/problems/idempotency-key-reused")
    assert (len(calls(api)), len(keys(api))) == (1, 1)


async def test_a_key_is_good_for_one_schedule_only(api: ApiHarness, key: str) -> None:
    """Both requests have no body."""
    one, other = await created(api, key), await created(api, key)
    for each in (one, other):
        await ended(api, each, State.DELIVERED)
    assert (await post(api, key, f"/{one}:redeliver")).status == 202
    assert (await post(api, key, f"/{other}:redeliver")).json["type"] == "/problems/idempotency-key-reused"


async def test_keys_are_each_clients_own(api: ApiHarness, key: str) -> None:
    other = await api.register("other")
    assert (await post(api, key, json=schedule())).status == 201
    headers = {"Idempotency-Key": "k"}
    reply = await api.send("POST", "/v1/clients/other/schedules", key=other, json=schedule(), headers=headers)
    assert (reply.status, len(calls(api))) == (201, 2)


@pytest.mark.parametrize(
    "under",
    [
        "",
        "k" * 256,
        "a b",
        "é",
        "k\tk",
        '""',
        '"x',
        '"',
        '"a"b"',
        '"x";a=1',
        '"é"',
        '"\\x"',
        f'"{"k" * 256}"',
        '"x", "y"',
    ],
)
async def test_what_is_no_key_is_refused(api: ApiHarness, key: str, under: str) -> None:
    one = await created(api, key)
    before = len(calls(api))
    for path, body in (("", schedule()), (":batch", {"items": [schedule()]}), (f"/{one}:redeliver", None)):
        reply = await post(api, key, path, under=under, json=body)
        assert (reply.status, set(reply.faults)) == (422, {"/Idempotency-Key"})
    assert (len(calls(api)), keys(api)) == (before, [])


async def test_the_longest_and_the_oddest_keys_are_taken(api: ApiHarness, key: str) -> None:
    for under in ("k" * 255, "!", '"x"', "~", 'a"b', f'"{"q" * 255}"', '"a b"', r'"\"\\"'):
        assert (await post(api, key, under=under, json=schedule())).status == 201
        assert replayed(await post(api, key, under=under, json=schedule()))


async def test_a_key_in_quotes_is_the_key_without(api: ApiHarness, key: str) -> None:
    assert (await post(api, key, under="8e03978e", json=schedule())).status == 201
    assert replayed(await post(api, key, under='"8e03978e"', json=schedule()))
    assert (await post(api, key, under=r'"a\"\\b"', json=schedule())).status == 201
    assert replayed(await post(api, key, under=r'a"\b', json=schedule()))
    assert {row["key"] for row in keys(api)} == {"8e03978e", r'a"\b'}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            '{"delay_seconds": 90, "callback": {"url": "https://a.b/"}}',
            '{"callback":{"url":"https://a.b/"},"delay_seconds":90}',
        ),
        ('{"delay_seconds": 9e1, "label": "\\u0061"}', '{"delay_seconds": 90.0, "label": "a"}'),
        ('{"delay_seconds": 90}', '{"delay_seconds": 90, "window_seconds": 0, "label": null, "due": null}'),
        ('{"callback": {"headers": {"a": "1", "b": "2"}}}', '{"callback": {"headers": {"b": "2", "a": "1"}}}'),
    ],
    ids=["order-and-space", "spelling", "defaults", "headers"],
)
@pytest.mark.parametrize("path", ["", ":batch"])
async def test_bodies_that_say_the_same_are_one_request(
    api: ApiHarness, key: str, one: str, other: str, path: str
) -> None:
    def body(text: str) -> bytes:
        asked = text if "https:" in text else text.replace("{", '{"callback": {"url": "https://a.b/"}, ', 1)
        if '"headers"' in text:
            asked = text.replace('"headers"', '"url": "https://a.b/", "headers"')[:-1] + ', "delay_seconds": 90}'
        return (f'{{"items": [{asked}]}}' if path else asked).encode()

    headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
    for data, again in ((body(one), False), (body(other), True)):
        reply = await api.send("POST", SCHEDULES + path, key=key, data=data, headers=headers)
        assert (reply.status, replayed(reply)) == (200 if path or again else 201, again), reply.body
    assert len(calls(api)) == 1


@pytest.mark.parametrize("path", ["", ":batch"])
async def test_json_that_a_receiver_gets_is_compared_as_it_is_written(api: ApiHarness, key: str, path: str) -> None:
    statuses = []
    for text in ('{"a":1}', '{"a": 1}'):
        asked = f'{{"delay_seconds": 90, "callback": {{"url": "https://a.b/", "json": {text}}}}}'
        data = (f'{{"items": [{asked}]}}' if path else asked).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": "k"}
        statuses.append((await api.send("POST", SCHEDULES + path, key=key, data=data, headers=headers)).status)
    assert statuses == [200 if path else 201, 422]


async def test_items_that_are_wrong_are_compared_too(api: ApiHarness, key: str) -> None:
    for wrong, status in (({"x": 1}, 200), ({"x": 1}, 200), ({"x": 2}, 422), (schedule(), 422)):
        assert (await post(api, key, ":batch", json={"items": [schedule(), wrong]})).status == status
    for items, status in (([], 422), ([schedule()], 422), ([{"x": 1}, schedule()], 422)):
        assert (await post(api, key, ":batch", json={"items": items})).status == status
    assert len(calls(api)) == 1


async def test_the_path_counts_decoded(api: ApiHarness, key: str) -> None:
    assert api.server is not None
    headers = {"Idempotency-Key": "k", "Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for path, status in (("cart%2D17", 201), ("cart-17", 200), ("cart-18", 422)):
            url = URL(f"http://127.0.0.1:{api.server.port}{SCHEDULES}/by-key/{path}", encoded=True)
            async with session.put(url, json=schedule()) as response:
                assert response.status == status, await response.read()


async def test_a_refused_request_keeps_nothing(api: ApiHarness, key: str) -> None:
    for body, status in ((schedule(due="2020-01-01T00:00:00Z"), 422), ({"x": 1}, 422)):
        assert (await post(api, key, json=body)).status == status
    missing = UUID("01a1fe7b-0a24-8000-81b0-6435e6edef00")
    open_, gone = await created(api, key), await created(api, key)
    await api.send("DELETE", f"{SCHEDULES}/{gone}", key=key)
    flying = await created(api, key)
    await record(api, flying, None, in_flight=True)
    for path, body, status in (
        (f"/{missing}:redeliver", None, 404),
        (f"/{open_}:redeliver", None, 409),
        (f"/{gone}:redeliver", None, 409),
        (f"/{missing}:reschedule", {"delay_seconds": 5}, 404),
        (f"/{open_}:reschedule", {"due": "2020-01-01T00:00:00Z"}, 422),
        (f"/{gone}:reschedule", {"delay_seconds": 5}, 409),
        (f"/{flying}:reschedule", {"delay_seconds": 5}, 409),
    ):
        assert (await post(api, key, path, json=body)).status == status, path
    refused = await post(api, key, ":batch", json={"items": [schedule(due="2020-01-01T00:00:00Z"), 17]})
    assert [item["status"] for item in refused.json["items"]] == [422, 422]
    assert keys(api) == []
    assert (await post(api, key, json=schedule())).status == 201


async def test_a_repeat_shows_what_became_of_it(api: ApiHarness, key: str) -> None:
    body = schedule(due=format_instant(NOW + 1_000))
    one = ScheduleId(UUID((await post(api, key, json=body)).json["schedule_id"]))
    await record(api, one, None, in_flight=True)
    assert (await post(api, key, json=body)).json["in_flight"]
    await ended(api, one, State.DELIVERED)
    api.clock.advance(3_600)
    again = await post(api, key, json=body)
    assert (again.status, replayed(again), again.json["state"]) == (200, True, "delivered")


async def test_a_repeat_of_a_retrying_one_sees_that_its_retry_row_is_there(api: ApiHarness, key: str) -> None:
    one = ScheduleId(UUID((await post(api, key, json=schedule())).json["schedule_id"]))
    at = UnixMillis(NOW + 100_000)
    await record(api, one, Outcome(state=State.RETRYING, attempts=0, next_attempt_at=at, reason="late-create"))
    assert (await post(api, key, json=schedule())).json["state"] == "retrying"
    retry_row = await row_of(api, one, at=at)
    assert retry_row is not None
    assert (retry_row.is_retry_row, retry_row.attempt_base) == (True, 0)


class Lossy(Meddled):
    """Storage that does not answer requests whose statements begin with a name in `down` or `losing`; the latter take
    effect.
    """

    def __init__(self) -> None:
        super().__init__()
        self.down: set[str] = set()
        self.losing: set[str] = set()

    async def select(
        self, name: str, parameters: Parameters, *, serial: bool = False, consistency: Consistency = "LOCAL_QUORUM"
    ) -> list[tuple[Any, ...]]:
        self._refuse(name)
        return await super().select(name, parameters, serial=serial, consistency=consistency)

    async def write(self, name: str, parameters: Parameters, *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._refuse(name)
        await super().write(name, parameters, consistency=consistency)
        if name in self.losing:
            raise StoreUnavailable("lost")

    async def write_batch(self, items: Sequence[Item], *, consistency: Consistency = "LOCAL_QUORUM") -> None:
        self._refuse(items[0][0])
        await super().write_batch(items, consistency=consistency)
        if items[0][0] in self.losing:
            raise StoreUnavailable("lost")

    async def conditional(self, items: Sequence[Item]) -> Answer[AnswerRows]:
        name = items[0][0]
        if name in self.down:
            return Unknown("down")
        answer = await super().conditional(items)
        return Unknown("lost") if name in self.losing else answer

    def _refuse(self, name: str) -> None:
        if name in self.down:
            raise StoreUnavailable("down")


INSERTS = {"schedules.insert_definition", "occupied_minutes.insert"}
EDITS = {"schedules.update", "schedules.update_any_version"}


@pytest.mark.parametrize("later", [1, 80, 200, 4 * 3_600], ids=["at-once", "past", "late", "hours"])
@pytest.mark.parametrize("settings", [{}, {"payload_bytes": 1, "horizon_days": 1}], ids=["same", "stricter"])
async def test_a_repeated_batch_creates_what_the_first_request_could_not(later: int, settings: dict[str, Any]) -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        body = {
            "items": [
                schedule(delay_seconds=10, callback=callback(body="hello")),
                schedule(due="2020-01-01T00:00:00Z"),
                schedule(due=format_instant(NOW + 15_000)),
                schedule(delay_seconds=10 * 86_400),
            ]
        }
        connection.down = INSERTS
        assert (await post(api, key, ":batch", json=body)).status == 503
        assert (len(keys(api)), calls(api)) == (1, [])
        connection.down = set()
        api.clock.advance(later)
        await api.register("shop", quota=2, settings=settings)
        again = await post(api, key, ":batch", json=body)
        assert replayed(again)
        assert [item["status"] for item in again.json["items"]] == [201, 422, 201, 201]
        first, third, fourth = (item["schedule"] for item in again.json["items"] if "schedule" in item)
        assert [one["due"] for one in (first, third, fourth)] == [
            format_instant(NOW + ms) for ms in (10_000, 15_000, 10 * 86_400_000)
        ]
        assert {one["created_at"] for one in (first, third, fourth)} == {format_instant(NOW)}
        assert first["callback"]["body"] == "hello"
        late = later > 62
        assert {row["state"] for row in calls(api)[:2]} == ({"retrying"} if late else {None})
        retry_rows = [row for row in api.connection.rows("schedules") if row["kind"] == "copy"]
        assert [row["due"] for row in retry_rows] == ([NOW + later * 1000] * 2 if late else [])
        once_more = await post(api, key, ":batch", json=body)
        ids = [
            [item.get("schedule", {}).get("schedule_id") for item in one.json["items"]] for one in (again, once_more)
        ]
        assert ids[0] == ids[1]
        assert len(calls(api)) == 3


async def test_a_refused_item_stays_refused_after_a_change_of_settings(api: ApiHarness, key: str) -> None:
    await api.register("shop", settings={"horizon_days": 1})
    body = {"items": [schedule(), schedule(delay_seconds=2 * 86_400)]}
    first = await post(api, key, ":batch", json=body)
    again = await post(api, key, ":batch", json=body)
    assert again.json["items"][1]["problem"]["errors"] == first.json["items"][1]["problem"]["errors"]
    await api.register("shop", settings={})
    changed = await post(api, key, ":batch", json=body)
    assert [item["status"] for item in changed.json["items"]] == [201, 422]
    assert "another" in changed.json["items"][1]["problem"]["errors"][0]["detail"]
    assert len(calls(api)) == 1


async def test_a_repeat_of_dues_that_are_old_by_now(api: ApiHarness, key: str) -> None:
    one = schedule(due=format_instant(NOW))
    first, batch = await post(api, key, json=one), await post(api, key, ":batch", under="b", json={"items": [one]})
    api.clock.advance(3_600)
    again = await post(api, key, json=one)
    assert (again.status, again.json["schedule_id"]) == (200, first.json["schedule_id"])
    again = await post(api, key, ":batch", under="b", json={"items": [one]})
    assert replayed(again)
    same = [reply.json["items"][0]["schedule"]["schedule_id"] for reply in (again, batch)]
    assert same[0] == same[1]
    assert (await api.send("POST", SCHEDULES, key=key, json=one)).status == 422


@pytest.mark.parametrize("path", ["", ":batch"])
async def test_many_at_once_are_one(api: ApiHarness, key: str, path: str) -> None:
    body = {"items": [schedule(), schedule()]} if path else schedule()
    replies = await asyncio.gather(*(post(api, key, path, json=body) for _ in range(8)))
    assert sorted(replayed(reply) for reply in replies) == [False] + [True] * 7
    assert len({str(reply.json).partition("created_at")[0] for reply in replies}) == 1
    assert len(calls(api)) == (2 if path else 1)


@pytest.mark.parametrize("statement", [KEEP, "schedules.insert_definition"])
async def test_an_answer_that_is_lost_is_made_good(statement: str) -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        connection.losing = {statement}
        reply = await post(api, key, json=schedule())
        assert reply.status == (201 if statement == KEEP else 503)
        connection.losing = set()
        again = await post(api, key, json=schedule())
        assert (again.status, replayed(again), len(calls(api))) == (200, True, 1)


async def test_unavailable_storage_is_503_without_details() -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        connection.down = {KEEP}
        assert (await post(api, key, json=schedule())).status == 503
        connection.down = {KEEP, "idempotency_keys.read"}
        assert (await post(api, key, json=schedule())).status == 503
        assert (keys(api), calls(api)) == ([], [])
        connection.down = set()
        assert (await post(api, key, json=schedule())).status == 201


async def test_a_row_that_its_retention_may_have_taken_is_not_made_again(api: ApiHarness, key: str) -> None:
    await api.register("shop", settings={"retention_days": 1})
    body = schedule(delay_seconds=0)
    one = ScheduleId(UUID((await post(api, key, json=body)).json["schedule_id"]))
    api.connection.tables["schedules"].partitions.clear()
    api.clock.advance(23 * 3_600 + 90)
    reply = await post(api, key, json=body)
    assert (reply.status, calls(api)) == (503, [])
    assert await row_of(api, one) is None


async def test_redelivered_once(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await ended(api, one, State.DELIVERED)
    first = await post(api, key, f"/{one}:redeliver")
    assert (first.status, first.json["state"]) == (202, "retrying")
    api.clock.advance(2)
    again = await post(api, key, f"/{one}:redeliver", json={})
    assert (again.status, replayed(again), again.json) == (200, True, first.json)
    await ended(api, one, State.FAILED)
    api.clock.advance(60)
    over = await post(api, key, f"/{one}:redeliver")
    assert (over.status, replayed(over), over.json["state"]) == (200, True, "failed")
    renewed = await post(api, key, f"/{one}:redeliver", under="another")
    assert (renewed.status, renewed.json["state"]) == (202, "retrying")


async def test_a_repeat_completes_a_redelivery_that_stopped_before_its_pointer() -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        one = await created(api, key, delay_seconds=1)
        # The process that redelivered before had a clock that was ahead: its redelivery is not mistaken for ours.
        before = UnixMillis(NOW + 5_000)
        await ended(api, one, State.FAILED, redelivered_at=before, redelivered_after=1)
        connection.down = EDITS
        assert (await post(api, key, f"/{one}:redeliver")).status == 503
        assert len(keys(api)) == 1
        connection.down = set()
        again = await post(api, key, f"/{one}:redeliver")
        assert (again.status, replayed(again), again.json["state"]) == (200, True, "retrying")
        assert again.json["redelivered_at"] == format_instant(before + 2)


async def test_rescheduled_once(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    body = {"delay_seconds": 300, "callback": callback(url="https://other.example/")}
    first = await post(api, key, f"/{one}:reschedule", json=body)
    assert (first.status, first.json["due"]) == (201, format_instant(NOW + 300_000))
    api.clock.advance(600)
    again = await post(api, key, f"/{one}:reschedule", json=body)
    assert (again.status, replayed(again), again.json) == (200, True, first.json)
    other = await post(api, key, f"/{one}:reschedule", json={"delay_seconds": 301})
    assert (other.status, other.json["type"]) == (422, "/problems/idempotency-key-reused")


class Overtaken(InMemoryConnection):
    """`meanwhile` acts once, after a key was read and before the read is answered."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def select(self, name: str, *args: Any, **arguments: Any) -> list[tuple[Any, ...]]:
        rows = await super().select(name, *args, **arguments)
        if name == "idempotency_keys.read" and self.meanwhile is not None:
            act, self.meanwhile = self.meanwhile, None
            await act()
        return rows


@pytest.mark.parametrize("verb", ["redeliver", "reschedule"])
async def test_a_repeat_that_its_first_request_overtakes_is_the_same_request(verb: str) -> None:
    connection = Overtaken()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        one = await created(api, key, delay_seconds=3_600)
        if verb == "redeliver":
            await ended(api, one, State.FAILED)
        body = {"delay_seconds": 300} if verb == "reschedule" else {}
        firsts: list[Reply] = []

        async def first() -> None:
            firsts.append(await post(api, key, f"/{one}:{verb}", json=body))

        connection.meanwhile = first
        again = await post(api, key, f"/{one}:{verb}", json=body)
        assert (firsts[0].status, replayed(firsts[0])) == (202 if verb == "redeliver" else 201, False)
        assert (again.status, replayed(again)) == (200, True)
        assert again.json["schedule_id"] == firsts[0].json["schedule_id"]
        other = await post(api, key, f"/{one}:{verb}", json=body, under="another")
        assert replayed(other) is False


@pytest.mark.parametrize("fails", ["the-cancel", "the-insert"])
async def test_a_reschedule_that_died_goes_on_with_the_instant_it_had_chosen(fails: str) -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        one = await created(api, key, delay_seconds=3_600)
        body = {"delay_seconds": 300, "callback": callback(url="https://other.example/", body="hello")}
        connection.down = EDITS if fails == "the-cancel" else INSERTS
        assert (await post(api, key, f"/{one}:reschedule", json=body)).status == 503
        connection.down = set()
        api.clock.advance(20)
        await api.register("shop", quota=1, settings={"payload_bytes": 1})
        again = await post(api, key, f"/{one}:reschedule", json=body)
        assert (again.status, replayed(again)) == (200, True)
        assert (again.json["due"], again.json["callback"]["body"]) == (format_instant(NOW + 300_000), "hello")
        assert len([row for row in calls(api) if row["state"] is None]) == 1


async def test_a_suspended_client_repeats_nothing(api: ApiHarness, key: str) -> None:
    assert (await post(api, key, json=schedule())).status == 201
    await api.send("POST", "/v1/clients/shop:suspend")
    assert (await post(api, key, json=schedule())).status == 403
