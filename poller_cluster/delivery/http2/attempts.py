"""Attempts over HTTP/2: which connection each uses, which of them wait for one, and how they end.

    takes --a connection has room------> a stream of it --answered, refused, reset, lost, overdue--> ended, or repeated
      |                                       ^
      |                                       | there is room
      |--one is being made, all are full--> waiting --none is being made any more--> `open_for`
      |
      `--none is being made--> False: the engine makes one for this attempt (the "maker")

A receiver is one scheme, host and port as one client calls it over one channel. For each at most one connection is
being made while other attempts wait for it; if that fails, or turns out to speak HTTP/1.1, they open their own. While a
receiver is remembered as speaking HTTP/1.1, none waits. Of a receiver's connections the newest with room is used, so
that the others grow old. The engine keeps the deadlines of all attempts.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from poller_cluster.delivery.attempt import Attempt
from poller_cluster.delivery.channel import Channel
from poller_cluster.delivery.connection import Connection
from poller_cluster.delivery.http2.connection import Http2Connection
from poller_cluster.delivery.http2.header_block import block_of, headers_of
from poller_cluster.delivery.http2.stream import Stream
from poller_cluster.delivery.pool import Pool
from poller_cluster.delivery.result import AttemptResult, Verdict, because
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.target import Target
from scheduler_service.runtime.clock import Clock

_SWEEP_SECONDS: Final = 1.0
"""How often idle connections are checked for outdated ones."""
_SHARE_OF_A_POOL: Final = 5
_MOST_SENDS: Final = 6
"""A request that its receiver refuses unprocessed is written six times at most, so repeated five times."""

TARGETS_REMEMBERED: Final = 10_000
TARGET_SECONDS: Final = 600.0


class Http1Receivers:
    """Receivers that chose HTTP/1.1 in their last handshake, remembered for ten minutes since. If there are too many,
    the one whose handshake is oldest is forgotten."""

    def __init__(self) -> None:
        self._until: dict[Target, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def has(self, target: Target, now: float) -> bool:
        """`now` is in monotonic seconds, as everywhere here."""
        until = self._until.get(target)
        if until is None:
            return False
        if now < until:
            return True
        del self._until[target]
        return False

    def add(self, target: Target, now: float) -> None:
        self._until.pop(target, None)
        self._until[target] = now + TARGET_SECONDS
        if len(self._until) > TARGETS_REMEMBERED:
            del self._until[next(iter(self._until))]

    def forget(self, target: Target) -> None:
        self._until.pop(target, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The engine's operations on an attempt that HTTP/2 uses.

    `may_start`: ask; if False, the attempt has ended. `watch_sooner`: it is due at an earlier instant. `begin`: find a
    connection, or make one. `open_for`: make one. `fail`: end it without a status, which calls `leave`. `give_up`: end
    it because of a bug. `conclude`: it has left its stream, and this is its result.
    """

    may_start: Callable[[Attempt], bool]
    watch_sooner: Callable[[Attempt, float], None]
    begin: Callable[[Attempt], None]
    open_for: Callable[[Attempt], None]
    fail: Callable[[Attempt, Verdict], None]
    give_up: Callable[[Attempt, Exception], None]
    conclude: Callable[[Attempt, AttemptResult, Stream[Attempt]], None]


_Name: TypeAlias = tuple[str, Target, Channel | None]


def _receiver_of(attempt: Attempt) -> _Name:
    return attempt.request.client_id, attempt.endpoint.target, attempt.request.channel


def _used_by(connection: Http2Connection[Attempt]) -> _Name:
    key = connection.key
    return key.client_id, key.target, key.channel


class _Receiver:
    """Connections of one client over one channel to one receiver; those in `with_headroom` may have room. Attempts are
    `waiting` while there is a `maker`: first the attempt that a connection is being made for, then that connection
    until its first SETTINGS say how many streams it admits."""

    __slots__ = ("connections", "maker", "waiting", "with_headroom")

    def __init__(self) -> None:
        self.connections: dict[Http2Connection[Attempt], None] = {}
        self.with_headroom: dict[Http2Connection[Attempt], None] = {}
        self.waiting: dict[Attempt, None] = {}
        self.maker: Attempt | Http2Connection[Attempt] | None = None


class Http2Attempts:
    """The HTTP/2 attempts and connections of one engine, on its loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        settings: DeliverySettings,
        kept: int,
        observe: bool,
        steps: Steps,
    ) -> None:
        """`kept`: how many connections are kept between requests. Observed attempts share none."""
        self._loop = loop
        self._clock = clock
        self._settings = settings
        self._observe = observe
        self._steps = steps
        self._http1 = Http1Receivers()
        self._receivers: dict[_Name, _Receiver] = {}
        self._under_way: dict[Attempt, tuple[Http2Connection[Attempt], Stream[Attempt]]] = {}
        self._sweep: asyncio.Handle | None = None
        self._pool: Pool[Http2Connection[Attempt]] = Pool(
            most=kept,
            most_each=0 if observe else max(kept // _SHARE_OF_A_POOL, 1),
            idle_seconds=settings.idle_seconds,
            lifetime_seconds=settings.connection_lifetime_seconds,
        )

    def takes(self, attempt: Attempt) -> bool:
        """Whether the attempt was queued on a connection or waits for one. If not, the caller makes a connection."""
        target = attempt.endpoint.target
        if self._observe or target.scheme != "https":
            return False
        now, name = self._clock.monotonic(), _receiver_of(attempt)
        receiver = self._receivers.get(name)
        if receiver is None:
            if self._http1.has(target, now):
                return False
            receiver = self._receivers[name] = _Receiver()
        # A repeat asks for a fresh connection, or waits for one: `_place` admits only those opened since.
        elif not attempt.sends and self._place(attempt, receiver, now):
            return True
        if receiver.maker is None:
            receiver.maker = attempt
            return False
        receiver.waiting[attempt] = None
        self._steps.watch_sooner(attempt, attempt.connect_deadline)
        return True

    def made(self, attempt: Attempt, connection: Connection[Attempt]) -> None:
        """The connection made for the attempt chose HTTP/2; this class takes ownership of it."""
        target = attempt.endpoint.target
        self._http1.forget(target)
        receiver = self._receivers.setdefault(_receiver_of(attempt), _Receiver())
        attempt.connection = None
        made = Http2Connection(events=self, loop=self._loop, made=connection)
        if receiver.maker is attempt:
            receiver.maker = made
        receiver.connections[made] = None
        made.queued.append(attempt)
        self._write_queued(made)

    def spoke_http1(self, attempt: Attempt) -> None:
        """The connection made for the attempt chose HTTP/1.1."""
        target = attempt.endpoint.target
        self._http1.add(target, self._clock.monotonic())
        self._not_made_by(attempt)

    def leave(self, attempt: Attempt) -> Stream[Attempt] | None:
        """The attempt ends without an answer, or had ended. Returns its stream, if it was on one."""
        under_way = self._under_way.pop(attempt, None)
        if under_way is None:
            self._not_made_by(attempt)
            return None
        connection, stream = under_way
        stream.attempt = None
        connection.leave(stream)
        self._settle(connection, self._clock.monotonic())
        return stream

    def overdue(self, attempt: Attempt, now: float) -> bool:
        """The attempt is due. Whether it ended with the status that it has; if not, the caller times it out."""
        under_way = self._under_way.get(attempt)
        if under_way is None:
            return False
        connection, stream = under_way
        if stream.status:
            if now < attempt.deadline:
                stream.hear_end("too-long")
            self._answered(attempt, connection, stream, now)
            self._settle(connection, now)
            return True
        # Nothing was read since the request was written: the peer may be gone, and the next attempt must not time out
        # on it too.
        connection.retired = connection.retired or connection.heard == stream.heard_at_start
        return False

    def _place(self, attempt: Attempt, receiver: _Receiver, now: float) -> bool:
        """Queue the attempt on a connection with room, if there is one, to be written in this turn of the loop or the
        next."""
        settings = self._settings
        for connection in reversed(list(receiver.with_headroom)):
            idle_since = now if connection.session.streams else connection.idle_since
            if (
                not connection.has_headroom
                or now - connection.opened_at >= settings.connection_lifetime_seconds
                or now - idle_since >= settings.idle_seconds
            ):
                del receiver.with_headroom[connection]
            elif connection.key.address in attempt.addresses and connection.opened_at >= attempt.repeated_at:
                if not connection.queued:
                    self._loop.call_soon(self._write_queued, connection)
                connection.queued.append(attempt)
                self._pool.drop(connection)
                attempt.due = attempt.deadline
                return True
        return False

    def _write_queued(self, connection: Http2Connection[Attempt]) -> None:
        """Write the queued requests that may (still) start in one system call, whose cost they share."""
        queued, connection.queued = connection.queued, []
        # Not on a fresh connection, where the receiver's SETTINGS may be waiting to be read.
        once = connection.session.settled and any(attempt.request.at_most_once for attempt in queued)
        if once and not connection.looks_alive():
            connection.retired = True
        connection.check_headroom()
        headroom = connection.headroom
        begun: dict[Attempt, Stream[Attempt]] = {}
        try:
            while queued and len(begun) < headroom:
                attempt = queued.pop(0)
                if not attempt.over and self._steps.may_start(attempt):
                    stream = begun[attempt] = self._stream(attempt)
                    self._begin_stream(attempt, stream, connection)
            if begun:
                connection.send()
        except Exception as error:
            self._not_written(connection, begun, error)
        else:
            for attempt, stream in begun.items():
                attempt.sends += 1
                attempt.due = attempt.deadline
                self._under_way[attempt] = (connection, stream)
        for attempt in queued:
            self._steps.begin(attempt)
        self._settle(connection, self._clock.monotonic())

    def _stream(self, attempt: Attempt) -> Stream[Attempt]:
        settings = self._settings
        return Stream(
            attempt,
            response_bytes=settings.response_bytes,
            framing_bytes=settings.framing_bytes,
            excerpt_bytes=settings.excerpt_bytes,
            observed=attempt.sight is not None,
            kept=attempt.request.keeps_answer,
        )

    def _begin_stream(self, attempt: Attempt, stream: Stream[Attempt], connection: Http2Connection[Attempt]) -> None:
        request, sight = attempt.request, attempt.sight
        block = block_of(request, attempt.endpoint)
        if sight is not None:
            sight.sent = headers_of(block)
        connection.begin(stream, method=request.method, block=block, body=request.body)

    def _not_written(
        self, connection: Http2Connection[Attempt], begun: dict[Attempt, Stream[Attempt]], error: Exception
    ) -> None:
        """Nothing of the begun requests has left, and nothing will, because the connection is closed first."""
        fresh = not connection.session.answers
        for stream in begun.values():
            stream.attempt = None
        self.on_lost(connection)
        for attempt in begun:
            if not isinstance(error, OSError):
                self._steps.give_up(attempt, error)
            elif fresh:
                self._steps.fail(attempt, because("reset"))
            else:
                self._steps.begin(attempt)

    def on_heard(self, connection: Http2Connection[Attempt], heard: list[Stream[Attempt]]) -> None:
        now = self._clock.monotonic()
        for stream in heard:
            if stream.attempt is not None:
                self._hear(stream.attempt, connection, stream, now)
        self._settle(connection, now)

    def _hear(
        self, attempt: Attempt, connection: Http2Connection[Attempt], stream: Stream[Attempt], now: float
    ) -> None:
        if attempt.sight is not None and attempt.sight.first_byte is None and stream.fed:
            attempt.sight.first_byte = now
        if stream.refused:
            connection.retired = True
            self._end(attempt, connection, stream)
            if attempt.sends < _MOST_SENDS:
                self._begin_again(attempt, now)
            else:
                self._steps.fail(attempt, because("reset"))
        elif stream.end == "broken" and not stream.status:
            self._steps.fail(attempt, because("reset"))
        elif stream.end is not None:
            self._answered(attempt, connection, stream, now)
        elif stream.status and attempt.answer_due is None:
            attempt.answer_due = now + self._settings.answer_seconds
            self._steps.watch_sooner(attempt, min(attempt.deadline, attempt.answer_due))

    def _answered(
        self, attempt: Attempt, connection: Http2Connection[Attempt], stream: Stream[Attempt], now: float
    ) -> None:
        """End the attempt with its answer as far as it came."""
        if stream.status:
            broke_off = stream.end in (None, "broken")
            result = attempt.with_status(stream, broke_off=broke_off, now=now, wall_ms=self._clock.wall_ms())
        else:
            result = attempt.without_status(because("bad-response"), now)
        self._end(attempt, connection, stream)
        self._steps.conclude(attempt, result, stream)

    def _end(self, attempt: Attempt, connection: Http2Connection[Attempt], stream: Stream[Attempt]) -> None:
        del self._under_way[attempt]
        stream.attempt = None
        connection.leave(stream)

    def _begin_again(self, attempt: Attempt, now: float) -> None:
        attempt.repeat(now)
        self._steps.begin(attempt)

    def on_lost(self, connection: Http2Connection[Attempt]) -> None:
        if connection.closed:
            return
        now, streams = self._clock.monotonic(), list(connection.session.streams.values())
        self._close(connection, now)
        for stream in streams:
            attempt = stream.attempt
            if attempt is None:
                continue
            if stream.status:
                stream.hear_end("broken")
                self._answered(attempt, connection, stream, now)
            elif connection.session.broken:
                self._steps.fail(attempt, because("bad-response"))
            elif stream.on_kept and not stream.fed and attempt.sends == 1 and not attempt.request.at_most_once:
                self._end(attempt, connection, stream)
                self._begin_again(attempt, now)
            else:
                self._steps.fail(attempt, because("reset"))

    def _settle(self, connection: Http2Connection[Attempt], now: float) -> None:
        """After any change of the connection: give its room to waiting attempts, and keep or close it if it is idle."""
        if connection.closed:
            return
        receiver = self._receivers[_used_by(connection)]
        if connection.has_headroom:
            receiver.with_headroom[connection] = None
        if receiver.maker is connection and connection.session.settled:
            receiver.maker = None
        self._serve(receiver, now)
        if connection.session.streams or connection.queued:
            return
        if connection.retired or connection.session.going:
            self._close(connection, now)
        elif connection not in self._pool and (unfit := self._pool.put(connection, now)) is not None:
            self._close(unfit, now)
        if self._sweep is None and len(self._pool):
            self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._close_outdated)

    def _serve(self, receiver: _Receiver, now: float) -> None:
        """Queue waiting attempts while there is room; then let the first make another connection, if none is made."""
        while receiver.waiting:
            attempt = next(iter(receiver.waiting))
            if self._place(attempt, receiver, now):
                receiver.waiting.pop(attempt, None)
            elif receiver.maker is None:
                del receiver.waiting[attempt]
                receiver.maker = attempt
                self._steps.open_for(attempt)
            else:
                return

    def _not_made_by(self, attempt: Attempt) -> None:
        """The attempt no longer waits, nor makes a connection to share: those that waited for it open their own."""
        name = _receiver_of(attempt)
        receiver = self._receivers.get(name)
        if receiver is None:
            return
        receiver.waiting.pop(attempt, None)
        if receiver.maker is not attempt:
            return
        receiver.maker = None
        waiting = list(receiver.waiting)
        receiver.waiting.clear()
        self._forget_empty(name, receiver)
        for other in waiting:
            if not other.over:
                self._steps.open_for(other)

    def _forget_empty(self, name: _Name, receiver: _Receiver) -> None:
        if not receiver.connections and not receiver.waiting and receiver.maker is None:
            self._receivers.pop(name, None)

    def _close(self, connection: Http2Connection[Attempt], now: float) -> None:
        connection.close()
        self._pool.drop(connection)
        name = _used_by(connection)
        receiver = self._receivers[name]
        receiver.with_headroom.pop(connection, None)
        receiver.connections.pop(connection, None)
        if receiver.maker is connection:
            receiver.maker = None
        self._serve(receiver, now)
        self._forget_empty(name, receiver)

    def _close_outdated(self) -> None:
        now = self._clock.monotonic()
        for connection in self._pool.outdated(now):
            self._close(connection, now)
        kept = len(self._pool)
        self._sweep = self._loop.call_later(_SWEEP_SECONDS, self._close_outdated) if kept else None

    def close(self) -> None:
        """Close all connections; the engine ends the attempts that were under way."""
        for receiver in self._receivers.values():
            for connection in receiver.connections:
                connection.close()
        self._receivers.clear()
        self._under_way.clear()
        self._pool.take_all()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
