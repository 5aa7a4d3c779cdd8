"""Reschedule over REST: a cancel and a create as one call."""

from typing import Any
from uuid import UUID

import msgspec
import pytest

from scheduler_service.domain.ids import ClientId, PollerId, ScheduleId, UnixMillis, derived_schedule_id
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.retry_rows import rescheduled
from scheduler_service.domain.schedules import Outcome, Row, State
from tests.support.api import NOW, ApiHarness, Reply, callback, schedule
from tests.support.outcomes import created, ended, record, row_of
from tests.unit.usecases.late_rows import Meddled

SCHEDULES = "/v1/clients/shop/schedules"
LATER = format_instant(NOW + 7_200_000)


async def reschedule(api: ApiHarness, key: str, schedule_id: UUID, **body: object) -> Reply:
    return await api.send("POST", f"{SCHEDULES}/{schedule_id}:reschedule", key=key, json=body)


async def shown(api: ApiHarness, key: str, schedule_id: object) -> dict[str, Any]:
    return dict((await api.send("GET", f"{SCHEDULES}/{schedule_id}", key=key)).json)


async def test_the_same_call_at_another_instant(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x", ordering_key="order", timeout_seconds=2.5)
    reply = await reschedule(api, key, one, due=LATER)
    assert reply.status == 201, reply.body
    new = reply.json
    assert (new["due"], new["state"], new["rescheduled_from"]) == (LATER, "scheduled", str(one))
    assert reply.headers["Location"] == f"{SCHEDULES}/{new['schedule_id']}"
    old = await shown(api, key, one)
    assert (old["state"], old["reason"], old["rescheduled_to"]) == ("cancelled", "rescheduled", new["schedule_id"])
    for column in ("callback", "label", "ordering_key", "timeout_seconds", "poller_id"):
        assert new[column] == old[column]
    assert await shown(api, key, new["schedule_id"]) == new


async def test_another_call(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    callback = {"url": "https://other.example/", "method": "PUT", "json": {"n": 1}}
    reply = await reschedule(api, key, one, delay_seconds=300, callback=callback)
    assert (reply.json["callback"]["url"], reply.json["callback"]["body"]) == ("https://other.example/", '{"n":1}')
    assert reply.json["due"] == format_instant(NOW + 300_000)


async def test_the_same_words_again_are_the_same_schedule(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    first = await reschedule(api, key, one, delay_seconds=300)
    api.clock.advance(20)
    again = await reschedule(api, key, one, delay_seconds=300)
    assert (again.status, again.json) == (201, first.json)
    other = await reschedule(api, key, one, delay_seconds=301)
    assert (other.status, other.json["type"]) == (409, "/problems/rescheduled")
    assert other.json["rescheduled_to"] == first.json["schedule_id"]
    moved = await reschedule(api, key, UUID(first.json["schedule_id"]), due=LATER)
    assert (moved.status, moved.json["rescheduled_from"]) == (201, first.json["schedule_id"])


async def test_a_cancel_of_what_was_rescheduled_names_the_schedule_that_is_called(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    new = (await reschedule(api, key, one, due=LATER)).json["schedule_id"]
    reply = await api.send("DELETE", f"{SCHEDULES}/{one}", key=key)
    assert (reply.status, reply.json["type"], reply.json["state"]) == (409, "/problems/rescheduled", "cancelled")
    assert reply.json["rescheduled_to"] == new
    together = await api.send("POST", f"{SCHEDULES}:cancel", key=key, json={"schedule_ids": [str(one)]})
    assert together.json["items"] == [
        {"schedule_id": str(one), "status": 409, "state": "cancelled", "rescheduled_to": new}
    ]
    assert (await shown(api, key, new))["state"] == "scheduled"
    assert (await api.send("DELETE", f"{SCHEDULES}/{new}", key=key)).status == 200


async def test_a_redelivery_of_what_was_rescheduled_names_the_schedule_that_is_called(
    api: ApiHarness, key: str
) -> None:
    one = await created(api, key)
    new = (await reschedule(api, key, one, due=LATER)).json["schedule_id"]
    reply = await api.send("POST", f"{SCHEDULES}/{one}:redeliver", key=key)
    assert (reply.status, reply.json["type"], reply.json["state"]) == (409, "/problems/rescheduled", "cancelled")
    assert reply.json["rescheduled_to"] == new


async def test_a_preview_of_what_was_rescheduled_is_refused_as_its_run_is(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    new = (await reschedule(api, key, one, due=LATER)).json["schedule_id"]
    run, preview = [await api.send("POST", f"{SCHEDULES}/{one}:{verb}", key=key) for verb in ("run", "preview")]
    assert (preview.status, preview.json["type"], preview.json["rescheduled_to"]) == (409, "/problems/rescheduled", new)
    assert {**preview.json, "request_id": ""} == {**run.json, "request_id": ""}
    assert (await api.send("POST", f"{SCHEDULES}/{new}:preview", key=key)).status == 200


async def test_a_cancelled_window_has_what_was_rescheduled_into_it(api: ApiHarness, key: str) -> None:
    one, other = await created(api, key), await created(api, key)
    near = (await reschedule(api, key, one, due=format_instant(NOW + 3_700_000))).json["schedule_id"]
    far = (await reschedule(api, key, other, due=LATER)).json["schedule_id"]
    window = {"from": format_instant(NOW), "to": format_instant(NOW + 3_800_000)}
    reply = await api.send("POST", f"{SCHEDULES}:cancel", key=key, json=window)
    assert [(item["schedule_id"], item["status"]) for item in reply.json["items"]] == [(near, 200)]
    assert (await shown(api, key, far))["state"] == "scheduled"


async def test_what_may_have_been_called_is_refused_and_its_cancel_says_so(api: ApiHarness, key: str) -> None:
    one, other = await created(api, key), await created(api, key)
    at = UnixMillis(NOW + 500_000)
    for each in (one, other):
        await record(api, each, Outcome(state=State.RETRYING, attempts=0, next_attempt_at=at, reason="in-doubt"))
    reply = await reschedule(api, key, one, due=LATER)
    assert (reply.status, reply.json["type"], reply.json["state"]) == (409, "/problems/in-doubt", "retrying")
    gone = await api.send("DELETE", f"{SCHEDULES}/{one}", key=key)
    assert (gone.status, gone.json["state"], gone.json["reason"]) == (200, "cancelled", "in-doubt")
    together = await api.send("POST", f"{SCHEDULES}:cancel", key=key, json={"schedule_ids": [str(other)]})
    assert together.json["items"] == [
        {"schedule_id": str(other), "status": 200, "state": "cancelled", "reason": "in-doubt"}
    ]


async def test_a_claimed_or_ended_schedule_is_not_rescheduled(api: ApiHarness, key: str) -> None:
    flying, done, gone = [await created(api, key) for _ in range(3)]
    await record(api, flying, None, in_flight=True)
    await ended(api, done, State.DELIVERED)
    await api.send("DELETE", f"{SCHEDULES}/{gone}", key=key)
    for one, kind, state in (
        (flying, "in-flight", "scheduled"),
        (done, "already-finished", "delivered"),
        (gone, "already-finished", "cancelled"),
    ):
        reply = await reschedule(api, key, one, due=LATER)
        assert (reply.status, reply.json["type"], reply.json["state"]) == (409, f"/problems/{kind}", state)
    assert (await reschedule(api, key, UUID("01a1fe7b-0a24-8000-81b0-6435e6edef00"), due=LATER)).status == 404


async def test_a_retrying_schedule_is_cancelled_retry_row_first(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    at = NOW + 500_000
    await record(api, one, Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(at)))
    new = (await reschedule(api, key, one, due=LATER)).json
    retry_row, original = await row_of(api, one, at=at), await row_of(api, one)
    assert retry_row is not None
    assert original is not None
    for row in (retry_row, original):
        assert (row.state, str(row.rescheduled_to)) == ("cancelled", new["schedule_id"])
    assert (new["attempts"], new["state"]) == (0, "scheduled")


async def crashed(api: ApiHarness, key: str, connection: Meddled, **body: object) -> tuple[ScheduleId, str]:
    """A reschedule whose caller died before it could create the new row: the old one, and the id of the new one."""
    one = await created(api, key)

    async def die() -> None:
        raise AssertionError("dead")

    connection.before["schedules.read_rows"] = die
    assert (await reschedule(api, key, one, **body)).status == 500
    row = await row_of(api, one)
    assert row is not None
    assert row.rescheduled_to is not None
    new = await row_of(api, ScheduleId(row.rescheduled_to))
    assert new is not None
    assert new.announced
    return one, str(row.rescheduled_to)


@pytest.mark.parametrize("asks", ["again", "looks"])
async def test_a_crash_in_between_is_made_good_by_the_next_request(asks: str) -> None:
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        one, new = await crashed(api, key, connection, due=LATER)
        api.clock.advance(20)
        if asks == "again":
            assert (await reschedule(api, key, one, due=LATER)).status == 201
        else:
            assert (await shown(api, key, one))["rescheduled_to"] == new
        assert (await shown(api, key, new))["due"] == LATER


@pytest.mark.parametrize("ahead_seconds", [-3_600, 3_600])
@pytest.mark.parametrize("looks_at", ["old", "new", "cancels-old"])
async def test_a_process_whose_clock_is_in_doubt_completes_nothing(
    looks_at: str, ahead_seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would create the new row in a minute that is over, where it is never read, or delay it by its error."""
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        one, new = await crashed(api, key, connection, due=LATER)
        method, path = ("DELETE", one) if looks_at == "cancels-old" else ("GET", one if looks_at == "old" else new)
        monkeypatch.setattr(api.clock, "wall_ms", lambda: NOW + 1_000 * ahead_seconds)
        api.clock.trusted = False
        assert (await api.send(method, f"{SCHEDULES}/{path}", key=key)).status == 503
        row = await row_of(api, ScheduleId(UUID(new)))
        assert row is not None
        assert row.announced
        monkeypatch.undo()
        api.clock.trusted = True
        await api.send(method, f"{SCHEDULES}/{path}", key=key)
        found = await shown(api, key, new)
        assert (found["due"], found["state"]) == (LATER, "scheduled")


@pytest.mark.parametrize("looks_at", ["old", "new", "cancels-old"])
async def test_another_call_is_created_by_a_read_of_either(looks_at: str) -> None:
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        body = {"due": LATER, "callback": {"url": "https://other.example/"}}
        one, new = await crashed(api, key, connection, **body)
        if looks_at == "cancels-old":
            assert (await api.send("DELETE", f"{SCHEDULES}/{one}", key=key)).status == 409
        elif looks_at == "old":
            assert (await shown(api, key, one))["state"] == "cancelled"
        found = await shown(api, key, new)
        assert (found["callback"]["url"], found["rescheduled_from"]) == ("https://other.example/", str(one))
        assert (await reschedule(api, key, one, **body)).json["schedule_id"] == new


async def half_cancelled(api: ApiHarness, key: str, connection: Meddled, request: str) -> tuple[ScheduleId, Row]:
    """A request to end a retrying schedule whose server died after it cancelled the retry row, before the original.
    Returns the schedule and the retry row.
    """
    at = NOW + 500_000
    one = await created(api, key)
    await record(api, one, Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(at)))

    async def die() -> None:
        raise AssertionError("dead")

    connection.before["schedules.update_any_version"] = die
    if request == "reschedule":
        reply = await reschedule(api, key, one, due=LATER)
    else:
        reply = await api.send("DELETE", f"{SCHEDULES}/{one}", key=key)
    assert reply.status == 500
    retry_row, original = await row_of(api, one, at=at), await row_of(api, one)
    assert retry_row is not None
    assert original is not None
    assert (retry_row.state, original.state) == ("cancelled", "retrying")
    return one, retry_row


@pytest.mark.parametrize("looks_at", ["old", "new"])
async def test_a_crash_between_retry_row_and_original_is_completed_by_a_read_of_either(looks_at: str) -> None:
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        one, retry_row = await half_cancelled(api, key, connection, "reschedule")
        new = retry_row.rescheduled_to
        if looks_at == "new":
            assert (await shown(api, key, new))["due"] == LATER
            original = await row_of(api, one)
            assert original is not None
            assert (original.state, original.rescheduled_to) == ("cancelled", new)
        old = await shown(api, key, one)
        assert (old["state"], old["reason"], old["rescheduled_to"]) == ("cancelled", "rescheduled", str(new))
        assert (await shown(api, key, new))["due"] == LATER


async def test_a_cancel_that_reached_only_the_retry_row_is_completed_by_a_read() -> None:
    connection = Meddled()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=1)
        one, _ = await half_cancelled(api, key, connection, "cancel")
        assert (await shown(api, key, one))["state"] == "cancelled"


async def test_an_announced_schedule_is_not_visible(api: ApiHarness, key: str) -> None:
    """Its caller died before the cancel: it is not shown, listed or counted, and the old one is unchanged."""
    one = await created(api, key)
    row = await row_of(api, one)
    assert row is not None
    new = derived_schedule_id(due=UnixMillis(NOW + 7_200_000), poller_id=PollerId(0), name="x")
    definition = rescheduled(ClientId("shop"), msgspec.structs.replace(row, rescheduled_to=new))
    await api.storage.schedules.insert(msgspec.structs.replace(definition, created_at=None))
    assert (await api.send("GET", f"{SCHEDULES}/{new}", key=key)).status == 404
    assert (await api.send("DELETE", f"{SCHEDULES}/{new}", key=key)).status == 404
    window = f"from={format_instant(NOW)}&to={format_instant(NOW + 8_000_000)}"
    listed = await api.send("GET", f"{SCHEDULES}?{window}", key=key)
    assert [item["schedule_id"] for item in listed.json["items"]] == [str(one)]
    assert (await shown(api, key, one))["state"] == "scheduled"


async def test_faults_are_named_and_nothing_is_cancelled(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    for body, faults in (
        ({}, {"/due"}),
        ({"due": LATER, "delay_seconds": 1}, {"/due"}),
        ({"due": "x", "callback": {"url": "ftp://a/"}}, {"/due", "/callback/url"}),
        ({"due": LATER, "label": "x"}, {"/label"}),
    ):
        reply = await reschedule(api, key, one, **body)
        assert (reply.status, set(reply.faults)) == (422, faults)
    assert (await shown(api, key, one))["state"] == "scheduled"
    await api.send("POST", "/v1/clients/shop:suspend")
    assert (await reschedule(api, key, one, due=LATER)).status == 403


async def test_another_call_has_the_body_that_it_asks_for(api: ApiHarness, key: str) -> None:
    first = await api.send("POST", SCHEDULES, key=key, json=schedule(delay_seconds=600))
    shown = [first.json]
    for sent in ({"body": ""}, {}, {"json": None}):
        path = f"{SCHEDULES}/{shown[-1]['schedule_id']}:reschedule"
        reply = await api.send("POST", path, key=key, json={"delay_seconds": 600, "callback": callback(**sent)})
        assert reply.status == 201
        shown.append(reply.json)
    assert [one["callback"].get("body") for one in shown] == [None, "", None, "null"]
