"""Trial calls: calls without a stored schedule, made by the same preparation and the same engine as all others.

    call -> has the client room -> has the receiver's host -> prepare -> engine -> what was observed

They are made by API processes. The first trial call starts the engine. None waits for room: the caller gets an error
and can repeat it. A client may have `AT_ONCE_PER_CLIENT` under way and make one a second, with bursts of `BURST`, and
to each receiver's host what its settings allow. These limits hold per process, in addition to those of the nodes.

If its destination has a token source, a trial call fetches a token of its own, so that it shows whether that works now.

No lease covers a trial call: its fence is the lowest, and its id belongs to no schedule.
"""

import asyncio
import dataclasses
from typing import Any, Final

from msgspec.structs import replace

from poller_cluster.clients import ServedClient
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.token_fetcher import TokenFetcher
from poller_cluster.delivery.token_request import Grant, TokenFailure
from poller_cluster.destinations import ServedDestination, channel_of, served
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.outcome import TOKEN_UNAVAILABLE
from poller_cluster.dispatch.receivers import Receiver, Receivers
from poller_cluster.dispatch.request import Bearer, Prepared, Sender, prepare
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.destinations import TokenSource, read_named_url
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.schedules import Row
from scheduler_service.domain.trial_calls import (
    TRIAL_HEADER,
    Exchange,
    Preview,
    TooManyTrialCalls,
    TrialCall,
    TrialCallsFull,
    TrialCallTimes,
)
from scheduler_service.runtime.clock import Clock

TRIAL_CALLS_AT_ONCE: Final = 16
"""The limit for all clients together."""
AT_ONCE_PER_CLIENT: Final = 2
SECONDS_BETWEEN: Final = 1.0
BURST: Final = 5
_REMEMBERED = 1024
_FENCE = 1


def _no_token_yet(client_id: ClientId, source: TokenSource) -> str:
    """`Bearer` of requests that are shown: credentials are masked."""
    return "..."


class TrialCalls:
    """The `TrialCaller` of one process. `stop` is idempotent and ends calls under way."""

    def __init__(
        self,
        *,
        clock: Clock,
        policy: NetworkPolicy,
        settings: DeliverySettings,
        receivers: ReceiverSettings,
        version: str,
    ) -> None:
        self._clock = clock
        self._engine = DeliveryEngine(clock=clock, policy=policy, settings=_few(settings), observe=True)
        self._fetcher = TokenFetcher(clock=clock, policy=policy, settings=settings, version=version)
        self._receivers: Receivers[None] = Receivers(receivers, on_free=lambda client_id: None)
        self._sender = Sender(incarnation="trial call", version=version)
        self._started = self._fetches = self._stopped = False
        self._under_way: dict[ClientId, int] = {}
        self._paid_until: dict[ClientId, float] = {}

    @property
    def in_flight(self) -> int:
        """Trial calls under way."""
        return sum(self._under_way.values())

    async def stop(self) -> None:
        self._stopped = True
        await self._fetcher.stop()
        await self._engine.stop(0)

    async def call(self, trial_call: TrialCall) -> Exchange:
        """Raises TooManyTrialCalls; TrialCallsFull where too many of all clients are under way, and when stopping."""
        if self._stopped or self.in_flight >= TRIAL_CALLS_AT_ONCE:
            raise TrialCallsFull("this process has as many trial calls under way as it allows")
        client = _served(trial_call)
        receiver = self._receivers.of(
            client.client_id,
            trial_call.definition.url,
            client.settings,
            share=1.0,
            destinations=client.destinations,
        )
        self._admit(client.client_id, receiver)
        began, now = self._clock.monotonic(), max(trial_call.definition.due, 0)
        prepared = self._prepared(trial_call, client, now=now)
        assert prepared is not None
        if prepared.sent is not None:
            got = await self._token(client.client_id, prepared.sent.source)
            if isinstance(got, TokenFailure):
                seconds = self._clock.monotonic() - began
                return replace(_without_token(prepared.request, got, now, seconds), hidden=_hidden(trial_call))
            token = got.token
            prepared = self._prepared(trial_call, client, now=now, bearer=lambda client_id, source: token)
            assert prepared is not None
        request = replace(prepared.request, headers=(*prepared.request.headers, TRIAL_HEADER))
        result = await self._attempt(request, client.client_id, receiver)
        return replace(_exchange(request, result), hidden=_hidden(trial_call))

    def preview(self, trial_call: TrialCall) -> Preview | None:
        prepared = self._prepared(trial_call, _served(trial_call), now=self._clock.wall_ms())
        if prepared is None:
            return None
        request = prepared.request
        return Preview(
            method=request.method,
            url=request.url,
            headers=request.headers,
            body=request.body,
            hidden=_hidden(trial_call),
        )

    def _prepared(
        self, trial_call: TrialCall, client: ServedClient, *, now: int, bearer: Bearer = _no_token_yet
    ) -> Prepared | None:
        """None for a row that can't be decoded. It is never late: that is for a schedule's owner to judge."""
        columns: dict[str, Any] = {name: getattr(trial_call.definition, name, None) for name in Row.__struct_fields__}
        claim = Claim(row=Row(**columns), redelivery=False, first_attempt_at=None)
        prepared = prepare(claim, client=client, epoch=_FENCE, sender=self._sender, now=now, judged_at=0, bearer=bearer)
        return prepared if isinstance(prepared, Prepared) else None

    def _admit(self, client_id: ClientId, receiver: Receiver[None]) -> None:
        now = self._clock.monotonic()
        if self._under_way.get(client_id, 0) >= AT_ONCE_PER_CLIENT:
            raise TooManyTrialCalls(
                f"{AT_ONCE_PER_CLIENT} trial calls of this client are under way", retry_after_seconds=1.0
            )
        paid_until = max(self._paid_until.get(client_id, now), now)
        wait = paid_until - now - (BURST - 1) * SECONDS_BETWEEN
        if wait > 0:
            raise TooManyTrialCalls(
                f"this client has used its burst of {BURST}; one a second may follow", retry_after_seconds=wait
            )
        delay = receiver.delay(now)
        if delay is None or delay > 0:
            raise TooManyTrialCalls(
                f"the client's limits for {receiver.name} are reached now", retry_after_seconds=delay or 1.0
            )
        if len(self._paid_until) >= _REMEMBERED:
            self._paid_until = {one: until for one, until in self._paid_until.items() if until > now}
        self._paid_until[client_id] = paid_until + SECONDS_BETWEEN

    async def _token(self, client_id: ClientId, source: TokenSource) -> Grant | TokenFailure:
        if not self._fetches:
            await self._fetcher.start()
            self._fetches = True
        ended: asyncio.Future[Grant | TokenFailure] = asyncio.get_running_loop().create_future()
        self._begun(client_id)

        def end(got: Grant | TokenFailure) -> None:
            self._over(client_id)
            if not ended.done():
                ended.set_result(got)

        self._fetcher.fetch(client_id, source, end)
        got = await ended
        if self._stopped:
            raise TrialCallsFull("this process is stopping")
        return got

    def _begun(self, client_id: ClientId) -> None:
        self._under_way[client_id] = self._under_way.get(client_id, 0) + 1

    def _over(self, client_id: ClientId) -> None:
        self._under_way[client_id] -= 1
        if not self._under_way[client_id]:
            del self._under_way[client_id]

    async def _attempt(self, request: CallbackRequest, client_id: ClientId, receiver: Receiver[None]) -> AttemptResult:
        if not self._started:
            await self._engine.start()  # it awaits nothing, so no other call sees an engine that is still starting
            self._started = True
        ended: asyncio.Future[AttemptResult] = asyncio.get_running_loop().create_future()
        self._begun(client_id)
        generation = receiver.started()

        def end(result: AttemptResult) -> None:
            """Called also if the caller has gone: a call under way counts until it has ended."""
            receiver.ended(result, generation=generation, now=self._clock.monotonic())
            self._over(client_id)
            if not ended.done():
                ended.set_result(result)

        self._engine.start_attempt(request, end, may_start=lambda: not self._stopped)
        return await ended


def _served(trial_call: TrialCall) -> ServedClient:
    """Its client, with the one destination that it may name."""
    client, destinations = trial_call.client, dict[str, ServedDestination]()
    settings = client.settings.effective(poller_quota=client.poller_quota)
    if trial_call.destination is not None and (named := read_named_url(trial_call.definition.url)) is not None:
        called = trial_call.destination
        destinations[named.name] = served(named.name, called, settings, channel=channel_of(called))
    return ServedClient(
        client,
        settings,
        trial_call.secrets,
        private_keys=trial_call.private_keys,
        destinations=destinations,
    )


def _hidden(trial_call: TrialCall) -> frozenset[str]:
    """The headers that a destination may have given: by name alone, as an own one by that name is as secret."""
    shared = () if trial_call.destination is None else trial_call.destination.headers
    return frozenset(name.lower() for name, _ in shared)


def _without_token(request: CallbackRequest, failure: TokenFailure, started_at: int, seconds: float) -> Exchange:
    """What is shown of a call that was not made."""
    return Exchange(
        method=request.method,
        url=request.url,
        headers=(*request.headers, TRIAL_HEADER),
        body=request.body,
        started_at=started_at,
        sent=False,
        delivered=False,
        times=TrialCallTimes(ended=seconds),
        error=TOKEN_UNAVAILABLE,
        detail=f"{failure.detail}: {failure.said}" if failure.said else failure.detail,
    )


def _few(settings: DeliverySettings) -> DeliverySettings:
    """The operator's settings, adapted to a few calls whose host names are resolved each time."""
    return dataclasses.replace(settings, max_in_flight=TRIAL_CALLS_AT_ONCE, max_idle_connections=1, dns_cache_seconds=0)


def _exchange(request: CallbackRequest, result: AttemptResult) -> Exchange:
    seen = result.observation
    times = TrialCallTimes(ended=result.duration_seconds)
    if seen is not None:
        times = TrialCallTimes(
            resolved=seen.resolved_seconds,
            connected=seen.connected_seconds,
            secured=seen.secured_seconds,
            first_byte=seen.first_byte_seconds,
            ended=result.duration_seconds,
        )
    return Exchange(
        method=request.method,
        url=request.url,
        headers=request.headers if seen is None else seen.headers,
        body=request.body,
        started_at=result.started_at_ms,
        sent=not result.nothing_sent,
        delivered=result.succeeded,
        addresses=() if seen is None else seen.addresses,
        connected_to=None if seen is None else seen.connected_to,
        times=times,
        status=result.status,
        http_version=None if seen is None else seen.http_version,
        response_headers=() if seen is None else seen.response_headers,
        excerpt=result.excerpt,
        error=result.error,
        detail=result.detail,
    )
