"""What every page has: a session, operations to ask, a form token, headers, and a template."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from aiohttp import web

from scheduler_service.api.http.endpoint import under_audit
from scheduler_service.api.http.html import HTML
from scheduler_service.api.http.route import SERVER, Handler, RequestContext
from scheduler_service.api.problems import Problem, Refusal
from scheduler_service.console.compression import COMPRESSED_LEAST, compressed, may_compress
from scheduler_service.console.cookies import Cookies
from scheduler_service.console.findings import STORAGE_ADVICE
from scheduler_service.console.operations import (
    OperationRefused,
    Operations,
    OperationUnsuccessful,
    part,
    refused_form,
)
from scheduler_service.console.rendering import environment, instant
from scheduler_service.console.samples import samples_of
from scheduler_service.domain.clients import Scope
from scheduler_service.domain.errors import NotFound
from scheduler_service.usecases.sessions import Visitor

LOGIN: Final = "/console/login"
LOGOUT: Final = "/console/logout"
FORM_LIMIT: Final = 256 * 1024
"""Bytes of a form; bodies that are to be called are in it."""
_FIELDS: Final = 200
_ONCE_BITS: Final = 96
FORM_TOKEN: Final = "form_token"

ADVICE: Final[Mapping[str, str]] = {"storage-unavailable": STORAGE_ADVICE}
"""What to do about problems, by their kind."""

PAGE_HEADERS: Final[Mapping[str, str]] = {
    **SERVER,
    "Content-Type": HTML,
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Under `no-referrer`, browsers would name no origin with the console's own forms either.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

PageHandler = Callable[["Page"], Awaitable[web.StreamResponse]]


class Page:
    """One request for a page, of a caller with a session."""

    def __init__(self, context: RequestContext, visitor: Visitor, form: Mapping[str, str], cookies: Cookies) -> None:
        self.context = context
        self.cookies = cookies
        self.visitor = visitor
        self.form = form
        self.operations = Operations(context.request, visitor.principal)
        self.get = self.operations.get
        self.send = self.operations.send

    @property
    def administrator(self) -> bool:
        return self.visitor.principal.client_id is None

    @property
    def query(self) -> Mapping[str, str]:
        return self.context.request.query

    @property
    def now_ms(self) -> int:
        return self.context.services.clock.wall_ms()

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.now_ms / 1000, UTC)

    def client(self) -> str:
        """The path of the client's operations."""
        return f"/v1/clients/{part(self.context.path('client_id'))}"

    def home(self) -> str:
        """The address of the client's pages."""
        return f"/console/clients/{part(self.context.path('client_id'))}"

    def operation(self, nouns: str, variable: str) -> str:
        """The path of the operations on the one of the client's `nouns` that the address names."""
        return f"{self.client()}/{nouns}/{part(self.context.path(variable))}"

    def address(self, nouns: str, variable: str) -> str:
        """The address of its page."""
        return f"{self.home()}/{nouns}/{part(self.context.path(variable))}"

    def once(self) -> str:
        """The idempotency key of a form, which stays the same while it is corrected: sent twice, it does its work
        once."""
        return self.form.get("once") or f"console-{self.context.services.randomness.bits(_ONCE_BITS):024x}"

    def may(self, scope: str) -> bool:
        """Whether the caller's key has a scope; administrators have all."""
        has = self.visitor.principal.scope
        return has is None or has.includes(Scope(scope))

    async def still_good(self) -> bool:
        """Whether the session has not ended, and its caller may do the same as when the page was asked for. Raises
        StoreUnavailable."""
        now, then = await visitor_of(self.context, self.cookies), self.visitor.principal
        return now is not None and (now.principal.client_id, now.principal.scope) == (then.client_id, then.scope)

    async def under_audit(self, action: str, handler: PageHandler) -> web.StreamResponse:
        """What `handler` answers, recorded in the audit log as this caller's `action` on what the address names."""
        context = self.context
        context.principal = self.visitor.principal

        async def handle(_: RequestContext) -> web.StreamResponse:
            return await handler(self)

        return await under_audit(context, action=action, target={**context.request.match_info}, handler=handle)

    def render(
        self, template: str, *, error: OperationUnsuccessful | None = None, status: int = 200, **values: Any
    ) -> web.Response:
        """`error`: why the API refused, which the page says; the answer has its status."""
        request, now_ms = self.context.request, self.now_ms
        said = self.cookies.said(request)
        text = (
            environment()
            .get_template(template)
            .render(
                page=self,
                principal=self.visitor.principal,
                form_token=self.visitor.form_token,
                path=request.path,
                client_id=request.match_info.get("client_id"),
                home=self.home() if "client_id" in request.match_info else None,
                said=said,
                samples=samples_of(self.operations.asked),
                instant=lambda text: instant(text, now_ms),
                now_ms=now_ms,
                error=error,
                **values,
            )
        )
        body, headers = text.encode(), dict(PAGE_HEADERS)
        if len(body) >= COMPRESSED_LEAST and may_compress(request):
            body, headers["Content-Encoding"] = compressed(body), "gzip"
        response = web.Response(body=body, status=error.status if error else status, headers=headers)
        if said:
            self.cookies.forget_said(response)
        return response

    def not_found(self, sought: str | None) -> web.Response:
        """`sought`: what was asked for, such as a form's act, and is not there."""
        return self.render("not_found.html", status=404, sought=sought or "")

    async def ask(
        self, method: str, path: str, body: Any, faults: Mapping[str, str], *, headers: Mapping[str, str]
    ) -> Any | OperationRefused:
        """What is answered to the request that a form describes, unless it has `faults`; or what is wrong with it. The
        request may hold secrets, so the page says nothing of it."""
        if faults:
            return refused_form(faults)
        try:
            return await self.send(method, path, body, headers=headers, shown=False)
        except OperationRefused as error:
            return error

    async def put(
        self, path: str, body: Any, faults: Mapping[str, str], *, precondition: Mapping[str, str]
    ) -> OperationRefused | None:
        """Create or replace what a form describes. Returns what is wrong with it; None: it is done."""
        answer = await self.ask("PUT", path, body, faults, headers=precondition)
        return answer if isinstance(answer, OperationRefused) else None

    def done(self, location: str, said: str) -> web.Response:
        """The answer to a form: the page to go to, which says once what was done."""
        response = redirect(location)
        self.cookies.say(response, said)
        return response


def page(handler: PageHandler, cookies: Cookies) -> Handler:
    """The handler of a page: with a session, or it leads to the login. Forms need the session's form token."""

    async def handle(context: RequestContext) -> web.StreamResponse:
        visitor = await visitor_of(context, cookies)
        if visitor is None:
            return to_login(context.request)
        own = visitor.principal.client_id
        if own is not None and context.request.match_info.get("client_id", own) != own:
            # Some pages ask nothing of the API before a form is sent.
            raise NotFound("there is no such client")
        form: Mapping[str, str] = {}
        if context.request.method == "POST":
            form = await read_form(context.request)
            refuse_foreign(context.request)
            if not hmac.compare_digest(form.get(FORM_TOKEN, "").encode(), visitor.form_token.encode()):
                raise Refusal("forbidden", "this form is of another session: open its page again")
        return await answer(Page(context, visitor, form, cookies), handler)

    handle.__name__ = f"console_{handler.__name__}"
    return handle


async def answer(asked: Page, handler: PageHandler) -> web.StreamResponse:
    """What the handler answers, or a page that says why the API refused."""
    try:
        return await handler(asked)
    except OperationUnsuccessful as error:
        return asked.render("refused.html", error=error, advice=ADVICE.get(error.kind))


async def visitor_of(context: RequestContext, cookies: Cookies) -> Visitor | None:
    token = cookies.token_of(context.request)
    return None if token is None else await context.services.sessions.find(token)


def to_login(request: web.Request) -> web.Response:
    """Leads to the login, and from there back to a page that was asked for."""
    back = request.path_qs if request.method in ("GET", "HEAD") and request.path != "/console" else ""
    return redirect(LOGIN + (f"?next={quote(back, safe='')}" if back else ""))


def own_page(text: str | None) -> str | None:
    """A path of the console that a login may lead to; None: it is none, or browsers might read it as another."""
    if text is None or not text.startswith("/console/") or not text.isascii() or not text.isprintable():
        return None
    path = text.partition("?")[0].partition("#")[0]
    if "\\" in text or any(unquote(one) in ("", ".", "..") for one in path.split("/")[1:]):
        return None
    return text


def address_of(request: web.Request) -> str:
    """Of who sends it, as failed logins are counted and logged by it; behind a proxy, that of the proxy."""
    return request.remote or "unknown"


def redirect(location: str) -> web.Response:
    return web.Response(status=303, headers={**SERVER, "Location": location, "Cache-Control": "no-store"})


def refuse_foreign(request: web.Request) -> None:
    """Raises Refusal for a form that a page of another origin sent. Browsers say so by the first header, which a page
    can't set; old ones, and all of them by HTTP to other machines, by the second only."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is None:
        origin = request.headers.get("Origin")
        own = origin is None or urlsplit(origin).netloc == request.host
    else:
        own = site in ("same-origin", "none")
    if not own:
        raise Refusal("forbidden", "forms are taken from this console's own pages only")


async def read_form(request: web.Request) -> Mapping[str, str]:
    """The fields of a form; of a repeated one the values, a line each. Raises Refusal."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise Refusal("unsupported-media-type", "send the form as a browser does")
    data, announced = bytearray(), request.content_length or 0
    while max(len(data), announced) <= FORM_LIMIT and not request.content.at_eof():
        data += await request.content.readany()
    if max(len(data), announced) > FORM_LIMIT:
        raise Refusal("content-too-large", f"the form is larger than the limit of {FORM_LIMIT} bytes")
    try:
        pairs = parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError:
        raise Refusal("malformed", "the form can't be read") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields[name] = f"{fields[name]}\n{value}" if name in fields else value
    return fields


def problem_page(problem: Problem, error: Exception | None) -> tuple[int, bytes]:
    """The page of an error of the console itself."""
    kind = problem.type.rpartition("/")[2]
    text = environment().get_template("problem.html").render(problem=problem, advice=ADVICE.get(kind))
    return problem.status, text.encode()
