"""Updates in place over REST: a waiting schedule that does not move keeps its id."""

from typing import Any

import pytest

from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.revisions import REVISED_SINCE
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ApiHarness, Reply
from tests.support.outcomes import created, ended, record
from tests.unit.api.test_update import LATER, SCHEDULES, called, shown

FLOW = {"url": "https://shop.example/", "flow_key": "customer-7", "flow_rate": 2.0}


@pytest.fixture(autouse=True)
def known(api: ApiHarness) -> None:
    api.members.nodes_know = REVISED_SINCE


async def update(api: ApiHarness, key: str, schedule_id: object, *, headers: Any = None, **body: object) -> Reply:
    return await api.send("PATCH", f"{SCHEDULES}/{schedule_id}", key=key, json=body, headers=headers)


async def tag(api: ApiHarness, key: str, schedule_id: object) -> str:
    return (await api.send("GET", f"{SCHEDULES}/{schedule_id}", key=key)).headers["ETag"]


@pytest.mark.parametrize(
    ("change", "becomes"),
    [
        ({"label": "y"}, {"label": "y"}),
        ({"label": None}, {"label": None}),
        ({"timeout_seconds": 3}, {"timeout_seconds": 3}),
        ({"retry": {"max_attempts": 2}}, {"retry": {"max_attempts": 2}}),
    ],
)
async def test_what_is_named_changes_under_the_same_id(
    api: ApiHarness, key: str, change: dict[str, Any], becomes: dict[str, Any]
) -> None:
    one = await created(api, key, label="x", timeout_seconds=2.5, retry={"max_attempts": 9})
    before, seen = await shown(api, key, one), await tag(api, key, one)
    assert seen == f'"{one}"'
    reply = await update(api, key, one, **change)
    assert reply.status == 200, reply.body
    assert called(reply.json) == called(before) | becomes
    assert (reply.json["schedule_id"], reply.json.get("rescheduled_from")) == (str(one), None)
    assert reply.headers["Location"] == f"{SCHEDULES}/{one}"
    assert await shown(api, key, one) == reply.json
    assert (reply.headers["ETag"], await tag(api, key, one)) == (f'"{one}-1"',) * 2


async def test_updates_are_merged_one_after_the_other(api: ApiHarness, key: str) -> None:
    one = await created(api, key, callback={"url": "https://shop.example/", "headers": {"X": "1"}, "body": "a"})
    for change in ({"url": "https://shop.example/b"}, {"headers": {"Y": "2"}}, {"body": ""}):
        assert (await update(api, key, one, callback=change)).json["schedule_id"] == str(one)
    callback = (await shown(api, key, one))["callback"]
    assert callback == {"url": "https://shop.example/b", "method": "POST", "headers": {"X": "1", "Y": "2"}, "body": ""}
    assert await tag(api, key, one) == f'"{one}-3"'


async def test_lists_show_and_filter_by_what_it_is_now(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x")
    other = await created(api, key, label="x")
    assert (await update(api, key, one, label="y", callback={"url": "https://shop.example/b"})).status == 200
    view = await shown(api, key, one)
    start, end = view["due"], view["due"][:-2] + "9Z"
    for label, found in (("x", other), ("y", one)):
        listed = (await api.send("GET", f"{SCHEDULES}?from={start}&to={end}&label={label}", key=key)).json["items"]
        assert listed == [await shown(api, key, found)]


@pytest.mark.parametrize(
    "change",
    [
        {"due": LATER},
        {"delay_seconds": 9},
        {"callback": {"flow_key": "customer-8"}},
        {"callback": {"flow_key": None}},
    ],
)
async def test_one_that_moves_goes_on_under_its_successor_s_id(
    api: ApiHarness, key: str, change: dict[str, Any]
) -> None:
    one = await created(api, key, callback=FLOW)
    reply = await update(api, key, one, label="y", **change)
    assert reply.status == 200, reply.body
    assert reply.json["rescheduled_from"] == str(one)
    assert (await shown(api, key, one))["rescheduled_to"] == reply.json["schedule_id"]


async def test_limits_of_its_flow_and_its_own_instant_leave_it_where_it_is(api: ApiHarness, key: str) -> None:
    one = await created(api, key, callback=FLOW)
    due = (await shown(api, key, one))["due"]
    reply = await update(api, key, one, due=due, callback={"flow_rate": 5})
    assert (reply.json["schedule_id"], reply.json["callback"]["flow_rate"]) == (str(one), 5.0)


async def test_while_an_older_node_runs_it_goes_on_under_its_successor_s_id(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    api.members.nodes_know = REVISED_SINCE - 1
    assert (await update(api, key, one, label="y")).json["rescheduled_from"] == str(one)


async def test_a_retrying_schedule_is_updated_by_a_successor(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    retrying = Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(NOW + 3_600_000), last_status=500)
    await record(api, one, retrying)
    assert (await update(api, key, one, label="y")).json["rescheduled_from"] == str(one)


async def test_one_that_was_updated_can_be_rescheduled_with_what_it_is_now(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x")
    await update(api, key, one, label="y", callback={"url": "https://shop.example/b"})
    reply = await api.send("POST", f"{SCHEDULES}/{one}:reschedule", key=key, json={"delay_seconds": 60})
    assert (reply.status, reply.json["label"]) == (201, "y")
    assert reply.json["callback"]["url"] == "https://shop.example/b"


async def test_a_repeat_gets_the_same_answer_also_after_the_call(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x")
    first = await update(api, key, one, label="y")
    assert (await update(api, key, one, label="y")).json == first.json
    assert await tag(api, key, one) == f'"{one}-1"'
    await ended(api, one, State.DELIVERED)
    again = await update(api, key, one, label="y")
    assert (again.status, again.json["schedule_id"], again.json["state"]) == (200, str(one), "delivered")
    other = await update(api, key, one, label="z")
    assert (other.status, other.json["type"]) == (409, "/problems/already-finished")


async def test_a_repeat_under_a_key_takes_back_no_later_update(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x")
    once = {"Idempotency-Key": "mine"}
    first = await update(api, key, one, headers=once, label="y")
    assert "Idempotency-Replayed" not in first.headers
    assert (await update(api, key, one, label="z")).json["label"] == "z"
    again = await update(api, key, one, headers=once, label="y")
    assert (again.status, again.json["label"]) == (200, "z")
    # Without a key it is one more request.
    assert (await update(api, key, one, label="y")).json["label"] == "y"


async def test_it_is_refused_where_it_is_not_as_the_caller_has_seen(api: ApiHarness, key: str) -> None:
    one = await created(api, key, label="x")
    seen = {"If-Match": await tag(api, key, one)}
    assert (await update(api, key, one, headers=seen, label="y")).status == 200
    late = await update(api, key, one, headers=seen, label="z")
    assert (late.status, late.json["type"]) == (412, "/problems/precondition-failed")
    assert (await update(api, key, one, headers=seen, due=LATER)).status == 412
    now = {"If-Match": f'"other", {await tag(api, key, one)}'}
    assert (await update(api, key, one, headers=now, label="z")).json["label"] == "z"


async def test_its_owner_hears_of_a_run_at_once_and_needs_no_word_of_an_update_in_place(
    api: ApiHarness, key: str
) -> None:
    one = await created(api, key, due=format_instant(NOW + 10_000))
    hints = api.hints.hints
    assert [row.schedule_id for _, row in hints] == [one]
    hints.clear()
    assert (await update(api, key, one, label="y")).json["schedule_id"] == str(one)
    assert hints == []
    new = await api.send("POST", f"{SCHEDULES}/{one}:run", key=key)
    assert [str(row.schedule_id) for _, row in hints] == [new.json["schedule_id"]]


async def test_an_updated_schedule_stays_under_its_key(api: ApiHarness, key: str) -> None:
    path = "/v1/clients/shop/schedules/by-key/order-7"
    body = {"delay_seconds": 600, "callback": {"url": "https://shop.example/"}}
    put = await api.send("PUT", path, key=key, json=body)
    one = ScheduleId(put.json["schedule_id"])
    updated = await update(api, key, one, label="y")
    found = await api.send("GET", path, key=key)
    assert (found.json, found.headers["ETag"]) == (updated.json, updated.headers["ETag"])
    stale = await api.send("PUT", path, key=key, json=body, headers={"If-Match": put.headers["ETag"]})
    assert stale.status == 412


async def test_a_delete_by_key_may_name_the_schedule_or_its_revision(api: ApiHarness, key: str) -> None:
    path = "/v1/clients/shop/schedules/by-key/order-7"
    body = {"delay_seconds": 600, "callback": {"url": "https://shop.example/"}}
    for named, status in (("{}-1", 412), ("{}-2", 200), ("{}", 200)):
        one = ScheduleId((await api.send("PUT", path, key=key, json=body)).json["schedule_id"])
        for label in "yz":
            assert (await update(api, key, one, label=label)).status == 200
        match = {"If-Match": f'"{named.format(one)}"'}
        assert (await api.send("DELETE", path, key=key, headers=match)).status == status
