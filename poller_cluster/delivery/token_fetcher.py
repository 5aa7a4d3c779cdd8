"""Fetches bearer tokens with an engine of its own, under the network policy of callbacks.

    fetch --issuer?--> discovery --> token endpoint --> Grant | TokenFailure
              `------token_url--------^

Its engine observes: it keeps the whole body of an answer, up to its bound, and keeps no connection. It opens a TLS
connection for each request, follows no redirect, and judges each address; a destination's client certificate and
forward proxy are for its receiver alone and not used here. A fetch with its discovery ends within `FETCH_SECONDS`.
"""

import dataclasses
from collections.abc import Callable
from typing import Final, TypeVar

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.token_request import (
    Grant,
    TokenFailure,
    discovery_request,
    read_endpoint,
    read_token,
    token_request,
)
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.logging import get_logger

FETCH_SECONDS: Final = 10.0
FETCHES_AT_ONCE: Final = 64
ANSWER_BYTES: Final = 65_536
"""Of the body of a document or a token's answer; discovery documents of large issuers have a few KB."""
_SHORTEST_SECONDS: Final = 0.1
_log = get_logger("minutehand.node")
T = TypeVar("T")


class TokenFetcher:
    """A Service; see the module. `fetch` may be called while it runs."""

    def __init__(self, *, clock: Clock, policy: NetworkPolicy, settings: DeliverySettings, version: str) -> None:
        self._clock = clock
        self._version = version
        few = dataclasses.replace(
            settings,
            max_in_flight=FETCHES_AT_ONCE,
            max_idle_connections=1,
            response_bytes=ANSWER_BYTES,
            excerpt_bytes=ANSWER_BYTES,
        )
        self._engine = DeliveryEngine(clock=clock, policy=policy, settings=few, observe=True)

    @property
    def capacity(self) -> int:
        """How many fetches may be under way."""
        return self._engine.capacity

    async def start(self) -> None:
        await self._engine.start()

    async def stop(self) -> None:
        """Fetches under way end as failed."""
        await self._engine.stop(0)

    def fetch(self, client_id: ClientId, source: TokenSource, on_done: Callable[[Grant | TokenFailure], None]) -> None:
        """`on_done` is called exactly once, not before this call has returned."""
        deadline = self._clock.monotonic() + FETCH_SECONDS

        def remaining() -> float:
            return max(deadline - self._clock.monotonic(), _SHORTEST_SECONDS)

        def ask(endpoint: str) -> None:
            request = token_request(
                source, endpoint, client_id=client_id, timeout_seconds=remaining(), version=self._version
            )
            self._attempt(request, lambda result: on_done(_read(lambda: read_token(source, result))))

        def discovered(issuer: str, result: AttemptResult) -> None:
            endpoint = _read(lambda: read_endpoint(issuer, result))
            if isinstance(endpoint, TokenFailure):
                on_done(endpoint)
            else:
                ask(endpoint)

        if source.token_url is not None:
            ask(source.token_url)
            return
        issuer = source.issuer or ""
        request = discovery_request(issuer, client_id=client_id, timeout_seconds=remaining(), version=self._version)
        self._attempt(request, lambda result: discovered(issuer, result))

    def _attempt(self, request: CallbackRequest, on_done: Callable[[AttemptResult], None]) -> None:
        self._engine.start_attempt(request, on_done, may_start=lambda: True)


def _read(answer: Callable[[], T | TokenFailure]) -> T | TokenFailure:
    """The result of reading an answer. An exception of the reader is a failure too, or calls would wait for ever."""
    try:
        return answer()
    except Exception as error:
        _log.error("token-unreadable", error=type(error).__name__)
        return TokenFailure(code="bad-answer", detail="the answer can't be read")
