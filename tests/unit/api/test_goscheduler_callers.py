"""Who may call GoScheduler's wire, and what a call reaches. Operations come from their table: a new one is covered."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from scheduler_service.api.bigben.settings import BigBenSettings
from scheduler_service.api.goscheduler.operations import PREFIX, Operation
from scheduler_service.api.goscheduler.routes import OPERATIONS, ROUTES
from scheduler_service.api.goscheduler.settings import MAX_APPS, GoSchedulerSettings
from scheduler_service.api.resources import ROUTES as OUR_ROUTES
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.ids import ClientId
from tests.support.api import ADMIN_KEY, ApiHarness, Reply, schedule
from tests.support.goscheduler import APPS, create, register, send, settings
from tests.support.goscheduler import schedule as body_of_schedule

KEY = "the-key-of-goschedulers-callers"
NAMES = [operation.handler.__name__ for operation in OPERATIONS]
HEALTH = "goscheduler_health"
REACHING = [operation for operation in OPERATIONS if operation.handler.__name__ != HEALTH]
SECRET = "of-another-client"


@dataclass
class Ids:
    """What an operation may name: of an app that is served, or of another client."""

    app_id: str
    schedule_id: str
    cron_id: str


@pytest.fixture
async def api() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(goscheduler=settings()) as harness:
        await harness.add_built_in_clients()
        await register(harness)
        yield harness


@pytest.fixture
async def keyed() -> AsyncIterator[ApiHarness]:
    async with ApiHarness(goscheduler=settings(key=KEY)) as harness:
        await harness.add_built_in_clients()
        await harness.register("test")
        await harness.register("athena")
        yield harness


async def ids_of(api: ApiHarness, app_id: str = "test") -> Ids:
    made, cron = (
        await create(api, appId=app_id),
        await create(api, appId=app_id, scheduleTime=None, cronExpression="* * * * *"),
    )
    return Ids(app_id, made["scheduleId"], cron["scheduleId"])


async def attempts(api: ApiHarness, operation: Operation, ids: Ids, key: str | None) -> list[Reply]:
    """Each way in which an operation can be asked about these."""
    body: object = None
    if operation.handler.__name__ == "goscheduler_create_schedule":
        body = body_of_schedule(appId=ids.app_id)
    elif operation.handler.__name__ == "goscheduler_register_app":
        body = {"appId": ids.app_id, "partitions": 7, "active": True}
    replies = []
    for path in operation.paths:
        for method in operation.methods:
            for id_ in (ids.schedule_id, ids.cron_id):
                filled = path.replace("{app_id}", ids.app_id).replace("{schedule_id}", id_)
                filled = filled.replace("{bulk_action}", "reconcile")
                replies.append(await send(api, method, filled, body, key=key, params={"app_id": ids.app_id}))
                if "{schedule_id}" not in path:
                    break
    return replies


async def other_client(api: ApiHarness) -> Ids:
    """A client that no app names, with a schedule and a cron whose id is a UUID."""
    key = await api.register("other")
    made = await api.send("POST", "/v1/clients/other/schedules", key=key, json=schedule(label=SECRET))
    cron_id = "71545a13-7a1d-4006-8d72-3104f77383c1"
    rule = {"expression": "@daily", "timezone": "UTC", "callback": {"url": "https://receiver.example/hook"}}
    await api.send("PUT", f"/v1/clients/other/crons/{cron_id}", key=key, json={**rule, "label": SECRET})
    return Ids("other", made.json["schedule_id"], cron_id)


def test_no_route_of_ours_is_below_the_prefix() -> None:
    assert not any(route.path.startswith(PREFIX) for route in OUR_ROUTES)
    assert all(route.path.startswith(PREFIX + "/") for route in ROUTES)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


async def test_it_is_off_by_default() -> None:
    async with ApiHarness() as api:
        for route in ROUTES:
            reply = await api.send(route.method, route.path.replace("{", "").replace("}", ""), key=ADMIN_KEY)
            assert reply.status == 404
            assert reply.json["type"] == "/problems/not-found"


@pytest.mark.parametrize("operation", REACHING, ids=[one.handler.__name__ for one in REACHING])
@pytest.mark.parametrize("key", [None, ADMIN_KEY])
async def test_no_other_client_is_reached(api: ApiHarness, operation: Operation, key: str | None) -> None:
    other = await other_client(api)
    before = (await api.send("GET", "/v1/clients/other")).json
    for reply in await attempts(api, operation, other, key):
        assert (reply.status, reply.json["status"]["statusCode"]) in ((400, 4001), (404, 404)), reply.body
        assert SECRET.encode() not in reply.body
    assert (await api.send("GET", "/v1/clients/other")).json == before
    shown = (await api.send("GET", f"/v1/clients/other/schedules/{other.schedule_id}")).json
    assert shown["state"] == "scheduled"
    assert (await api.send("GET", f"/v1/clients/other/crons/{other.cron_id}")).json["state"] == "active"


async def test_lists_of_all_apps_have_no_other_client(api: ApiHarness) -> None:
    other = await other_client(api)
    mine = await ids_of(api)
    for path in ("/apps", "/crons/schedules"):
        body = (await send(api, "GET", path)).body.decode()
        assert "other" not in body
        assert other.cron_id not in body
    assert mine.cron_id in (await send(api, "GET", "/crons/schedules")).body.decode()


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
async def test_a_clients_key_reaches_that_client(api: ApiHarness, operation: Operation) -> None:
    await register(api, "Athena")
    ids = await ids_of(api, "Athena")
    own, others = await key_of(api, "athena"), await key_of(api, "test")
    for reply in await attempts(api, operation, ids, others):
        if operation.handler.__name__ != HEALTH:
            assert reply.status in ((403,) if operation.scope is None else (400, 404)), reply.body
    for reply in await attempts(api, operation, ids, own):
        assert reply.json.get("status") != 401
        assert reply.status in ((403,) if operation.scope is None else (200, 400, 404)), reply.body
        assert b"not registered" not in reply.body
    found = (await send(api, "GET", "/apps", key=own)).json["data"]["apps"]
    assert [app["appId"] for app in found] == ["Athena"]


async def key_of(api: ApiHarness, client_id: str, scope: Scope = Scope.MANAGE) -> str:
    made = await api.send("POST", f"/v1/clients/{client_id}/keys", json={"scope": scope})
    return str(made.json["key"])


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
async def test_a_key_of_less_scope_is_refused(api: ApiHarness, operation: Operation) -> None:
    ids = await ids_of(api)
    for scope in Scope:
        if operation.scope is None or not scope.includes(operation.scope):
            key = await key_of(api, "test", scope)
            for reply in await attempts(api, operation, ids, key):
                assert (reply.status, reply.json["status"]["statusCode"]) == (403, 403)


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
async def test_where_a_key_is_needed(keyed: ApiHarness, operation: Operation) -> None:
    ids = Ids("test", "01a1fd71-dc20-8000-91e3-79615487ce1e", "71545a13-7a1d-4006-8d72-3104f77383c1")
    for key in (None, "another-key-of-some-length"):
        for reply in await attempts(keyed, operation, ids, key):
            assert (reply.status, reply.json["status"]["statusCode"]) == (401, 401)
            assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    basic = await send(keyed, "GET", "/apps", headers={"Authorization": "Basic dGVzdDp0ZXN0"})
    assert basic.status == 401
    for key in (KEY, ADMIN_KEY, await key_of(keyed, "test")):
        for reply in await attempts(keyed, operation, ids, key):
            refused = operation.scope is None and key not in (KEY, ADMIN_KEY)
            assert reply.status in ((403,) if refused else (200, 400, 404)), reply.body


def test_what_is_for_operators_only() -> None:
    named = {operation.handler.__name__ for operation in OPERATIONS if operation.scope is None}
    assert named == {"goscheduler_register_app", "goscheduler_deactivate_app", "goscheduler_activate_app"}


async def test_a_clients_key_changes_neither_its_quota_nor_its_suspension(api: ApiHarness) -> None:
    key = await key_of(api, "test")
    assert (await api.send("POST", "/v1/clients/test:suspend")).status == 200
    before = (await api.send("GET", "/v1/clients/test")).json
    app = {"appId": "test", "partitions": 64, "active": True, "configuration": {"payloadSize": 9}}
    for path in ("/apps", "/app", "/apps/test/activate", "/apps/test/deactivate"):
        reply = await send(api, "POST", path, app, key=key)
        assert (reply.status, reply.json["status"]["statusCode"]) == (403, 403)
        assert "with an operator's key" in reply.json["status"]["statusMessage"]
    assert (await api.send("GET", "/v1/clients/test")).json == before
    assert (await send(api, "POST", "/apps", app, key=ADMIN_KEY)).json["data"]["partitions"] == 64
    assert (await send(api, "POST", "/apps/test/deactivate", key=ADMIN_KEY)).status == 200


async def test_a_client_is_shown_to_the_keys_to_which_our_api_shows_it(api: ApiHarness) -> None:
    for scope in Scope:
        key = await key_of(api, "test", scope)
        shown = (await api.send("GET", "/v1/clients/test", key=key)).status
        assert (await send(api, "GET", "/apps", key=key)).status == shown


async def test_another_scheme_is_ignored_where_no_key_is_needed(api: ApiHarness) -> None:
    assert (await send(api, "GET", "/apps", headers={"Authorization": "Basic dGVzdDp0ZXN0"})).status == 200
    assert (await send(api, "GET", "/apps", key="wrong")).status == 401


@pytest.mark.parametrize(
    "header",
    [{"Origin": "http://localhost:8080"}, {"Sec-Fetch-Site": "same-origin"}, {"Host": "page.example:8080"}],
)
@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
async def test_a_web_page_is_refused_without_a_key(
    api: ApiHarness, operation: Operation, header: dict[str, str]
) -> None:
    path = (
        operation.paths[0].replace("{app_id}", "test").replace("{schedule_id}", "x").replace("{bulk_action}", "delete")
    )
    reply = await send(api, operation.methods[0], path, {}, headers=header)
    assert (reply.status, reply.json["status"]["statusCode"]) == (403, 403)


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
async def test_the_audit_log_has_what_administrators_do_elsewhere(api: ApiHarness, operation: Operation) -> None:
    name = operation.handler.__name__
    assert operation.audited == (name in AUDITED)
    ids = await ids_of(api)
    before = await entries(api)
    replies = await attempts(api, operation, ids, None)
    made = (await entries(api))[: len(replies)] if operation.audited else (await entries(api))
    if not operation.audited:
        assert made == before
        return
    for entry in made:
        assert (entry["action"], entry["actor"], entry["target"]) == (
            name,
            "goscheduler without a key",
            {"client_id": "test"},
        )
        assert entry["status"] is not None


AUDITED = {
    "goscheduler_register_app",
    "goscheduler_deactivate_app",
    "goscheduler_activate_app",
    "goscheduler_bulk_action",
}


async def entries(api: ApiHarness) -> list[dict[str, object]]:
    return list((await api.send("GET", "/v1/audit-log")).json["items"])


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
async def test_what_it_costs_is_bounded(operation: Operation) -> None:
    """Creates have a rate of their client's instead, and the health check answers from memory."""
    if not operation.cost:
        assert operation.handler.__name__ in (HEALTH, "goscheduler_create_schedule")
        return
    async with ApiHarness(goscheduler=settings(), admin_budget_per_second=0.1) as api:
        for _ in range(20):
            path = operation.paths[0].replace("{app_id}", "test").replace("{schedule_id}", "x")
            reply = await send(api, operation.methods[0], path.replace("{bulk_action}", "delete"), {})
            if reply.status == 429:
                break
        assert reply.json["status"]["statusCode"] == 429
        assert int(reply.headers["Retry-After"]) >= 1


async def test_creates_have_their_clients_rate() -> None:
    async with ApiHarness(goscheduler=settings()) as api:
        await api.register("test", settings={"create_rate_per_second": 0.1})
        assert (await send(api, "POST", "/schedules", body_of_schedule())).status == 200
        refused = await send(api, "POST", "/schedules", body_of_schedule())
        assert (refused.status, refused.json["status"]["statusCode"]) == (429, 429)


async def test_a_client_is_changed_so_often_at_most(api: ApiHarness) -> None:
    for number in range(50):
        reply = await send(api, "POST", f"/apps/test/{'activate' if number % 2 else 'deactivate'}")
        if reply.status != 200:
            break
    assert (reply.status, reply.json["status"]["statusCode"]) == (429, 429)
    registering = await send(api, "POST", "/apps", {"appId": "test", "partitions": 9, "active": True})
    assert registering.status == 429


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"partitions": 65}, "partitions"),
        ({"partitions": -1}, "partitions"),
        ({"configuration": {"httpRetries": 101}}, "configuration.httpRetries"),
        ({"configuration": {"payloadSize": -1}}, "configuration.payloadSize"),
        ({"configuration": {"httpTimeout": 99}}, "configuration.httpTimeout"),
        ({"configuration": {"firedScheduleRetentionPeriod": 91}}, "configuration.firedScheduleRetentionPeriod"),
        ({"configuration": {"futureScheduleCreationPeriod": 3651}}, "configuration.futureScheduleCreationPeriod"),
    ],
)
async def test_an_app_beyond_the_operators_bounds(api: ApiHarness, fields: dict[str, object], name: str) -> None:
    reply = await send(api, "POST", "/apps", {"appId": "test", "active": True, **fields})
    assert (reply.status, reply.json["status"]["statusCode"]) in ((400, 400), (400, 5001))
    assert name in reply.json["status"]["statusMessage"]


@pytest.mark.parametrize(
    "fields",
    [
        {"apps": ("Upper",)},
        {"apps": ("$cron",)},
        {"apps": ("x=$cron",)},
        {"apps": ("a b=ab",)},
        {"apps": ("",)},
        {"apps": ("one", "two=one")},
        {"apps": ("one", "one=two")},
        {"apps": tuple(f"app-{number}" for number in range(MAX_APPS + 1))},
        {"key": "short"},
        {"key": "with a space in it, long"},
        {"timezone": "Nowhere/Else"},
        {"query_timezone": "IST"},
        {"default_partitions": 0},
        {"default_partitions": 9, "max_partitions": 8},
        {"max_partitions": 2_000},
    ],
)
def test_settings_that_cannot_work(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        GoSchedulerSettings(**fields)  # type: ignore[arg-type]


def test_the_clients_of_apps() -> None:
    assert settings().clients() == {"test": ClientId("test"), "Athena": ClientId("athena")}
    assert GoSchedulerSettings().on is False


def test_callers_without_a_key_are_for_this_machine() -> None:
    def configured(host: str, **fields: object) -> ApiSettings:
        return ApiSettings(admin_key=ADMIN_KEY, host=host, goscheduler=GoSchedulerSettings(**fields))  # type: ignore[arg-type]

    for host in ("0.0.0.0", "10.0.0.7", "::"):
        with pytest.raises(ValueError, match="goscheduler: lets callers without a key in"):
            configured(host, apps=APPS)
        configured(host)
        configured(host, apps=APPS, key=KEY)
        configured(host, apps=APPS, open_to_network=True)
    configured("127.0.0.1", apps=APPS)


def test_bigben_s_callers_without_a_key_are_for_this_machine() -> None:
    def configured(host: str, **fields: object) -> ApiSettings:
        return ApiSettings(admin_key=ADMIN_KEY, host=host, bigben=BigBenSettings(client="shop", **fields))  # type: ignore[arg-type]

    with pytest.raises(ValueError, match=r"bigben: lets callers without a key in.*0\.0\.0\.0: leave keyless out"):
        configured("0.0.0.0", keyless="read")
    configured("0.0.0.0")
    configured("0.0.0.0", keyless="read", open_to_network=True)
    configured("localhost", keyless="read")
