"""The engine: many attempts at once through libcurl's multi interface, driven by the event loop. No threads of ours."""

import asyncio
from enum import Enum
from typing import Any

import pycurl

from poller_cluster.delivery.inflow import Inflow, Inflows, shut
from poller_cluster.delivery.naming import Naming
from poller_cluster.delivery.observed import transfer_of
from poller_cluster.delivery.policy import NetworkPolicy
from poller_cluster.delivery.readiness import Readiness, system_readiness
from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.resolver import Found
from poller_cluster.delivery.result import AttemptError, AttemptResult
from poller_cluster.delivery.settings import DeliverySettings
from poller_cluster.delivery.target import Target, target_of
from poller_cluster.delivery.transfer import BadRequest, MayStart, OnDone, Transfer
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.descriptors import affordable_sockets

_LOOK_ROUND_SECONDS = 1.0
"""How often attempts are asked whether their answers take too long."""


class _Phase(Enum):
    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class DeliveryEngine:
    """A Service that makes HTTP attempts. All calls belong to the event loop it was started on.

        new --start--> running --stop--> stopping --idle, or the grace is over--> stopped
         +---------------------stop------------------------------------------------^

    Settings and policy hold for its life; it can't be started twice.
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
        self._running: dict[Transfer, None] = {}
        self._inflows = Inflows(settings.response_bytes + settings.framing_bytes)
        self._look_round: asyncio.Handle | None = None
        self._capacity = settings.max_in_flight
        self._idle: list[Transfer] = []
        self._transfers: dict[Any, Transfer] = {}
        self._turn_asked = False
        self._timer: asyncio.Handle | None = None
        self._timer_rings = 0.0
        self._timer_due: float | None = None
        self._loop: asyncio.AbstractEventLoop
        self._readiness: Readiness
        self._naming: Naming
        self._multi: Any

    @property
    def in_flight(self) -> int:
        """Attempts under way."""
        return self._in_flight

    @property
    def capacity(self) -> int:
        """How many attempts may be under way at a time: as the settings say, or fewer where the process may not open
        as many descriptors (known after `start`)."""
        return self._capacity

    async def start(self) -> None:
        if self._phase is not _Phase.NEW:
            raise RuntimeError("a delivery engine is started once")
        self._loop = asyncio.get_running_loop()
        in_flight, kept = self._settings.max_in_flight, self._settings.max_idle_connections
        sockets = affordable_sockets(in_flight + kept)
        if sockets < in_flight + kept:
            in_flight = min(in_flight, sockets * 2 // 3)
            kept = sockets - in_flight
        self._capacity = in_flight
        self._readiness = system_readiness()
        self._naming = Naming(self._loop, settings=self._settings, schemes=self._policy.schemes)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, kept)
        self._loop.add_reader(self._readiness.fileno(), self._sockets_ready)
        self._phase = _Phase.RUNNING

    async def stop(self, grace_seconds: float | None = None) -> None:
        """Let attempts under way end for `grace_seconds` (None: as in the settings), end the rest as `stopped`."""
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
        """Make one attempt; `on_done` hears of its end, exactly once and not before this call has returned.

        `may_start` says whether this node may (still) act; it is asked now, at every socket opened, and right before
        the request is written: False ends the attempt as `not-trusted`. It is called from within libcurl: it must be
        quick and must not call the engine. Raises RuntimeError before `start` and when `capacity` attempts are under
        way.
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
        transfer = self._idle.pop() if self._idle else self._new_transfer()
        try:
            transfer.prepare(request, on_done=on_done, may_start=may_start)
        except BadRequest as error:
            self._idle.append(transfer)
            self._refuse(on_done, "bad-request", str(error), started_at_ms, final=True)
            return
        transfer.started_at_ms, transfer.started_monotonic = started_at_ms, started
        target = target_of(request.url)
        addresses = self._naming.find(transfer, target, self._named)
        if addresses is not None:
            try:
                self._give(transfer, target, addresses, 0.0)
            except pycurl.error:
                transfer.release()
                self._idle.append(transfer)
                raise
        self._in_flight += 1

    def _named(self, transfer: Transfer, found: Found | None) -> None:
        """A name was looked up; None: not within the time for connecting."""
        waited = self._clock.monotonic() - transfer.started_monotonic
        if found is None:
            detail = f"no connection within {transfer.connect_timeout_seconds:g} s"
            result = transfer.ended("timeout", detail, duration_seconds=waited)
        elif found.failure is not None:
            detail = "the name has no address" if found.failure == "no-address" else "no name server answered"
            result = transfer.ended("resolve-failed", detail, duration_seconds=waited)
        else:
            try:
                self._give(transfer, target_of(transfer.request.url), found.addresses, waited)
                return
            except pycurl.error:
                result = transfer.ended("internal", "libcurl refused the request", duration_seconds=waited)
        self._conclude(transfer, result)

    def _give(self, transfer: Transfer, target: Target | None, addresses: tuple[str, ...], waited: float) -> None:
        """Hand it to libcurl."""
        transfer.aim(target, addresses, waited_seconds=waited)
        self._multi.add_handle(transfer.curl)
        self._running[transfer] = None
        if self._look_round is None:
            self._look_round = self._loop.call_later(_LOOK_ROUND_SECONDS, self._end_slow_answers)

    def _refuse(
        self, on_done: OnDone, error: AttemptError, detail: str, started_at_ms: int, *, final: bool = False
    ) -> None:
        result = AttemptResult(
            status=None,
            error=error,
            detail=detail,
            nothing_sent=True,
            final=final,
            started_at_ms=started_at_ms,
            duration_seconds=0.0,
        )
        self._loop.call_soon(on_done, result)

    def _new_transfer(self) -> Transfer:
        transfer = transfer_of(
            settings=self._settings, policy=self._policy, inflows=self._inflows, observed=self._observe
        )
        self._transfers[transfer.curl] = transfer
        return transfer

    def _watch_socket(self, what: int, descriptor: int, multi: object, data: object) -> None:
        """libcurl tells its interest in a socket. Called from within libcurl."""
        if self._phase is _Phase.STOPPED:
            return
        if what == pycurl.POLL_REMOVE or what == pycurl.POLL_NONE:
            self._readiness.forget(descriptor)
        else:
            self._readiness.watch(descriptor, what)

    def _set_timer(self, milliseconds: int) -> None:
        """libcurl tells when it wants a turn at the latest (-1: no need). Called from within libcurl.

        It changes its mind with every request; the loop's timer is kept and asks for the rest when it rings early.
        """
        if self._phase is _Phase.STOPPED:
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
        if self._phase is _Phase.STOPPED:
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
        duration = self._clock.monotonic() - transfer.started_monotonic
        self._conclude(transfer, transfer.cut_short(duration_seconds=duration))

    def _end_slow_answers(self) -> None:
        """Asks those that have been under way for a while; the first ones began first."""
        self._look_round = None
        now, slow = self._clock.monotonic(), []
        for transfer in self._running:
            if now - transfer.started_monotonic < _LOOK_ROUND_SECONDS:
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
        duration = self._clock.monotonic() - transfer.started_monotonic
        self._conclude(transfer, transfer.result(code, message, duration_seconds=duration))

    def _conclude(self, transfer: Transfer, result: AttemptResult) -> None:
        on_done = transfer.on_done
        transfer.release()
        self._idle.append(transfer)
        self._in_flight -= 1
        if self._phase is _Phase.STOPPING and not self._in_flight:
            self._quiet.set()
        try:
            on_done(result)
        except Exception as error:
            self._loop.call_exception_handler({"message": "the end of an attempt was not handled", "exception": error})

    def _close(self) -> None:
        """End what is under way."""
        self._collect()
        self._phase = _Phase.STOPPED
        self._loop.remove_reader(self._readiness.fileno())
        self._readiness.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._look_round is not None:
            self._look_round.cancel()
        unnamed, running = self._naming.close(), list(self._running)
        self._running.clear()
        for transfer in running:
            self._multi.remove_handle(transfer.curl)
        now = self._clock.monotonic()
        for transfer in [*running, *unnamed]:
            duration = now - transfer.started_monotonic
            self._conclude(
                transfer, transfer.ended("stopped", "the engine was stopped meanwhile", duration_seconds=duration)
            )
        self._multi.close()
        for transfer in self._transfers.values():
            transfer.close()
        self._transfers.clear()
        self._idle.clear()
