"""The runs of a cron over REST: past fires with their results, and future ones."""

from typing import Any
from uuid import UUID

import pytest

from scheduler_service.domain.crons.row import CronRun
from scheduler_service.domain.ids import ClientId, CronId, ScheduleId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Outcome, State
from tests.support.api import NOW, ApiHarness
from tests.support.cron_calls import NIGHTLY, end, expand, made, pages

RUNS = f"{NIGHTLY}/runs"
MINUTE = 60_000
DAY = 86_400_000
HOUR = {"expression": "*/10 * * * *", "timezone": "UTC"}


@pytest.fixture
async def key(api: ApiHarness) -> str:
    await api.add_built_in_clients()
    return await api.register("shop")


def at(minutes: float) -> str:
    return format_instant(NOW + round(minutes * MINUTE))


def span(first: float, end: float) -> dict[str, str]:
    return {"from": at(first), "to": at(end)}


async def runs(api: ApiHarness, key: str, **query: str) -> list[dict[str, Any]]:
    reply = await api.send("GET", RUNS, key=key, params=query)
    assert reply.status == 200, reply.body
    return list(reply.json["items"])


def brief(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["nominal_due"], one["state"]) for one in found]


async def test_placed_and_planned_in_one_order(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR, spread_seconds=60)
    api.clock.advance(60)
    await expand(api)
    found = await runs(api, key, **span(0, 40))
    assert brief(found) == [(at(10), "scheduled"), (at(20), "planned"), (at(30), "planned")]
    placed, planned, _ = found
    offset = planned["due"].removeprefix("2026-11-21T09:50:")
    assert offset != "00.000Z"
    assert placed["due"].endswith(offset)
    assert planned == {
        "nominal_due": at(20),
        "due": f"2026-11-21T09:50:{offset}",
        "schedule_id": None,
        "state": "planned",
        "attempts": 0,
        "last_status": None,
        "last_error": None,
        "first_attempt_at": None,
        "finished_at": None,
        "duration_seconds": None,
        "kind": "scheduled",
        "reason": None,
        "triggered": False,
    }
    schedule = await api.send("GET", f"/v1/clients/shop/schedules/{placed['schedule_id']}", key=key)
    assert (schedule.json["due"], schedule.json["cron_id"]) == (placed["due"], "nightly")


async def test_a_run_shows_its_outcome(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR)
    await expand(api)
    (placed,) = await runs(api, key, **span(0, 11))
    finished_at = UnixMillis(NOW + 11 * MINUTE)
    outcome = Outcome(
        state=State.FAILED,
        attempts=3,
        last_status=503,
        last_error="status",
        reason="exhausted",
        finished_at=finished_at,
    )
    await end(api, placed["schedule_id"], outcome)
    (found,) = await runs(api, key, **span(0, 11))
    assert found == {
        **placed,
        "state": "failed",
        "attempts": 3,
        "last_status": 503,
        "last_error": "status",
        "reason": "exhausted",
        "finished_at": at(11),
    }


async def test_missed_fires_are_runs_too(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR, catch_up_seconds=900)
    api.clock.advance(45 * 60)
    owed = await runs(api, key, **span(0, 50))
    assert {state for _, state in brief(owed)} == {"planned"}
    await expand(api)
    found = await runs(api, key, **span(0, 50))
    # Fires placed after their minute are called as retry rows are.
    assert brief(found) == [(at(10), "skipped"), (at(20), "skipped"), (at(30), "retrying"), (at(40), "retrying")]
    assert [one["reason"] for one in found] == ["missed", "missed", "late-create", "late-create"]
    assert [one["nominal_due"] for one in found] == [one["nominal_due"] for one in owed]


async def test_triggered_runs_stand_between_the_others(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR)
    await expand(api)
    await api.send("POST", f"{NIGHTLY}:trigger", key=key)
    await api.send("POST", f"{NIGHTLY}:pause", key=key)
    api.clock.advance(0.5)
    by_hand = (await api.send("POST", f"{NIGHTLY}:trigger", key=key)).json
    found = await runs(api, key, **span(-1, 11))
    assert [(one["due"], one["triggered"]) for one in found] == [
        ("2026-11-21T09:30:00.001Z", True),
        ("2026-11-21T09:30:00.500Z", True),
        (at(10), False),
    ]
    assert found[1]["schedule_id"] == by_hand["schedule_id"]


async def test_a_deleted_cron_keeps_its_history(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR)
    await expand(api)
    api.clock.advance(5 * 60)
    await api.send("DELETE", NIGHTLY, key=key)
    await expand(api)
    found = await runs(api, key, **span(0, 60))
    assert brief(found) == [(at(10), "cancelled")]
    assert found[0]["reason"] == "cron-changed"


async def test_another_rule_replaces_what_was_planned(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR)
    await expand(api)
    await made(api, key, expression="*/5 * * * *", timezone="UTC")
    await expand(api)
    assert brief(await runs(api, key, **span(0, 21))) == [
        (at(5), "scheduled"),
        (at(10), "scheduled"),
        (at(15), "planned"),
        (at(20), "planned"),
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 25, 500])
async def test_pages_hold_every_run_once(api: ApiHarness, key: str, limit: int) -> None:
    """Some placed under several revisions, some never placed, some triggered, some in the future."""
    await made(api, key, expression="* * * * *", timezone="UTC")
    await expand(api)
    await never_placed(api, minutes=3.5, revision=0)
    await never_placed(api, minutes=4.5, revision=0)
    api.clock.advance(90)
    for _ in range(2):
        await api.send("POST", f"{NIGHTLY}:trigger", key=key)
        api.clock.advance(1)
    everything = await runs(api, key, **span(-10, 25))
    by_hand = ["2026-11-21T09:31:30.001Z", "2026-11-21T09:31:31.001Z"]
    assert [one["nominal_due"] for one in everything] == sorted([*map(at, range(1, 25)), *by_hand])
    assert {one["state"] for one in everything} == {"scheduled", "planned"}
    assert await pages(api, key, RUNS, span(-10, 25), limit=limit) == everything


async def test_runs_that_were_never_placed(api: ApiHarness, key: str) -> None:
    """The process that writes the run dies before it places its schedule."""
    await made(api, key, **HOUR)
    await never_placed(api, minutes=10, revision=1)
    await never_placed(api, minutes=5, revision=0)
    await never_placed(api, minutes=6.001, revision=1)
    assert brief(await runs(api, key, **span(0, 11))) == [(at(10), "planned")]
    await api.send("DELETE", NIGHTLY, key=key)
    assert await runs(api, key, **span(0, 11)) == []


async def test_what_is_not_kept_any_more_has_expired(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR)
    await never_placed(api, minutes=-7 * 1440 - 10, revision=1)
    (found,) = await runs(api, key, **span(-8 * 1440, -7 * 1440))
    assert (found["state"], found["attempts"], found["schedule_id"] is None) == ("expired", 0, False)


async def never_placed(api: ApiHarness, *, minutes: float, revision: int) -> None:
    nominal = UnixMillis(NOW + round(minutes * MINUTE))
    schedule_id = ScheduleId(UUID(int=nominal << 80 | 0x8 << 76 | 0b10 << 62 | revision))
    await api.storage.crons.insert_runs([CronRun(ClientId("shop"), CronId("nightly"), nominal, revision, schedule_id)])


async def test_max_fires_bounds_what_is_planned(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR, max_fires=3)
    await expand(api)
    assert [one["nominal_due"] for one in await runs(api, key, **span(0, 120))] == [at(10), at(20), at(30)]
    assert await pages(api, key, RUNS, span(0, 120), limit=1) == await runs(api, key, **span(0, 120))


async def test_nothing_is_planned_for_one_that_is_paused(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR)
    await api.send("POST", f"{NIGHTLY}:pause", key=key)
    assert await runs(api, key) == []


async def test_the_usual_window_is_a_day_back_and_a_day_ahead(api: ApiHarness, key: str) -> None:
    await made(api, key, expression="0 0 * * *", timezone="UTC")
    assert [one["nominal_due"] for one in await runs(api, key)] == ["2026-11-22T00:00:00.000Z"]
    ahead = await runs(api, key, **{"from": "2027-01-01T00:00:00Z"})
    assert [one["nominal_due"] for one in ahead] == ["2027-01-01T00:00:00.000Z"]


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ({"from": "x", "to": "y", "limit": "0"}, {"/from", "/to", "/limit"}),
        ({"limit": "501"}, {"/limit"}),
        ({"cursor": "AAAA"}, {"/cursor"}),
        ({"state": "failed"}, {"/state"}),
        ({"from": "2026-11-21T00:00:00Z", "to": "2026-11-21T00:00:00Z"}, {"/to"}),
        ({"from": "2026-11-01T00:00:00Z", "to": "2026-12-02T00:00:00.001Z"}, {"/to"}),
        ({"from": "2033-11-01T00:00:00Z"}, {"/to"}),
    ],
)
async def test_what_cannot_be_listed(api: ApiHarness, key: str, query: dict[str, str], pointers: set[str]) -> None:
    await made(api, key)
    reply = await api.send("GET", RUNS, key=key, params=query)
    assert (reply.status, set(reply.faults)) == (422, pointers)


async def test_a_whole_month_can_be_listed(api: ApiHarness, key: str) -> None:
    await made(api, key)
    found = await runs(api, key, **{"from": "2026-12-01T00:00:00Z", "to": "2027-01-01T00:00:00Z"})
    assert len(found) == 31


async def test_runs_of_an_unknown_cron_are_not_found(api: ApiHarness, key: str) -> None:
    assert (await api.send("GET", RUNS, key=key)).status == 404


async def test_the_newest_come_first_in_pages_with_their_kinds_and_durations(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOUR)
    await expand(api)
    api.clock.advance(601)
    triggered = await api.send("POST", f"{NIGHTLY}:trigger", key=key)
    await expand(api)
    api.clock.advance(1_200)
    await expand(api)
    oldest = await runs(api, key, **span(0, 35))
    assert [one["kind"] for one in oldest] == ["scheduled", "triggered", "scheduled", "scheduled"]
    await end(
        api,
        oldest[0]["schedule_id"],
        Outcome(
            state=State.FAILED,
            attempts=3,
            first_attempt_at=UnixMillis(NOW + 600_010),
            finished_at=UnixMillis(NOW + 607_510),
            last_status=503,
            reason="exhausted",
        ),
    )
    await end(
        api,
        oldest[2]["schedule_id"],
        Outcome(state=State.SKIPPED, attempts=0, finished_at=UnixMillis(NOW), reason="late"),
    )
    again = await api.send("POST", f"/v1/clients/shop/schedules/{oldest[2]['schedule_id']}:redeliver", key=key)
    assert again.status == 202
    everything = await runs(api, key, order="newest", to=at(60))
    shown = [(one["nominal_due"], one["kind"], one["state"], one["duration_seconds"]) for one in everything]
    assert shown == [
        (at(40), "scheduled", "scheduled", None),
        (at(30), "scheduled", "scheduled", None),
        (at(20), "backfilled", "retrying", None),
        (triggered.json["due"], "triggered", "scheduled", None),
        (at(10), "scheduled", "failed", 7.5),
    ]
    assert everything[-1]["first_attempt_at"] == format_instant(NOW + 600_010)
    assert await pages(api, key, RUNS, {"order": "newest", "to": at(60)}, limit=2) == everything
    # The clock shows 30 minutes and a second: what is still to come is not listed unless it is asked for.
    assert await runs(api, key, order="newest") == everything[1:]
    assert await pages(api, key, RUNS, {"order": "newest"}, limit=1) == everything[1:]
    assert await runs(api, key, order="newest", **{"from": at(20)}) == everything[1:3]
    assert await runs(api, key, order="newest", **{"from": at(31)}) == everything[:1]
    assert await runs(api, key, order="newest", to=at(20)) == everything[3:]
    some = await runs(api, key, order="newest", **span(15, 35))
    assert some == everything[1:3]
    assert await pages(api, key, RUNS, {"order": "newest", **span(15, 35)}, limit=1) == some


async def test_an_order_is_one_of_two_and_a_cursor_keeps_its_own(api: ApiHarness, key: str) -> None:
    await made(api, key, expression="* * * * *", timezone="UTC")
    await expand(api)
    wrong = await api.send("GET", RUNS, key=key, params={"order": "random"})
    assert [fault["pointer"] for fault in wrong.json["errors"]] == ["/order"]
    page = await api.send("GET", RUNS, key=key, params={"order": "newest", "limit": "2", "to": at(60)})
    cursor = page.json["next_cursor"]
    other = await api.send("GET", RUNS, key=key, params={"order": "oldest", "cursor": cursor})
    assert [fault["pointer"] for fault in other.json["errors"]] == ["/order"]
    following = await runs(api, key, cursor=cursor, limit="2")
    assert following[0]["nominal_due"] < page.json["items"][-1]["nominal_due"]
