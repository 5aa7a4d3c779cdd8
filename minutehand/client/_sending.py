"""Operations go out, and out again where that is harmless; the plain way and the asynchronous one.

Requests are given to httpx's transports themselves, which keep the connections. What its clients do on top (cookies,
redirects, hooks, headers that say nothing here) took a quarter of the time of a create and is not wanted.
"""

import ssl
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote, urlencode

import httpx

from minutehand.client._calls import Operation, address_of, headers_for
from minutehand.client._errors import MinutehandClientError, unreachable
from minutehand.client._once import HEADER, Tokens
from minutehand.client._pace import Pace
from minutehand.client._retries import Limits, Turns

T = TypeVar("T")
_NO_ANSWER = (httpx.RequestError, httpx.InvalidURL)
_NEVER_SENT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)
"""What no repetition changes."""
_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Nothing of the request was sent."""
_CLOSED = "the connection has been closed"
_CONNECTIONS = httpx.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=60.0)
"""All of them are kept for a little less than the API keeps them."""


class _Requests:
    """Makes requests of operations: all that is the same for each is made once."""

    def __init__(self, url: str, key: str, timeout_seconds: float) -> None:
        self.address = address_of(url).rstrip("/")
        httpx.URL(self.address)
        self._headers = httpx.Headers(headers_for(key))
        self._timeout = {"timeout": httpx.Timeout(timeout_seconds).as_dict()}

    def request(self, operation: Operation[T], turns: Turns) -> httpx.Request:
        """Raises httpx.InvalidURL."""
        url = self.address + operation.path
        if turns.token is not None:
            url = f"{url}?once={turns.token}"
        elif operation.query:
            url = f"{url}?{urlencode(operation.query, quote_via=quote)}"
        headers, timeout = self._headers, self._timeout
        if turns.key is not None:
            headers = headers.copy()
            headers["Idempotency-Key"] = turns.key
        if operation.timeout_seconds is not None:
            timeout = {"timeout": httpx.Timeout(operation.timeout_seconds).as_dict()}
        return httpx.Request(operation.method, url, headers=headers, content=operation.body, extensions=timeout)

    def no_answer(self, error: Exception) -> MinutehandClientError:
        return unreachable(
            self.address,
            error,
            passing=not isinstance(error, _NEVER_SENT),
            sent=not isinstance(error, (*_NEVER_SENT, *_NOT_CONNECTED)),
        )


class Sender:
    """One API, one key."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float,
        limits: Limits,
        transport: httpx.BaseTransport | None,
        pace: Pace,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._requests = _Requests(url, key, timeout_seconds)
        self._transport = transport or httpx.HTTPTransport(
            verify=True if ssl_context is None else ssl_context, trust_env=False, limits=_CONNECTIONS
        )
        self._limits = limits
        self._pace = pace
        self._tokens = Tokens(pace)
        self._closed = False

    def perform(self, operation: Operation[T]) -> T:
        turns = Turns(operation, limits=self._limits, pace=self._pace, tokens=self._tokens)
        while True:
            try:
                return self._once(operation, turns)
            except MinutehandClientError as error:
                pause = turns.pause_after(error)
                if pause is None:
                    raise
            self._pace.sleep(pause)

    def _once(self, operation: Operation[T], turns: Turns) -> T:
        if self._closed:
            raise RuntimeError(_CLOSED)
        sent_at = self._pace.monotonic()
        try:
            response = self._transport.handle_request(self._requests.request(operation, turns))
            try:
                body = response.read()
            finally:
                response.close()
        except _NO_ANSWER as error:
            raise self._requests.no_answer(error) from error
        try:
            return operation.read(response.status_code, response.headers, body)
        finally:
            _hear(self._tokens, operation, response, sent_at)

    def close(self) -> None:
        self._closed = True
        self._transport.close()


class AsyncSender:
    """The same, to be awaited."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float,
        limits: Limits,
        transport: httpx.AsyncBaseTransport | None,
        pace: Pace,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._requests = _Requests(url, key, timeout_seconds)
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=True if ssl_context is None else ssl_context, trust_env=False, limits=_CONNECTIONS
        )
        self._limits = limits
        self._pace = pace
        self._tokens = Tokens(pace)
        self._closed = False

    async def perform(self, operation: Operation[T]) -> T:
        turns = Turns(operation, limits=self._limits, pace=self._pace, tokens=self._tokens)
        while True:
            try:
                return await self._once(operation, turns)
            except MinutehandClientError as error:
                pause = turns.pause_after(error)
                if pause is None:
                    raise
            await self._pace.sleep_async(pause)

    async def _once(self, operation: Operation[T], turns: Turns) -> T:
        if self._closed:
            raise RuntimeError(_CLOSED)
        sent_at = self._pace.monotonic()
        try:
            response = await self._transport.handle_async_request(self._requests.request(operation, turns))
            try:
                body = await response.aread()
            finally:
                await response.aclose()
        except _NO_ANSWER as error:
            raise self._requests.no_answer(error) from error
        try:
            return operation.read(response.status_code, response.headers, body)
        finally:
            _hear(self._tokens, operation, response, sent_at)

    async def close(self) -> None:
        self._closed = True
        await self._transport.aclose()


def _hear(tokens: Tokens, operation: Operation[T], response: httpx.Response, sent_at: float) -> None:
    if operation.creating is None:
        return
    client_id, told = operation.creating.client_id, response.headers.get(HEADER)
    if response.status_code == HTTPStatus.CONFLICT:
        tokens.forget(client_id)
    if told is not None:
        tokens.heard(client_id, told, sent_at=sent_at)
