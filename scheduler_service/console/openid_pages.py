"""Logging in at an OpenID provider, and coming back from there."""

import base64
import hmac
import json
from typing import Final

from aiohttp import web

from scheduler_service.api.http.route import RequestContext
from scheduler_service.console.cookies import Cookies
from scheduler_service.console.openid import Begun, OpenIdProvider, ProviderFailed
from scheduler_service.console.pages import PAGE_HEADERS, address_of, own_page, redirect
from scheduler_service.console.rendering import environment
from scheduler_service.console.settings import ConsoleSettings
from scheduler_service.usecases.authenticate import Forbidden

BEGIN: Final = "/console/oidc:begin"
BACK: Final = "/console/oidc"
_TOKEN_BYTES: Final = 32
_NOT_NOW: Final = "The login there did not succeed. Try it again, or use a key."


class OpenIdPages:
    """The two steps of a login, at the provider that the settings name."""

    def __init__(self, settings: ConsoleSettings, cookies: Cookies) -> None:
        self._provider = OpenIdProvider(settings)
        self._cookies = cookies

    async def begin_oidc(self, context: RequestContext) -> web.Response:
        """Lead to the provider."""
        random, budget = context.services.randomness.secret_bytes, context.services.request_budget
        begun = Begun(*(random(_TOKEN_BYTES).hex() for _ in Begun._fields))
        budget.take_login(address := address_of(context.request))
        try:
            there = await self._provider.address(begun, context.services.clock)
        except ProviderFailed as error:
            return _refused(context, error, status=502)
        budget.give_back_login(address)
        response = redirect(there)
        self._cookies.keep_login(response, _packed(begun, own_page(context.request.query.get("next"))))
        return response

    async def end_oidc(self, context: RequestContext) -> web.Response:
        """Take back who has logged in there."""
        query, services = context.request.query, context.services
        begun, next_ = _unpacked(self._cookies.kept_login(context.request))
        if begun is None or not hmac.compare_digest(query.get("state", "").encode(), begun.state.encode()):
            return _refused(context, ProviderFailed("the answer belongs to no login of this browser"), status=403)
        # Anybody can make up a login for their own browser, and each code is asked of the provider.
        services.request_budget.take_login(address := address_of(context.request))
        try:
            if not (code := query.get("code", "")):
                raise ProviderFailed("it sends no code")
            person = await self._provider.person(code, begun, services.clock)
        except ProviderFailed as error:
            return self._forgotten(_refused(context, error, status=403))
        try:
            session = await services.sessions.begin_for(person, before=services.request_budget.take_session)
        except Forbidden as error:
            return self._forgotten(_refused(context, error, status=403, said=f"{person.subject}: {error}."))
        services.request_budget.give_back_login(address)
        # Browsers send a strict cookie only if a page of this origin led to the next one: no redirect from elsewhere.
        text = environment().get_template("logged_in.html").render(next=own_page(next_) or "/console")
        response = self._forgotten(web.Response(body=text.encode(), headers=PAGE_HEADERS))
        self._cookies.give_token(response, session, now_ms=services.clock.wall_ms())
        context.log("console-login", principal=session.principal.name)
        return response

    def _forgotten(self, response: web.Response) -> web.Response:
        self._cookies.forget_login(response)
        return response


def _refused(context: RequestContext, error: Exception, *, status: int, said: str = _NOT_NOW) -> web.Response:
    context.log("console-login-refused", reason=str(error), address=address_of(context.request))
    text = environment().get_template("login.html").render(next=None, wrong=said, elsewhere=BEGIN)
    return web.Response(body=text.encode(), status=status, headers=PAGE_HEADERS)


def _packed(begun: Begun, next_: str | None) -> str:
    return base64.urlsafe_b64encode(json.dumps([*begun, next_]).encode()).decode()


def _unpacked(cookie: str) -> tuple[Begun | None, str | None]:
    """What `_packed` made; None: anything else, such as an empty cookie."""
    try:
        *texts, next_ = json.loads(base64.urlsafe_b64decode(cookie))
    except (ValueError, TypeError):
        return None, None
    good = len(texts) == len(Begun._fields) and all(isinstance(one, str) and one for one in texts)
    return (Begun(*texts), next_ if isinstance(next_, str) else None) if good else (None, None)
