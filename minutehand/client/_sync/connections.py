"""The connections of the synchronous client: one httpx transport, whose pool threads share."""

import ssl
from contextlib import AbstractContextManager, nullcontext

import httpx

from minutehand.client._requests import KEPT_SECONDS, MAX_CONNECTIONS
from minutehand.client._runtime import Runtime

_CONNECTIONS = httpx.Limits(
    max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS, keepalive_expiry=KEPT_SECONDS
)


class Transports:
    """Gives requests their transport: the caller's, or one with its own connections."""

    def __init__(
        self, given: httpx.BaseTransport | None, *, ssl_context: ssl.SSLContext | None, runtime: Runtime
    ) -> None:
        self._transport = given or httpx.HTTPTransport(
            verify=True if ssl_context is None else ssl_context, trust_env=False, limits=_CONNECTIONS
        )

    def one(self, *, within: float) -> AbstractContextManager[httpx.BaseTransport]:
        """A transport for one request, which waits for a connection itself."""
        return nullcontext(self._transport)

    def close(self) -> None:
        self._transport.close()
