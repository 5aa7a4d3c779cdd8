"""Dead letters over REST: filters of their list, and acknowledgements."""

from typing import Any

import pytest

from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.instants import format_instant
from scheduler_service.usecases import dead_letters
from tests.support.api import NOW, ApiHarness, callback
from tests.support.outcomes import created, gave_up

LETTERS = "/v1/clients/shop/dead-letters"
KINDS: list[dict[str, Any]] = [
    {},
    {"last_status": 404, "reason": "final"},
    {"last_status": None, "last_error": "timeout"},
    {"last_status": 500},
]


@pytest.fixture
async def ids(api: ApiHarness, key: str) -> list[ScheduleId]:
    """Four schedules to two hosts that have failed in different ways, a second apart, from NOW + 100 s on."""
    hosts = ["a.example", "a.example:8443", "b.example", "b.example"]
    made = [
        await created(api, key, label=f"l{at}", callback=callback(url=f"https://{host}/hook"))
        for at, host in enumerate(hosts)
    ]
    api.clock.advance(99)
    for one, kind in zip(made, KINDS, strict=True):
        api.clock.advance(1)
        await gave_up(api, one, **kind)
    return made


async def listed(api: ApiHarness, key: str, **query: str) -> list[dict[str, Any]]:
    """The letters of all pages, each continued with its cursor alone."""
    found: list[dict[str, Any]] = []
    asked: dict[str, str] = query
    while True:
        reply = await api.send("GET", LETTERS, key=key, params=asked)
        assert reply.status == 200, reply.body
        found += reply.json["items"]
        if reply.json["next_cursor"] is None:
            return found
        asked = {"cursor": reply.json["next_cursor"], **({"limit": query["limit"]} if "limit" in query else {})}


async def numbers(api: ApiHarness, key: str, ids: list[ScheduleId], **query: str) -> list[int]:
    return [[str(one) for one in ids].index(letter["schedule_id"]) for letter in await listed(api, key, **query)]


async def acknowledge(api: ApiHarness, key: str, **body: object) -> dict[str, Any]:
    reply = await api.send("POST", f"{LETTERS}:acknowledge", key=key, json=body)
    assert reply.status == 200, reply.body
    return dict(reply.json)


@pytest.mark.parametrize("limit", ["1", "2", "200"])
@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [0, 1, 2, 3]),
        ({"host": "A.example"}, [0, 1]),
        ({"host": "c.example"}, []),
        ({"status": "503"}, [0]),
        ({"status": "5xx"}, [0, 3]),
        ({"status": "4xx", "host": "b.example"}, []),
        ({"reason": "final"}, [1]),
        ({"error": "timeout"}, [2]),
        ({"label": "l3"}, [3]),
        ({"destination": "billing"}, []),
        ({"acknowledged": "true"}, []),
        ({"acknowledged": "any", "reason": "exhausted"}, [0, 2, 3]),
    ],
)
async def test_filters(
    api: ApiHarness, key: str, ids: list[ScheduleId], query: dict[str, str], found: list[int], limit: str
) -> None:
    assert await numbers(api, key, ids, limit=limit, **query) == found


@pytest.mark.parametrize(("name", "most"), [("MAX_SEEN", 1), ("MAX_READS", 3)])
async def test_one_call_looks_at_so_many_and_says_where_to_go_on(
    api: ApiHarness, key: str, ids: list[ScheduleId], monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    monkeypatch.setattr(dead_letters, name, most)
    query = {"label": "l3", "limit": "1", "from": format_instant(NOW)}
    reply = await api.send("GET", LETTERS, key=key, params=query)
    assert (reply.json["items"], reply.json["next_cursor"] is None) == ([], False)
    assert await numbers(api, key, ids, **query) == [3]


async def test_faults_of_filters_are_named_together(api: ApiHarness, key: str, ids: list[ScheduleId]) -> None:
    wrong = {
        "status": "0xx",
        "host": "a.example:8443",
        "destination": "B",
        "reason": "x" * 1025,
        "acknowledged": "no",
        "limit": "0",
        "to": "x",
    }
    reply = await api.send("GET", LETTERS, key=key, params=wrong)
    assert (reply.status, set(reply.faults)) == (422, {f"/{name}" for name in wrong})
    reply = await api.send("GET", LETTERS, key=key, params={"limit": "1", "acknowledged": "any"})
    cursor = reply.json["next_cursor"]
    for verb in (":redeliver", ":acknowledge"):
        refused = await api.send("POST", LETTERS + verb, key=key, json={"cursor": cursor})
        assert (refused.status, set(refused.faults)) == (422, {"/cursor"})
    other = await api.send("GET", LETTERS, key=key, params={"cursor": cursor, "status": "5xx"})
    assert set(other.faults) == {"/status"}


async def test_acknowledged_letters_leave_the_list_and_say_who_and_when(
    api: ApiHarness, key: str, ids: list[ScheduleId]
) -> None:
    letters = [one["letter_id"] for one in await listed(api, key)]
    at, by = format_instant(api.clock.now), key.split("_")[1]
    gone = f"{ids[0]}@{NOW}"
    done = await acknowledge(api, key, letter_ids=[letters[1], letters[1], "x", gone])
    mine = {"letter_id": letters[1], "status": 200, "acknowledged_at": at, "acknowledged_by": by}
    unknown = {"status": 404, "acknowledged_at": None, "acknowledged_by": None}
    assert done == {
        "acknowledged": 1,
        "items": [mine, {"letter_id": "x", **unknown}, {"letter_id": gone, **unknown}],
        "next_cursor": None,
    }
    assert await numbers(api, key, ids) == [0, 2, 3]
    assert await numbers(api, key, ids, acknowledged="any") == [0, 1, 2, 3]
    (shown,) = await listed(api, key, acknowledged="true")
    assert (shown["acknowledged_at"], shown["acknowledged_by"], shown["host"]) == (at, by, "a.example")
    api.clock.advance(60)
    again = await api.send("POST", f"{LETTERS}:acknowledge", json={"letter_ids": letters[1:2]})
    assert (again.json["acknowledged"], again.json["items"]) == (0, [mine]), "the first one stays"
    assert len(api.connection.rows("dead_letters")) == 4


async def test_letters_of_a_destination_are_listed_acknowledged_and_redelivered(
    api: ApiHarness, key: str, ids: list[ScheduleId]
) -> None:
    for name in ("billing", "mail"):
        put = await api.send("PUT", f"/v1/clients/shop/destinations/{name}", json={"url": f"https://{name}.example"})
        assert put.status == 201, put.body
    for name in ("billing", "mail", "billing"):
        await gave_up(api, await created(api, key, callback={"destination": name}))
        api.clock.advance(1)
    found = await listed(api, key, destination="billing", limit="1")
    assert [(one["destination"], one["host"]) for one in found] == [("billing", None)] * 2
    assert [one["destination"] for one in await listed(api, key, host="b.example")] == [None] * 2
    done = await acknowledge(api, key, destination="billing", limit=1)
    assert (done["acknowledged"], done["items"][0]["letter_id"]) == (1, found[0]["letter_id"])
    again = await api.send("POST", f"{LETTERS}:redeliver", key=key, json={"destination": "billing"})
    assert [one["letter_id"] for one in again.json["items"]] == [found[1]["letter_id"]]
    assert len(await listed(api, key)) == 6, "one is acknowledged"


async def test_a_window_is_acknowledged_step_by_step(api: ApiHarness, key: str, ids: list[ScheduleId]) -> None:
    done = await acknowledge(api, key, status="5xx", limit=1)
    assert (done["acknowledged"], len(done["items"])) == (1, 1)
    done = await acknowledge(api, key, cursor=done["next_cursor"])
    assert (done["acknowledged"], done["next_cursor"]) == (1, None)
    assert await numbers(api, key, ids) == [1, 2]
    assert await acknowledge(api, key, status="5xx") == {"acknowledged": 0, "items": [], "next_cursor": None}
    redriven = await api.send("POST", f"{LETTERS}:redeliver", key=key, json={})
    assert redriven.json["redelivered"] == 2, "acknowledged ones are left alone"


async def test_an_acknowledgement_is_in_the_audit_log(api: ApiHarness, key: str, ids: list[ScheduleId]) -> None:
    await acknowledge(api, key, host="b.example")
    api.clock.advance(1)
    await acknowledge(api, key, letter_ids=["x"])
    log = (await api.send("GET", "/v1/audit-log")).json["items"]
    own = [one for one in log if one["action"] == "acknowledge_dead_letters"]
    assert [(one["details"], one["by_client"], one["result"]) for one in own] == [
        ({"acknowledged": 0}, True, "done"),
        ({"acknowledged": 2}, True, "done"),
    ]
