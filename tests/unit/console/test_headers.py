"""Every answer of the console tells browsers what they may do with it; files can be kept, pages can't."""

import gzip
import re
from collections.abc import AsyncIterator, Mapping

import pytest

from scheduler_service.api.http.route import Route
from scheduler_service.console.rendering import STATIC, static_file, version_of
from scheduler_service.console.routes import LOGIN, routes_of
from scheduler_service.console.sessions import LoginPages
from scheduler_service.console.settings import ConsoleSettings
from tests.support.api import ADMIN_KEY, ApiHarness
from tests.unit.console.test_login import Answer, Wire, form_token

ROUTES = [
    one
    for one in routes_of(LoginPages(ConsoleSettings(), tls=False))
    if "static" not in one.path and not one.path.endswith("/stream")
]
NAMES = [f"{route.method} {route.path}" for route in ROUTES]
FILES = sorted(file.name for file in STATIC.iterdir())


@pytest.fixture
async def wire(api: ApiHarness) -> AsyncIterator[Wire]:
    one = Wire(api)
    yield one
    await one.close()


def policy(answer: Answer) -> dict[str, str]:
    parts = (one.strip().partition(" ") for one in answer.headers["Content-Security-Policy"].split(";"))
    return {name: sources for name, _, sources in parts}


def check_page(answer: Answer) -> None:
    """Nothing but this origin's own files, no inline code, no frame around it, no copy of it."""
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert policy(answer) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "X-Request-Id" in answer.headers
    check_source(answer.text)


def check_source(text: str) -> None:
    for inline in ("<style", " style=", "<script>", " onclick=", "javascript:"):
        assert inline not in text, (inline, text[max(text.find(inline) - 60, 0) : text.find(inline) + 60])
    assert re.findall(r'(?:src|href|action)="(?!/|\?|#)[^"]+"', text) == []
    assert re.findall(r'(?:src|href|action)="//[^"]*"', text) == []


def path_of(route: Route) -> str:
    return route.path.format_map(_AnyName())


class _AnyName(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return {"client_id": "shop"}.get(name, "00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize("route", ROUTES, ids=NAMES)
@pytest.mark.parametrize("logged_in", [True, False], ids=["session", "none"])
async def test_pages_and_refusals_have_them(
    api: ApiHarness, wire: Wire, key: str, route: Route, logged_in: bool
) -> None:
    cookie = await wire.session() if logged_in else ""
    form = {} if route.method == "POST" else None
    answer = await wire.send(route.method, path_of(route), cookie=cookie, form=form)
    assert answer.status < 500
    if answer.status == 303:
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.text == ""
    else:
        check_page(answer)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/console/nothing", 404),
        ("GET", "/console/", 404),
        ("GET", "/console/static/x", 404),
        ("DELETE", "/console/cluster", 405),
        ("PUT", LOGIN, 405),
        ("POST", "/console/cluster", 405),
        ("GET", "/console/<script>alert(1)</script>", 404),
    ],
)
async def test_errors_have_them(wire: Wire, method: str, path: str, status: int) -> None:
    answer = await wire.send(method, path)
    assert answer.status == status
    check_page(answer)
    assert "<script>alert" not in answer.text


async def test_a_failure_of_storage_is_a_page_too(api: ApiHarness, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie = await wire.session()
    page = await wire.send("GET", "/console/cluster", cookie=cookie)

    async def broken(*_: object) -> None:
        raise RuntimeError("a secret detail of the inside")

    monkeypatch.setattr(api.services.sessions, "find", broken)
    answer = await wire.send("GET", "/console/cluster", cookie=cookie)
    assert answer.status == 500
    check_page(answer)
    assert "secret detail" not in answer.text
    assert form_token(page) not in answer.text


async def test_what_the_last_form_did_is_said_once_and_as_text(wire: Wire) -> None:
    cookie = f"{await wire.session()}; minutehand-said=%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    answer = await wire.send("GET", "/console/cluster", cookie=cookie)
    assert "&lt;script&gt;alert(1)" in answer.text
    assert "<script>alert" not in answer.text
    assert answer.cookies["minutehand-said"]["max-age"] == "0"
    check_page(answer)


async def test_what_a_search_asks_for_is_shown_as_text(wire: Wire, key: str) -> None:
    sought = "%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E"
    for path in (f"/console/clients/shop/schedules?q={sought}", f"/console/clients/shop/schedules?label={sought}"):
        answer = await wire.send("GET", path, cookie=await wire.session(key))
        assert "<img src=x" not in answer.text
        assert "&lt;img src=x" in answer.text
        check_page(answer)


async def test_scripts_of_allowed_origins_read_no_page(api: ApiHarness) -> None:
    """The setting is for pages that send a key: they get no answer that a cookie gave."""
    async with ApiHarness(stores=api.storage, clock=api.clock, allowed_origins=("https://app.example",)) as open_to:
        wire = Wire(open_to)
        answer = await wire.send("GET", "/console/cluster", cookie=await wire.session(), Origin="https://app.example")
        assert answer.status == 200
        assert "Access-Control-Allow-Credentials" not in answer.headers
        check_page(answer)
        await wire.close()


@pytest.mark.parametrize("name", FILES)
async def test_files_are_small_typed_and_kept_for_good(wire: Wire, name: str) -> None:
    file = static_file(name)
    assert file is not None
    path = f"/console/static/{version_of(name)}/{name}"
    plain = await wire.send("GET", path, Accept_Encoding="identity")
    assert (plain.status, plain.text.encode()) == (200, file.body)
    assert plain.headers["Content-Type"].partition(";")[0] in ("text/css", "text/javascript", "image/svg+xml")
    for encodings, coded in (("gzip, br", True), ("GZIP", True), ("gzip;q=0", False), ("br", False)):
        answer = await wire.send("GET", path, Accept_Encoding=encodings)
        assert answer.text.encode() == file.body
        assert (answer.headers.get("Content-Encoding") == "gzip") is coded
        check_file(answer.headers)
    assert gzip.decompress(file.gzipped) == file.body
    assert static_file(name) is file, "read and compressed once"


async def test_a_page_is_compressed_where_nobody_else_had_it_asked_for(wire: Wire, key: str) -> None:
    cookie = await wire.session(ADMIN_KEY)
    asked = {"cookie": cookie, "Accept_Encoding": "gzip, br"}
    for site, coded in (
        ("same-origin", True),
        ("none", True),
        ("cross-site", False),
        ("same-site", False),
        ("", False),
    ):
        answer = await wire.send("GET", "/console/cluster", **asked, Sec_Fetch_Site=site)
        assert (answer.headers.get("Content-Encoding") == "gzip") is coded, site
        assert "Nodes" in answer.text
        check_page(answer)
    plain = await wire.send("GET", "/console/cluster", cookie=cookie, Sec_Fetch_Site="none", Accept_Encoding="br")
    assert "Content-Encoding" not in plain.headers
    form = {"form_token": form_token(answer), "scope": "read", "act": "create-key"}
    made = await wire.send("POST", "/console/clients/shop/keys", **asked, form=form, Sec_Fetch_Site="same-origin")
    assert made.status == 200
    assert "Content-Encoding" not in made.headers, "it shows a key"


def check_file(headers: Mapping[str, str]) -> None:
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert headers["Vary"] == "Accept-Encoding"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Set-Cookie" not in headers


@pytest.mark.parametrize(
    "name",
    [
        "../routes.py",
        "..%2Froutes.py",
        "%2e%2e%2froutes.py",
        "routes.py",
        ".css",
        "console.css%00",
        "..",
        "CONSOLE.CSS",
    ],
)
async def test_no_other_file_is_served(wire: Wire, name: str) -> None:
    answer = await wire.send("GET", f"/console/static/x/{name}")
    assert answer.status in (303, 404), "aiohttp's client resolves plain dots itself"
    assert "console_wire" not in answer.text


async def test_files_change_their_address_with_their_content(wire: Wire) -> None:
    page = await wire.send("GET", LOGIN)
    for name in ("console.css", "console.js", "icon.svg"):
        assert f"/console/static/{version_of(name)}/{name}" in page.text
    assert len({version_of(name) for name in FILES}) == len(FILES)


async def test_a_first_page_is_small(wire: Wire) -> None:
    """Transferred: the page and all files that it loads."""
    page = await wire.send("GET", "/console/cluster", cookie=await wire.session(ADMIN_KEY))
    files = [file for name in FILES if (file := static_file(name)) is not None and name in page.text]
    assert len(page.text.encode()) + sum(len(one.gzipped) for one in files) < 100_000
