"""A node's own port: health, metrics, hints from the API, and an operator's requests to this one node.

    POST /hints    rows placed near their due; needs the cluster's token
    POST /drain    hand over every poller: 202 when begun, 409 for another incarnation, or when no other node takes
                   pollers and `force` is not set; needs the cluster's token
    POST /undrain  take pollers again: 202; 409 for another incarnation, or one that is being stopped; needs the token
    POST /calls    what was called here within the last minute: 200; 409 for another incarnation; needs the token
    POST /destination  what became of a destination's calls here: 200; 409 for another incarnation; needs the token
    POST /held-back    which of these clients have a receiver that gets no calls here, because it only failed, by their
                   positions in the request: 200; 409 for another incarnation; needs the token
    GET  /livez    200 while the event loop turns
    GET  /readyz   200 while the node is trusted and takes pollers, else 503; the body says why (`runtime.health`)
    GET  /metrics  Prometheus

The port gives no information about schedules. It listens on loopback unless configured otherwise; what is posted is
protected by the token alone. A hint can only make the node read a row earlier, and the pollers of a
drained node are taken by others.

It carries ids, numbers and health, never a callback or a client's key, and speaks plain HTTP unless it is given a
certificate. Then the node's address in its heartbeats begins with https://, so that callers speak TLS to the nodes that
have one, and plain HTTP to the others. Over plain HTTP an eavesdropper can learn the token and drain nodes with it,
which loses no call: restrict the port to the cluster's network (a NetworkPolicy, or a mesh that encrypts).
"""

import errno
import socket
import ssl
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar
from uuid import UUID

import msgspec
from aiohttp import web
from msgspec import Meta

from membership.errors import StoreUnavailable
from membership.identity import NodeIncarnation
from poller_cluster.hand_over import LastNode, NotSeen
from scheduler_service.domain.call_figures import CallFigures
from scheduler_service.domain.destination_figures import NodeFigures
from scheduler_service.domain.ids import (
    MAX_DUE,
    MAX_POLLERS,
    MINUTE_MS,
    ClientId,
    Minute,
    Partition,
    PollerId,
    RowKey,
    ScheduleId,
    UnixMillis,
)
from scheduler_service.runtime.file_secrets import accepts
from scheduler_service.runtime.health import STOPPING, Reason
from scheduler_service.runtime.listening import OpsRunner, health_response, listening_socket
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import CONTENT_TYPE, Metrics

MAX_BODY_BYTES = 1 << 20
LAST_NODE = "last-node"
_log = get_logger("minutehand.node")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpsSettings:
    """Where a node listens for hints, health checks and metrics. Raises ValueError for ports that don't exist, and
    files that don't go together."""

    host: str = "127.0.0.1"
    """Address to listen on. The default accepts connections from this machine only: APIs on other machines can't send
    hints then."""
    port: int = 0
    """Port to listen on; 0 takes a free one, so that several nodes fit on one machine. With several processes under one
    command, the first takes this port and each further one the next."""
    advertised_host: str | None = None
    """Name or address at which APIs reach this node. None: the address that it listens on, or this machine's name if it
    listens on every address."""
    tls_cert_file: str | None = None
    """PEM file of the port's certificate, with the intermediate certificates up to its authority. It may be replaced
    while the node runs. Give it to nodes once all APIs and nodes have this release, and know the authority
    (`cluster.tls_ca_file`). None: plain HTTP."""
    tls_key_file: str | None = None
    """PEM file of the certificate's key, without a password. It may be the same file."""
    tls_client_ca_file: str | None = None
    """PEM file of authorities. Every peer, probes and scrapers included, must then present a certificate of one of
    them (`cluster.tls_cert_file`). None: no client certificate is required."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65_535:
            raise ValueError("port: must be from 0 to 65535")
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("tls_cert_file and tls_key_file go together: give both or neither")
        if self.tls_client_ca_file is not None and self.tls_cert_file is None:
            raise ValueError("tls_client_ca_file: needs tls_cert_file and tls_key_file")


def listen(settings: OpsSettings) -> socket.socket:
    """The bound socket: a node's address must be known before its incarnation begins. Raises CannotListen."""

    def why(error: OSError) -> str:
        reasons = {
            errno.EADDRINUSE: "the port is in use; stop what uses it, or choose another ops.port (0 takes a free one)",
            errno.EACCES: "a port below 1024 needs rights that this user does not have; choose a higher ops.port",
        }
        reason = reasons.get(error.errno or 0, "that is no address of this machine; choose another ops.host")
        return f"The node can't listen on {settings.host}:{settings.port}: {reason}."

    return listening_socket(settings.host, settings.port, why=why)


def advertised_address(settings: OpsSettings, listener: socket.socket) -> str:
    """`host:port` for the heartbeat."""
    host, port = listener.getsockname()[:2]
    if settings.advertised_host is not None:
        host = settings.advertised_host
    elif host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    scheme = "" if settings.tls_cert_file is None else "https://"
    return f"{scheme}[{host}]:{port}" if ":" in host else f"{scheme}{host}:{port}"


class _Hint(msgspec.Struct, frozen=True, array_like=True, gc=False):
    client_id: Annotated[str, Meta(max_length=64)]
    poller_id: Annotated[int, Meta(ge=0, lt=MAX_POLLERS)]
    minute: Annotated[int, Meta(ge=0, le=MAX_DUE // MINUTE_MS)]
    due: Annotated[int, Meta(ge=0, le=MAX_DUE)]
    schedule_id: UUID


class _Crowded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A minute of a poller with too many near rows to be named."""

    client_id: Annotated[str, Meta(max_length=64)]
    poller_id: Annotated[int, Meta(ge=0, lt=MAX_POLLERS)]
    minute: Annotated[int, Meta(ge=0, le=MAX_DUE // MINUTE_MS)]


class _Hints(msgspec.Struct, frozen=True):
    hints: list[_Hint]
    crowded: list[_Crowded] = []


class _Meant(msgspec.Struct, frozen=True):
    node_id: str
    incarnation: int


class _Drain(_Meant, frozen=True):
    force: bool = False


class _OfDestination(_Meant, frozen=True):
    client_id: Annotated[str, Meta(max_length=64)]
    name: Annotated[str, Meta(max_length=64)]


class _OfClients(_Meant, frozen=True):
    client_ids: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=100)]


_M = TypeVar("_M", bound=_Meant)
_decode_hints = msgspec.json.Decoder(_Hints).decode


class HintedPollers(Protocol):
    """The pollers that hints are for."""

    def hinted(self, hints: Sequence[tuple[Partition, RowKey | None]]) -> None:
        """Rows were placed near their due. A partition with None for the row has too many to be named."""


class RequestedHandOver(Protocol):
    """The hand-over of the node's pollers, as an operator asks for it."""

    async def ask(self, *, force: bool) -> None:
        """Begin to hand over every poller. Idempotent. Raises LastNode, NotSeen, StoreUnavailable."""

    def take_back(self) -> bool:
        """Take pollers again. Idempotent. False while the node is being stopped."""


class CountedDestinations(Protocol):
    """What became of the node's calls to destinations."""

    def figures(self, client_id: ClientId, name: str) -> NodeFigures:
        """Those of a client's destination; of one that was never called here, none."""

    def held_back(self) -> Collection[ClientId]:
        """The clients with a receiver that gets no calls from here, or few to try it, because it only failed."""


class CallsCounted(Protocol):
    """What the node has called within the last minute."""

    def figures(self) -> CallFigures: ...


class AskedNode(Protocol):
    """The node behind the port."""

    @property
    def incarnation(self) -> NodeIncarnation: ...

    @property
    def pollers(self) -> HintedPollers: ...

    @property
    def hand_over(self) -> RequestedHandOver: ...

    @property
    def destinations(self) -> CountedDestinations: ...

    @property
    def recent_calls(self) -> CallsCounted: ...


class OpsServer:
    """A `Service` on a socket from `listen`. `unhealthy` returns why the node is not live, `unready` why not ready."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        node: AskedNode,
        token: str,
        unhealthy: Callable[[], Sequence[Reason]],
        unready: Callable[[], Sequence[Reason]],
        metrics: Metrics,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._listener = listener
        self._token = token
        self._node = node
        self._unhealthy = unhealthy
        self._unready = unready
        self._metrics = metrics
        self._tls = tls
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_post("/hints", self._take_hints)
        app.router.add_post("/drain", self._drain)
        app.router.add_post("/undrain", self._undrain)
        app.router.add_post("/destination", self._show_destination)
        app.router.add_post("/calls", self._show_calls)
        app.router.add_post("/held-back", self._show_held_back)
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._show_metrics)
        runner = OpsRunner(app, access_log=None, keepalive_timeout=120.0, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        await web.SockSite(runner, self._listener, ssl_context=self._tls).start()
        host, port = self._listener.getsockname()[:2]
        _log.info("node-listening", host=host, port=port, tls=self._tls is not None)

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        self._listener.close()

    async def _take_hints(self, request: web.Request) -> web.Response:
        if not self._knows_token(request):
            return _no_token()
        try:
            told = _decode_hints(await request.read())
        except msgspec.DecodeError as error:
            return web.json_response({"detail": f"not a list of hints: {error}"}, status=400)
        rows = [(_partition(hint), RowKey(UnixMillis(hint.due), ScheduleId(hint.schedule_id))) for hint in told.hints]
        self._node.pollers.hinted([*((_partition(minute), None) for minute in told.crowded), *rows])
        return web.Response(status=204)

    async def _drain(self, request: web.Request) -> web.Response:
        meant = await self._meant(request, _Drain)
        if isinstance(meant, web.Response):
            return meant
        try:
            await self._node.hand_over.ask(force=meant.force)
        except LastNode as error:
            return web.json_response({"detail": str(error), "reason": LAST_NODE}, status=409)
        except (NotSeen, StoreUnavailable) as error:
            return web.json_response({"detail": str(error)}, status=503)
        return web.json_response({"status": "draining"}, status=202)

    async def _undrain(self, request: web.Request) -> web.Response:
        meant = await self._meant(request, _Meant)
        if isinstance(meant, web.Response):
            return meant
        if not self._node.hand_over.take_back():
            return web.json_response({"detail": "this node is being stopped", "reason": STOPPING}, status=409)
        return web.json_response({"status": "live"}, status=202)

    async def _show_destination(self, request: web.Request) -> web.Response:
        meant = await self._meant(request, _OfDestination)
        if isinstance(meant, web.Response):
            return meant
        figures = self._node.destinations.figures(ClientId(meant.client_id), meant.name)
        return web.Response(body=msgspec.json.encode(figures), content_type="application/json")

    async def _show_calls(self, request: web.Request) -> web.Response:
        meant = await self._meant(request, _Meant)
        if isinstance(meant, web.Response):
            return meant
        return web.Response(
            body=msgspec.json.encode(self._node.recent_calls.figures()), content_type="application/json"
        )

    async def _show_held_back(self, request: web.Request) -> web.Response:
        meant = await self._meant(request, _OfClients)
        if isinstance(meant, web.Response):
            return meant
        held_back = self._node.destinations.held_back()
        return web.json_response([at for at, one in enumerate(meant.client_ids) if one in held_back])

    async def _meant(self, request: web.Request, asked: type[_M]) -> _M | web.Response:
        """The request, if it is for exactly this incarnation, or the refusal."""
        if not self._knows_token(request):
            return _no_token()
        try:
            meant = msgspec.json.decode(await request.read(), type=asked)
        except msgspec.DecodeError as error:
            return web.json_response({"detail": f"not a request to an incarnation: {error}"}, status=400)
        incarnation = self._node.incarnation
        if (meant.node_id, meant.incarnation) != incarnation:
            return web.json_response({"detail": f"this is {incarnation}"}, status=409)
        return meant

    def _knows_token(self, request: web.Request) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return scheme == "Bearer" and accepts(self._token, given)

    async def _live(self, request: web.Request) -> web.Response:
        return health_response(self._unhealthy())

    async def _ready(self, request: web.Request) -> web.Response:
        return health_response(self._unready())

    async def _show_metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})


def _partition(told: _Hint | _Crowded) -> Partition:
    return Partition(ClientId(told.client_id), PollerId(told.poller_id), Minute(told.minute))


def _no_token() -> web.Response:
    return web.json_response({"detail": "the cluster's token is needed"}, status=401)


class StartingServer:
    """Answers on the node's port until the node is built, however long storage takes: live, not ready.

    It listens on a duplicate of the port's socket, so a connection made while `OpsServer` replaces it waits, and is
    then answered.

    A `Service` on a socket from `ops.server.listen`.
    """

    def __init__(
        self,
        listener: socket.socket,
        *,
        unhealthy: Callable[[], Sequence[Reason]],
        unready: Callable[[], Sequence[Reason]],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._listener = listener
        self._unhealthy = unhealthy
        self._unready = unready
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        runner = OpsRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        self._runner = runner
        await web.SockSite(runner, self._listener.dup(), ssl_context=self._tls).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _live(self, request: web.Request) -> web.Response:
        return health_response(self._unhealthy())

    async def _ready(self, request: web.Request) -> web.Response:
        return health_response(self._unready())
