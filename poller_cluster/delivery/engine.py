"""The engine: many concurrent attempts, each one HTTP/1.1 request, or an `http2` stream if the receiver speaks that."""

import asyncio
import errno
import socket
import ssl
from enum import Enum

from msgspec.structs import replace

from poller_cluster.delivery.answer import Answer, KnownAnswers
from poller_cluster.delivery.attempt import Attempt, MayStart, OnDone
from poller_cluster.delivery.client_contexts import ClientContexts
from poller_cluster.delivery.connection import Connection
from poller_cluster.delivery.deadlines import Deadlines
from poller_cluster.delivery.http2.attempts import Http2Attempts, Steps
from poller_cluster.delivery.naming import Naming
from poller_cluster.delivery.pool import Pool, PoolKey
from poller_cluster.delivery.request import BadRequest, CallbackRequest, head_of
from poller_cluster.delivery.resolver import Found
from poller_cluster.delivery.result import (
    AttemptError,
    AttemptResult,
    Verdict,
    because,
    not_begun,
    not_presented,
    not_resolved,
    not_secured,
)
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.sight import AnyAnswer, Sight
from poller_cluster.delivery.target import endpoint_of, judge_socket_address
from poller_cluster.delivery.tls import Tls, client_context
from scheduler_service.domain.network import NetworkPolicy
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.descriptors import affordable_sockets

_NEXT_ADDRESS_SECONDS = 0.25
"""If there is no connection after this time, the next address is tried beside the first (happy eyeballs, RFC 8305)."""
_OPENING_AT_ONCE = 2
_SWEEP_SECONDS = 1.0
"""How often kept connections are checked for outdated ones."""
_SHARE_OF_A_POOL = 5
"""One pool may hold a fifth of all kept connections."""
_SHARE_OF_HTTP2 = 10
_OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of this process's resources: another address would not help."""
_SHORTEST_WAIT_SECONDS = 0.001


class _Phase(Enum):
    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class DeliveryEngine:
    """A Service that makes HTTP attempts. All calls must come from the event loop it was started on.

        new --start--> running --stop--> stopping --idle, or the grace is over--> stopped
         `---------------------stop---------------------------------------------------^

    Settings and policy never change; it can't be started twice.
    """

    def __init__(
        self, *, clock: Clock, policy: NetworkPolicy, settings: DeliverySettings, observe: bool = False
    ) -> None:
        """`observe`: results carry an Observation and always an excerpt, and no connection is kept."""
        self._observe = observe
        self._clock = clock
        self._policy = policy
        self._settings = settings
        self._phase = _Phase.NEW
        self._ended = asyncio.Event()
        self._quiet = asyncio.Event()
        self._in_flight = 0
        self._capacity = settings.max_in_flight
        self._deadlines: Deadlines[Attempt] = Deadlines()
        self._known_answers = KnownAnswers()
        self._timer: asyncio.Handle | None = None
        self._timer_rings = 0.0
        self._sweep: asyncio.Handle | None = None
        self._starting: Attempt | None = None
        self._loop: asyncio.AbstractEventLoop
        self._tls_context: ssl.SSLContext
        self._client_contexts: ClientContexts
        self._naming: Naming
        self._pool: Pool[Connection[Attempt]]
        self._http2: Http2Attempts

    @property
    def in_flight(self) -> int:
        """Attempts under way."""
        return self._in_flight

    @property
    def capacity(self) -> int:
        """How many attempts may be under way: `max_in_flight`, or fewer if the process may not open that many
        descriptors (known after `start`)."""
        return self._capacity

    async def start(self) -> None:
        """Raises OSError or ssl.SSLError if `ca_file` can't be read."""
        if self._phase is not _Phase.NEW:
            raise RuntimeError("a delivery engine is started once")
        self._loop = asyncio.get_running_loop()
        settings = self._settings
        in_flight, kept = settings.max_in_flight, settings.max_idle_connections
        sockets = affordable_sockets(in_flight + kept)
        if sockets < in_flight + kept:
            # Attempts get two thirds: a kept connection only saves a handshake.
            in_flight = min(in_flight, sockets * 2 // 3)
            kept = sockets - in_flight
        self._capacity = in_flight
        self._tls_context = client_context(settings.ca_file)
        self._client_contexts = ClientContexts(lambda: client_context(settings.ca_file))
        self._naming = Naming(self._loop, settings=settings)
        kept_http2 = max(kept // _SHARE_OF_HTTP2, 1)
        kept = max(kept - kept_http2, 1)
        self._pool = Pool(
            most=kept,
            most_each=0 if self._observe else max(kept // _SHARE_OF_A_POOL, 1),
            idle_seconds=settings.idle_seconds,
            lifetime_seconds=settings.connection_lifetime_seconds,
        )
        self._http2 = Http2Attempts(
            self._loop,
            clock=self._clock,
            settings=settings,
            kept=kept_http2,
            observe=self._observe,
            steps=Steps(
                may_start=self._may_start,
                watch_sooner=self._watch_sooner,
                begin=self._begin,
                open_for=self._open_first,
                fail=self._fail,
                give_up=self._give_up,
                conclude=self._conclude,
            ),
        )
        self._phase = _Phase.RUNNING

    async def stop(self, grace_seconds: float | None = None) -> None:
        """Wait up to `grace_seconds` (None: the setting) for attempts under way, then end the rest as `stopped`."""
        if self._phase is _Phase.NEW:
            self._phase = _Phase.STOPPED
            self._ended.set()
        if self._phase is not _Phase.RUNNING:
            await self._ended.wait()
            return
        self._phase = _Phase.STOPPING
        grace = self._settings.stop_grace_seconds if grace_seconds is None else grace_seconds
        try:
            if self.in_flight and grace > 0:
                async with asyncio.timeout(grace):
                    await self._quiet.wait()
        except TimeoutError:
            pass
        finally:
            self._close()
            self._ended.set()

    def start_attempt(self, request: CallbackRequest, on_done: OnDone, *, may_start: MayStart) -> None:
        """Make one attempt; `on_done` gets its result, exactly once and not before this call has returned.

        `may_start` says whether this node may (still) act. It is called now, whenever a socket is opened, and
        immediately before the request is written; False ends the attempt as `not-trusted`. It must be quick and must
        not call the engine. Raises RuntimeError before `start` and when `capacity` attempts are under way.
        """
        started_at_ms, started = self._clock.wall_ms(), self._clock.monotonic()
        if self._phase is not _Phase.RUNNING:
            if self._phase is _Phase.NEW:
                raise RuntimeError("the delivery engine is not running")
            self._refuse(on_done, "stopped", "the engine is stopping", started_at_ms)
            return
        if self._in_flight >= self._capacity:
            raise RuntimeError("the delivery engine is at its capacity")
        if not may_start():
            self._refuse(on_done, "not-trusted", "this node may not act now", started_at_ms)
            return
        endpoint = endpoint_of(request.url)
        if endpoint is None or endpoint.target.scheme not in self._policy.schemes:
            if not request.url.isascii() or "\0" in request.url:
                self._refuse(on_done, "bad-request", "the URL can't be sent as it is", started_at_ms, final=True)
            else:
                self._refuse(on_done, "bad-url", "the URL is not one that can be called", started_at_ms, final=True)
            return
        try:
            head = head_of(request, endpoint)
        except BadRequest as error:
            self._refuse(on_done, "bad-request", str(error), started_at_ms, final=True)
            return
        channel, shown = request.channel, head
        if channel is not None and channel.proxy is not None:
            refusal = channel.refusal(self._policy, request.url)
            if refusal is not None:
                self._refuse(on_done, refusal.code, refusal.detail, started_at_ms, final=True)
                return
            if endpoint.target.scheme == "http":
                head = channel.head_for_proxy(head, endpoint)
        attempt = Attempt(
            request,
            endpoint,
            head,
            on_done=on_done,
            may_start=may_start,
            started_at_ms=started_at_ms,
            started=started,
            connect_timeout_seconds=min(request.timeout_seconds, self._settings.connect_timeout_seconds),
        )
        if self._observe:
            attempt.sight = Sight(started=started, head=shown)
        self._in_flight += 1
        # While it is set, `_conclude` defers `on_done`: the caller must not get a result from within this call.
        self._starting = attempt
        addresses = self._naming.find(attempt, attempt.peer.target, self._named)
        if addresses is not None:
            self._watch(attempt, attempt.deadline)
            attempt.addresses = addresses
            # A kept connection costs one system call here; opening sockets waits for the next turn of the loop.
            if not self._send_on_kept(attempt, started):
                self._loop.call_soon(self._begin, attempt)
        self._starting = None

    def _refuse(
        self, on_done: OnDone, error: AttemptError, detail: str, started_at_ms: int, *, final: bool = False
    ) -> None:
        self._loop.call_soon(on_done, not_begun(Verdict(error, detail, final), started_at_ms))

    def _named(self, attempt: Attempt, found: Found | None) -> None:
        """The look-up ended. `found` is None: not within the time for connecting."""
        if found is None:
            self._fail(attempt, attempt.timed_out)
        elif found.failure is not None:
            self._fail(attempt, not_resolved(found.failure, proxied=attempt.proxied))
        else:
            attempt.addresses = found.addresses
            self._watch(attempt, attempt.deadline)
            if not self._send_on_kept(attempt, self._clock.monotonic()):
                self._begin(attempt)

    def _send_on_kept(self, attempt: Attempt, now: float) -> bool:
        """Whether a kept connection was used: the request was written to it, or the attempt ended meanwhile."""
        request, target = attempt.request, attempt.endpoint.target
        for address in attempt.addresses:
            key = PoolKey(request.client_id, target, address, request.channel)
            while (connection := self._pool.take(key, now)) is not None:
                if request.at_most_once and not connection.looks_alive():
                    connection.close()
                elif self._send(attempt, connection):
                    return True
        return False

    def _begin(self, attempt: Attempt) -> None:
        """Use an HTTP/2 connection, or make a connection."""
        if attempt.over:
            return
        if attempt.sight is not None:
            attempt.sight.resolved = self._clock.monotonic()
        if not self._http2.takes(attempt):
            self._open_first(attempt)

    def _open_first(self, attempt: Attempt) -> None:
        attempt.next_address = 0
        self._open_next(attempt)

    def _open_next(self, attempt: Attempt) -> None:
        """Begin to connect to the next usable address. The attempt ends if there is none and no other connection is
        being made."""
        while attempt.next_address < len(attempt.addresses):
            address = attempt.addresses[attempt.next_address]
            attempt.next_address += 1
            try:
                opened = self._open(attempt, address)
            except OSError as error:
                attempt.last_error = error
                continue
            if attempt.over:
                return
            if opened:
                break
        if not attempt.opening:
            self._fail(attempt, attempt.no_connection)
            return
        now = self._clock.monotonic()
        more = attempt.next_address < len(attempt.addresses) and len(attempt.opening) < _OPENING_AT_ONCE
        at = min(attempt.connect_deadline, now + _NEXT_ADDRESS_SECONDS) if more else attempt.connect_deadline
        self._watch_sooner(attempt, at)

    def _open(self, attempt: Attempt, address: str) -> bool:
        """Whether a connection is being made; if not, the address is refused or the attempt is over. Raises OSError if
        connecting fails at once."""
        target = attempt.endpoint.target
        refusal = None if attempt.proxied else judge_socket_address(self._policy, (address, target.port))
        if refusal is not None:
            attempt.refusal = refusal
            return False
        if not self._may_start(attempt):
            return False
        try:
            sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno not in _OUT_OF or attempt.opening:
                raise
            self._fail(attempt, Verdict("internal", f"no socket could be opened: {error.strerror}"))
            return False
        connection: Connection[Attempt] = Connection(
            events=self,
            loop=self._loop,
            sock=sock,
            key=PoolKey(attempt.request.client_id, target, address, attempt.request.channel),
            attempt=attempt,
            opened_at=self._clock.monotonic(),
            answer=Answer(
                response_bytes=self._settings.response_bytes,
                framing_bytes=self._settings.framing_bytes,
                excerpt_bytes=self._settings.excerpt_bytes,
                known=self._known_answers,
            ),
        )
        attempt.opened = True
        if attempt.sight is not None:
            attempt.sight.addresses.append(attempt.socket_name(address))
        try:
            connection.connect()
        except OSError:
            connection.close()
            raise
        attempt.opening.append(connection)
        return True

    def on_connected(self, connection: Connection[Attempt], error: OSError | None) -> None:
        attempt = connection.attempt
        assert attempt is not None
        attempt.opening.remove(connection)
        if error is not None:
            connection.close()
            attempt.last_error = error
            self._open_next(attempt)
            return
        for other in attempt.opening:
            other.close()
        attempt.opening.clear()
        attempt.connection = connection
        if attempt.sight is not None:
            attempt.sight.connected = self._clock.monotonic()
            attempt.sight.connected_to = attempt.socket_name(connection.key.address)
        if attempt.endpoint.target.scheme == "http":
            self._send_on_fresh(attempt, connection)
            return
        attempt.due = attempt.connect_deadline
        channel = attempt.request.channel
        if channel is not None and channel.proxy is not None:
            connection.tunnel(channel.connect_head(attempt.endpoint.target))
        else:
            self._secure(attempt, connection)

    def on_tunnelled(self, connection: Connection[Attempt], failure: str) -> None:
        attempt = connection.attempt
        assert attempt is not None
        if failure:
            self._fail(attempt, Verdict("proxy-failed", failure))
        else:
            self._secure(attempt, connection)

    def _secure(self, attempt: Attempt, connection: Connection[Attempt]) -> None:
        context, request = self._tls_context, attempt.request
        try:
            if request.channel is not None and request.channel.certificate is not None:
                context = self._client_contexts.of(request.client_id, request.channel)
            tls = Tls(context, attempt.endpoint.target.server_name)
        except ValueError:
            self._fail(attempt, Verdict("bad-url", "the URL's host can't be a server's name", final=True))
        except OSError as error:
            self._fail(attempt, not_presented(error))
        else:
            connection.secure(tls)

    def on_secured(self, connection: Connection[Attempt], error: Exception | None) -> None:
        attempt = connection.attempt
        assert attempt is not None
        if error is not None:
            self._fail(attempt, not_secured(error))
            return
        if attempt.sight is not None:
            attempt.sight.secured = self._clock.monotonic()
        if connection.tls is not None and connection.tls.speaks_http2:
            self._http2.made(attempt, connection)
            return
        self._http2.spoke_http1(attempt)
        self._send_on_fresh(attempt, connection)

    def _send_on_fresh(self, attempt: Attempt, connection: Connection[Attempt]) -> None:
        attempt.due = attempt.deadline
        if not self._send(attempt, connection):
            self._fail(attempt, because("reset"))

    def _send(self, attempt: Attempt, connection: Connection[Attempt]) -> bool:
        """Write the request, if it may (still) start. False: nothing of it has left and the connection is closed. True
        also if it may not start: the attempt has ended then."""
        request, observed = attempt.request, attempt.sight is not None
        connection.attempt, attempt.connection = attempt, connection
        connection.answer.begin(bodiless=request.method == "HEAD", observed=observed, kept=request.keeps_answer)
        if not self._may_start(attempt):
            return True
        try:
            connection.send(attempt.head + request.body)
        except OSError:
            attempt.connection = None
            connection.close()
            return False
        attempt.sends += 1
        return True

    def _may_start(self, attempt: Attempt) -> bool:
        """Ask; end the attempt if the answer is no."""
        try:
            if attempt.may_start():
                return True
            verdict = because("not-trusted")
        except Exception as error:
            verdict = Verdict("internal", f"asking whether to start failed: {type(error).__name__}")
        self._fail(attempt, verdict)
        return False

    def on_answer(self, connection: Connection[Attempt]) -> None:
        attempt, answer = connection.attempt, connection.answer
        if attempt is None:
            # Unsolicited bytes on an idle connection: they must never be read as the next request's answer.
            self._pool.drop(connection)
            connection.close()
            return
        if attempt.sight is not None and attempt.sight.first_byte is None:
            attempt.sight.first_byte = self._clock.monotonic()
        if answer.end is not None:
            self._answered(attempt, connection)
        elif answer.status and attempt.answer_due is None:
            attempt.answer_due = self._clock.monotonic() + self._settings.answer_seconds
            self._watch_sooner(attempt, min(attempt.deadline, attempt.answer_due))

    def _answered(self, attempt: Attempt, connection: Connection[Attempt]) -> None:
        """End the attempt with its answer as far as it came."""
        answer, now = connection.answer, self._clock.monotonic()
        if answer.status:
            broke_off = answer.end in (None, "broken")
            result = attempt.with_status(answer, broke_off=broke_off, now=now, wall_ms=self._clock.wall_ms())
        else:
            result = attempt.without_status(because("bad-response"), now)
        self._leave(attempt, connection, now)
        self._conclude(attempt, result, answer)

    def _leave(self, attempt: Attempt, connection: Connection[Attempt], now: float) -> None:
        """Detach the connection, and keep it if it is fit for another request."""
        attempt.connection = connection.attempt = None
        unfit: Connection[Attempt] | None = connection
        if connection.answer.reusable and not connection.sending and not connection.ending:
            unfit = self._pool.put(connection, now)
        if unfit is not None:
            unfit.close()
        if self._sweep is None and len(self._pool):
            self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._close_outdated)

    def _close_outdated(self) -> None:
        for connection in self._pool.outdated(self._clock.monotonic()):
            connection.close()
        kept = len(self._pool)
        self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._close_outdated) if kept else None

    def on_lost(self, connection: Connection[Attempt]) -> None:
        attempt, answer = connection.attempt, connection.answer
        if attempt is None:
            self._pool.drop(connection)
            connection.close()
            return
        if answer.status:
            if answer.ends_with_connection():
                answer.end = "complete"
            self._answered(attempt, connection)
            return
        # A kept connection that breaks before any answer was probably closed while idle, before the request arrived.
        again = connection.requests > 1 and not answer.fed and not attempt.request.at_most_once
        connection.close()
        attempt.connection = None
        if again:
            attempt.repeat(self._clock.monotonic())
            self._begin(attempt)
        else:
            self._fail(attempt, because("reset"))

    def _fail(self, attempt: Attempt, verdict: Verdict) -> None:
        """End the attempt without a status."""
        stream = self._http2.leave(attempt)
        answer = stream if attempt.connection is None else attempt.connection.answer
        self._conclude(attempt, attempt.without_status(verdict, self._clock.monotonic()), answer)

    def _give_up(self, attempt: Attempt, error: Exception) -> None:
        """End the attempt because of a bug, even if cleaning up fails too: other attempts must go on."""
        self._loop.call_exception_handler({"message": "an attempt was given up", "exception": error})
        if attempt.over:
            return
        verdict = Verdict("internal", f"the attempt was given up: {type(error).__name__}")
        try:
            self._fail(attempt, verdict)
        except Exception:
            self._conclude(attempt, attempt.without_status(verdict, self._clock.monotonic()))

    def _conclude(self, attempt: Attempt, result: AttemptResult, answer: AnyAnswer | None = None) -> None:
        """Release everything the attempt holds and report its result."""
        if attempt.sight is not None and result.observation is None:
            excerpt = "" if answer is None else answer.excerpt
            result = replace(result, excerpt=excerpt, observation=attempt.sight.observation(answer))
        if answer is not None:
            answer.forget()
        attempt.over = True
        self._deadlines.remove(attempt)
        if attempt.connection is not None:
            attempt.connection.close()
            attempt.connection = None
        for connection in attempt.opening:
            connection.close()
        attempt.opening.clear()
        self._in_flight -= 1
        if self._phase is _Phase.STOPPING and not self._in_flight:
            self._quiet.set()
        if self._starting is attempt:
            self._loop.call_soon(attempt.on_done, result)
            return
        try:
            attempt.on_done(result)
        except Exception as error:
            self._loop.call_exception_handler({"message": "the end of an attempt was not handled", "exception": error})

    def _watch(self, attempt: Attempt, at: float) -> None:
        attempt.due = at
        if self._deadlines.put(attempt, at):
            self._set_timer()

    def _watch_sooner(self, attempt: Attempt, at: float) -> None:
        self._deadlines.remove(attempt)
        self._watch(attempt, at)

    def _set_timer(self) -> None:
        """Set the one timer of all attempts to the earliest that is due."""
        first = self._deadlines.first()
        if first is None or (self._timer is not None and self._timer_rings <= first):
            return
        if self._timer is not None:
            self._timer.cancel()
        wait = max(first - self._clock.monotonic(), _SHORTEST_WAIT_SECONDS)
        self._timer, self._timer_rings = self._loop.call_later(wait, self._look_at_due), first

    def _look_at_due(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for attempt in self._deadlines.due(now):
            if attempt.over:
                continue
            if attempt.due > now:
                # `due` was postponed without moving the attempt to another bucket, which is cheaper for most.
                self._watch(attempt, attempt.due)
                continue
            try:
                self._overdue(attempt, now)
            except Exception as error:
                self._give_up(attempt, error)
        self._set_timer()

    def _overdue(self, attempt: Attempt, now: float) -> None:
        connection = attempt.connection
        if self._http2.overdue(attempt, now):
            return
        if connection is None and now < attempt.connect_deadline:
            self._open_next(attempt)
        elif connection is not None and connection.answer.status:
            if now < attempt.deadline:
                connection.answer.end = "too-long"
            self._answered(attempt, connection)
        else:
            self._fail(attempt, attempt.timed_out)

    def _close(self) -> None:
        """End all attempts and close all connections."""
        self._phase = _Phase.STOPPED
        unnamed = self._naming.close()
        self._http2.close()
        for attempt in [*self._deadlines.take_all(), *unnamed]:
            try:
                self._fail(attempt, because("stopped"))
            except Exception as error:
                self._give_up(attempt, error)
        for connection in self._pool.take_all():
            connection.close()
        for timer in (self._timer, self._sweep):
            if timer is not None:
                timer.cancel()
        self._timer = self._sweep = None
