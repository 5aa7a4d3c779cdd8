"""The cookies of the console: of the session, and of what the last form did."""

from typing import Final, Literal
from urllib.parse import quote, unquote

from aiohttp import web

from scheduler_service.usecases.sessions import Begun

SECURE: Final = "__Host-minutehand"
"""Browsers take a cookie of this name from this host by HTTPS only: no neighbour and nobody on the way can set it."""
PLAIN: Final = "minutehand"
SAID: Final = "minutehand-said"
_LOGIN: Final = "minutehand-oidc"
_LOGIN_SECONDS: Final = 600
_SAID_SECONDS: Final = 30


class Cookies:
    """`secure`: browsers reach the console by HTTPS only. Then no cookie counts that came by anything else."""

    def __init__(self, *, secure: bool) -> None:
        self._secure = secure
        self._name = SECURE if secure else PLAIN
        self._login = f"__Host-{_LOGIN}" if secure else _LOGIN

    def token_of(self, request: web.Request) -> str | None:
        """The token of a session, ended or not."""
        return request.cookies.get(self._name) or None

    def give_token(self, response: web.Response, session: Begun, *, now_ms: int) -> None:
        """For as long as the session lasts."""
        seconds = (session.expires_at - now_ms) // 1000
        self._set(response, self._name, session.token, path="/", seconds=seconds, same_site="Strict")

    def take_token(self, response: web.Response) -> None:
        response.del_cookie(self._name, path="/", secure=self._secure, httponly=True, samesite="Strict")

    def say(self, response: web.Response, said: str) -> None:
        """Have the next page show this once."""
        self._set(response, SAID, quote(said), path="/console", seconds=_SAID_SECONDS, same_site="Strict")

    def said(self, request: web.Request) -> str:
        """What the last form did; empty: nothing that was not shown."""
        return unquote(request.cookies.get(SAID, ""))

    def forget_said(self, response: web.Response) -> None:
        response.del_cookie(SAID, path="/console", secure=self._secure, httponly=True, samesite="Strict")

    def keep_login(self, response: web.Response, begun: str) -> None:
        """What a login elsewhere was begun with. Browsers send it when they come back from there, so it is lax."""
        self._set(response, self._login, begun, path="/", seconds=_LOGIN_SECONDS, same_site="Lax")

    def kept_login(self, request: web.Request) -> str:
        return request.cookies.get(self._login, "")

    def forget_login(self, response: web.Response) -> None:
        response.del_cookie(self._login, path="/", secure=self._secure, httponly=True, samesite="Lax")

    def _set(
        self,
        response: web.Response,
        name: str,
        value: str,
        *,
        path: str,
        seconds: int,
        same_site: Literal["Strict", "Lax"],
    ) -> None:
        response.set_cookie(
            name, value, path=path, max_age=seconds, httponly=True, samesite=same_site, secure=self._secure
        )
