"""The due of a create over REST: past instants, local times and windows."""

from typing import Any

import pytest

from scheduler_service.domain.clients import ClientSettings
from scheduler_service.domain.instants import format_instant, parse_instant
from tests.support.api import NOW, ApiHarness, callback, schedule
from tests.unit.api.test_idempotency import calls

SCHEDULES = "/v1/clients/shop/schedules"
ONCE = f"{NOW}.3.1.0123456789abcdef"
HOUR_MS = 3_600_000
WINDOW = schedule(delay_seconds=90, window_seconds=600)


def ago(milliseconds: int) -> str:
    return format_instant(NOW - milliseconds)


async def test_a_due_in_the_past_is_accepted_within_the_clients_setting(api: ApiHarness, key: str) -> None:
    await api.register("shop", settings={"accept_past_seconds": 3600})
    reply = await api.send("POST", SCHEDULES, key=key, json=schedule(due=ago(HOUR_MS)))
    assert reply.status == 201
    assert (reply.json["due"], reply.json["nominal_due"]) == (format_instant(NOW), ago(HOUR_MS))
    shown = await api.send("GET", f"{SCHEDULES}/{reply.json['schedule_id']}", key=key)
    assert shown.json == reply.json
    wrong = await api.send("POST", SCHEDULES, key=key, json=schedule(due=ago(HOUR_MS + 1)))
    assert wrong.faults["/due"] == f"is more than 3600 seconds in the past; it is {format_instant(NOW)} now"


async def test_the_setting_has_bounds(api: ApiHarness) -> None:
    settings = {"accept_past_seconds": 604_801}
    reply = await api.send("PUT", "/v1/clients/shop", json={"poller_quota": 1, "settings": settings})
    assert list(reply.faults) == ["/settings/accept_past_seconds"]
    assert ClientSettings().accept_past_seconds == 60


@pytest.mark.parametrize("once", ["", f"?once={ONCE}"], ids=["plain", "once"])
async def test_past_dues_of_a_batch_keep_their_order(api: ApiHarness, key: str, once: str) -> None:
    await api.register("shop", quota=3, settings={"accept_past_seconds": 3600})
    behind = [5, 900_000, HOUR_MS + 1, 0, 900_000, HOUR_MS]
    items = [schedule(due=ago(one)) for one in behind]
    reply = await api.send("POST", f"{SCHEDULES}:batch{once}", key=key, json={"items": [*items, schedule()]})
    made = [item.get("schedule") for item in reply.json["items"]]
    turns = [None if one is None else parse_instant(one["due"]) - NOW for one in made]
    first = 1 if once else 0
    assert turns == [first + 2, first + 1, None, first + 3, first + 1, first, 90_000]
    asked = [None if one is None else one["nominal_due"] for one in made]
    assert asked == [ago(5), ago(900_000), None, ago(0), ago(900_000), ago(HOUR_MS), None]


async def test_a_repeat_of_past_dues_makes_the_same_rows_whatever_is_accepted_by_then(
    api: ApiHarness, key: str
) -> None:
    items = [schedule(due=ago(one)) for one in (70_000, 50_000, 10_000)]
    await api.register("shop", quota=3)
    first = await api.send("POST", f"{SCHEDULES}:batch?once={ONCE}", key=key, json={"items": items})
    assert [item["status"] for item in first.json["items"]] == [422, 201, 201]
    await api.register("shop", quota=3, settings={"accept_past_seconds": 3600})
    again = await api.send("POST", f"{SCHEDULES}:batch?once={ONCE}", key=key, json={"items": items})
    assert [item["status"] for item in again.json["items"]] == [201, 201, 201]
    assert again.json["items"][1:] == first.json["items"][1:]


async def test_a_local_time_is_answered_in_utc(api: ApiHarness, key: str) -> None:
    due = {"local": "2027-03-28T02:30", "timezone": "Europe/Berlin"}
    reply = await api.send("POST", SCHEDULES, key=key, json=schedule(due=due))
    assert (reply.status, reply.json["due"]) == (201, "2027-03-28T01:00:00.000Z")
    moved = await api.send(
        "POST",
        f"{SCHEDULES}/{reply.json['schedule_id']}:reschedule",
        key=key,
        json={"due": {"local": "2027-10-31T02:30", "timezone": "Europe/Berlin", "fold": "second"}},
    )
    assert (moved.status, moved.json["due"]) == (201, "2027-10-31T01:30:00.000Z")


@pytest.mark.parametrize(
    ("due", "pointers"),
    [
        ({"local": "soon", "timezone": "Mars/Base", "gap": "close"}, ["/due/gap", "/due/local", "/due/timezone"]),
        ({"local": "2027-03-28T02:30", "timezone": "Europe/Berlin", "gap": "skip"}, ["/due/local"]),
        ({"local": "2027-03-28T02:30"}, ["/due/timezone"]),
        ({"local": "2027-03-28T09:00", "timezone": "UTC", "fold": "both"}, ["/due/fold"]),
        (5, ["/due"]),
    ],
)
async def test_faults_of_a_local_time_are_named_with_all_others(
    api: ApiHarness, key: str, due: Any, pointers: list[str]
) -> None:
    sent = schedule(due=due, window_seconds=3601, callback=callback(url="ftp://x.example"))
    reply = await api.send("POST", SCHEDULES, key=key, json=sent)
    assert reply.status == 422
    assert set(reply.faults) == {*pointers, "/window_seconds", "/callback/url"}


async def test_calls_with_a_window_are_spread_over_it(api: ApiHarness, key: str) -> None:
    reply = await api.send("POST", f"{SCHEDULES}:batch", key=key, json={"items": [WINDOW] * 60})
    made = [item["schedule"] for item in reply.json["items"]]
    offsets = [parse_instant(one["due"]) - NOW - 90_000 for one in made]
    assert all(0 <= offset < 600_000 for offset in offsets)
    for tenth in range(0, 600_000, 150_000):
        assert any(tenth <= offset < tenth + 150_000 for offset in offsets)
    assert {one["nominal_due"] for one in made} == {format_instant(NOW + 90_000)}


@pytest.mark.parametrize("path", ["", ":batch"])
@pytest.mark.parametrize(
    "sent", [{"path": f"?once={ONCE}"}, {"headers": {"Idempotency-Key": "k"}}], ids=["once", "key"]
)
async def test_a_repeat_is_due_at_the_same_point_of_its_window(
    api: ApiHarness, key: str, sent: dict[str, Any], path: str
) -> None:
    body = {"items": [WINDOW] * 5} if path else WINDOW
    headers, query = sent.get("headers", {}), sent.get("path", "")
    first = await api.send("POST", SCHEDULES + path + query, key=key, json=body, headers=headers)
    assert first.status in (200, 201)
    rows = calls(api)
    api.clock.advance(20)
    again = await api.send("POST", SCHEDULES + path + query, key=key, json=body, headers=headers)
    assert again.json == first.json
    assert calls(api) == rows


async def test_an_equal_put_with_a_window_changes_nothing(api: ApiHarness, key: str) -> None:
    body = {**schedule(due=format_instant(NOW + HOUR_MS)), "window_seconds": 600}
    replies = [await api.send("PUT", f"{SCHEDULES}/by-key/{name}", key=key, json=body) for name in "aab"]
    assert replies[0].json == replies[1].json
    assert replies[0].json["due"] != replies[2].json["due"], "each key has a point of its own"


async def test_a_window_ends_at_the_latest_instant_of_a_key(api: ApiHarness, key: str) -> None:
    body = {**WINDOW, "delay_seconds": 600, "latest": format_instant(NOW + 600_001)}
    reply = await api.send("PUT", f"{SCHEDULES}/by-key/a", key=key, json=body)
    assert (reply.json["due"], reply.json["nominal_due"]) == (
        format_instant(NOW + 600_001),
        format_instant(NOW + 600_000),
    )


async def test_what_the_latest_instant_of_a_key_brings_forward_has_no_earlier_one(api: ApiHarness, key: str) -> None:
    body = {**WINDOW, "delay_seconds": 600, "latest": format_instant(NOW + 300_000)}
    reply = await api.send("PUT", f"{SCHEDULES}/by-key/a", key=key, json=body)
    assert (reply.json["due"], reply.json["nominal_due"]) == (format_instant(NOW + 300_000), None)
