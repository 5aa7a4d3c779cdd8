"""Operations go out, and out again where that is harmless; the plain way and the asynchronous one."""

import ssl
from collections.abc import Mapping
from typing import TypeVar

import httpx

from minutehand.client._calls import Operation, address_of, headers_for
from minutehand.client._errors import MinutehandClientError, unreachable
from minutehand.client._retries import Limits, Pace, Turns, was_refused

T = TypeVar("T")
_NO_ANSWER = (httpx.TransportError, httpx.InvalidURL)
_NEVER_SENT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL)
"""What no repetition changes."""


class Sender:
    """One connection, one key."""

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
        self._http = httpx.Client(
            base_url=address_of(url),
            headers=headers_for(key),
            timeout=timeout_seconds,
            transport=transport,
            trust_env=False,
            verify=True if ssl_context is None else ssl_context,
        )
        self._limits = limits
        self._pace = pace

    def perform(self, operation: Operation[T]) -> T:
        headers = _headers(operation, self._pace, self._limits)
        turns = Turns(self._limits, self._pace)
        while True:
            try:
                return self._once(operation, headers)
            except MinutehandClientError as error:
                pause = turns.pause_after(error) if operation.repeatable or was_refused(error) else None
                if pause is None:
                    raise
            self._pace.sleep(pause)

    def _once(self, operation: Operation[T], headers: Mapping[str, str] | None) -> T:
        try:
            answer = self._http.send(_request(self._http, operation, headers))
        except _NO_ANSWER as error:
            passing = not isinstance(error, _NEVER_SENT)
            raise unreachable(str(self._http.base_url), error, passing=passing) from error
        return operation.read(answer.status_code, answer.headers, answer.content)

    def close(self) -> None:
        self._http.close()


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
        self._http = httpx.AsyncClient(
            base_url=address_of(url),
            headers=headers_for(key),
            timeout=timeout_seconds,
            transport=transport,
            trust_env=False,
            verify=True if ssl_context is None else ssl_context,
        )
        self._limits = limits
        self._pace = pace

    async def perform(self, operation: Operation[T]) -> T:
        headers = _headers(operation, self._pace, self._limits)
        turns = Turns(self._limits, self._pace)
        while True:
            try:
                return await self._once(operation, headers)
            except MinutehandClientError as error:
                pause = turns.pause_after(error) if operation.repeatable or was_refused(error) else None
                if pause is None:
                    raise
            await self._pace.sleep_async(pause)

    async def _once(self, operation: Operation[T], headers: Mapping[str, str] | None) -> T:
        try:
            answer = await self._http.send(_request(self._http, operation, headers))
        except _NO_ANSWER as error:
            passing = not isinstance(error, _NEVER_SENT)
            raise unreachable(str(self._http.base_url), error, passing=passing) from error
        return operation.read(answer.status_code, answer.headers, answer.content)

    async def close(self) -> None:
        await self._http.aclose()


def _request(
    http: httpx.Client | httpx.AsyncClient, operation: Operation[T], headers: Mapping[str, str] | None
) -> httpx.Request:
    return http.build_request(
        operation.method,
        operation.path,
        params=operation.query or None,
        content=operation.body,
        headers=headers,
        timeout=httpx.USE_CLIENT_DEFAULT if operation.timeout_seconds is None else operation.timeout_seconds,
    )


def _headers(operation: Operation[T], pace: Pace, limits: Limits) -> dict[str, str] | None:
    """The same for every turn. A key costs the server a conditional write, so what is never repeated has none of its
    own."""
    key = operation.idempotency_key
    if key is None and operation.keyed and limits.retries > 0:
        key = pace.new_key()
    return None if key is None else {"Idempotency-Key": key}
