"""Connections: how many may be open, and how long the server waits for their peers.

    opened ──head──▶ request ──▶ answer ──taken──▶ idle ──head──▶ …
         head_timeout                 answer_timeout   keep_alive

`head_timeout` runs from the opening, later from the first byte of a request, until its headers are complete; a head may
have `max_head_bytes`. From then until the answer the request's own time limit applies, bodies included. An answer that
the peer does not read runs into `answer_timeout`, also while the connection is being closed: its bytes stay in memory
until then.

With `max_connections` open, a new connection displaces the one that was heard from longest ago and waits for a request
or for the rest of an answered one; so holding connections keeps nobody out. Requests that wait for their bodies keep
their connections, but those of one caller have at most a quarter of all (`api.request_budget`). If none of the oldest
waits, the one whose answer has been unread for longest is displaced, from UNREAD_SECONDS on: sending requests and not
reading the answers needs no key. Otherwise the new connection gets 503 and is closed.

Parsing costs the loop time, and a peer needs no key to cause it: 64 KiB of a body in chunks of one byte cost 2 ms. So

- all connections together parse for TURN_SECONDS in a turn of the loop, READ_BYTES of a connection at a time, in the
  order in which their bytes arrived (`Parsing`);
- the rest of a body whose request has been answered is not parsed: the connection is closed after the answer, and bytes
  are dropped until the peer has read it;
- a chunked body takes at most twice its size on the wire, plus SPARE_WIRE_BYTES.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sized
from itertools import islice
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.http import RawRequestMessage
from aiohttp.web_protocol import RequestHandler

from scheduler_service.api.http.endpoint import REQUEST_ID, problem_response, request_id_of
from scheduler_service.api.http.route import json_body
from scheduler_service.api.http.timeouts import TimerQueue, Wait
from scheduler_service.api.plain_creates import PlainCreates
from scheduler_service.api.problems import CONTENT_TYPE, KINDS, internal_problem, problem
from scheduler_service.api.services import ApiServices
from scheduler_service.api.settings import ApiSettings
from scheduler_service.runtime.logging import get_logger
from scheduler_service.usecases.authenticate import KnownClient

LOOKED_AT: Final = 64
"""How many of the oldest connections are searched for one that waits."""
UNREAD_SECONDS: Final = 1.0
"""A connection whose answer has been unread for this long may be displaced by a new one."""
READ_BYTES: Final = 64 * 1024
"""Bytes of one connection that are parsed at a time."""
TURN_SECONDS: Final = 0.005
"""Time for parsing in one turn of the loop, over all connections; a piece that was begun is finished."""
SPARE_WIRE_BYTES: Final = 64 * 1024
"""Allowance for the framing of a chunked body, however short the body is."""
_ENOUGH_ROOM: Final = 0.9
_log = get_logger("minutehand.api")


class Parsing:
    """Shares the time for parsing among connections, in order. Lives on one event loop. `monotonic` in seconds."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._waiting: deque[Connection] = deque()
        self._left = TURN_SECONDS
        self._next_turn: asyncio.Handle | None = None

    def at_once(self) -> bool:
        """Whether this turn has time left and no other connection waits for it."""
        return self._left > 0 and not self._waiting

    def wait(self, connection: "Connection") -> None:
        """Queue the connection for `parse_next`. It must not be queued already."""
        self._waiting.append(connection)
        self._ensure_next()

    def spend(self, parse: Callable[[bytes], None], data: bytes) -> None:
        began = self._monotonic()
        try:
            parse(data)
        finally:
            self._left -= self._monotonic() - began
            self._ensure_next()

    def _ensure_next(self) -> None:
        if self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._next_turn = None
        self._left = TURN_SECONDS
        for _ in range(len(self._waiting)):
            if self._left <= 0:
                break
            connection = self._waiting.popleft()
            if connection.parse_next():
                self._waiting.append(connection)
        if self._waiting:
            self._ensure_next()


class Connections:
    """The connections of one server, at most `limit`."""

    def __init__(self, *, services: ApiServices, settings: ApiSettings, limit: int, plain: PlainCreates) -> None:
        self.limit = limit
        self.plain = plain
        self.max_head_bytes = settings.max_head_bytes
        self.max_dropped_bytes = 2 * settings.max_body_bytes
        self.heads = TimerQueue(settings.head_timeout_seconds, clock=services.clock)
        self.answers = TimerQueue(settings.answer_timeout_seconds, clock=services.clock)
        self.parsing = Parsing(monotonic=services.clock.monotonic)
        self.services = services
        self._settings = settings
        self._open: OrderedDict[Connection, None] = OrderedDict()
        self._full = False

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: "Connection") -> bool:
        """Count a new connection, displacing another if all are taken. False: it must be refused."""
        if len(self._open) >= self.limit:
            if not self._full:
                self._full = True
                _log.warning("connections-full", limit=self.limit)
            if not self._make_room():
                return False
        self._open[connection] = None
        return True

    def heard(self, connection: "Connection") -> None:
        """A request arrived: this is now the connection heard from last."""
        if connection in self._open:
            self._open.move_to_end(connection)

    def closed(self, connection: "Connection") -> None:
        self._open.pop(connection, None)
        if self._full and len(self._open) < self.limit * _ENOUGH_ROOM:
            self._full = False
            _log.info("connections-free", limit=self.limit)

    def last_words(self, kind: str, detail: str) -> bytes:
        """A refusal as raw bytes, for a connection without a request that aiohttp could answer."""
        request_id = f"{self.services.randomness.bits(96):024x}"
        refusal = problem(kind, detail, request_id=request_id)
        body = json_body(refusal)
        lines = [
            f"HTTP/1.1 {refusal.status} {refusal.title}",
            "Server: Minutehand",
            f"Content-Type: {CONTENT_TYPE}",
            f"Content-Length: {len(body)}",
            f"{REQUEST_ID}: {request_id}",
            "Connection: close",
        ]
        if refusal.status == 503:
            lines.append(f"Retry-After: {self._settings.retry_after_seconds}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body

    def close(self) -> None:
        """Cancel all time-outs."""
        self.heads.close()
        self.answers.close()

    def _make_room(self) -> bool:
        for connection in islice(self._open, LOOKED_AT):
            if connection.waits:
                # Removed now: `connection_lost` comes in a later turn, and the new connection is counted in this one.
                del self._open[connection]
                connection.force_close()
                return True
        return self.answers.end_oldest(after=UNREAD_SECONDS)


class Connection(RequestHandler):
    """One connection. Bytes that are no HTTP request are answered 400, without echoing or logging them.

    It drives aiohttp's `RequestHandler` by its private fields, so aiohttp is pinned. aiohttp's task awaits `_waiter`
    between requests; while that is set aside (`_parked`), aiohttp takes the task to be busy and only queues what it
    parses.
    """

    __slots__ = (
        "_answer",
        "_head",
        "_head_bytes",
        "_kept",
        "_parked",
        "_rest",
        "_socket",
        "_unread",
        "_unwanted",
        "_whole",
        "_wire_bytes",
        "known",
    )

    def __init__(self, server: web.Server, *, kept: Connections, **arguments: Any) -> None:
        super().__init__(server, **arguments)
        self._kept = kept
        self._socket: asyncio.Transport | None = None
        self._head: Wait | None = None
        self._head_bytes = 0
        self._answer: Wait | None = None
        self._rest: StreamReader | None = None
        """The body of a request that was answered before all of it had arrived."""
        self._unread = bytearray()
        self._unwanted = False
        self._wire_bytes = 0
        """Bytes received since the request's head."""
        self._whole = True
        """Every read so far was exactly one request, so the next byte begins one and may be compared unparsed."""
        self._parked: asyncio.Future[None] | None = None
        """The future that aiohttp's task awaits for the next request, set aside while a plain create is under way."""
        self.known: KnownClient | None = None
        """The client whose key this connection used last (`plain_creates.Asker`)."""

    @property
    def waits(self) -> bool:
        """Whether it waits for a request, or for the rest of an answered one, and has no unread answer."""
        idle = self._waiter is not None and not self._waiter.done()
        return (idle or self._rest is not None) and self._answer is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        # `pause_writing` is to be called as soon as a byte is left in the buffer. The TLS transport compares with >=
        # and would pause an empty buffer for good at 0.
        secured = transport.get_extra_info("sslcontext") is not None
        self._socket.set_write_buffer_limits(high=int(secured), low=0)
        if not self._kept.admit(self):
            self._force_close = True
            self._socket.write(self._kept.last_words("overloaded", "there are too many connections"))
            self._socket.close()
            return
        super().connection_made(transport)
        self._head = self._kept.heads.begin(self._head_overdue)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._kept.closed(self)
        if self._parked is not None:
            self._waiter = self._parked
        self._unread.clear()
        for wait in (self._head, self._answer):
            if wait is not None:
                wait.over()
        super().connection_lost(exc)
        if self._rest is not None:
            # Else aiohttp's task would wait LINGER_SECONDS for bytes that can't arrive any more.
            self._rest.feed_eof()

    def data_received(self, data: bytes) -> None:
        """Parse now or queue the bytes, so that they are parsed in order; a read brings up to 256 KiB. Empty `data`:
        the parser had paused and continues with what it holds."""
        if self._unwanted:
            self._drop(data)
            return
        parsing = self._kept.parsing
        if not data or (len(data) <= READ_BYTES and not self._unread and parsing.at_once()):
            begun = self._begin_alike(data) if self._whole and data else None
            if not begun:
                parsing.spend(self._parse, data)
                self._begin_next(raw=data if self._whole else b"", judged=begun is False)
            return
        if not self._unread:
            parsing.wait(self)
        self._unread += data
        if self._socket is not None:
            self._socket.pause_reading()

    def parse_next(self) -> bool:
        """Parse one piece of the queued bytes. False: nothing is left, or the rest is dropped."""
        if self._socket is None or self._socket.is_closing():
            self._unread.clear()
            return False
        if self._unwanted:
            self._drop(self._unread)
            self._unread.clear()
            self._socket.resume_reading()
            return False
        piece = bytes(self._unread[:READ_BYTES])
        del self._unread[:READ_BYTES]
        more = bool(self._unread)
        self._kept.parsing.spend(self._parse, piece)
        self._begin_next()
        # aiohttp pauses too, while the handler is behind with the body: then reading is not ours to resume.
        if not more and not (self._reading_paused or self._buffer_paused):
            self._socket.resume_reading()
        return more

    def _parse(self, data: bytes) -> None:
        before, idle = self._request_count, self._waiter
        # Hidden from aiohttp's `data_received`, which would wake its task: `_begin_next` tries a plain create first.
        self._waiter = None
        try:
            super().data_received(data)
        finally:
            self._waiter = idle
        self._whole = self._whole and self._request_count == before + 1 and self._just_parsed(data)
        if self._request_count != before:
            self._request_came()
        elif data and idle is not None and not idle.done():
            self._head_bytes += len(data)
            if self._head is None:
                self._head = self._kept.heads.begin(self._head_overdue)
            if self._head_bytes > self._kept.max_head_bytes:
                self._end("malformed", f"the headers are longer than {self._kept.max_head_bytes} bytes")
        elif data:
            self._judge_frames(len(data))

    def _just_parsed(self, data: bytes) -> bool:
        """Whether these bytes are exactly the request that was parsed last."""
        _, payload = self._messages[-1]
        whole = data.find(b"\r\n\r\n") + 4 + payload.total_bytes == len(data)
        return whole and payload.is_eof() and not self._upgraded

    def _request_came(self) -> None:
        """The head of a request is complete."""
        self._kept.heard(self)
        if self._head is not None:
            self._head.over()
            self._head, self._head_bytes = None, 0
        self._rest = None
        self._wire_bytes = 0

    def _begin_alike(self, raw: bytes) -> bool | None:
        """`PlainCreates.begin_alike`, if no request is under way and the connection stays open; else None."""
        idle = self._waiter
        ending = self._close or self._force_close or self._answer is not None
        if idle is None or idle.done() or self._messages or ending:
            return None
        self._waiter, self._parked = None, idle
        begun = self._kept.plain.begin_alike(self, raw)
        if begun:
            self._request_came()
        else:
            self._waiter, self._parked = idle, None
        return begun

    def _begin_next(self, *, raw: bytes = b"", judged: bool = False) -> None:
        """Start the first parsed request, if none is under way. `raw`: see `PlainCreates.begin`. `judged`: it is known
        not to be a plain create."""
        idle = self._waiter
        if idle is not None and not idle.done() and self._messages and (judged or not self._begin_plain(idle, raw)):
            idle.set_result(None)

    def _begin_plain(self, idle: "asyncio.Future[None]", raw: bytes) -> bool:
        """Start the next request if it is a plain create; else leave it for aiohttp's task and answer False."""
        message, payload = self._messages.popleft()
        self._waiter, self._parked = None, idle
        if (
            isinstance(message, RawRequestMessage)
            and self._answer is None
            and self._kept.plain.begin(self, message, payload, raw)
        ):
            if self._parser is not None:
                self._parser.message_consumed()
            return True
        self._messages.appendleft((message, payload))
        self._waiter, self._parked = idle, None
        return False

    def answer_plainly(self, answer: bytes, *, close: bool) -> None:
        """Do what aiohttp's task does after its handler: answer, then wait for the next request."""
        self._waiter, self._parked = self._parked, None
        if self.transport is None or self._socket is None or self._waiter is None or self._waiter.done():
            return
        self._socket.write(answer)
        if close or self._close or self._force_close:
            self.force_close()
            return
        # aiohttp's own bookkeeping of idle connections, which its task does after each answer.
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)
        if self._messages:
            self._waiter.set_result(None)

    def _judge_frames(self, size: int) -> None:
        """Refuse a chunked body whose framing outweighs its content."""
        self._wire_bytes += size
        request = self._current_request
        if self._wire_bytes <= SPARE_WIRE_BYTES or request is None or request.content.is_eof():
            return
        chunked = "Transfer-Encoding" in request.headers
        if chunked and self._wire_bytes > SPARE_WIRE_BYTES + 2 * request.content.total_bytes:
            self._end("malformed", "the chunks of the body are too short: send longer chunks")

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer. Unless it is short, the rest of the request's body is dropped unparsed."""
        content, announced = request.content, request.content_length
        if not content.is_eof() and (announced is None or announced - content.total_bytes > READ_BYTES):
            resp.force_close()
            self._unwanted = True
        sent = await super().finish_response(request, resp, start_time)
        self._rest = None if content.is_eof() else content
        return sent

    def _drop(self, data: Sized) -> None:
        """Read and discard, so that the peer can read the answer: closing over unread bytes resets the connection."""
        self._wire_bytes += len(data)
        if self._wire_bytes > self._kept.max_dropped_bytes:
            self.force_close()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """aiohttp calls this whenever part of a body was consumed, also where nothing had been paused."""
        if self._reading_paused or self._buffer_paused:
            super().resume_reading(resume_parser)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._answer is None:
            self._answer = self._kept.answers.begin(self._answer_overdue)

    def resume_writing(self) -> None:
        if self._answer is not None:
            self._answer.over()
            self._answer = None
        super().resume_writing()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        request_id = request_id_of(request, self._kept.services)
        if status < 500:
            detail = "this is no valid HTTP/1.1 request, or its headers are too long"
            answer = problem_response(problem("malformed", detail, request_id=request_id))
        else:
            if not isinstance(exc, ConnectionError):  # the peer left in the middle of its request
                _log.error("request-crashed", request_id=request_id, exc_info=exc)
            answer = problem_response(internal_problem(request_id=request_id))
        answer.force_close()
        return answer

    def _head_overdue(self) -> None:
        self._head = None
        if self._head_bytes:
            self._end("request-timeout", KINDS["request-timeout"].advice)
        else:
            self.force_close()

    def _end(self, kind: str, detail: str) -> None:
        if self._socket is not None and not self._force_close:
            self._socket.write(self._kept.last_words(kind, detail))
        self.force_close()

    def _answer_overdue(self) -> None:
        self._kept.closed(self)
        if self._socket is not None:
            # `close` would wait until the buffered answer is sent, which is what did not happen in time.
            self._socket.abort()
