"""Success deadlines over REST: who may have them, how they are shown, and which rows are placed."""

from typing import Any
from uuid import UUID

import pytest

from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.notices import EVENTS_CLIENT, DeadlineContent, decode_notice
from scheduler_service.domain.success_deadlines import DEADLINES_SINCE, LOOK_AFTER_MS
from tests.support.api import NOW, ApiHarness, callback, schedule
from tests.support.nodes import Nodes

CLIENT = "/v1/clients/shop"
SCHEDULES = f"{CLIENT}/schedules"
DUE = NOW + 60_000
CRON = {"expression": "30 2 * * *", "timezone": "UTC", "callback": callback(), "succeed_within_seconds": 900}


async def feed_on(api: ApiHarness) -> None:
    reply = await api.send("PATCH", f"{CLIENT}/settings", json={"event_feed": True})
    assert reply.status == 200, reply.body


def asked(**fields: Any) -> dict[str, Any]:
    return schedule(**{"due": format_instant(DUE), "succeed_within_seconds": 900, **fields})


def deadlines(api: ApiHarness) -> list[tuple[ScheduleId, int]]:
    """The rows of `$events`: schedule and deadline, by due."""
    found = []
    for row in api.connection.rows("schedules"):
        if row["client_id"] == EVENTS_CLIENT:
            content = decode_notice(row["body"])
            assert isinstance(content, DeadlineContent)
            found.append((content.schedule_id, int(content.by)))
    return sorted(found, key=lambda one: one[1])


@pytest.mark.parametrize(
    ("fields", "by"),
    [
        ({}, DUE + 900_000),
        ({"succeed_within_seconds": 1.5}, DUE + 1_500),
        ({"succeed_within_seconds": None, "succeed_by": format_instant(DUE + 5_001)}, DUE + 5_001),
    ],
)
async def test_a_schedule_with_a_deadline_is_watched(
    api: ApiHarness, key: str, fields: dict[str, Any], by: int
) -> None:
    await feed_on(api)
    wanted = {name: value for name, value in asked(**fields).items() if value is not None}
    made = await api.send("POST", SCHEDULES, key=key, json=wanted)
    assert made.status == 201, made.body
    assert made.json["succeed_by"] == format_instant(by)
    schedule_id = ScheduleId(UUID(made.json["schedule_id"]))
    assert deadlines(api) == [(schedule_id, by)]
    shown = await api.send("GET", f"{SCHEDULES}/{schedule_id}", key=key)
    assert shown.json["succeed_by"] == format_instant(by)
    listed = await api.send("GET", SCHEDULES, key=key)
    assert [one["schedule_id"] for one in listed.json["items"]] == [str(schedule_id)]
    story = await api.send("GET", f"{SCHEDULES}/{schedule_id}:explain", key=key)
    assert {step["step"]: step["at"] for step in story.json["steps"]}["succeed-by"] == format_instant(by)


async def test_without_one_there_is_no_further_row(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    made = await api.send("POST", SCHEDULES, key=key, json=schedule())
    assert made.json["succeed_by"] is None
    assert deadlines(api) == []


async def test_a_batch_places_the_deadlines_of_its_items(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    items = [asked(), schedule(), asked(succeed_within_seconds=60)]
    made = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": items})
    assert [item["status"] for item in made.json["items"]] == [201] * 3
    ids = [ScheduleId(UUID(item["schedule"]["schedule_id"])) for item in made.json["items"]]
    assert deadlines(api) == [(ids[2], DUE + 60_000), (ids[0], DUE + 900_000)]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"succeed_within_seconds": 0.5}, "/succeed_within_seconds"),
        ({"succeed_within_seconds": 30 * 86_400 + 1}, "/succeed_within_seconds"),
        ({"succeed_by": format_instant(DUE + 5_000)}, "/succeed_by"),
        ({"succeed_within_seconds": None, "succeed_by": format_instant(DUE)}, "/succeed_by"),
        ({"succeed_within_seconds": None, "succeed_by": format_instant(DUE + 31 * 86_400_000)}, "/succeed_by"),
        ({"succeed_within_seconds": None, "succeed_by": "tomorrow"}, "/succeed_by"),
    ],
)
async def test_faults_are_named(api: ApiHarness, key: str, fields: dict[str, Any], pointer: str) -> None:
    await feed_on(api)
    wanted = {name: value for name, value in asked(**fields).items() if value is not None}
    refused = await api.send("POST", SCHEDULES, key=key, json=wanted)
    assert refused.status == 422, refused.body
    assert [fault["pointer"] for fault in refused.json["errors"]] == [pointer]


async def test_none_is_further_away_than_a_failed_schedule_is_kept(api: ApiHarness, key: str) -> None:
    settings = {"event_feed": True, "retention_days": 1}
    kept = await api.send("PUT", CLIENT, json={"poller_quota": 1, "settings": settings})
    assert kept.status == 200, kept.body
    beyond = 23 * 3_600 + 1
    one = (await api.send("POST", SCHEDULES, key=key, json=asked(succeed_within_seconds=beyond - 1))).json
    by_instant = {**schedule(due=format_instant(DUE)), "succeed_by": format_instant(DUE + beyond * 1000)}
    for method, path, body, pointer in (
        ("POST", SCHEDULES, asked(succeed_within_seconds=beyond), "/succeed_within_seconds"),
        ("POST", SCHEDULES, by_instant, "/succeed_by"),
        ("PATCH", f"{SCHEDULES}/{one['schedule_id']}", {"succeed_within_seconds": beyond}, "/succeed_within_seconds"),
        ("PUT", f"{CLIENT}/crons/nightly", {**CRON, "succeed_within_seconds": beyond}, "/succeed_within_seconds"),
    ):
        refused = await api.send(method, path, key=key, json=body)
        assert refused.status == 422, (path, refused.body)
        assert [fault["pointer"] for fault in refused.json["errors"]] == [pointer]
        assert "retention_days" in refused.json["errors"][0]["detail"]


async def test_a_client_without_a_feed_is_told_what_to_do(api: ApiHarness, key: str) -> None:
    for method, path, body in (("POST", SCHEDULES, asked()), ("PUT", f"{CLIENT}/crons/nightly", CRON)):
        refused = await api.send(method, path, key=key, json=body)
        assert refused.status == 422, refused.body
        assert [fault["pointer"] for fault in refused.json["errors"]] == ["/succeed_within_seconds"]
        assert "event_feed" in refused.json["errors"][0]["detail"]


async def test_none_is_taken_while_nodes_run_that_would_not_look(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    made = await api.send("POST", SCHEDULES, key=key, json=schedule())
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("older", knows=DEADLINES_SINCE - 1), seconds=3)
    one = f"{SCHEDULES}/{made.json['schedule_id']}"
    for method, path, body in (
        ("POST", SCHEDULES, asked()),
        ("POST", f"{SCHEDULES}:batch", {"items": [asked()]}),
        ("PUT", f"{SCHEDULES}/by-key/mine", asked()),
        ("PATCH", one, {"succeed_within_seconds": 60}),
        ("PUT", f"{CLIENT}/crons/nightly", CRON),
    ):
        refused = await api.send(method, path, key=key, json=body)
        assert (refused.status, refused.json["type"]) == (409, "/problems/older-nodes"), (path, refused.body)
    assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201


async def test_a_cron_shows_it_and_its_triggered_run_has_it(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    await api.add_built_in_clients()
    made = await api.send("PUT", f"{CLIENT}/crons/nightly", key=key, json=CRON)
    assert made.status == 201, made.body
    assert made.json["succeed_within_seconds"] == 900.0
    run = await api.send("POST", f"{CLIENT}/crons/nightly:trigger", key=key)
    schedule_id = ScheduleId(UUID(run.json["schedule_id"]))
    assert [one[0] for one in deadlines(api)] == [schedule_id]


async def test_an_instant_stays_where_the_due_is_moved(api: ApiHarness, key: str) -> None:
    """By the `latest` of a key, and by the order of a batch's items that were due in the past."""
    await feed_on(api)
    by = format_instant(NOW + 400_000)
    put = {"latest": format_instant(NOW + 90_000)}
    await api.send("PUT", f"{SCHEDULES}/by-key/mine", key=key, json=schedule(due=format_instant(DUE), **put))
    later = schedule(due=format_instant(NOW + 300_000), **put, succeed_by=by)
    moved = await api.send("PUT", f"{SCHEDULES}/by-key/mine", key=key, json=later)
    assert (moved.json["due"], moved.json["succeed_by"]) == (put["latest"], by), moved.body
    items = [schedule(due=format_instant(NOW - ago), succeed_by=by) for ago in (3_000, 2_000, 1_000)]
    made = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": items})
    shown = [item["schedule"] for item in made.json["items"]]
    assert [one["due"] for one in shown] == [format_instant(NOW + turn) for turn in range(3)]
    assert [one["succeed_by"] for one in shown] == [by] * 3


async def test_an_update_gives_another_deadline_or_none(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("new", knows=DEADLINES_SINCE), seconds=3)
    made = await api.send("POST", SCHEDULES, key=key, json=asked())
    one = f"{SCHEDULES}/{made.json['schedule_id']}"
    sooner = await api.send("PATCH", one, key=key, json={"succeed_within_seconds": 60})
    assert (sooner.status, sooner.json["succeed_by"]) == (200, format_instant(DUE + 60_000)), sooner.body
    schedule_id = ScheduleId(UUID(made.json["schedule_id"]))
    assert deadlines(api) == [(schedule_id, DUE + 60_000), (schedule_id, DUE + 900_000)]
    none = await api.send("PATCH", one, key=key, json={"succeed_within_seconds": None})
    assert none.json["succeed_by"] is None
    assert len(deadlines(api)) == 2


async def test_a_reschedule_takes_the_deadline_along(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    made = await api.send("POST", SCHEDULES, key=key, json=asked())
    one = f"{SCHEDULES}/{made.json['schedule_id']}"
    moved = await api.send("POST", f"{one}:reschedule", key=key, json={"due": format_instant(DUE + 3_600_000)})
    assert moved.json["succeed_by"] == format_instant(DUE + 4_500_000), moved.body
    assert deadlines(api)[-1] == (ScheduleId(UUID(moved.json["schedule_id"])), DUE + 4_500_000)


async def test_a_repeat_is_the_same(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    headers = {"Idempotency-Key": "once"}
    first = await api.send("POST", SCHEDULES, key=key, json=asked(), headers=headers)
    again = await api.send("POST", SCHEDULES, key=key, json=asked(), headers=headers)
    assert again.json == first.json
    assert len(deadlines(api)) == 1


async def test_the_row_is_due_after_the_deadline(api: ApiHarness, key: str) -> None:
    await feed_on(api)
    await api.send("POST", SCHEDULES, key=key, json=asked())
    dues = [row["due"] for row in api.connection.rows("schedules") if row["client_id"] == EVENTS_CLIENT]
    assert dues == [DUE + 900_000 + LOOK_AFTER_MS]
