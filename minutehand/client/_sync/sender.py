# Made of ../_async/sender.py by `make sdk`: edit that.
"""Sends operations, and repeats them where that is safe."""

import ssl
from typing import TypeVar

import httpx

from minutehand.client._calls import Operation
from minutehand.client._errors import MinutehandClientError
from minutehand.client._once import Tokens
from minutehand.client._requests import CLOSED, NO_ANSWER, Requests, hear
from minutehand.client._retries import Limits, Turns
from minutehand.client._runtime import Runtime
from minutehand.client._sync.connections import Transports

T = TypeVar("T")


class Sender:
    """Sends operations to one API under one key."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float,
        limits: Limits,
        transport: httpx.BaseTransport | None,
        runtime: Runtime,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._requests = Requests(url, key, timeout_seconds)
        self._transports = Transports(transport, ssl_context=ssl_context, runtime=runtime)
        self._limits = limits
        self._runtime = runtime
        self._tokens = Tokens(runtime)
        self._closed = False

    def perform(self, operation: Operation[T]) -> T:
        turns = Turns(operation, limits=self._limits, runtime=self._runtime, tokens=self._tokens)
        while True:
            try:
                return self._once(operation, turns)
            except MinutehandClientError as error:
                pause = turns.pause_after(error)
                if pause is None:
                    raise
            self._runtime.sleep(pause)

    def _once(self, operation: Operation[T], turns: Turns) -> T:
        if self._closed:
            raise RuntimeError(CLOSED)
        try:
            request = self._requests.request(operation, turns)
            with self._transports.one(within=request.extensions["timeout"]["pool"]) as transport:
                sent_at = self._runtime.monotonic()
                response = transport.handle_request(request)
                try:
                    body = response.read()
                finally:
                    response.close()
        except NO_ANSWER as error:
            raise self._requests.no_answer(error) from error
        try:
            return operation.read(response.status_code, response.headers, body)
        finally:
            # For refusals too: they may refuse the token, and carry what the next one is made of.
            hear(self._tokens, operation, response, sent_at)

    def close(self) -> None:
        self._closed = True
        self._transports.close()
