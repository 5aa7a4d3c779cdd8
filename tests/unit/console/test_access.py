"""Which sessions may open which page and send which form. Routes come from the table, so a new one is covered."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from scheduler_service.api.http.route import Route
from scheduler_service.console.routes import LOGIN, LOGOUT
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.browser import Browser, Shown
from tests.unit.console.conftest import browser_of
from tests.unit.console.test_login import Wire, form_token
from tests.unit.console.world import BEHIND, FORMS, OF_CLIENTS, OPEN, ROUTES, World

ONLY_SHOW = ("show", "preview")


@pytest.fixture
async def wire(api: ApiHarness) -> AsyncIterator[Wire]:
    one = Wire(api)
    yield one
    await one.close()


def ids(routes: list[Route]) -> list[str]:
    return [f"{route.method} {route.path}" for route in routes]


def test_only_the_login_and_files_are_open() -> None:
    assert {(route.method, route.path) for route in ROUTES} >= OPEN
    assert len(BEHIND) == len(ROUTES) - len(OPEN)
    assert all(route.path.startswith("/console/clients/{client_id}") for route in OF_CLIENTS)


@pytest.mark.parametrize("route", BEHIND, ids=ids(BEHIND))
async def test_without_a_session_each_leads_to_the_login(world: World, wire: Wire, route: Route) -> None:
    before = world.done()
    form = {"form_token": "0" * 64, "act": "cancel"} if route.method == "POST" else None
    for cookie in ("", "minutehand=", "minutehand=nonsense", f"minutehand={'0' * 64}", f"minutehand={ADMIN_KEY}"):
        answer = await wire.send(route.method, world.path(route), form=form, cookie=cookie)
        assert answer.status == 303
        assert (answer.location or "").partition("?")[0] == LOGIN
        assert answer.text == ""
    assert world.done() == before


@pytest.mark.parametrize("route", OF_CLIENTS, ids=ids(OF_CLIENTS))
async def test_another_clients_page_is_like_one_that_is_not_there(world: World, wire: Wire, route: Route) -> None:
    cookie, before = await wire.session(world.keys["shop"]), world.done()
    token = form_token(await wire.send("GET", "/console/clients/shop", cookie=cookie))
    acts = ("", "cancel", "show", "delete", "pause", "suspend") if route.method == "POST" else ("",)
    for act in acts:
        form = {"form_token": token, "act": act} if route.method == "POST" else None
        there = await wire.send(route.method, world.path(route), form=form, cookie=cookie)
        nowhere = await wire.send(route.method, world.path(route, "nobody"), form=form, cookie=cookie)
        assert there.status == nowhere.status
        assert there.status in (403, 404)
        names = [*world.names.values(), "private"]
        left = there.text.replace(world.path(route), "").replace(route.path.rpartition("/")[2], "")
        shown = [name for name in names if name in re.sub(r"/v1/clients/other[^\s\"]*", "", left)]
        assert shown == [], left
    assert world.done() == before


@pytest.mark.parametrize("route", FORMS, ids=ids(FORMS))
async def test_a_form_without_its_sessions_token_is_refused(world: World, wire: Wire, route: Route) -> None:
    cookie, before = await wire.session(), world.done()
    another = form_token(await wire.send("GET", "/console/cluster", cookie=await wire.session()))
    own = form_token(await wire.send("GET", "/console/cluster", cookie=cookie))
    assert own != another
    for given in ({}, {"form_token": ""}, {"form_token": another}, {"form_token": own[:-1]}, {"form_token": "é"}):
        for act in ("cancel", "delete", "pause", "suspend", "show"):
            form = {**given, "act": act, "node_id": "node-a", "client_id": "new", "poller_quota": "1"}
            answer = await wire.send("POST", world.path(route), form=form, cookie=cookie)
            assert answer.status == 403
    assert world.done() == before
    assert len(world.api.connection.rows("console_sessions")) == 2, "nobody was logged out"


async def pages(browser: Browser, world: World, client_id: str = "other") -> list[Shown]:
    """All pages of a client, as this session sees them."""
    routes = [route for route in OF_CLIENTS if route.method == "GET"]
    return [await browser.open(world.path(route, client_id)) for route in routes]


async def session_of(api: ApiHarness, scope: str) -> Browser:
    made = await api.send("POST", "/v1/clients/other/keys", json={"scope": scope, "name": scope})
    browser = browser_of(api)
    await browser.log_in(made.json["key"])
    return browser


async def test_a_key_that_may_only_read_can_post_no_change_that_a_manager_is_offered(world: World) -> None:
    """Every form that a manager is offered is sent again by it, with its own form token."""
    async with await session_of(world.api, "manage") as manager, await session_of(world.api, "read") as reader:
        mine = await reader.open("/console/clients/other")
        token, refused = mine.form().fields["form_token"], 0
        before = world.done()
        for page in await pages(manager, world):
            assert page.status == 200, page.path
            for form in page.forms:
                if form.method.lower() != "post" or form.action == LOGOUT:
                    continue
                form.fields["form_token"] = token
                for act in [value for name, value in form.buttons if name == "act"] or [form.fields.get("act", "")]:
                    form.fields["act"] = act
                    answer = await reader.submit(page, form)
                    refused += answer.status == 403
                    assert answer.status in (403, 422) or act in ONLY_SHOW, (page.path, act, answer.text)
                    after = world.done()
                    assert [name for name in after if after[name] != before[name]] == [], (page.path, act)
        assert refused >= 3


async def test_what_an_administrator_changes_is_in_the_audit_log(world: World) -> None:
    """Every form that changes anything leaves a record, as the API's own routes do."""
    changed = 0
    async with browser_of(world.api) as browser:
        await browser.log_in(ADMIN_KEY)
        for page in await pages(browser, world):
            for form in page.forms:
                if form.method.lower() != "post" or form.action == LOGOUT:
                    continue
                before, world.api.clock.now = world.done(), world.api.clock.now + 100
                logged = await entries(world.api)
                await browser.submit(page, form)
                if world.done() != before:
                    changed += 1
                    newest, *_ = await entries(world.api)
                    assert (newest["actor"], newest["by_client"]) == ("configured", False), (page.path, form)
                    assert newest not in logged
    assert changed >= 2


async def entries(api: ApiHarness) -> list[dict[str, Any]]:
    return list((await api.send("GET", "/v1/audit-log")).json["items"])


@pytest.mark.parametrize("client_id", ["..", "%2e%2e", "..%2F..", "other%2Fschedules", "$crons", "a%00b", "x" * 300])
async def test_a_name_in_an_address_leads_to_no_other_operation(world: World, wire: Wire, client_id: str) -> None:
    cookie = await wire.session(world.keys["shop"])
    for after in ("", "/schedules", "/audit-log"):
        answer = await wire.send("GET", f"/console/clients/{client_id}{after}", cookie=cookie)
        assert answer.status in (303, 403, 404)
        assert "private" not in answer.text
