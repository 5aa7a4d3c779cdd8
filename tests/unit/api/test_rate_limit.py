"""The rate of creates over HTTP: who is limited, to how much, and the answers."""

from typing import Any

import pytest

from scheduler_service.api.rate_limit import RATE_HEADERS, RATED
from scheduler_service.api.resources.schedules import _item
from scheduler_service.domain.errors import Invalid
from scheduler_service.usecases.schedule_request import ScheduleRequest
from tests.support.api import ApiHarness, Reply, schedule
from tests.support.api_story import ROUTE, Story

SCHEDULES = "/v1/clients/shop/schedules"
COUNTED = {
    "backfill_cron": 1,
    "create_schedule": 1,
    "create_batch": 2,
    "reschedule_schedule": 1,
    "reschedule_schedules": 1,
    "update_schedule": 1,
    "run_schedule": 1,
    "trigger_cron": 1,
    "put_cron": 1,
    "put_schedule": 1,
}
"""Operations that create, with the number of creates in their example."""


async def create(api: ApiHarness, key: str) -> Reply:
    return await api.send("POST", SCHEDULES, key=key, json=schedule())


async def batch(api: ApiHarness, key: str, count: int) -> Reply:
    return await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": [schedule()] * count})


def said(reply: Reply) -> tuple[str, str]:
    return reply.headers["RateLimit-Policy"], reply.headers["RateLimit"]


async def test_creates_say_what_there_is_and_what_is_left(api: ApiHarness, key: str) -> None:
    assert said(await create(api, key)) == ('"creates";q=3000;w=10', '"creates";r=2999;t=1')
    assert said(await batch(api, key, 999)) == ('"creates";q=3000;w=10', '"creates";r=2000;t=4')
    api.clock.advance(3)
    assert said(await create(api, key))[1] == '"creates";r=2899;t=1'


async def test_beyond_the_burst_nothing_is_stored_until_it_fits_whole(api: ApiHarness) -> None:
    key = await api.register("shop", quota=1)
    assert (await batch(api, key, 950)).status == 200
    reply = await batch(api, key, 150)
    assert (reply.status, reply.json["type"]) == (429, "/problems/too-many-creates")
    assert reply.headers["Retry-After"] == "1"
    assert said(reply) == ('"creates";q=1000;w=10', '"creates";r=50;t=10')
    assert len(api.connection.rows("schedules")) == 950
    assert (await create(api, key)).status == 201, "what fits is taken, also after a refusal"
    api.clock.advance(1.01)
    assert (await batch(api, key, 150)).status == 200
    other = await api.register("other")
    assert (await api.send("POST", SCHEDULES.replace("shop", "other"), key=other, json=schedule())).status == 201


async def test_a_rate_that_was_set_counts_and_a_batch_beyond_its_burst_takes_it_in_advance(api: ApiHarness) -> None:
    key = await api.register("shop", settings={"create_rate_per_second": 0.5})
    reply = await batch(api, key, 20)
    assert (reply.status, said(reply)) == (200, ('"creates";q=5;w=10', '"creates";r=0;t=40'))
    refused = await create(api, key)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "32")
    api.clock.advance(31.9)
    assert (await create(api, key)).status == 429
    api.clock.advance(0.2)
    assert (await create(api, key)).status == 201


async def test_what_is_refused_for_its_faults_has_been_asked_for_too(api: ApiHarness) -> None:
    key = await api.register("shop", settings={"create_rate_per_second": 0.1})
    assert (await api.send("POST", SCHEDULES, key=key, json={})).status == 422
    assert (await create(api, key)).status == 429


async def test_a_batch_that_does_not_fit_is_refused_before_its_items_are_judged(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await api.register("shop", quota=1)
    judged = 0

    def item(*args: Any, **arguments: Any) -> ScheduleRequest | Invalid:
        nonlocal judged
        judged += 1
        return _item(*args, **arguments)

    monkeypatch.setattr("scheduler_service.api.resources.schedules._item", item)
    wrong = {"items": [{"callback": {"url": n}} for n in range(999)] + [schedule()]}
    reply = await api.send("POST", SCHEDULES + ":batch", key=key, json=wrong)
    assert (reply.status, said(reply)[1]) == (200, '"creates";r=0;t=10')
    assert [one["status"] for one in reply.json["items"]] == [422] * 999 + [201]
    assert judged == 1000
    for _ in range(5):
        reply = await api.send("POST", SCHEDULES + ":batch", key=key, json=wrong)
        assert (reply.status, reply.json["type"]) == (429, "/problems/too-many-creates")
    assert judged == 1000
    api.clock.advance(float(reply.headers["Retry-After"]))
    assert (await batch(api, key, 1000)).status == 200, "refusals take nothing"


@pytest.mark.parametrize("id_", ROUTE)
async def test_the_create_rate_counts_only_requests_that_make_schedules(api: ApiHarness, id_: str) -> None:
    await api.add_built_in_clients()
    story = Story(api)
    for before in ("put_client", "create_schedule", "put_cron", "create_key", "create_secret", "create_admin_key"):
        await story.send(before)
    key = await api.register("shop", settings={"create_rate_per_second": 1})
    api.clock.advance(60)
    reply = await story.try_(id_)
    if id_ in COUNTED:
        assert reply.status == ROUTE[id_].status or reply.status in ROUTE[id_].others
        assert reply.headers["RateLimit"] == f'"creates";r={10 - COUNTED[id_]};t={COUNTED[id_]}'
        assert (await batch(api, key, 10 - COUNTED[id_])).status == 200
        again = await story.try_(id_)
        assert (again.status, again.json["type"]) == (429, "/problems/too-many-creates")
        assert {*RATE_HEADERS, "Retry-After"} <= set(again.headers)
    else:
        assert not RATE_HEADERS.keys() & set(reply.headers)
    assert (RATED[0] in ROUTE[id_].problems) == (id_ in COUNTED)


async def test_reads_and_cancels_go_on_when_the_rate_is_used_up(api: ApiHarness) -> None:
    key = await api.register("shop", settings={"create_rate_per_second": 0.1})
    made = (await create(api, key)).json["schedule_id"]
    assert (await create(api, key)).status == 429
    assert (await api.send("GET", f"{SCHEDULES}/{made}", key=key)).status == 200
    assert (await api.send("DELETE", f"{SCHEDULES}/{made}", key=key)).status == 200
    assert (await api.send("GET", SCHEDULES, key=key)).status == 200
