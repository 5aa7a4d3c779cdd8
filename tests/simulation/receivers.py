"""Scripted receivers behind an engine double with the interface of the delivery engine."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from poller_cluster.delivery.request import CallbackRequest
from poller_cluster.delivery.result import AttemptError, AttemptResult
from scheduler_service.domain.end_notices import KeptAnswer
from scheduler_service.domain.ids import due_of
from scheduler_service.domain.verbs import Asked
from tests.simulation.sim_clock import SimClock


@dataclass(frozen=True)
class Call:
    """One request that a receiver got; `at_ms` is true wall time."""

    at_ms: float
    node: str
    client_id: str
    schedule_id: str
    due_ms: int
    attempt: int
    fence: int
    redelivery: bool
    url: str = ""
    cron_id: str | None = None
    nominal_due: str = ""
    token: str | None = None
    body: bytes = b""
    answer: int | AttemptError = 200
    """The answer of the receiver's script, whether or not it reaches a node."""


def said(call: Call, status: int) -> KeptAnswer:
    """The answer to a call whose request keeps it."""
    return KeptAnswer(status=status, headers=(("x-said", "so"),), body=call.schedule_id.encode())


def answers_ok(call: Call) -> int | AttemptError:
    """The answer of a healthy receiver."""
    return 200


@dataclass
class Receiver:
    """Answers calls. `script(call)` gives the status, or an error code: 'timeout' (it was called, but the answer is
    lost), 'connect-refused' (nothing was sent). `asks(call)` gives what an answer asks for beside its status.
    """

    script: Callable[[Call], int | AttemptError] = answers_ok
    asks: Callable[[Call], Asked | None] = lambda call: None
    latency_seconds: float = 0.01
    takes: Callable[[Call], float | None] = lambda call: None
    """Exactly how many seconds a call takes; None: about `latency_seconds`."""
    calls: list[Call] = field(default_factory=list)

    @property
    def well(self) -> bool:
        """Whether it answers every call successfully and soon."""
        return self.script is answers_ok and self.latency_seconds < 0.1


class SimEngine:
    """The engine of one simulated node. A crashed node's attempts reach the receiver, but their end is reported to
    nobody.
    """

    def __init__(
        self,
        *,
        node: str,
        clock: SimClock,
        receiver: Receiver,
        rng: random.Random,
        on_call: Callable[[Call], None],
        on_end: Callable[[Call], None],
        capacity: int = 500,
    ) -> None:
        self._node = node
        self._clock = clock
        self._receiver = receiver
        self._rng = rng
        self._on_call = on_call
        self._on_end = on_end
        self._capacity = capacity
        self._in_flight = 0
        self.dead = False

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def in_flight(self) -> int:
        return self._in_flight

    async def start(self) -> None:
        return

    async def stop(self, grace_seconds: float | None = None) -> None:
        while self._in_flight and not self.dead:
            await self._clock.sleep(0.05)

    def start_attempt(
        self, request: CallbackRequest, on_done: Callable[[AttemptResult], None], *, may_start: Callable[[], bool]
    ) -> None:
        started = self._clock.wall_ms()
        began = self._clock.monotonic()
        loop = asyncio.get_running_loop()
        self._in_flight += 1

        def finish(status: int | None, error: AttemptError | None, *, nothing_sent: bool) -> None:
            def report() -> None:
                if self.dead:
                    return
                self._in_flight -= 1
                if not nothing_sent:
                    self._on_end(call)
                on_done(
                    AttemptResult(
                        status=status,
                        error=error,
                        nothing_sent=nothing_sent,
                        started_at_ms=started,
                        duration_seconds=self._clock.monotonic() - began,
                        asked=None if status is None else self._receiver.asks(call),
                        answer=None if status is None or not request.keeps_answer else said(call, status),
                    )
                )

            self._clock.when_running(report)

        if not may_start():
            loop.call_soon(lambda: finish(None, "not-trusted", nothing_sent=True))
            return
        headers = dict(request.headers)
        call = Call(
            at_ms=self._clock.true_ms(),
            node=self._node,
            client_id=headers["Minutehand-Client"],
            schedule_id=headers["Minutehand-Schedule-Id"],
            due_ms=int(headers["x-due"]) if "x-due" in headers else due_of(UUID(headers["Minutehand-Schedule-Id"])),
            attempt=int(headers["Minutehand-Attempt"]),
            fence=int(headers["Minutehand-Fence"]),
            redelivery="Minutehand-Redelivery" in headers,
            url=request.url,
            cron_id=headers.get("Minutehand-Cron-Id"),
            nominal_due=headers["Minutehand-Due"],
            token=headers.get("Authorization", "").partition(" ")[2] or None,
            body=request.body,
        )
        answer = self._receiver.script(call)
        call = replace(call, answer=answer)
        if answer != "connect-refused":
            self._receiver.calls.append(call)
            self._on_call(call)
        latency = request.timeout_seconds if answer == "timeout" else self._receiver.latency_seconds
        latency *= 0.5 + self._rng.random()
        if answer != "timeout" and (takes := self._receiver.takes(call)) is not None:
            latency = takes
        if isinstance(answer, int):
            loop.call_later(latency, lambda: finish(answer, None, nothing_sent=False))
        else:
            loop.call_later(latency, lambda: finish(None, answer, nothing_sent=answer == "connect-refused"))
