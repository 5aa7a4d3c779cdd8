"""A scripted token endpoint behind a fetcher double with the interface of the real one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from poller_cluster.delivery.token_request import Grant, TokenFailure
from scheduler_service.domain.destinations import TokenSource
from scheduler_service.domain.ids import ClientId
from tests.simulation.sim_clock import SimClock

HANGS_SECONDS = 10.0
"""When a fetch from an endpoint that hangs is given up."""


@dataclass
class TokenServer:
    """Grants tokens that are valid for `life_seconds`. `state`: `up`, `refusing`, or `hanging`."""

    state: str = "up"
    life_seconds: float = 60.0
    latency_seconds: float = 0.05
    asked_at: list[float] = field(default_factory=list)
    """True wall times in milliseconds."""
    valid_until: dict[str, float] = field(default_factory=dict)

    def revoke_all(self) -> None:
        self.valid_until.clear()

    def accepts(self, token: str | None, at_ms: float) -> bool:
        """What a receiver says of a token."""
        return token is not None and at_ms < self.valid_until.get(token, 0.0)

    def grant(self, now_ms: float) -> Grant:
        token = f"token-{len(self.valid_until)}-{len(self.asked_at)}"
        self.valid_until[token] = now_ms + self.life_seconds * 1000
        return Grant(token=token, lifetime_seconds=self.life_seconds)


class SimFetcher:
    """The fetcher of one simulated node. What a crashed node asked for reaches nobody."""

    capacity = 64

    def __init__(self, *, server: TokenServer, clock: SimClock, dead: Callable[[], bool]) -> None:
        self._server, self._clock, self._dead = server, clock, dead

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def fetch(self, client_id: ClientId, source: TokenSource, on_done: Callable[[Grant | TokenFailure], None]) -> None:
        server = self._server
        server.asked_at.append(self._clock.true_ms())
        got: Grant | TokenFailure = TokenFailure(code="refused", detail="the token endpoint answered 503")
        latency = server.latency_seconds
        if server.state == "up":
            got = server.grant(self._clock.true_ms())
        elif server.state == "hanging":
            got, latency = TokenFailure(code="no-answer", detail="no answer"), HANGS_SECONDS

        def report() -> None:
            if not self._dead():
                on_done(got)

        asyncio.get_running_loop().call_later(latency, lambda: self._clock.when_running(report))
