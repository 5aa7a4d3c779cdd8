"""What answers on an API's port until the API is built, however long storage takes.

    GET /livez     200
    GET /readyz    503, and why
    all else       503 with Retry-After, which the SDK repeats

It is a process's first part and tells it at once if the port or its certificate is unusable. It does not answer where
several processes share the port: the kernel would send it requests that another process can answer.
"""

from collections.abc import Callable, Sequence

from aiohttp import web

from scheduler_service.api.http.endpoint import problem_response
from scheduler_service.api.http.server import why_not_listening
from scheduler_service.api.problems import problem
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.health import Reason
from scheduler_service.runtime.listening import CannotListen, OpsRunner, health_response
from scheduler_service.runtime.randomness import Randomness
from scheduler_service.runtime.tls import follow_server


class StartingApi:
    """A `Service` on the address of `settings`; without a fixed port of its own it does nothing, as nobody could ask.

    `ready`: why the process is not ready.
    """

    def __init__(self, settings: ApiSettings, *, ready: Callable[[], Sequence[Reason]], randomness: Randomness) -> None:
        self._settings = settings
        self._ready = ready
        self._randomness = randomness
        self._runner: OpsRunner | None = None

    async def start(self) -> None:
        """Raises CannotListen, FilesUnusable."""
        settings = self._settings
        if settings.port == 0 or settings.share_port:
            return
        tls = follow_server(settings, table="api")
        app = web.Application()
        app.router.add_get("/livez", self._say_live)
        app.router.add_get("/readyz", self._say_ready)
        app.router.add_route("*", "/{path:.*}", self._refuse)
        runner = self._runner = OpsRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, settings.host, settings.port, ssl_context=tls).start()
        except OSError as error:
            await self.stop()
            raise CannotListen(why_not_listening(error, settings)) from error

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _say_live(self, request: web.Request) -> web.Response:
        return health_response(())

    async def _say_ready(self, request: web.Request) -> web.Response:
        return health_response(self._ready())

    async def _refuse(self, request: web.Request) -> web.Response:
        refusal = problem(
            "storage-unavailable",
            "this process is starting; retry after Retry-After",
            request_id=f"{self._randomness.bits(96):024x}",
        )
        return problem_response(refusal)
