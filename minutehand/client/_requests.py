"""Turns operations into HTTP requests, and feeds answers to the tokens.

Requests go directly to httpx's transports, which keep the connections. What httpx's clients do on top (cookies,
redirects, hooks, default headers) took a quarter of the time of a create and is not needed.
"""

from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote, urlencode

import httpx

from minutehand.client._calls import Operation, address_of, headers_for
from minutehand.client._errors import MinutehandClientError, unreachable
from minutehand.client._once import HEADER, Tokens
from minutehand.client._retries import Turns

T = TypeVar("T")
NO_ANSWER = (httpx.RequestError, httpx.InvalidURL)
_NEVER_SENT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)
"""Errors that a repeat would only raise again."""
_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Nothing of the request was sent."""
CLOSED = "the connection has been closed"
MAX_CONNECTIONS = 100
KEPT_SECONDS = 60.0
"""Idle connections are kept a little shorter than the API keeps them, so that it never closes one first."""


class Requests:
    """Makes requests from operations; what all of them share is made once."""

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
            url = f"{url}?{urlencode(operation.query, doseq=True, quote_via=quote)}"
        headers, timeout = self._headers, self._timeout
        if turns.key is not None:
            headers = headers.copy()
            headers["Idempotency-Key"] = turns.key
        if operation.headers:
            headers = headers.copy()
            headers.update(operation.headers)
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


def hear(tokens: Tokens, operation: Operation[T], response: httpx.Response, sent_at: float) -> None:
    """Learn from an answer to a create what tokens are made of, or that they were refused."""
    if operation.creating is None:
        return
    client_id, told = operation.creating.client_id, response.headers.get(HEADER)
    if response.status_code == HTTPStatus.CONFLICT:
        tokens.forget(client_id)
    if told is not None:
        tokens.heard(client_id, told, sent_at=sent_at)
