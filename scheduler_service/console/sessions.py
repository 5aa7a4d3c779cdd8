"""Logging in and out."""

from aiohttp import web

from scheduler_service.api.http.route import RequestContext
from scheduler_service.api.request_budget import END_SESSIONS_COST
from scheduler_service.console.cookies import Cookies
from scheduler_service.console.openid_pages import BEGIN, OpenIdPages
from scheduler_service.console.pages import (
    LOGIN,
    PAGE_HEADERS,
    Page,
    address_of,
    own_page,
    read_form,
    redirect,
    refuse_foreign,
    visitor_of,
)
from scheduler_service.console.rendering import environment
from scheduler_service.console.settings import ConsoleSettings
from scheduler_service.usecases.authenticate import Unauthenticated, key_id_in


class LoginPages:
    """`cookies`: those of this console."""

    def __init__(self, settings: ConsoleSettings, *, tls: bool) -> None:
        self.cookies = Cookies(secure=tls if settings.https is None else settings.https)
        self.openid = None if settings.oidc_issuer is None else OpenIdPages(settings, self.cookies)
        self._elsewhere = None if self.openid is None else BEGIN

    async def show_login(self, context: RequestContext) -> web.Response:
        if await visitor_of(context, self.cookies) is not None:
            return redirect(own_page(context.request.query.get("next")) or "/console")
        return self._page(next_=context.request.query.get("next"))

    async def log_in(self, context: RequestContext) -> web.Response:
        """A login that fails is logged, with the id of the key if it has the form of one, and never the key."""
        form, services = await read_form(context.request), context.services
        refuse_foreign(context.request)
        key, address = form.get("key", ""), address_of(context.request)
        services.request_budget.take_login(address)
        try:
            begun = await services.sessions.begin(key, before=services.request_budget.take_session)
        except Unauthenticated as error:
            context.log("console-login-refused", reason=str(error), key_id=key_id_in(key) or "none", address=address)
            return self._page(next_=form.get("next"), wrong="This key is not known, or has ended.")
        services.request_budget.give_back_login(address)
        await self._end_earlier(context)
        response = redirect(own_page(form.get("next")) or "/console")
        self.cookies.give_token(response, begun, now_ms=services.clock.wall_ms())
        context.log("console-login", principal=begun.principal.name)
        return response

    async def log_out(self, page: Page) -> web.Response:
        """Act `everywhere`: the sessions of this key or person in other browsers end, too."""
        token = self.cookies.token_of(page.context.request)
        if page.form.get("act") == "everywhere" and token is not None:
            services = page.context.services
            services.request_budget.take(page.visitor.principal, END_SESSIONS_COST)
            ended = await services.sessions.end_all(token)
            page.context.log("console-logout-everywhere", principal=page.visitor.principal.name, sessions=ended)
        await self._end_earlier(page.context)
        response = redirect(LOGIN)
        self.cookies.take_token(response)
        return response

    async def _end_earlier(self, context: RequestContext) -> None:
        """End the session that this browser has."""
        if (token := self.cookies.token_of(context.request)) is not None:
            await context.services.sessions.end(token)

    def _page(self, *, next_: str | None, wrong: str | None = None) -> web.Response:
        values = {"next": own_page(next_), "wrong": wrong, "elsewhere": self._elsewhere}
        text = environment().get_template("login.html").render(values)
        return web.Response(body=text.encode(), status=403 if wrong else 200, headers=PAGE_HEADERS)
