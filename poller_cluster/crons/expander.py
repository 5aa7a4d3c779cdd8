"""Wake-ups of crons: the rows of the client `$cron` expand crons instead of calling receivers.

A node treats the rows of `$cron` like those of all clients: they become due, are claimed and recorded. Their "call" is
made by the expander, an engine beside the one that speaks HTTP:

    dispatcher --request--> CronEngine --minutehand://...---> Expander --by client--> ExpandCrons
                                 `------https://...---------> DeliveryEngine

Crons that are woken while others of their client are being expanded are expanded together next, so the more wake-ups
there are, the more of them share a request.

If storage does not answer, the expansion is repeated until the node loses the poller; one that fails for another reason
is retried like any call. Both are harmless, and so are two concurrent expansions of one cron.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from membership.errors import StoreUnavailable
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptError, AttemptResult
from poller_cluster.delivery.targets.port import Engine
from poller_cluster.node_runtime import NodeRuntime
from scheduler_service.domain.crons.expansion import WAKE_UP_SCHEME, woken_by
from scheduler_service.domain.ids import ClientId, CronId
from scheduler_service.runtime.backoff import Backoff
from scheduler_service.usecases.expand_crons import EXPANDED_AT_ONCE


class Expands(Protocol):
    """`usecases.expand_crons.ExpandCrons`."""

    async def __call__(self, client_id: ClientId, cron_ids: list[CronId]) -> None: ...


@dataclass(frozen=True, slots=True)
class _Woken:
    cron_id: CronId
    began_ms: int
    on_done: Callable[[AttemptResult], None]
    may_start: Callable[[], bool]


class Expander:
    """The engine that carries out wake-ups."""

    def __init__(self, *, expand: Expands, runtime: NodeRuntime) -> None:
        self.in_flight = 0
        self._expand = expand
        self._clock = runtime.clock
        self._randomness = runtime.randomness
        self._spawn = runtime.spawn
        self._on_fault = runtime.on_fault
        self._woken: dict[ClientId, list[_Woken]] = {}

    def start_attempt(
        self, request: CallbackRequest, on_done: Callable[[AttemptResult], None], *, may_start: Callable[[], bool]
    ) -> None:
        """Expand the cron that the request's body names. `on_done` is called later, on the loop, exactly once."""
        self.in_flight += 1
        now = self._clock.wall_ms()
        try:
            wake_up = woken_by(request.body)
        except msgspec.DecodeError as error:
            self._on_fault("a wake-up that names no cron", error)
            woken = _Woken(CronId(""), now, on_done, may_start)
            self._clock.call_later(0.0, lambda: self._ended(woken, error="internal", final=True))
            return
        woken = _Woken(wake_up.cron_id, now, on_done, may_start)
        waiting = self._woken.get(wake_up.client_id)
        if waiting is not None:
            waiting.append(woken)
            return
        self._woken[wake_up.client_id] = [woken]
        self._spawn(self._work(wake_up.client_id), name=f"expand {wake_up.client_id}")

    async def _work(self, client_id: ClientId) -> None:
        """Expand groups of this client's crons until none waits."""
        while waiting := self._woken[client_id]:
            group, self._woken[client_id] = waiting[:EXPANDED_AT_ONCE], waiting[EXPANDED_AT_ONCE:]
            await self._expand_group(client_id, group)
        del self._woken[client_id]

    async def _expand_group(self, client_id: ClientId, group: list[_Woken]) -> None:
        backoff = Backoff(clock=self._clock, randomness=self._randomness)
        while group:
            for woken in [woken for woken in group if not woken.may_start()]:
                group.remove(woken)
                self._ended(woken, error="not-trusted")
            if not group:
                return
            try:
                await self._expand(client_id, [woken.cron_id for woken in group])
            except StoreUnavailable:
                await backoff.wait()
                continue
            except Exception as error:
                self._on_fault(f"expansion for {client_id}", error)
                for woken in group:
                    self._ended(woken, error="internal")
                return
            for woken in group:
                self._ended(woken)
            return

    def _ended(self, woken: _Woken, *, error: AttemptError | None = None, final: bool = False) -> None:
        self.in_flight -= 1
        woken.on_done(
            AttemptResult(
                status=200 if error is None else None,
                error=error,
                nothing_sent=error == "not-trusted",
                final=final,
                started_at_ms=woken.began_ms,
                duration_seconds=max(self._clock.wall_ms() - woken.began_ms, 0) / 1000,
            )
        )


class CronEngine:
    """The node's engine: passes requests for receivers to `calls`, and wake-ups to the expander."""

    def __init__(self, *, calls: Engine, expander: Expander) -> None:
        self._calls = calls
        self._expander = expander

    @property
    def capacity(self) -> int:
        return self._calls.capacity

    @property
    def in_flight(self) -> int:
        """Calls only. Wake-ups take no connection, so they don't count against the engine's capacity; the limit of the
        client `$cron` bounds them."""
        return self._calls.in_flight

    def start_attempt(
        self, request: CallbackRequest, on_done: Callable[[AttemptResult], None], *, may_start: Callable[[], bool]
    ) -> None:
        engine: Engine | Expander = self._expander if request.url.startswith(WAKE_UP_SCHEME) else self._calls
        engine.start_attempt(request, on_done, may_start=may_start)
