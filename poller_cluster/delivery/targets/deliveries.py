"""Routes calls to the HTTP engine and to targets, and holds targets to their promises (see the package)."""

import asyncio
from typing import Final

from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.targets.ends import STOPPED, WITHDRAWN, End, TargetEnd, result_of
from poller_cluster.delivery.targets.port import EngineService, MayStart, OnDone, OpenKinds, Target
from scheduler_service.runtime.clock import Clock

UNKNOWN_KIND: Final = "unknown"
STOP_SECONDS: Final = 10.0
"""How long a target may take to stop."""


class Deliveries:
    """An `EngineService` over `calls`, the HTTP engine, and the targets of `kinds`, which it opens. Attempts of all
    kinds count against the capacity of `calls`."""

    def __init__(self, *, calls: EngineService, kinds: OpenKinds, clock: Clock, grace_seconds: float) -> None:
        self._calls = calls
        self._kinds = kinds
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._targets: dict[str, _Held] = {}
        self._under_way: dict[_Call, None] = {}
        self._quiet = asyncio.Event()
        self._stopping = False

    @property
    def capacity(self) -> int:
        return self._calls.capacity

    @property
    def in_flight(self) -> int:
        return self._calls.in_flight + len(self._under_way)

    async def start(self) -> None:
        await self._calls.start()
        try:
            for name, kind in self._kinds.items():
                held = self._targets[name] = _Held(kind.open(clock=self._clock, capacity=self.capacity))
                await held.target.start()
        except BaseException:
            await self.stop(0)
            raise

    async def stop(self, grace_seconds: float | None = None) -> None:
        self._stopping = True
        grace = self._grace_seconds if grace_seconds is None else grace_seconds
        deadline = self._clock.monotonic() + grace
        await self._calls.stop(grace_seconds)
        try:
            if self._under_way:
                async with asyncio.timeout(max(deadline - self._clock.monotonic(), 0)):
                    await self._quiet.wait()
        except TimeoutError:
            pass
        for held in self._targets.values():
            await self._stop(held.target)
        for call in list(self._under_way):
            call.ended(STOPPED)

    async def _stop(self, target: Target) -> None:
        """One that can't be stopped must not keep the process, nor the other targets, from stopping."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await target.stop()
        except Exception as error:
            _report(error, "a target was not stopped")

    def start_attempt(self, request: CallbackRequest, on_done: OnDone, *, may_start: MayStart) -> None:
        if request.target is None:
            self._calls.start_attempt(request, on_done, may_start=may_start)
            return
        if self.in_flight >= self.capacity:
            raise RuntimeError("as many attempts are under way as there may be")
        call = _Call(self, request, on_done, started_at_ms=self._clock.wall_ms(), started=self._clock.monotonic())
        self._under_way[call] = None
        self._send(call, request, may_start)
        call.starting = False

    def _send(self, call: "_Call", request: CallbackRequest, may_start: MayStart) -> None:
        assert request.target is not None
        held = self._targets.get(request.target.kind)
        if self._stopping:
            call.ended(STOPPED._replace(nothing_sent=True))
        elif held is None:
            call.ended(TargetEnd(End.UNAVAILABLE, "this process has no target of that kind", nothing_sent=True))
        elif held.calls >= self.capacity:
            call.ended(TargetEnd(End.UNAVAILABLE, "the target ends no calls any more", nothing_sent=True))
        elif not may_start():
            call.ended(WITHDRAWN)
        else:
            held.calls += 1
            call.held = held
            try:
                held.target.send(request, call.ended, may_start=may_start)
            except Exception as error:
                _report(error, "a call to a target failed")
                # It may have sent the call before.
                call.ended(TargetEnd(End.UNAVAILABLE, f"the target failed: {type(error).__name__}"))

    def over(self, call: "_Call") -> None:
        """Its end is decided."""
        self._under_way.pop(call, None)
        if self._stopping and not self._under_way:
            self._quiet.set()

    def result_of(self, call: "_Call", ended: TargetEnd) -> None:
        """Report the end of a call to who asked for it."""
        result = result_of(
            ended,
            # A bounded label of metrics: that of a kind that this process does not know is nothing it may grow by.
            kind=call.kind if call.kind in self._kinds else UNKNOWN_KIND,
            started_at_ms=call.started_at_ms,
            duration_seconds=max(self._clock.monotonic() - call.started, 0.0),
        )
        try:
            call.on_done(result)
        except Exception as error:
            _report(error, "the end of a call was not handled")


def _report(error: Exception, message: str) -> None:
    """A bug: told to the loop, and to no call."""
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


class _Held:
    """A target, and how many calls it has not ended."""

    __slots__ = ("calls", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.calls = 0


class _Call:
    """One call on its way: decided once, whatever its target does."""

    __slots__ = (
        "_decided",
        "_deliveries",
        "_loop",
        "_timeout_seconds",
        "_timer",
        "held",
        "kind",
        "on_done",
        "started",
        "started_at_ms",
        "starting",
    )

    def __init__(
        self, deliveries: Deliveries, request: CallbackRequest, on_done: OnDone, *, started_at_ms: int, started: float
    ) -> None:
        assert request.target is not None
        self.on_done, self.started_at_ms, self.started = on_done, started_at_ms, started
        self.kind = request.target.kind
        self.starting = True
        self.held: _Held | None = None
        self._decided = False
        self._deliveries = deliveries
        self._timeout_seconds = request.timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._timeout_seconds, self._timed_out)

    def ended(self, end: TargetEnd) -> None:
        """The target's end, or that of `Deliveries`. A target that breaks its promise and calls this in another thread
        does no harm: it counts on the loop."""
        if not _runs_here(self._loop):
            self._loop.call_soon_threadsafe(self.ended, end)
            return
        if self.held is not None:
            self.held.calls -= 1
            self.held = None
        if not self._decided:
            self._decide(end)

    def _timed_out(self) -> None:
        if not self._decided:
            self._decide(TargetEnd(End.TIMED_OUT, f"no end within {self._timeout_seconds:g} s"))

    def _decide(self, end: TargetEnd) -> None:
        self._decided = True
        self._timer.cancel()
        if self.starting:
            self._loop.call_soon(self._tell, end)
        else:
            self._tell(end)

    def _tell(self, end: TargetEnd) -> None:
        self._deliveries.over(self)
        self._deliveries.result_of(self, end)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
