"""The cookies of the console: of the session, and of what the last form did."""

from typing import Final
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
        response.set_cookie(
            self._name,
            session.token,
            path="/",
            max_age=(session.expires_at - now_ms) // 1000,
            httponly=True,
            samesite="Strict",
            secure=self._secure,
        )

    def take_token(self, response: web.Response) -> None:
        response.del_cookie(self._name, path="/", secure=self._secure, httponly=True, samesite="Strict")

    def say(self, response: web.Response, said: str) -> None:
        """Have the next page show this once."""
        response.set_cookie(
            SAID,
            quote(said),
            path="/console",
            max_age=_SAID_SECONDS,
            httponly=True,
            samesite="Strict",
            secure=self._secure,
        )

    def said(self, request: web.Request) -> str:
        """What the last form did; empty: nothing that was not shown."""
        return unquote(request.cookies.get(SAID, ""))

    def forget_said(self, response: web.Response) -> None:
        response.del_cookie(SAID, path="/console", secure=self._secure, httponly=True, samesite="Strict")

    def keep_login(self, response: web.Response, begun: str) -> None:
        """What a login elsewhere was begun with. Browsers send it when they come back from there, so it is lax."""
        response.set_cookie(
            self._login,
            begun,
            path="/",
            max_age=_LOGIN_SECONDS,
            httponly=True,
            samesite="Lax",
            secure=self._secure,
        )

    def kept_login(self, request: web.Request) -> str:
        return request.cookies.get(self._login, "")

    def forget_login(self, response: web.Response) -> None:
        response.del_cookie(self._login, path="/", secure=self._secure, httponly=True, samesite="Lax")
