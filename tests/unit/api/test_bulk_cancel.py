"""Bulk cancels over REST."""

from typing import Any

import pytest

from cql.memory.connection import InMemoryConnection
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ApiHarness
from tests.support.outcomes import created, ended, record, row_of
from tests.unit.usecases.late_rows import Meddled

CANCEL = "/v1/clients/shop/schedules:cancel"
UNKNOWN = "01a1fe7b-0a24-8000-81b0-6435e6edef00"
EDITED = "schedules.update"


async def cancel(api: ApiHarness, key: str, **body: object) -> dict[str, Any]:
    reply = await api.send("POST", CANCEL, key=key, json=body)
    assert reply.status == 200, reply.body
    return dict(reply.json)


def item(schedule_id: object, status: int, state: str | None) -> dict[str, Any]:
    return {"schedule_id": str(schedule_id), "status": status, "state": state}


async def test_each_has_its_own_outcome_in_order(api: ApiHarness, key: str) -> None:
    waiting, flying, done, retried, again = [await created(api, key) for _ in range(5)]
    await record(api, flying, None, in_flight=True)
    await ended(api, done, State.DELIVERED)
    await record(api, retried, Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(NOW + 500_000)))
    await api.send("DELETE", f"/v1/clients/shop/schedules/{again}", key=key)
    asked = [waiting, flying, done, retried, again, UNKNOWN, "nonsense", waiting]
    found = await cancel(api, key, schedule_ids=[str(one) for one in asked])
    assert found == {
        "items": [
            item(waiting, 200, "cancelled"),
            item(flying, 409, "scheduled"),
            item(done, 409, "delivered"),
            item(retried, 200, "cancelled"),
            item(again, 200, "cancelled"),
            item(UNKNOWN, 404, None),
            item("nonsense", 404, None),
            item(waiting, 200, "cancelled"),
        ],
        "next_cursor": None,
    }
    for one, state in ((waiting, "cancelled"), (flying, None), (retried, "cancelled")):
        row = await row_of(api, one)
        assert row is not None
        assert row.state == state


async def many(api: ApiHarness, key: str, count: int, **fields: object) -> list[ScheduleId]:
    return [await created(api, key, **fields) for _ in range(count)]


async def test_those_of_one_partition_share_one_edit() -> None:
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        ids = await many(api, key, 30)
        found = await cancel(api, key, schedule_ids=[str(one) for one in ids])
        assert {one["status"] for one in found["items"]} == {200}
        assert connection.written.count(EDITED) == 1


async def test_no_content_is_read_of_those_of_one_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request may name schedules with a thousand bodies."""
    asked, select = set[str](), InMemoryConnection.select

    async def watched(self: InMemoryConnection, name: str, *args: Any, **arguments: Any) -> Any:
        asked.add(name)
        return await select(self, name, *args, **arguments)

    async with ApiHarness() as api:
        key = await api.register("shop", quota=1)
        ids = await many(api, key, 30)
        monkeypatch.setattr(InMemoryConnection, "select", watched)
        found = await cancel(api, key, schedule_ids=[str(one) for one in ids])
        assert {one["status"] for one in found["items"]} == {200}
        assert {name for name in asked if "row" in name} == {"schedules.read_lean_rows"}


async def test_an_owner_that_claims_one_of_them_has_that_one_and_no_other() -> None:
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        ids = await many(api, key, 5)

        async def claim() -> None:
            await record(api, ids[2], None, in_flight=True)

        connection.before[EDITED] = claim
        found = await cancel(api, key, schedule_ids=[str(one) for one in ids])
        assert [one["status"] for one in found["items"]] == [200, 200, 409, 200, 200]
        assert connection.written.count(EDITED) == 1


async def test_an_answer_that_is_lost_is_read() -> None:
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        ids = await many(api, key, 5)
        connection.lost, connection.refused = 1, 1
        found = await cancel(api, key, schedule_ids=[str(one) for one in ids])
        assert {one["status"] for one in found["items"]} == {200}
        connection.refused = 10_000
        (one,) = await many(api, key, 1)
        reply = await api.send("POST", CANCEL, key=key, json={"schedule_ids": [str(one)]})
        assert reply.status == 503
        reply = await api.send("POST", CANCEL, key=key, json={"schedule_ids": [str(one), str(ids[0])]})
        assert [each["status"] for each in reply.json["items"]] == [503, 200]


async def test_a_window_is_cancelled_page_by_page(api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    early = await many(api, key, 2, delay_seconds=30)
    wanted = await many(api, key, 7, delay_seconds=90, label="x")
    unlabelled = await many(api, key, 2, delay_seconds=100)
    await ended(api, wanted[0], State.DELIVERED)
    window = {"from": format_instant(NOW + 60_000), "to": format_instant(NOW + 120_000)}
    monkeypatch.setattr("scheduler_service.api.resources.schedule_verbs.MAX_LIMIT", 4)
    found = await cancel(api, key, **window, label="x")
    items = found["items"]
    while found["next_cursor"] is not None:
        found = await cancel(api, key, cursor=found["next_cursor"])
        items += found["items"]
    assert sorted(one["schedule_id"] for one in items) == sorted(map(str, wanted[1:]))
    assert {(one["status"], one["state"]) for one in items} == {(200, "cancelled")}
    for one in (*early, *unlabelled):
        row = await row_of(api, one)
        assert row is not None
        assert row.state is None


async def test_faults_are_named(api: ApiHarness, key: str) -> None:
    at = format_instant(NOW)
    for body, faults in (
        ({}, {"/from", "/to"}),
        ({"schedule_ids": []}, {"/schedule_ids"}),
        ({"schedule_ids": [UNKNOWN] * 1001}, {"/schedule_ids"}),
        ({"schedule_ids": [UNKNOWN], "from": at, "label": "x"}, {"/from", "/label"}),
        (
            {"from": at, "to": at, "state": ["failed"], "host": "a:b", "label": ["x" * 257]},
            {"/to", "/state", "/host", "/label"},
        ),
        (
            {"from": "x", "state": "failed", "key_prefix": "a b", "destination": "A", "no": 1},
            {"/from", "/to", "/state", "/key_prefix", "/destination", "/no"},
        ),
        ({"schedule_ids": [UNKNOWN], "state": "scheduled", "host": "a.example"}, {"/state", "/host"}),
        ({"cursor": "x"}, {"/cursor"}),
    ):
        reply = await api.send("POST", CANCEL, key=key, json=body)
        assert (reply.status, set(reply.faults)) == (422, faults), body


async def test_a_suspended_client_may_cancel(api: ApiHarness, key: str) -> None:
    (one,) = await many(api, key, 1)
    await api.send("POST", "/v1/clients/shop:suspend")
    assert (await cancel(api, key, schedule_ids=[str(one)]))["items"] == [item(one, 200, "cancelled")]
