"""Trial calls: calls without a stored schedule, made by the same preparation and the same engine as all others.

    call -> has the client room -> has the receiver's host -> prepare -> engine -> what was observed

They are made by API processes. The first trial call starts the engine. None waits for room: the caller gets an error
and can repeat it. A client may have `AT_ONCE_PER_CLIENT` under way and make one a second, with bursts of `BURST`, and
to each receiver's host what its settings allow. These limits hold per process, in addition to those of the nodes.

If its destination has a token source, a trial call fetches a token of its own, so that it shows whether that works now.
It is under way from then on, and may be refused after that if its receiver has no room any more.

No lease covers a trial call: its fence is the lowest, and its id belongs to no schedule.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from poller_cluster.clients import ServedClient
from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.targets.deliveries import Deliveries
from poller_cluster.delivery.targets.port import EngineService, OpenKinds
from poller_cluster.delivery.token_fetcher import TokenFetcher
from poller_cluster.delivery.token_request import Grant, TokenFailure
from poller_cluster.destinations import ServedDestination, channel_of, served, target_of
from poller_cluster.dispatch.job import Claim
from poller_cluster.dispatch.outcome import TOKEN_UNAVAILABLE
from poller_cluster.dispatch.receivers import Receiver, Receivers
from poller_cluster.dispatch.request import Bearer, Prepared, Sender, prepare
from poller_cluster.settings import ReceiverSettings
from scheduler_service.domain.destinations import TokenSource, read_named_url
from scheduler_service.domain.ids import ClientId
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.domain.schedules import Row
from scheduler_service.domain.targets import TargetKinds
from scheduler_service.domain.trial_calls import (
    TRIAL_HEADER,
    Exchange,
    Preview,
    TooManyTrialCalls,
    TrialCall,
    TrialCallsFull,
    TrialCallTimes,
)
from scheduler_service.domain.verbs import heed
from scheduler_service.runtime.clock import Clock

T = TypeVar("T")
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
        kinds: OpenKinds | None = None,
    ) -> None:
        self._clock = clock
        self._kinds = kinds or {}
        engine: EngineService = DeliveryEngine(clock=clock, policy=policy, settings=_few(settings), observe=True)
        if kinds:
            engine = Deliveries(calls=engine, kinds=kinds, clock=clock, grace_seconds=settings.stop_grace_seconds)
        self._engine = engine
        self._fetcher = TokenFetcher(clock=clock, policy=policy, settings=settings, version=version)
        self._receivers: Receivers[None] = Receivers(receivers, on_free=lambda client_id: None)
        self._sender = Sender(incarnation="trial call", version=version)
        self._starting = asyncio.Lock()
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
        """Raises TooManyTrialCalls; TrialCallsFull where too many of all clients are under way, and when stopping;
        Invalid for a destination whose target this process does not admit."""
        if self._stopped or self.in_flight >= TRIAL_CALLS_AT_ONCE:
            raise TrialCallsFull("this process has as many trial calls under way as it allows")
        client = _served(trial_call, self._kinds)
        receiver = self._receivers.of(
            client.client_id,
            trial_call.definition.url,
            client.settings,
            share=1.0,
            destinations=client.destinations,
        )
        place = self._admit(client.client_id, receiver)
        try:
            shown = await self._made(trial_call, client, receiver, place)
        finally:
            if not place.busy:
                self._left(place)
        return replace(shown, hidden=_hidden(trial_call))

    async def _made(
        self, trial_call: TrialCall, client: ServedClient, receiver: Receiver[None], place: "_Place"
    ) -> Exchange:
        began, now = self._clock.monotonic(), max(trial_call.definition.due, 0)
        prepared = self._prepared(trial_call, client, now=now)
        assert prepared is not None
        if prepared.sent is not None:
            got = await self._token(place, prepared.sent.source)
            if isinstance(got, TokenFailure):
                return _without_token(prepared.request, got, now, self._clock.monotonic() - began)
            self._check_receiver(receiver)
            token = got.token
            prepared = self._prepared(trial_call, client, now=now, bearer=lambda client_id, source: token)
            assert prepared is not None
        request = replace(prepared.request, headers=(*prepared.request.headers, TRIAL_HEADER))
        result = await self._attempt(request, place, receiver)
        verb = None
        if result.asked is not None:
            verb = heed(
                result.asked,
                allowed=prepared.settings.receiver_verbs,
                attempts=1,
                horizon_days=prepared.settings.horizon_days,
                at_most_once=prepared.settings.in_doubt == "drop",
                of_fire=True,
                earliest=0,
                now=self._clock.wall_ms(),
            )
        return _exchange(request, replace(result, heeded=verb))

    def preview(self, trial_call: TrialCall) -> Preview | None:
        prepared = self._prepared(trial_call, _served(trial_call, self._kinds), now=self._clock.wall_ms())
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

    def _admit(self, client_id: ClientId, receiver: Receiver[None]) -> "_Place":
        """Its place among those under way, which it has until it is over. Raises TooManyTrialCalls."""
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
        self._check_receiver(receiver)
        if len(self._paid_until) >= _REMEMBERED:
            self._paid_until = {one: until for one, until in self._paid_until.items() if until > now}
        self._paid_until[client_id] = paid_until + SECONDS_BETWEEN
        self._under_way[client_id] = self._under_way.get(client_id, 0) + 1
        return _Place(client_id)

    def _left(self, place: "_Place") -> None:
        self._under_way[place.client_id] -= 1
        if not self._under_way[place.client_id]:
            del self._under_way[place.client_id]

    def _check_receiver(self, receiver: Receiver[None]) -> None:
        """Raises TooManyTrialCalls."""
        delay = receiver.delay(self._clock.monotonic())
        if delay is None or delay > 0:
            raise TooManyTrialCalls(
                f"the client's limits for {receiver.name} are reached now", retry_after_seconds=delay or 1.0
            )

    async def _token(self, place: "_Place", source: TokenSource) -> Grant | TokenFailure:
        if not self._fetches:
            await self._fetcher.start()
            self._fetches = True

        def start(end: Callable[[Grant | TokenFailure], None]) -> None:
            self._fetcher.fetch(place.client_id, source, end)

        got = await self._ended(place, start)
        if self._stopped:
            raise TrialCallsFull("this process is stopping")
        return got

    async def _attempt(self, request: CallbackRequest, place: "_Place", receiver: Receiver[None]) -> AttemptResult:
        async with self._starting:
            if not self._started:
                await self._engine.start()
                self._started = True
        generation = receiver.started()

        def start(end: Callable[[AttemptResult], None]) -> None:
            def ended(result: AttemptResult) -> None:
                receiver.ended(result, generation=generation, now=self._clock.monotonic())
                end(result)

            self._engine.start_attempt(request, ended, may_start=lambda: not self._stopped)

        return await self._ended(place, start)

    async def _ended(self, place: "_Place", start: Callable[[Callable[[T], None]], None]) -> T:
        """The end of what is started. A caller that goes before has its place until then."""
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def end(got: T) -> None:
            place.busy = False
            if ended.done():
                self._left(place)
            else:
                ended.set_result(got)

        start(end)
        place.busy = True
        return await ended


class _Place:
    """One trial call among those under way. `busy`: a fetch or an attempt has not ended, whether or not its caller
    waits for it."""

    __slots__ = ("busy", "client_id")

    def __init__(self, client_id: ClientId) -> None:
        self.client_id = client_id
        self.busy = False


def _served(trial_call: TrialCall, kinds: TargetKinds) -> ServedClient:
    """Its client, with the one destination that it may name. Raises Invalid."""
    client, destinations = trial_call.client, dict[str, ServedDestination]()
    settings = client.settings.effective(poller_quota=client.poller_quota)
    if trial_call.destination is not None and (named := read_named_url(trial_call.definition.url)) is not None:
        called = trial_call.destination
        target = target_of(called, kinds, client.client_id)
        destinations[named.name] = served(named.name, called, settings, channel=channel_of(called), target=target)
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
    seen, verb = result.observation, result.heeded
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
        delivered=result.succeeded and (verb is None or verb.obeyed != "snooze"),
        addresses=() if seen is None else seen.addresses,
        connected_to=None if seen is None else seen.connected_to,
        times=times,
        status=result.status,
        http_version=None if seen is None else seen.http_version,
        response_headers=() if seen is None else seen.response_headers,
        excerpt=result.excerpt,
        error=result.error,
        detail=result.detail,
        verb=None if verb is None else verb.verb,
        verb_ignored=None if verb is None else verb.ignored,
    )
