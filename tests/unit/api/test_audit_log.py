"""On every route, an administrator's action leaves a record or is not done."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import structlog

from membership.errors import StoreUnavailable
from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.endpoint import audited
from scheduler_service.api.http.route import RequestContext, Route, no_content, operation_id
from scheduler_service.api.http.timeouts import Deadline
from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.resources import ROUTES
from scheduler_service.domain.audit_log import AuditEntry
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.crons.row import CRON_CLIENT
from scheduler_service.usecases.audit_log import BY_SYSTEM
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.api_story import Story
from tests.support.cron_calls import end
from tests.support.nodes import Nodes
from tests.unit.api.test_examples import GAVE_UP

LOG = "/v1/audit-log"
OWN_LOG = "/v1/clients/shop/audit-log"
AUDITED = {operation_id(route): route for route in ROUTES if route.changes and route.access is not Access.OPEN}
CLIENTS_OWN = {id_: route for id_, route in AUDITED.items() if route.access is Access.CLIENT}
BEFORE = ("put_client", "create_key", "create_secret", "create_schedule")
ALSO: dict[str, str | tuple[str, ...]] = {
    "delete_client": "suspend_client",
    "revoke_admin_key": "create_admin_key",
    "stop_reconciliation": "create_reconciliation",
    "cancel_schedule_by_key": "put_schedule",
    **dict.fromkeys(
        ("backfill_cron", "delete_cron", "pause_cron", "pause_crons", "resume_cron", "trigger_cron"), "put_cron"
    ),
    **dict.fromkeys(("pause_destination", "resume_destination", "delete_destination"), "put_destination"),
    "put_subscription": "put_destination",
    "delete_subscription": ("put_destination", "put_subscription"),
}
SECRETS = re.compile(r"mh_[0-9a-f]+_|whsec_|[0-9a-f]{32}")


async def entries(api: ApiHarness, *, path: str = LOG, key: str = ADMIN_KEY, **params: str) -> list[dict[str, Any]]:
    reply = await api.send("GET", path, key=key, params=params)
    assert reply.status == 200, reply.body
    return list(reply.json["items"])


async def story_for(api: ApiHarness, id_: str) -> Story:
    """Create one of everything; then move the clock on, so that later entries are the newest."""
    await api.add_built_in_clients()
    story = Story(api)
    also = ALSO.get(id_, ())
    for one in (*BEFORE, *((also,) if isinstance(also, str) else also)):
        await story.send(one)
        api.clock.advance(0.1)
    if id_ == "redeliver_schedule":
        await end(api, story.names["schedule_id"], GAVE_UP)
    nodes = Nodes(api)
    await nodes.beat(await nodes.add("node-a"), seconds=2)
    return story


def rows(api: ApiHarness) -> Mapping[str, Any]:
    return {name: api.connection.rows(name) for name in api.connection.tables if not name.startswith("audit_log")}


def test_what_is_audited_follows_from_the_table() -> None:
    assert AUDITED.keys() == {
        operation_id(route)
        for route in ROUTES
        if route.method != "GET" and route.path != "/v1/crons:preview" and route.access is not Access.OPEN
    }
    assert {"put_client", "delete_client", "create_key", "revoke_key", "create_admin_key", "drain_node"} <= set(AUDITED)
    assert {"cancel_schedules", "put_cron", "trial_call", "create_schedule"} <= set(AUDITED)


@pytest.mark.parametrize("id_", AUDITED)
async def test_an_action_is_recorded(api: ApiHarness, id_: str) -> None:
    story = await story_for(api, id_)
    reply = await story.try_(id_)
    assert reply.status < 300, reply.body
    (newest, *_) = await entries(api)
    names = re.findall(r"\{(\w+)\}", AUDITED[id_].path)
    assert newest["target"] == {name: story.names[name] for name in names}
    assert (newest["action"], newest["actor"], newest["key_id"]) == (id_, "configured", None)
    assert (newest["result"], newest["status"], newest["problem"]) == ("done", reply.status, None)
    assert newest["request_id"] == reply.headers["X-Request-Id"]
    assert newest["client_id"] == newest["target"].get("client_id")
    if id_ != "delete_client":
        assert (newest in await entries(api, path=OWN_LOG)) is (newest["client_id"] == "shop")
    assert newest["details"], "the handler says by `Call.log` what it did"
    assert not SECRETS.search(str({**newest, "entry_id": ""}))


@pytest.mark.parametrize("id_", AUDITED)
async def test_nothing_is_done_that_can_not_be_recorded(
    api: ApiHarness, id_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = await story_for(api, id_)
    before, drained, sent = rows(api), list(api.nodes.drained), list(api.trial_calls.sent)

    async def lost(entry: AuditEntry) -> None:
        raise StoreUnavailable("nobody answers")

    monkeypatch.setattr(api.storage.audit_log, "begin", lost)
    reply = await story.try_(id_)
    assert (reply.status, reply.json["type"]) == (503, "/problems/storage-unavailable")
    assert (rows(api), api.nodes.drained, api.trial_calls.sent) == (before, drained, sent)


@pytest.mark.parametrize("id_", CLIENTS_OWN)
async def test_management_by_a_clients_own_key_is_recorded(api: ApiHarness, id_: str) -> None:
    story = await story_for(api, id_)
    made = (await api.send("POST", "/v1/clients/shop/keys", json={"scope": "manage"})).json
    api.clock.advance(0.1)
    before = await entries(api)
    assert (await story.try_(id_, key=made["key"])).status < 300
    newest, *others = await entries(api)
    if CLIENTS_OWN[id_].scope is not Scope.MANAGE and not CLIENTS_OWN[id_].recorded:
        assert [newest, *others] == before
        return
    assert others == before
    assert (newest["action"], newest["client_id"], newest["result"]) == (id_, "shop", "done")
    assert (newest["actor"], newest["key_id"], newest["by_client"]) == ("shop", made["key_id"], True)
    assert newest in await entries(api, path=OWN_LOG)


@pytest.mark.parametrize("id_", CLIENTS_OWN)
async def test_built_in_clients_refuse_it(api: ApiHarness, id_: str) -> None:
    story = await story_for(api, id_)
    story.names["client_id"] = CRON_CLIENT
    before = rows(api)
    reply = await story.try_(id_)
    assert (reply.status, reply.json["type"]) == (409, "/problems/built-in-client")
    assert rows(api) == before


@pytest.mark.parametrize("id_", AUDITED)
async def test_an_end_that_can_not_be_recorded_is_logged(
    api: ApiHarness, id_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = await story_for(api, id_)

    async def lost(entry: AuditEntry) -> None:
        raise StoreUnavailable("nobody answers")

    monkeypatch.setattr(api.storage.audit_log, "end", lost)
    with structlog.testing.capture_logs() as said:
        reply = await story.try_(id_)
    assert reply.status < 300, "what was done is answered: it may hold a key that is never shown again"
    (line,) = [one for one in said if one["event"] == "audit-end-unrecorded"]
    (newest, *_) = await entries(api)
    assert (newest["action"], newest["result"], newest["status"]) == (id_, "unknown", None)
    assert (line["entry_id"], line["operation"], line["status"]) == (newest["entry_id"], id_, reply.status)


@pytest.mark.parametrize("id_", AUDITED)
async def test_the_beginning_is_durable_before_anything_is_done(
    api: ApiHarness, id_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the handler does, the entry's first half is stored when it is called."""
    story = await story_for(api, id_)
    seen = []

    async def handler(call: RequestContext) -> Any:
        seen.append([row for row in api.connection.rows("audit_log") if row["request_id"] == call.request_id])
        raise RuntimeError("killed")

    handler.__name__ = id_
    route = Route(method="POST", path="/x", access=Access.ADMIN, handler=handler, summary="X")
    around = audited(route)
    request = type("Request", (), {"match_info": dict(story.names)})()
    call = RequestContext(
        request,
        route=route,
        request_id="of-this-test",
        services=api.services,
        settings=api.settings,
        exposition=None,  # type: ignore[arg-type]
        documents=None,  # type: ignore[arg-type]
        deadline=Deadline(0.0, None),
    )
    call.principal = await api.services.authenticate(f"Bearer {ADMIN_KEY}")
    with pytest.raises(RuntimeError):
        await around(call)
    ((row,),) = seen
    assert (row["action"], row["status"]) == (id_, None)
    (newest, *_) = await entries(api)
    assert (newest["result"], newest["status"], newest["problem"]) == ("unknown", 500, "internal")


async def test_refusals_are_recorded_as_such(api: ApiHarness) -> None:
    await api.register("shop")
    api.clock.advance(0.1)
    assert (await api.send("DELETE", "/v1/clients/shop")).status == 409
    api.clock.advance(0.1)
    assert (await api.send("PUT", "/v1/clients/UPPER", json={"poller_quota": 0})).status == 422
    found = [(one["action"], one["result"], one["status"], one["problem"]) for one in await entries(api)]
    assert found[:2] == [("put_client", "refused", 422, "invalid"), ("delete_client", "refused", 409, "not-suspended")]


async def test_whose_key_is_no_administrators_leaves_no_record(api: ApiHarness) -> None:
    key = await api.register("shop")
    before = api.connection.rows("audit_log")
    for other in (key, "nonsense", None):
        assert (await api.send("POST", "/v1/clients/shop/keys", key=other)).status in (401, 403)
    named = (await api.send("POST", "/v1/admin-keys", json={"name": "ops"})).json
    assert (await api.send("POST", "/v1/admin-keys", key=named["key"], json={"name": "x"})).status == 403
    assert len(api.connection.rows("audit_log")) == len(before) + 1


async def test_a_named_administrator_is_identified(api: ApiHarness) -> None:
    named = (await api.send("POST", "/v1/admin-keys", json={"name": "configured"})).json
    api.clock.advance(0.1)
    await api.send("PUT", "/v1/clients/shop", key=named["key"], json={"poller_quota": 2})
    (newest, made) = await entries(api)
    assert (newest["actor"], newest["key_id"]) == ("configured", named["key_id"])
    assert newest["details"].keys() == {"client_id", "poller_quota", "revision", "secret_id"}
    assert (newest["details"]["client_id"], newest["details"]["poller_quota"]) == ("shop", 2)
    assert (made["key_id"], made["details"]) == (None, {"name": "configured", "key_id": named["key_id"]})


async def test_long_names_are_cut(api: ApiHarness) -> None:
    assert (await api.send("DELETE", f"/v1/clients/{'x' * 4000}")).status == 404
    (newest,) = await entries(api)
    assert newest["target"] == {"client_id": "x" * 128}


async def test_pages_go_on_where_the_one_before_ended(api: ApiHarness) -> None:
    for number in range(7):
        await api.send("POST", f"/v1/clients/c{number}:suspend")
        api.clock.advance(50_000 if number % 2 else 0)
    window = {"from": "2026-11-20T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
    every = await entries(api, **window)
    assert len(every) == 7
    assert [one["at"] for one in every] == sorted((one["at"] for one in every), reverse=True)
    for size in (1, 2, 3, 7):
        found: list[Any] = []
        reply = await api.send("GET", LOG, params={**window, "limit": str(size)})
        while True:
            found += reply.json["items"]
            assert len(reply.json["items"]) <= size
            if (cursor := reply.json["next_cursor"]) is None:
                break
            reply = await api.send("GET", LOG, params={"limit": str(size), "cursor": cursor})
        assert found == every


async def test_the_window_is_bounded_and_what_is_left_out_is_now(api: ApiHarness) -> None:
    await api.register("shop")
    assert len(await entries(api)) == 2
    assert len(await entries(api, **{"from": "2026-11-21T09:30:00Z"})) == 2
    assert await entries(api, to="2026-11-21T09:30:00Z") == []
    api.clock.advance(25 * 3600)
    assert await entries(api) == []
    assert len(await entries(api, **{"from": "2026-11-01T00:00:00Z"})) == 2
    for params, pointer in (
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}, "/to"),
        ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-02T00:00:00Z"}, "/to"),
        ({"from": "yesterday", "limit": "1001"}, "/from"),
        ({"cursor": "bm90aGluZw"}, "/cursor"),
    ):
        reply = await api.send("GET", LOG, params=params)
        assert reply.status == 422
        assert pointer in reply.faults


async def test_a_cursor_of_another_listing_or_beside_another_window_is_refused(api: ApiHarness) -> None:
    key = await api.register("shop")
    cursor = (await api.send("GET", LOG, params={"limit": "1"})).json["next_cursor"]
    assert cursor is not None
    reply = await api.send("GET", LOG, params={"cursor": cursor, "from": "2026-11-01T00:00:00Z"})
    assert list(reply.faults) == ["/from"]
    reply = await api.send("GET", "/v1/clients/shop/dead-letters", key=key, params={"cursor": cursor})
    assert list(reply.faults) == ["/cursor"]


def test_a_route_that_is_added_is_audited() -> None:
    async def act(call: RequestContext) -> Any:
        return no_content()

    for access in Access:
        for method in ("GET", "POST", "PUT", "DELETE"):
            scope = Scope.WRITE if access is Access.CLIENT else None
            route = Route(method=method, path="/v1/x", access=access, scope=scope, handler=act, summary="X")
            assert route.changes is (method != "GET")


def test_the_example_is_of_what_is_audited() -> None:
    (shown,) = EXAMPLES["list_audit_log"].answer["items"]
    assert shown["action"] in AUDITED


async def test_a_client_sees_what_was_done_to_it_but_not_who_administers(api: ApiHarness) -> None:
    await api.register("shop")
    await api.register("bank")
    ops = (await api.send("POST", "/v1/admin-keys", json={"name": "ops"})).json["key"]
    made = (await api.send("POST", "/v1/clients/shop/keys", key=ops, json={"scope": "manage"})).json
    api.clock.advance(1)
    assert (await api.send("POST", "/v1/clients/shop:pause", key=made["key"])).status == 200
    api.clock.advance(1)
    assert (await api.send("DELETE", "/v1/clients/shop/keys/none", key=made["key"])).status == 404
    whole, own = await entries(api), await entries(api, path=OWN_LOG, key=made["key"])
    of_shop = [one for one in whole if one["client_id"] == "shop"]
    assert [one["entry_id"] for one in own] == [one["entry_id"] for one in of_shop]
    assert [one["result"] for one in own[:2]] == ["refused", "done"]
    for seen, stored in zip(own, of_shop, strict=True):
        if stored["by_client"]:
            assert seen == stored
            assert (seen["actor"], seen["key_id"]) == ("shop", made["key_id"])
        else:
            assert seen == {**stored, "actor": "administrator", "key_id": None}
    assert {one["actor"] for one in own} == {"shop", "administrator"}
    assert await entries(api, path=OWN_LOG) == of_shop, "administrators see all of it"


async def test_what_a_node_did_by_itself_is_shown_to_the_client_and_the_operator(api: ApiHarness) -> None:
    await api.register("shop")
    manager = (await api.send("POST", "/v1/clients/shop/keys", json={"scope": "manage"})).json["key"]
    target = {"client_id": "shop", "cron_id": "tick"}
    begun = await api.services.audit_log.begin(BY_SYSTEM, action="pause_cron", target=target, request_id="")
    await api.services.audit_log.end(begun, status=200, problem=None, details={"node_id": "host-0"})
    for path, key in ((LOG, ADMIN_KEY), ("/v1/clients/shop/audit-log", manager)):
        (shown,) = [one for one in await entries(api, path=path, key=key) if one["action"] == "pause_cron"]
        assert (shown["actor"], shown["key_id"], shown["by_client"]) == ("$system", None, False)
        assert (shown["target"], shown["details"], shown["result"]) == (target, {"node_id": "host-0"}, "done")


async def test_a_clients_own_log_is_paged_and_its_cursors_are_of_no_other(api: ApiHarness) -> None:
    await api.register("shop")
    await api.register("bank")
    key = (await api.send("POST", "/v1/clients/shop/keys", json={"scope": "manage"})).json["key"]
    for _ in range(3):
        api.clock.advance(30_000)
        await api.send("POST", "/v1/clients/shop:pause", key=key)
    window = {"from": "2026-11-20T00:00:00Z", "to": "2026-12-01T00:00:00Z"}
    every = await entries(api, path=OWN_LOG, key=key, **window)
    assert len(every) == 6
    assert [one["at"] for one in every] == sorted((one["at"] for one in every), reverse=True)
    first = (await api.send("GET", OWN_LOG, key=key, params={**window, "limit": "4"})).json
    second = (await api.send("GET", OWN_LOG, key=key, params={"limit": "4", "cursor": first["next_cursor"]})).json
    assert (first["items"] + second["items"], second["next_cursor"]) == (every, None)
    for path in (LOG, "/v1/clients/bank/audit-log"):
        reply = await api.send("GET", path, params={"cursor": first["next_cursor"]})
        assert list(reply.faults) == ["/cursor"]
    of_all = (await api.send("GET", LOG, params={**window, "limit": "2"})).json["next_cursor"]
    assert list((await api.send("GET", OWN_LOG, key=key, params={"cursor": of_all})).faults) == ["/cursor"]
    reply = await api.send(
        "GET", OWN_LOG, key=key, params={"from": "2026-01-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
    )
    assert list(reply.faults) == ["/to"]
