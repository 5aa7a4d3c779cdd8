"""The delivery engine of the server: it records every call, and answers calls to receivers in place."""

import asyncio
from collections.abc import Callable
from typing import Final

from minutehand.dev.receivers import PATH, Answer, Receivers
from poller_cluster.delivery.answer import retry_after_seconds
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.targets.port import EngineService, MayStart, OnDone
from poller_cluster.delivery.token_request import Grant, TokenFailure
from poller_cluster.node import FetcherService
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.end_notices import KeptAnswer, kept_headers
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.verbs import RETRY_AFTER, read_asked
from scheduler_service.runtime.clock import Clock

_EXCERPT: Final = 1_000


class UnderWay:
    """What is under way over sockets or in place. `quiet` is set while nothing is."""

    def __init__(self) -> None:
        self.count = 0
        self.quiet = asyncio.Event()
        self.quiet.set()

    def begun(self) -> None:
        self.count += 1
        self.quiet.clear()

    def ended(self) -> None:
        self.count -= 1
        if not self.count:
            self.quiet.set()


class AwaitedFetcher:
    """A `FetcherService` whose fetches are awaited before time goes on, as calls are."""

    def __init__(self, fetcher: FetcherService, under_way: UnderWay) -> None:
        self._fetcher = fetcher
        self._under_way = under_way
        self.start, self.stop = fetcher.start, fetcher.stop

    @property
    def capacity(self) -> int:
        return self._fetcher.capacity

    def fetch(self, client_id: ClientId, source: TokenSource, on_done: Callable[[Grant | TokenFailure], None]) -> None:
        def done(fetched: Grant | TokenFailure) -> None:
            self._under_way.ended()
            on_done(fetched)

        self._under_way.begun()
        self._fetcher.fetch(client_id, source, done)


class RecordingEngine:
    """An `EngineService` over the real one. `own_url`: how the addresses of its receivers begin."""

    def __init__(
        self, *, sockets: EngineService, clock: Clock, receivers: Receivers, own_url: str, under_way: UnderWay
    ) -> None:
        self._sockets = sockets
        self._clock = clock
        self._receivers = receivers
        self._in_place = own_url + PATH
        self._under_way = under_way
        self._calls = 0

    @property
    def capacity(self) -> int:
        return self._sockets.capacity

    @property
    def in_flight(self) -> int:
        return self._calls

    async def start(self) -> None:
        await self._sockets.start()

    async def stop(self, grace_seconds: float | None = None) -> None:
        await self._sockets.stop(grace_seconds)

    def start_attempt(self, request: CallbackRequest, on_done: OnDone, *, may_start: MayStart) -> None:
        at_ms = self._clock.wall_ms()
        receiver = self._receiver_of(request)
        self._calls += 1
        self._under_way.begun()

        def done(result: AttemptResult) -> None:
            self._calls -= 1
            self._under_way.ended()
            self._receivers.record(
                at_ms=at_ms,
                method=request.method,
                url=request.url,
                headers=request.headers,
                body=request.body,
                status=result.status,
                error=result.error,
                receiver=receiver,
            )
            on_done(result)

        if receiver is None:
            self._sockets.start_attempt(request, done, may_start=may_start)
        else:
            result = answered(self._receivers.answer(receiver), request, at_ms=at_ms)
            asyncio.get_running_loop().call_soon(done, result)

    def _receiver_of(self, request: CallbackRequest) -> str | None:
        """The receiver in place that the request goes to; None: it goes over a socket."""
        if request.target is not None or not request.url.startswith(self._in_place):
            return None
        return request.url[len(self._in_place) :].partition("?")[0].partition("/")[0]


def answered(answer: Answer, request: CallbackRequest, *, at_ms: int) -> AttemptResult:
    """What the real engine makes of such an answer."""
    if answer.error:
        return AttemptResult(
            status=None,
            error="connect-refused",
            detail="the receiver is planned to be away",
            nothing_sent=True,
            started_at_ms=at_ms,
            duration_seconds=0.0,
        )
    fields = tuple(answer.headers.items())
    pause = next((value for name, value in fields if name.lower() == RETRY_AFTER), None)
    failed = answer.status >= 300
    kept = None
    if request.keeps_answer:
        kept = KeptAnswer(status=answer.status, headers=kept_headers(fields), body=answer.body.encode())
    return AttemptResult(
        status=answer.status,
        error=None,
        started_at_ms=at_ms,
        duration_seconds=0.0,
        excerpt=answer.body[:_EXCERPT] if failed else "",
        retry_after_seconds=None if pause is None or not failed else retry_after_seconds(pause, wall_ms=at_ms),
        asked=read_asked(answer.status, fields, wall_ms=at_ms) if failed or fields else None,
        answer=kept,
    )
