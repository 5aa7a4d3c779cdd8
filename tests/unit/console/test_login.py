"""Logging in and out: cookies, form tokens, origins, and where a login may lead."""

import re
from collections.abc import AsyncIterator, Mapping
from http.cookies import Morsel, SimpleCookie
from typing import NamedTuple
from urllib.parse import quote

import aiohttp
import pytest
from structlog.testing import capture_logs

from scheduler_service.console.pages import own_page
from scheduler_service.console.settings import ConsoleSettings
from scheduler_service.domain.sessions import SESSION_MS
from tests.support.api import ADMIN_KEY, NOW, ApiHarness

LOGIN = "/console/login"
SCHEDULES = "/console/clients/shop/schedules"
ELSEWHERE = (
    "//evil.example",
    "//evil.example/console/",
    "/\\evil.example",
    "/console\\..\\..\\x",
    "/console/\\evil",
    "https://evil.example/console/",
    "javascript:alert(1)",
    "/console/../v1/clients",
    "/console/..",
    "/console/./x",
    "/console/%2e%2e/%2E./docs",
    "/console/.%2e/docs",
    "/console//evil.example",
    "/console/x/../../docs",
    "/console/\r\nSet-Cookie: a=b",
    "/console/\tx",
    "/console/ü",
    "/consolex",
    "/docs",
    "evil.example",
    "",
    "/console/",
    "///console/",
    "http:/console/",
    " /console/cluster",
)


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    cookies: Mapping[str, "Morsel[str]"]
    text: str

    @property
    def location(self) -> str | None:
        return self.headers.get("Location")


class Wire:
    """Sends exactly what it is told: no cookie of its own, no redirect followed."""

    def __init__(self, api: ApiHarness) -> None:
        assert api.server is not None
        self._session = aiohttp.ClientSession(
            base_url=f"http://127.0.0.1:{api.server.port}", cookie_jar=aiohttp.DummyCookieJar()
        )
        self.host = f"127.0.0.1:{api.server.port}"

    async def close(self) -> None:
        await self._session.close()

    async def send(
        self, method: str, path: str, *, form: Mapping[str, str] | None = None, cookie: str = "", **headers: str
    ) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if cookie:
            given["Cookie"] = cookie
        async with self._session.request(method, path, data=form, headers=given, allow_redirects=False) as response:
            cookies: SimpleCookie = SimpleCookie()
            for line in response.headers.getall("Set-Cookie", ()):
                cookies.load(line)
            return Answer(response.status, response.headers, cookies, await response.text())

    async def log_in(self, key: str = ADMIN_KEY, **more: str) -> Answer:
        return await self.send("POST", LOGIN, form={"key": key, **more})

    async def session(self, key: str = ADMIN_KEY) -> str:
        """The Cookie header of a new session."""
        return f"minutehand={(await self.log_in(key)).cookies['minutehand'].value}"


@pytest.fixture
async def wire(api: ApiHarness) -> AsyncIterator[Wire]:
    one = Wire(api)
    yield one
    await one.close()


def form_token(page: Answer) -> str:
    found = re.search(r'name="form_token" value="([0-9a-f]+)"', page.text)
    assert found is not None
    return found[1]


async def test_a_key_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get(wire: Wire) -> None:
    answer = await wire.log_in()
    assert (answer.status, answer.location) == (303, "/console")
    (cookie,) = answer.cookies.values()
    assert (cookie.key, cookie["path"], cookie["samesite"], cookie["domain"]) == ("minutehand", "/", "Strict", "")
    assert (cookie["httponly"], cookie["secure"], cookie["max-age"]) == (True, "", str(SESSION_MS // 1000))
    assert re.fullmatch("[0-9a-f]{64}", cookie.value)
    assert (await wire.send("GET", "/console/cluster", cookie=f"minutehand={cookie.value}")).status == 200


async def test_a_session_of_a_key_that_ends_is_as_short_as_its_cookie(api: ApiHarness, wire: Wire, key: str) -> None:
    made = await api.send("POST", "/v1/clients/shop/keys", json={"expires_at": "2026-11-21T09:31:00Z", "scope": "read"})
    answer = await wire.log_in(made.json["key"])
    assert answer.cookies["minutehand"]["max-age"] == "60"
    cookie = f"minutehand={answer.cookies['minutehand'].value}"
    assert (await wire.send("GET", SCHEDULES, cookie=cookie)).status == 200
    api.clock.advance(60)
    assert (await wire.send("GET", SCHEDULES, cookie=cookie)).status == 303


@pytest.mark.parametrize("key", ["", "nonsense", "mh_0123456789abcdef_" + "0" * 48, ADMIN_KEY[:-1]])
async def test_a_login_that_is_refused_says_so_and_begins_nothing(api: ApiHarness, wire: Wire, key: str) -> None:
    answer = await wire.log_in(key, next=SCHEDULES)
    assert (answer.status, answer.cookies) == (403, {})
    assert 'role="alert"' in answer.text
    assert f'value="{SCHEDULES}"' in answer.text, "what was asked for is kept"
    assert key == "" or key not in answer.text
    assert api.connection.rows("console_sessions") == []


async def test_the_key_and_the_token_are_in_no_page_no_address_and_no_log(
    api: ApiHarness, wire: Wire, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = await wire.log_in(key)
    token = answer.cookies["minutehand"].value
    page = await wire.send("GET", SCHEDULES, cookie=f"minutehand={token}")
    await wire.log_in(key + "x")
    assert page.status == 200
    said = capsys.readouterr()
    for where in (str(dict(answer.headers)).replace(str(answer.cookies["minutehand"]), ""), page.text, answer.text):
        assert key not in where
    for secret in (key, token):
        assert secret not in page.text + answer.text + said.out + said.err + (answer.location or "")


async def test_a_refused_login_is_logged_with_the_id_of_the_key_and_never_the_key(wire: Wire, key: str) -> None:
    secret = key.split("_")[2]
    for given, logged in (
        (key[:-1], key.split("_")[1]),
        (f"mh_{secret[:16]}x_{secret}", "none"),
        ("a word that somebody typed", "none"),
        ("mh_secret_word", "none"),
        ("", "none"),
    ):
        with capture_logs() as said:
            await wire.log_in(given)
        [entry] = [one for one in said if one["event"] == "console-login-refused"]
        assert (entry["key_id"], entry["address"]) == (logged, "127.0.0.1")
        assert given == "" or given not in str(said)
        assert secret[:16] not in str(said)


async def test_logins_that_fail_are_bounded_and_others_are_not(api: ApiHarness, wire: Wire, key: str) -> None:
    assert {(await wire.log_in()).status for _ in range(30)} == {303}
    assert [(await wire.log_in("nonsense")).status for _ in range(21)] == [403] * 20 + [429]
    refused = await wire.log_in(key)
    assert (refused.status, refused.cookies) == (429, {})
    api.clock.advance(1)
    assert (await wire.log_in(key)).status == 303


async def test_sessions_of_a_caller_are_bounded_and_others_are_not(api: ApiHarness, wire: Wire, key: str) -> None:
    other = await api.register("other")
    for _ in range(100):
        assert (await wire.send("POST", LOGIN, form={"key": key})).status == 303
    answer = await wire.send("POST", LOGIN, form={"key": key})
    assert (answer.status, "minutehand" in answer.cookies) == (429, False)
    assert len(api.connection.rows("console_sessions")) == 100
    assert (await wire.send("POST", LOGIN, form={"key": other})).status == 303
    api.clock.advance(6)
    assert (await wire.send("POST", LOGIN, form={"key": key})).status == 303


async def test_to_end_all_sessions_has_a_cost(wire: Wire, key: str) -> None:
    statuses = []
    for _ in range(60):
        cookie = await wire.session(key)
        token = form_token(await wire.send("GET", SCHEDULES, cookie=cookie))
        form = {"form_token": token, "act": "everywhere"}
        statuses.append((await wire.send("POST", "/console/logout", form=form, cookie=cookie)).status)
    assert (statuses[0], statuses[-1]) == (303, 429)


async def test_a_login_ends_the_session_that_the_browser_had(api: ApiHarness, wire: Wire, key: str) -> None:
    earlier = await wire.session(key)
    answer = await wire.send("POST", LOGIN, form={"key": ADMIN_KEY}, cookie=earlier)
    assert f"minutehand={answer.cookies['minutehand'].value}" != earlier
    assert len(api.connection.rows("console_sessions")) == 1
    planted = await wire.send("POST", LOGIN, form={"key": ADMIN_KEY}, cookie="minutehand=" + "a" * 64)
    assert planted.cookies["minutehand"].value != "a" * 64, "nobody else can choose it"


async def test_behind_https_the_cookie_is_of_this_host_alone_and_no_other_counts(api: ApiHarness) -> None:
    async with ApiHarness(stores=api.storage, clock=api.clock) as plain:
        wire = Wire(plain)
        token = (await wire.log_in()).cookies["minutehand"].value
        await wire.close()
    secured = ApiHarness(stores=api.storage, clock=api.clock)
    secured.console = ConsoleSettings(https=True)
    async with secured:
        wire = Wire(secured)
        (cookie,) = (await wire.log_in()).cookies.values()
        assert (cookie.key, cookie["secure"], cookie["httponly"]) == ("__Host-minutehand", True, True)
        assert (cookie["path"], cookie["domain"], cookie["samesite"]) == ("/", "", "Strict")
        # A page of a neighbour, or anyone on the way, can set the plain one and so choose the session.
        assert (await wire.send("GET", "/console/cluster", cookie=f"minutehand={token}")).status == 303
        both = f"minutehand={token}; __Host-minutehand={cookie.value}"
        page = await wire.send("GET", "/console/cluster", cookie=both)
        assert page.status == 200
        out = await wire.send("POST", "/console/logout", cookie=both, form={"form_token": form_token(page)})
        assert (out.cookies["__Host-minutehand"].value, out.cookies["__Host-minutehand"]["secure"]) == ("", True)
        (cookie,) = (await wire.log_in()).cookies.values()
        said = await wire.send("GET", "/console/cluster", cookie=f"__Host-minutehand={cookie.value}; minutehand-said=x")
        assert said.cookies["minutehand-said"]["secure"] is True
        await wire.close()


async def test_no_other_route_takes_a_sessions_token(api: ApiHarness, wire: Wire, key: str) -> None:
    cookie = await wire.session(key)
    token = cookie.partition("=")[2]
    for headers in ({"Cookie": cookie}, {"Authorization": f"Bearer {token}"}):
        assert (await api.send("GET", "/v1/clients/shop/schedules", key=None, headers=headers)).status == 401


async def test_logging_out_ends_the_session_in_the_store_too(api: ApiHarness, wire: Wire) -> None:
    cookie = await wire.session()
    token = form_token(await wire.send("GET", "/console/cluster", cookie=cookie))
    answer = await wire.send("POST", "/console/logout", cookie=cookie, form={"form_token": token})
    assert (answer.status, answer.location) == (303, LOGIN)
    assert (answer.cookies["minutehand"].value, answer.cookies["minutehand"]["max-age"]) == ("", "0")
    assert api.connection.rows("console_sessions") == []
    again = await wire.send("GET", "/console/cluster", cookie=cookie)
    assert (again.status, again.location) == (303, LOGIN + "?next=%2Fconsole%2Fcluster")


async def test_logging_out_everywhere_ends_the_sessions_of_the_same_key_only(
    api: ApiHarness, wire: Wire, key: str
) -> None:
    mine, elsewhere, operators = await wire.session(key), await wire.session(key), await wire.session()
    page = await wire.send("GET", SCHEDULES, cookie=mine)
    form = {"form_token": form_token(page), "act": "everywhere"}
    assert (await wire.send("POST", "/console/logout", cookie=mine, form=form)).location == LOGIN
    for cookie, status in ((mine, 303), (elsewhere, 303), (operators, 200)):
        assert (await wire.send("GET", SCHEDULES, cookie=cookie)).status == status
    second = await wire.session()
    page = await wire.send("GET", SCHEDULES, cookie=second)
    form = {"form_token": form_token(page), "act": "everywhere"}
    await wire.send("POST", "/console/logout", cookie=second, form=form)
    assert api.connection.rows("console_sessions") == []


async def test_a_revoked_key_ends_the_session(api: ApiHarness, wire: Wire, key: str) -> None:
    cookie = await wire.session(key)
    assert (await wire.send("GET", SCHEDULES, cookie=cookie)).status == 200
    await api.send("DELETE", f"/v1/clients/shop/keys/{key.split('_')[1]}")
    assert (await wire.send("GET", SCHEDULES, cookie=cookie)).status == 303


async def test_a_changed_configured_key_ends_the_session(api: ApiHarness, wire: Wire) -> None:
    cookie = await wire.session()
    async with ApiHarness(stores=api.storage, clock=api.clock, admin_key="another-key-of-the-operators") as restarted:
        other = Wire(restarted)
        assert (await other.send("GET", "/console/cluster", cookie=cookie)).status == 303
        await other.close()


async def test_a_session_ends_after_a_working_day(api: ApiHarness, wire: Wire) -> None:
    cookie = await wire.session()
    api.clock.now = NOW + SESSION_MS
    assert (await wire.send("GET", "/console/cluster", cookie=cookie)).status == 303


async def test_a_login_leads_back_to_the_page_that_was_asked_for(wire: Wire, key: str) -> None:
    asked = f"{SCHEDULES}?label=a%26b&state=failed"
    away = await wire.send("GET", asked)
    assert away.location == f"{LOGIN}?next={quote(asked, safe='')}"
    page = await wire.send("GET", away.location)
    field = re.search(r'name="next" value="([^"]*)"', page.text)
    assert field is not None
    back = field[1].replace("&amp;", "&")
    assert (await wire.log_in(key, next=back)).location == asked
    cookie = await wire.session(key)
    assert (await wire.send("GET", away.location, cookie=cookie)).location == asked, "who is logged in needs no key"


@pytest.mark.parametrize("next_", ELSEWHERE)
async def test_a_login_leads_nowhere_else(wire: Wire, next_: str) -> None:
    assert own_page(next_) is None
    assert (await wire.log_in(next=next_)).location == "/console"
    shown = await wire.send("GET", f"{LOGIN}?next={quote(next_, safe='')}")
    assert 'name="next"' not in shown.text
    cookie = await wire.session()
    assert (await wire.send("GET", f"{LOGIN}?next={quote(next_, safe='')}", cookie=cookie)).location == "/console"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Origin": "http://{host}"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://{host}.evil.example"},
        {"Origin": "http://127.0.0.1:1"},
    ],
    ids=str,
)
async def test_forms_of_other_origins_are_refused(api: ApiHarness, wire: Wire, headers: dict[str, str]) -> None:
    headers = {name: value.format(host=wire.host) for name, value in headers.items()}
    refused = await wire.send("POST", LOGIN, form={"key": ADMIN_KEY}, **headers)
    assert (refused.status, refused.cookies) == (403, {}), "else a page could log its visitor in as somebody else"
    cookie = await wire.session()
    token = form_token(await wire.send("GET", "/console/cluster", cookie=cookie))
    refused = await wire.send("POST", "/console/logout", cookie=cookie, form={"form_token": token}, **headers)
    assert refused.status == 403
    assert len(api.connection.rows("console_sessions")) == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://{host}"},
        {"Sec_Fetch_Site": "same-origin", "Origin": "https://behind.a.proxy.example"},
        {"Sec_Fetch_Site": "none"},
    ],
    ids=str,
)
async def test_forms_of_its_own_are_taken(wire: Wire, headers: dict[str, str]) -> None:
    headers = {name: value.format(host=wire.host) for name, value in headers.items()}
    assert (await wire.send("POST", LOGIN, form={"key": ADMIN_KEY}, **headers)).status == 303


async def test_forms_that_no_browser_sends_are_refused(wire: Wire) -> None:
    answer = await wire.send("POST", LOGIN, form={"key": ADMIN_KEY}, Content_Type="text/plain")
    assert answer.status == 415
    assert (await wire.log_in("k" * 300_000)).status == 413
    assert (await wire.send("POST", LOGIN, form={f"f{number}": "x" for number in range(300)})).status == 400


async def test_a_password_manager_s_spaces_do_no_harm(wire: Wire) -> None:
    assert (await wire.log_in(f" {ADMIN_KEY}\n")).status == 303


async def test_without_the_console_its_paths_do_not_exist(api: ApiHarness) -> None:
    off = ApiHarness(stores=api.storage, clock=api.clock)
    off.console = ConsoleSettings(on=False)
    async with off:
        wire = Wire(off)
        for path in ("/console", LOGIN, "/console/cluster", "/console/static/x/console.css"):
            answer = await wire.send("GET", path)
            assert (answer.status, answer.headers["Content-Type"]) == (404, "application/problem+json")
        await wire.close()
