"""The pages for readers: the API's, and one for each type of problem. They load nothing, and have at most the script
of the search."""

import base64
import hashlib
from collections import Counter
from html.parser import HTMLParser

import pytest

from scheduler_service.api.http.html import SEARCH
from scheduler_service.api.http.route import operation_id
from scheduler_service.api.problems import KINDS
from scheduler_service.api.resources import ROUTES
from tests.support.api import ApiHarness, Reply

EMPTY = {"meta", "br", "link", "img", "input", "hr"}
CLOSED_BY_THE_NEXT = {"th", "td"}


class Page(HTMLParser):
    """Ids, links, tags and style of a page. Raises AssertionError where a closed element is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: Counter[str] = Counter()
        self.links: set[str] = set()
        self.tags: set[str] = set()
        self.style = ""
        self.script = ""
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert not {name for name in values if name.startswith("on") or name in ("style", "src")}, attrs
        self.tags.add(tag)
        if (id_ := values.get("id")) is not None:
            self.ids[id_] += 1
        if (href := values.get("href")) is not None:
            self.links.add(href)
        if tag in CLOSED_BY_THE_NEXT and self._open[-1] == tag:
            self._open.pop()
        if tag not in EMPTY:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr" and self._open[-1] in CLOSED_BY_THE_NEXT:
            self._open.pop()
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["style"]:
            self.style += data
        elif self._open[-1:] == ["script"]:
            self.script += data
        else:
            self.text += data


def digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def harmless(reply: Reply, page: Page) -> None:
    """The policy permits nothing but the page's own style and script, and their hashes are right."""
    policy = dict(part.strip().split(" ", 1) for part in reply.headers["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest(page.style)}'",
        **({"script-src": f"'sha256-{digest(page.script)}'"} if page.script else {}),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not page.tags & {"link", "img", "iframe", "object", "form", "base"}
    assert "url(" not in page.style
    assert "@import" not in page.style
    assert "prefers-color-scheme: dark" in page.style


async def test_the_api_as_a_page(api: ApiHarness) -> None:
    reply = await api.send("GET", "/docs", key=None)
    assert reply.status == 200
    page = Page(reply.body.decode())
    harmless(reply, page)
    assert page.script == SEARCH
    assert page.ids.keys() >= {operation_id(route) for route in ROUTES} | {f"problem-{kind}" for kind in KINDS}
    assert "callback" in page.ids
    assert [id_ for id_, count in page.ids.items() if count > 1] == []
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside - page.ids.keys() == set()
    assert page.links - {f"#{name}" for name in inside} == {"/openapi.json", "https://www.standardwebhooks.com"}
    for route in ROUTES:
        assert route.summary in page.text
        assert route.path in page.text
    assert "webhook-signature" in page.text
    assert "of-the-receiver" in page.text, "examples are shown"


async def test_a_list_of_the_operations_for_language_models(api: ApiHarness) -> None:
    reply = await api.send("GET", "/llms.txt", key=None)
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    text = reply.body.decode()
    assert text.startswith("# Minutehand\n\n> ")
    for route in ROUTES:
        assert f"(/docs#{operation_id(route)}): `{route.method} {route.path}`" in text


@pytest.mark.parametrize("path", ["/", "/docs/"])
async def test_paths_that_people_type_lead_to_the_page(api: ApiHarness, path: str) -> None:
    typed, plain = [await api.send("GET", each, key=None) for each in (path, "/docs")]
    assert (typed.status, typed.body) == (200, plain.body)
    assert (await api.send("HEAD", path, key=None)).status == 200
    assert (await api.send("POST", path)).status == 404


async def test_problems_are_for_everybody(api: ApiHarness) -> None:
    refused = await api.send("GET", "/v1/clients/shop", key=None)
    assert refused.status == 401
    assert (await api.send("GET", refused.json["type"], key=None)).status == 200


@pytest.mark.parametrize("name", KINDS)
async def test_a_problem_as_a_page_and_as_text(api: ApiHarness, key: str, name: str) -> None:
    kind = KINDS[name]
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    reply = await api.send("GET", f"/problems/{name}", key=key, headers=browser)
    page = Page(reply.body.decode())
    harmless(reply, page)
    assert f"HTTP status {kind.status}" in page.text
    assert kind.title in page.text
    assert f"/docs#problem-{name}" in page.links
    plain = await api.send("GET", f"/problems/{name}", key=key, headers={"Accept": "*/*"})
    assert plain.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert plain.body.decode() == f"{kind.title}\n\nHTTP status {kind.status}. {kind.advice}\n"
    assert {reply.headers["Vary"], plain.headers["Vary"]} == {"Accept"}


async def test_a_problem_that_there_is_none_of_has_no_page(api: ApiHarness, key: str) -> None:
    reply = await api.send("GET", "/problems/%3Cscript%3E", key=key, headers={"Accept": "text/html"})
    assert (reply.status, reply.headers["Content-Type"]) == (404, "application/problem+json")
