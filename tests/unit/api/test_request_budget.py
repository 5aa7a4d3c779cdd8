"""What requests cost, and the answers when a budget is used up."""

import asyncio
from typing import Any

import pytest

from membership.errors import StoreUnavailable
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.route import Route, operation_id
from scheduler_service.api.openapi.answers import kinds_of
from scheduler_service.api.problems import Refusal
from scheduler_service.api.rate_limit import RATED
from scheduler_service.api.request_budget import HEAVY_READS_AT_ONCE, TOO_MANY
from scheduler_service.api.resources import ROUTES
from scheduler_service.domain.crons.row import CronMark, CronState
from scheduler_service.domain.ids import CronId, UnixMillis
from scheduler_service.usecases.list_schedules import Listing, ListSchedules
from tests.support.api import ADMIN_KEY, ApiHarness, Reply, schedule
from tests.support.api_story import Story
from tests.support.turns import until

SCHEDULES = "/v1/clients/shop/schedules"
PREVIEW = "/v1/crons:preview"
RULE = {"expression": "* * * * *", "timezone": "UTC"}
COSTLY = [route for route in ROUTES if route.access is not Access.OPEN and route.cost]


async def previews(api: ApiHarness, key: str, count: int) -> list[int]:
    return [(await api.send("POST", PREVIEW, key=key, json=RULE)).status for _ in range(count)]


def is_refused(reply: Reply) -> bool:
    return reply.status == 429 and reply.json["type"] == "/problems/too-many-requests"


async def test_ten_seconds_worth_may_be_spent_at_once_and_then_what_comes_in() -> None:
    async with ApiHarness(client_budget_per_second=10) as api:
        key = await api.register("shop")
        assert await previews(api, key, 35) == [200] * 33 + [429] * 2, "a preview costs 3, its answer a little"
        refused = await api.send("POST", PREVIEW, key=key, json=RULE)
        assert is_refused(refused)
        assert refused.headers["Retry-After"] == "1"
        assert "retry in 1 s" in refused.json["detail"]
        api.clock.advance(2)
        assert await previews(api, key, 8) == [200] * 6 + [429] * 2


async def test_one_clients_requests_take_nothing_from_another_or_from_administrators() -> None:
    async with ApiHarness(client_budget_per_second=10) as api:
        key, other = await api.register("shop"), await api.register("other")
        assert 429 in await previews(api, key, 40)
        assert (await api.send("GET", SCHEDULES.replace("shop", "other"), key=other)).status == 200
        assert (await api.send("GET", SCHEDULES, key=ADMIN_KEY)).status == 200
        assert is_refused(await api.send("POST", PREVIEW, key=key, json=RULE))


async def test_each_administrator_has_a_budget_that_no_client_in_the_path_shares() -> None:
    async with ApiHarness(client_budget_per_second=1, admin_budget_per_second=30) as api:
        key = await api.register("shop")
        ops = (await api.send("POST", "/v1/admin-keys", json={"name": "ops"})).json["key"]
        api.clock.advance(60)
        statuses = [(await api.send("GET", SCHEDULES, key=ops)).status for _ in range(70)]
        assert set(statuses[:25]) == {200}
        assert statuses[-1] == 429
        assert (await api.send("GET", SCHEDULES)).status == 200, "the other administrator's is whole"
        assert (await api.send("GET", SCHEDULES, key=key)).status == 200, "and so is the client's"


async def test_creates_go_on_when_the_budget_is_used_up() -> None:
    async with ApiHarness(client_budget_per_second=1) as api:
        key = await api.register("shop")
        while not is_refused(await api.send("GET", SCHEDULES, key=key)):
            pass
        assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201
        batch = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": [schedule()] * 100})
        assert batch.status == 200


async def test_long_bodies_count_on_every_route(api: ApiHarness) -> None:
    async with ApiHarness(client_budget_per_second=1) as api:
        key = await api.register("shop")
        long = b'{"callback":{"url":"https://a.example/","json":"%b"}}' % (b"x" * 1_000_000)
        headers = {"Content-Type": "application/json"}
        assert (await api.send("POST", SCHEDULES, key=key, data=long, headers=headers)).status == 422
        assert is_refused(await api.send("POST", SCHEDULES, key=key, data=long, headers=headers))
        assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201


async def test_a_bulk_cancel_costs_what_it_cancels() -> None:
    async with ApiHarness(client_budget_per_second=10) as api:
        key = await api.register("shop")
        made = await api.send("POST", SCHEDULES + ":batch", key=key, json={"items": [schedule()] * 300})
        ids = [item["schedule"]["schedule_id"] for item in made.json["items"]]
        assert (await api.send("POST", SCHEDULES + ":cancel", key=key, json={"schedule_ids": ids})).status == 200
        refused = await api.send("GET", SCHEDULES, key=key)
        assert is_refused(refused)
        assert int(refused.headers["Retry-After"]) == 2


async def test_a_list_costs_what_it_looks_at_whatever_it_answers() -> None:
    async with ApiHarness(client_budget_per_second=5) as api:
        key = await api.register("shop")
        for _ in range(2):
            batch = await api.send(
                "POST", SCHEDULES + ":batch", key=key, json={"items": [schedule(delay_seconds=3600)] * 1000}
            )
            assert batch.status == 200
            api.clock.advance(100)
        replies = [await api.send("GET", SCHEDULES + "?label=none&limit=1000", key=key) for _ in range(3)]
        assert [reply.status for reply in replies] == [200, 429, 429]
        assert replies[0].json["items"] == []


async def test_a_list_that_fails_costs_what_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ApiHarness(client_budget_per_second=10) as api:
        key = await api.register("shop")
        assert (await api.send("POST", SCHEDULES, key=key, json=schedule())).status == 201

        async def away(*args: Any, **arguments: Any) -> Any:
            raise StoreUnavailable("away")

        monkeypatch.setattr(type(api.storage.schedules), "read_page", away)
        statuses = [(await api.send("GET", SCHEDULES + "?limit=1000", key=key)).status for _ in range(20)]
        assert 0 < statuses.count(503) < 8, "each costs 10, and a page of 250 rows"
        assert statuses[-1] == 429


async def test_a_cron_costs_what_was_counted_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ApiHarness(client_budget_per_second=10) as api:
        key = await api.register("shop")
        await api.add_built_in_clients()

        async def counted(*args: Any, limit: int, **arguments: Any) -> list[CronMark]:
            mark = CronMark(CronId("gone"), CronState.DELETED, None, UnixMillis(0))
            return [mark] * (limit - 1)

        monkeypatch.setattr(type(api.storage.crons), "read_marks", counted)
        body = {**RULE, "callback": {"url": "https://a.example/"}}
        path = "/v1/clients/shop/crons/{}"
        statuses = [(await api.send("PUT", path.format(n), key=key, json=body)).status for n in range(20)]
        assert statuses == [201] * 15 + [429] * 5, "each costs 5 and a little, the first one 20 for 999 rows"


class Gate:
    """A listing that waits until it is released."""

    def __init__(self) -> None:
        self.entered = 0
        self.free = asyncio.Event()

    async def __call__(self, *args: Any, **arguments: Any) -> Listing:
        self.entered += 1
        await self.free.wait()
        return Listing([], None)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    gate = Gate()

    async def listed(self: ListSchedules, *args: Any, **arguments: Any) -> Listing:
        return await gate(*args, **arguments)

    monkeypatch.setattr(ListSchedules, "__call__", listed)
    return gate


def begin(api: ApiHarness, key: str, client: str, count: int) -> list[asyncio.Task[Reply]]:
    path = SCHEDULES.replace("shop", client)
    return [asyncio.ensure_future(api.send("GET", path, key=key)) for _ in range(count)]


async def test_few_reads_of_one_caller_are_under_way_at_once(gate: Gate) -> None:
    async with ApiHarness() as api:
        key, other = await api.register("shop"), await api.register("other")
        asked = begin(api, key, "shop", HEAVY_READS_AT_ONCE + 3)
        await until(lambda: gate.entered == HEAVY_READS_AT_ONCE)
        assert (await api.send("GET", SCHEDULES + "/" + "0" * 36, key=key)).status == 404, "small reads don't wait"
        others = begin(api, other, "other", 1)
        await until(lambda: gate.entered == HEAVY_READS_AT_ONCE + 1)
        gate.free.set()
        assert [(await one).status for one in asked + others] == [200] * (HEAVY_READS_AT_ONCE + 4)
        assert gate.entered == HEAVY_READS_AT_ONCE + 4


async def test_a_read_that_waited_is_refused_when_those_before_it_used_up_the_budget(gate: Gate) -> None:
    async with ApiHarness(client_budget_per_second=10) as api:
        key = await api.register("shop")
        asked = begin(api, key, "shop", HEAVY_READS_AT_ONCE + 3)
        await until(lambda: gate.entered == HEAVY_READS_AT_ONCE)
        principal = await api.services.authenticate(f"Bearer {key}")
        api.services.request_budget.owe(principal, 200)
        gate.free.set()
        replies = [await one for one in asked]
        assert sorted(reply.status for reply in replies) == [200] * HEAVY_READS_AT_ONCE + [429] * 3
        assert gate.entered == HEAVY_READS_AT_ONCE


async def test_a_read_that_waits_too_long_is_refused_without_doubting_storage(gate: Gate) -> None:
    async with ApiHarness() as api:
        key = await api.register("shop")
        asked = begin(api, key, "shop", HEAVY_READS_AT_ONCE + 3)
        await until(lambda: gate.entered == HEAVY_READS_AT_ONCE)
        api.clock.advance(60)
        assert sorted([(await one).status for one in asked]) == [429] * 3 + [503] * HEAVY_READS_AT_ONCE


@pytest.mark.parametrize("route", COSTLY, ids=operation_id)
async def test_every_route_with_a_cost_is_refused(route: Route) -> None:
    async with ApiHarness(admin_budget_per_second=1) as api:
        while not is_refused(await api.send("GET", "/v1/admin-keys")):
            pass
        assert is_refused(await Story(api).try_(operation_id(route)))


def test_what_has_no_cost_has_a_rate_of_its_own() -> None:
    free = {operation_id(route) for route in ROUTES if route.access is not Access.OPEN and not route.cost}
    assert free <= {operation_id(route) for route in ROUTES if RATED[0] in route.problems}
    assert all(TOO_MANY in kinds_of(route) for route in COSTLY)


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("name", ["client_budget_per_second", "admin_budget_per_second"])
def test_a_budget_of_zero_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        ApiHarness(**{name: value})


async def test_a_balance_costs_what_had_to_be_counted() -> None:
    async with ApiHarness(client_budget_per_second=10) as api:
        key = await api.register("shop")
        items = {"items": [schedule()] * 1000}
        for _ in range(3):
            assert (await api.send("POST", SCHEDULES + ":batch", key=key, json=items)).status == 200
        hour = "/v1/clients/shop/balance?from=2026-11-21T09:00:00Z&to=2026-11-21T10:00:00Z"
        statuses = [(await api.send("GET", hour, key=key)).status for _ in range(9)]
        assert statuses == [200] * 7 + [429] * 2, "12 for 3,000 rows, and 4"
        none = "/v1/clients/shop/balance?from=2026-11-20T09:00:00Z&to=2026-11-20T10:00:00Z"
        api.clock.advance(60)
        assert {(await api.send("GET", none, key=key)).status for _ in range(20)} == {200}


async def test_who_has_many_addresses_of_ipv6_is_counted_as_one(api: ApiHarness) -> None:
    budget = api.services.request_budget
    for number in range(20):
        budget.take_login(f"2001:db8::{number:x}%eth0")
    for address in ("2001:db8::ffff:1", "2001:db8:0:0:ffff::"):
        with pytest.raises(Refusal, match="too many logins"):
            budget.take_login(address)
    for address in ("2001:db8:0:1::", "192.0.2.1", "::ffff:192.0.2.2", "::ffff:192.0.2.3", "unknown", "a:b"):
        for _ in range(20):
            budget.take_login(address)
    budget.give_back_login("2001:db8::77")
    budget.take_login("2001:db8::78")
