"""Delivery engines on loopback, and attempts that can be awaited."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from poller_cluster.delivery.engine import DeliveryEngine
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.targets.port import Engine
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.runtime.clock import SystemClock

CLOCK = SystemClock()
LOOPBACK = NetworkPolicy.parse(allow=["127.0.0.0/8", "::1/128"])
LONG_SECONDS = 10


class EngineMaker(Protocol):
    async def __call__(self, policy: NetworkPolicy = LOOPBACK, **settings: Any) -> DeliveryEngine:
        """Start an engine with these settings (see DeliverySettings)."""


@contextlib.asynccontextmanager
async def engines() -> AsyncIterator[EngineMaker]:
    """Makes engines that are stopped at the end of the test."""
    made: list[DeliveryEngine] = []

    async def make(policy: NetworkPolicy = LOOPBACK, **settings: Any) -> DeliveryEngine:
        engine = DeliveryEngine(clock=CLOCK, policy=policy, settings=DeliverySettings(**settings))
        await engine.start()
        made.append(engine)
        return engine

    try:
        yield make
    finally:
        for engine in made:
            await engine.stop(0)


def post(url: str, body: bytes = b"{}", **differing: Any) -> CallbackRequest:
    """A small POST with one header."""
    values: dict[str, Any] = {
        "method": "POST",
        "url": url,
        "headers": (("X-One", "1"),),
        "body": body,
        "timeout_seconds": 5.0,
    }
    return CallbackRequest(**(values | differing))


def trusted() -> bool:
    return True


class Trust:
    """Answers yes a given number of times, then no."""

    def __init__(self, yes: int) -> None:
        self.left = yes

    def __call__(self) -> bool:
        self.left -= 1
        return self.left >= 0


def begin(
    engine: Engine, request: CallbackRequest, may_start: Callable[[], bool] = trusted
) -> asyncio.Future[AttemptResult]:
    """Start an attempt; a second call of its listener would raise."""
    ended: asyncio.Future[AttemptResult] = asyncio.get_running_loop().create_future()
    engine.start_attempt(request, ended.set_result, may_start=may_start)
    assert not ended.done()
    return ended


async def attempt(engine: Engine, request: CallbackRequest, may_start: Callable[[], bool] = trusted) -> AttemptResult:
    """Make an attempt and wait for its end."""
    return await asyncio.wait_for(begin(engine, request, may_start), LONG_SECONDS)
