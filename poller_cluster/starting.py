"""A node's own port before there is a node: alive, not ready. Storage may take as long as it likes to answer.

It listens on a duplicate of the port's socket, so whoever connects while it gives way to `OpsServer` waits, and is
answered.
"""

import socket
from collections.abc import Callable, Sequence

from aiohttp import web

from poller_cluster.ops_connection import OpsRunner
from scheduler_service.runtime.health import STARTING, Reason, health_document, status_code


class StartingServer:
    """A `Service` on a socket from `ops.server.listen`."""

    def __init__(self, listener: socket.socket, *, unhealthy: Callable[[], Sequence[Reason]]) -> None:
        self._listener = listener
        self._unhealthy = unhealthy
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        runner = OpsRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        await web.SockSite(runner, self._listener.dup()).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _live(self, request: web.Request) -> web.Response:
        return _answer(self._unhealthy())

    async def _ready(self, request: web.Request) -> web.Response:
        return _answer([Reason(STARTING, "it has only just begun, or storage does not answer")])


def _answer(reasons: Sequence[Reason]) -> web.Response:
    return web.json_response(health_document(reasons), status=status_code(reasons))
