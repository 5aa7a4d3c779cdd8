"""The local time that a due was asked for as is stored with the row, and stays as long as it is what was asked for."""

from typing import Any
from uuid import UUID

import pytest

from scheduler_service.domain.ids import ScheduleId, key_of, partition_of
from scheduler_service.domain.options import LocalDue, decode_options
from scheduler_service.domain.retry_rows import local_due_of
from scheduler_service.domain.revisions import REVISED_SINCE
from tests.support.api import ApiHarness
from tests.support.outcomes import SHOP, created

SCHEDULES = "/v1/clients/shop/schedules"
BERLIN = {"local": "2027-01-15T09:30", "timezone": "Europe/Berlin"}
INSTANT = "2027-01-15T08:30:00.000Z"
STORED = LocalDue("2027-01-15T09:30", "Europe/Berlin")
OTHER = {"local": "2027-01-16T09:30", "timezone": "Europe/Rome", "gap": "skip", "fold": "second"}
STORED_OTHER = LocalDue("2027-01-16T09:30", "Europe/Rome", "skip", "second")


async def options(api: ApiHarness, schedule_id: str | ScheduleId) -> str:
    name = ScheduleId(UUID(str(schedule_id)))
    rows = await api.storage.schedules.find_rows(partition_of(SHOP, name), [key_of(name)])
    return rows[key_of(name)].options or ""


async def stored(api: ApiHarness, schedule_id: str | ScheduleId) -> LocalDue | None:
    return local_due_of(await options(api, schedule_id))


@pytest.mark.parametrize(
    ("due", "expected"),
    [(BERLIN, STORED), (OTHER, STORED_OTHER), (INSTANT, None)],
    ids=["plain", "all", "instant"],
)
async def test_it_is_stored_as_it_was_asked_for(api: ApiHarness, key: str, due: Any, expected: LocalDue | None) -> None:
    one = await created(api, key, due=due)
    assert await stored(api, one) == expected
    beside = await created(api, key, due=due, timeout_seconds=7, window_seconds=60)
    assert decode_options(await options(api, beside)).timeout_seconds == 7
    assert await stored(api, beside) == expected


async def test_a_plain_create_stores_nothing_more(api: ApiHarness, key: str) -> None:
    assert await options(api, await created(api, key)) == "{}"
    one = await options(api, await created(api, key, due=BERLIN))
    assert one == '{"local_due":{"local":"2027-01-15T09:30","timezone":"Europe/Berlin"}}'


@pytest.mark.parametrize(
    ("due", "expected"),
    [({"due": OTHER}, STORED_OTHER), ({"due": "2027-02-01T00:00:00Z"}, None), ({"delay_seconds": 99}, None)],
)
@pytest.mark.parametrize("verb", ["reschedule", "update"])
async def test_rescheduled_it_is_due_as_was_asked_for_last(
    api: ApiHarness, key: str, verb: str, due: dict[str, Any], expected: LocalDue | None
) -> None:
    one = await created(api, key, due=BERLIN)
    if verb == "update":
        reply = await api.send("PATCH", f"{SCHEDULES}/{one}", key=key, json=due)
    else:
        reply = await api.send("POST", f"{SCHEDULES}/{one}:reschedule", key=key, json=due)
    assert reply.status in (200, 201), reply.body
    assert reply.json["schedule_id"] != str(one)
    assert await stored(api, reply.json["schedule_id"]) == expected


async def test_moved_with_its_window_it_is_at_no_local_time(api: ApiHarness, key: str) -> None:
    await created(api, key, due=BERLIN)
    asked = {"from": "2027-01-15T00:00:00Z", "to": "2027-01-16T00:00:00Z", "shift_seconds": 60}
    reply = await api.send("POST", f"{SCHEDULES}:reschedule", key=key, json=asked)
    assert reply.status == 200, reply.body
    (only,) = reply.json["items"]
    assert await stored(api, only["rescheduled_to"]) is None


@pytest.mark.parametrize("in_place", [True, False])
async def test_another_label_leaves_it(api: ApiHarness, key: str, in_place: bool) -> None:
    api.members.nodes_know = REVISED_SINCE if in_place else REVISED_SINCE - 1
    one = await created(api, key, due=BERLIN, window_seconds=60)
    reply = await api.send("PATCH", f"{SCHEDULES}/{one}", key=key, json={"label": "x", "timeout_seconds": 3})
    assert (reply.json["schedule_id"] == str(one)) is in_place
    assert await stored(api, reply.json["schedule_id"]) == STORED
    assert reply.json["nominal_due"] == INSTANT


@pytest.mark.parametrize(("due", "expected"), [(BERLIN, STORED), (INSTANT, None)])
async def test_the_same_instant_in_other_words_is_an_update_in_place(
    api: ApiHarness, key: str, due: Any, expected: LocalDue | None
) -> None:
    api.members.nodes_know = REVISED_SINCE
    one = await created(api, key, due=BERLIN)
    reply = await api.send("PATCH", f"{SCHEDULES}/{one}", key=key, json={"due": due})
    assert reply.json["schedule_id"] == str(one)
    assert await stored(api, one) == expected
