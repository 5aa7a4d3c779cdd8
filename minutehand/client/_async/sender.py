"""Sends operations, and repeats them where that is safe."""

import ssl
from typing import TypeVar

import httpx

from minutehand.client._async.connections import AsyncTransports
from minutehand.client._calls import Operation
from minutehand.client._errors import MinutehandClientError
from minutehand.client._once import Tokens
from minutehand.client._requests import CLOSED, NO_ANSWER, Requests, hear
from minutehand.client._retries import Limits, Turns
from minutehand.client._runtime import Runtime

T = TypeVar("T")


class AsyncSender:
    """Sends operations to one API under one key."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float,
        limits: Limits,
        transport: httpx.AsyncBaseTransport | None,
        runtime: Runtime,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._requests = Requests(url, key, timeout_seconds)
        self._transports = AsyncTransports(transport, ssl_context=ssl_context, runtime=runtime)
        self._limits = limits
        self._runtime = runtime
        self._tokens = Tokens(runtime)
        self._closed = False

    async def perform(self, operation: Operation[T]) -> T:
        turns = Turns(operation, limits=self._limits, runtime=self._runtime, tokens=self._tokens)
        while True:
            try:
                return await self._once(operation, turns)
            except MinutehandClientError as error:
                pause = turns.pause_after(error)
                if pause is None:
                    raise
            await self._runtime.sleep_async(pause)

    async def _once(self, operation: Operation[T], turns: Turns) -> T:
        if self._closed:
            raise RuntimeError(CLOSED)
        try:
            request = self._requests.request(operation, turns)
            async with self._transports.one(within=request.extensions["timeout"]["pool"]) as transport:
                sent_at = self._runtime.monotonic()
                response = await transport.handle_async_request(request)
                try:
                    body = await response.aread()
                finally:
                    await response.aclose()
        except NO_ANSWER as error:
            raise self._requests.no_answer(error) from error
        try:
            return operation.read(response.status_code, response.headers, body)
        finally:
            # For refusals too: they may refuse the token, and carry what the next one is made of.
            hear(self._tokens, operation, response, sent_at)

    async def close(self) -> None:
        self._closed = True
        await self._transports.close()
