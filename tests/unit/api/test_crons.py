"""Crons over REST, from create to delete."""

from typing import Any

import msgspec
import pytest

from cql.memory.connection import InMemoryConnection
from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.usecases.reading_steps import FIRST_STEP_ROWS, MAX_BYTES
from tests.support.api import ApiHarness, callback, cron
from tests.support.cron_calls import CRONS, NIGHTLY, expand, made, pages, put


@pytest.fixture
async def key(api: ApiHarness) -> str:
    """The key of the client `shop`; the client that wakes crons exists too."""
    await api.add_built_in_clients()
    return await api.register("shop")


def stored(api: ApiHarness) -> int:
    return sum(len(api.connection.rows(table)) for table in ("crons", "cron_runs", "schedules"))


async def test_put_answers_the_whole_cron(api: ApiHarness, key: str) -> None:
    reply = await put(api, key)
    assert (reply.status, reply.headers["Location"]) == (201, NIGHTLY)
    assert reply.json == {
        "cron_id": "nightly",
        "client_id": "shop",
        "state": "active",
        "revision": 1,
        "expression": "30 2 * * *",
        "dialect": "cronie",
        "also": [],
        "excluding": [],
        "calendar": None,
        "rule": "30 2 * * *",
        "timezone": "Europe/Berlin",
        "words": "at 02:30 every day",
        "next_fires": [f"2026-11-{day}T01:30:00.000Z" for day in range(22, 27)],
        "callback": {"url": "https://receiver.example/hook", "method": "POST", "headers": {}},
        "starts_at": None,
        "ends_at": None,
        "max_fires": None,
        "spread_seconds": 0,
        "catch_up_seconds": 3600.0,
        "overlap": "allow",
        "dst": {"gap": "shift", "fold": "first"},
        "retry": None,
        "timeout_seconds": None,
        "label": None,
        "ordering_key": None,
        "pause_after_failures": None,
        "on_success": None,
        "on_failure": None,
        "succeed_within_seconds": None,
        "pause": None,
        "created_at": "2026-11-21T09:30:00.000Z",
        "changed_at": "2026-11-21T09:30:00.000Z",
    }
    assert (await api.send("GET", NIGHTLY, key=key)).json == reply.json
    wake_ups = [row for row in api.connection.rows("schedules") if row["client_id"] == "$cron"]
    assert len(wake_ups) == 1


async def test_what_was_asked_for_is_shown(api: ApiHarness, key: str) -> None:
    asked = {
        "expression": "0 9 * * 1",
        "timezone": "Asia/Tokyo",
        "starts_at": "2026-12-01T00:00:00.000Z",
        "ends_at": "2026-12-20T00:00:00.000Z",
        "max_fires": 10,
        "spread_seconds": 60,
        "catch_up_seconds": 0.5,
        "overlap": "skip",
        "dst": {"gap": "skip", "fold": "both"},
        "retry": {"max_attempts": 3},
        "timeout_seconds": 2.5,
        "label": "weekly",
        "pause_after_failures": 3,
    }
    shown = await made(api, key, **asked)
    assert {name: shown[name] for name in asked} == asked
    assert shown["next_fires"] == ["2026-12-07T00:00:00.000Z", "2026-12-14T00:00:00.000Z"]


async def test_a_rule_in_another_dialect_is_shown_as_it_was_written(api: ApiHarness, key: str) -> None:
    asked = {"expression": "0 9 1,15 * MON", "dialect": "goscheduler", "timezone": "UTC"}
    shown = await made(api, key, **asked)
    assert {name: shown[name] for name in asked} == asked
    assert shown["rule"] == "0 9 1,15 * &1"
    assert shown["words"] == "at 09:00 on Monday, but only on days 1 and 15 of the month"
    assert shown["next_fires"][0] == "2027-02-01T09:00:00.000Z"
    assert (await put(api, key, **asked)).json == shown
    again = await put(api, key, expression=shown["rule"], dialect="minutehand", timezone="UTC")
    assert (again.json["revision"], again.json["dialect"], again.json["rule"]) == (2, "minutehand", shown["rule"])
    refused = await put(api, key, expression="*/0 9 L * *", dialect="goscheduler")
    (fault,) = refused.json["errors"]
    assert fault["pointer"] == "/expression"
    assert fault["detail"].startswith("minute: '*/0': a step is a number from 1 on, alone in its field")
    assert "day of month: 'L' is no number" in fault["detail"]


async def test_unions_exclusions_and_days_off(api: ApiHarness, key: str) -> None:
    asked = {
        "expression": "0 0 9 ? * MON",
        "dialect": "quartz",
        "also": ["0 0 9 L * ?"],
        "excluding": ["0 * * 30 11 ?"],
        "calendar": {"country": "DE", "subdivision": "BY", "dates": ["2026-12-28", "2026-12-07"], "on": "move-next"},
        "timezone": "UTC",
    }
    shown = await made(api, key, **asked)
    dates = ["2026-12-07", "2026-12-28"]
    assert {name: shown[name] for name in asked} == asked | {"calendar": asked["calendar"] | {"dates": dates}}
    assert shown["words"].startswith("at 09:00 on Monday; and at 09:00 on the last day of the month; moved from public")
    days = ("11-23", "12-08", "12-14", "12-21", "12-29")
    assert shown["next_fires"] == [f"2026-{day}T09:00:00.000Z" for day in days]
    assert (await put(api, key, **asked)).json == shown
    ours = {"expression": "0 9 * * 1", "also": ["0 9 L * *"], "excluding": ["* * 30 11 *"], "dialect": "minutehand"}
    again = (await put(api, key, **asked | ours)).json
    assert {name: again[name] for name in (*ours, "rule", "words")} == ours | {
        "rule": shown["rule"],
        "words": shown["words"],
    }


async def test_an_interval_counts_from_the_creation_of_its_cron(api: ApiHarness, key: str) -> None:
    asked = {"expression": "rate(90 minutes)", "dialect": "aws", "timezone": "UTC"}
    shown = await made(api, key, **asked)
    assert (shown["rule"], shown["words"]) == ("every 90 minutes", "every 90 minutes")
    fires = ["2026-11-21T11:00:00.000Z", "2026-11-21T12:30:00.000Z"]
    assert shown["next_fires"][:2] == fires
    api.clock.advance(600)
    assert (await put(api, key, **asked)).json == shown
    later = await put(api, key, **asked, label="other")
    assert (later.json["revision"], later.json["next_fires"][:2]) == (2, fires)


async def test_all_faults_of_a_rule_are_named_at_once(api: ApiHarness, key: str) -> None:
    refused = await put(
        api,
        key,
        expression="61 * * * *",
        also=["* * * * *", "0 9 L * *"],
        excluding=["x"],
        calendar={"country": "XX", "dates": ["2026-02-30"]},
        timezone="Mars/Olympus",
    )
    pointers = [fault["pointer"] for fault in refused.json["errors"]]
    assert pointers == [
        "/expression",
        "/also/1",
        "/excluding/0",
        "/calendar/country",
        "/calendar/dates",
        "/timezone",
    ]
    for wrong in ({"also": ["* * * * *"] * 10}, {"excluding": ["* * * * *"] * 11}, {"calendar": {"on": "jump"}}):
        assert (await put(api, key, **wrong)).status == 422
    assert (await put(api, key, expression="0 9 * * *", excluding=["* * * * *"])).json["errors"] == [
        {"pointer": "/expression", "detail": "does not fire within five years from now"}
    ]


@pytest.mark.parametrize("policy", ["allow", "skip", "buffer_one", "buffer_all", "cancel_other"])
async def test_every_overlap_policy_is_kept_and_in_the_runs(api: ApiHarness, key: str, policy: str) -> None:
    shown = await made(api, key, overlap=policy)
    assert shown["overlap"] == policy
    assert (await made(api, key, overlap=policy))["revision"] == 1, "a repeat changes nothing"
    run = (await api.send("POST", f"{NIGHTLY}:trigger", key=key)).json
    assert run["ordering_key"] == (None if policy == "allow" else "$cron/nightly")
    stored_options = next(row["options"] for row in api.connection.rows("crons") if row["cron_id"] == "nightly")
    assert msgspec.json.decode(stored_options).get("overlap") == (None if policy == "allow" else "skip"), (
        "programs that know two policies skip"
    )


async def test_an_ordering_key_of_ones_own_goes_without_a_policy_and_not_by_the_name_of_crons(
    api: ApiHarness, key: str
) -> None:
    shown = await made(api, key, ordering_key="till-4")
    assert (shown["ordering_key"], shown["overlap"]) == ("till-4", "allow")
    both = await put(api, key, ordering_key="till-4", overlap="buffer_one")
    assert [fault["pointer"] for fault in both.json["errors"]] == ["/overlap"]
    reserved = await put(api, key, ordering_key="$cron/nightly", overlap="skip", callback={"url": "ftp://x"})
    assert [fault["pointer"] for fault in reserved.json["errors"]] == ["/callback/url", "/ordering_key"]
    one = {"delay_seconds": 5, "callback": callback(), "ordering_key": "$cron/nightly"}
    refused = await api.send("POST", "/v1/clients/shop/schedules", key=key, json=one)
    assert [fault["pointer"] for fault in refused.json["errors"]] == ["/ordering_key"]


async def test_the_same_again_changes_nothing_and_another_rule_does(api: ApiHarness, key: str) -> None:
    first = await made(api, key)
    api.clock.advance(10)
    again = await put(api, key, expression="30 02 1-31 * *")
    assert (again.status, again.json["revision"], "Location" in again.headers) == (200, 2, False)
    api.clock.advance(10)
    same = await put(api, key, expression="30  2 1-31 * *")
    assert (same.status, same.json) == (200, again.json)
    changed = await put(api, key, expression="31 2 * * *", label="new")
    assert (changed.status, changed.json["revision"], changed.json["label"]) == (200, 3, "new")
    assert changed.json["created_at"] == first["created_at"]
    assert changed.json["changed_at"] == "2026-11-21T09:30:20.000Z"


async def test_credentials_are_masked_and_stored(api: ApiHarness, key: str) -> None:
    shown = await made(api, key, callback=callback(headers={"Authorization": "Bearer client-secret", "X-A": "1"}))
    listed = (await api.send("GET", CRONS, key=key)).json["items"]
    triggered = await api.send("POST", f"{NIGHTLY}:trigger", key=key)
    for one in (shown, *listed, triggered.json):
        assert one["callback"]["headers"] == {"Authorization": "***", "X-A": "1"}
    assert "client-secret" in str(api.connection.rows("crons")[0])


async def test_pause_and_resume(api: ApiHarness, key: str) -> None:
    await made(api, key)
    paused = await api.send("POST", f"{NIGHTLY}:pause", key=key)
    assert (paused.status, paused.json["state"], paused.json["next_fires"]) == (200, "paused", [])
    assert (await api.send("POST", f"{NIGHTLY}:pause", key=key, json={})).json == paused.json
    put_again = await put(api, key, label="other")
    assert put_again.json["state"] == "paused"
    resumed = await api.send("POST", f"{NIGHTLY}:resume", key=key)
    assert (resumed.status, resumed.json["state"], len(resumed.json["next_fires"])) == (200, "active", 5)
    assert (await api.send("POST", f"{NIGHTLY}:resume", key=key)).json == resumed.json


async def test_delete_and_what_is_left_of_it(api: ApiHarness, key: str) -> None:
    await made(api, key)
    deleted = await api.send("DELETE", NIGHTLY, key=key)
    assert (deleted.status, deleted.json["state"], deleted.json["next_fires"]) == (200, "deleted", [])
    assert (await api.send("DELETE", NIGHTLY, key=key)).json == deleted.json
    for method, path in [("GET", ""), ("POST", ":pause"), ("POST", ":resume"), ("POST", ":trigger")]:
        assert (await api.send(method, NIGHTLY + path, key=key)).status == 404, path
    assert (await api.send("GET", CRONS, key=key)).json == {"items": [], "next_cursor": None}
    renewed = await put(api, key)
    assert (renewed.status, renewed.json["revision"], renewed.json["state"]) == (201, 3, "active")


async def test_a_finished_cron_cannot_be_paused(api: ApiHarness, key: str) -> None:
    await made(api, key, expression="31 9 * * *", timezone="UTC", max_fires=1)
    await expand(api)
    api.clock.advance(120)
    await expand(api)
    finished = await api.send("GET", NIGHTLY, key=key)
    assert (finished.json["state"], finished.json["next_fires"]) == ("finished", [])
    refused = await api.send("POST", f"{NIGHTLY}:pause", key=key)
    assert refused.status == 409
    assert (refused.json["type"], refused.json["state"]) == ("/problems/cron-finished", "finished")


async def test_trigger_answers_the_schedule(api: ApiHarness, key: str) -> None:
    await made(api, key, label="l", retry={"max_attempts": 3}, timeout_seconds=1)
    triggered = await api.send("POST", f"{NIGHTLY}:trigger", key=key)
    assert triggered.status == 201
    shown = triggered.json
    assert triggered.headers["Location"] == f"/v1/clients/shop/schedules/{shown['schedule_id']}"
    assert (shown["cron_id"], shown["label"], shown["retry"]) == ("nightly", "l", {"max_attempts": 3})
    assert (await api.send("GET", triggered.headers["Location"], key=key)).json == shown


async def test_list_by_id_page_by_page(api: ApiHarness, key: str) -> None:
    for number in range(12):
        await made(api, key, f"c{number:02d}")
    for number in (0, 4, 5, 6, 11):
        await api.send("DELETE", f"{CRONS}/c{number:02d}", key=key)
    for limit in (1, 2, 3, 12, 200):
        found = await pages(api, key, CRONS, {}, limit=limit)
        assert [one["cron_id"] for one in found] == [f"c{number:02d}" for number in (1, 2, 3, 7, 8, 9, 10)]


async def test_a_page_of_long_crons_reads_no_more_than_it_may(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may be as long as a schedule, and a page has two hundred."""
    body, read, select = "x" * 60_000, list[int](), InMemoryConnection.select

    async def counted(self: InMemoryConnection, name: str, *args: Any, **arguments: Any) -> Any:
        rows = await select(self, name, *args, **arguments)
        read.append(sum(len(value) for row in rows for value in row if isinstance(value, bytes)))
        return rows

    for number in range(90):
        await made(api, key, f"c{number:02d}", callback=callback(body=body))
    monkeypatch.setattr(InMemoryConnection, "select", counted)
    listed, sizes, cursor = list[str](), list[int](), ""
    while len(sizes) < 3 and cursor is not None:
        read.clear()
        reply = await api.send("GET", CRONS, key=key, params={"limit": "200"} | ({"cursor": cursor} if cursor else {}))
        listed += [one["cron_id"] for one in reply.json["items"]]
        cursor = reply.json["next_cursor"]
        sizes.append(sum(read))
    assert listed == [f"c{number:02d}" for number in range(90)]
    assert max(sizes) < MAX_BYTES + FIRST_STEP_ROWS * len(body)
    assert len(sizes) == 2


async def test_a_cursor_is_good_for_its_own_listing_only(api: ApiHarness, key: str) -> None:
    other = await api.register("other")
    for cron_id in ("a", "b"):
        await made(api, key, cron_id)
    cursor = (await api.send("GET", CRONS, key=key, params={"limit": "1"})).json["next_cursor"]
    runs = f"{CRONS}/a/runs"
    run_cursor = (await api.send("GET", runs, key=key, params={"limit": "1", "to": "2026-12-01T00:00:00Z"})).json[
        "next_cursor"
    ]
    assert run_cursor is not None
    assert (await api.send("GET", CRONS, key=key, params={"limit": "201"})).faults.keys() == {"/limit"}
    refused = [
        (CRONS, key, run_cursor),
        (CRONS, key, cursor[:-1]),
        ("/v1/clients/other/crons", other, cursor),
        (runs, key, cursor),
        (f"{CRONS}/b/runs", key, run_cursor),
        ("/v1/clients/shop/schedules", key, cursor),
    ]
    for path, of, text in refused:
        reply = await api.send("GET", path, key=of, params={"cursor": text})
        assert (reply.status, list(reply.faults)) == (422, ["/cursor"]), path
    moved = await api.send("GET", runs, key=key, params={"cursor": run_cursor, "to": "2026-12-02T00:00:00Z"})
    assert (moved.status, list(moved.faults)) == (422, ["/to"])


async def test_a_cron_that_cannot_be_read_does_not_break_the_list(api: ApiHarness, key: str) -> None:
    for cron_id in ("a", "b", "c", "d"):
        await made(api, key, cron_id)
    await rewrite(api, "b", expression="every full moon")
    await rewrite(api, "c", timezone="Mars/Olympus")
    items = (await api.send("GET", CRONS, key=key)).json["items"]
    assert [(one["cron_id"], one["words"], len(one["next_fires"])) for one in items] == [
        ("a", "at 02:30 every day", 5),
        ("b", None, 0),
        ("c", "at 02:30 every day", 0),
        ("d", "at 02:30 every day", 5),
    ]
    assert (await api.send("GET", f"{CRONS}/b", key=key)).status == 200
    assert (await api.send("GET", f"{CRONS}/b/runs", key=key)).status == 200
    assert (await put(api, key, "b")).json["words"] == "at 02:30 every day"


async def test_a_cron_that_cannot_be_read_can_be_paused_replaced_and_deleted(api: ApiHarness, key: str) -> None:
    for change in ("pause", "put", "delete"):
        await made(api, key, change, expression="* * * * *")
        await expand(api, change)
        await rewrite(api, change, timezone="Mars/Olympus")
    assert (await api.send("POST", f"{CRONS}/pause:pause", key=key)).json["state"] == "paused"
    assert (await put(api, key, "put")).json["next_fires"] != []
    assert (await api.send("DELETE", f"{CRONS}/delete", key=key)).json["state"] == "deleted"


async def rewrite(api: ApiHarness, cron_id: str, **columns: Any) -> None:
    """Change a stored column, as a program of another version may have written it."""
    crons, shop = api.storage.crons, ClientId("shop")
    found = (await crons.read(shop, [CronId(cron_id)]))[CronId(cron_id)]
    wanted = msgspec.structs.replace(found, state=CronState.ACTIVE, **columns)
    await crons.write(wanted, expected_revision=found.revision)


@pytest.mark.parametrize("cron_id", ["Nightly", "-x", "a" * 64, "sh%20op", "%2e%2e", "n%C3%A9", "a%0a"])
async def test_an_id_that_no_cron_can_have_is_not_found(api: ApiHarness, key: str, cron_id: str) -> None:
    for method, verb in [
        ("PUT", ""),
        ("GET", ""),
        ("DELETE", ""),
        ("GET", "/runs"),
        ("POST", ":pause"),
        ("POST", ":resume"),
        ("POST", ":trigger"),
    ]:
        body = cron() if method == "PUT" else None
        assert (await api.send(method, f"{CRONS}/{cron_id}{verb}", key=key, json=body)).status == 404
    assert stored(api) == 0


@pytest.mark.parametrize(
    ("request_", "pointers"),
    [
        ({}, {"/expression", "/timezone", "/callback"}),
        (cron(foo=1, due="x"), {"/foo", "/due"}),
        (cron(expression="* * * *", timezone="Mars"), {"/expression", "/timezone"}),
        (cron(expression=5, timezone=None), {"/expression", "/timezone"}),
        (cron(expression="0 0 30 2 *"), {"/expression"}),
        (cron(starts_at=5, ends_at="soon"), {"/starts_at", "/ends_at"}),
        (cron(ends_at="2026-01-01T00:00:00Z"), {"/ends_at"}),
        (
            cron(max_fires=0, spread_seconds=0.5, catch_up_seconds=-1, overlap="queue", dst={"gap": "x", "fold": 1}),
            {"/max_fires", "/spread_seconds", "/catch_up_seconds", "/overlap", "/dst/gap", "/dst/fold"},
        ),
        (
            cron(max_fires="many", expression="x", callback={"url": "ftp://x"}),
            {"/max_fires", "/expression", "/callback/url"},
        ),
        (cron(dst=None, spread_seconds=3601), {"/dst", "/spread_seconds"}),
        (cron(dst={"gap": "x"}, expression="0 0 31 2 *"), {"/dst/gap", "/expression"}),
        (
            cron(retry={"max_attempts": 0}, timeout_seconds=0, label=""),
            {"/retry/max_attempts", "/timeout_seconds", "/label"},
        ),
        (cron(callback=callback(method="post", headers={"Host": "x"})), {"/callback/method", "/callback/headers/Host"}),
        (cron(callback="x"), {"/callback"}),
    ],
)
async def test_every_fault_is_listed_and_nothing_is_stored(
    api: ApiHarness, key: str, request_: dict[str, Any], pointers: set[str]
) -> None:
    reply = await api.send("PUT", NIGHTLY, key=key, json=request_)
    assert reply.status == 422, reply.body
    assert set(reply.faults) == pointers
    assert len(reply.json["errors"]) == len(pointers)
    assert stored(api) == 0


async def test_what_a_suspended_client_may_do(api: ApiHarness, key: str) -> None:
    await made(api, key)
    await api.send("POST", f"{NIGHTLY}:pause", key=key)
    before = stored(api)
    await api.send("POST", "/v1/clients/shop:suspend")
    for method, path, body in [
        ("PUT", NIGHTLY, cron(label="new")),
        ("PUT", NIGHTLY, {}),
        ("POST", f"{NIGHTLY}:resume", None),
        ("POST", f"{NIGHTLY}:trigger", None),
    ]:
        reply = await api.send(method, path, key=key, json=body)
        assert (reply.status, reply.json["type"]) == (403, "/problems/client-suspended"), path
    assert stored(api) == before
    for method, path in [("GET", NIGHTLY), ("GET", CRONS), ("GET", f"{NIGHTLY}/runs"), ("DELETE", NIGHTLY)]:
        assert (await api.send(method, path, key=key)).status == 200, path


async def test_minutehands_own_client_takes_no_crons(api: ApiHarness, key: str) -> None:
    reply = await api.send("PUT", "/v1/clients/$cron/crons/nightly", json=cron())
    assert (reply.status, reply.json["type"]) == (409, "/problems/built-in-client")
    assert stored(api) == 0


async def test_a_clock_in_doubt_makes_no_crons(api: ApiHarness, key: str) -> None:
    api.clock.trusted = False
    reply = await put(api, key)
    assert (reply.status, reply.json["type"]) == (503, "/problems/clock-in-doubt")
    assert "Retry-After" in reply.headers
    assert stored(api) == 0


async def test_verbs_take_no_body(api: ApiHarness, key: str) -> None:
    await made(api, key)
    for verb in ("pause", "resume", "trigger"):
        reply = await api.send("POST", f"{NIGHTLY}:{verb}", key=key, json={"now": True})
        assert (reply.status, list(reply.faults)) == (422, ["/now"])
    assert (await api.send("GET", NIGHTLY, key=key)).json["revision"] == 1


async def test_a_preview_for_any_key(api: ApiHarness, key: str) -> None:
    asked = {"expression": "@daily", "timezone": "Asia/Tokyo", "from": "2026-12-31T15:00:00Z", "count": 2}
    for of in (key, api.settings.admin_key):
        reply = await api.send("POST", "/v1/crons:preview", key=of, json=asked)
        assert (reply.status, reply.json) == (
            200,
            {
                "expression": "0 0 * * *",
                "dialect": "cronie",
                "also": [],
                "excluding": [],
                "calendar": None,
                "rule": "0 0 * * *",
                "timezone": "Asia/Tokyo",
                "words": "at 00:00 every day",
                "next_fires": ["2026-12-31T15:00:00.000Z", "2027-01-01T15:00:00.000Z"],
            },
        )
    assert stored(api) == 0


@pytest.mark.parametrize(
    ("request_", "pointers"),
    [
        ({}, {"/expression", "/timezone"}),
        (
            {"expression": "x", "timezone": "y", "from": "z", "count": 0},
            {"/expression", "/timezone", "/from", "/count"},
        ),
        ({"expression": "* * * * *", "timezone": "UTC", "count": 101, "start": "x"}, {"/count", "/start"}),
        ({"expression": "* * * * *", "timezone": "UTC", "from": 5, "dst": {"gap": 1}}, {"/from", "/dst/gap"}),
        ({"expression": "0 0 31 2 *", "timezone": "UTC"}, {"/expression"}),
    ],
)
async def test_what_cannot_be_previewed(
    api: ApiHarness, key: str, request_: dict[str, Any], pointers: set[str]
) -> None:
    reply = await api.send("POST", "/v1/crons:preview", key=key, json=request_)
    assert (reply.status, set(reply.faults)) == (422, pointers)


async def test_a_deleted_crons_callback_is_gone_at_once(api: ApiHarness) -> None:
    key = await api.register("shop")
    await api.add_built_in_clients()
    callback = {"url": "https://a.example/?token=t0p", "headers": {"Authorization": "Bearer s3cret"}, "body": "b0dy"}
    path = "/v1/clients/shop/crons/nightly"
    assert (await api.send("PUT", path, key=key, json=cron(callback=callback))).status == 201
    (row,) = api.connection.rows("crons")
    assert "s3cret" in row["callback"]
    reply = await api.send("DELETE", path, key=key)
    assert (reply.status, reply.json["callback"]["url"]) == (200, "")
    (row,) = api.connection.rows("crons")
    assert not {word for word in ("t0p", "s3cret", "b0dy") if word in str(row)}


async def test_a_client_has_no_more_crons_than_it_may(api: ApiHarness) -> None:
    key = await api.register("shop", settings={"max_crons": 2})
    await api.add_built_in_clients()
    paths = [f"/v1/clients/shop/crons/{name}" for name in ("a", "b", "c")]
    assert [(await api.send("PUT", path, key=key, json=cron())).status for path in paths] == [201, 201, 409]
    refused = await api.send("PUT", paths[2], key=key, json=cron())
    assert refused.json["type"] == "/problems/too-many-crons"
    assert (await api.send("PUT", paths[0], key=key, json=cron(expression="0 5 * * *"))).status == 200
    assert (await api.send("DELETE", paths[0], key=key)).status == 200
    assert [(await api.send("PUT", path, key=key, json=cron())).status for path in (paths[2], paths[0])] == [201, 409]


async def test_an_empty_body_is_shown_and_inherited_by_runs(api: ApiHarness, key: str) -> None:
    for sent, shown in (({}, None), ({"body": ""}, "")):
        put = await api.send("PUT", NIGHTLY, key=key, json=cron(callback=callback(**sent)))
        triggered = await api.send("POST", f"{NIGHTLY}:trigger", key=key)
        assert [one.json["callback"].get("body") for one in (put, triggered)] == [shown, shown]
