"""The once token over REST: repeats write the same rows, whenever they arrive and whatever has changed."""

from typing import Any

import pytest

from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.instants import format_instant
from scheduler_service.domain.once import MAX_AGE_MS, MAX_AHEAD_MS
from tests.support.api import NOW, ApiHarness, Reply, callback, schedule
from tests.unit.api.test_idempotency import INSERTS, Lossy, calls, keys

SCHEDULES = "/v1/clients/shop/schedules"
NONCE = "0123456789abcdef"


def token(at: int = NOW, pollers: int = 3, poller: int = 1, nonce: str = NONCE) -> str:
    return f"{at}.{pollers}.{poller}.{nonce}"


async def post(api: ApiHarness, key: str, once: str, path: str = "", **sent: Any) -> Reply:
    return await api.send("POST", f"{SCHEDULES}{path}?once={once}", key=key, **sent)


def columns(api: ApiHarness) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "headers"} for row in calls(api)]


@pytest.mark.parametrize("later", [0, 30, 200, 890], ids=["at-once", "past", "late", "oldest"])
async def test_a_repeat_writes_the_same_row(api: ApiHarness, key: str, later: int) -> None:
    body = schedule(delay_seconds=10, label="x", callback=callback(headers={"A": "b"}, json={"order": 17}))
    first = await post(api, key, token(), json=body)
    assert (first.status, first.json["poller_id"], first.json["due"]) == (201, 1, format_instant(NOW + 10_000))
    rows = columns(api)
    api.clock.advance(later)
    for quota, settings in ((3, {}), (9, {"retention_days": 2})):
        await api.register("shop", quota=quota, settings=settings)
        again = await post(api, key, token(), json=body)
        assert (again.status, again.json) == (201, first.json)
    if later < 70:
        assert columns(api) == rows
    assert (len(calls(api)), keys(api)) == (1, [])


async def test_a_batch_is_repeated_item_by_item(api: ApiHarness, key: str) -> None:
    items = [schedule(delay_seconds=10, label=str(number)) for number in range(60)]
    items[3] = schedule(due="2020-01-01T00:00:00Z")
    items[7] = schedule(delay_seconds=10, callback=callback(body="too long"))
    items[9] = {"surprise": 1}
    items[11] = schedule(ordering_key="k")
    await api.register("shop", settings={"payload_bytes": 3})
    first = await post(api, key, token(), ":batch", json={"items": items})
    assert [item["status"] for item in first.json["items"]].count(201) == 57
    rows = columns(api)
    assert {row["poller_id"] for row in rows if row["label"] is not None} == {1, 2}
    # Now one more item is valid; the ids of all others stay.
    await api.register("shop", quota=5, settings={"payload_bytes": 10})
    again = await post(api, key, token(), ":batch", json={"items": items})
    assert [item["status"] for item in again.json["items"]].count(201) == 58
    assert [row for row in columns(api) if row in rows] == rows
    assert len(calls(api)) == 58


async def test_a_repeat_with_a_token_creates_what_was_lost() -> None:
    connection = Lossy()
    async with ApiHarness(connection=connection) as api:
        key = await api.register("shop", quota=3)
        for path, body in (("", schedule(delay_seconds=100)), (":batch", {"items": [schedule()] * 3})):
            for losing in (True, False):
                before = len(calls(api))
                (connection.losing if losing else connection.down).update(INSERTS)
                once = token(nonce=f"{NONCE}{losing}")
                assert (await post(api, key, once, path, json=body)).status == 503
                connection.losing, connection.down = set(), set()
                made = await post(api, key, once, path, json=body)
                assert made.status == (200 if path else 201)
                assert len(calls(api)) == before + (3 if path else 1)


async def test_relative_dues_count_from_the_instant_in_the_token(api: ApiHarness, key: str) -> None:
    api.clock.advance(60)
    made = await post(api, key, token(), json=schedule(delay_seconds=5))
    assert (made.json["due"], made.json["created_at"]) == (format_instant(NOW + 5_000), format_instant(NOW))
    refused = await post(api, key, token(), json=schedule(due=format_instant(NOW - 60_001)))
    assert refused.status == 422
    made = await post(api, key, token(), json=schedule(due=format_instant(NOW - 60_000)))
    assert (made.status, made.json["due"]) == (201, format_instant(NOW))


async def test_another_body_token_or_client_makes_another(api: ApiHarness, key: str) -> None:
    other = await api.register("other")
    await post(api, key, token(), json=schedule())
    await post(api, key, token(), json=schedule(label="x"))
    await post(api, key, token(nonce="another" + NONCE), json=schedule())
    made = await api.send("POST", f"/v1/clients/other/schedules?once={token()}", key=other, json=schedule())
    assert made.status == 201
    assert len({row["schedule_id"] for row in calls(api)}) == len(calls(api)) == 4
    theirs = await api.send("POST", f"/v1/clients/other/schedules?once={token()}", key=key, json=schedule())
    assert theirs.status == 404


@pytest.mark.parametrize(
    ("once", "status", "says"),
    [
        (token(NOW - MAX_AGE_MS), 201, ""),
        (token(NOW - MAX_AGE_MS - 1), 409, "15 minutes ago"),
        (token(NOW + MAX_AHEAD_MS), 201, ""),
        (token(NOW + MAX_AHEAD_MS + 1), 409, "60 seconds ahead"),
        (token(pollers=4), 409, "4 pollers"),
        (token(pollers=3, poller=3), 422, "below"),
        ("x", 422, "must be"),
        ("", 422, "must be"),
    ],
)
@pytest.mark.parametrize("path", ["", ":batch"])
async def test_tokens_that_are_too_old_too_new_or_none(
    api: ApiHarness, key: str, path: str, once: str, status: int, says: str
) -> None:
    body = schedule(due=format_instant(NOW + 120_000))
    reply = await post(api, key, once, path, json={"items": [body]} if path else body)
    assert reply.status == (200 if path and status == 201 else status)
    if status == 409:
        assert reply.json["type"] == "/problems/once-refused"
        assert reply.headers["Minutehand-Once"] == f"{NOW}.3"
        assert says in reply.json["detail"]
    elif status == 422:
        assert says in reply.faults["/once"]
    assert len(calls(api)) == (status == 201)


async def test_a_token_beside_a_key_is_refused(api: ApiHarness, key: str) -> None:
    reply = await post(api, key, token(), json=schedule(), headers={"Idempotency-Key": "k"})
    assert (reply.status, set(reply.faults)) == (422, {"/once"})
    assert (await api.send("POST", f"{SCHEDULES}?once={token()}&once={token()}", key=key, json={})).status == 422


@pytest.mark.parametrize("path", ["", ":batch"])
async def test_pollers_above_the_present_quota_are_refused_and_the_answer_says_it(
    api: ApiHarness, key: str, path: str
) -> None:
    await api.register("shop", quota=2)
    assert (await api.services.catalog.client(ClientId("shop"))).poller_ceiling == 3
    body = {"items": [schedule()]} if path else schedule()
    reply = await post(api, key, token(pollers=3, poller=0), path, json=body)
    assert (reply.status, reply.json["type"]) == (409, "/problems/once-refused")
    assert "the quota of this client, 2" in reply.json["detail"]
    assert (reply.headers["Minutehand-Once"], len(calls(api))) == (f"{NOW}.2", 0)
    assert reply.headers["Minutehand-Client-Settings"] == "accept_past_seconds=60; retention_days=7"
    assert (await post(api, key, token(pollers=2), path, json=body)).status == (200 if path else 201)


@pytest.mark.parametrize("quota", [8, 2])
async def test_a_quota_that_this_process_has_not_heard_of_is_read(api: ApiHarness, key: str, quota: int) -> None:
    catalog = api.services.catalog
    stale = catalog._generation
    await api.register("shop", quota=quota)
    catalog._generation = stale
    made = await post(api, key, token(pollers=8, poller=7), json=schedule())
    if quota == 8:
        assert (made.status, made.json["poller_id"]) == (201, 7)
    else:
        assert (made.status, made.headers["Minutehand-Once"]) == (409, f"{NOW}.2")


@pytest.mark.parametrize("once", [token(NOW - MAX_AGE_MS - 1), token(pollers=4)], ids=["old", "pollers"])
async def test_each_refused_token_takes_one_unit_of_the_budget(once: str) -> None:
    async with ApiHarness(client_budget_per_second=0.3) as api:
        key = await api.register("shop", quota=3)
        statuses = [(await post(api, key, once, json=schedule())).status for _ in range(5)]
        assert statuses == [409, 409, 409, 429, 429]
        assert (await post(api, key, token(), json=schedule())).status == 201


async def test_every_answer_says_what_the_next_token_is_made_of(api: ApiHarness, key: str) -> None:
    for path, body, headers in (
        ("", schedule(), {}),
        ("", schedule(), {"Idempotency-Key": "k"}),
        ("", schedule(), {"Idempotency-Key": "k"}),
        (":batch", {"items": [schedule()]}, {}),
        (f"?once={token()}", schedule(), {}),
    ):
        reply = await api.send("POST", SCHEDULES + path, key=key, json=body, headers=headers)
        assert reply.headers["Minutehand-Once"] == f"{NOW}.3"
