"""Attempts over HTTP/2, through libcurl's multi interface, driven by the event loop; and who is called so."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import pycurl

from poller_cluster.delivery.attempt import Attempt
from poller_cluster.delivery.inflow import Inflow, Inflows, shut
from poller_cluster.delivery.observed import transfer_of
from poller_cluster.delivery.outcome import Verdict, because
from poller_cluster.delivery.policy import NetworkPolicy
from poller_cluster.delivery.readiness import system_readiness
from poller_cluster.delivery.result import AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.target import Target
from poller_cluster.delivery.transfer import Transfer
from scheduler_service.runtime.clock import Clock

_LOOK_ROUND_SECONDS = 1.0
"""How often attempts are asked whether their answers take too long."""
REMEMBERED: Final = 10_000
REMEMBERED_SECONDS: Final = 600.0

OnEnd = Callable[[Attempt, AttemptResult, bool | None], None]


class Http2Receivers:
    """Those that chose HTTP/2 in their last handshake or answer, remembered for ten minutes from then on. Of too many,
    the one not heard of for the longest time is forgotten."""

    def __init__(self) -> None:
        self._until: dict[Target, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def has(self, target: Target, now: float) -> bool:
        """`now` in monotonic seconds, as everywhere."""
        until = self._until.get(target)
        if until is None:
            return False
        if now < until:
            return True
        del self._until[target]
        return False

    def add(self, target: Target, now: float) -> None:
        self._until.pop(target, None)
        self._until[target] = now + REMEMBERED_SECONDS
        if len(self._until) > REMEMBERED:
            del self._until[next(iter(self._until))]

    def forget(self, target: Target) -> None:
        self._until.pop(target, None)


class Http2Attempts:
    """Of one engine, on its loop. `on_end` is called once for each attempt begun, not from within `begin`; with what
    the receiver spoke, where it answered."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Clock,
        policy: NetworkPolicy,
        settings: DeliverySettings,
        kept: int,
        observe: bool,
        on_end: OnEnd,
    ) -> None:
        """`kept`: how many connections are kept between requests."""
        self._loop = loop
        self._clock = clock
        self._policy = policy
        self._settings = settings
        self._observe = observe
        self._on_end = on_end
        self._closed = False
        self._running: dict[Transfer, None] = {}
        self._inflows = Inflows(settings.response_bytes + settings.framing_bytes)
        self._look_round: asyncio.Handle | None = None
        self._idle: list[Transfer] = []
        self._transfers: dict[Any, Transfer] = {}
        self._turn_asked = False
        self._timer: asyncio.Handle | None = None
        self._timer_rings = 0.0
        self._timer_due: float | None = None
        self._readiness = system_readiness()
        self._multi: Any = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, kept)
        self._loop.add_reader(self._readiness.fileno(), self._sockets_ready)

    def begin(self, attempt: Attempt) -> None:
        """Hand it to libcurl; its addresses are known."""
        waited = self._clock.monotonic() - attempt.started
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        try:
            transfer.prepare(attempt)
            transfer.aim(attempt.place.target, attempt.addresses, waited_seconds=waited)
            self._multi.add_handle(transfer.curl)
        except (pycurl.error, ValueError, TypeError):
            # The request was judged before; libcurl has its own view of it, or no memory.
            transfer.release()
            self._idle.append(transfer)
            verdict = Verdict("internal", "libcurl refused the request")
            self._loop.call_soon(self._on_end, attempt, attempt.without_status(verdict, attempt.started + waited), None)
            return
        self._running[transfer] = None
        if self._look_round is None:
            self._look_round = self._loop.call_later(_LOOK_ROUND_SECONDS, self._end_slow_answers)

    def _new_transfer(self) -> Transfer:
        transfer = transfer_of(
            settings=self._settings, policy=self._policy, inflows=self._inflows, observed=self._observe
        )
        self._transfers[transfer.curl] = transfer
        return transfer

    def _watch_socket(self, what: int, descriptor: int, multi: object, data: object) -> None:
        """libcurl tells its interest in a socket. Called from within libcurl."""
        if self._closed:
            return
        if what == pycurl.POLL_REMOVE or what == pycurl.POLL_NONE:
            self._readiness.forget(descriptor)
        else:
            self._readiness.watch(descriptor, what)

    def _set_timer(self, milliseconds: int) -> None:
        """libcurl tells when it wants a turn at the latest (-1: no need). Called from within libcurl.

        It changes its mind with every request; the loop's timer is kept and asks for the rest when it rings early.
        """
        if self._closed:
            return
        if milliseconds == 0:
            if not self._turn_asked:
                self._turn_asked = True
                self._loop.call_soon(self._take_turn)
        elif milliseconds < 0:
            self._timer_due = None
        else:
            self._timer_due = due = self._loop.time() + milliseconds / 1000
            if self._timer is not None and due < self._timer_rings:
                self._timer.cancel()
                self._timer = None
            if self._timer is None:
                self._ring_at(due)

    def _ring_at(self, due: float) -> None:
        # Kept here: uvloop answers a handle that does not know its instant where that is less than a millisecond away.
        self._timer, self._timer_rings = self._loop.call_at(due, self._timer_rang), due

    def _timer_rang(self) -> None:
        self._timer = None
        if self._timer_due is None:
            return
        if self._timer_due > self._loop.time():
            self._ring_at(self._timer_due)
            return
        self._timer_due = None
        self._take_turn()

    def _take_turn(self) -> None:
        self._turn_asked = False
        if self._closed:
            return
        _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        if running < len(self._running):
            self._collect()

    def _sockets_ready(self) -> None:
        socket_action, overrun = self._multi.socket_action, self._inflows.overrun
        running = before = len(self._running)
        for descriptor, bits in self._readiness.ready():
            if bits & pycurl.CSELECT_IN and (inflow := overrun(descriptor)) is not None:
                self._cut_off(inflow)
            else:
                _, running = socket_action(descriptor, bits)
        if running < before:
            self._collect()

    def _cut_off(self, inflow: Inflow) -> None:
        """More came on this connection than answers may be long."""
        shut(inflow)
        for transfer in [each for each in self._running if each.inflow is inflow]:
            self._cut_short(transfer)

    def _cut_short(self, transfer: Transfer) -> None:
        """Wait for no more of its answer. libcurl closes the connection, or resets the stream."""
        self._multi.remove_handle(transfer.curl)
        del self._running[transfer]
        self._conclude(transfer, transfer.cut_short(now=self._clock.monotonic()))

    def _end_slow_answers(self) -> None:
        """Asks those that have been under way for a while; the first ones began first."""
        self._look_round = None
        now, slow = self._clock.monotonic(), []
        for transfer in self._running:
            if now - transfer.attempt.started < _LOOK_ROUND_SECONDS:
                break
            if transfer.answering_seconds(now) >= self._settings.answer_seconds:
                slow.append(transfer)
        for transfer in slow:
            self._cut_short(transfer)
        if self._running and self._look_round is None:
            self._look_round = self._loop.call_later(_LOOK_ROUND_SECONDS, self._end_slow_answers)

    def _collect(self) -> None:
        """Finish the attempts that libcurl holds for done."""
        _, succeeded, failed = self._multi.info_read()
        for curl in succeeded:
            self._finish(curl, 0, "")
        for curl, code, message in failed:
            self._finish(curl, code, message)

    def _finish(self, curl: Any, code: int, message: str) -> None:
        transfer = self._transfers[curl]
        self._multi.remove_handle(curl)
        del self._running[transfer]
        self._conclude(transfer, transfer.result(code, message, now=self._clock.monotonic()))

    def _conclude(self, transfer: Transfer, result: AttemptResult) -> None:
        attempt, spoke_http2 = transfer.attempt, transfer.spoke_http2()
        transfer.release()
        self._idle.append(transfer)
        self._on_end(attempt, result, spoke_http2)

    def close(self) -> None:
        """End what is under way, as `stopped`."""
        self._collect()
        self._closed = True
        self._loop.remove_reader(self._readiness.fileno())
        self._readiness.close()
        for timer in (self._timer, self._look_round):
            if timer is not None:
                timer.cancel()
        self._timer = self._look_round = None
        running = list(self._running)
        self._running.clear()
        now = self._clock.monotonic()
        for transfer in running:
            self._multi.remove_handle(transfer.curl)
            self._conclude(transfer, transfer.attempt.without_status(because("stopped"), now))
        self._multi.close()
        for transfer in self._transfers.values():
            transfer.close()
        self._transfers.clear()
        self._idle.clear()
