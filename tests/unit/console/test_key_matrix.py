"""Every page and every act of every form, with every kind of key: it does what the API lets that key do, and no more.

The tables say what each needs. A route or an act that is not in them fails, so a new one is judged, too.
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import pytest

from scheduler_service.console.routes import LOGOUT
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.support.browser import Browser
from tests.unit.console.conftest import browser_of
from tests.unit.console.world import FORMS, OF_OPERATORS, SHOWN, World

CLIENT: Final = "/console/clients/{client_id}"
SCHEDULE: Final = CLIENT + "/schedules/{schedule_id}"
CRON: Final = CLIENT + "/crons/{cron_id}"
DESTINATION: Final = CLIENT + "/destinations/{destination}"
SHARES: Final = 6
"""Parts of the pages that a test opens, as each has little CPU time."""
RANKS: Final = {"read": 0, "write": 1, "manage": 2, "admin": 3, "configured": 4}
PAGES_OF_MANAGERS: Final = {CLIENT + "/keys", CLIENT + "/settings", CLIENT + "/audit-log"}
NEW_SCHEDULE: Final = {"callback.url": "https://receiver.example/hook", "due": "in 10 min"}
NEW_CRON: Final = {"cron_id": "new", "expression": "0 9 * * *", "callback.url": "https://receiver.example/hook"}
WINDOW: Final = {"from": "2026-11-21T09:00:00Z", "to": "2026-11-22T09:00:00Z"}

Needs = Mapping[tuple[str, str], tuple[str, Mapping[str, str]]]
NEEDS: Final[Needs] = {
    ("/console/cluster/nodes:drain", ""): ("admin", {"node_id": "none"}),
    ("/console/cluster/nodes:undrain", ""): ("admin", {"node_id": "none"}),
    ("/console/cluster/overdue-rate", ""): ("admin", {"overdue_per_second": "50"}),
    ("/console/admin-keys", "create-key"): ("configured", {"name": "new"}),
    ("/console/admin-keys", "revoke-key"): ("configured", {"key_id": "none"}),
    ("/console/clients", ""): ("admin", {"client_id": "new", "poller_quota": "1"}),
    (CLIENT, "pause"): ("manage", {}),
    (CLIENT, "unpause"): ("manage", {}),
    (CLIENT, "suspend"): ("admin", {}),
    (CLIENT, "resume"): ("admin", {}),
    (CLIENT, "delete"): ("admin", {}),
    (CLIENT + "/events", ""): ("manage", {}),
    (CLIENT + "/reconciliations", ""): ("write", {**WINDOW, "action": "report", "state.failed": "on"}),
    (CLIENT + "/reconciliations/{reconciliation_id}", ""): ("write", {}),
    (CLIENT + "/schedules:new", "preview"): ("read", {}),
    (CLIENT + "/schedules:new", ""): ("write", NEW_SCHEDULE),
    (CLIENT + "/schedules:window", "cancel"): ("write", WINDOW),
    (CLIENT + "/schedules:window", "reschedule"): ("write", {**WINDOW, "due": "+1 h"}),
    (SCHEDULE + ":edit", "preview"): ("read", {}),
    (SCHEDULE + ":edit", "show"): ("read", {}),
    (SCHEDULE + ":edit", ""): ("write", {"label": "new", "callback": "keep"}),
    (SCHEDULE, "show"): ("read", {}),
    (SCHEDULE, "cancel"): ("write", {}),
    (SCHEDULE, "redeliver"): ("write", {}),
    (SCHEDULE, "run"): ("write", {}),
    (SCHEDULE, "reschedule"): ("write", {"due": "2026-11-22T09:00"}),
    (CLIENT + "/dead-letters", "redeliver-all"): ("write", WINDOW),
    (CLIENT + "/dead-letters", "acknowledge-all"): ("write", WINDOW),
    (CLIENT + "/dead-letters", "redeliver-selected"): ("write", {"letter": "x"}),
    (CLIENT + "/dead-letters", "acknowledge-selected"): ("write", {"letter": "x"}),
    (CLIENT + "/keys", "create-key"): ("manage", {"scope": "read"}),
    (CLIENT + "/keys", "revoke-key"): ("manage", {"key_id": "none"}),
    (CLIENT + "/keys", "create-secret"): ("manage", {"scheme": "hmac-sha256"}),
    (CLIENT + "/keys", "delete-secret"): ("manage", {"secret_id": "none"}),
    (CLIENT + "/settings", "own"): ("manage", {}),
    (CLIENT + "/settings", "all"): ("admin", {"poller_quota": "3", "settings": "{}"}),
    (CLIENT + "/subscriptions", "put"): ("manage", {"name": "new", "destination": "private-destination"}),
    (CLIENT + "/subscriptions", "delete"): ("manage", {"name": "none"}),
    (CLIENT + "/trial-call", ""): ("write", {"url": "https://receiver.example/hook"}),
    (CLIENT + "/crons:new", "preview"): ("read", NEW_CRON),
    (CLIENT + "/crons:new", ""): ("write", NEW_CRON),
    (CLIENT + "/crons:labelled", "look-pause"): ("write", {"label": "private"}),
    (CLIENT + "/crons:labelled", "look-resume"): ("write", {"label": "private"}),
    (CLIENT + "/crons:labelled", "pause"): ("write", {"label": "private"}),
    (CLIENT + "/crons:labelled", "resume"): ("write", {"label": "private"}),
    (CRON + ":backfill", "preview"): ("write", {"from": "2026-11-20T09:00:00Z"}),
    (CRON + ":backfill", "backfill"): ("write", {"from": "2026-11-20T09:00:00Z"}),
    (CRON + ":edit", "preview"): ("read", NEW_CRON),
    (CRON + ":edit", "show"): ("read", {}),
    (CRON + ":edit", ""): ("write", NEW_CRON),
    (CRON, "show"): ("read", {}),
    (CRON, "pause"): ("write", {}),
    (CRON, "resume"): ("write", {}),
    (CRON, "trigger"): ("write", {}),
    (CRON, "delete"): ("write", {}),
    (CLIENT + "/destinations:new", ""): ("manage", {"name": "new", "url": "https://receiver.example"}),
    (DESTINATION + ":edit", ""): ("manage", {"url": "https://receiver.example"}),
    (DESTINATION, "pause"): ("manage", {}),
    (DESTINATION, "resume"): ("manage", {}),
    (DESTINATION, "delete"): ("manage", {}),
}


def test_the_table_has_every_form() -> None:
    forms = {route.path for route in FORMS if route.path != LOGOUT}
    assert {path for path, _ in NEEDS} == forms


async def key_of(api: ApiHarness, kind: str, client_id: str = "other") -> str:
    match kind:
        case "configured":
            return ADMIN_KEY
        case "admin":
            return str((await api.send("POST", "/v1/admin-keys", json={"name": "operator"})).json["key"])
        case _:
            made = await api.send("POST", f"/v1/clients/{client_id}/keys", json={"scope": kind})
            return str(made.json["key"])


async def token_of(browser: Browser, client_id: str = "other") -> str:
    shown = await browser.open(f"/console/clients/{client_id}")
    return next(form.fields["form_token"] for form in shown.forms if "form_token" in form.fields)


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("kind", RANKS)
async def test_every_page_with_every_kind_of_key(world: World, kind: str, share: int) -> None:
    async with browser_of(world.api) as browser:
        await browser.log_in(await key_of(world.api, kind))
        for route in SHOWN[share::SHARES]:
            needed = "admin" if route in OF_OPERATORS else "manage" if route.path in PAGES_OF_MANAGERS else "read"
            shown = await browser.open(world.path(route))
            may = RANKS[kind] >= RANKS[needed]
            assert shown.status == (200 if may else 403), (route.path, kind, shown.text)
            if not may:
                assert "private" not in re.sub(r"\S*private-\S*", "", shown.text)
                assert "node-a" not in re.sub(r"/v1/\S*", "", shown.text)


@pytest.mark.parametrize("kind", RANKS)
async def test_every_act_with_every_kind_of_key(world: World, kind: str) -> None:
    paths = {route.path: world.path(route) for route in FORMS}
    async with browser_of(world.api) as browser:
        await browser.log_in(await key_of(world.api, kind))
        token = await token_of(browser)
        for allowed, ((path, act), (needed, fields)) in product((False, True), NEEDS.items()):
            # What is refused comes first, as it changes nothing; acts that delete come last of what is allowed.
            if allowed != (RANKS[kind] >= RANKS[needed]):
                continue
            before = world.done()
            shown = await browser.post(paths[path], {**fields, "act": act, "form_token": token})
            said = (path, act, kind, shown.status, shown.text)
            if allowed:
                assert shown.status != 403, said
            else:
                assert shown.status == (404 if path == "/console/clients" else 403), said
                assert world.done() == before, said


@pytest.mark.parametrize("kind", ["read", "write", "manage"])
async def test_no_act_reaches_another_client(world: World, kind: str) -> None:
    paths = {route.path: world.path(route) for route in FORMS}
    async with browser_of(world.api) as browser:
        await browser.log_in(await key_of(world.api, kind, "shop"))
        token, before = await token_of(browser, "shop"), world.done()
        for (path, act), (_, fields) in NEEDS.items():
            shown = await browser.post(paths[path], {**fields, "act": act, "form_token": token})
            assert shown.status in (403, 404), (path, act, shown.text)
            assert world.done() == before, (path, act)


def hostile() -> list[tuple[str, Any, int]]:
    """A name, what is sent, and the status of the answer."""
    many = "&".join(f"letter={number:08d}-0000-8000-8000-000000000000" for number in range(10_000))
    form = "application/x-www-form-urlencoded"
    return [
        ("huge", ("a=" + "b" * 300_000, form), 413),
        ("ten thousand ids", (many, form), 413),
        ("a thousand ids", (many[: 1000 * 44], form), 400),
        ("JSON", ('{"act": "cancel"}', "application/json"), 415),
        ("multipart", ("--x\r\n\r\n--x--", "multipart/form-data; boundary=x"), 415),
        ("plain text, as other sites may send it", ("act=cancel", "text/plain"), 415),
        ("no UTF-8", (b"act=\xff\xfe", form), 400),
        ("nothing", ("", form), 403),
        ("a repeated token", ("form_token={token}&form_token={token}&act=cancel", form), 403),
        ("a token with NUL", ("form_token={token}%00&act=cancel", form), 403),
    ]


@pytest.mark.parametrize(("sent", "status"), [case[1:] for case in hostile()], ids=[case[0] for case in hostile()])
async def test_hostile_forms_are_refused_by_every_route(world: World, sent: tuple[Any, str], status: int) -> None:
    text, media = sent
    async with browser_of(world.api) as browser:
        await browser.log_in(ADMIN_KEY)
        token, before = await token_of(browser), world.done()
        data = text.replace("{token}", token) if isinstance(text, str) else text
        for route in FORMS:
            shown = await browser.post(world.path(route), data, media=media)
            assert shown.status == status, (route.path, shown.text)
        assert world.done() == before


STRANGE: Final = ("a\0b", "x" * 5_000, "\U0001f600", "<script>x()</script>{{7*7}}", "1e999")


@pytest.mark.parametrize("value", STRANGE, ids=range(len(STRANGE)))
async def test_strange_values_of_every_field_are_refused_and_shown_as_text(world: World, value: str) -> None:
    """Whatever a field holds, the answer is a page or leads to one."""
    paths = {route.path: world.path(route) for route in FORMS}
    async with browser_of(world.api) as browser:
        await browser.log_in(ADMIN_KEY)
        token = await token_of(browser)
        for (path, act), (_, fields) in NEEDS.items():
            strange = dict.fromkeys(fields, value) or {"due": value, "from": value, "label": value}
            shown = await browser.post(paths[path], {**strange, "act": act, "form_token": token})
            assert shown.status < 500, (path, act, shown.text)
            assert "<script>x()" not in shown.source
            assert "</script>49" not in shown.source


QUERIES: Final = tuple("after act by cursor day destination from label month q state to window".split())


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("value", ["%00", "9" * 400, "2026-99-99", "x&{name}=y"])
async def test_strange_queries_of_every_page_are_refused_or_shown(world: World, value: str, share: int) -> None:
    query = "&".join(f"{name}={value.replace('{name}', name)}" for name in QUERIES)
    async with browser_of(world.api) as browser:
        await browser.log_in(ADMIN_KEY)
        for route in SHOWN[share::SHARES]:
            shown = await browser.open(f"{world.path(route)}?{query}")
            assert shown.status < 500, (route.path, shown.text)
