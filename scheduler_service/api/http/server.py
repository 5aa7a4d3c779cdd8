"""The API on a socket: a service that listens, serves, and stops without cutting off requests under way."""

import asyncio
import errno
from typing import Any

from aiohttp import web
from aiohttp.web_urldispatcher import UrlMappingMatchInfo

from scheduler_service.api.app import PLAIN_CREATES
from scheduler_service.api.http.connections import Connection, Connections
from scheduler_service.api.http.endpoint import problem_response, request_id_of
from scheduler_service.api.problems import problem
from scheduler_service.api.services import ApiServices
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.descriptors import FEWEST, affordable_sockets
from scheduler_service.runtime.listening import CannotListen
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.tls import FollowedContext, follow_server

LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read and discarded. Closing over unread bytes would reset the connection, and
the refusal would be lost."""
LAST_ANSWERS_SECONDS = 0.5
"""Pause between closing the listening socket and closing idle connections. Connections in use get `Connection: close`
with their answer meanwhile, so those closed afterwards have been idle for as long."""
REMEMBERED_PATHS = 1024
_FEW = {"client_id"}
"""Only paths whose one variable part is the client are cached: there are as many of them as clients."""
_log = get_logger("minutehand.api")


class ApiServer:
    """Serves an application at `settings.host`:`settings.port` (a `runtime.lifecycle.Service`)."""

    def __init__(self, app: web.Application, *, services: ApiServices, settings: ApiSettings) -> None:
        self._app = app
        self._services = services
        self._settings = settings
        self._runner: web.AppRunner | None = None
        self._kept: Connections | None = None
        self._tls: FollowedContext | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        assert self._runner is not None
        return int(self._runner.addresses[0][1])

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return 0 if self._kept is None else len(self._kept)

    async def start(self) -> None:
        """Returns once it listens. Raises CannotListen, FilesUnusable."""
        settings = self._settings
        tls = self._tls = follow_server(settings, table="api")
        # The loop may accept the whole backlog in one turn, before `Connections.admit` sees any of it.
        affordable = affordable_sockets(settings.max_connections + settings.backlog) - settings.backlog
        limit = min(settings.max_connections, max(affordable, FEWEST))
        if limit < settings.max_connections:
            _log.warning("connections-limited-by-descriptors", wanted=settings.max_connections, limit=limit)
        plain = self._app[PLAIN_CREATES]
        kept = self._kept = Connections(services=self._services, settings=settings, limit=limit, plain=plain)
        self._services.body_capacity.share_connections(limit)
        runner = _Runner(
            self._app,
            kept=kept,
            access_log=None,
            keepalive_timeout=settings.keep_alive_seconds,
            lingering_time=LINGER_SECONDS,
            max_line_size=settings.max_header_bytes,
            max_field_size=settings.max_header_bytes,
            max_headers=settings.max_headers,
            auto_decompress=False,
            shutdown_timeout=settings.shutdown_seconds,
        )
        await runner.setup()
        self._runner = runner
        site = _Site(
            runner,
            settings.host,
            settings.port,
            ssl_context=tls,
            handshake_seconds=settings.head_timeout_seconds,
            backlog=settings.backlog,
            reuse_port=settings.share_port or None,
        )
        try:
            await site.start()
        except OSError as error:
            await self.stop()
            raise CannotListen(why_not_listening(error, settings)) from error
        if tls is not None:
            tls.keep_looking(self._services.clock)
        _log.info("api-listening", host=settings.host, port=self.port, tls=tls is not None)

    async def stop(self) -> None:
        """Close the socket, let requests end (bounded), close idle connections. Idempotent.

        A request that arrives on an idle connection while it is being closed gets no answer, as always in HTTP/1.1.
        """
        runner, self._runner = self._runner, None
        if self._tls is not None:
            self._tls.stop_looking()
        if runner is not None:
            self._services.health.stopping = True
            for site in runner.sites:
                await site.stop()
            if self.connections:
                # `health.stopping` makes every answer from now on the last of its connection.
                await self._services.clock.sleep(LAST_ANSWERS_SECONDS)
            await runner.cleanup()
        if self._kept is not None:
            self._kept.close()


class _Runner(web.AppRunner):
    """An AppRunner whose connections are `Connection`s."""

    def __init__(self, app: web.Application, *, kept: Connections, **arguments: Any) -> None:
        super().__init__(app, **arguments)
        self._kept = kept

    async def _make_server(self) -> web.Server:
        built = await super()._make_server()
        return _Server(
            _RememberedPaths(self.app, services=self._kept.services).handle,
            kept=self._kept,
            request_factory=built.request_factory,
            **self._kwargs,
        )


class _Site(web.TCPSite):
    """A TCPSite with a time-out for TLS handshakes: `Connections` counts a connection only after its handshake."""

    __slots__ = ("_handshake_seconds",)

    def __init__(self, runner: web.AppRunner, host: str, port: int, *, handshake_seconds: float, **more: Any) -> None:
        super().__init__(runner, host, port, **more)
        self._handshake_seconds = handshake_seconds

    async def start(self) -> None:
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        secured = self._ssl_context is not None
        self._server = await asyncio.get_running_loop().create_server(
            server,
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
            reuse_port=self._reuse_port,
            ssl_handshake_timeout=self._handshake_seconds if secured else None,
            # The peer of a closed connection may never send close_notify, so this wait is short.
            ssl_shutdown_timeout=LINGER_SECONDS if secured else None,
        )


class _RememberedPaths:
    """The application with a cache of resolved routes for the few paths that callers create by again and again. A
    look-up costs a tenth of an empty request."""

    def __init__(self, app: web.Application, *, services: ApiServices) -> None:
        self._app = app
        self._services = services
        self._found: dict[tuple[str, str], UrlMappingMatchInfo] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        key = (request.method, request.raw_path)
        match = self._found.get(key)
        if match is not None:
            # What `Application._handle` does after resolving, for an application without middlewares.
            request._match_info = match
            return await match.handler(request)
        try:
            response = await self._app._handle(request)
        except web.HTTPNotFound:
            # Request targets that are not paths match no route at all: `*`, the authority of CONNECT.
            request_id = request_id_of(request, self._services)
            return problem_response(problem("not-found", "there is no such path", request_id=request_id))
        match = request.match_info
        if match.http_exception is None and match.keys() == _FEW and request.method == "POST":
            if len(self._found) >= REMEMBERED_PATHS:
                self._found.clear()
            self._found[key] = match
        return response


class _Server(web.Server):
    def __init__(self, handler: Any, *, kept: Connections, **arguments: Any) -> None:
        super().__init__(handler, **arguments)
        self._kept = kept

    def __call__(self) -> Connection:
        return Connection(self, kept=self._kept, loop=self._loop, **self._kwargs)


def why_not_listening(error: OSError, settings: ApiSettings) -> str:
    """Why the socket can't listen, and what to do."""
    where = f"{settings.host}:{settings.port}"
    if error.errno == errno.EADDRINUSE:
        return f"the API can't listen on {where}: the port is in use; stop what uses it or choose another port"
    if error.errno == errno.EACCES:
        return f"the API may not listen on {where}: choose a port above 1023"
    return f"the API can't listen on {where}: that is no address of this machine; choose another host"
