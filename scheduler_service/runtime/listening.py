"""The ports on which a process answers beside its API: health, metrics, and what a node is told."""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from aiohttp.web_protocol import RequestHandler

from membership.errors import MinutehandError
from scheduler_service.runtime.health import Reason, health_document, status_code
from scheduler_service.runtime.logging import get_logger

_log = get_logger("minutehand")


class CannotListen(MinutehandError):
    """The address can't be listened on. The message says why and what to do."""


def listening_socket(host: str, port: int, *, why: Callable[[OSError], str]) -> socket.socket:
    """A bound socket that listens; `port` 0: a free one. Raises CannotListen with the sentence that `why` makes of the
    system's error."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen(why(error)) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise CannotListen(why(error)) from error
    return listener


def health_response(reasons: Sequence[Reason]) -> web.Response:
    """The answer of /livez and /readyz."""
    return web.json_response(health_document(reasons), status=status_code(reasons))


class OpsRunner(web.AppRunner):
    """An AppRunner whose connections answer bytes that are not HTTP with 400, without echoing or logging them.

    aiohttp would log them at level error, with a traceback that quotes the malformed line: any peer that reaches the
    port could fill the log, and a malformed Authorization header would put the cluster's token there.
    """

    async def _make_server(self) -> web.Server:
        built = await super()._make_server()
        return _Server(self.app._handle, request_factory=built.request_factory, **self._kwargs)


class SidePort:
    """A `Service`: answers GET on these paths over plain HTTP, and nothing else. `port` 0: a free one. `setting`: what
    to change where it can't listen."""

    def __init__(self, routes: Mapping[str, Handler], *, host: str, port: int, what: str, setting: str) -> None:
        self._routes = routes
        self._host = host
        self._asked_port = port
        self._what, self._setting = what, setting
        self._runner: OpsRunner | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Raises CannotListen."""
        app = web.Application()
        for path, handler in self._routes.items():
            app.router.add_get(path, handler)
        runner = self._runner = OpsRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._asked_port).start()
        except OSError as error:
            await self.stop()
            raise CannotListen(
                f"{self._what} can't be served on {self._host}:{self._asked_port} ({error.strerror}): "
                f"choose another {self._setting}"
            ) from error

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()


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
            answer = _detail("this is no valid HTTP/1.1 request", status=400)
        else:
            _log.error("ops-request-crashed", exc_info=exc)
            answer = _detail("a fault of this process; its log says more", status=500)
        answer.force_close()
        return answer


def _detail(sentence: str, *, status: int) -> web.Response:
    return web.json_response({"detail": sentence}, status=status)
