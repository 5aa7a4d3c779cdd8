"""The server under a node's own port: bytes that are no HTTP request are answered 400, and neither repeated nor logged.

aiohttp would log them, at level error and with a traceback that quotes the line it could not read: whoever can reach
the port could fill the log, and a slip in an Authorization header would put the cluster's token there.
"""

from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from scheduler_service.runtime.logging import get_logger

_log = get_logger("minutehand.poller")


class OpsRunner(web.AppRunner):
    """An AppRunner of such connections."""

    async def _make_server(self) -> web.Server:
        built = await super()._make_server()
        return _Server(self.app._handle, request_factory=built.request_factory, **self._kwargs)


class _Server(web.Server):
    def __init__(self, handler: Any, **arguments: Any) -> None:
        super().__init__(handler, **arguments)

    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        if status < 500:
            answer = _detail("this is not an HTTP/1.1 request that can be read", status=400)
        else:
            _log.error("ops-request-crashed", exc_info=exc)
            answer = _detail("a fault of this node's: its log says more", status=500)
        answer.force_close()
        return answer


def _detail(sentence: str, **arguments: Any) -> web.Response:
    return web.json_response({"detail": sentence}, **arguments)
