"""Work that receivers acknowledge later: how it is asked for, the signed address, and what is shown of it."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from scheduler_service.domain.acknowledgements import ACKS_SINCE, PATH, AckSettings, Address, address_token
from scheduler_service.domain.ids import ClientId, ScheduleId, UnixMillis
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.domain.targets import JudgedTarget
from tests.support.api import ApiHarness, Reply
from tests.support.outcomes import ack_token, attempted, awaiting, created, record, row_of

BASE = "https://minutehand.example"
CALLBACK = {"url": "https://receiver.example/work", "ack": {"within_seconds": 60}}


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(acknowledgements=AckSettings(base_url=BASE)) as harness:
        yield harness


async def address(api: ApiHarness, schedule_id: ScheduleId, **other: Any) -> str:
    return "/v1/acknowledgements/" + await ack_token(api, schedule_id, **other)


async def awaited(api: ApiHarness, key: str) -> ScheduleId:
    """A schedule whose receiver has answered 202."""
    schedule_id = await created(api, key, callback=CALLBACK)
    await attempted(api, schedule_id, 1, status=202)
    await awaiting(api, schedule_id)
    return schedule_id


async def shown(api: ApiHarness, key: str, schedule_id: ScheduleId) -> dict[str, Any]:
    reply = await api.send("GET", f"/v1/clients/shop/schedules/{schedule_id}", key=key)
    assert reply.status == 200, reply.body
    return dict(reply.json)


async def attempts(api: ApiHarness, key: str, schedule_id: ScheduleId) -> list[dict[str, Any]]:
    reply = await api.send("GET", f"/v1/clients/shop/schedules/{schedule_id}/attempts", key=key)
    return list(reply.json["items"])


async def say(api: ApiHarness, path: str, **body: Any) -> Reply:
    return await api.send("POST", path, key=None, json=body)


async def test_a_schedule_that_waits_for_its_receivers_word_is_shown_listed_and_cancelled(
    api: ApiHarness, key: str
) -> None:
    schedule_id = await awaited(api, key)
    view = await shown(api, key, schedule_id)
    assert (view["state"], view["reason"], view["last_status"]) == ("awaiting", "awaiting", 202)
    assert view["callback"]["ack"] == {"within_seconds": 60}
    for state, found in (("awaiting", 1), ("retrying", 0)):
        reply = await api.send("GET", "/v1/clients/shop/schedules", key=key, params={"state": state})
        assert len(reply.json["items"]) == found, reply.body
    [attempt] = await attempts(api, key, schedule_id)
    assert (attempt["outcome"], attempt["acknowledgement"]) == ("awaiting", None)
    reply = await api.send("DELETE", f"/v1/clients/shop/schedules/{schedule_id}", key=key)
    assert reply.status == 200


async def test_nothing_is_judged_or_written_by_a_clock_that_is_in_doubt(api: ApiHarness, key: str) -> None:
    schedule_id = await awaited(api, key)
    paths = [await address(api, schedule_id), await address(api, schedule_id, expires_at=UnixMillis(1))]
    api.clock.trusted = False
    for path in paths:
        for word in ("done", "failed", "extend"):
            reply = await say(api, path, result=word)
            assert (reply.status, reply.headers["Retry-After"]) == (503, "1"), reply.body
    api.clock.trusted = True
    assert (await shown(api, key, schedule_id))["reason"] == "awaiting"
    assert [(await say(api, path, result="done")).status for path in paths] == [200, 404]


@pytest.mark.parametrize(("word", "reason"), [("done", "acknowledged"), ("failed", "receiver-failed")])
async def test_a_word_is_taken_without_a_key_and_kept(api: ApiHarness, key: str, word: str, reason: str) -> None:
    schedule_id = await awaited(api, key)
    path = await address(api, schedule_id)
    for _ in range(2):
        reply = await say(api, path, result=word, reason="as said", data={"rows": 3})
        assert (reply.status, reply.json["state"], reply.json["deadline"]) == (200, "awaiting", None), reply.body
    assert (await shown(api, key, schedule_id))["reason"] == reason
    row = await row_of(api, schedule_id)
    assert row is not None
    assert await row_of(api, schedule_id, at=row.next_attempt_at) is not None
    [attempt] = await attempts(api, key, schedule_id)
    assert attempt["acknowledgement"] | {"at": ""} == {
        "result": word, "at": "", "reason": "as said", "data": {"rows": 3}
    }  # fmt: skip
    other = "failed" if word == "done" else "done"
    assert (await say(api, path, result=other)).json["type"] == "/problems/stale-attempt"


async def test_more_time_moves_the_deadline_and_never_back(api: ApiHarness, key: str) -> None:
    schedule_id = await awaited(api, key)
    path = await address(api, schedule_id)
    deadlines = [
        (await say(api, path, result="extend", within_seconds=seconds)).json["deadline"] for seconds in (600, 5, 601)
    ]
    assert deadlines[0] == deadlines[1] < deadlines[2]
    assert (await shown(api, key, schedule_id))["next_attempt_at"] == deadlines[2]


@pytest.mark.parametrize(
    ("other", "status"),
    [
        ({"fence": 2}, 425),
        ({"attempt": 2}, 425),
        ({"fence": 0}, 409),
        ({"attempt": 0}, 409),
        ({"expires_at": UnixMillis(1)}, 404),
        ({"client_id": "other"}, 404),
    ],
)
async def test_an_address_is_of_one_attempt_under_one_fence(
    api: ApiHarness, key: str, other: dict[str, Any], status: int
) -> None:
    schedule_id = await awaited(api, key)
    assert (await say(api, await address(api, schedule_id, **other), result="done")).status == status
    assert (await shown(api, key, schedule_id))["reason"] == "awaiting"


async def test_a_changed_address_is_not_found(api: ApiHarness, key: str) -> None:
    schedule_id = await awaited(api, key)
    path = await address(api, schedule_id)
    for wrong in (
        path[:-1] + ("A" if path[-1] != "A" else "B"),
        path[:-4],
        path[:40],
        path[:40] + "é",
        path + "A" * 2000,
    ):
        assert (await say(api, wrong, result="done")).status == 404


async def test_words_are_judged(api: ApiHarness, key: str) -> None:
    path = await address(api, await awaited(api, key))
    assert (await say(api, path, result="perhaps")).status == 422
    assert (await say(api, path, result="done", data="x" * 65_536)).status == 422
    assert (await say(api, path, result="done", within_seconds=5)).status == 422
    assert (await say(api, path, result="done", data="x" * 65_000)).status == 200


async def test_an_ended_schedule_takes_no_word(api: ApiHarness, key: str) -> None:
    schedule_id = await created(api, key, callback=CALLBACK)
    await record(api, schedule_id, Outcome(state=State.DELIVERED, attempts=1, last_status=200, fired_epoch=1))
    assert (await say(api, await address(api, schedule_id), result="done")).status == 409


async def test_acks_are_refused_where_they_are_not_offered(key: str, api: ApiHarness) -> None:
    body = {"callback": CALLBACK, "delay_seconds": 60}
    long = msgspec.json.decode(msgspec.json.encode(body))
    long["callback"]["ack"]["within_seconds"] = 604_801
    assert (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=long)).status == 422
    async with ApiHarness() as plain:
        other = await plain.register("shop")
        reply = await plain.send("POST", "/v1/clients/shop/schedules", key=other, json=body)
        assert reply.status == 422


async def test_acks_are_refused_while_older_nodes_run(api: ApiHarness, key: str) -> None:
    await api.add_built_in_clients()
    body = {"callback": CALLBACK, "delay_seconds": 60}
    cron = {"expression": "*/5 * * * *", "timezone": "UTC", "callback": CALLBACK}
    plain = {"callback": {"url": CALLBACK["url"]}, "delay_seconds": 60}
    for known, status, batch in ((ACKS_SINCE - 1, 409, 409), (ACKS_SINCE, 201, 200)):
        api.members.nodes_know = known
        asked = (
            await api.send("POST", "/v1/clients/shop/schedules", key=key, json=body),
            await api.send("PUT", f"/v1/clients/shop/schedules/by-key/k-{known}", key=key, json=body),
            await api.send("POST", "/v1/clients/shop/schedules:batch", key=key, json={"items": [plain, body]}),
            await api.send("PUT", "/v1/clients/shop/crons/work", key=key, json=cron),
        )
        assert [reply.status for reply in asked] == [status, status, batch, status], [reply.body for reply in asked]
        if known < ACKS_SINCE:
            assert {reply.json["type"] for reply in asked} == {"/problems/older-nodes"}
        assert (await api.send("POST", "/v1/clients/shop/schedules", key=key, json=plain)).status == 201


class Boxes:
    """A kind whose targets say nothing."""

    def judge(self, document: Mapping[str, Any], *, client_id: ClientId) -> JudgedTarget:
        return JudgedTarget("box://a")


async def test_only_receivers_that_answer_by_http_may_acknowledge() -> None:
    async with ApiHarness(acknowledgements=AckSettings(base_url=BASE), kinds={"box": Boxes()}) as api:
        await api.add_built_in_clients()
        key = await api.register("shop")

        async def put(name: str, document: dict[str, Any]) -> None:
            reply = await api.send("PUT", f"/v1/clients/shop/destinations/{name}", json=document)
            assert reply.status in (200, 201), reply.body

        async def statuses(name: str) -> list[int]:
            callback = {"destination": name, "ack": {"within_seconds": 60}}
            body = {"callback": callback, "delay_seconds": 60}
            cron = {"expression": "*/5 * * * *", "timezone": "UTC", "callback": callback}
            asked = [
                await api.send("POST", "/v1/clients/shop/schedules", key=key, json=body),
                await api.send("PUT", "/v1/clients/shop/crons/work", key=key, json=cron),
            ]
            for reply in asked:
                if reply.status == 422:
                    assert [error["pointer"] for error in reply.json["errors"]] == ["/callback/ack"]
                    assert "HTTP" in reply.json["errors"][0]["detail"]
            return [reply.status for reply in asked]

        box, hook = {"kind": "box", "target": {}}, {"url": "https://receiver.example/hook"}
        await put("one", box)
        assert await statuses("one") == [422, 422]
        await put("one", hook)
        assert await statuses("one") == [201, 201]
        await put("one", box)
        assert await statuses("one") == [422, 422]


async def test_a_cron_hands_its_ack_to_its_runs(api: ApiHarness, key: str) -> None:
    await api.add_built_in_clients()
    cron = {"expression": "*/5 * * * *", "timezone": "UTC", "callback": CALLBACK}
    assert (await api.send("PUT", "/v1/clients/shop/crons/work", key=key, json=cron)).status == 201
    run = await api.send("POST", "/v1/clients/shop/crons/work:trigger", key=key)
    assert run.status in (200, 201, 202), run.body
    assert (await shown(api, key, run.json["schedule_id"]))["callback"]["ack"] == {"within_seconds": 60}


async def test_neither_words_nor_the_clients_requests_use_up_what_the_other_has() -> None:
    async with ApiHarness(client_budget_per_second=10, acknowledgements=AckSettings(base_url=BASE)) as api:
        key = await api.register("shop")
        first, second = await awaited(api, key), await awaited(api, key)
        path = await address(api, first)
        assert (await say(api, path, result="done")).status == 200
        flood = [(await say(api, path, result="done")).status for _ in range(40)]
        assert flood[-1] == 429
        assert (await api.send("DELETE", f"/v1/clients/shop/schedules/{second}", key=key)).status == 200
        api.clock.advance(60)
        third = await awaited(api, key)
        rule = {"expression": "* * * * *", "timezone": "UTC"}
        previews = [(await api.send("POST", "/v1/crons:preview", key=key, json=rule)).status for _ in range(40)]
        assert previews[-1] == 429
        assert (await say(api, await address(api, third), result="done")).status == 200


async def test_guessed_addresses_cost_few_reads_and_keep_no_word_out(api: ApiHarness, key: str) -> None:
    schedule_id = await awaited(api, key)
    path = await address(api, schedule_id)
    statuses = []
    for number in range(100):
        guessed = Address(ClientId(f"guess-{number}"), schedule_id, 1, 1, UnixMillis(1 << 47))
        statuses.append((await say(api, PATH + address_token(guessed, bytes(32)), result="done")).status)
    assert statuses == [404] * 40 + [429] * 60
    api.clock.advance(1)
    for _ in range(50):
        assert (await say(api, path, result="done")).status == 200
