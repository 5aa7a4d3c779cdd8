"""Attempts and dead letters over REST."""

from typing import Any
from uuid import UUID

import pytest

from cql.memory.connection import InMemoryConnection
from scheduler_service.domain.ids import ScheduleId, UnixMillis
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import Outcome, State
from scheduler_service.usecases import dead_letters
from tests.support.api import NOW, ApiHarness
from tests.support.outcomes import attempted, created, ended, gave_up, record

SCHEDULES = "/v1/clients/shop/schedules"
LETTERS = "/v1/clients/shop/dead-letters"
UNKNOWN = "01a1fe7b-0a24-8000-81b0-6435e6edef00"


@pytest.fixture
async def key(api: ApiHarness) -> str:
    return await api.register("shop")


async def attempts(api: ApiHarness, key: str, schedule_id: UUID) -> list[dict[str, Any]]:
    reply = await api.send("GET", f"{SCHEDULES}/{schedule_id}/attempts", key=key)
    assert reply.status == 200, reply.body
    assert reply.json["next_cursor"] is None
    return list(reply.json["items"])


async def test_failed_attempts_and_the_one_that_delivered_in_order(api: ApiHarness, key: str) -> None:
    one, other = await created(api, key), await created(api, key)
    api.clock.advance(100)
    await attempted(api, one, 2, status=None, error="timeout", excerpt="")
    await attempted(api, one, 1)
    await attempted(api, other, 1)
    await ended(api, one, State.DELIVERED, attempts=3)
    found = await attempts(api, key, one)
    assert [(each["attempt"], each["outcome"], each["status"], each["error"]) for each in found] == [
        (1, "failed", 503, None),
        (2, "failed", None, "timeout"),
        (3, "delivered", 204, None),
    ]
    at = format_instant(api.clock.now)
    assert found[0] == {
        "attempt": 1,
        "outcome": "failed",
        "started_at": at,
        "finished_at": format_instant(api.clock.now + 12),
        "duration_seconds": 0.012,
        "status": 503,
        "error": None,
        "excerpt": "no",
        "verb": None,
        "verb_ignored": None,
        "acknowledgement": None,
    }
    assert (found[2]["started_at"], found[2]["finished_at"], found[2]["duration_seconds"]) == (None, at, None)


async def test_attempts_show_what_receivers_asked_for(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await attempted(api, one, 1, status=202, error="verb:snooze", excerpt="")
    await attempted(api, one, 2, status=503, error="verb:snooze:too-far")
    await attempted(api, one, 3, status=200, error="verb:stop-cron", excerpt="")
    await ended(api, one, State.DELIVERED, attempts=3)
    names = ("outcome", "status", "error", "excerpt", "verb", "verb_ignored")
    assert [[each[name] for name in names] for each in await attempts(api, key, one)] == [
        ["snoozed", 202, None, "", "snooze", None],
        ["failed", 503, None, "no", "snooze", "too-far"],
        ["delivered", 200, None, None, "stop-cron", None],
    ]


async def test_a_success_after_a_retry_shows_its_start_also_once_it_was_redelivered(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await attempted(api, one, 1)
    await attempted(api, one, 2, status=204, duration_ms=40, excerpt="")
    await ended(api, one, State.DELIVERED, attempts=2, finished_at=UnixMillis(api.clock.now + 40))
    shown = await attempts(api, key, one)
    assert [each["outcome"] for each in shown] == ["failed", "delivered"]
    told = [shown[1][name] for name in ("started_at", "finished_at", "duration_seconds", "status", "excerpt")]
    at = int(api.clock.now)
    assert told == [format_instant(at), format_instant(at + 40), 0.04, 204, None]
    assert (await api.send("POST", f"{SCHEDULES}/{one}:redeliver", key=key)).status == 202
    assert await attempts(api, key, one) == shown


async def test_an_attempt_that_only_its_row_knows_replaces_no_other(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    await attempted(api, one, 2)
    await ended(api, one, State.DELIVERED, attempts=2)
    assert [each["outcome"] for each in await attempts(api, key, one)] == ["delivered"]


async def test_a_first_attempt_that_delivered_is_known_by_its_row(api: ApiHarness, key: str) -> None:
    one = await created(api, key)
    assert await attempts(api, key, one) == []
    await ended(api, one, State.DELIVERED)
    (found,) = await attempts(api, key, one)
    assert (found["attempt"], found["started_at"], found["duration_seconds"]) == (1, format_instant(NOW - 7), 0.007)


async def test_attempts_of_nothing_are_not_found(api: ApiHarness, key: str) -> None:
    for name in (UNKNOWN, "nonsense"):
        assert (await api.send("GET", f"{SCHEDULES}/{name}/attempts", key=key)).status == 404
    reply = await api.send("GET", f"{SCHEDULES}/{await created(api, key)}/attempts", key=key, params={"limit": "1"})
    assert (reply.status, list(reply.faults)) == (422, ["/limit"])


async def letters(api: ApiHarness, key: str, **query: str) -> list[dict[str, Any]]:
    """The dead letters of all pages."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        given = {**query, "cursor": cursor} if cursor else query
        reply = await api.send("GET", LETTERS, key=key, params=given)
        assert reply.status == 200, reply.body
        found += reply.json["items"]
        cursor = reply.json["next_cursor"]
        query = {name: value for name, value in query.items() if name == "limit"}
    return found


async def given_up(api: ApiHarness, key: str, *after: float) -> list[ScheduleId]:
    """Schedules that failed one after the other, each so many seconds after the one before."""
    found = []
    for seconds in after:
        one = await created(api, key, label=f"order-{len(found)}")
        api.clock.advance(seconds)
        await gave_up(api, one)
        found.append(one)
    return found


async def test_dead_letters_of_all_pollers_are_listed_by_instant(api: ApiHarness, key: str) -> None:
    ids = await given_up(api, key, 95, 0.001, 0, 4000, 7200, 0.5, 0.5)
    ids[1:3] = sorted(ids[1:3])
    for limit in (1, 2, 3, 200):
        found = await letters(api, key, limit=str(limit))
        assert [UUID(one["schedule_id"]) for one in found] == ids
    assert len({one.int >> 64 for one in ids}) > 1
    first = found[0]
    assert first == {
        "letter_id": f"{ids[0]}@{NOW + 95_000}",
        "schedule_id": str(ids[0]),
        "failed_at": format_instant(NOW + 95_000),
        "reason": "exhausted",
        "last_status": 503,
        "last_error": None,
        "attempts": 1,
        "state": "failed",
        "label": "order-0",
        "host": "receiver.example",
        "destination": None,
        "acknowledged_at": None,
        "acknowledged_by": None,
    }


async def test_a_letter_shows_what_has_become_of_its_schedule(api: ApiHarness, key: str) -> None:
    one, gone = await given_up(api, key, 95, 0)
    pointer = Outcome(state=State.RETRYING, attempts=1, next_attempt_at=UnixMillis(api.clock.now + 1))
    await record(api, one, pointer)
    table = api.connection.tables["schedules"]
    for partition in table.partitions.values():
        for clustering in [each for each in partition.keys if each[1] == gone]:
            partition.keys.remove(clustering)
            del partition.rows[clustering]
    found = {one["schedule_id"]: one["state"] for one in await letters(api, key)}
    assert found == {str(one): "retrying", str(gone): "expired"}


async def test_no_content_is_read_for_letters(api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page may have a thousand bodies."""
    await given_up(api, key, 95, 0)
    asked, select = set[str](), InMemoryConnection.select

    async def watched(self: InMemoryConnection, name: str, *args: Any, **arguments: Any) -> Any:
        asked.add(name)
        return await select(self, name, *args, **arguments)

    monkeypatch.setattr(InMemoryConnection, "select", watched)
    assert len(await letters(api, key)) == 2
    assert {name for name in asked if name.startswith("schedules.")} == {"schedules.read_lean_rows"}


async def test_a_window_has_its_first_instant_and_not_its_last(api: ApiHarness, key: str) -> None:
    ids = await given_up(api, key, 100, 1, 1)
    start, end = format_instant(NOW + 101_000), format_instant(NOW + 102_000)
    found = await letters(api, key, **{"from": start, "to": end})
    assert [one["schedule_id"] for one in found] == [str(ids[1])]
    assert len(await letters(api, key)) == 3
    api.clock.advance(86_400)
    assert await letters(api, key) == []
    assert len(await letters(api, key, **{"from": format_instant(NOW)})) == 3


async def test_a_call_reads_a_bounded_number_of_pollers_and_says_where_to_go_on(
    api: ApiHarness, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await given_up(api, key, 95, 3600, 3600)
    monkeypatch.setattr(dead_letters, "MAX_READS", 3)
    reply = await api.send("GET", LETTERS, key=key)
    assert (reply.json["items"], reply.json["next_cursor"] is None) == ([], False)
    assert [one["schedule_id"] for one in await letters(api, key)] == list(map(str, ids))


async def test_faults_of_a_listing_are_named_together(api: ApiHarness, key: str) -> None:
    at = format_instant(NOW)
    for query, faults in (
        ({"from": "x", "to": "y", "limit": "201"}, {"/from", "/to", "/limit"}),
        ({"from": at, "to": at}, {"/to"}),
        ({"from": at, "to": format_instant(NOW + 86_400_001)}, {"/to"}),
        ({"cursor": "x", "limit": "0"}, {"/cursor", "/limit"}),
        ({"state": "failed"}, {"/state"}),
    ):
        reply = await api.send("GET", LETTERS, key=key, params=query)
        assert (reply.status, set(reply.faults)) == (422, faults)
    await given_up(api, key, 95, 1)
    cursor = (await api.send("GET", LETTERS, key=key, params={"limit": "1"})).json["next_cursor"]
    reply = await api.send("GET", LETTERS, key=key, params={"cursor": cursor, "from": at})
    assert set(reply.faults) == {"/from"}
    other = await api.register("other")
    reply = await api.send("GET", "/v1/clients/other/dead-letters", key=other, params={"cursor": cursor})
    assert set(reply.faults) == {"/cursor"}
