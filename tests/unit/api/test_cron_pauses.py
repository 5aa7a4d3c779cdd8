"""Pauses of crons over REST: the note of one, and all crons of a label."""

from typing import Any

import msgspec
import pytest

from membership.conditional import Applied
from scheduler_service.domain.crons.row import CronState
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.usecases import pause_crons
from tests.support.api import ApiHarness, Reply
from tests.support.cron_calls import CRONS, NIGHTLY, made

BOOKS = {"label": "books"}


@pytest.fixture
async def key(api: ApiHarness) -> str:
    await api.add_built_in_clients()
    return await api.register("shop")


async def post(api: ApiHarness, key: str, path: str, body: Any = None) -> Reply:
    return await api.send("POST", path, key=key, json=body)


async def states(api: ApiHarness, key: str) -> dict[str, str]:
    return {one["cron_id"]: one["state"] for one in (await api.send("GET", CRONS, key=key)).json["items"]}


async def test_a_note_is_shown_until_the_cron_is_resumed(api: ApiHarness, key: str) -> None:
    await made(api, key)
    paused = await post(api, key, f"{NIGHTLY}:pause", {"note": "moving the books"})
    pause = {"at": "2026-11-21T09:30:00.000Z", "by": "request", "note": "moving the books"}
    assert (paused.status, paused.json["pause"], paused.json["revision"]) == (200, pause, 2)
    api.clock.advance(60)
    again = await post(api, key, f"{NIGHTLY}:pause", {"note": "moving the books"})
    silent = await post(api, key, f"{NIGHTLY}:pause")
    assert [reply.json["revision"] for reply in (again, silent)] == [2, 2]
    edited = await made(api, key, timezone="Asia/Tokyo")
    assert (edited["state"], edited["pause"]) == ("paused", pause), "a put keeps it"
    other = await post(api, key, f"{NIGHTLY}:pause", {"note": "still moving"})
    assert (other.json["revision"], other.json["pause"]["note"]) == (4, "still moving")
    assert (await api.send("GET", NIGHTLY, key=key)).json == other.json
    resumed = await post(api, key, f"{NIGHTLY}:resume")
    assert (resumed.json["state"], resumed.json["pause"]) == ("active", None)
    assert (await post(api, key, f"{NIGHTLY}:pause")).json["pause"]["note"] is None, "the last note is not shown again"


async def test_a_note_that_an_older_program_left_behind_is_not_shown(api: ApiHarness, key: str) -> None:
    await made(api, key)
    await post(api, key, f"{NIGHTLY}:pause", {"note": "old"})
    cron = (await api.storage.crons.read(ClientId("shop"), [CronId("nightly")]))[CronId("nightly")]
    row = next(row for row in api.connection.rows("crons") if row["cron_id"] == "nightly")
    assert row["pause"] is not None
    # Resumed and paused again by a program that does not know the column.
    for revision, state in ((3, CronState.ACTIVE), (4, CronState.PAUSED)):
        bare = msgspec.structs.replace(cron, revision=revision, state=state, pause=None)
        assert isinstance(await api.storage.crons.write(bare, expected_revision=revision - 1), Applied)
    shown = (await api.send("GET", NIGHTLY, key=key)).json
    assert (shown["state"], shown["pause"]) == ("paused", None)


@pytest.mark.parametrize("note", ["", "x" * 501, 7, None])
async def test_a_note_has_a_length(api: ApiHarness, key: str, note: Any) -> None:
    await made(api, key)
    reply = await post(api, key, f"{NIGHTLY}:pause", {"note": note})
    if note is None:
        assert reply.status == 200
        return
    assert [fault["pointer"] for fault in reply.json["errors"]] == ["/note"]


async def test_all_crons_of_a_label_are_paused_and_those_are_resumed(api: ApiHarness, key: str) -> None:
    for cron_id in ("a", "b", "c", "over"):
        await made(api, key, cron_id, label="books", **({"max_fires": 1} if cron_id == "over" else {}))
    await made(api, key, "other", label="tills")
    await api.send("DELETE", f"{CRONS}/c", key=key)
    await post(api, key, f"{CRONS}/b:pause", {"note": "mine"})
    asked = {**BOOKS, "note": "moving"}
    dry = await post(api, key, f"{CRONS}:pause", {**asked, "dry_run": True})
    assert [(one["cron_id"], one["state"], one["changed"]) for one in dry.json["items"]] == [
        ("a", "active", True),
        ("b", "paused", False),
        ("over", "active", True),
    ]
    assert (await states(api, key))["a"] == "active"
    paused = await post(api, key, f"{CRONS}:pause", asked)
    assert [(one["status"], one["state"], one["changed"], one["revision"]) for one in paused.json["items"]] == [
        (200, "paused", True, 2),
        (200, "paused", False, 2),
        (200, "paused", True, 2),
    ]
    again = await post(api, key, f"{CRONS}:pause", asked)
    assert [one["changed"] for one in again.json["items"]] == [False, False, False]
    assert await states(api, key) == {"a": "paused", "b": "paused", "over": "paused", "other": "active"}
    resumed = await post(api, key, f"{CRONS}:resume", asked)
    assert [(one["cron_id"], one["state"]) for one in resumed.json["items"]] == [("a", "active"), ("over", "active")]
    assert (await states(api, key))["b"] == "paused", "its note is another"
    everything = await post(api, key, f"{CRONS}:resume", {**BOOKS, "dry_run": True})
    assert [one["cron_id"] for one in everything.json["items"]] == ["b"]


async def test_it_goes_page_by_page(api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause_crons, "CRONS_READ", 3)
    monkeypatch.setattr(pause_crons, "CRONS_CHANGED", 2)
    for number in range(8):
        await made(api, key, f"c{number}", label="books" if number not in (3, 4, 5) else "tills")
    changed, sizes, cursor = [], [], None
    while True:
        body = BOOKS if cursor is None else {**BOOKS, "cursor": cursor}
        page = (await post(api, key, f"{CRONS}:pause", body)).json
        changed += [one["cron_id"] for one in page["items"]]
        sizes.append(len(page["items"]))
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert changed == ["c0", "c1", "c2", "c6", "c7"]
    assert max(sizes) == 2
    assert 0 in sizes


async def test_what_cannot_be_paused_says_why(api: ApiHarness, key: str) -> None:
    await made(api, key, "over", label="books", max_fires=1)
    cron = (await api.storage.crons.read(ClientId("shop"), [CronId("over")]))[CronId("over")]
    finished = msgspec.structs.replace(cron, state=CronState.FINISHED, revision=2)
    await api.storage.crons.write(finished, expected_revision=1)
    for dry_run in (True, False):
        reply = await post(api, key, f"{CRONS}:pause", {**BOOKS, "dry_run": dry_run})
        assert [(one["status"], one["state"]) for one in reply.json["items"]] == [(409, "finished")]


async def test_the_note_is_in_the_audit_log(api: ApiHarness, key: str) -> None:
    await made(api, key, label="books")
    await post(api, key, f"{NIGHTLY}:pause", {"note": "moving"})
    await post(api, key, f"{CRONS}:resume", {**BOOKS, "note": "moving"})
    log = (await api.send("GET", "/v1/clients/shop/audit-log")).json["items"]
    notes = {entry["action"]: entry["details"]["note"] for entry in log if "note" in entry["details"]}
    assert notes == {"pause_cron": "moving", "resume_crons": "moving"}


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_every_fault_of_a_bulk_request_is_named(api: ApiHarness, key: str, verb: str) -> None:
    reply = await post(api, key, f"{CRONS}:{verb}", {"label": "", "note": "", "dry_run": 1, "all": True})
    assert {fault["pointer"] for fault in reply.json["errors"]} == {"/label", "/note", "/dry_run", "/all"}
    assert (await post(api, key, f"{CRONS}:{verb}", {})).json["errors"][0]["pointer"] == "/label"
    cursor = await post(api, key, f"{CRONS}:{verb}", {**BOOKS, "cursor": "x"})
    assert [fault["pointer"] for fault in cursor.json["errors"]] == ["/cursor"]
