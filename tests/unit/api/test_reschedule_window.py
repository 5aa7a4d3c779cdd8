"""Schedules of a window over REST, rescheduled together: by an offset or to one instant, each once by one request."""

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.api.http.paging import seal
from scheduler_service.api.http.route import RequestContext
from scheduler_service.api.resources.reschedule_window import RescheduleCursor
from scheduler_service.domain.ids import MAX_DUE, ScheduleId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.usecases import reschedule_window
from scheduler_service.usecases.reschedule_schedule import RescheduleSchedule
from tests.support.api import NOW, ApiHarness, Reply, callback, schedule
from tests.support.outcomes import SHOP, ended, record, row_of

SCHEDULES = "/v1/clients/shop/schedules"
MOVE = f"{SCHEDULES}:reschedule"
HOUR = 3_600_000
WINDOW = {"from": format_instant(NOW), "to": format_instant(NOW + 10 * HOUR)}


async def create(api: ApiHarness, key: str, **fields: object) -> ScheduleId:
    reply = await api.send("POST", SCHEDULES, key=key, json=schedule(**fields))
    assert reply.status == 201, reply.body
    return ScheduleId(UUID(reply.json["schedule_id"]))


async def hourly(api: ApiHarness, key: str, count: int = 4) -> list[ScheduleId]:
    """One an hour, from NOW + 1 h on."""
    return [
        await create(
            api,
            key,
            delay_seconds=3600 * (number + 1),
            label=f"l{number % 2}",
            callback=callback(url=f"https://h{number}.example/"),
        )
        for number in range(count)
    ]


async def send(api: ApiHarness, key: str, *, idempotency_key: str | None = None, **body: object) -> Reply:
    headers = None if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    reply = await api.send("POST", MOVE, key=key, json=body, headers=headers)
    assert reply.status == 200, reply.body
    return reply


async def moved(api: ApiHarness, key: str, *, idempotency_key: str | None = None, **asked: object) -> list[Any]:
    """The results of all pages."""
    reply = await send(api, key, idempotency_key=idempotency_key, **{**WINDOW, **asked})
    items = list(reply.json["items"])
    while reply.json["next_cursor"] is not None:
        reply = await send(api, key, cursor=reply.json["next_cursor"])
        items += reply.json["items"]
    return items


async def waiting(api: ApiHarness, key: str) -> list[int]:
    """The dues of all that waits, in hours from NOW on."""
    params = {"from": WINDOW["from"], "to": format_instant(NOW + 150 * HOUR), "state": "scheduled", "limit": "1000"}
    reply = await api.send("GET", SCHEDULES, key=key, params=params)
    assert reply.json["next_cursor"] is None
    return [(api_due(one) - NOW) // HOUR for one in reply.json["items"]]


def api_due(view: dict[str, Any]) -> int:
    return ScheduleId(UUID(view["schedule_id"])).int >> 80


@pytest.mark.parametrize("page", [1, 2, 3, 200])
@pytest.mark.parametrize(
    ("asked", "dues"),
    [
        ({"shift_seconds": 3600}, [2, 3, 4, 5]),
        ({"shift_seconds": 2 * 3600.0, "label": "l1"}, [1, 3, 4, 6]),
        ({"shift_seconds": 20 * 3600, "to": format_instant(NOW + 3 * HOUR)}, [3, 4, 21, 22]),
        ({"shift_seconds": -7200}, [0, 0, 1, 2]),
        ({"delay_seconds": 50 * 3600, "host": "h2.example"}, [1, 2, 4, 50]),
        ({"due": format_instant(NOW + 9 * HOUR), "state": "scheduled"}, [9, 9, 9, 9]),
    ],
)
async def test_what_matches_moves_once_although_it_stays_in_the_window(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], dues: list[int], page: int
) -> None:
    monkeypatch.setattr(reschedule_window, "MAX_RESCHEDULED", page)
    made = await hourly(api, key)
    items = await moved(api, key, **asked)
    assert await waiting(api, key) == dues
    for one in items:
        assert (one["status"], one["state"]) == (200, "cancelled")
        old = await row_of(api, ScheduleId(UUID(one["schedule_id"])))
        assert old is not None
        assert (str(old.rescheduled_to), old.schedule_id in made) == (one["rescheduled_to"], True)
    assert len({one["schedule_id"] for one in items}) == len(items)


@pytest.mark.parametrize("idempotency_key", [None, "k"])
@pytest.mark.parametrize("shift", [3600, -3600])
async def test_a_repeat_after_a_lost_answer_moves_nothing_twice(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch, shift: int, idempotency_key: str | None
) -> None:
    monkeypatch.setattr(reschedule_window, "MAX_RESCHEDULED", 2)
    for number in range(5):
        await create(api, key, delay_seconds=3600 * (number + 3))
    asked = {**WINDOW, "shift_seconds": shift}
    first = await send(api, key, idempotency_key=idempotency_key, **asked)
    lost = await send(api, key, cursor=first.json["next_cursor"])
    done = [one["rescheduled_to"] for one in (*first.json["items"], *lost.json["items"])]
    assert 3 <= len(done) <= 4
    api.clock.advance(7)
    again = await moved(api, key, idempotency_key=idempotency_key, **asked)
    assert [one["rescheduled_to"] for one in again[: len(done)]] == done, "it says what was done before"
    assert {one["status"] for one in again} == {200}
    assert await waiting(api, key) == [number + 3 + shift // 3600 for number in range(5)]
    assert len(again) == 5
    assert await moved(api, key, idempotency_key=idempotency_key, **asked) == again


async def test_the_same_request_under_another_key_is_another_one(api: ApiHarness, key: str) -> None:
    await hourly(api, key, 2)
    for number, idempotency_key in enumerate(("a", "a", "b", "b"), start=2):
        await moved(api, key, idempotency_key=idempotency_key, shift_seconds=3600)
        assert (await waiting(api, key))[0] == [None, None, 2, 2, 3, 3][number]
        api.clock.advance(1)
    reply = await api.send("POST", MOVE, key=key, json={**WINDOW, "shift_seconds": 1}, headers={"Idempotency-Key": "a"})
    assert (reply.status, reply.json["type"]) == (422, "/problems/idempotency-key-reused")


async def test_a_repeat_under_a_key_leaves_alone_what_others_moved_since(api: ApiHarness, key: str) -> None:
    await hourly(api, key, 1)
    await moved(api, key, idempotency_key="a", shift_seconds=3600)
    api.clock.advance(1)
    await moved(api, key, idempotency_key="b", shift_seconds=3600)
    api.clock.advance(1)
    replayed = await send(api, key, idempotency_key="a", **WINDOW, shift_seconds=3600)
    assert replayed.headers["Idempotency-Replayed"] == "true"
    assert await waiting(api, key) == [3]


async def test_a_process_whose_clock_is_behind_says_what_it_leaves_alone(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hourly(api, key, 1)
    (item,) = await moved(api, key, idempotency_key="a", shift_seconds=3600)
    with monkeypatch.context() as patch:
        patch.setattr(api.clock, "wall_ms", lambda: NOW - 500)
        (left,) = await moved(api, key, idempotency_key="b", shift_seconds=3600)
    assert (left["schedule_id"], left["status"], left["reason"]) == (item["rescheduled_to"], 409, "rescheduled-since")


@pytest.mark.parametrize("others", [1, 2, reschedule_window.MAX_ANCESTORS - 1])
async def test_a_repeat_without_a_key_leaves_alone_what_others_made_of_what_it_moved(
    api: ApiHarness, key: str, others: int
) -> None:
    await hourly(api, key, 1)
    (item,) = await moved(api, key, shift_seconds=3600)
    present = item["rescheduled_to"]
    for number in range(others):
        api.clock.advance(1)
        due = format_instant(NOW + (5 - number % 2) * HOUR)
        reply = await api.send("POST", f"{SCHEDULES}/{present}:reschedule", key=key, json={"due": due})
        assert reply.status == 201, reply.body
        present = reply.json["schedule_id"]
    api.clock.advance(1)
    before = await waiting(api, key)
    assert await moved(api, key, shift_seconds=3600) == [item]
    assert await waiting(api, key) == before


async def test_a_repeat_without_a_key_leaves_alone_what_was_put_under_the_key_that_it_moved(
    api: ApiHarness, key: str
) -> None:
    by_key = f"{SCHEDULES}/by-key/cart-1"
    await api.send("PUT", by_key, key=key, json=schedule(delay_seconds=3600))
    await moved(api, key, shift_seconds=3600)
    api.clock.advance(1)
    put = await api.send("PUT", by_key, key=key, json=schedule(delay_seconds=4 * 3600))
    assert put.status == 200, put.body
    api.clock.advance(1)
    await moved(api, key, shift_seconds=3600)
    found = await api.send("GET", by_key, key=key)
    assert found.json["schedule_id"] == put.json["schedule_id"]


async def test_ancestors_that_are_read_are_charged(api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await hourly(api, key)
    charged: list[int] = []
    monkeypatch.setattr(RequestContext, "has_read", lambda self, rows, size: charged.append(rows))
    await moved(api, key, shift_seconds=3600)
    assert sum(charged) == 4
    api.clock.advance(1)
    await moved(api, key, shift_seconds=3600)
    assert sum(charged) == 4 + 8 + 4


async def test_a_delay_counts_from_the_first_request_under_a_key(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reschedule_window, "MAX_RESCHEDULED", 1)
    await hourly(api, key, 2)
    asked = {**WINDOW, "delay_seconds": 50 * 3600}
    first = await send(api, key, idempotency_key="a", **asked)
    api.clock.advance(2 * 3600)
    await send(api, key, cursor=first.json["next_cursor"])
    await moved(api, key, idempotency_key="a", **asked)
    rows = [row for row in api.connection.rows("schedules") if row["state"] is None]
    assert [row["due"] for row in rows] == [NOW + 50 * HOUR] * 2


async def test_calls_are_spread_and_stay_where_a_repeat_finds_them(api: ApiHarness, key: str) -> None:
    for _ in range(60):
        await create(api, key, delay_seconds=3600)
    due = NOW + 100 * HOUR
    asked = {"due": format_instant(due), "window_seconds": 600}
    items = await moved(api, key, **asked)
    dues = [row["due"] for row in api.connection.rows("schedules") if row["state"] is None]
    assert len(dues) == 60
    assert all(due <= one < due + 600_000 for one in dues)
    assert len(Counter((one - due) // 60_000 for one in dues)) >= 7
    assert await moved(api, key, **asked) == items


async def test_what_can_not_move_says_why_and_stays(api: ApiHarness, key: str) -> None:
    flying, doubtful, done, retried, far = [await create(api, key, delay_seconds=3600 + number) for number in range(5)]
    await record(api, flying, None, in_flight=True)
    at = UnixMillis(NOW + 2 * HOUR)
    doubt = Outcome(state=State.RETRYING, attempts=0, next_attempt_at=at, reason="in-doubt")
    await record(api, doubtful, doubt)
    await record(api, retried, Outcome(state=State.RETRYING, attempts=1, next_attempt_at=at))
    await ended(api, done, State.DELIVERED)
    await record(api, far, Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(NOW + 10 * HOUR)))
    client = await api.storage.clients.read_client(SHOP)
    assert client is not None
    most = client.settings.horizon_days * 24 * HOUR
    items = await moved(api, key, shift_seconds=(most - 5 * HOUR) / 1000)
    answers = {one.pop("schedule_id"): one for one in items}
    assert str(done) not in answers, "it does not wait"
    assert answers[str(flying)] == {"status": 409, "state": "scheduled"}
    assert answers[str(doubtful)] == {"status": 409, "state": "retrying", "reason": "in-doubt"}
    assert (answers[str(far)]["status"], answers[str(far)]["state"]) == (422, None)
    assert "days ahead" in answers[str(far)]["reason"]
    new = ScheduleId(UUID(answers[str(retried)]["rescheduled_to"]))
    assert new.int >> 80 == at + most - 5 * HOUR, "from its next attempt on"
    assert await moved(api, key, shift_seconds=60, state="scheduled") == [
        {"schedule_id": str(flying), "status": 409, "state": "scheduled"}
    ]


async def test_own_keys_follow(api: ApiHarness, key: str) -> None:
    by_key = f"{SCHEDULES}/by-key/cart-1"
    put = await api.send("PUT", by_key, key=key, json=schedule(delay_seconds=3600))
    assert put.status == 201, put.body
    await create(api, key, delay_seconds=3600)
    (item,) = await moved(api, key, shift_seconds=3600, key_prefix="cart-")
    found = await api.send("GET", by_key, key=key)
    assert (found.json["schedule_id"], found.json["state"]) == (item["rescheduled_to"], "scheduled")


async def test_a_row_whose_outcome_stays_unknown_is_503_and_moves_by_a_repeat(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await hourly(api, key, 3)
    verb, lost = RescheduleSchedule.__call__, made[1]

    async def fails(self: RescheduleSchedule, client: Any, schedule_id: ScheduleId, request: Any) -> Any:
        if schedule_id == lost:
            raise StoreUnavailable("x")
        return await verb(self, client, schedule_id, request)

    with monkeypatch.context() as patch:
        patch.setattr(RescheduleSchedule, "__call__", fails)
        items = await moved(api, key, shift_seconds=5 * 3600)
        assert [(one["status"], one["state"]) for one in items] == [
            (200, "cancelled"),
            (503, None),
            (200, "cancelled"),
        ]
    assert [one["status"] for one in await moved(api, key, shift_seconds=5 * 3600)] == [200] * 3
    assert await waiting(api, key) == [6, 7, 8]


async def test_all_faults_are_named_at_once(api: ApiHarness, key: str) -> None:
    for body, faults in (
        ({}, {"/from", "/to", "/due"}),
        ({**WINDOW}, {"/due"}),
        ({**WINDOW, "shift_seconds": 1, "due": WINDOW["to"], "window_seconds": 5}, {"/due", "/window_seconds"}),
        ({**WINDOW, "due": WINDOW["to"], "delay_seconds": 5}, {"/due"}),
        ({**WINDOW, "shift_seconds": 0}, {"/shift_seconds"}),
        ({**WINDOW, "shift_seconds": 1e300}, {"/shift_seconds"}),
        ({**WINDOW, "delay_seconds": -1, "state": "failed", "host": "a:1"}, {"/state", "/host"}),
        ({**WINDOW, "shift_seconds": 1, "state": ["cancelled"]}, {"/state"}),
        ({"from": "x", "to": "y", "cursor": "z"}, {"/from", "/to", "/cursor"}),
        (
            {**WINDOW, "shift_seconds": "1", "window_seconds": 3601, "no": 1},
            {"/shift_seconds", "/window_seconds", "/no"},
        ),
    ):
        reply = await api.send("POST", MOVE, key=key, json=body)
        assert (reply.status, set(reply.faults)) == (422, faults), body


async def test_a_cursor_has_the_window_and_where_to(api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reschedule_window, "MAX_RESCHEDULED", 1)
    made = await hourly(api, key, 2)
    cursor = (await send(api, key, **WINDOW, shift_seconds=3600, label="l0")).json["next_cursor"]
    for body, faults in (
        ({"shift_seconds": 3600}, {"/shift_seconds"}),
        ({"due": WINDOW["to"]}, {"/due"}),
        ({"label": "l1"}, {"/label"}),
        ({**WINDOW, "label": "l0"}, set()),
    ):
        reply = await api.send("POST", MOVE, key=key, json={"cursor": cursor, **body})
        assert set(reply.faults if faults else ()) == faults
        assert (reply.status == 200) == (not faults)
    filters = dict.fromkeys(("state", "label", "cron_id", "destination", "host", "key_prefix"))
    known: dict[str, Any] = {
        "start": UnixMillis(NOW),
        "end": UnixMillis(NOW + HOUR),
        "due": UnixMillis(NOW),
        "schedule_id": made[0],
        **filters,
        "name": "n",
        "began_at": UnixMillis(NOW),
        "shift_ms": 1,
        "to": None,
        "window_seconds": 0,
    }
    for forged in ({"shift_ms": None}, {"to": 1}, {"shift_ms": MAX_DUE + 1}, {"name": "n" * 33}):
        sealed = seal(SHOP, RescheduleCursor(**{**known, **forged}))
        reply = await api.send("POST", MOVE, key=key, json={"cursor": sealed})
        assert (reply.status, set(reply.faults)) == (422, {"/cursor"}), forged


async def test_it_is_in_the_audit_log_only_for_administrators_and_counts_as_creates(api: ApiHarness, key: str) -> None:
    await hourly(api, key, 3)
    reply = await api.send("POST", MOVE, json={**WINDOW, "shift_seconds": 3600})
    assert reply.headers["RateLimit"].startswith('"creates";r=2994')
    (entry,) = [
        one for one in (await api.send("GET", "/v1/audit-log")).json["items"] if one["action"] == "reschedule_schedules"
    ]
    assert (entry["details"]["asked"], entry["details"]["rescheduled"]) == (3, 3)
