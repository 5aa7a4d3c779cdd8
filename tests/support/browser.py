"""A browser without scripts: it keeps cookies, follows what forms answer, and fills in forms as they stand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from types import TracebackType
from urllib.parse import urljoin

import aiohttp


@dataclass(slots=True)
class Form:
    """`fields`: its values as they are sent if nothing is typed; checkboxes only if they are checked. `buttons`: values
    of those with a name, by that name."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class Shown:
    """A page. `text`: what is to be read, without tags. `path`: where it was found, with its query."""

    status: int
    path: str
    source: str
    text: str
    forms: list[Form]
    links: list[str]

    def form(self, **given: str) -> Form:
        """The first form which has these values, in fields or buttons. Asserts that there is one."""
        for one in self.forms:
            has = {*one.fields.items(), *one.buttons}
            if has.issuperset(given.items()):
                return one
        raise AssertionError(f"no form has {given}: {self.text}")

    def offers(self, act: str) -> bool:
        return any(("act", act) in {*one.fields.items(), *one.buttons} for one in self.forms)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.forms: list[Form] = []
        self.links: list[str] = []
        self._form: Form | None = None
        self._area: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        name, value = given.get("name", ""), given.get("value", "")
        form = self._form
        match tag:
            case "form":
                self._form = Form(given.get("action", ""), given.get("method", "get"))
                self.forms.append(self._form)
            case "a" if "href" in given:
                self.links.append(given["href"])
            case "input" if form is not None and name:
                if given.get("type") not in ("checkbox", "radio") or "checked" in given:
                    form.fields[name] = value or ("on" if given.get("type") == "checkbox" else "")
            case "button" if form is not None and name:
                form.buttons.append((name, value))
            case "textarea" if form is not None and name:
                self._area = name
                form.fields[name] = ""
            case "select":
                self._select = name
            case "option" if form is not None and self._select is not None:
                if self._select not in form.fields or "selected" in given:
                    form.fields[self._select] = value

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        if self._area is not None and self._form is not None:
            self._form.fields[self._area] += data
        self.words.append(data)


class Browser:
    """At an API's address, without a session until `log_in`."""

    def __init__(self, port: int) -> None:
        self._session = aiohttp.ClientSession(
            base_url=f"http://127.0.0.1:{port}", cookie_jar=aiohttp.CookieJar(unsafe=True)
        )

    async def __aenter__(self) -> "Browser":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def log_in(self, key: str) -> None:
        shown = await self._ask("POST", "/console/login", {"key": key})
        assert shown.status == 200, shown.text
        assert not shown.path.startswith("/console/login"), shown.text

    async def open(self, path: str) -> Shown:
        return await self._ask("GET", path, None)

    async def post(self, path: str, form: Mapping[str, str] | str | bytes, *, media: str = "") -> Shown:
        """Send what no page offers. `media`: the type of a form that is given as it is sent."""
        return await self._ask("POST", path, form, headers={"Content-Type": media} if media else None)

    async def submit(self, shown: Shown, form: Form, *, act: str | None = None, **typed: str) -> Shown:
        """`act`: the button that is pressed. What is typed must have a field."""
        assert set(typed) <= set(form.fields), (typed, form.fields)
        fields = {**form.fields, **typed}
        if act is not None:
            assert ("act", act) in {*form.buttons, *form.fields.items()}, (act, form.buttons)
            fields["act"] = act
        path = urljoin(shown.path, form.action) if form.action else shown.path
        if form.method == "get":
            return await self._ask("GET", path.partition("?")[0], None, params=fields)
        return await self._ask("POST", path, fields)

    async def _ask(
        self,
        method: str,
        path: str,
        form: Mapping[str, str] | str | bytes | None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Shown:
        async with self._session.request(method, path, data=form, params=params, headers=headers) as response:
            source = await response.text()
            reader = _Reader()
            reader.feed(source)
            return Shown(
                response.status,
                response.url.path_qs,
                source,
                " ".join(" ".join(reader.words).split()),
                reader.forms,
                reader.links,
            )
