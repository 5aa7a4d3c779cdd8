"""An API's metrics on a separate port, so that metrics and API can be opened to different networks."""

from aiohttp import web

from scheduler_service.api.metrics import Exposition
from scheduler_service.runtime.listening import CannotListen, OpsRunner
from scheduler_service.runtime.metrics import CONTENT_TYPE


class MetricsPort:
    """A `Service`: answers `/metrics` over plain HTTP and nothing else. `port` 0: a free one."""

    def __init__(self, exposition: Exposition, *, host: str, port: int) -> None:
        self._exposition = exposition
        self._host = host
        self._asked_port = port
        self._runner: OpsRunner | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Raises CannotListen."""
        app = web.Application()
        app.router.add_get("/metrics", self._show)
        runner = self._runner = OpsRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._asked_port).start()
        except OSError as error:
            await self.stop()
            raise CannotListen(
                f"the metrics can't be served on {self._host}:{self._asked_port} ({error.strerror}): "
                "choose another api.metrics_port"
            ) from error

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _show(self, request: web.Request) -> web.Response:
        return web.Response(body=self._exposition.page(), headers={"Content-Type": CONTENT_TYPE})
