"""An API's metrics on a separate port, so that metrics and API can be opened to different networks."""

from aiohttp import web

from scheduler_service.api.metrics import Exposition
from scheduler_service.runtime.listening import SidePort
from scheduler_service.runtime.metrics import CONTENT_TYPE


class MetricsPort(SidePort):
    """Answers `/metrics`."""

    def __init__(self, exposition: Exposition, *, host: str, port: int) -> None:
        super().__init__({"/metrics": self._show}, host=host, port=port, what="the metrics", setting="api.metrics_port")
        self._exposition = exposition

    async def _show(self, request: web.Request) -> web.Response:
        return web.Response(body=await self._exposition.page(), headers={"Content-Type": CONTENT_TYPE})
