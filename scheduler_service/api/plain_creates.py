"""Plain creates: the most frequent request, answered without a task, a request object or a router.

    bytes -> aiohttp's parser ---> plain? --yes--> key -> rate -> decode -> rules, poller, id -> group commit -> answer
        \\                         /     \\--no, or a fault--> aiohttp's request and task -> endpoint -> handler
         \\-- headers are known --/

This is a fast path through `resources.schedules.CREATE`, which stays the only description of the route. It takes
requests that the route would answer 201, calls the same functions in the same order, and passes on everything else
before it has kept any of it. So no refusal is written here. An error after the row was handed to storage is answered
here, through the endpoint's functions.

A request is plain if it is complete, alone on its connection, has a client's key that this process knows, and has no
header that asks for anything else. Creates by administrators are recorded in the audit log, and those with an
`Idempotency-Key` are stored under it first: neither is plain.

Callers repeat their headers. Those of plain creates are remembered: a request with a line of the usual form, equal
header bytes and a body of the announced length is not parsed, because the parser's result is known. Anything else, in
pieces or several at once, goes to the parser, and so does everything after it on that connection. A create then costs
41 µs instead of 51.

The fast path costs about half of the general one (`tests.bench.create_cost`): there is no task or future for each
request, so the answer of one write answers all its requests in one turn of the loop.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

from aiohttp import HttpVersion11, StreamReader
from aiohttp.http import RawRequestMessage
from multidict import MultiMapping

from membership.errors import MinutehandError
from scheduler_service.api.http.endpoint import (
    REQUEST_ID,
    HasHeaders,
    crashed,
    refused,
    request_id_of,
    too_slow,
    trace_headers,
)
from scheduler_service.api.http.route import IDEMPOTENCY_KEY, JSON, JSON_HEADERS, json_body
from scheduler_service.api.http.timeouts import TimerQueue, Wait
from scheduler_service.api.metrics import RouteMetrics
from scheduler_service.api.minute_load import minute_load
from scheduler_service.api.once import plain_once, told_at
from scheduler_service.api.problems import Refusal
from scheduler_service.api.resources.schedule_views import created_schedule_view
from scheduler_service.api.resources.schedules import CREATE, ONE, location_of
from scheduler_service.api.services import ApiServices
from scheduler_service.api.settings import ApiSettings
from scheduler_service.domain.clients import Client
from scheduler_service.domain.errors import Invalid
from scheduler_service.domain.once import Once, OnceIds
from scheduler_service.domain.schedules import Definition
from scheduler_service.domain.traces import TRACEPARENT
from scheduler_service.runtime.lifecycle import Tasks
from scheduler_service.usecases.authenticate import KnownClient, Principal
from scheduler_service.usecases.create_traces import TracedRequest

_BEFORE, _BEHIND = CREATE.path.split("{client_id}")
REMEMBERED_HEADERS: Final = 1_024
"""Blocks of headers, each of `REMEMBERED_BYTES` at most. Only requests with a valid key fill them."""
REMEMBERED_BYTES: Final = 1_024
_END: Final = b"\r\n\r\n"
_usual_line = re.compile(
    f"POST ({re.escape(_BEFORE)}[a-z0-9._-]+{re.escape(_BEHIND)})(?:[?]([0-9A-Za-z=._-]+))? HTTP/1[.]1".encode()
).fullmatch


class Asker(Protocol):
    """The connection that a request came on. `known`: the client whose key it used last."""

    known: KnownClient | None

    def answer_plainly(self, answer: bytes, *, close: bool) -> None:
        """Called exactly once for each create that was begun."""


class _Headers(NamedTuple):
    """The headers of a request that was plain, and the length of its body."""

    headers: MultiMapping[str]
    length: int


class PlainCreates:
    """The plain creates of one server."""

    def __init__(self, *, services: ApiServices, settings: ApiSettings, series: RouteMetrics) -> None:
        self.services = services
        self.settings = settings
        self.series = series
        self.create = services.schedules.create
        self.limits = TimerQueue(settings.request_timeout_seconds, clock=services.clock)
        self.tasks = Tasks(_never)
        self._remembered: dict[bytes, _Headers] = {}

    async def close(self) -> None:
        """Cancel the time limits, and the tasks that the late rule began."""
        self.limits.close()
        await self.tasks.close()

    def begin(self, asker: Asker, message: RawRequestMessage, payload: StreamReader, raw: bytes = b"") -> bool:
        """True: the request is plain and valid so far, and `asker` will be answered. False: nothing has happened.
        `raw`: the bytes it was parsed from, if they are exactly this request."""
        if message.method != "POST":
            return False
        path, asks, query = message.path.partition("?")
        if not path.endswith(_BEHIND) or (asks and not query):
            return False
        data = self._body(message, payload)
        if data is None:
            return False
        begun = self._begin(asker, message, path, query, data)
        # Every request has a `traceparent` of its own: such headers never come again.
        if begun and raw and TRACEPARENT not in message.headers:
            self._remember(raw, message.headers)
        return begun

    def begin_alike(self, asker: Asker, raw: bytes) -> bool | None:
        """`begin` for bytes that were not parsed. None: only the parser can tell whether they are a plain create."""
        line_end, head_end = raw.find(b"\r\n"), raw.find(_END) + len(_END)
        known = self._remembered.get(raw[line_end:head_end])
        if known is None or len(raw) - head_end != known.length or (line := _usual_line(raw, 0, line_end)) is None:
            return None
        path, query = line.groups(b"")
        return self._begin(asker, known, path.decode(), query.decode(), raw[head_end:])

    def _remember(self, raw: bytes, headers: MultiMapping[str]) -> None:
        line_end, head_end = raw.find(b"\r\n"), raw.find(_END) + len(_END)
        if head_end - line_end > REMEMBERED_BYTES or _usual_line(raw, 0, line_end) is None:
            return
        # Dropped as a whole: an order of use would cost every request more than a rare refill.
        if len(self._remembered) >= REMEMBERED_HEADERS:
            self._remembered.clear()
        self._remembered[raw[line_end:head_end]] = _Headers(headers, len(raw) - head_end)

    def _begin(self, asker: Asker, request: HasHeaders, path: str, query: str, data: bytes) -> bool:
        services, began = self.services, self.services.clock.monotonic()
        known = services.authenticate.known_client(request.headers.get("Authorization"), asker.known)
        if known is None:
            return False
        asker.known, principal = known, known.principal
        client = principal.client
        assert client is not None
        if path != f"{_BEFORE}{client.client_id}{_BEHIND}":
            return False
        now = services.clock.wall_ms()
        once = plain_once(query, client, now=now) if query else None
        if once is None and query:
            return False
        try:
            self.create.admit(client)
            rate = {**services.rate_limit.take(client), **told_at(client, now=now)}
        except MinutehandError:
            return False
        request_id = request_id_of(request, services)
        create = _PlainCreate(self, asker, principal, client, rate=rate, request_id=request_id, began=began)
        if services.traces is not None:
            traced = create.traced = services.traces.begin(*trace_headers(request))
            try:
                begun = create.begin(data, once)
            finally:
                traced.leave()
        else:
            begun = create.begin(data, once)
        if begun:
            return True
        # The endpoint handles the request from the beginning, and takes from the rate itself.
        services.rate_limit.give_back(client)
        return False

    def _body(self, message: RawRequestMessage, payload: StreamReader) -> bytes | None:
        """The body, if the request is complete and no header asks for anything else; else None."""
        headers = message.headers
        if (
            message.version != HttpVersion11
            or message.should_close
            or message.chunked
            or message.upgrade
            or headers.get("Content-Type") != JSON
            or "Content-Encoding" in headers
            or "Expect" in headers
            or IDEMPOTENCY_KEY in headers
            or "If-Match" in headers
            or "If-None-Match" in headers
            or "Origin" in headers
            # aiohttp's EmptyStreamReader is a subclass: there is no body.
            or type(payload) is not StreamReader
            or not payload.is_eof()
            or len(payload._buffer) != 1
        ):
            return None
        data = payload._buffer[0]
        return data if len(data) <= self.settings.max_body_bytes else None


class _PlainCreate:
    """One plain create under way."""

    __slots__ = (
        "_asker",
        "_began",
        "_client",
        "_definition",
        "_give_up",
        "_held",
        "_late",
        "_limit",
        "_of",
        "_principal",
        "_rate",
        "_request_id",
        "traced",
    )

    _definition: Definition

    def __init__(
        self,
        of: PlainCreates,
        asker: Asker,
        principal: Principal,
        client: Client,
        *,
        rate: Mapping[str, str],
        request_id: str,
        began: float,
    ) -> None:
        self._of = of
        self._asker = asker
        self._principal = principal
        self._client = client
        self._rate = rate
        self._request_id = request_id
        self._began = began
        self._held = 0
        self._give_up: Callable[[], None] | None = None
        self._limit: Wait | None = None
        self._late: asyncio.Task[None] | None = None
        self.traced: TracedRequest | None = None

    def begin(self, data: bytes, once: Once | None) -> bool:
        """False: nothing has happened, and the endpoint has to refuse it."""
        of, held = self._of, len(data)
        ids = None if once is None else OnceIds(self._client.client_id, once, data)
        try:
            of.services.body_capacity.hold(self._principal, held)
            self._held = held
            request = ONE.decode_if_right(data)
            if request is None or request.key is not None:
                # Only the branch below matters: the endpoint finds the faults and reports them.
                raise Invalid([])
            self._definition, self._give_up = of.create.begin(
                self._client, request, self._answered, run=self._run, once=ids
            )
        except (Refusal, Invalid):
            self._release()
            return False
        except Exception as error:
            self._answer(error)
            return True
        self._limit = of.limits.begin(self._overdue)
        return True

    def _run(self, settling: Coroutine[Any, Any, None]) -> None:
        """Run the work that the late rule requires before the answer."""
        self._late = self._of.tasks.spawn(settling, name="late-create")

    def _overdue(self) -> None:
        assert self._give_up is not None
        self._give_up()
        if self._late is not None:
            self._late.cancel()
        self._answer(too_slow())

    def _answered(self, error: Exception | None) -> None:
        """Storage has answered, or refused."""
        if self._limit is not None:
            self._limit.over()
        self._answer(error)

    def _answer(self, error: Exception | None) -> None:
        of, services, close = self._of, self._of.services, self._of.services.health.stopping
        # Both refer back to this object; break the cycle, or it stays until the cycle collector runs.
        self._give_up = self._limit = None
        self._release()
        status, head, body = 201, "", b""
        if error is None:
            try:
                head, body = self._created()
            except Exception as fault:
                error = fault
            storage = services.health.storage
            if storage.doubted:
                storage.worked()
        if error is not None:
            status, head, body = self._refused(error)
        of.series.answered(status, services.clock.monotonic() - self._began)
        if self.traced is not None:
            self.traced.end(status=status)
        date = _date(services.clock.wall_ms() // 1000)
        last = "Connection: close\r\n" if close else ""
        head = f"{head}{REQUEST_ID}: {self._request_id}\r\nContent-Length: {len(body)}\r\nDate: {date}\r\n{last}\r\n"
        self._asker.answer_plainly(head.encode() + body, close=close)

    def _created(self) -> tuple[str, bytes]:
        headers = location_of(self._client, self._definition.schedule_id)
        load = minute_load(self._of.services, self._client, self._definition.due)
        view = created_schedule_view(self._definition, self._of.services.encryption)
        return f"{_CREATED}{_lines(headers)}{_lines(self._rate)}{_lines(load)}", json_body(view)

    def _refused(self, error: Exception) -> tuple[int, str, bytes]:
        of, request_id = self._of, self._request_id
        if isinstance(error, MinutehandError):
            response = refused(error, request_id=request_id, settings=of.settings, health=of.services.health)
        else:
            response = crashed(error, CREATE, request_id=request_id)
        # `_answer` writes it for all answers.
        del response.headers[REQUEST_ID]
        assert isinstance(response.body, bytes)
        line = f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
        return response.status, line + _lines(response.headers), response.body

    def _release(self) -> None:
        if self._held:
            self._of.services.body_capacity.release(self._principal, self._held)
            self._held = 0


def _lines(headers: Mapping[str, str]) -> str:
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()])


_CREATED: Final = f"HTTP/1.1 201 Created\r\n{_lines(JSON_HEADERS)}"


@lru_cache(maxsize=4)
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def _never(name: str, error: BaseException) -> None:
    """An unhandled exception of the late rule's task: it should have reported every error as an answer."""
    raise AssertionError(f"{name} failed without a logged error") from error
