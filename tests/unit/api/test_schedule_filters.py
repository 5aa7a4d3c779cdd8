"""Schedules of a window over REST: listed, counted and cancelled by the same filters."""

from typing import Any
from uuid import UUID

import pytest

from scheduler_service.domain.ids import ScheduleId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.schedules import State
from tests.support.api import NOW, ApiHarness, callback, schedule
from tests.support.outcomes import ended, row_of

SCHEDULES = "/v1/clients/shop/schedules"
WINDOW = {"from": format_instant(NOW), "to": format_instant(NOW + 30 * 86_400_000)}


async def create(api: ApiHarness, caller: str, **fields: object) -> ScheduleId:
    reply = await api.send("POST", SCHEDULES, key=caller, json=schedule(**fields))
    assert reply.status == 201, reply.body
    return ScheduleId(UUID(reply.json["schedule_id"]))


async def filled(api: ApiHarness, key: str) -> list[ScheduleId]:
    """A week apart; five of the eight are in the window."""
    made = []
    for week in range(8):
        host = "A.example" if week % 2 == 0 else "b.example"
        fields: dict[str, Any] = {"key": f"cart-{week}"} if week in (1, 2) else {}
        made.append(
            await create(
                api,
                key,
                delay_seconds=90 + week * 7 * 86_400,
                label=f"l{week}",
                callback=callback(url=f"https://{host}:8443/hook"),
                **fields,
            )
        )
    return made


async def listed(api: ApiHarness, key: str, query: list[tuple[str, str]]) -> list[UUID]:
    found: list[UUID] = []
    while True:
        reply = await api.send("GET", SCHEDULES, key=key, params=query)
        assert reply.status == 200, reply.body
        found += [UUID(one["schedule_id"]) for one in reply.json["items"]]
        if reply.json["next_cursor"] is None:
            return found
        query = [("cursor", reply.json["next_cursor"])]


async def counted(api: ApiHarness, key: str, query: list[tuple[str, str]]) -> int:
    before = 0
    while True:
        reply = await api.send("GET", SCHEDULES + ":count", key=key, params=query)
        assert reply.status == 200, reply.body
        assert reply.json["count"] >= before
        before = reply.json["count"]
        if reply.json["next_cursor"] is None:
            return int(before)
        query = [("cursor", reply.json["next_cursor"])]


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 1, 2, 3, 4]),
    ({"label": "l1"}, [1]),
    ({"label": ["l1", "l3", "l7"]}, [1, 3]),
    ({"state": "delivered"}, [0]),
    ({"state": ["delivered", "scheduled"], "label": ["l0", "l1"]}, [0, 1]),
    ({"host": "a.EXAMPLE"}, [0, 2, 4]),
    ({"host": "b.example", "label": ["l0", "l1"]}, [1]),
    ({"key_prefix": "cart-"}, [1, 2]),
    ({"key_prefix": "cart-2"}, [2]),
    ({"destination": "mail"}, []),
    ({"cron_id": "nightly"}, []),
]


@pytest.mark.parametrize(("filters", "expected"), FILTERS)
async def test_a_month_is_listed_and_counted_and_cancelled_by_the_same_filters(
    api: ApiHarness, key: str, filters: dict[str, Any], expected: list[int]
) -> None:
    made = await filled(api, key)
    await ended(api, made[0], State.DELIVERED)
    query = list(WINDOW.items())
    for name, value in filters.items():
        query += [(name, text) for text in ([value] if isinstance(value, str) else value)]
    assert [made.index(one) for one in await listed(api, key, query)] == expected
    assert await counted(api, key, query) == len(expected)
    if filters.get("state") is not None:
        return
    body: dict[str, Any] = {**WINDOW, **filters}
    cancelled: list[UUID] = []
    while True:
        reply = await api.send("POST", SCHEDULES + ":cancel", key=key, json=body)
        assert reply.status == 200, reply.body
        cancelled += [UUID(one["schedule_id"]) for one in reply.json["items"] if one["status"] == 200]
        if reply.json["next_cursor"] is None:
            break
        body = {"cursor": reply.json["next_cursor"]}
    assert [made.index(one) for one in cancelled] == [one for one in expected if one != 0]
    for number, one in enumerate(made):
        row = await row_of(api, one)
        assert row is not None
        assert (row.state == "cancelled") == (number in expected and number != 0)


async def test_only_what_waits_is_cancelled_where_that_is_asked(api: ApiHarness, key: str) -> None:
    (waiting, retried) = [await create(api, key, delay_seconds=90) for _ in range(2)]
    await ended(api, retried, State.DELIVERED)
    assert (await api.send("POST", f"{SCHEDULES}/{retried}:redeliver", key=key)).status == 202
    reply = await api.send("POST", SCHEDULES + ":cancel", key=key, json={**WINDOW, "state": "scheduled"})
    assert [one["schedule_id"] for one in reply.json["items"]] == [str(waiting)]
    reply = await api.send("POST", SCHEDULES + ":cancel", key=key, json={**WINDOW, "state": ["retrying"]})
    assert [one["schedule_id"] for one in reply.json["items"]] == [str(retried)]


WRONG: list[tuple[list[tuple[str, str]], set[str]]] = [
    (
        [
            *(("from", "x"), ("state", "gone"), ("state", "failed"), ("label", "x" * 257), ("cron_id", "x" * 257)),
            *(("destination", "A"), ("host", "a:1"), ("key_prefix", "a b")),
        ],
        {"/from", "/state", "/label", "/cron_id", "/destination", "/host", "/key_prefix"},
    ),
    ([("from", WINDOW["to"]), ("to", WINDOW["from"]), ("host", "")], {"/to", "/host"}),
    ([("label", str(number)) for number in range(21)], {"/label"}),
    ([("label", f"{number}" + "ä" * 255) for number in range(3)], {"/label"}),
    ([("cursor", "x"), ("host", "a b"), ("label", "x")], {"/cursor", "/host"}),
]


@pytest.mark.parametrize("verb", ["", ":count"])
@pytest.mark.parametrize(("query", "pointers"), WRONG)
async def test_all_faults_are_named_at_once(
    api: ApiHarness, key: str, query: list[tuple[str, str]], pointers: set[str], verb: str
) -> None:
    reply = await api.send("GET", SCHEDULES + verb, key=key, params=query)
    assert (reply.status, set(reply.faults)) == (422, pointers)


async def test_what_is_no_list_is_given_once(api: ApiHarness, key: str) -> None:
    reply = await api.send("GET", SCHEDULES, key=key, params=[("host", "a.example"), ("host", "b.example")])
    assert reply.faults == {"/host": "is given more than once"}
    reply = await api.send("GET", SCHEDULES + ":count", key=key, params={"limit": "5"})
    assert set(reply.faults) == {"/limit"}


async def test_the_longest_filter_fits_into_a_cursor(api: ApiHarness, key: str) -> None:
    await filled(api, key)
    labels = [("label", f"{number:02}" + "x" * 49) for number in range(20)]
    query = [
        *WINDOW.items(),
        *labels,
        *(
            ("cron_id", "ä" * 256),
            ("host", "a" * 63 + ".example"),
            ("key_prefix", "x" * 256),
            ("destination", "d" * 63),
        ),
        *(("state", state.value) for state in State),
    ]
    for verb in ("", ":count"):
        reply = await api.send("GET", SCHEDULES + verb, key=key, params=query)
        assert reply.status == 200
        cursor = reply.json["next_cursor"]
        assert cursor is not None
        assert (await api.send("GET", SCHEDULES + verb, key=key, params={"cursor": cursor})).status == 200


async def test_a_cursor_agrees_with_its_filters_or_is_refused(api: ApiHarness, key: str) -> None:
    await filled(api, key)
    query = [*WINDOW.items(), ("label", "l1"), ("label", "l0"), ("host", "a.example")]
    cursor = (await api.send("GET", SCHEDULES, key=key, params=query)).json["next_cursor"]
    again = [("cursor", cursor), ("label", "l0"), ("label", "l1"), ("host", "A.example")]
    assert (await api.send("GET", SCHEDULES, key=key, params=again)).status == 200
    other = [("cursor", cursor), ("label", "l0"), ("host", "b.example")]
    reply = await api.send("GET", SCHEDULES, key=key, params=other)
    assert (reply.status, set(reply.faults)) == (422, {"/label", "/host"})
    reply = await api.send("GET", SCHEDULES + ":count", key=key, params={"cursor": cursor})
    assert (reply.status, set(reply.faults)) == (422, {"/cursor"})
