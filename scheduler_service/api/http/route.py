"""A row of the route table, and the request context that its handler gets.

The table (`resources.ROUTES`) is data: the application is built from it, and security tests and the OpenAPI document
enumerate it.

The header `Idempotency-Key` is read here; `usecases.idempotency.RememberRequest` says what a key does. A route that
takes it is marked `Route.idempotent`, and answers a repeat with 200 and the header REPLAYED.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web

from scheduler_service.api.http.auth import Access
from scheduler_service.api.http.decoding import Body, Rules
from scheduler_service.api.http.query import CursorText, Parameter, RepeatedParameter
from scheduler_service.api.http.timeouts import Deadline
from scheduler_service.api.problems import Refusal
from scheduler_service.api.request_budget import cost_of_body, cost_of_reading
from scheduler_service.api.services import ApiServices
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.clients import Client, Scope
from scheduler_service.domain.errors import FieldError, Invalid
from scheduler_service.domain.idempotency import MAX_IDEMPOTENCY_KEY, Keyed, fingerprint_of, read_key
from scheduler_service.domain.ids import ClientId
from scheduler_service.runtime.logging import get_logger
from scheduler_service.runtime.metrics import PageMaker
from scheduler_service.usecases.authenticate import Principal

T = TypeVar("T", bound=msgspec.Struct)
JSON: Final = "application/json"
SERVER: Final = {"Server": "Minutehand"}
JSON_HEADERS: Final = {"Content-Type": JSON, **SERVER}


class NoRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty object; the body may be left out."""


_NOTHING: Final = Body(NoRequest)
_encode = msgspec.json.Encoder().encode
_log = get_logger("minutehand.api")

ItemT = TypeVar("ItemT")

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
_NO_KEY: Final = (
    f"must be 1 to {MAX_IDEMPOTENCY_KEY} visible ASCII characters, or a string in quotes, with a backslash before each "
    "quote and backslash"
)
REPLAYED: Final[Mapping[str, str]] = {"Idempotency-Replayed": "true"}


class Admission(NamedTuple):
    """Of a request that this process makes itself. `still`: whether who is behind it would be let in again now."""

    still: Callable[[], Awaitable[bool]]


ADMISSION: Final = web.RequestKey("admission", Admission)


class RequestContext:
    """One request on its way through a route.

    `principal` is None on open routes. `admitted` is the client of routes with Access.CLIENT. `reading`: the body has
    not arrived completely. `queued`: the request waits for others of its caller. `recorded`: what it did, for the audit
    log. `deadline`: the request's time limit; handlers that have their own time-out disarm it."""

    __slots__ = (
        "admitted",
        "deadline",
        "documents",
        "exposition",
        "held",
        "principal",
        "queued",
        "reading",
        "recorded",
        "request",
        "request_id",
        "route",
        "services",
        "settings",
    )

    def __init__(
        self,
        request: web.Request,
        *,
        route: "Route",
        request_id: str,
        services: ApiServices,
        settings: ApiSettings,
        exposition: PageMaker,
        documents: "Documents",
        deadline: Deadline,
    ) -> None:
        self.request = request
        self.route = route
        self.request_id = request_id
        self.services = services
        self.settings = settings
        self.exposition = exposition
        self.documents = documents
        self.deadline = deadline
        self.principal: Principal | None = None
        self.admitted: Client | None = None
        self.reading = False
        self.held = 0
        """Bytes of its body that count against `BodyCapacity`."""
        self.queued = False
        self.recorded: dict[str, str | int] = {}

    @property
    def client(self) -> Client:
        """The client of a route with Access.CLIENT."""
        assert self.admitted is not None
        return self.admitted

    def path(self, name: str) -> str:
        """A variable part of the path, decoded."""
        return self.request.match_info[name]

    @property
    def client_id(self) -> ClientId:
        return ClientId(self.request.match_info["client_id"])

    async def body(self, type_: Body[T], rules: Rules[T] | None = None) -> T:
        """The body as a struct. Raises Refusal (malformed, 413, 415) and Invalid."""
        return type_.decode(await self.read(), rules)

    async def no_body(self) -> None:
        """Accept no body, or an empty object; for verbs that take nothing. Raises Refusal and Invalid."""
        await self.body_or(_NOTHING, NoRequest())

    async def body_or(self, type_: Body[T], left_out: T) -> T:
        """The body, which may be left out. Raises Refusal and Invalid."""
        return await self.body(type_) if self.request.can_read_body else left_out

    async def read(self, *, typed: bool = True) -> bytes:
        """The bytes of a JSON body, bounded. `typed`: it must say that it is JSON. Raises Refusal."""
        request = self.request
        if typed and request.headers.get("Content-Type") != JSON and not _is_json(request):
            raise Refusal("unsupported-media-type", "send the body as Content-Type: application/json, in UTF-8")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refusal("unsupported-media-type", "send the body without Content-Encoding")
        limit, announced = self.settings.max_body_bytes, request.content_length
        if announced is not None and announced > limit:
            raise _too_large(limit)
        if announced is not None:
            # Charged before `100 Continue` and before reading, so that a refused body need not be sent.
            self._take_bytes(0, announced)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            # An interim answer is not the answer: `Connection.handle_error` sees by the size whether one was begun.
            request.writer.output_size = 0
        self.reading = True
        if request.content.is_eof():
            data = await self._pieces(announced)
        else:
            assert self.principal is not None
            with self.services.body_capacity.awaiting(self.principal):
                data = await self._pieces(announced)
        self.reading = False
        return data

    async def _pieces(self, announced: int | None) -> bytes:
        """Reads the body to its end. Raises Refusal."""
        data, content, limit = bytearray(), self.request.content, self.settings.max_body_bytes
        while not content.at_eof():
            piece = await content.readany()
            if len(data) + len(piece) > limit:
                raise _too_large(limit)
            if announced is None:
                self._take_bytes(len(data), len(data) + len(piece))
            data += piece
        return bytes(data)

    def _take_bytes(self, before: int, size: int) -> None:
        """Charge for a body that grows from `before` to `size`. Raises Refusal (too-many-requests)."""
        assert self.principal is not None
        self.services.body_capacity.hold(self.principal, size - before)
        self.held += size - before
        if cost := cost_of_body(size) - cost_of_body(before):
            self.services.request_budget.take(self.principal, cost)

    def release(self) -> None:
        """Give back what the body held; called when the request is answered."""
        if self.held and self.principal is not None:
            self.services.body_capacity.release(self.principal, self.held)

    def spend(self, cost: float) -> None:
        """Charge a cost on top of the route's own (see `api.request_budget`)."""
        if cost and self.principal is not None:
            self.services.request_budget.owe(self.principal, cost)

    def has_read(self, rows: int, size: int) -> None:
        """Charge for rows that were read, and for their bytes."""
        self.spend(cost_of_reading(rows, size))

    async def still_admitted(self) -> bool:
        """Whether the caller would be let in again now; for answers that go on for long. Raises StoreUnavailable."""
        admission: Admission | None = self.request.get(ADMISSION)
        if admission is not None:
            return await admission.still()
        principal = self.principal
        if principal is None or principal.key_id is None:
            return True
        return await self.services.authenticate.of_key(principal.key_id) is not None

    def query(self) -> Mapping[str, str]:
        """The query parameters. Raises Invalid for parameters that the route doesn't declare, and for repeated ones."""
        query = self.request.query
        allowed = [parameter.name for parameter in self.route.query]
        known = f"known are {', '.join(allowed)}" if allowed else "this path has none"
        faults = [
            FieldError(f"/{name[:128]}", f"is not a known parameter; {known}")
            for name in dict.fromkeys(query)
            if name not in allowed
        ]
        faults += [
            FieldError(f"/{parameter.name}", "is given more than once")
            for parameter in self.route.query
            if not isinstance(parameter, RepeatedParameter) and len(query.getall(parameter.name, ())) > 1
        ]
        if faults:
            raise Invalid(faults)
        return query

    def record(self, **ids: str | int) -> None:
        """Add what this request did to its audit log entry: ids and counts, never payloads, headers or secrets."""
        self.recorded.update(ids)

    def log(self, action: str, **ids: str | int) -> None:
        """Log a change that operators need to see, and `record` its ids."""
        self.record(**ids)
        by = self.principal.name if self.principal is not None else None
        _log.info(action, by=by, request_id=self.request_id, **ids)


Handler = Callable[[RequestContext], Awaitable[web.StreamResponse]]


class Document(NamedTuple):
    """Bytes that are the same for every caller. `etag`: their entity tag, without quotes."""

    body: bytes
    etag: str


class Documents(Protocol):
    """The description of the route table: the OpenAPI document, and the page and the text made from it."""

    @property
    def openapi(self) -> Document: ...

    @property
    def page(self) -> Document: ...

    @property
    def llms(self) -> Document: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Route:
    """`path` has its variable parts in braces; each matches one segment up to a colon, which begins a verb.

    `scope`: what a client's key needs, for routes with Access.CLIENT and no others. `query`: its parameters. `request`
    and `response`: the types of the JSON bodies. `body_optional`: the body may be left out, as with NoRequest.
    `status`: that of success. `headers`: headers of that answer, each with a sentence. `media`: the content types of
    success. `others`: further answers that are no problem, by status, with their type (None: no body). `conditional`:
    it heeds `If-Match` and `If-None-Match`; routes that are not refuse them, unless they only read. `cost`: units of
    about 1 ms of CPU that it takes from its caller's budget (see `api.request_budget`; open routes take nothing, as
    their answers are cheap or cached). `reads_much`: it may read many rows, so few requests of one caller are handled
    at once. `dry_run`: it changes nothing, whatever its method. `recorded`: the audit log has uses by clients' keys of
    any scope. `problems`: the kinds that it can answer besides those that follow from access, path, query and body
    (see `openapi.answers`).
    """

    method: str
    path: str
    access: Access
    handler: Handler
    summary: str
    scope: Scope | None = None
    query: tuple[Parameter[Any], ...] = ()
    request: type[msgspec.Struct] | None = None
    body_optional: bool = False
    response: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media: tuple[str, ...] = (JSON,)
    others: Mapping[int, Any] = field(default_factory=dict)
    idempotent: bool = False
    conditional: bool = False
    cost: float = 1.0
    reads_much: bool = False
    dry_run: bool = False
    recorded: bool = False
    problems: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.scope is not None) != (self.access is Access.CLIENT):
            raise ValueError(f"{self.method} {self.path}: routes with Access.CLIENT have a scope, and no others")

    @property
    def changes(self) -> bool:
        """Whether it may change something or call a receiver. An administrator's use of such a route is recorded, and
        built-in clients refuse those that take clients' keys."""
        return not self.dry_run and not self.reads

    @property
    def reads(self) -> bool:
        return self.method in ("GET", "HEAD")


CREATES: Final = ("client-suspended", "clock-in-doubt")
"""Problems of every route that creates schedules or crons."""
LOCATION: Final[Mapping[str, str]] = {"Location": "The path of the new object."}


def json_body(value: object) -> bytes:
    """A value as JSON that ends with a newline, so that a shell's prompt does not follow on the same line."""
    return _encode(value) + b"\n"


def json_response(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """A JSON answer."""
    return web.Response(
        body=json_body(value), status=status, headers=JSON_HEADERS if headers is None else {**JSON_HEADERS, **headers}
    )


def no_content() -> web.Response:
    return web.Response(status=204, headers=SERVER)


def _is_json(request: web.Request) -> bool:
    return request.content_type == JSON and (request.charset or "utf-8").lower() in ("utf-8", "utf8")


def _too_large(limit: int) -> Refusal:
    return Refusal("content-too-large", f"the body is larger than the limit of {limit} bytes")


class Items(msgspec.Struct, Generic[ItemT], frozen=True):
    """One page of a list: `{"items": [...], "next_cursor": null}`. `next_cursor` null: it is the last page."""

    items: list[ItemT]
    next_cursor: CursorText | None = None


def key_of(context: RequestContext) -> str | None:
    """The idempotency key of a request; None without one. Raises Invalid for a malformed or repeated key."""
    given = context.request.headers.getall(IDEMPOTENCY_KEY, ())
    if not given:
        return None
    if len(given) > 1:
        raise Invalid([FieldError(f"/{IDEMPOTENCY_KEY}", "is given more than once")])
    key = read_key(given[0])
    if key is None:
        raise Invalid([FieldError(f"/{IDEMPOTENCY_KEY}", _NO_KEY)])
    return key


def keyed_of(context: RequestContext, *asked: object) -> Keyed | None:
    """A request under an idempotency key, with the fingerprint of what it asks; None without a key. `asked`: its body,
    decoded; nothing for verbs that take none. Raises as `key_of`."""
    key = key_of(context)
    if key is None:
        return None
    return Keyed(context.client_id, key, fingerprint_of(context.request.method, context.request.path, *asked))


def operation_id(route: Route) -> str:
    """The stable name of an operation, which is its handler's. Examples are keyed by it, so a rename breaks a test."""
    return route.handler.__name__
