"""Backfills over REST: which fires are made, which are left, and that a repeat makes nothing twice."""

from typing import Any

import pytest

from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.usecases import backfill_crons
from tests.support.api import NOW, ApiHarness, Reply
from tests.support.cron_calls import NIGHTLY, end, expand, made

BACKFILL = f"{NIGHTLY}:backfill"
HOURLY = {"expression": "0 * * * *", "timezone": "UTC"}


@pytest.fixture
async def key(api: ApiHarness) -> str:
    await api.add_built_in_clients()
    return await api.register("shop")


async def backfill(api: ApiHarness, key: str, start: str, end: str | None, **fields: Any) -> Reply:
    body = {"from": start, **({} if end is None else {"to": end}), **fields}
    return await api.send("POST", BACKFILL, key=key, json=body)


def shown(reply: Reply) -> list[tuple[str, int, str | None]]:
    assert reply.status == 200, reply.body
    return [(one["nominal_due"][11:16], one["status"], one["state"]) for one in reply.json["items"]]


def retry_rows(api: ApiHarness) -> list[dict[str, Any]]:
    return [row for row in api.connection.rows("schedules") if row["kind"] == "copy"]


async def test_fires_from_before_the_cron_was_made_are_made_once(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOURLY)
    dry = await backfill(api, key, "2026-11-21T05:30:00Z", "2026-11-21T09:00:00Z", dry_run=True)
    assert shown(dry) == [("06:00", 202, None), ("07:00", 202, None), ("08:00", 202, None)]
    assert retry_rows(api) == []
    first = await backfill(api, key, "2026-11-21T05:30:00Z", "2026-11-21T09:00:00Z")
    assert shown(first) == [("06:00", 202, "retrying"), ("07:00", 202, "retrying"), ("08:00", 202, "retrying")]
    assert [one["due"] for one in first.json["items"]] == [one["due"] for one in dry.json["items"]]
    assert [one["schedule_id"] for one in first.json["items"]] == [one["schedule_id"] for one in dry.json["items"]]
    rows = retry_rows(api)
    assert len(rows) == 3
    assert sorted(int(row["due"]) - NOW for row in rows) == [121, 241, 361], "they are paced"
    again = await backfill(api, key, "2026-11-21T05:30:00Z", "2026-11-21T09:00:00Z")
    assert shown(again) == [("06:00", 409, "retrying"), ("07:00", 409, "retrying"), ("08:00", 409, "retrying")]
    assert len(retry_rows(api)) == 3
    runs = await api.send(
        "GET", f"{NIGHTLY}/runs", key=key, params={"from": "2026-11-21T05:30:00Z", "to": "2026-11-21T09:00:00Z"}
    )
    assert [one["schedule_id"] for one in runs.json["items"]] == [one["schedule_id"] for one in first.json["items"]]


async def test_fires_that_were_made_or_cancelled_are_left_and_skipped_ones_are_made(api: ApiHarness, key: str) -> None:
    await made(api, key, expression="*/2 * * * *", timezone="UTC")
    await expand(api)
    runs = (await api.send("GET", f"{NIGHTLY}/runs", key=key)).json["items"]
    ids = {one["nominal_due"][14:16]: one["schedule_id"] for one in runs if one["schedule_id"]}
    api.clock.advance(7 * 60)
    done = {"attempts": 1, "finished_at": NOW + 400_000}
    await end(api, ids["32"], Outcome(state=State.DELIVERED, last_status=200, **done))
    skipped = Outcome(state=State.SKIPPED, attempts=0, finished_at=NOW + 400_000, reason="overlap")
    await end(api, ids["34"], skipped)
    await api.send("DELETE", f"/v1/clients/shop/schedules/{ids['36']}", key=key)
    reply = await backfill(api, key, "2026-11-21T09:30:00Z", None)
    assert shown(reply) == [
        ("09:30", 202, "retrying"),
        ("09:32", 409, "delivered"),
        ("09:34", 202, "retrying"),
        ("09:36", 409, "cancelled"),
    ]
    assert reply.json["items"][2]["schedule_id"] == ids["34"]
    assert [one["reason"] for one in reply.json["items"]] == [None, None, None, None]


async def test_fires_of_a_pause_are_made_and_those_that_an_expansion_will_place_are_not(
    api: ApiHarness, key: str
) -> None:
    await made(api, key, expression="*/2 * * * *", timezone="UTC")
    await expand(api)
    await api.send("POST", f"{NIGHTLY}:pause", key=key)
    await expand(api)
    api.clock.advance(7 * 60)
    expected = [("09:32", 202), ("09:34", 202), ("09:36", 202)]
    paused = await backfill(api, key, "2026-11-21T09:31:00Z", None, dry_run=True)
    assert [one[:2] for one in shown(paused)] == expected, "withdrawn ones are made again"
    await api.send("POST", f"{NIGHTLY}:resume", key=key)
    await expand(api)
    assert [one[:2] for one in shown(await backfill(api, key, "2026-11-21T09:31:00Z", None))] == expected
    # An active cron that nobody expands: what it will place is not backfilled.
    api.clock.advance(3600)
    late = await backfill(api, key, "2026-11-21T09:31:00Z", None, dry_run=True)
    assert shown(late)[-1][0] == "09:46"
    assert all(one["schedule_id"] for one in late.json["items"])


async def test_no_more_fires_are_made_than_the_cron_may_have(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOURLY, max_fires=1)
    await expand(api)
    api.clock.advance(6 * 3600)
    await expand(api)
    assert (await api.send("GET", NIGHTLY, key=key)).json["state"] == "finished"
    assert [one[0] for one in shown(await backfill(api, key, "2026-11-21T00:00:00Z", None))] == ["10:00"]


async def test_it_goes_page_by_page_and_the_calls_stay_apart(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill_crons.BackfillCron.__call__, "__kwdefaults__", {**_DEFAULTS, "limit": 4})
    await made(api, key, **HOURLY)
    start, end_ = "2026-11-20T00:00:00Z", "2026-11-20T10:00:00Z"
    seen, dues, cursor = [], [], None
    while True:
        fields = {} if cursor is None else {"cursor": cursor}
        reply = await backfill(api, key, start, end_, **fields)
        seen += [one[0] for one in shown(reply)]
        dues += [one["due"] for one in reply.json["items"]]
        cursor = reply.json["next_cursor"]
        if cursor is None:
            break
    assert seen == [f"{hour:02}:00" for hour in range(10)]
    assert dues == sorted(dues)
    assert len(set(dues)) == 10
    other = await backfill(api, key, "2026-11-20T09:00:00Z", end_, cursor=cursor or "x")
    assert [fault["pointer"] for fault in other.json["errors"]] == ["/cursor"]


_DEFAULTS = dict(backfill_crons.BackfillCron.__call__.__kwdefaults__ or {})


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/from"}),
        ({"from": "yesterday", "to": 7, "dry_run": "no", "all": 1}, {"/from", "/to", "/dry_run", "/all"}),
        ({"from": "2026-11-21T05:00:00Z", "to": "2026-11-21T04:00:00Z"}, {"/to"}),
        ({"from": "2026-01-01T00:00:00Z"}, {"/from"}),
    ],
)
async def test_every_fault_is_named(api: ApiHarness, key: str, body: dict[str, Any], pointers: set[str]) -> None:
    await made(api, key, **HOURLY)
    reply = await api.send("POST", BACKFILL, key=key, json=body)
    assert reply.status == 422
    assert {fault["pointer"] for fault in reply.json["errors"]} == pointers


async def test_a_cron_that_is_deleted_or_unknown_has_no_backfill(api: ApiHarness, key: str) -> None:
    assert (await backfill(api, key, "2026-11-21T05:00:00Z", None)).status == 404
    await made(api, key, **HOURLY)
    await api.send("DELETE", NIGHTLY, key=key)
    assert (await backfill(api, key, "2026-11-21T05:00:00Z", None)).status == 404


async def test_a_suspended_client_has_none(api: ApiHarness, key: str) -> None:
    await made(api, key, **HOURLY)
    await api.send("POST", "/v1/clients/shop:suspend")
    reply = await backfill(api, key, "2026-11-21T05:00:00Z", None)
    assert (reply.status, reply.json["type"]) == (403, "/problems/client-suspended")
    assert retry_rows(api) == []
