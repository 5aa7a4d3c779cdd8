"""The demo's receiver: a small server that verifies every callback and reports it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web

from minutehand.webhooks import VerificationError, VerifiedCallback, verify

OUT_OF_ORDER = "/out-of-order"
"""The end of the address at which it fails, so that there is a failure to look at."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A received callback. `refusal` says why its signature was rejected; `callback` is None then."""

    at: float
    """Unix seconds."""
    body: bytes
    callback: VerifiedCallback | None
    refusal: str | None
    status: int = 401
    """What it was answered."""

    @property
    def lateness_seconds(self) -> float | None:
        """Seconds from its due to its arrival."""
        if self.callback is None or self.callback.due is None:
            return None
        return self.at - datetime.fromisoformat(self.callback.due).timestamp()


class DemoReceiver:
    """Listens on loopback. Answers 204 to verified callbacks, or 503 at `OUT_OF_ORDER`, and 401 to others; `on_arrival`
    is called for all. A callback with an address for words is taken by 202: somebody who watches says what became of
    it."""

    def __init__(self, *, port: int, secret: str, on_arrival: Callable[[Arrival], None]) -> None:
        self._port = port
        self._secret = secret
        self._on_arrival = on_arrival
        self._verified: set[str] = set()
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def await_verified(self, schedule_ids: set[str], *, seconds: float) -> set[str]:
        """Wait until callbacks of all of them have arrived and were verified; answers those that did not arrive in
        time."""
        try:
            async with asyncio.timeout(seconds):
                while not schedule_ids <= self._verified:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass
        return schedule_ids - self._verified

    async def _take(self, request: web.Request) -> web.Response:
        at = time.time()
        body = await request.read()
        try:
            callback = verify(body, request.headers, self._secret)
        except VerificationError as error:
            self._on_arrival(Arrival(at, body, None, str(error)))
            return web.Response(status=401, text=f"{error}\n")
        if request.path.endswith(OUT_OF_ORDER):
            self._on_arrival(Arrival(at, body, callback, None, 503))
            return web.Response(status=503, text="out of order: this address always fails\n")
        status = 204 if callback.ack_url is None else 202
        self._verified.add(callback.webhook_id)
        self._changed.set()
        self._on_arrival(Arrival(at, body, callback, None, status))
        return web.Response(status=status)
